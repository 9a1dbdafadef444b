// SPDX-License-Identifier: Apache-2.0
// Live replay: a trace served by a pool on a device, call by call.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_LIVE_REPLAY_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_LIVE_REPLAY_H_

#include <optional>

#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"
#include "trace_replay/replay/latencies.h"

namespace tidepool::tool {

struct LiveReplay {
  // The fields of a replay by placement alone. Offsets are Pool::OffsetOf, and are always kept.
  ReplayResult placement;
  PoolStats pool;  // at the end of the trace
  double seconds = 0;
  // Latencies of single calls, including the two clock readings around each. Refused allocations do
  // not count. A pair is an allocation and its free.
  std::optional<LatencySummary> allocate;
  std::optional<LatencySummary> free;
  std::optional<LatencySummary> pair;
};

struct LiveReplayOptions {
  // The replay waits for plans of the pool outside the measured calls.
  PoolOptions pool;
  // Records the pool unless null. Closed at the end of the trace, before the replay frees the
  // allocations that are still live.
  Recorder* recorder = nullptr;
  // Writes each buffer, and checks it right before its free or at the end. The host must be able to
  // read and write the device's memory. If false, no memory is touched.
  bool verify = false;
};

// Serves `trace` from a new pool on `device`, with one stream of the device for each stream of the
// trace, and one region for each region of the trace, which pauses and resumes as the trace tells.
// Without `verify` a pause keeps no contents, because none were written. A plan (PoolOptions::plan)
// has no regions, so with a plan all allocations are of the pool, and none pauses.
// A refused allocation is skipped, and so is its free. Failures and waits of the trace are
// not replayed. DataLoss, with the allocation's id, for a damaged buffer; otherwise the errors of
// the pool, the device and the recorder.
absl::StatusOr<LiveReplay> ReplayLive(const Trace& trace, Device& device,
                                      const LiveReplayOptions& options);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_LIVE_REPLAY_H_
