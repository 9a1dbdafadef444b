// SPDX-License-Identifier: Apache-2.0
// Fork count: lets code detect that it runs in a forked child. A child has the memory of its parent
// but none of its threads, so waiting for such a thread would never end.
#ifndef TIDEPOOL_LIB_TRACE_RECORDER_FORK_COUNT_H_
#define TIDEPOOL_LIB_TRACE_RECORDER_FORK_COUNT_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace tidepool::recorder {

inline std::atomic<std::uint64_t> fork_count = 0;

// Returns the number of forks between this process and the process that first called CountForks.
// Costs a memory read, while getpid() is a system call.
inline std::uint64_t ForkCount() { return fork_count.load(std::memory_order_relaxed); }

// Starts to count forks with the first call, and returns the count. Thread-safe.
inline std::uint64_t CountForks() {
  [[maybe_unused]] static const int is_counting =
      pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  return ForkCount();
}

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_TRACE_RECORDER_FORK_COUNT_H_
