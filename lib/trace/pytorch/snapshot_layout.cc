// SPDX-License-Identifier: Apache-2.0
// Snapshot layout: replays a trace over its reserved ranges.
#include "lib/trace/pytorch/snapshot_layout.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/pytorch/reserved_ranges.h"

namespace tidepool::pytorch {

namespace {

class LayoutFinder {
 public:
  explicit LayoutFinder(const Trace& trace) : trace_(trace) {}

  absl::StatusOr<SnapshotLayout> Find() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      if (absl::Status status = Step(trace_.events[i]); !status.ok()) {
        return absl::Status(status.code(), absl::StrCat("event ", i, ": ", status.message()));
      }
    }
    SnapshotLayout layout;
    layout.is_expandable = is_expandable_;
    for (const auto& [begin, range] : reserved_.all()) AddSegment(layout, begin, range);
    for (const auto& [begin, range] : live_.all())
      layout.blocks.push_back({begin, range.end, range.note});
    return layout;
  }

 private:
  absl::Status Step(const TraceEvent& event) {
    switch (event.kind) {
      case TraceEvent::Kind::kAllocate:
        return Allocate(event.index);
      case TraceEvent::Kind::kFree:
        return Free(event.index);
      case TraceEvent::Kind::kReserve:
        return Reserve(trace_.reservations[event.index], event.stream);
      default:
        return absl::OkStatus();
    }
  }

  absl::Status Allocate(std::uint32_t allocation) {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    if (!Range(allocation, &begin, &end)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "id ", text::Quoted(trace_.allocation_ids[allocation]), ", expected an address"));
    }
    const std::size_t ranges = reserved_.Covering(begin, end);
    if (ranges == 0 || live_.Overlaps(begin, end)) {
      return absl::InvalidArgumentError(
          absl::StrCat(trace_.allocations[allocation].bytes, " bytes at ", Hexadecimal(begin),
                       ranges == 0 ? " are not all reserved" : " overlap a live allocation"));
    }
    is_expandable_ |= ranges > 1;
    live_.Add(begin, end, allocation);
    return absl::OkStatus();
  }

  absl::Status Free(std::uint32_t allocation) {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    if (Range(allocation, &begin, &end)) live_.Remove(begin, end);
    return absl::OkStatus();
  }

  absl::Status Reserve(const TraceReservation& reservation, std::uint32_t stream) {
    const bool gives_back = reservation.bytes < 0;
    const auto bytes = static_cast<std::uint64_t>(reservation.bytes);
    const std::uint64_t begin = reservation.address;
    const std::uint64_t end = begin + (gives_back ? -bytes : bytes);
    const bool is_possible =
        begin != 0 && end > begin &&
        (gives_back ? reserved_.Covering(begin, end) > 0 && !live_.Overlaps(begin, end)
                    : !reserved_.Overlaps(begin, end));
    if (!is_possible) {
      return absl::InvalidArgumentError(absl::StrCat("a reservation of ", reservation.bytes,
                                                     " bytes at ", Hexadecimal(begin),
                                                     ", which contradicts the events before it"));
    }
    if (gives_back) {
      is_expandable_ |= !reserved_.IsOneRange(begin, end);
      reserved_.Remove(begin, end);
    } else {
      reserved_.Add(begin, end, stream);
    }
    return absl::OkStatus();
  }

  void AddSegment(SnapshotLayout& layout, std::uint64_t begin,
                  const ReservedRanges<std::uint32_t>::Range& range) const {
    const TraceSegment* const recorded = RecordedAround(begin, range.end);
    if (!layout.segments.empty() && layout.segments.back().end == begin &&
        layout.segments.back().recorded == recorded &&
        (recorded != nullptr || (is_expandable_ && layout.segments.back().stream == range.note))) {
      layout.segments.back().end = range.end;
    } else {
      layout.segments.push_back({begin, range.end, range.note, recorded});
    }
  }

  const TraceSegment* RecordedAround(std::uint64_t begin, std::uint64_t end) const {
    auto after = std::upper_bound(
        trace_.segments.begin(), trace_.segments.end(), begin,
        [](std::uint64_t at, const TraceSegment& segment) { return at < segment.address; });
    if (after == trace_.segments.begin()) return nullptr;
    const TraceSegment& segment = *--after;
    const std::uint64_t bytes = end - segment.address;
    return bytes <= static_cast<std::uint64_t>(segment.bytes) ? &segment : nullptr;
  }

  // Returns false if the allocation has no valid address.
  bool Range(std::uint32_t allocation, std::uint64_t* begin, std::uint64_t* end) const {
    if (!trace::ParseAddress(trace_.allocation_ids[allocation], begin)) return false;
    const std::int64_t bytes =
        (trace_.allocations[allocation].bytes + trace_.default_alignment - 1) &
        -trace_.default_alignment;
    *end = *begin + static_cast<std::uint64_t>(bytes);
    return *end > *begin;
  }

  static std::string Hexadecimal(std::uint64_t address) {
    return std::string(trace::AddressText(address).text());
  }

  const Trace& trace_;
  ReservedRanges<std::uint32_t> reserved_;  // notes are streams
  ReservedRanges<std::uint32_t> live_;      // notes are allocations
  bool is_expandable_ = false;
};

}  // namespace

absl::StatusOr<SnapshotLayout> FindLayout(const Trace& trace) { return LayoutFinder(trace).Find(); }

}  // namespace tidepool::pytorch
