// SPDX-License-Identifier: Apache-2.0
// A device, pools and an executor for a schedule that was simulated.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_LIVE_ITERATION_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_LIVE_ITERATION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/timeline.h"
#include "trace_replay/offload/sparse_tasks.h"

namespace tidepool::tool {

struct LiveIterationOptions {
  std::string device = "host";  // or "cuda"
  Machine machine = {};
  TimelineOptions placing = {};
  // Called before each step of an iteration; see ExecutorOptions.
  std::function<void(std::size_t step)> on_step = nullptr;
  // ExecutorOptions tells their meaning. With probes, every copy may become a compressed or a raw
  // one.
  int probe_every = 0;
  std::function<void(std::size_t data, const DensityEstimate& estimate)> on_density = nullptr;
  // On the host device: the densities of activations, by iteration; empty: tasks write nothing.
  std::vector<double> densities = {};
};

class LiveIteration {
 public:
  // Carries out `simulated.resolved` at the offsets of the simulation. `graph` must outlive the
  // iteration. Errors are those of the device.
  static absl::StatusOr<std::unique_ptr<LiveIteration>> Create(const LiveIterationOptions& options,
                                                               const TaskGraph& graph,
                                                               const Timeline& simulated);

  absl::StatusOr<Timeline> Run();
  // Carries out another simulation's schedule from the next iteration on.
  absl::Status Reschedule(const Timeline& simulated) {
    return executor_->Reschedule(simulated.resolved);
  }
  std::string device_name() const { return device_->name(); }

 private:
  LiveIteration() = default;

  absl::Status Start(const LiveIterationOptions& options, const TaskGraph& graph,
                     const Timeline& simulated);
  absl::Status MakeExecutor(const LiveIterationOptions& options, const TaskGraph& graph,
                            const Timeline& simulated);
  LaunchTask TasksOf(const LiveIterationOptions& options, const TaskGraph& graph);
  absl::Status MakePools(const LiveIterationOptions& options, const Timeline& simulated);
  absl::Status MakePipeline(const LiveIterationOptions& options, const Timeline& simulated);

  // In the order of their use: each member uses members before it.
  std::unique_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<PinnedPool> host_;
  std::unique_ptr<PinnedPool> staging_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<CompressionPipeline> pipeline_;
  std::unique_ptr<Offloader> offloader_;
  std::unique_ptr<SparseTasks> sparse_tasks_;  // null: tasks write nothing
  std::unique_ptr<Executor> executor_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_LIVE_ITERATION_H_
