// SPDX-License-Identifier: Apache-2.0
// Snapshot reader: the pickle of torch.cuda.memory._snapshot() as a trace. First come allocations
// from before the history began, then the history with the annotations between its events, and at
// last allocations from after its end.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "lib/base/text/quote.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/pytorch/pickle.h"
#include "lib/trace/pytorch/pytorch_snapshot.h"
#include "lib/trace/pytorch/snapshot_history.h"
#include "lib/trace/pytorch/snapshot_schema.h"

namespace tidepool::pytorch {

using Word = SnapshotWord;

namespace {

constexpr std::int64_t kMicrosecond = 1000;

// Addresses of live allocations.
class LiveRanges {
 public:
  void Remove(std::uint64_t address) { ends_.erase(address); }
  // Removes the allocations that overlap the new one, and returns their addresses. The next call
  // changes them.
  absl::Span<const std::uint64_t> Add(std::uint64_t address, std::int64_t bytes) {
    const std::uint64_t size = std::max<std::uint64_t>(static_cast<std::uint64_t>(bytes), 1);
    const std::uint64_t end = address + std::min(size, ~address);
    overlapped_.clear();
    auto next = ends_.lower_bound(address);
    if (next != ends_.begin() && std::prev(next)->second > address) --next;
    while (next != ends_.end() && next->first < end) {
      overlapped_.push_back(next->first);
      next = ends_.erase(next);
    }
    ends_.insert(next, {address, end});
    return overlapped_;
  }

 private:
  absl::btree_map<std::uint64_t, std::uint64_t> ends_;  // by address
  std::vector<std::uint64_t> overlapped_;
};

// Tags of stacks. Most stacks share most of their frames, and shared frames are the same objects of
// the pickle. So tags are cached by the numbers of these objects.
class StackTags {
 public:
  StackTags(const Pickle& pickle, SnapshotSchema& schema, TraceBuilder& builder)
      : pickle_(pickle), schema_(schema), builder_(builder) {}

  // Returns the tag of `frames`, innermost first, on top of `base`. None and an empty list have no
  // frames.
  absl::StatusOr<TraceTag> Tag(TraceTag base, PickleValue frames) {
    if (frames.IsNone()) return base;
    if (!frames.IsSequence()) {
      return absl::InvalidArgumentError(
          absl::StrCat("frames: ", KindText(frames), ", expected a list"));
    }
    if (pickle_.Size(frames) == 0) return base;
    const std::uint64_t contents = pickle_.Contents(frames);
    const auto known = stacks_.find({base, contents});
    if (known != stacks_.end()) return known->second;
    if (absl::Status status = schema_.Spend(pickle_.Size(frames)); !status.ok()) return status;
    innermost_first_.clear();
    pickle_.VisitElements(frames, [&](absl::Span<const PickleValue> part) {
      innermost_first_.insert(innermost_first_.end(), part.begin(), part.end());
      return true;
    });
    TraceTag tag = base;
    for (std::size_t i = innermost_first_.size(); i > 0; --i) {
      absl::StatusOr<TraceTag> called = Called(tag, innermost_first_[i - 1]);
      if (!called.ok()) return called;
      tag = *called;
    }
    stacks_[{base, contents}] = tag;
    return tag;
  }

  // Returns the tag of a request's user metadata and compile context, as if these had called all
  // code. So memory is divided by purpose first and by code second.
  absl::StatusOr<TraceTag> Base(const SnapshotRequest& request) {
    if (!request.user_metadata.IsText() && !request.compile_context.IsText()) return 0;
    const std::pair<PickleValue, PickleValue> key(request.user_metadata, request.compile_context);
    if (key == last_base_key_) return last_base_;
    absl::StatusOr<TraceTag> tag = Context(0, request.user_metadata, "user_metadata", "");
    if (tag.ok()) tag = Context(*tag, request.compile_context, "compile_context", "N/A");
    if (tag.ok()) {
      last_base_key_ = key;
      last_base_ = *tag;
    }
    return tag;
  }

 private:
  absl::StatusOr<TraceTag> Context(TraceTag caller, PickleValue value, std::string_view what,
                                   std::string_view nothing) {
    if (!value.IsText()) return caller;
    const std::string_view text = pickle_.Text(value);
    if (text.empty() || text == nothing) return caller;
    return builder_.Frame(caller, text, what, 0);
  }

  absl::StatusOr<TraceTag> Called(TraceTag caller, PickleValue value) {
    const bool is_shared = value.IsDict();
    if (is_shared) {
      const auto known = called_.find({caller, value.index()});
      if (known != called_.end()) return known->second;
    }
    absl::StatusOr<SnapshotFrame> frame = schema_.Frame(value);
    if (!frame.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("frames: ", frame.status().message()));
    }
    absl::StatusOr<TraceTag> tag = builder_.Frame(caller, frame->name, frame->file, frame->line);
    if (tag.ok() && is_shared) called_[{caller, value.index()}] = *tag;
    return tag;
  }

  const Pickle& pickle_;
  SnapshotSchema& schema_;
  TraceBuilder& builder_;
  // Tags by the tag of the caller and the contents of a list of frames, or the number of a dict.
  absl::flat_hash_map<std::pair<TraceTag, std::uint64_t>, TraceTag> stacks_;
  absl::flat_hash_map<std::pair<TraceTag, std::uint32_t>, TraceTag> called_;
  std::vector<PickleValue> innermost_first_;
  std::pair<PickleValue, PickleValue> last_base_key_;
  TraceTag last_base_ = 0;
};

// Names of streams: their numbers in decimal.
class StreamTexts {
 public:
  explicit StreamTexts(const Pickle& pickle) : pickle_(pickle) {}

  std::string_view Text(PickleValue stream) {
    if (stream.IsText()) return pickle_.Text(stream);
    if (stream == last_) return {text_, size_};
    last_ = stream;
    std::int64_t integer = 0;
    std::uint64_t large = 0;
    size_ = 0;
    if (pickle_.AsInteger(stream, &integer)) {
      size_ = std::to_chars(text_, text_ + sizeof(text_), integer).ptr - text_;
    } else if (pickle_.AsUnsigned(stream, &large)) {
      size_ = std::to_chars(text_, text_ + sizeof(text_), large).ptr - text_;
    }
    return {text_, size_};
  }

 private:
  const Pickle& pickle_;
  PickleValue last_;
  char text_[24];
  std::size_t size_ = 0;
};

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, const ReadOptions& options)
      : schema_(pickle),
        history_(schema_),
        builder_(TraceFormat::kPyTorchSnapshot),
        tags_(pickle, schema_, builder_),
        streams_(pickle),
        wanted_(options.device) {}

  absl::StatusOr<Trace> Read() {
    absl::Status status = schema_.ReadRoot();
    if (status.ok()) status = ChooseDevice();
    if (status.ok()) status = ReadParts();
    if (status.ok()) status = AddEarlierReservations();
    if (status.ok()) status = AddUnrecorded(unrecorded_.before, start_);
    builder_.BeginRecording();
    if (status.ok()) status = AddEvents();
    if (status.ok()) status = AddUnrecorded(unrecorded_.after, last_time_);
    if (!status.ok()) return status;
    builder_.SetSegments(SegmentsAtTheEnd());
    return builder_.Build();
  }

 private:
  absl::Status ChooseDevice() {
    std::vector<std::int32_t> devices = schema_.devices_with_events();
    for (const SnapshotSegment& segment : schema_.segments()) devices.push_back(segment.device);
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    if (!wanted_.has_value() && !devices.empty()) {
      absl::StatusOr<std::int32_t> device = DeviceWithMost(devices);
      if (!device.ok()) return device.status();
      device_ = *device;
    }
    if (wanted_.has_value() && !devices.empty() &&
        !std::binary_search(devices.begin(), devices.end(), *wanted_)) {
      return absl::InvalidArgumentError(absl::StrCat("device ", *wanted_,
                                                     " is not in the file, expected one of ",
                                                     absl::StrJoin(devices, ", ")));
    }
    if (wanted_.has_value() && !devices.empty()) device_ = *wanted_;
    builder_.SetDevices(device_, std::move(devices));
    return absl::OkStatus();
  }

  // Returns the first GPU with a refused request, or else that with the most reserved bytes at a
  // time; of several, that with the most events. The host is chosen only without a GPU.
  absl::StatusOr<std::int32_t> DeviceWithMost(std::vector<std::int32_t> devices) {
    if (devices.front() == kHost && devices.size() > 1) devices.erase(devices.begin());
    if (devices.size() == 1) return devices.front();
    absl::flat_hash_map<std::int32_t, double> reserved;
    for (const SnapshotSegment& segment : schema_.segments())
      reserved[segment.device] += static_cast<double>(segment.total_size);
    std::int32_t most = devices.front();
    for (const std::int32_t device : devices) {
      absl::StatusOr<SnapshotSchema::Summary> summary = schema_.Summarize(device);
      if (!summary.ok()) return summary.status();
      if (summary->has_refusal) return device;
      reserved[device] += summary->most_reserved_bytes;
      if (std::pair(reserved[device], schema_.CountEvents(device)) >
          std::pair(reserved[most], schema_.CountEvents(most))) {
        most = device;
      }
    }
    return most;
  }

  absl::Status ReadParts() {
    absl::StatusOr<std::vector<TraceSetting>> settings = schema_.Settings();
    if (!settings.ok()) return settings.status();
    builder_.SetAllocatorSettings(*std::move(settings));
    if (absl::Status status = history_.Read(device_); !status.ok()) return status;
    absl::StatusOr<std::vector<SnapshotAnnotation>> annotations = schema_.Annotations(device_);
    if (!annotations.ok()) return annotations.status();
    annotations_ = *std::move(annotations);
    absl::StatusOr<std::vector<SnapshotBlock>> blocks = schema_.LiveBlocks(device_);
    if (!blocks.ok()) return blocks.status();
    history_.CompleteFrees(*blocks);
    unrecorded_ = FindUnrecordedAllocations(history_, *blocks);
    return SetTimes();
  }

  // Checks the times, and finds the first one. If no event has a time, annotations get time 0.
  absl::Status SetTimes() {
    const auto& wrong = history_.without_time();
    if (wrong.has_value()) return TimeError(EventPlace(wrong->number), wrong->event.time_us);
    for (SnapshotAnnotation& annotation : annotations_) {
      if (!history_.has_times() && history_.size() > 0) annotation.time_us = 0;
      if (!IsTime(annotation.time_us)) return TimeError("external_annotations", annotation.time_us);
    }
    std::int64_t first = history_.first_time_us();
    if (!annotations_.empty() &&
        (history_.size() == 0 || ComesBefore(annotations_.front(), 0, first)))
      first = annotations_.front().time_us;
    start_ = first * kMicrosecond;
    last_time_ = start_;
    return absl::OkStatus();
  }

  static absl::Status TimeError(absl::string_view place, std::int64_t time_us) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": time_us ", time_us, ", expected at most ", kMostMicroseconds));
  }
  std::string EventPlace(std::size_t index) const {
    return absl::StrCat(TraceName(device_), "[", index, "]");
  }

  // Whether an annotation comes before the event of this number and time.
  static bool ComesBefore(const SnapshotAnnotation& annotation, std::size_t event,
                          std::int64_t time_us) {
    if (annotation.before_event >= 0)
      return static_cast<std::size_t>(annotation.before_event) <= event;
    return annotation.time_us <= time_us;
  }

  absl::Status AddEarlierReservations() {
    absl::StatusOr<std::vector<EarlierReservation>> earlier =
        FindEarlierReservations(history_, schema_.segments(), device_);
    if (!earlier.ok()) return earlier.status();
    builder_.SetHistory(history_.TellsPeak(!earlier->empty() || !unrecorded_.before.empty()));
    for (const EarlierReservation& reservation : *earlier) {
      absl::Status status = builder_.Reserve({reservation.address, reservation.bytes},
                                             streams_.Text(reservation.stream), start_);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::vector<TraceSegment> SegmentsAtTheEnd() {
    std::vector<TraceSegment> segments;
    for (const SnapshotSegment& segment : schema_.segments()) {
      if (segment.device != device_) continue;
      segments.push_back({.address = segment.address,
                          .bytes = segment.total_size,
                          .free_bytes = segment.total_size - segment.live_bytes,
                          .pending_bytes = segment.pending_bytes,
                          .stream = std::string(streams_.Text(segment.stream)),
                          .pool = segment.pool,
                          .kind = segment.kind});
    }
    absl::c_sort(segments, [](const TraceSegment& a, const TraceSegment& b) {
      return a.address < b.address;  // no two are equal
    });
    return segments;
  }

  absl::Status AddUnrecorded(const std::vector<EarlierAllocation>& allocations, std::int64_t time) {
    for (const EarlierAllocation& allocation : allocations) {
      live_.Add(allocation.address, allocation.bytes);
      absl::StatusOr<TraceTag> tag = tags_.Tag(0, allocation.frames);
      absl::Status status = tag.status();
      if (status.ok()) {
        builder_.SetTag(*tag);
        status = builder_.AllocateAt(allocation.address, allocation.bytes, Hint::kResident,
                                     streams_.Text(allocation.stream), time);
      }
      if (!status.ok()) {
        const trace::AddressText address(allocation.address);
        return absl::Status(
            status.code(),
            absl::StrCat("the block at ", std::string(address.text()), ": ", status.message()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddEvents() {
    constexpr std::size_t kEventsAPart = 4096;
    std::size_t annotated = 0;
    absl::Status status;
    history_.ForEach([&](std::size_t number, const SnapshotEvent& event) {
      while (annotated < annotations_.size() &&
             ComesBefore(annotations_[annotated], number, event.time_us))
        AddAnnotation(annotations_[annotated++]);
      if (number % kEventsAPart == kEventsAPart - 1)
        builder_.SetPart(static_cast<double>(number) / static_cast<double>(history_.size()));
      last_time_ = event.time_us * kMicrosecond;
      status = AddEvent(event);
      if (!status.ok()) {
        status =
            absl::Status(status.code(), absl::StrCat(EventPlace(number), ": ", status.message()));
      }
      return status.ok();
    });
    if (!status.ok()) return status;
    while (annotated < annotations_.size()) AddAnnotation(annotations_[annotated++]);
    return absl::OkStatus();
  }

  void AddAnnotation(const SnapshotAnnotation& annotation) {
    last_time_ = annotation.time_us * kMicrosecond;
    if (annotation.is_end) {
      builder_.MarkEnd(annotation.name, last_time_);
    } else {
      builder_.Mark(annotation.name, last_time_);
    }
  }

  absl::Status AddEvent(const SnapshotEvent& event) {
    const std::string_view stream = streams_.Text(event.stream);
    if (event.action == Word::kAlloc || event.action == Word::kOom)
      return AddRequest(event, stream);
    if (event.action == Word::kFreeCompleted || event.action == Word::kFree) {
      live_.Remove(event.address);
      if (!builder_.FreeAt(event.address, stream, last_time_)) builder_.CountUnmatchedFree();
    } else if (Reserves(event.action)) {
      return builder_.Reserve({event.address, event.size}, stream, last_time_);
    } else if (GivesBack(event.action)) {
      return builder_.Reserve({event.address, -event.size}, stream, last_time_);
    } else if (event.action == Word::kSnapshot) {
      builder_.Mark("snapshot", last_time_);
    } else if (event.action != Word::kFreeRequested) {
      builder_.CountSkippedRow();  // action of a newer PyTorch
    }
    return absl::OkStatus();
  }

  absl::Status AddRequest(const SnapshotEvent& event, std::string_view stream) {
    const absl::StatusOr<SnapshotRequest> request = schema_.Request(event);
    if (!request.ok()) return request.status();
    absl::StatusOr<TraceTag> tag = tags_.Base(*request);
    if (tag.ok()) tag = tags_.Tag(*tag, request->frames);
    if (!tag.ok()) return tag.status();
    builder_.SetTag(*tag);
    if (event.action == Word::kOom) return AddRefusal(event.size, request->device_free, stream);
    // An allocation at live addresses means that a free was missed, for example while recording was
    // paused.
    for (const std::uint64_t address : live_.Add(event.address, event.size)) {
      builder_.FreeAt(address, stream, last_time_);
      builder_.CountUnmatchedFree();
    }
    return builder_.AllocateAt(event.address, event.size, Hint::kResident, stream, last_time_);
  }

  absl::Status AddRefusal(std::int64_t bytes, std::int64_t device_free, std::string_view stream) {
    return builder_.Failure(bytes, Hint::kResident, stream, last_time_,
                            device_free >= 0 ? std::optional(device_free) : std::nullopt);
  }

  SnapshotSchema schema_;
  SnapshotHistory history_;
  TraceBuilder builder_;
  StackTags tags_;
  StreamTexts streams_;
  std::optional<std::int32_t> wanted_;
  std::int32_t device_ = 0;
  std::vector<SnapshotAnnotation> annotations_;
  UnrecordedAllocations unrecorded_;
  LiveRanges live_;
  std::int64_t start_ = 0;
  std::int64_t last_time_ = 0;
};

absl::StatusOr<Trace> ReadSnapshot(io::ByteSource& source, const ReadOptions& options) {
  absl::StatusOr<Pickle> pickle = Pickle::Parse(source);
  if (!pickle.ok()) return pickle.status();
  return SnapshotReader(*pickle, options).Read();
}

}  // namespace

bool IsPickle(std::string_view beginning) { return beginning.substr(0, 1) == "\x80"; }

absl::StatusOr<Trace> ReadPyTorchSnapshot(io::ByteSource& source, const std::string& name,
                                          const ReadOptions& options) {
  absl::StatusOr<Trace> trace = ReadSnapshot(source, options);
  return trace.ok() ? std::move(trace) : text::AboutFile(name, trace.status());
}

}  // namespace tidepool::pytorch
