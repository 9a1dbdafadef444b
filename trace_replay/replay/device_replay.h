// SPDX-License-Identifier: Apache-2.0
// Live replay on the device that the command line names. The host device needs no GPU, and hardly
// any memory unless buffers are written.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_DEVICE_REPLAY_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_DEVICE_REPLAY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/planned_placement.h"
#include "tidepool/pool.h"
#include "trace_replay/command.h"
#include "trace_replay/replay/live_replay.h"

namespace tidepool::tool {

struct DeviceReplayOptions {
  std::string device;  // "host" or "cuda"
  std::string trace;   // the file
  std::string policy;
  // The plan for a placement that needs one: the whole trace is one iteration. At most as high as
  // the pool. Null: the pool makes its own plans.
  std::shared_ptr<const PlacementPlan> plan;
  std::int64_t pool_bytes = 0;
  std::int64_t initial_bytes = 0;  // at most the pool
  PoolMemory memory = PoolMemory::kAutomatic;
  double growth = 0;
  bool remap = false;
  bool verify = false;
  std::string recording;  // the file to record to; empty: no recording
};

// Serves a trace from a pool on a device. The host device is as large as the pool. A failed replay
// leaves no recording. Errors name the file or the option.
absl::StatusOr<LiveReplay> ReplayOnDevice(const MeasuredTrace& measured,
                                          const DeviceReplayOptions& options);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_DEVICE_REPLAY_H_
