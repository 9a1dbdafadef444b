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
  // In the words of a replay by placement alone. Offsets are the pool's (Pool::OffsetOf) and are
  // always kept.
  ReplayResult placement;
  PoolStats pool;  // at the end of the trace
  double seconds = 0;
  // Of single calls, the two clock readings around each included; those of refused allocations are
  // left out. A pair is an allocation and its own free.
  std::optional<LatencySummary> allocate;
  std::optional<LatencySummary> free;
  std::optional<LatencySummary> pair;
};

struct LiveReplayOptions {
  // Plans that the pool makes are awaited outside the latencies, as if they took no time.
  PoolOptions pool;
  // Records the pool; none when null. It is closed when the trace ends, before the replay frees
  // what is still live.
  Recorder* recorder = nullptr;
  // Write every buffer and check it right before its free, or at the end. The host must be able to
  // read and write the device's memory. Otherwise no memory is touched.
  bool verify = false;
};

// Serves `trace` from a new pool on `device`, each stream of the trace on one of the device. A
// refused allocation is left out, and so is its free; failures and waits of the trace are not
// replayed. DataLoss, with the allocation's id, when a buffer was damaged; otherwise the errors of
// the pool, the device and the recorder.
absl::StatusOr<LiveReplay> ReplayLive(const Trace& trace, Device& device,
                                      const LiveReplayOptions& options);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_LIVE_REPLAY_H_
