// SPDX-License-Identifier: Apache-2.0
// Whether a benchmark of several threads has the machine to itself.
#ifndef TIDEPOOL_BENCH_SUPPORT_IDLE_MACHINE_H_
#define TIDEPOOL_BENCH_SUPPORT_IDLE_MACHINE_H_

#include <time.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

namespace tidepool::bench {

// A machine with at least this share is idle: as many threads as it has processors lose at most 3 %
// of their time to other programs.
inline constexpr double kIdleShare = 0.97;

// Returns the least share of a processor that a thread has while one thread for each processor
// spins for a fifth of a second.
inline double ProcessorShare() {
  using Clock = std::chrono::steady_clock;
  const auto processors = std::max(1U, std::thread::hardware_concurrency());
  std::barrier start(static_cast<std::ptrdiff_t>(processors));
  std::vector<double> shares(processors);
  std::vector<std::thread> threads;
  const auto processor_seconds = [] {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  for (double& share : shares) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      const Clock::time_point begin = Clock::now();
      const double processor_begin = processor_seconds();
      while (Clock::now() - begin < std::chrono::milliseconds(200)) {
      }
      const std::chrono::duration<double> elapsed = Clock::now() - begin;
      share = (processor_seconds() - processor_begin) / elapsed.count();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::ranges::min_element(shares);
}

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_IDLE_MACHINE_H_
