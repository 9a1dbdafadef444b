// SPDX-License-Identifier: Apache-2.0
// The beginning and the end of a pinned pool, and what it says of itself.
#include "tidepool/host/pinned_pool.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "lib/locks/mutex.h"
#include "lib/pinned/host_memory.h"
#include "lib/pinned/pinned_pool_impl.h"
#include "lib/pool/segments.h"
#include "tidepool/placement.h"

namespace tidepool {
namespace pinned {
namespace {

constexpr std::int64_t kLeastAlignment = 64;
constexpr std::int64_t kMostAlignment = kPage;

absl::Status CheckPinnedOptions(const PinnedPoolOptions& options) {
  const auto expect = [](const char* name, auto value, auto... expected) {
    return absl::InvalidArgumentError(absl::StrCat(name, " ", value, ", expected ", expected...));
  };
  if (absl::Status status = CheckPageOptions(options.pages); !status.ok()) return status;
  const std::int64_t alignment = options.alignment;
  if (alignment < kLeastAlignment || alignment > kMostAlignment ||
      (alignment & (alignment - 1)) != 0) {
    return expect("alignment", alignment, "a power of two from ", kLeastAlignment, " to ",
                  kMostAlignment);
  }
  const std::int64_t page = PageBytes(options.pages);
  const std::int64_t most = std::min(blocks::MaxArenaBytes(alignment), kMaxRequestBytes);
  if (options.max_bytes < page || options.max_bytes > most ||
      PinnedPoolImpl::OffsetBytes(options) > blocks::MaxArenaBytes(alignment)) {
    return expect("max_bytes", options.max_bytes, "at least a page, ", page,
                  ", and what needs at most ", blocks::MaxArenaBytes(alignment),
                  " bytes of offsets at alignment ", alignment);
  }
  if (options.initial_bytes < PinnedPoolOptions::kWholeBudget ||
      options.initial_bytes > options.max_bytes) {
    return expect("initial_bytes", options.initial_bytes, "-1 (all) to max_bytes, ",
                  options.max_bytes);
  }
  if (options.growth_bytes < 0) return expect("growth_bytes", options.growth_bytes, "0 or more");
  if (options.most_region_bytes < page) {
    return expect("most_region_bytes", options.most_region_bytes, "at least a page, ", page);
  }
  return absl::OkStatus();
}

}  // namespace

// Regions come and go as segments of a pool do.
std::int64_t PinnedPoolImpl::OffsetBytes(const PinnedPoolOptions& options) {
  return pool::Segments::OffsetBytes(options.max_bytes, options.alignment);
}

PinnedPoolImpl::~PinnedPoolImpl() {
  if (stats_.live_count > 0) ReportLive();
}

PinnedPoolStats PinnedPoolImpl::Stats() const {
  const pool::BackoffLock lock(locks_.books);
  return StatsLocked();
}

PinnedPoolStats PinnedPoolImpl::StatsLocked() const {
  const blocks::BlockMap& blocks = arena_.blocks();
  PinnedPoolStats stats = stats_;
  stats.live_bytes = blocks.live_bytes();
  stats.peak_live_bytes = arena_.peak_live_bytes();
  stats.reserved_bytes = regions_.segments().held_bytes();
  stats.max_bytes = options_.max_bytes;
  stats.free_bytes = stats.reserved_bytes - stats.live_bytes;
  stats.largest_hole_bytes = blocks.LargestBytes();
  stats.regions = regions_.segments().count();
  stats.pins = regions_.pins();
  stats.pin_ns = regions_.pin_ns();
  return stats;
}

absl::Status PinnedPoolImpl::CheckInvariants() const {
  const locks::MutexLock memory(&locks_.memory);
  const pool::BackoffLock lock(locks_.books);
  const blocks::BlockMap& blocks = arena_.blocks();
  if (absl::Status status = blocks.CheckInvariants(); !status.ok()) return status;
  if (regions_.segments().held_bytes() > options_.max_bytes) {
    return absl::InternalError("more is pinned than the budget");
  }
  std::int64_t live_count = 0;
  std::int64_t asked_bytes = 0;
  std::int64_t held_bytes = 0;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.excluded(id)) continue;
    const pool::Range range = {blocks.offset(id), blocks.offset(id) + blocks.bytes(id)};
    if (regions_.segments().BytesIn(range) != range.bytes()) {
      return absl::InternalError(absl::StrCat("the block at ", range.begin, " is in no region"));
    }
    held_bytes += range.bytes();
    if (!blocks.used(id)) continue;
    ++live_count;
    asked_bytes += asked_[id];
    if (asked_[id] <= 0 || arena_.Rounded(asked_[id]) != range.bytes()) {
      return absl::InternalError(absl::StrCat("the buffer at ", range.begin, " is of ",
                                              range.bytes(), " bytes, and ", asked_[id],
                                              " were asked for"));
    }
  }
  if (held_bytes != regions_.segments().held_bytes()) {
    return absl::InternalError("the arena is not the regions");
  }
  if (live_count != stats_.live_count || asked_bytes != stats_.asked_bytes ||
      live_count != stats_.allocations - stats_.frees) {
    return absl::InternalError("the counts differ from the blocks");
  }
  return absl::OkStatus();
}

void PinnedPoolImpl::ReportLive() const {
  constexpr int kListed = 10;
  std::fprintf(stderr,
               "tidepool: a pinned pool is destroyed with %lld bytes live in %lld buffers\n",
               static_cast<long long>(arena_.blocks().live_bytes()),
               static_cast<long long>(stats_.live_count));
  const blocks::BlockMap& blocks = arena_.blocks();
  int listed = 0;
  for (BlockId id = blocks.First(); id != kNoBlock && listed < kListed; id = blocks.Next(id)) {
    if (!blocks.used(id) || blocks.excluded(id)) continue;
    ++listed;
    std::fprintf(stderr, "  %p: %lld bytes\n",
                 static_cast<void*>(addresses_.AddressOf(blocks.offset(id))),
                 static_cast<long long>(asked_[id]));
  }
}

}  // namespace pinned

absl::StatusOr<std::unique_ptr<PinnedPool>> PinnedPool::Create(Device* device,
                                                               const PinnedPoolOptions& options) {
  if (device == nullptr) return absl::InvalidArgumentError("no device, expected one");
  if (absl::Status status = pinned::CheckPinnedOptions(options); !status.ok()) return status;
  PinnedPoolOptions resolved = options;
  const std::int64_t page = pinned::PageBytes(options.pages);
  resolved.max_bytes &= -page;
  resolved.most_region_bytes &= -page;
  absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy("best-fit");
  if (!policy.ok()) return policy.status();
  auto made = std::make_unique<pinned::PinnedPoolImpl>(*device, resolved, *std::move(policy));
  const std::int64_t initial = options.initial_bytes == PinnedPoolOptions::kWholeBudget
                                   ? resolved.max_bytes
                                   : std::min(options.initial_bytes, resolved.max_bytes);
  if (absl::Status status = made->Reserve(initial); !status.ok()) return status;
  return made;
}

}  // namespace tidepool
