// SPDX-License-Identifier: Apache-2.0
// A device, pools and an executor for a schedule that was simulated.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_LIVE_ITERATION_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_LIVE_ITERATION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/compress/compression_pipeline.h"
#include "tidepool/device.h"
#include "tidepool/host/page_pool.h"
#include "tidepool/host/pinned_pool.h"
#include "tidepool/pool.h"
#include "tidepool/schedule/executor.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/offloader.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool::tool {

struct LiveIterationOptions {
  std::string device = "host";  // or "cuda"
  TimelineOptions machine = {};
  // Called before each step of an iteration; see ExecutorOptions.
  std::function<void(std::size_t step)> on_step = nullptr;
};

class LiveIteration {
 public:
  // Carries out `simulated.resolved` at the offsets of the simulation. `graph` must outlive the
  // iteration. Errors are those of the device.
  static absl::StatusOr<std::unique_ptr<LiveIteration>> Create(const LiveIterationOptions& options,
                                                               const TaskGraph& graph,
                                                               const Timeline& simulated);

  absl::StatusOr<Timeline> Run() { return executor_->Run(); }
  std::string device_name() const { return device_->name(); }

 private:
  LiveIteration() = default;

  absl::Status Start(const LiveIterationOptions& options, const TaskGraph& graph,
                     const Timeline& simulated);
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
  std::unique_ptr<Executor> executor_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_LIVE_ITERATION_H_
