// SPDX-License-Identifier: Apache-2.0
// Moments: open marks as a stack, and reserved ranges by address.
#include "tidepool/trace/moments.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "lib/trace/address_text.h"

namespace tidepool {
namespace {

std::int64_t Aligned(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) & -alignment;
}

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

  void Take(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    GiveBack(begin, end);
    const auto next = ranges_.lower_bound(begin);
    if (joins_ && next != ranges_.begin() && std::prev(next)->second.end == begin) {
      begin = std::prev(next)->first;
    }
    if (joins_ && next != ranges_.end() && next->first == end) {
      end = next->second.end;
      ranges_.erase(next);
    }
    ranges_[begin] = {end, 0};
  }

  void GiveBack(std::uint64_t begin, std::uint64_t end) {
    auto at = Covering(begin);
    while (at != ranges_.end() && at->first < end) {
      const auto [first, range] = *at;
      at = ranges_.erase(at);
      if (first < begin) ranges_[first] = {begin, 0};
      if (range.end > end) ranges_[end] = {range.end, 0};
    }
  }

  void AddLive(std::uint64_t address, std::int64_t bytes) {
    const auto found = Covering(address);
    if (found != ranges_.end() && found->first <= address) found->second.live += bytes;
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
    std::int64_t live;
  };

  // Returns the first range that ends after `address`.
  std::map<std::uint64_t, Range>::iterator Covering(std::uint64_t address) {
    auto at = ranges_.upper_bound(address);
    if (at != ranges_.begin() && std::prev(at)->second.end > address) --at;
    return at;
  }

  std::map<std::uint64_t, Range> ranges_;  // by their begin
  bool joins_;
};

void Follow(const TraceReservation& reservation, Segments& segments) {
  const bool gives_back = reservation.bytes < 0;
  const auto bytes = static_cast<std::uint64_t>(reservation.bytes);
  const std::uint64_t begin = reservation.address;
  const std::uint64_t end = begin + (gives_back ? -bytes : bytes);
  if (begin == 0 || end < begin) return;
  gives_back ? segments.GiveBack(begin, end) : segments.Take(begin, end);
}

}  // namespace

std::vector<NamedBytes> PeaksByMark(const Trace& trace, std::int64_t alignment) {
  MarkPeaks peaks(trace);
  std::int64_t live = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kMark) peaks.Begin(event.index, live);
    if (event.kind == TraceEvent::Kind::kMarkEnd) peaks.End(event.index);
    if (!event.TouchesMemory()) continue;
    const std::int64_t bytes = Aligned(trace.allocations[event.index].bytes, alignment);
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
    Follow(reservation, segments);
  }
  for (const std::uint32_t number : *live) {
    const std::int64_t bytes = Aligned(trace.allocations[number].bytes, alignment);
    memory.live_bytes += bytes;
    std::uint64_t address = 0;
    if (trace::ParseAddress(trace.allocation_ids[number], &address)) {
      segments.AddLive(address, bytes);
    }
  }
  memory.segments = segments.WithFreeBytes();
  return memory;
}

std::optional<bool> HasExpandableSegments(const Trace& trace) {
  for (const TraceSetting& setting : trace.allocator_settings) {
    if (setting.name == "expandable_segments") return setting.value == "True";
  }
  return std::nullopt;
}

}  // namespace tidepool
