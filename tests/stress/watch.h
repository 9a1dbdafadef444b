// SPDX-License-Identifier: Apache-2.0
// The watch over running rounds: their part and seed, the operations of their threads, and whether
// any operation makes progress.
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

// Stores the round that begins, for messages. `program` is the program that can repeat it.
void SetProgram(std::string program);
void SetRound(std::string_view part, std::uint64_t seed);
// Stores a description of the settings that the round drew.
void AddDescription(std::string_view description);

// Stores the current operation of a thread, a literal, in a slot; null frees the slot.
std::atomic<const char*>* TakePlace();
// Counts an operation that began or ended.
void ShowLife();

// Prints the round, the operation of each thread and the command that repeats the round, on stderr.
void PrintRound();
// Prints the same when a signal or a sanitizer ends the process.
void PrintRoundWhenKilled();

// Ends the process with status 3 if no operation begins or ends for a long time.
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
