// SPDX-License-Identifier: Apache-2.0
// A pinned pool is created and destroyed here, and gives its statistics.
#include "tidepool/pinned_pool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/pinned/create_pools.h"
#include "lib/memory/pinned/host_memory.h"
#include "lib/memory/pinned/pinned_pool_impl.h"
#include "lib/memory/pool/check_blocks.h"
#include "lib/memory/pool/without_host_memory.h"
#include "tidepool/placement.h"

namespace tidepool {
namespace pinned {
namespace {

using text::ExactSize;

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
    return expect("max_bytes", ExactSize(options.max_bytes), "at least a page, ", ExactSize(page),
                  ", and at most as much as fits into ",
                  ExactSize(blocks::MaxArenaBytes(alignment)), " of offsets at alignment ",
                  alignment);
  }
  if (options.initial_bytes < PinnedPoolOptions::kWholeBudget ||
      options.initial_bytes > options.max_bytes) {
    return expect("initial_bytes", ExactSize(options.initial_bytes), "-1 (all) to max_bytes, ",
                  ExactSize(options.max_bytes));
  }
  return absl::OkStatus();
}

// Ends the process where the host has no memory in a call (pool::EndsWithoutHostMemory).
class PinnedPoolOrEnd final : public PinnedPoolImpl {
 public:
  using PinnedPoolImpl::PinnedPoolImpl;

  absl::StatusOr<void*> Allocate(std::size_t bytes) override {
    return pool::OrEnd([&] { return PinnedPoolImpl::Allocate(bytes); });
  }
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, absl::Time deadline) override {
    return pool::OrEnd([&] { return PinnedPoolImpl::AllocateBlocking(bytes, deadline); });
  }
  absl::Status Free(void* address) override {
    return pool::OrEnd([&] { return PinnedPoolImpl::Free(address); });
  }
  absl::Status Reserve(std::int64_t bytes) override {
    return pool::OrEnd([&] { return PinnedPoolImpl::Reserve(bytes); });
  }
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override {
    return pool::OrEnd([&] { return PinnedPoolImpl::Trim(keep_bytes); });
  }
  PinnedPoolStats Stats() const override {
    return pool::OrEnd([&] { return PinnedPoolImpl::Stats(); });
  }
  absl::Status CheckInvariants() const override {
    return pool::OrEnd([&] { return PinnedPoolImpl::CheckInvariants(); });
  }
};

}  // namespace

// No other thread calls the pool any more.
PinnedPoolImpl::~PinnedPoolImpl() {
  const pool::BackoffLock lock(locks_.books);
  if (stats_.live_count > 0) {
    const auto describe = [this](BlockId block) {
      locks_.books.AssertHeld();
      return absl::StrCat(", ", asked_[block], " requested");
    };
    pool::ReportLive(addresses_, arena_.blocks(), stats_.live_count, kPinnedWords, describe);
  }
  const absl::Status status = regions_.Empty(
      [this](void* address, std::int64_t bytes) { return pinner_.Unpin(address, bytes); });
  if (!status.ok()) pool::ReportKeptMemory(status, kPinnedWords);
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
  stats.reserved_bytes = regions_.held_bytes();
  stats.max_bytes = options_.max_bytes;
  stats.free_bytes = stats.reserved_bytes - stats.live_bytes;
  stats.largest_hole_bytes = blocks.LargestBytes();
  stats.regions = regions_.count();
  return stats;
}

// Returns the part of the statistics that errors of a refused allocation name.
PoolStats PinnedPoolImpl::Occupancy() const {
  PoolStats stats;
  stats.live_bytes = arena_.blocks().live_bytes();
  stats.live_count = stats_.live_count;
  stats.largest_hole_bytes = arena_.blocks().LargestBytes();
  stats.max_bytes = options_.max_bytes;
  return stats;
}

absl::Status PinnedPoolImpl::CheckInvariants() const {
  const locks::MutexLock memory(&locks_.memory);
  const pool::BackoffLock lock(locks_.books);
  std::int64_t asked_bytes = 0;
  const auto bytes_in = [this](const pool::Range& range) {
    locks_.books.AssertHeld();
    return regions_.BytesIn(range);
  };
  const auto check_live = [&](BlockId block) {
    locks_.books.AssertHeld();
    asked_bytes += asked_[block];
    const std::int64_t bytes = arena_.blocks().bytes(block);
    if (asked_[block] > 0 && arena_.Rounded(asked_[block]) == bytes) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("a buffer of ", asked_[block], " bytes has a block of ", bytes));
  };
  if (absl::Status status = pool::CheckBlocks(
          arena_.blocks(), {options_.max_bytes, stats_.live_count}, bytes_in, check_live);
      !status.ok()) {
    return status;
  }
  if (asked_bytes != stats_.asked_bytes || stats_.live_count != stats_.allocations - stats_.frees) {
    return absl::InternalError("the counts differ from the blocks");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PinnedPool>> CreatePinnedPool(Device* device,
                                                             const PinnedPoolOptions& options,
                                                             const RegionSizes& sizes) {
  if (device == nullptr) return absl::InvalidArgumentError("the device is null");
  if (absl::Status status = CheckPinnedOptions(options); !status.ok()) return status;
  PinnedPoolOptions resolved = options;
  resolved.max_bytes &= -PageBytes(options.pages);
  absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy("best-fit");
  if (!policy.ok()) return policy.status();
  auto made = std::make_unique<PinnedPoolOrEnd>(*device, resolved, sizes, *std::move(policy));
  const std::int64_t initial = options.initial_bytes == PinnedPoolOptions::kWholeBudget
                                   ? resolved.max_bytes
                                   : std::min(options.initial_bytes, resolved.max_bytes);
  absl::Status status = made->PinnedPoolImpl::Reserve(initial);
  if (!status.ok()) return status;
  return made;
}

}  // namespace pinned

absl::StatusOr<std::unique_ptr<PinnedPool>> PinnedPool::Create(Device* device,
                                                               const PinnedPoolOptions& options) {
  return pinned::CreatePinnedPool(device, options);
}

}  // namespace tidepool
