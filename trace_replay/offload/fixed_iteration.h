// SPDX-License-Identifier: Apache-2.0
// Devices and an executor for a schedule with fixed addresses or pages. Tasks take the times of the
// program.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_FIXED_ITERATION_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_FIXED_ITERATION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/host_compressor.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"
#include "trace_replay/offload/words_of_density.h"

namespace tidepool::tool {

struct FixedIterationOptions {
  // "host", where each device has a link of its own with the rate of its copies out, or "cuda",
  // which has one GPU.
  std::string device = "host";
  Machine machine = {};
  // The host compresses the copies with a density. Nothing: devices do, and on the host a
  // HostCompressor makes these copies. Tasks of the first iteration fill the data that they write
  // with the highest density of these copies, so that it has one.
  std::optional<HostCompression> host_compression = std::nullopt;
  // ExecutorOptions tells the meaning of these.
  std::function<void(std::size_t step)> on_step = nullptr;
  int probe_every = 0;
  std::function<void(std::size_t data, const DensityEstimate& estimate)> on_density = nullptr;
  // On the host device: the densities of activations, by iteration; the last holds for all later
  // ones. Empty: tasks write nothing.
  std::vector<double> densities = {};
};

// Returns the schedule with the pages of the devices that a FixedIteration makes: WithPagesOf. The
// pages of "host" are as small as those of this machine.
absl::StatusOr<Schedule> WithPagesOfDevice(const std::string& device, const Schedule& schedule);

class FixedIteration {
 public:
  // `graphs` outlive the iteration. Errors are those of LowerSchedule and Executor::Create.
  static absl::StatusOr<std::unique_ptr<FixedIteration>> Create(
      const FixedIterationOptions& options, absl::Span<const TaskGraph> graphs,
      const Schedule& schedule);

  absl::StatusOr<Timeline> Run();
  // Carries another schedule out from the next iteration on.
  absl::Status Reschedule(const Schedule& schedule);
  std::string device_name() const { return devices_.front()->name(); }

 private:
  FixedIteration(const FixedIterationOptions& options, absl::Span<const TaskGraph> graphs)
      : options_(options), graphs_(graphs) {}

  absl::StatusOr<Program> Lower(const Schedule& schedule) const;
  absl::Status Start(const Schedule& schedule);
  absl::Status MakeDevices(const Schedule& schedule);
  absl::Status MakeCompressor(const Schedule& schedule);
  absl::Status MakePipeline();
  std::vector<Device*> Devices() const;
  absl::Status Launch(const TaskLaunch& launch);
  absl::Status Add(const ReceivedGradient& gradient);
  absl::Status WriteWords(const TaskLaunch& launch);
  absl::Status Fill(const HomeFill& fill);
  Device& DeviceOf(const TaskLaunch& launch) {
    return *devices_[launch.device == kHostDevice ? 0 : launch.device];
  }

  const FixedIterationOptions options_;
  const absl::Span<const TaskGraph> graphs_;
  Program program_;
  std::size_t next_ = 0;       // operation of the program
  std::size_t iteration_ = 0;  // number of the current one, from 1
  // Words that tasks write, by iteration; empty: they write nothing.
  std::vector<WordPattern> words_;
  bool writes_once_ = false;  // in the first iteration alone
  // In the order of their use: each member uses members before it.
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<HostCompressor> compressor_;  // null: copies of devices are raw
  std::unique_ptr<PinnedPool> staging_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<CompressionPipeline> pipeline_;  // null: the host compresses nothing
  std::unique_ptr<Executor> executor_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_FIXED_ITERATION_H_
