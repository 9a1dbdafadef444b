// The beginning and the end of a pool.
#include "tidepool/pool.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/pool/caching_pool.h"
#include "lib/pool/pool_impl.h"

namespace tidepool {
namespace pool {
namespace {

constexpr int kMostPlans = 1 << 16;

// Of options whose memory is no more automatic.
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
  const absl::StatusOr<PlacementTraits> traits = PlacementTraitsOf(options.placement);
  if (!traits.ok()) return traits.status();
  if (traits->needs_plan && options.remap) {
    return absl::InvalidArgumentError(absl::StrCat(
        "remap with placement ", options.placement,
        ", expected another one: a plan says where memory is, and remapping moves it"));
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
    return absl::InvalidArgumentError(absl::StrCat("a plan of ", options.plan->height_bytes(),
                                                   " bytes, expected at most max_bytes, ",
                                                   options.max_bytes));
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
    return expect("max_bytes", options.max_bytes, "at least ", device.granularity(),
                  ", the granularity of ", device.name(), ", to remap");
  }
  if (options.max_bytes < alignment || options.max_bytes > device.memory_bytes()) {
    return expect("max_bytes", options.max_bytes, alignment, " to ", device.memory_bytes(),
                  ", the memory of ", device.name());
  }
  if (const std::int64_t addresses = PoolImpl::AddressBytes(options, device);
      addresses > blocks::MaxArenaBytes(alignment)) {
    return expect("max_bytes", options.max_bytes, "at most ", blocks::MaxArenaBytes(alignment),
                  " bytes of addresses at alignment ", alignment, ", which takes ", addresses);
  }
  if (absl::Status status = CheckPlan(options); !status.ok()) return status;
  if (options.initial_bytes < 0 || options.initial_bytes > options.max_bytes) {
    return expect("initial_bytes", options.initial_bytes, "0 to max_bytes, ", options.max_bytes);
  }
  if (!(options.growth >= 0 && options.growth <= 1)) {
    return expect("growth", options.growth, "0 to 1");
  }
  return absl::OkStatus();
}

}  // namespace

PoolImpl::~PoolImpl() {
  {
    const std::lock_guard lock(mutex_);
    if (stats_.live_count > 0) ReportLive();
  }
  if (absl::Status status = order_.SynchronizeAll(); !status.ok()) {
    std::fprintf(
        stderr,
        "tidepool: a pool cannot wait for the streams that used it and leaves its memory to "
        "the device: %s\n",
        status.ToString().c_str());
    backing_.Abandon();
    return;
  }
  const absl::Status status =
      segments_.Empty([this](void* address, std::int64_t) { return device_.FreeMemory(address); });
  if (!status.ok()) {
    std::fprintf(stderr, "tidepool: a pool cannot give its memory back: %s\n",
                 status.ToString().c_str());
  }
}

// What is live can lie so that there is no room among it although there is memory. First-fit needs
// at most so much more: J. M. Robson, "Worst case fragmentation of first fit and best fit storage
// allocation strategies", The Computer Journal 20 (1977).
std::int64_t PoolImpl::AddressBytes(const PoolOptions& options, const Device& device) {
  if (options.memory == PoolMemory::kSegments) {
    return Segments::OffsetBytes(options.max_bytes, options.alignment);
  }
  if (!options.remap) return options.max_bytes;
  const auto granules = static_cast<std::uint64_t>(options.max_bytes / device.granularity());
  return options.max_bytes * (std::bit_width(granules) + 1);
}

absl::Status PoolImpl::Start() {
  Lock lock(mutex_);
  MemoryLock memory(memory_mutex_, lock);
  absl::Status status = TakeInitial(memory);
  stats_.peak_reserved_bytes = HeldBytes();
  return status;
}

absl::Status PoolImpl::TakeInitial(MemoryLock& memory) {
  const std::int64_t initial = options_.initial_bytes;
  if (options_.memory == PoolMemory::kSegments) {
    return initial == 0 ? absl::OkStatus()
                        : AddSegment(arena_.Rounded(initial), 0, memory).status();
  }
  absl::Status status = backing_.Reserve(AddressBytes(options_, device_));
  if (!status.ok()) return status;
  addresses_.Add({0, backing_.reserved_bytes()}, backing_.base());
  if (initial == 0) return status;
  const std::int64_t end = backing_.Rounded(initial);
  status = backing_.Map({{0, end}}, options_.remap ? 1 : initial / kPieces);
  if (!status.ok()) return status;
  arena_.blocks().Resize(std::min(end, options_.max_bytes));
  return absl::OkStatus();
}

void PoolImpl::Mark(std::string_view name) {
  const std::lock_guard lock(mutex_);
  arena_.Mark(name);
  if (options_.recorder != nullptr) options_.recorder->Mark(name);
}

}  // namespace pool

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(Device* device, const PoolOptions& options) {
  if (device == nullptr) return absl::InvalidArgumentError("no device, expected one");
  PoolOptions resolved = options;
  if (resolved.max_bytes == 0) resolved.max_bytes = device->memory_bytes();
  if (resolved.memory == PoolMemory::kAutomatic) {
    resolved.memory = device->granularity() > 0 ? PoolMemory::kVirtual : PoolMemory::kSegments;
  }
  if (absl::Status status = pool::CheckOptions(*device, resolved); !status.ok()) return status;
  resolved.max_bytes &= resolved.remap ? -device->granularity() : -resolved.alignment;
  resolved.initial_bytes = std::min(resolved.initial_bytes, resolved.max_bytes);
  PlacementContext context;
  if (resolved.plan != nullptr) {
    context.plans.push_back(resolved.plan);
    resolved.initial_bytes = std::max(resolved.initial_bytes, resolved.plan->height_bytes());
  }
  // Caches would hide requests from an observer, and addresses from a policy that remembers them.
  const bool has_caches = resolved.recorder == nullptr && !(*policy)->HasMemory();
  auto made = std::make_unique<pool::PoolImpl>(*device, resolved, *std::move(policy), planned);
  if (absl::Status status = made->Start(); !status.ok()) return status;
  if (!has_caches) return made;
  return std::make_unique<pool::CachingPool>(*device, std::move(made));
}

}  // namespace tidepool
