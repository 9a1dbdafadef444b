// Timeline: when everything of a training iteration happens, as predicted by an event-driven
// simulator with a clock of its own, or as measured by an executor (executor.h).
//
// The simulator runs a Schedule on a machine of one compute stream, one stream of copies for each
// direction, and a host whose steps take no time unless it waits. Memory is placed by the policies
// and the block map that serve live pools, so fragmentation is in the result.
#ifndef TIDEPOOL_SCHEDULE_TIMELINE_H_
#define TIDEPOOL_SCHEDULE_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/compress/compression_profile.h"
#include "tidepool/export.h"
#include "tidepool/planned_placement.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/schedule.h"

namespace tidepool {

struct TimelineOptions {
  // The pool: cut to a multiple of the alignment.
  std::int64_t memory_bytes = 0;
  std::int64_t alignment = 512;
  std::string placement = "best-fit";
  // For the placement `planned`, which takes that of PlanSchedule when there is none, made again
  // without the kOffload of what stays for want of host memory; where that is too high, memory is
  // placed by best-fit. What lies in the way of an allocation and is going out is waited for.
  std::shared_ptr<const PlacementPlan> plan = nullptr;
  // Of the link: at least 1, and may be infinite; and before each copy, up to kMostTaskSeconds.
  double out_bytes_per_second = 12e9;
  double in_bytes_per_second = 12e9;
  double transfer_latency_seconds = 0;
  // As the papers have it, instead of both directions at once.
  bool one_transfer_at_a_time = false;
  // For what was sent out; compressed data takes what it is expected to.
  std::int64_t host_bytes = std::numeric_limits<std::int64_t>::max();
  CompressionProfile compression = {};
  int compression_threads = 0;  // 0: as many as the profile recommends
  // Whether memory of data that is out by then is given back before each allocation (vDNN++, IV-A),
  // or only when there is no room for one.
  bool releases_early = true;
};

// What a stream did. Seconds count from the start of the iteration.
struct TimelineEvent {
  enum class Kind : std::uint8_t { kTask, kOffload, kPrefetch };

  Kind kind = Kind::kTask;
  std::size_t index = 0;  // of the task or of the data
  std::size_t step = 0;   // of the schedule
  double start = 0;
  double end = 0;
};

// Time in which the compute stream waits before a task.
struct TimelineStall {
  enum class Reason : std::uint8_t {
    kData,         // that the task uses is still being fetched
    kMemory,       // there was no room until data had left, or a copy of freed data was over
    kSynchronize,  // the schedule has the host wait
  };

  std::size_t task = 0;
  double start = 0;
  double seconds = 0;
  Reason reason = Reason::kData;
  std::size_t data = 0;  // that was waited for; of kSynchronize, the one that was over last
};
// "data", "memory", "synchronize".
TIDEPOOL_EXPORT std::string_view StallReasonName(TimelineStall::Reason reason);

// From `seconds` on.
struct MemoryPoint {
  double seconds = 0;
  std::int64_t bytes = 0;
};

struct Timeline {
  double seconds = 0;                 // of the iteration, until everything is over
  double compute_seconds = 0;         // of all tasks
  std::vector<TimelineEvent> events;  // in the order of their starts; of equals, of steps
  std::vector<TimelineStall> stalls;  // in the order of tasks
  std::int64_t bytes_out = 0;
  std::int64_t bytes_in = 0;
  std::int64_t stayed = 0;  // offloads for which the host had no room when they were to begin
  // What is live on the device, in aligned sizes, and what is kept on the host, from the start of
  // the copy out to the end of the copy in; times ascend and differ, as do bytes from one point to
  // the next.
  std::vector<MemoryPoint> device_memory;
  std::vector<MemoryPoint> host_memory;
  std::int64_t peak_device_bytes = 0;
  std::int64_t peak_host_bytes = 0;
  // Of the pool: the highest end of any block. More than `peak_device_bytes` by fragmentation, and
  // by data that was out but whose memory was not needed.
  std::int64_t pool_bytes = 0;
  // That was followed, of the placement `planned`.
  std::shared_ptr<const PlacementPlan> plan = nullptr;
  // The schedule with a kAwait wherever memory was given back, and without the kOffload of what
  // stayed: what it asks of a pool, in which order, does not depend on times any more, and with the
  // same pool it is served at the same offsets.
  Schedule resolved;
};

// `graph` is valid. Errors: those of ValidateSchedule; InvalidArgument for options out of range;
// NotFound for a placement policy that there is not; ResourceExhausted when an allocation cannot be
// served even after everything has left: the text names the task, the data, its bytes, and what
// holds the memory. Thread-safe. O((steps + uses) log blocks).
TIDEPOOL_EXPORT absl::StatusOr<Timeline> Simulate(const TaskGraph& graph, const Schedule& schedule,
                                                  const TimelineOptions& options);

// As a Chrome trace, which Perfetto opens: streams as tracks, stalls among them, and memory as
// counters. Leaves no half a file behind; gzip where the path ends in ".gz".
TIDEPOOL_EXPORT absl::Status WriteTimeline(const TaskGraph& graph, const Timeline& timeline,
                                           const std::filesystem::path& path);
TIDEPOOL_EXPORT std::string TimelineJson(const TaskGraph& graph, const Timeline& timeline);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_TIMELINE_H_
