// What the program watches while rounds run: which part and seed, what threads do, and whether
// anything goes on.
#ifndef TIDEPOOL_TESTS_STRESS_WATCH_H_
#define TIDEPOOL_TESTS_STRESS_WATCH_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tidepool::stress {

// Of the round that begins, for messages. `program` is what another try is made with.
void SetProgram(std::string program);
void SetRound(std::string_view part, std::uint64_t seed);
// What the round drew, for people.
void AddDescription(std::string_view description);

// A place for what a thread is doing, a literal; null gives the place back.
std::atomic<const char*>* TakePlace();
// Says that an operation began or ended.
void ShowLife();

// Prints the round and the operation of each thread, and how to try again, on stderr.
void PrintRound();
// Does so when a signal or a sanitizer ends the process.
void PrintRoundWhenKilled();

// Ends the process with status 3 when no operation begins or ends for long.
class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Watch();

  std::mutex mutex_;
  std::condition_variable ends_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_WATCH_H_
