// SPDX-License-Identifier: Apache-2.0
// Snapshot schema: reads segments with their blocks, events of the history, and annotations from
// snapshots of PyTorch's caching allocator, for all versions of PyTorch.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_SCHEMA_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_SCHEMA_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/trace/pytorch/pickle.h"
#include "tidepool/trace/trace.h"

namespace tidepool::pytorch {

// Known texts: keys, actions, states and stages.
enum class SnapshotWord : std::uint8_t {
  kUnknown,
  // Keys.
  kSegments,
  kDeviceTraces,
  kHostSegments,
  kHostTraces,
  kExternalAnnotations,
  kAllocatorSettings,
  kDevice,
  kAddress,
  kTotalSize,
  kStream,
  kSegmentType,
  kSegmentPoolId,
  kIsExpandable,
  kBlocks,
  kSize,
  kRequestedSize,
  kState,
  kFrames,
  kHistory,
  kRealSize,
  kAction,
  kAddr,
  kDeviceFree,
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
  // Kinds of segments; all others are large.
  kSmall,
  // Stages.
  kStart,
  kEnd,
};

// More bytes than any device has, and small enough that a few of them add up without overflow.
inline constexpr std::int64_t kMostReservedBytes = std::int64_t{1} << 61;

// Event of a history. Millions of them lie in the pickle, so they are taken from it one by one, and
// the parts that only a request needs stay there.
struct SnapshotEvent {
  SnapshotWord action = SnapshotWord::kUnknown;
  bool has_time = false;
  std::uint32_t dict = 0;  // its number in the pickle
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::int64_t time_us = 0;
  PickleValue stream = {};
};

// Further parts of an event that requests memory.
struct SnapshotRequest {
  std::int64_t device_free = -1;  // of an oom; -1 when unknown
  PickleValue frames;
  PickleValue user_metadata;
  PickleValue compile_context;
};

struct SnapshotBlock {
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested_size = 0;
  bool awaits_free = false;  // its free was requested and waits for streams
  PickleValue stream;
  PickleValue frames;
};

// The number of the device that stands for pinned memory of the host. PyTorch 2.15 and later record
// it.
inline constexpr std::int32_t kHost = -1;

// Returns the names of the lists of a device, for errors.
std::string TraceName(std::int32_t device);
std::string SegmentsName(std::int32_t device);

struct SnapshotSegment {
  std::int32_t device = 0;  // kHost: pinned memory
  std::size_t index = 0;    // in its list
  std::uint64_t address = 0;
  std::int64_t total_size = 0;
  PickleValue stream;
  PickleValue blocks;
  std::string pool = "default";
  TraceSegment::Kind kind = TraceSegment::Kind::kLarge;
  // Filled by LiveBlocks: bytes of its blocks that are not free, and of those that await their
  // free.
  std::int64_t live_bytes = 0;
  std::int64_t pending_bytes = 0;
};

struct SnapshotAnnotation {
  bool is_end = false;
  std::int64_t time_us = 0;
  std::int64_t before_event = -1;  // key of tidepool's writer: position among the device's events
  std::string_view name;
};

struct SnapshotFrame {
  std::string_view name;
  std::string_view file;
  std::uint32_t line = 0;
};

// Reads a pickle with this schema; ignores unknown keys. All calls together take time proportional
// to the pickle's size, even if it refers to an object many times; a pickle that would take longer
// is InvalidArgument. Errors name the place, "segments[3]: error".
class SnapshotSchema {
 public:
  // `pickle` must outlive the schema.
  explicit SnapshotSchema(const Pickle& pickle);

  // Finds the parts and reads the segments of all devices. Must be called first.
  absl::Status ReadRoot();
  const std::vector<SnapshotSegment>& segments() const { return segments_; }
  // Devices with events, ascending; pinned memory is the device kHost.
  const std::vector<std::int32_t>& devices_with_events() const { return devices_with_events_; }

  // Calls `visit` with the events of a device in order. Returns the error of the first wrong one.
  absl::Status CheckEvents(std::int32_t device,
                           absl::FunctionRef<void(const SnapshotEvent&)> visit);
  // Does so again after CheckEvents, until `visit` returns false.
  void VisitEvents(std::int32_t device, absl::FunctionRef<bool(SnapshotEvent&)> visit);
  absl::StatusOr<SnapshotRequest> Request(const SnapshotEvent& event);
  // Returns the number of events of a device, in constant time but for files of many devices.
  std::size_t CountEvents(std::int32_t device) const;
  struct Summary {
    bool has_refusal = false;
    double most_reserved_bytes = 0;  // the most that was reserved beyond that at the end
  };
  // Looks through the history of a device.
  absl::StatusOr<Summary> Summarize(std::int32_t device);
  // Returns the settings of the allocator; empty if the file has none.
  absl::StatusOr<std::vector<TraceSetting>> Settings();
  // Returns the blocks of a device that are not free, by address, and counts their bytes in its
  // segments.
  absl::StatusOr<std::vector<SnapshotBlock>> LiveBlocks(std::int32_t device);
  absl::StatusOr<std::vector<SnapshotAnnotation>> Annotations(std::int32_t device);
  absl::StatusOr<SnapshotFrame> Frame(PickleValue frame);

  // Counts `steps` of work against the limit for a pickle of this size.
  absl::Status Spend(std::size_t steps);

 private:
  static absl::Status SpendOf(std::size_t count, std::size_t* left);
  template <typename Visit>
  absl::Status ForEach(PickleValue list, absl::string_view what, const Visit& visit);
  template <typename Visit>
  absl::Status ForEachEntry(PickleValue dict, const Visit& visit);

  [[gnu::always_inline]] SnapshotWord WordOf(PickleValue value) {
    if (!value.IsText()) return SnapshotWord::kUnknown;
    const std::uint8_t word = words_[value.index()];
    return word == 0 ? LookUp(value) : static_cast<SnapshotWord>(word - 1);
  }
  SnapshotWord LookUp(PickleValue text);
  // Places of the known keys in dicts with equal keys.
  struct KeyPlaces {
    static constexpr std::uint32_t kNowhere = UINT32_MAX;
    std::uint32_t keys = Pickle::kNoKeys;  // the number of the keys
    bool is_usual = false;                 // whether they are those of an event other than oom
    std::array<std::uint32_t, static_cast<std::size_t>(SnapshotWord::kEnd) + 1> places = {};
    std::uint32_t operator[](SnapshotWord word) const {
      return places[static_cast<std::size_t>(word)];
    }
  };
  KeyPlaces PlacesIn(PickleValue dict);
  const KeyPlaces* UsualPlaces(PickleValue dict, const Pickle::Entries& entries);
  // Places of an event's values in dicts with certain keys.
  struct EventPlaces {
    std::uint32_t keys = Pickle::kNoKeys;  // the number of the keys
    std::uint32_t action = 0;
    std::uint32_t address = 0;
    std::uint32_t size = 0;
    std::uint32_t time = 0;
    std::uint32_t stream = 0;
  };
  bool FindEventPlaces(PickleValue dict, const Pickle::Entries& entries);
  bool TakeUsual(PickleValue dict, SnapshotEvent* event);
  absl::Status TakeUnusual(PickleValue dict, SnapshotEvent* event);
  void TakeAgain(PickleValue dict, SnapshotEvent* event);
  absl::Status ReadDevices();
  absl::Status ReadSegments();
  absl::Status AddSegments(PickleValue list, std::int32_t device);
  absl::StatusOr<SnapshotSegment> Segment(PickleValue dict);
  absl::Status TakePool(PickleValue value, SnapshotSegment& segment);
  absl::StatusOr<std::string> SettingText(PickleValue value);
  PickleValue EventList(std::int32_t device) const;
  absl::Status AddBlocks(SnapshotSegment& segment, std::vector<SnapshotBlock>& blocks);
  // Reads a block; its address is `address` unless it has its own. Returns nullopt if it is free.
  // Moves `address` to its end.
  absl::StatusOr<std::optional<SnapshotBlock>> Block(PickleValue dict, std::uint64_t* address);
  absl::Status AddHistory(PickleValue history, SnapshotBlock& block);

  absl::Status TakeInteger(PickleValue value, std::int64_t* integer) const;
  absl::Status TakeSize(PickleValue value, std::int64_t most, std::int64_t* size) const;
  absl::Status TakeAddress(PickleValue value, std::uint64_t* address) const;
  absl::Status TakeDevice(PickleValue value, std::int32_t* device) const;
  absl::Status TakeText(PickleValue value, std::string_view* text) const;

  const Pickle& pickle_;
  std::vector<std::uint8_t> words_;  // word of each text plus 1, or 0 before its first lookup
  std::array<KeyPlaces, 8> places_;  // by the number of the keys
  EventPlaces event_places_;         // in the dict of the last usual event
  std::size_t steps_left_;
  std::size_t dicts_left_;
  PickleValue segment_list_;
  PickleValue traces_;
  PickleValue host_segment_list_;
  PickleValue host_trace_;
  PickleValue annotations_;
  PickleValue settings_;
  std::vector<SnapshotSegment> segments_;
  std::vector<std::int32_t> devices_with_events_;
};

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_SCHEMA_H_
