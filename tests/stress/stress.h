// What the parts of the stress share: rounds of random work that a seed decides, counts of what was
// done, and checks that say how to see a failure again.
//
// The seed decides what each thread does. How threads meet it does not decide: a failure may need
// several rounds of its seed.
#ifndef TIDEPOOL_TESTS_STRESS_STRESS_H_
#define TIDEPOOL_TESTS_STRESS_STRESS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tidepool::stress {

// Of a part, over all rounds.
struct Counts {
  std::atomic<std::int64_t> rounds = 0;
  std::atomic<std::int64_t> operations = 0;
  std::atomic<std::int64_t> checks = 0;  // of contents
  std::atomic<std::int64_t> faults = 0;  // calls that failed because they were told to
  std::array<std::atomic<std::int64_t>, 17> errors = {};  // that operations returned, by code
};

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  std::size_t Below(std::size_t bound) { return random_() % bound; }
  std::int64_t Between(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_() % (static_cast<std::uint64_t>(most - least) + 1));
  }
  bool Chance(double probability) {
    return static_cast<double>(random_() >> 11U) * 0x1p-53 < probability;
  }
  template <typename Values>
  const auto& Pick(const Values& values) {
    return values[Below(values.size())];
  }
  // Mostly small, seldom up to `most`, as requests of programs are.
  std::int64_t Bytes(std::int64_t most) {
    return Between(1, Chance(0.1) ? most : std::max<std::int64_t>(most / 40, 1));
  }
  std::uint64_t Seed() { return random_(); }

 private:
  std::mt19937_64 random_;
};

// Prints the part, the seed, what each thread is doing, `what`, and the command for another try;
// ends the process with status 1. Thread-safe.
[[noreturn]] void Fail(std::string_view what);

template <typename... Details>
void Check(bool holds, const Details&... details) {
  if (!holds) [[unlikely]] {
    Fail(absl::StrCat(details...));
  }
}
void CheckOk(const absl::Status& status, const char* what);

// One round of a part.
class Round {
 public:
  Round(std::uint64_t seed, Counts& counts) : counts_(counts), dice_(seed) {}

  Counts& counts() { return counts_; }
  // Of the thread that runs the round.
  Dice& dice() { return dice_; }

 private:
  Counts& counts_;
  Dice dice_;
};

// A thread of a round, which says what it does.
class Worker {
 public:
  Worker(Round& round, std::uint64_t seed);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Counts& counts() { return counts_; }
  Dice& dice() { return dice_; }
  // Counts an operation. `operation` is a literal.
  void Begins(const char* operation);
  // Whether an operation ended well. Fails where it returned an error that is not expected.
  bool Ended(const absl::Status& status, std::initializer_list<absl::StatusCode> expected);

 private:
  Counts& counts_;
  Dice dice_;
  std::atomic<const char*>* doing_;
};

// Runs `work` on so many threads and waits for them.
void RunWorkers(Round& round, int threads, const std::function<void(Worker&)>& work);

// Fewer operations under sanitizers, where each takes longer.
int Steps(int usual);

struct Part {
  std::string_view name;
  void (*run)(Round& round);
};

// Parts, in the order in which they take turns.
void RunPoolRound(Round& round);
void RunPlannedRound(Round& round);
void RunOffloaderRound(Round& round);
void RunExecutorRound(Round& round);
void RunRecorderRound(Round& round);
// Where there is a CUDA Toolkit.
void RunCnmemRound(Round& round);

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_STRESS_H_
