// SPDX-License-Identifier: Apache-2.0
// Traces with an address for each allocation.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/pytorch/snapshot_layout.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

// Base address of invented pools: near PyTorch's memory, and aligned to every alignment of a trace.
constexpr std::uint64_t kPoolAddress = std::uint64_t{0x7f} << 40;

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
                                                   ", expected all of it in [0, ", pool_bytes,
                                                   ")"));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasAddresses(const Trace& trace) { return pytorch::FindLayout(trace).ok(); }

absl::StatusOr<Trace> AtOffsets(const Trace& trace, const std::vector<std::int64_t>& offsets,
                                std::int64_t pool_bytes) {
  if (absl::Status status = CheckOffsets(trace, offsets, pool_bytes); !status.ok()) return status;
  Trace placed = trace;
  placed.allocation_ids = StringTable();
  for (const std::int64_t offset : offsets) {
    const trace::AddressText id(kPoolAddress + static_cast<std::uint64_t>(offset));
    placed.allocation_ids.Add(id.text());
  }
  placed.reservations.clear();
  placed.segments.clear();
  placed.events.clear();
  if (!offsets.empty()) {
    placed.reservations.push_back({kPoolAddress, pool_bytes});
    TraceEvent reserve = trace.events.front();
    reserve.kind = TraceEvent::Kind::kReserve;
    reserve.index = 0;
    const auto first = std::find_if(trace.events.begin(), trace.events.end(),
                                    [](const TraceEvent& event) { return event.TouchesMemory(); });
    reserve.stream = (*first).stream;
    placed.events.push_back(reserve);
  }
  for (const TraceEvent& event : trace.events) {
    if (event.kind != TraceEvent::Kind::kReserve) placed.events.push_back(event);
  }
  return placed;
}

}  // namespace tidepool
