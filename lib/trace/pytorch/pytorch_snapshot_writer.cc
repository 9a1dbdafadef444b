// SPDX-License-Identifier: Apache-2.0
// Snapshot writer: a trace as the pickle of torch.cuda.memory._snapshot(), which
// pytorch.org/memory_viz opens. The history holds all events; segments and blocks are those after
// the last event.
#include <algorithm>
#include <charconv>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/csv.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/pytorch/pickle_writer.h"
#include "lib/trace/pytorch/pytorch_snapshot.h"
#include "lib/trace/pytorch/snapshot_layout.h"

namespace tidepool::pytorch {

namespace {

using Kind = TraceEvent::Kind;

// Most frames of a stack. Deeper stacks keep their innermost frames; otherwise some traces would
// become files of unbounded size.
constexpr std::size_t kMostFrames = 1024;
constexpr std::int32_t kMostDevice = 255;
constexpr std::uint64_t kSmallSegment = std::uint64_t{2} << 20;

std::int64_t Microseconds(std::int64_t nanoseconds) {
  // The lowest nanoseconds would overflow when converted back from microseconds.
  const std::int64_t kept = std::max(nanoseconds, INT64_MIN / 1000 * 1000);
  return kept / 1000 - (kept % 1000 < 0 ? 1 : 0);
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Trace& trace, const SnapshotLayout& layout, std::ostream& out)
      : trace_(trace),
        layout_(layout),
        out_(out),
        device_(trace.device < 0 || trace.device > kMostDevice ? 0 : trace.device),
        stack_numbers_(trace.frames.size()) {}

  void Write() {
    out_.BeginDict();
    out_.Text("segments");
    Segments();
    out_.Text("device_traces");
    DeviceTraces();
    out_.Text("allocator_settings");
    Settings();
    out_.Text("external_annotations");
    Annotations();
    out_.EndDict();
    out_.End();
  }

 private:
  struct Annotation {
    TraceEvent mark;
    std::int64_t before_event;
  };

  void Entry(std::string_view key, std::string_view text) {
    out_.Text(key);
    out_.Text(text);
  }
  void Entry(std::string_view key, std::int64_t integer) {
    out_.Text(key);
    out_.Integer(integer);
  }
  void Address(std::string_view key, std::uint64_t address) {
    out_.Text(key);
    out_.Unsigned(address);
  }

  // Writes the stream as a number if that reads back as the same text, and otherwise as a text.
  void Stream(std::uint32_t stream) {
    const std::string_view name =
        stream < trace_.stream_names.size() ? trace_.stream_names[stream] : std::string_view();
    std::int64_t number = 0;
    out_.Text("stream");
    if (io::ParseInteger(name, &number) && absl::StrCat(number) == std::string(name)) {
      out_.Integer(number);
    } else {
      out_.Text(name);
    }
  }

  void Segments() {
    PickleWriter::List list = out_.BeginList();
    auto block = layout_.blocks.begin();
    for (const SnapshotLayout::Segment& segment : layout_.segments) {
      // Where segments of several streams adjoin, a block may extend into the next segment.
      const auto first = block;
      while (block != layout_.blocks.end() && block->begin < segment.end) ++block;
      out_.NextElement(list);
      Segment(segment, {first, block});
    }
    out_.EndList(list);
  }

  void Segment(const SnapshotLayout::Segment& segment,
               const std::vector<SnapshotLayout::Block>& blocks) {
    std::int64_t allocated = 0;
    std::int64_t requested = 0;
    for (const SnapshotLayout::Block& block : blocks) {
      allocated += static_cast<std::int64_t>(block.end - block.begin);
      requested += trace_.allocations[block.allocation].bytes;
    }
    out_.BeginDict();
    Entry("device", device_);
    Address("address", segment.begin);
    Address("total_size", segment.end - segment.begin);
    Entry("allocated_size", allocated);
    Entry("active_size", allocated);
    Entry("requested_size", requested);
    Stream(segment.stream);
    Entry("segment_type", IsSmall(segment) ? "small" : "large");
    Pool(segment.recorded == nullptr ? "" : segment.recorded->pool);
    out_.Text("is_expandable");
    out_.Bool(segment.recorded == nullptr
                  ? layout_.is_expandable
                  : segment.recorded->kind == TraceSegment::Kind::kExpandable);
    out_.Text("frames");
    out_.EmptyList();
    out_.Text("blocks");
    Blocks(segment, blocks);
    out_.EndDict();
  }

  static bool IsSmall(const SnapshotLayout::Segment& segment) {
    using SegmentKind = TraceSegment::Kind;
    if (segment.recorded != nullptr && segment.recorded->kind != SegmentKind::kExpandable)
      return segment.recorded->kind == SegmentKind::kSmall;
    return segment.end - segment.begin <= kSmallSegment;
  }

  // Writes the id of a pool, such as "(0, 1)". The default pool is (0, 0).
  void Pool(std::string_view pool) {
    std::int64_t id[2] = {0, 0};
    const std::size_t comma = pool.find(", ");
    if (comma != std::string_view::npos) {
      io::ParseInteger(pool.substr(1, comma - 1), &id[0]);
      io::ParseInteger(pool.substr(comma + 2, pool.size() - comma - 3), &id[1]);
    }
    out_.Text("segment_pool_id");
    out_.Pair(id[0], id[1]);
  }

  void Blocks(const SnapshotLayout::Segment& segment,
              const std::vector<SnapshotLayout::Block>& blocks) {
    PickleWriter::List list = out_.BeginList();
    std::uint64_t at = segment.begin;
    const auto free_until = [&](std::uint64_t end) {
      if (at >= end) return;
      out_.NextElement(list);
      Block(at, end - at, 0, "inactive", 0);
      at = end;
    };
    for (const SnapshotLayout::Block& block : blocks) {
      free_until(block.begin);
      const TraceAllocation& allocation = trace_.allocations[block.allocation];
      out_.NextElement(list);
      Block(block.begin, block.end - block.begin, allocation.bytes, "active_allocated",
            allocation.tag);
      at = block.end;
    }
    free_until(segment.end);
    out_.EndList(list);
  }

  void Block(std::uint64_t address, std::uint64_t size, std::int64_t requested,
             std::string_view state, TraceTag tag) {
    out_.BeginDict();
    Address("address", address);
    Address("size", size);
    Entry("requested_size", requested);
    Entry("state", state);
    out_.Text("frames");
    Frames(tag);
    out_.EndDict();
  }

  // Writes a stack, innermost frame first, as PyTorch does.
  void Frames(TraceTag tag) {
    if (tag == 0) return out_.EmptyList();
    std::uint32_t& number = stack_numbers_[tag - 1];
    if (number != 0) return out_.Reference(number - 1);
    PickleWriter::List list = out_.BeginList();
    std::size_t depth = 0;
    for (TraceTag at = tag; at != 0 && depth < kMostFrames; at = trace_.frames[at - 1].caller) {
      out_.NextElement(list);
      Frame(trace_.frames[at - 1]);
      ++depth;
    }
    out_.EndList(list);
    number = out_.Remember() + 1;
  }

  void Frame(const TraceFrame& frame) {
    const auto [found, is_new] = frame_numbers_.try_emplace({frame.name, frame.file, frame.line});
    if (!is_new) return out_.Reference(found->second);
    out_.BeginDict();
    Entry("name", trace_.frame_texts[frame.name]);
    Entry("filename", trace_.frame_texts[frame.file]);
    Entry("line", frame.line);
    out_.EndDict();
    found->second = out_.Remember();
  }

  void DeviceTraces() {
    PickleWriter::List list = out_.BeginList();
    for (std::int32_t device = 0; device < device_; ++device) {
      out_.NextElement(list);
      out_.EmptyList();
    }
    out_.NextElement(list);
    Events();
    out_.EndList(list);
  }

  void Events() {
    PickleWriter::List list = out_.BeginList();
    std::int64_t earlier = trace_.earlier_allocations;
    for (const TraceEvent& event : trace_.events) {
      // The reader deduces these from the segments, blocks and frees.
      if (earlier > 0 && (event.kind == Kind::kAllocate || event.kind == Kind::kReserve)) {
        earlier -= event.kind == Kind::kAllocate ? 1 : 0;
        continue;
      }
      switch (event.kind) {
        case Kind::kAllocate:
          Event(list, event, "alloc", AddressOf(event.index), trace_.allocations[event.index]);
          break;
        case Kind::kFree: {
          const TraceAllocation freed = {trace_.allocations[event.index].bytes};
          Event(list, event, "free_requested", AddressOf(event.index), freed);
          Event(list, event, "free_completed", AddressOf(event.index), freed);
          break;
        }
        case Kind::kReserve:
          Reserve(list, event, trace_.reservations[event.index]);
          break;
        case Kind::kFailure:
          Event(list, event, "oom", 0, trace_.failures[event.index]);
          break;
        case Kind::kMark:
          if (trace_.mark_names[event.index] == "snapshot") {
            Event(list, event, "snapshot", 0, {});
            break;
          }
          [[fallthrough]];
        case Kind::kMarkEnd:
          annotations_.push_back({event, written_events_});
          break;
        case Kind::kWait:
        case Kind::kPause:
        case Kind::kResume:
          break;
      }
    }
    out_.EndList(list);
  }

  std::uint64_t AddressOf(std::uint32_t allocation) const {
    std::uint64_t address = 0;
    trace::ParseAddress(trace_.allocation_ids[allocation], &address);
    return address;
  }

  void Reserve(PickleWriter::List& list, const TraceEvent& event,
               const TraceReservation& reservation) {
    const bool gives_back = reservation.bytes < 0;
    const std::string_view action = layout_.is_expandable
                                        ? (gives_back ? "segment_unmap" : "segment_map")
                                        : (gives_back ? "segment_free" : "segment_alloc");
    Event(list, event, action, reservation.address, {std::abs(reservation.bytes)});
  }

  void Event(PickleWriter::List& list, const TraceEvent& event, std::string_view action,
             std::uint64_t address, const TraceAllocation& what) {
    out_.NextElement(list);
    out_.BeginDict();
    Entry("action", action);
    if (event.kind == Kind::kFailure) {
      DeviceFree(trace_.failures[event.index]);
    } else {
      Address("addr", address);
    }
    Entry("size", what.bytes);
    Stream(event.stream);
    Entry("time_us", Microseconds(event.time));
    out_.Text("frames");
    Frames(what.tag);
    out_.EndDict();
    ++written_events_;
  }

  void DeviceFree(const TraceFailure& failure) {
    if (failure.device_free_bytes.has_value()) Entry("device_free", *failure.device_free_bytes);
  }

  void Settings() {
    out_.BeginDict();
    if (trace_.allocator_settings.empty()) DefaultSettings();
    for (const TraceSetting& setting : trace_.allocator_settings) Setting(setting);
    out_.EndDict();
  }

  void DefaultSettings() {
    Entry("PYTORCH_CUDA_ALLOC_CONF", "");
    Entry("max_split_size", -1);
    out_.Text("garbage_collection_threshold");
    out_.Float(0);
    out_.Text("expandable_segments");
    out_.Bool(layout_.is_expandable);
  }

  // Writes a setting with the type that its text suggests.
  void Setting(const TraceSetting& setting) {
    std::int64_t integer = 0;
    double number = 0;
    out_.Text(setting.name);
    if (setting.value == "True" || setting.value == "False") {
      out_.Bool(setting.value == "True");
    } else if (io::ParseInteger(setting.value, &integer) &&
               absl::StrCat(integer) == setting.value) {
      out_.Integer(integer);
    } else if (absl::SimpleAtod(setting.value, &number)) {
      out_.Float(number);
    } else {
      out_.Text(setting.value);
    }
  }

  void Annotations() {
    PickleWriter::List list = out_.BeginList();
    for (const auto& [mark, before_event] : annotations_) {
      out_.NextElement(list);
      out_.BeginDict();
      Entry("stage", mark.kind == Kind::kMark ? "START" : "END");
      Entry("name", trace_.mark_names[mark.index]);
      Entry("device", device_);
      Entry("time_us", Microseconds(mark.time));
      // A key of tidepool, not PyTorch: times alone do not order an annotation among events of
      // equal time.
      Entry("before_event", before_event);
      out_.EndDict();
    }
    out_.EndList(list);
  }

  const Trace& trace_;
  const SnapshotLayout& layout_;
  PickleWriter out_;
  const std::int32_t device_;
  std::vector<std::uint32_t> stack_numbers_;  // number of each tag's list of frames, plus 1
  absl::flat_hash_map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t>
      frame_numbers_;
  std::vector<Annotation> annotations_;
  std::int64_t written_events_ = 0;
};

}  // namespace

absl::Status WritePyTorchSnapshot(const Trace& trace, std::ostream& out) {
  absl::StatusOr<SnapshotLayout> layout = FindLayout(trace);
  if (!layout.ok()) return layout.status();
  SnapshotWriter(trace, *layout, out).Write();
  return absl::OkStatus();
}

}  // namespace tidepool::pytorch
