// What a snapshot of PyTorch's caching allocator says about one device, whatever the version of
// PyTorch that wrote it: its segments with their blocks, the events of its history, annotations.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_SCHEMA_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_SCHEMA_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/trace/pytorch/pickle.h"

namespace tidepool::pytorch {

// The texts that mean something, as keys, actions, states or stages.
enum class SnapshotWord : std::uint8_t {
  kUnknown,
  // Keys.
  kSegments,
  kDeviceTraces,
  kExternalAnnotations,
  kDevice,
  kAddress,
  kTotalSize,
  kStream,
  kBlocks,
  kSize,
  kRequestedSize,
  kState,
  kFrames,
  kHistory,
  kRealSize,
  kAction,
  kAddr,
  kTimeUs,
  kUserMetadata,
  kCompileContext,
  kName,
  kFilename,
  kLine,
  kStage,
  kBeforeEvent,
  // Actions.
  kAlloc,
  kFree,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kOom,
  kSnapshot,
  // States of blocks.
  kActiveAllocated,
  kActiveAwaitingFree,
  kActivePendingFree,
  // Stages.
  kStart,
  kEnd,
};

// More than any device has; sums of a few are far from the ends of 64 bits.
inline constexpr std::int64_t kMostReservedBytes = std::int64_t{1} << 61;

struct SnapshotEvent {
  SnapshotWord action = SnapshotWord::kUnknown;
  bool has_time = false;
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::int64_t time_us = 0;
  PickleValue stream;
  PickleValue frames;
  PickleValue user_metadata;
  PickleValue compile_context;
};

struct SnapshotBlock {
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested_size = 0;
  bool awaits_free = false;  // its free was requested, and waits for streams
  PickleValue stream;
  PickleValue frames;
};

struct SnapshotSegment {
  std::int32_t device = 0;
  std::uint64_t address = 0;
  std::int64_t total_size = 0;
  PickleValue stream;
  PickleValue blocks;
};

struct SnapshotAnnotation {
  bool is_end = false;
  std::int64_t time_us = 0;
  std::int64_t before_event = -1;  // tidepool's own key: exactly where among the device's events
  std::string_view name;
};

struct SnapshotFrame {
  std::string_view name;
  std::string_view file;
  std::uint32_t line = 0;
};

// Reads a pickle by this schema. Unknown keys are ignored. However often the pickle refers to one
// object, all calls together take time in the order of its size: InvalidArgument beyond. Errors say
// where, "segments[3]: what is wrong, what was expected".
class SnapshotSchema {
 public:
  // `pickle` outlives the schema.
  explicit SnapshotSchema(const Pickle& pickle);

  // The first call: finds the parts, and reads the segments of all devices.
  absl::Status ReadRoot();
  const std::vector<SnapshotSegment>& segments() const { return segments_; }
  // The devices with events, ascending.
  const std::vector<std::int32_t>& devices_with_events() const { return devices_with_events_; }

  absl::StatusOr<std::vector<SnapshotEvent>> Events(std::int32_t device);
  // The blocks of the device that are not free, by address.
  absl::StatusOr<std::vector<SnapshotBlock>> LiveBlocks(std::int32_t device);
  absl::StatusOr<std::vector<SnapshotAnnotation>> Annotations(std::int32_t device);
  absl::StatusOr<SnapshotFrame> Frame(PickleValue frame);

  // Counts `steps` of work against what a pickle of this size may take.
  absl::Status Spend(std::size_t steps);

 private:
  static absl::Status SpendOf(std::size_t count, std::size_t* left);
  template <typename Visit>
  absl::Status ForEach(PickleValue list, absl::string_view what, const Visit& visit);
  template <typename Visit>
  absl::Status ForEachEntry(PickleValue dict, const Visit& visit);

  SnapshotWord WordOf(PickleValue value);
  absl::Status ReadDevices();
  absl::Status ReadSegments();
  absl::StatusOr<SnapshotSegment> Segment(PickleValue dict);
  absl::StatusOr<SnapshotEvent> Event(PickleValue dict);
  absl::Status AddBlocks(const SnapshotSegment& segment, std::vector<SnapshotBlock>& blocks);
  // A block at `address` unless it says another; nothing when it is free. Moves `address` on.
  absl::StatusOr<std::optional<SnapshotBlock>> Block(PickleValue dict, std::uint64_t* address);
  absl::Status AddHistory(PickleValue history, SnapshotBlock& block);

  absl::Status TakeInteger(PickleValue value, std::int64_t* integer) const;
  absl::Status TakeSize(PickleValue value, std::int64_t most, std::int64_t* size) const;
  absl::Status TakeAddress(PickleValue value, std::uint64_t* address) const;
  absl::Status TakeDevice(PickleValue value, std::int32_t* device) const;
  absl::Status TakeText(PickleValue value, std::string_view* text) const;

  const Pickle& pickle_;
  std::vector<std::uint8_t> words_;  // by text: the word plus 1, or 0 before it was looked up
  std::size_t steps_left_;
  std::size_t dicts_left_;
  PickleValue segment_list_;
  PickleValue traces_;
  PickleValue annotations_;
  std::vector<SnapshotSegment> segments_;
  std::vector<std::int32_t> devices_with_events_;
};

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_SCHEMA_H_
