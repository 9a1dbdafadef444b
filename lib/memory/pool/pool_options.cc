// SPDX-License-Identifier: Apache-2.0
// Each error names the option, its value, and the values that are possible.
#include "lib/memory/pool/pool_options.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/blocks/block_map.h"
#include "lib/memory/pool/memory_source.h"
#include "lib/memory/pool/segments.h"

namespace tidepool::pool {
namespace {

using text::ExactSize;

constexpr int kMostPlans = 1 << 16;

// Checks the memory, which is not automatic any more.
absl::Status CheckMemory(const Device& device, const PoolOptions& options) {
  if (options.memory == PoolMemory::kVirtual && device.granularity() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("memory virtual, expected segments, because ",
                                                   device.name(), " has no virtual memory"));
  }
  if (options.memory == PoolMemory::kSegments && options.remap) {
    return absl::InvalidArgumentError(absl::StrCat(
        "remap with memory in segments, expected virtual memory",
        device.granularity() == 0 ? absl::StrCat(", which ", device.name(), " does not have")
                                  : ""));
  }
  return absl::OkStatus();
}

absl::Status CheckAlignment(const Device& device, const PoolOptions& options) {
  const std::int64_t alignment = options.alignment;
  const bool in_segments = options.memory == PoolMemory::kSegments;
  const std::int64_t most = in_segments ? kSegmentAlignment : device.granularity();
  if (alignment >= 1 && (alignment & (alignment - 1)) == 0 && alignment <= most) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("alignment ", alignment, ", expected a power of two up to ", most, ", the ",
                   in_segments ? "alignment of segments" : "granularity", " of ", device.name()));
}

absl::Status CheckPlan(const PoolOptions& options) {
  if (options.placement != kPlanned && options.plan != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("a plan with placement ",
                                                   absl::CHexEscape(options.placement),
                                                   ", expected placement ", kPlanned));
  }
  if (options.placement == kPlanned && options.remap) {
    return absl::InvalidArgumentError(absl::StrCat(
        "remap with placement ", kPlanned,
        ", expected another placement: a plan says where memory is, and remapping moves it"));
  }
  if (options.most_plans < 0 || options.most_plans > kMostPlans) {
    return absl::InvalidArgumentError(
        absl::StrCat("most_plans ", options.most_plans, ", expected 0 to ", kMostPlans));
  }
  if (!(options.plan_seconds >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan_seconds ", options.plan_seconds, ", expected 0 or more"));
  }
  if (options.plan == nullptr) return absl::OkStatus();
  const std::vector<PlannedRequest>& requests = options.plan->requests();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& [bytes, offset, clue] = requests[i];
    const bool is_placed = offset != PlannedRequest::kAnywhere;
    if (bytes > 0 && bytes % options.alignment == 0 &&
        (!is_placed || (offset >= 0 && offset % options.alignment == 0))) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("request ", i, " of the plan has ", bytes, " bytes at ", offset,
                     ", expected multiples of the alignment, ", options.alignment));
  }
  if (options.plan->height_bytes() > options.max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a plan of ", ExactSize(options.plan->height_bytes()),
                     ", expected at most max_bytes, ", ExactSize(options.max_bytes)));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const Device& device, const PoolOptions& options) {
  const auto expect = [](const char* name, auto value, auto... expected) {
    return absl::InvalidArgumentError(absl::StrCat(name, " ", value, ", expected ", expected...));
  };
  if (absl::Status status = CheckMemory(device, options); !status.ok()) return status;
  if (absl::Status status = CheckAlignment(device, options); !status.ok()) return status;
  const std::int64_t alignment = options.alignment;
  if (options.remap && options.max_bytes < device.granularity()) {
    return expect("max_bytes", ExactSize(options.max_bytes), "at least ",
                  ExactSize(device.granularity()), ", the granularity of ", device.name(),
                  ", to remap");
  }
  if (options.max_bytes < alignment || options.max_bytes > device.memory_bytes()) {
    return expect("max_bytes", ExactSize(options.max_bytes), ExactSize(alignment), " to ",
                  ExactSize(device.memory_bytes()), ", the memory of ", device.name());
  }
  const std::int64_t most = blocks::MaxArenaBytes(alignment);
  // AddressBytes rounds up and multiplies, which would overflow for a larger budget.
  const std::int64_t addresses =
      options.max_bytes > most ? options.max_bytes : MemorySource::AddressBytes(options, device);
  if (addresses > most) {
    return expect("max_bytes", ExactSize(options.max_bytes), "at most ", ExactSize(most),
                  " of addresses at alignment ", alignment, ", which takes ", ExactSize(addresses));
  }
  if (absl::Status status = CheckPlan(options); !status.ok()) return status;
  if (options.initial_bytes < 0 || options.initial_bytes > options.max_bytes) {
    return expect("initial_bytes", ExactSize(options.initial_bytes), "0 to max_bytes, ",
                  ExactSize(options.max_bytes));
  }
  if (!(options.growth >= 0 && options.growth <= 1)) {
    return expect("growth", options.growth, "0 to 1");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PoolOptions> ResolveOptions(const Device& device, const PoolOptions& options) {
  PoolOptions resolved = options;
  if (resolved.max_bytes == 0) resolved.max_bytes = device.memory_bytes();
  if (resolved.memory == PoolMemory::kAutomatic) {
    resolved.memory = device.granularity() > 0 ? PoolMemory::kVirtual : PoolMemory::kSegments;
  }
  if (absl::Status status = CheckOptions(device, resolved); !status.ok()) return status;
  resolved.max_bytes &= resolved.remap ? -device.granularity() : -resolved.alignment;
  resolved.initial_bytes = std::min(resolved.initial_bytes, resolved.max_bytes);
  return resolved;
}

std::int64_t MappedAddressBytes(const PoolOptions& options) {
  if (options.placement != kPlanned) return options.max_bytes;
  const std::int64_t most = blocks::MaxArenaBytes(options.alignment) & -options.alignment;
  return std::max(options.max_bytes, std::min(2 * options.max_bytes, most));
}

absl::StatusOr<PoolPolicy> MakePolicy(PoolOptions& options) {
  absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy(options.placement);
  if (!policy.ok()) return policy.status();
  if (options.placement != kPlanned) return PoolPolicy{*std::move(policy), nullptr};
  PlacementPlans plans;
  if (options.plan != nullptr) {
    plans.push_back(options.plan);
    options.initial_bytes = std::max(options.initial_bytes, options.plan->height_bytes());
  }
  std::unique_ptr<PlannedPlacement> planned = PlannedPlacement::Create(std::move(plans));
  PlannedPlacement* const made = planned.get();
  return PoolPolicy{std::move(planned), made};
}

}  // namespace tidepool::pool
