// SPDX-License-Identifier: Apache-2.0
// Snapshot schema: finds the known keys of a snapshot and checks their values.
#include "lib/trace/pytorch/snapshot_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/trace.h"

namespace tidepool::pytorch {

using Word = SnapshotWord;
using Values = absl::Span<const PickleValue>;

namespace {

constexpr auto kWords = std::to_array<std::pair<std::string_view, Word>>({
    {"segments", Word::kSegments},
    {"device_traces", Word::kDeviceTraces},
    {"host_segments", Word::kHostSegments},
    {"host_traces", Word::kHostTraces},
    {"external_annotations", Word::kExternalAnnotations},
    {"allocator_settings", Word::kAllocatorSettings},
    {"device", Word::kDevice},
    {"address", Word::kAddress},
    {"total_size", Word::kTotalSize},
    {"stream", Word::kStream},
    {"segment_type", Word::kSegmentType},
    {"segment_pool_id", Word::kSegmentPoolId},
    {"is_expandable", Word::kIsExpandable},
    {"blocks", Word::kBlocks},
    {"size", Word::kSize},
    {"requested_size", Word::kRequestedSize},
    {"state", Word::kState},
    {"frames", Word::kFrames},
    {"history", Word::kHistory},
    {"real_size", Word::kRealSize},
    {"action", Word::kAction},
    {"addr", Word::kAddr},
    {"device_free", Word::kDeviceFree},
    {"time_us", Word::kTimeUs},
    {"user_metadata", Word::kUserMetadata},
    {"compile_context", Word::kCompileContext},
    {"name", Word::kName},
    {"filename", Word::kFilename},
    {"line", Word::kLine},
    {"stage", Word::kStage},
    {"before_event", Word::kBeforeEvent},
    {"alloc", Word::kAlloc},
    {"free", Word::kFree},
    {"free_requested", Word::kFreeRequested},
    {"free_completed", Word::kFreeCompleted},
    {"segment_alloc", Word::kSegmentAlloc},
    {"segment_free", Word::kSegmentFree},
    {"segment_map", Word::kSegmentMap},
    {"segment_unmap", Word::kSegmentUnmap},
    {"oom", Word::kOom},
    {"snapshot", Word::kSnapshot},
    {"active_allocated", Word::kActiveAllocated},
    {"active_awaiting_free", Word::kActiveAwaitingFree},
    {"active_pending_free", Word::kActivePendingFree},
    {"small", Word::kSmall},
    {"START", Word::kStart},
    {"END", Word::kEnd},
});

Word WordFor(std::string_view text) {
  static const auto* const kByText =
      new absl::flat_hash_map<std::string_view, Word>(kWords.begin(), kWords.end());
  const auto found = kByText->find(text);
  return found == kByText->end() ? Word::kUnknown : found->second;
}

absl::Status Unexpected(PickleValue value, absl::string_view expected) {
  const absl::string_view kind = KindText(value);
  return absl::InvalidArgumentError(
      absl::StrCat(kind, kind == expected ? " beyond 2^63, expected " : ", expected ", expected,
                   kind == expected ? " below" : ""));
}

// Puts `place` in front of an error.
absl::Status At(absl::string_view place, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(place, ": ", status.message()));
}

absl::Status Missing(absl::string_view key, absl::string_view where) {
  return absl::InvalidArgumentError(absl::StrCat("no ", key, " in ", where));
}

bool IsActive(Word state) {
  return state == Word::kActiveAllocated || state == Word::kActiveAwaitingFree ||
         state == Word::kActivePendingFree;
}

std::string Hexadecimal(std::uint64_t address) { return absl::StrCat("0x", absl::Hex(address)); }

// The shortest text that reads back the same, with a point or an exponent, as Python prints it.
std::string FloatText(double number) {
  char text[32];
  const char* const end = std::to_chars(std::begin(text), std::end(text), number).ptr;
  const std::string_view digits(text, static_cast<std::size_t>(end - text));
  const bool is_whole = digits.find_first_not_of("-0123456789") == std::string_view::npos;
  return std::string(digits) + (is_whole ? ".0" : "");
}

std::string TextOf(const Pickle& pickle, PickleValue value) {
  std::int64_t integer = 0;
  switch (value.kind()) {
    case PickleValue::Kind::kNone:
      return "None";
    case PickleValue::Kind::kBool:
      return value.payload() != 0 ? "True" : "False";
    case PickleValue::Kind::kFloat:
      return FloatText(pickle.Float(value));
    case PickleValue::Kind::kText:
      return std::string(pickle.Text(value));
    default:
      return pickle.AsInteger(value, &integer) ? absl::StrCat(integer) : KindText(value);
  }
}

}  // namespace

// An object with many references is visited once for each reference. So work is limited by the size
// of the pickle, not by the size of the tree that it describes. Nothing that PyTorch writes is
// visited more than three times. Dicts in lists have a separate limit, because the struct made of a
// dict is larger than the reference to it.
SnapshotSchema::SnapshotSchema(const Pickle& pickle)
    : pickle_(pickle),
      words_(pickle.texts()),
      steps_left_(16 * (pickle.elements() + pickle.containers()) + 1024),
      dicts_left_(4 * pickle.containers() + 1024) {}

absl::Status SnapshotSchema::Spend(std::size_t steps) { return SpendOf(steps, &steps_left_); }

absl::Status SnapshotSchema::SpendOf(std::size_t count, std::size_t* left) {
  if (count > *left) {
    return absl::InvalidArgumentError("too many references to the same objects");
  }
  *left -= count;
  return absl::OkStatus();
}

template <typename Visit>
absl::Status SnapshotSchema::ForEach(PickleValue list, absl::string_view what, const Visit& visit) {
  if (!list.IsSequence()) return At(what, Unexpected(list, "a list"));
  absl::Status status = Spend(1 + pickle_.Size(list));
  if (!status.ok()) return At(what, status);
  std::size_t index = 0;
  pickle_.VisitElements(list, [&](absl::Span<const PickleValue> elements) {
    for (const PickleValue element : elements) {
      status = element.IsDict() ? SpendOf(1, &dicts_left_) : absl::OkStatus();
      if (status.ok()) status = visit(element);
      if (!status.ok()) {
        status = At(absl::StrCat(what, "[", index, "]"), status);
        return false;
      }
      ++index;
    }
    return true;
  });
  return status;
}

template <typename Visit>
absl::Status SnapshotSchema::ForEachEntry(PickleValue dict, const Visit& visit) {
  if (!dict.IsDict()) return Unexpected(dict, "a dict");
  absl::Status status = Spend(1 + pickle_.Size(dict));
  if (!status.ok()) return status;
  pickle_.VisitEntries(dict, [&](Values keys, Values values) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      status = visit(WordOf(keys[i]), values[i]);
      if (!status.ok()) {
        status = At(std::string(pickle_.Text(keys[i])), status);
        return false;
      }
    }
    return true;
  });
  return status;
}

Word SnapshotSchema::LookUp(PickleValue text) {
  const Word word = WordFor(pickle_.Text(text));
  words_[text.index()] = static_cast<std::uint8_t>(word) + 1;
  return word;
}

absl::Status SnapshotSchema::TakeInteger(PickleValue value, std::int64_t* integer) const {
  return pickle_.AsInteger(value, integer) ? absl::OkStatus() : Unexpected(value, "an integer");
}

absl::Status SnapshotSchema::TakeSize(PickleValue value, std::int64_t most,
                                      std::int64_t* size) const {
  if (absl::Status status = TakeInteger(value, size); !status.ok()) return status;
  if (*size >= 0 && *size <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(*size, ", expected 0 to ", most, " bytes"));
}

absl::Status SnapshotSchema::TakeAddress(PickleValue value, std::uint64_t* address) const {
  return pickle_.AsUnsigned(value, address) ? absl::OkStatus() : Unexpected(value, "an integer");
}

absl::Status SnapshotSchema::TakeDevice(PickleValue value, std::int32_t* device) const {
  std::int64_t number = 0;
  if (absl::Status status = TakeInteger(value, &number); !status.ok()) return status;
  if (number < -1 || number > std::numeric_limits<std::int32_t>::max())
    return absl::InvalidArgumentError(
        absl::StrCat(number, ", expected the number of a device, -1 to 2^31 - 1"));
  *device = static_cast<std::int32_t>(number);
  return absl::OkStatus();
}

absl::Status SnapshotSchema::TakeText(PickleValue value, std::string_view* text) const {
  if (!value.IsText()) return Unexpected(value, "a text");
  *text = pickle_.Text(value);
  return absl::OkStatus();
}

std::string TraceName(std::int32_t device) {
  return device == kHost ? "host_traces" : absl::StrCat("device_traces[", device, "]");
}

std::string SegmentsName(std::int32_t device) {
  return device == kHost ? "host_segments" : "segments";
}

absl::Status SnapshotSchema::ReadRoot() {
  const PickleValue root = pickle_.root();
  bool is_snapshot = false;
  if (root.IsSequence()) {  // memory_snapshot() of PyTorch 1.x
    segment_list_ = root;
    is_snapshot = true;
  } else if (root.IsDict()) {
    absl::Status status = ForEachEntry(root, [&](Word key, PickleValue value) {
      if (key == Word::kSegments) segment_list_ = value;
      if (key == Word::kDeviceTraces) traces_ = value;
      if (key == Word::kHostSegments) host_segment_list_ = value;
      if (key == Word::kHostTraces) host_trace_ = value;
      if (key == Word::kExternalAnnotations) annotations_ = value;
      if (key == Word::kAllocatorSettings) settings_ = value;
      is_snapshot |= key == Word::kSegments || key == Word::kDeviceTraces;
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
  }
  if (!is_snapshot) {
    return absl::InvalidArgumentError(
        absl::StrCat(root.IsDict() ? "a dict without segments and device_traces" : KindText(root),
                     ", expected the result of torch.cuda.memory._snapshot()"));
  }
  if (absl::Status status = ReadDevices(); !status.ok()) return status;
  return ReadSegments();
}

absl::Status SnapshotSchema::ReadDevices() {
  if (!host_trace_.IsNone() && !host_trace_.IsSequence()) {
    return At("host_traces", Unexpected(host_trace_, "a list"));
  }
  if (host_trace_.IsSequence() && pickle_.Size(host_trace_) > 0) {
    devices_with_events_.push_back(kHost);
  }
  if (traces_.IsNone()) return absl::OkStatus();
  std::int32_t device = 0;
  return ForEach(traces_, "device_traces", [&](PickleValue trace) {
    if (!trace.IsSequence()) return Unexpected(trace, "a list");
    if (pickle_.Size(trace) > 0) devices_with_events_.push_back(device);
    ++device;
    return absl::OkStatus();
  });
}

absl::Status SnapshotSchema::ReadSegments() {
  const absl::Status status = AddSegments(segment_list_, 0);
  return status.ok() ? AddSegments(host_segment_list_, kHost) : status;
}

// Adds the segments of a list: all devices have one, the host has another.
absl::Status SnapshotSchema::AddSegments(PickleValue list, std::int32_t device) {
  if (list.IsNone()) return absl::OkStatus();
  std::size_t index = 0;
  return ForEach(list, SegmentsName(device), [&](PickleValue dict) {
    absl::StatusOr<SnapshotSegment> segment = Segment(dict);
    if (!segment.ok()) return segment.status();
    segment->index = index++;
    if (device == kHost) segment->device = kHost;
    segments_.push_back(*segment);
    return absl::OkStatus();
  });
}

absl::StatusOr<SnapshotSegment> SnapshotSchema::Segment(PickleValue dict) {
  SnapshotSegment segment;
  bool has_address = false;
  bool has_size = false;
  bool is_expandable = false;
  absl::Status status = ForEachEntry(dict, [&](Word key, PickleValue value) {
    switch (key) {
      case Word::kDevice:
        return TakeDevice(value, &segment.device);
      case Word::kAddress:
        has_address = true;
        return TakeAddress(value, &segment.address);
      case Word::kTotalSize:
        has_size = true;
        return TakeSize(value, kMostReservedBytes, &segment.total_size);
      case Word::kStream:
        segment.stream = value;
        return absl::OkStatus();
      case Word::kSegmentType:
        if (WordOf(value) == Word::kSmall) segment.kind = TraceSegment::Kind::kSmall;
        return absl::OkStatus();
      case Word::kIsExpandable:
        is_expandable = value.kind() == PickleValue::Kind::kBool && value.payload() != 0;
        return absl::OkStatus();
      case Word::kSegmentPoolId:
        return TakePool(value, segment);
      case Word::kBlocks:
        segment.blocks = value;
        return absl::OkStatus();
      default:
        return absl::OkStatus();
    }
  });
  if (!status.ok()) return status;
  if (!has_address) return Missing("address", "a segment");
  if (!has_size) return Missing("total_size", "a segment");
  if (segment.address + static_cast<std::uint64_t>(segment.total_size) < segment.address)
    return absl::InvalidArgumentError("a segment extends beyond the last address");
  if (is_expandable) segment.kind = TraceSegment::Kind::kExpandable;
  return segment;
}

// Takes the id of a pool, such as (0, 1). Anything else leaves the pool as it is: ids are PyTorch's
// own matter. The default pool is (0, 0).
absl::Status SnapshotSchema::TakePool(PickleValue value, SnapshotSegment& segment) {
  if (!value.IsSequence() || pickle_.Size(value) != 2) return absl::OkStatus();
  if (absl::Status status = Spend(2); !status.ok()) return status;
  std::vector<std::int64_t> id;
  pickle_.VisitElements(value, [&](absl::Span<const PickleValue> elements) {
    std::int64_t number = 0;
    for (const PickleValue element : elements) {
      if (pickle_.AsInteger(element, &number)) id.push_back(number);
    }
    return true;
  });
  if (id.size() == 2 && (id[0] != 0 || id[1] != 0))
    segment.pool = absl::StrCat("(", id[0], ", ", id[1], ")");
  return absl::OkStatus();
}

// `device` has events.
PickleValue SnapshotSchema::EventList(std::int32_t device) const {
  if (device == kHost) return host_trace_;
  PickleValue trace;
  std::int32_t at = 0;
  pickle_.VisitElements(traces_, [&](absl::Span<const PickleValue> traces) {
    const auto wanted = static_cast<std::size_t>(device - at);
    if (wanted < traces.size()) trace = traces[wanted];
    at += static_cast<std::int32_t>(traces.size());
    return trace.IsNone();
  });
  return trace;
}

std::size_t SnapshotSchema::CountEvents(std::int32_t device) const {
  if (!absl::c_binary_search(devices_with_events_, device)) return 0;
  return pickle_.Size(EventList(device));
}

absl::StatusOr<SnapshotSchema::Summary> SnapshotSchema::Summarize(std::int32_t device) {
  Summary summary;
  if (!absl::c_binary_search(devices_with_events_, device)) return summary;
  double reserved = 0;
  double most = 0;
  absl::Status status = ForEach(EventList(device), TraceName(device), [&](PickleValue dict) {
    Word action = Word::kUnknown;
    std::int64_t size = 0;
    absl::Status entries = ForEachEntry(dict, [&](Word key, PickleValue value) {
      if (key == Word::kAction) action = WordOf(value);
      if (key == Word::kSize) pickle_.AsInteger(value, &size);
      return absl::OkStatus();
    });
    summary.has_refusal |= action == Word::kOom;
    const auto bytes = static_cast<double>(size);
    if (action == Word::kSegmentAlloc || action == Word::kSegmentMap) reserved += bytes;
    if (action == Word::kSegmentFree || action == Word::kSegmentUnmap) reserved -= bytes;
    most = std::max(most, reserved);
    return entries;
  });
  if (!status.ok()) return status;
  summary.most_reserved_bytes = most - reserved;
  return summary;
}

absl::Status SnapshotSchema::CheckEvents(std::int32_t device,
                                         absl::FunctionRef<void(const SnapshotEvent&)> visit) {
  if (!absl::c_binary_search(devices_with_events_, device)) return absl::OkStatus();
  SnapshotEvent event;
  return ForEach(EventList(device), TraceName(device), [&](PickleValue dict) {
    absl::Status status =
        TakeUsual(dict, &event) ? Spend(1 + pickle_.Size(dict)) : TakeUnusual(dict, &event);
    if (status.ok()) visit(event);
    return status;
  });
}

void SnapshotSchema::VisitEvents(std::int32_t device,
                                 absl::FunctionRef<bool(SnapshotEvent&)> visit) {
  if (!absl::c_binary_search(devices_with_events_, device)) return;
  SnapshotEvent event;
  pickle_.VisitElements(EventList(device), [&](absl::Span<const PickleValue> dicts) {
    for (const PickleValue dict : dicts) {
      if (!TakeUsual(dict, &event)) TakeAgain(dict, &event);
      if (!visit(event)) return false;
    }
    return true;
  });
}

// Takes an event that CheckEvents has found right. Spends no steps: CheckEvents has spent them, and
// the visits of a device are few.
void SnapshotSchema::TakeAgain(PickleValue dict, SnapshotEvent* event) {
  const std::size_t left = std::exchange(steps_left_, SIZE_MAX);
  static_cast<void>(TakeUnusual(dict, event));
  steps_left_ = left;
}

SnapshotSchema::KeyPlaces SnapshotSchema::PlacesIn(PickleValue dict) {
  KeyPlaces found = {.keys = pickle_.EntriesOf(dict).keys, .is_usual = true};
  found.places.fill(KeyPlaces::kNowhere);
  pickle_.VisitEntries(dict, [&](Values keys, Values /*values*/) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Word word = WordOf(keys[i]);
      if (word == Word::kUnknown) continue;
      found.is_usual &= found[word] == KeyPlaces::kNowhere;
      found.places[static_cast<std::size_t>(word)] = static_cast<std::uint32_t>(i);
    }
    return true;
  });
  for (const Word word : {Word::kAction, Word::kAddr, Word::kSize, Word::kTimeUs, Word::kStream})
    found.is_usual &= found[word] != KeyPlaces::kNowhere;
  found.is_usual &= found[Word::kDeviceFree] == KeyPlaces::kNowhere;
  return found;
}

// Returns the places of the keys of a dict if they are those of all events but oom; null for
// others.
const SnapshotSchema::KeyPlaces* SnapshotSchema::UsualPlaces(PickleValue dict,
                                                             const Pickle::Entries& entries) {
  if (entries.keys == Pickle::kNoKeys) return nullptr;
  KeyPlaces& places = places_[entries.keys % places_.size()];
  if (places.keys != entries.keys) places = PlacesIn(dict);
  return places.is_usual ? &places : nullptr;
}

// Finds the places of an event's values. Returns false for a dict with other keys.
bool SnapshotSchema::FindEventPlaces(PickleValue dict, const Pickle::Entries& entries) {
  const KeyPlaces* const places = UsualPlaces(dict, entries);
  if (places == nullptr) return false;
  event_places_ = {.keys = entries.keys,
                   .action = (*places)[Word::kAction],
                   .address = (*places)[Word::kAddr],
                   .size = (*places)[Word::kSize],
                   .time = (*places)[Word::kTimeUs],
                   .stream = (*places)[Word::kStream]};
  return true;
}

// Takes an event of the usual keys and kinds of values, as nearly all are, in few steps. Returns
// false for any other event; TakeUnusual then goes from entry to entry and finds the wrong one.
inline bool SnapshotSchema::TakeUsual(PickleValue dict, SnapshotEvent* event) {
  if (!dict.IsDict()) return false;
  const Pickle::Entries entries = pickle_.EntriesOf(dict);
  if (entries.keys == Pickle::kNoKeys) return false;
  if (entries.keys != event_places_.keys && !FindEventPlaces(dict, entries)) return false;
  const PickleValue* const values = entries.values.data();  // the places are less than its size
  const PickleValue action = values[event_places_.action];
  if (!action.IsText() || !pickle_.AsUnsigned(values[event_places_.address], &event->address) ||
      !pickle_.AsInteger(values[event_places_.size], &event->size) ||
      !pickle_.AsInteger(values[event_places_.time], &event->time_us)) {
    return false;
  }
  event->action = WordOf(action);
  event->has_time = true;
  event->dict = dict.index();
  event->stream = values[event_places_.stream];
  return true;
}

absl::Status SnapshotSchema::TakeUnusual(PickleValue dict, SnapshotEvent* event) {
  *event = SnapshotEvent();
  event->dict = dict.index();
  bool has_address = false;
  bool has_size = false;
  std::int64_t device_free = 0;  // checked here, taken by Request
  absl::Status status = ForEachEntry(dict, [&](Word key, PickleValue value) {
    switch (key) {
      case Word::kAction:
        event->action = WordOf(value);
        return value.IsText() ? absl::OkStatus() : Unexpected(value, "a text");
      case Word::kAddr:
        has_address = true;
        return TakeAddress(value, &event->address);
      case Word::kDeviceFree:
        return TakeInteger(value, &device_free);
      case Word::kSize:
        has_size = true;
        return TakeInteger(value, &event->size);
      case Word::kTimeUs:
        event->has_time = true;
        return TakeInteger(value, &event->time_us);
      case Word::kStream:
        event->stream = value;
        return absl::OkStatus();
      default:
        return absl::OkStatus();
    }
  });
  if (!status.ok()) return status;
  const bool has_range = event->action >= Word::kAlloc && event->action <= Word::kSegmentUnmap;
  if (has_range && !has_address) return Missing("addr", "such an event");
  if ((has_range || event->action == Word::kOom) && !has_size)
    return Missing("size", "such an event");
  return absl::OkStatus();
}

absl::StatusOr<SnapshotRequest> SnapshotSchema::Request(const SnapshotEvent& event) {
  SnapshotRequest request;
  const PickleValue dict(PickleValue::Kind::kDict, event.dict);
  const Pickle::Entries entries = pickle_.EntriesOf(dict);
  if (const KeyPlaces* const places = UsualPlaces(dict, entries); places != nullptr) {
    if (absl::Status status = Spend(1 + entries.values.size()); !status.ok()) return status;
    const auto value = [&](Word word) {
      const std::uint32_t place = (*places)[word];
      return place == KeyPlaces::kNowhere ? PickleValue() : entries.values[place];
    };
    return SnapshotRequest{.frames = value(Word::kFrames),
                           .user_metadata = value(Word::kUserMetadata),
                           .compile_context = value(Word::kCompileContext)};
  }
  absl::Status status = ForEachEntry(dict, [&](Word key, PickleValue value) {
    if (key == Word::kFrames) request.frames = value;
    if (key == Word::kUserMetadata) request.user_metadata = value;
    if (key == Word::kCompileContext) request.compile_context = value;
    return key == Word::kDeviceFree ? TakeInteger(value, &request.device_free) : absl::OkStatus();
  });
  if (!status.ok()) return status;
  return request;
}

absl::StatusOr<std::vector<SnapshotBlock>> SnapshotSchema::LiveBlocks(std::int32_t device) {
  std::vector<SnapshotBlock> blocks;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].device != device || segments_[i].blocks.IsNone()) continue;
    absl::Status status = AddBlocks(segments_[i], blocks);
    if (!status.ok())
      return At(absl::StrCat(SegmentsName(device), "[", segments_[i].index, "]"), status);
  }
  std::stable_sort(
      blocks.begin(), blocks.end(),
      [](const SnapshotBlock& a, const SnapshotBlock& b) { return a.address < b.address; });
  const auto twice = std::adjacent_find(
      blocks.begin(), blocks.end(),
      [](const SnapshotBlock& a, const SnapshotBlock& b) { return a.address == b.address; });
  if (twice == blocks.end()) return blocks;
  return absl::InvalidArgumentError(
      absl::StrCat(SegmentsName(device), ": two live blocks at ", Hexadecimal(twice->address)));
}

absl::Status SnapshotSchema::AddBlocks(SnapshotSegment& segment,
                                       std::vector<SnapshotBlock>& blocks) {
  std::uint64_t address = segment.address;
  segment.live_bytes = 0;
  segment.pending_bytes = 0;
  return ForEach(segment.blocks, "blocks", [&](PickleValue dict) {
    absl::StatusOr<std::optional<SnapshotBlock>> block = Block(dict, &address);
    if (!block.ok()) return block.status();
    if (block->has_value()) {
      (*block)->stream = segment.stream;
      const std::int64_t bytes =
          std::min((*block)->size, segment.total_size - segment.live_bytes);  // of damaged files
      segment.live_bytes += bytes;
      if ((*block)->awaits_free) segment.pending_bytes += bytes;
      blocks.push_back(**block);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::optional<SnapshotBlock>> SnapshotSchema::Block(PickleValue dict,
                                                                   std::uint64_t* address) {
  SnapshotBlock block;
  block.address = *address;
  bool has_size = false;
  Word state = Word::kUnknown;
  PickleValue history;
  absl::Status status = ForEachEntry(dict, [&](Word key, PickleValue value) {
    switch (key) {
      case Word::kAddress:
        return TakeAddress(value, &block.address);
      case Word::kSize:
        has_size = true;
        return TakeSize(value, kMostReservedBytes, &block.size);
      case Word::kRequestedSize:
        return TakeSize(value, kMaxRequestBytes, &block.requested_size);
      case Word::kState:
        state = WordOf(value);
        return value.IsText() ? absl::OkStatus() : Unexpected(value, "a text");
      case Word::kFrames:
        block.frames = value;
        return absl::OkStatus();
      case Word::kHistory:
        history = value;
        return absl::OkStatus();
      default:
        return absl::OkStatus();
    }
  });
  if (!status.ok()) return status;
  if (!has_size) return Missing("size", "a block");
  *address = block.address + static_cast<std::uint64_t>(block.size);
  if (*address < block.address)
    return absl::InvalidArgumentError("a block extends beyond the last address");
  if (!IsActive(state)) return std::nullopt;
  block.awaits_free = state != Word::kActiveAllocated;
  if (status = AddHistory(history, block); !status.ok()) return At("history", status);
  if (block.requested_size == 0) block.requested_size = block.size;
  if (block.requested_size == 0) return absl::InvalidArgumentError("size 0, expected at least 1");
  return block;
}

// Takes the requested size and the stack from the first entry of the block's history, where PyTorch
// 1.x has them.
absl::Status SnapshotSchema::AddHistory(PickleValue history, SnapshotBlock& block) {
  if (history.IsNone()) return absl::OkStatus();
  if (!history.IsSequence()) return Unexpected(history, "a list");
  PickleValue entry;
  pickle_.VisitElements(history, [&](absl::Span<const PickleValue> entries) {
    entry = entries[0];
    return false;
  });
  if (entry.IsNone()) return absl::OkStatus();
  return ForEachEntry(entry, [&](Word key, PickleValue value) {
    if (key == Word::kFrames && block.frames.IsNone()) block.frames = value;
    if (key != Word::kRealSize || block.requested_size > 0) return absl::OkStatus();
    return TakeSize(value, kMaxRequestBytes, &block.requested_size);
  });
}

absl::StatusOr<std::vector<SnapshotAnnotation>> SnapshotSchema::Annotations(std::int32_t device) {
  std::vector<SnapshotAnnotation> annotations;
  if (annotations_.IsNone()) return annotations;
  absl::Status status =
      ForEach(annotations_, "external_annotations", [&](PickleValue dict) -> absl::Status {
        SnapshotAnnotation annotation;
        std::int32_t of_device = 0;
        Word stage = Word::kUnknown;
        absl::Status entries = ForEachEntry(dict, [&](Word key, PickleValue value) {
          if (key == Word::kStage) stage = WordOf(value);
          if (key == Word::kName) return TakeText(value, &annotation.name);
          if (key == Word::kDevice) return TakeDevice(value, &of_device);
          if (key == Word::kTimeUs) return TakeInteger(value, &annotation.time_us);
          if (key == Word::kBeforeEvent) return TakeInteger(value, &annotation.before_event);
          return absl::OkStatus();
        });
        if (!entries.ok()) return entries;
        if (of_device != device) return absl::OkStatus();
        if (stage != Word::kStart && stage != Word::kEnd)
          return absl::InvalidArgumentError("an unknown stage, expected START or END");
        annotation.is_end = stage == Word::kEnd;
        annotations.push_back(annotation);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return annotations;
}

// A dict in the dict, such as roundup_power2_divisions, becomes "256:1,512:2".
absl::StatusOr<std::vector<TraceSetting>> SnapshotSchema::Settings() {
  std::vector<TraceSetting> settings;
  if (!settings_.IsDict()) return settings;
  if (absl::Status status = Spend(pickle_.Size(settings_)); !status.ok()) return status;
  absl::Status status;
  pickle_.VisitEntries(settings_, [&](Values keys, Values values) {
    for (std::size_t i = 0; i < keys.size() && status.ok(); ++i) {
      absl::StatusOr<std::string> value = SettingText(values[i]);
      status = value.status();
      if (status.ok() && keys[i].IsText())
        settings.push_back({std::string(pickle_.Text(keys[i])), *std::move(value)});
    }
    return status.ok();
  });
  if (!status.ok()) return At("allocator_settings", status);
  return settings;
}

absl::StatusOr<std::string> SnapshotSchema::SettingText(PickleValue value) {
  if (!value.IsDict()) return TextOf(pickle_, value);
  if (absl::Status status = Spend(1 + pickle_.Size(value)); !status.ok()) return status;
  std::vector<std::string> entries;
  pickle_.VisitEntries(value, [&](Values keys, Values values) {
    for (std::size_t i = 0; i < keys.size(); ++i)
      entries.push_back(TextOf(pickle_, keys[i]) + ":" + TextOf(pickle_, values[i]));
    return true;
  });
  return absl::StrJoin(entries, ",");
}

absl::StatusOr<SnapshotFrame> SnapshotSchema::Frame(PickleValue value) {
  SnapshotFrame frame;
  if (value.IsText()) {
    frame.name = pickle_.Text(value);
    return frame;
  }
  absl::Status status = ForEachEntry(value, [&](Word key, PickleValue entry) {
    std::int64_t line = 0;
    if (key == Word::kName) return TakeText(entry, &frame.name);
    if (key == Word::kFilename) return TakeText(entry, &frame.file);
    if (key == Word::kLine && pickle_.AsInteger(entry, &line) && line > 0 && line <= UINT32_MAX)
      frame.line = static_cast<std::uint32_t>(line);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (frame.file == "??") frame.file = "";  // C++ frames with an unknown file
  return frame;
}

}  // namespace tidepool::pytorch
