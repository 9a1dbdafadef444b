// SPDX-License-Identifier: Apache-2.0
// The parts' common tools: rounds of random work that a seed determines, counts of operations, and
// checks that print how to repeat a failure.
//
// The seed determines the work of each thread, but not how the threads interleave. A failure may
// need several rounds of its seed.
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

// The counts of a part over all rounds.
struct Counts {
  std::atomic<std::int64_t> rounds = 0;
  std::atomic<std::int64_t> operations = 0;
  std::atomic<std::int64_t> checks = 0;                   // of contents
  std::atomic<std::int64_t> faults = 0;                   // calls that failed on order
  std::array<std::atomic<std::int64_t>, 17> errors = {};  // returned by operations, by code
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
  // Draws a size, mostly small and rarely up to `most`, as requests of programs are.
  std::int64_t Bytes(std::int64_t most) {
    return Between(1, Chance(0.1) ? most : std::max<std::int64_t>(most / 40, 1));
  }
  std::uint64_t Seed() { return random_(); }

 private:
  std::mt19937_64 random_;
};

// Prints the part, the seed, the operation of each thread, the failed check, and the command that
// repeats the round. Ends the process with status 1. Thread-safe.
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
  // The random numbers of the thread that runs the round.
  Dice& dice() { return dice_; }

 private:
  Counts& counts_;
  Dice dice_;
};

// A thread of a round, which reports its current operation.
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
  // Returns whether an operation succeeded. Fails the round if it returned an unexpected error.
  bool Ended(const absl::Status& status, std::initializer_list<absl::StatusCode> expected);

 private:
  Counts& counts_;
  Dice dice_;
  std::atomic<const char*>* doing_;
};

// Runs `work` on a number of threads and waits for them.
void RunWorkers(Round& round, int threads, const std::function<void(Worker&)>& work);

// Fewer operations under sanitizers, where each of them takes longer.
int Steps(int usual);

struct Part {
  std::string_view name;
  void (*run)(Round& round);
};

// The parts, in the order of their turns.
void RunPoolRound(Round& round);
void RunPlannedRound(Round& round);
void RunRegionRound(Round& round);
void RunOffloaderRound(Round& round);
void RunExecutorRound(Round& round);
void RunRecorderRound(Round& round);
// Exists only if the CUDA Toolkit was found.
void RunCnmemRound(Round& round);

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_STRESS_H_
