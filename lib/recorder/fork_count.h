// How often the process was forked: a child has the memory of its parent and none of its threads,
// so what waits for a thread must know that it is in one.
#ifndef TIDEPOOL_LIB_RECORDER_FORK_COUNT_H_
#define TIDEPOOL_LIB_RECORDER_FORK_COUNT_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace tidepool::recorder {

inline std::atomic<std::uint64_t> fork_count = 0;

// How many forks lie between this process and the one that first called CountForks. To read it
// costs as much as a variable, where getpid() is a system call.
inline std::uint64_t ForkCount() { return fork_count.load(std::memory_order_relaxed); }

// Counts forks from the first call on, and says how many there were. Thread-safe.
inline std::uint64_t CountForks() {
  [[maybe_unused]] static const int is_counting =
      pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  return ForkCount();
}

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_RECORDER_FORK_COUNT_H_
