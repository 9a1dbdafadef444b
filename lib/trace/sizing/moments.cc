// SPDX-License-Identifier: Apache-2.0
// Moments: open marks as a stack, and reserved ranges by address.
#include "tidepool/trace/moments.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "lib/base/arithmetic.h"
#include "lib/trace/model/address_text.h"

namespace tidepool {
namespace {

// The peaks of open marks. Only the last one follows the live bytes; its peak is also one of the
// marks below it, which learn it when it ends.
class MarkPeaks {
 public:
  explicit MarkPeaks(const Trace& trace)
      : trace_(trace), peaks_(trace.mark_names.size(), -1), ends_(trace.mark_names.size()) {
    for (const TraceEvent& event : trace.events) {
      if (event.kind == TraceEvent::Kind::kMarkEnd) ends_[event.index] = true;
    }
  }

  void Begin(std::uint32_t mark, std::int64_t live) {
    constexpr std::size_t kMostOpen = 1000;
    if (!ends_[mark]) {
      EndPlain();
      plain_ = {mark, live};
    } else if (open_.size() < kMostOpen) {
      open_.push_back({mark, live});
    }
  }

  void End(std::uint32_t mark) {
    std::int64_t peak = 0;
    for (std::size_t i = open_.size(); i > 0; --i) {
      peak = std::max(peak, open_[i - 1].peak);
      if (open_[i - 1].mark != mark) continue;
      Record({mark, peak});
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i - 1));
      if (i > 1) open_[i - 2].peak = std::max(open_[i - 2].peak, peak);
      return;
    }
  }

  void Follow(std::int64_t live) {
    if (!open_.empty()) open_.back().peak = std::max(open_.back().peak, live);
    if (plain_.has_value()) plain_->peak = std::max(plain_->peak, live);
  }

  std::vector<NamedBytes> Finish() {
    EndPlain();
    while (!open_.empty()) End(open_.back().mark);
    std::vector<NamedBytes> peaks;
    for (std::size_t i = 0; i < peaks_.size(); ++i) {
      if (peaks_[i] >= 0) peaks.push_back({std::string(trace_.mark_names[i]), peaks_[i]});
    }
    absl::c_stable_sort(peaks,
                        [](const NamedBytes& a, const NamedBytes& b) { return a.bytes > b.bytes; });
    return peaks;
  }

 private:
  struct Open {
    std::uint32_t mark;
    std::int64_t peak;
  };

  void Record(const Open& open) { peaks_[open.mark] = std::max(peaks_[open.mark], open.peak); }
  void EndPlain() {
    if (plain_.has_value()) Record(*plain_);
    plain_.reset();
  }

  const Trace& trace_;
  std::vector<std::int64_t> peaks_;  // by mark; -1 before its first end
  std::vector<bool> ends_;           // whether the trace ends a mark of this name
  std::vector<Open> open_;
  std::optional<Open> plain_;
};

// Reserved ranges, and the live bytes in each.
class Segments {
 public:
  explicit Segments(bool joins) : joins_(joins) {}

  void Take(std::uint64_t begin, std::uint64_t end, std::uint32_t stream) {
    if (begin >= end) return;
    GiveBack(begin, end);
    const auto next = ranges_.lower_bound(begin);
    if (joins_ && next != ranges_.begin() && std::prev(next)->second.end == begin &&
        std::prev(next)->second.stream == stream) {
      begin = std::prev(next)->first;
    }
    if (joins_ && next != ranges_.end() && next->first == end && next->second.stream == stream) {
      end = next->second.end;
      ranges_.erase(next);
    }
    ranges_[begin] = {end, stream, 0};
  }

  void GiveBack(std::uint64_t begin, std::uint64_t end) {
    auto at = Covering(begin);
    while (at != ranges_.end() && at->first < end) {
      const auto [first, range] = *at;
      at = ranges_.erase(at);
      if (first < begin) ranges_[first] = {begin, range.stream, 0};
      if (range.end > end) ranges_[end] = {range.end, range.stream, 0};
    }
  }

  void AddLive(std::uint64_t address, std::int64_t bytes) {
    const auto found = Covering(address);
    if (found != ranges_.end() && found->first <= address) found->second.live += bytes;
  }

  // Returns all segments, by address, with the names of their streams.
  std::vector<TraceSegment> All(const StringTable& streams) const {
    std::vector<TraceSegment> segments;
    for (const auto& [begin, range] : ranges_) {
      const auto bytes = static_cast<std::int64_t>(range.end - begin);
      segments.push_back({.address = begin,
                          .bytes = bytes,
                          .free_bytes = std::max<std::int64_t>(0, bytes - range.live),
                          .stream = std::string(streams[range.stream]),
                          .pool = "default"});
    }
    return segments;
  }

  std::vector<SegmentUse> WithFreeBytes() const {
    std::vector<SegmentUse> segments;
    for (const auto& [begin, range] : ranges_) {
      const auto bytes = static_cast<std::int64_t>(range.end - begin);
      if (bytes > range.live) segments.push_back({begin, bytes, bytes - range.live});
    }
    absl::c_stable_sort(segments, [](const SegmentUse& a, const SegmentUse& b) {
      return a.free_bytes > b.free_bytes;
    });
    return segments;
  }

 private:
  struct Range {
    std::uint64_t end;
    std::uint32_t stream;
    std::int64_t live;
  };

  // Returns the first range that ends after `address`.
  std::map<std::uint64_t, Range>::iterator Covering(std::uint64_t address) {
    auto at = ranges_.upper_bound(address);
    if (at != ranges_.begin() && std::prev(at)->second.end > address) --at;
    return at;
  }

  std::map<std::uint64_t, Range> ranges_;  // by their start
  bool joins_;
};

void Follow(const TraceReservation& reservation, std::uint32_t stream, Segments& segments) {
  const bool gives_back = reservation.bytes < 0;
  const auto bytes = static_cast<std::uint64_t>(reservation.bytes);
  const std::uint64_t begin = reservation.address;
  const std::uint64_t end = begin + (gives_back ? -bytes : bytes);
  if (begin == 0 || end < begin) return;
  gives_back ? segments.GiveBack(begin, end) : segments.Take(begin, end, stream);
}

// Adds the allocations of `live`; returns their aligned bytes.
std::int64_t AddLive(const Trace& trace, const std::vector<std::uint32_t>& live,
                     std::int64_t alignment, Segments& segments) {
  std::int64_t sum = 0;
  for (const std::uint32_t number : live) {
    const std::int64_t bytes = AlignUp(trace.allocations[number].bytes, alignment);
    sum += bytes;
    std::uint64_t address = 0;
    if (trace::ParseAddress(trace.allocation_ids[number], &address)) {
      segments.AddLive(address, bytes);
    }
  }
  return sum;
}

// Gives segments the pools and kinds that they, or the segments around them, have at the end.
void TakePools(const Trace& trace, std::vector<TraceSegment>& segments) {
  constexpr std::int64_t kSmallSegment = std::int64_t{2} << 20;
  const bool is_expandable = HasExpandableSegments(trace).value_or(false);
  for (TraceSegment& segment : segments) {
    const auto after = absl::c_upper_bound(
        trace.segments, segment.address,
        [](std::uint64_t address, const TraceSegment& known) { return address < known.address; });
    const bool is_known =
        after != trace.segments.begin() && segment.address - std::prev(after)->address <
                                               static_cast<std::uint64_t>(std::prev(after)->bytes);
    if (is_known) {
      segment.pool = std::prev(after)->pool;
      segment.kind = std::prev(after)->kind;
    } else if (is_expandable) {
      segment.kind = TraceSegment::Kind::kExpandable;
    } else if (segment.bytes == kSmallSegment) {
      segment.kind = TraceSegment::Kind::kSmall;
    }
  }
}

// Whether memory changes after event `event`.
bool ChangesAfter(const Trace& trace, std::int64_t event) {
  return std::any_of(trace.events.begin() + event + 1, trace.events.end(),
                     [](const TraceEvent& later) {
                       return later.TouchesMemory() || later.kind == TraceEvent::Kind::kReserve;
                     });
}

absl::StatusOr<std::vector<TraceSegment>> SegmentsAfter(const Trace& trace, std::int64_t event,
                                                        std::int64_t alignment) {
  const absl::StatusOr<std::vector<std::uint32_t>> live = LiveAfter(trace, event);
  if (!live.ok()) return live.status();
  if (!trace.segments.empty() && !ChangesAfter(trace, event)) return trace.segments;
  Segments segments(HasExpandableSegments(trace).value_or(false));
  for (std::size_t i = 0; i <= static_cast<std::size_t>(event); ++i) {
    if (trace.events[i].kind != TraceEvent::Kind::kReserve) continue;
    Follow(trace.reservations[trace.events[i].index], trace.events[i].stream, segments);
  }
  AddLive(trace, *live, alignment, segments);
  std::vector<TraceSegment> all = segments.All(trace.stream_names);
  TakePools(trace, all);
  return all;
}

// Names the pool and stream to which free memory must belong to be of use.
void ChooseOwner(const Trace& trace, std::int64_t event, const std::vector<TraceSegment>& segments,
                 FreeParts& parts) {
  const TraceEvent& last = trace.events[static_cast<std::size_t>(event)];
  parts.pool = "default";
  if (last.kind == TraceEvent::Kind::kFailure && !trace.stream_names[last.stream].empty()) {
    parts.stream = std::string(trace.stream_names[last.stream]);
    return;
  }
  std::map<std::pair<std::string_view, std::string_view>, std::int64_t> live;
  std::int64_t most = -1;
  for (const TraceSegment& segment : segments) {
    std::int64_t& bytes = live[{segment.pool, segment.stream}];
    bytes += segment.bytes - segment.free_bytes;
  }
  for (const auto& [owner, bytes] : live) {
    if (bytes <= most) continue;
    most = bytes;
    parts.pool = std::string(owner.first);
    parts.stream = std::string(owner.second);
  }
}

// Counts the granules that live bytes of a pool and stream fill at least.
std::int64_t InGranules(const TraceSegment& first, std::int64_t live_bytes) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const std::int64_t granule = first.kind == TraceSegment::Kind::kSmall ? 2 * kMiB : 20 * kMiB;
  return RoundUp(live_bytes, granule);
}

FreeParts PartsOf(const std::vector<TraceSegment>& segments) {
  FreeParts sums;
  std::map<std::tuple<std::string_view, std::string_view, TraceSegment::Kind>, FreeMemory> parts;
  std::map<std::tuple<std::string_view, std::string_view, TraceSegment::Kind>,
           std::pair<const TraceSegment*, std::int64_t>>
      live;
  for (const TraceSegment& segment : segments) {
    sums.reserved_bytes += segment.bytes;
    sums.free_bytes += segment.free_bytes;
    sums.pending_bytes += segment.pending_bytes;
    if (segment.free_bytes == segment.bytes) {
      ++sums.whole_segments;
      sums.whole_bytes += segment.bytes;
    }
    const std::tuple key(std::string_view(segment.pool), std::string_view(segment.stream),
                         segment.kind);
    auto& [first, bytes] = live[key];
    first = &segment;
    bytes += segment.bytes - segment.free_bytes;
    if (segment.free_bytes == 0) continue;
    FreeMemory& part = parts[key];
    part = {segment.pool, segment.stream, segment.kind, part.bytes + segment.free_bytes,
            part.segments + 1};
  }
  for (const auto& [key, held] : live)
    sums.expandable_bytes += InGranules(*held.first, held.second);
  for (auto& [key, part] : parts) sums.parts.push_back(std::move(part));
  absl::c_stable_sort(sums.parts,
                      [](const FreeMemory& a, const FreeMemory& b) { return a.bytes > b.bytes; });
  return sums;
}

// Whether the sums of the segments' sizes stay within 64 bits, which those of a damaged trace may
// not.
bool AddUp(const std::vector<TraceSegment>& segments) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::int64_t sum = 0;
  for (const TraceSegment& segment : segments) {
    if (segment.bytes < 0 || segment.bytes > kMost - sum) return false;
    sum += segment.bytes;
  }
  return true;
}

}  // namespace

std::vector<NamedBytes> PeaksByMark(const Trace& trace, std::int64_t alignment) {
  if (trace.mark_names.size() == 0) return {};
  MarkPeaks peaks(trace);
  std::int64_t live = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kMark) peaks.Begin(event.index, live);
    if (event.kind == TraceEvent::Kind::kMarkEnd) peaks.End(event.index);
    if (!event.TouchesMemory()) continue;
    const std::int64_t bytes = AlignUp(trace.allocations[event.index].bytes, alignment);
    live += event.kind == TraceEvent::Kind::kAllocate ? bytes : -bytes;
    peaks.Follow(live);
  }
  return peaks.Finish();
}

absl::StatusOr<std::optional<ReservedMemory>> ReservedAfter(const Trace& trace, std::int64_t event,
                                                            std::int64_t alignment) {
  const absl::StatusOr<std::vector<std::uint32_t>> live = LiveAfter(trace, event);
  if (!live.ok()) return live.status();
  if (trace.reservations.empty()) return std::nullopt;
  ReservedMemory memory;
  Segments segments(HasExpandableSegments(trace).value_or(false));
  for (std::size_t i = 0; i <= static_cast<std::size_t>(event); ++i) {
    if (trace.events[i].kind != TraceEvent::Kind::kReserve) continue;
    const TraceReservation& reservation = trace.reservations[trace.events[i].index];
    if (__builtin_add_overflow(memory.reserved_bytes, reservation.bytes, &memory.reserved_bytes)) {
      return std::nullopt;  // a damaged trace
    }
    Follow(reservation, trace.events[i].stream, segments);
  }
  memory.live_bytes = AddLive(trace, *live, alignment, segments);
  memory.segments = segments.WithFreeBytes();
  return memory;
}

absl::StatusOr<std::optional<FreeParts>> FreeAfter(const Trace& trace, std::int64_t event,
                                                   std::int64_t alignment) {
  const absl::StatusOr<std::vector<TraceSegment>> segments = SegmentsAfter(trace, event, alignment);
  if (!segments.ok()) return segments.status();
  if (segments->empty() || !AddUp(*segments)) return std::nullopt;
  FreeParts parts = PartsOf(*segments);
  ChooseOwner(trace, event, *segments, parts);
  for (const FreeMemory& part : parts.parts) {
    if (part.pool != parts.pool || part.stream != parts.stream) parts.stranded_bytes += part.bytes;
  }
  return parts;
}

std::string_view SegmentKindName(TraceSegment::Kind kind) {
  switch (kind) {
    case TraceSegment::Kind::kSmall:
      return "small";
    case TraceSegment::Kind::kLarge:
      return "large";
    case TraceSegment::Kind::kExpandable:
      return "expandable";
  }
  return "";
}

std::optional<bool> HasExpandableSegments(const Trace& trace) {
  for (const TraceSetting& setting : trace.allocator_settings) {
    if (setting.name == "expandable_segments") return setting.value == "True";
  }
  return std::nullopt;
}

}  // namespace tidepool
