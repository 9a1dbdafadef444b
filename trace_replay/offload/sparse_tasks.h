// SPDX-License-Identifier: Apache-2.0
// Tasks on the host device that write activations of a chosen density.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_SPARSE_TASKS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_SPARSE_TASKS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/graph.h"

namespace tidepool::tool {

// Returns the densities of "0.9,0.5". InvalidArgument, with the text, unless each is from 0 to 1.
absl::StatusOr<std::vector<double>> ParseDensities(std::string_view text);

// Words to fill data with.
using WordPattern = std::shared_ptr<const std::vector<std::uint32_t>>;
// Returns words of which this share is not zero. The same for the same density.
WordPattern WordsOfDensity(double density);
// Fills memory with the words, again and again.
void FillWithWords(const WordPattern& words, void* to, std::int64_t bytes);

class SparseTasks {
 public:
  // Tasks of iteration i write words of which `densities[i]` are not zero; the last density holds
  // for all later iterations. `device` and `graph` outlive the tasks.
  SparseTasks(Device* device, const TaskGraph& graph, const std::vector<double>& densities);

  void BeginIteration() { ++iteration_; }
  // Queues the writing of the task's activations, and then its sleep.
  absl::Status Launch(const TaskLaunch& launch) const;

 private:
  const WordPattern& Current() const;

  Device* const device_;
  const TaskGraph& graph_;
  const LaunchTask sleep_;
  std::vector<WordPattern> patterns_;  // by iteration
  std::size_t iteration_ = 0;          // number of the current one, from 1
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_SPARSE_TASKS_H_
