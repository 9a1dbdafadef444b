#include "lib/trace/snapshot_layout.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/trace/address_text.h"
#include "lib/trace/quote.h"
#include "lib/trace/reserved_ranges.h"

namespace tidepool::internal {

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
      return absl::InvalidArgumentError(
          absl::StrCat("id ", Quoted(trace_.allocation_ids[allocation]), ", expected an address"));
    }
    const std::size_t ranges = reserved_.Covering(begin, end);
    if (ranges == 0 || live_.Overlaps(begin, end)) {
      return absl::InvalidArgumentError(
          absl::StrCat(trace_.allocations[allocation].bytes, " bytes at ", Hexadecimal(begin),
                       ranges == 0 ? " are not all reserved" : " overlap with what is live",
                       ", expected addresses that are reserved and free"));
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
                                                     ", expected one that is possible there"));
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
    if (is_expandable_ && !layout.segments.empty() && layout.segments.back().end == begin &&
        layout.segments.back().stream == range.note) {
      layout.segments.back().end = range.end;
    } else {
      layout.segments.push_back({begin, range.end, range.note});
    }
  }

  // False when there is none.
  bool Range(std::uint32_t allocation, std::uint64_t* begin, std::uint64_t* end) const {
    if (!ParseAddress(trace_.allocation_ids[allocation], begin)) return false;
    const std::int64_t bytes =
        (trace_.allocations[allocation].bytes + trace_.default_alignment - 1) &
        -trace_.default_alignment;
    *end = *begin + static_cast<std::uint64_t>(bytes);
    return *end > *begin;
  }

  static std::string Hexadecimal(std::uint64_t address) {
    return std::string(AddressText(address).text());
  }

  const Trace& trace_;
  ReservedRanges<std::uint32_t> reserved_;  // with the stream
  ReservedRanges<std::uint32_t> live_;      // with the allocation
  bool is_expandable_ = false;
};

// Where PyTorch has its memory, roughly, and aligned to whatever a trace asks for.
constexpr std::uint64_t kPoolAddress = std::uint64_t{0x7f} << 40;

}  // namespace

absl::StatusOr<SnapshotLayout> FindLayout(const Trace& trace) { return LayoutFinder(trace).Find(); }

}  // namespace tidepool::internal

namespace tidepool {

namespace {

absl::Status CheckOffsets(const Trace& trace, const std::vector<std::int64_t>& offsets,
                          std::int64_t pool_bytes) {
  if (offsets.size() != trace.allocations.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        offsets.size(), " offsets, expected ", trace.allocations.size(), ", one an allocation"));
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] >= 0 && offsets[i] <= pool_bytes &&
        trace.allocations[i].bytes <= pool_bytes - offsets[i])
      continue;
    return absl::InvalidArgumentError(absl::StrCat("allocation ", i, " at offset ", offsets[i],
                                                   ", expected it inside of ", pool_bytes,
                                                   " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasAddresses(const Trace& trace) { return internal::FindLayout(trace).ok(); }

absl::StatusOr<Trace> AtOffsets(const Trace& trace, const std::vector<std::int64_t>& offsets,
                                std::int64_t pool_bytes) {
  if (absl::Status status = CheckOffsets(trace, offsets, pool_bytes); !status.ok()) return status;
  Trace placed = trace;
  placed.allocation_ids = StringTable();
  for (const std::int64_t offset : offsets) {
    const internal::AddressText id(internal::kPoolAddress + static_cast<std::uint64_t>(offset));
    placed.allocation_ids.Add(id.text());
  }
  placed.reservations.clear();
  placed.events.clear();
  if (!offsets.empty()) {
    placed.reservations.push_back({internal::kPoolAddress, pool_bytes});
    TraceEvent reserve = trace.events.front();
    reserve.kind = TraceEvent::Kind::kReserve;
    reserve.index = 0;
    const auto first = std::find_if(trace.events.begin(), trace.events.end(),
                                    [](const TraceEvent& event) { return event.TouchesMemory(); });
    reserve.stream = first->stream;
    placed.events.push_back(reserve);
  }
  for (const TraceEvent& event : trace.events) {
    if (event.kind != TraceEvent::Kind::kReserve) placed.events.push_back(event);
  }
  return placed;
}

}  // namespace tidepool
