// SPDX-License-Identifier: Apache-2.0
// Notes of `run` on standard error: the cost of a run beforehand, and its progress on a terminal.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_RUN_NOTES_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_RUN_NOTES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tidepool/training/timeline.h"

namespace tidepool::tool {

// The memory and the time that a run on the host takes.
struct RunCost {
  std::int64_t pool_bytes = 0;     // in the place of device memory
  std::int64_t offload_bytes = 0;  // for offloaded data
  double seconds = 0;
};
// Estimates the cost of `iterations` of a simulated iteration. Each byte of memory is touched once,
// and each byte of a copy in each iteration, at 4 GB/s: an assumption.
RunCost CostOfRun(const Timeline& simulated, int iterations);
// Returns "8.0 GiB of memory for the pool, 1.0 GiB for offloaded data, about 12 s".
std::string RunCostText(const RunCost& cost);
// Returns InvalidArgument if the host has less memory available. An unknown amount suffices.
absl::Status CheckRunMemory(const RunCost& cost, std::optional<std::int64_t> available_bytes);

// Returns a warning if more programs want a processor than there are processors; "" otherwise.
// `load` is their average number.
std::string BusyText(double load, int processors);
// Returns the warning for this machine and the last minute.
std::string BusyText();

// A line on a terminal that shows the iteration and its step. Prints nothing elsewhere.
class RunProgress {
 public:
  RunProgress(int iterations, std::size_t steps);
  ~RunProgress();
  RunProgress(const RunProgress&) = delete;
  RunProgress& operator=(const RunProgress&) = delete;

  // Counts from 0.
  void Begin(int iteration);
  void Show(std::size_t step);

 private:
  const int iterations_;
  const std::size_t steps_;
  const bool is_terminal_;
  int iteration_ = 0;
  int shown_percent_ = -1;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_RUN_NOTES_H_
