// SPDX-License-Identifier: Apache-2.0
// Work on all processors.
#ifndef TIDEPOOL_TRACE_REPLAY_SIDE_BY_SIDE_H_
#define TIDEPOOL_TRACE_REPLAY_SIDE_BY_SIDE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

namespace tidepool::tool {

// Calls `work(i)` for each i below `count`, in this thread and in others, one a processor. Starts
// no thread where there is one processor, as in a browser, or where the system has none left.
template <typename Work>
void SideBySide(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto work_on = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> helpers;
  const std::size_t threads =
      std::min<std::size_t>(count, std::max(1U, std::thread::hardware_concurrency()));
  try {
    while (helpers.size() + 1 < threads) helpers.emplace_back(work_on);
  } catch (const std::system_error&) {  // the threads so far do all the work
  }
  work_on();
  for (std::thread& helper : helpers) helper.join();
}

// Runs parts of an answer that do not need one another.
inline void SideBySide(const std::vector<std::function<void()>>& parts) {
  SideBySide(parts.size(), [&](std::size_t i) { parts[i](); });
}

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_SIDE_BY_SIDE_H_
