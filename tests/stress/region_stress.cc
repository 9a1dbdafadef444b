// SPDX-License-Identifier: Apache-2.0
// Regions: threads that allocate, use, register and free memory of regions and of the pool beside
// them, while others pause, resume, discard, limit and trim the regions.
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/stress/device_faults.h"
#include "tests/stress/pattern.h"
#include "tests/stress/pool_rig.h"
#include "tests/stress/pool_user.h"
#include "tests/stress/stress.h"
#include "tidepool/copies/contents_stores.h"

namespace tidepool::stress {
namespace {

using absl::StatusCode;

constexpr std::array kTags = {"weights", "optimizer", "cache"};
constexpr std::size_t kMostOfUser = 20;
constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

// A thread that uses contents holds `awake` shared, one that pauses or resumes holds it alone.
struct Region {
  std::string tag;
  Pool* pool = nullptr;
  std::shared_mutex awake;
  bool is_asleep = false;
  std::int64_t losses = 0;               // pauses that lost the contents
  std::atomic<std::int64_t> registered;  // buffers that are registered
};
using Regions = std::array<Region, kTags.size()>;

absl::StatusOr<std::unique_ptr<ContentsStore>> AnyStore(Dice& dice) {
  if (dice.Chance(0.5)) return MakeCompressedStore({});
  return MakeFileStore(std::filesystem::temp_directory_path());
}

// A thread with buffers in all regions, and a stream of its own.
class RegionUser {
 public:
  RegionUser(Worker& worker, PoolRig& rig, Regions& regions)
      : worker_(worker),
        rig_(rig),
        regions_(regions),
        stream_(*Again([&] { return rig.device().CreateStream(); })) {}

  std::size_t size() const { return buffers_.size(); }

  void Take() {
    Region& region = AnyRegion();
    const std::int64_t bytes = dice().Bytes(rig_.budget() / 4);
    const auto size = static_cast<std::size_t>(bytes);
    const bool waits = dice().Chance(0.2);
    worker_.Begins(waits ? "AllocateBlocking in a region" : "Allocate in a region");
    const absl::Time deadline = absl::Now() + absl::Microseconds(dice().Between(0, 2000));
    const absl::StatusOr<void*> address =
        waits ? region.pool->AllocateBlocking(size, stream_, Hint::kResident, deadline, {},
                                              static_cast<int>(dice().Below(3)))
              : region.pool->Allocate(size, stream_);
    if (!worker_.Ended(address.status(),
                       {StatusCode::kResourceExhausted, StatusCode::kDeadlineExceeded,
                        StatusCode::kFailedPrecondition, rig_.faults().expected()})) {
      return;
    }
    buffers_.push_back({&region, static_cast<std::uint8_t*>(*address), bytes});
    Use(buffers_.size() - 1);
  }
  // Checks the contents of a buffer, unless they were lost, and writes others.
  void Use(std::size_t at) {
    Buffer& buffer = buffers_[at];
    const std::shared_lock lock(buffer.region->awake);
    if (buffer.region->is_asleep) return;
    worker_.Begins("use memory of a region");
    CheckOk(Again([&] { return rig_.pool().AwaitContents(buffer.address, buffer.bytes, stream_); }),
            "AwaitContents");
    const bool is_known = buffer.seed != 0 && buffer.losses == buffer.region->losses;
    worker_.counts().checks += is_known ? 1 : 0;
    const std::uint64_t seed = std::exchange(buffer.seed, dice().Seed() | 1U);
    buffer.losses = buffer.region->losses;
    CheckOk(Again([&] {
              return rig_.device().CallHost(
                  stream_, [=, now = buffer.seed, to = buffer.address, bytes = buffer.bytes] {
                    Check(!is_known || HoldsPattern(to, bytes, seed), "memory of a region of ",
                          bytes, " bytes was changed, or did not come back");
                    FillPattern(to, bytes, now);
                  });
            }),
            "CallHost");
    CheckOk(Again([&] { return rig_.device().SynchronizeStream(stream_); }), "SynchronizeStream");
  }
  // Begins a registration of a buffer, or ends it.
  void Register(std::size_t at) {
    Buffer& buffer = buffers_[at];
    const std::shared_lock lock(buffer.region->awake);
    if (buffer.is_registered) return EndRegistration(buffer);
    worker_.Begins("BeginRegistration");
    buffer.is_registered = worker_.Ended(
        rig_.pool().BeginRegistration(buffer.address, buffer.bytes),
        {buffer.region->is_asleep ? StatusCode::kFailedPrecondition : StatusCode::kOk});
    buffer.region->registered += buffer.is_registered ? 1 : 0;
  }
  void Free(std::size_t at) {
    Buffer& buffer = buffers_[at];
    if (buffer.is_registered) {
      const std::shared_lock lock(buffer.region->awake);
      EndRegistration(buffer);
    }
    worker_.Begins("Free in a region");
    Pool& through = dice().Chance(0.5) ? rig_.pool() : *buffer.region->pool;
    if (!worker_.Ended(through.Free(buffer.address, stream_), {rig_.faults().expected()})) return;
    buffer = buffers_.back();
    buffers_.pop_back();
  }
  void FreeAll() {
    while (!buffers_.empty()) Free(dice().Below(buffers_.size()));
  }

  // Changes some regions together.
  void PauseOrResume() {
    std::vector<Region*> some;
    const std::size_t alone = dice().Below(regions_.size());
    const bool has_several = dice().Chance(0.4);
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      if (i == alone || (has_several && dice().Chance(0.6))) some.push_back(&regions_[i]);
    }
    std::vector<std::unique_lock<std::shared_mutex>> locks;
    for (Region* const region : some) locks.emplace_back(region->awake);
    const bool are_asleep = some.front()->is_asleep;
    std::erase_if(some, [&](const Region* each) { return each->is_asleep != are_asleep; });
    if (!are_asleep) return Pause(some);
    if (dice().Chance(0.1)) {
      worker_.Begins("DiscardContents");
      ++some.front()->losses;
      return CheckOk(rig_.pool().DiscardContents(some.front()->tag), "DiscardContents");
    }
    worker_.Begins("ResumeRegions");
    const std::vector<std::string_view> tags = TagsOf(some);
    const bool are_awake =
        worker_.Ended(rig_.pool().ResumeRegions(tags, stream_),
                      {StatusCode::kResourceExhausted, rig_.faults().expected()});
    for (Region* const region : some) region->is_asleep = !are_awake;
  }
  void Limit() {
    const std::int64_t least = dice().Chance(0.5) ? 0 : dice().Between(0, rig_.budget() / 4);
    const std::int64_t most = dice().Chance(0.5) ? kNoBound : dice().Between(least, rig_.budget());
    worker_.Begins("LimitRegion");
    worker_.Ended(rig_.pool().LimitRegion(AnyRegion().tag, least, most),
                  {StatusCode::kResourceExhausted, StatusCode::kFailedPrecondition,
                   rig_.faults().expected()});
  }
  void Trim() {
    worker_.Begins("Trim a region");
    worker_.Ended(AnyRegion().pool->Trim().status(), {rig_.faults().expected()});
  }

 private:
  struct Buffer {
    Region* region = nullptr;
    std::uint8_t* address = nullptr;
    std::int64_t bytes = 0;
    std::uint64_t seed = 0;   // of its contents; 0: it has none yet
    std::int64_t losses = 0;  // of the region, when it was written
    bool is_registered = false;
  };

  Dice& dice() { return worker_.dice(); }
  Region& AnyRegion() { return regions_[dice().Below(regions_.size())]; }
  void EndRegistration(Buffer& buffer) {
    worker_.Begins("EndRegistration");
    CheckOk(rig_.pool().EndRegistration(buffer.address, buffer.bytes), "EndRegistration");
    buffer.is_registered = false;
    --buffer.region->registered;
  }
  static std::vector<std::string_view> TagsOf(const std::vector<Region*>& some) {
    std::vector<std::string_view> tags;
    for (const Region* const region : some) tags.push_back(region->tag);
    return tags;
  }
  void Pause(const std::vector<Region*>& some) {
    std::vector<RegionPause> pauses;
    bool are_registered = false;
    for (const Region* const region : some) {
      RegionPause& pause = pauses.emplace_back();
      pause.tag = region->tag;
      are_registered = are_registered || region->registered > 0;
      if (dice().Chance(0.3)) {
        pause.mode = PauseMode::kDiscard;
      } else if (dice().Chance(0.5)) {
        auto store = AnyStore(dice());
        CheckOk(store.status(), "a store");
        pause.store = *std::move(store);
      }
    }
    worker_.Begins("PauseRegions");
    const bool are_asleep =
        worker_.Ended(rig_.pool().PauseRegions(pauses, stream_),
                      {are_registered ? StatusCode::kFailedPrecondition : StatusCode::kOk,
                       rig_.faults().expected()});
    Check(!are_asleep || !are_registered, "a region sleeps that has registrations");
    for (std::size_t i = 0; i < some.size(); ++i) {
      some[i]->is_asleep = are_asleep;
      some[i]->losses += are_asleep && pauses[i].mode == PauseMode::kDiscard ? 1 : 0;
    }
    if (are_asleep) return;
    // Copies that a failed call queued may still read while others write next.
    CheckOk(Again([&] { return rig_.device().SynchronizeStream(stream_); }), "SynchronizeStream");
  }

  Worker& worker_;
  PoolRig& rig_;
  Regions& regions_;
  const Stream stream_;
  std::vector<Buffer> buffers_;
};

void StepInRegions(Worker& worker, PoolRig& rig, RegionUser& user) {
  Dice& dice = worker.dice();
  rig.faults().MaybeOrder(dice);
  const std::size_t choice = dice.Below(100);
  if (choice < 30 && user.size() < kMostOfUser) return user.Take();
  if (choice >= 92) return user.PauseOrResume();
  if (choice >= 90) return user.Limit();
  if (choice >= 88) return user.Trim();
  if (user.size() == 0) return;
  const std::size_t at = dice.Below(user.size());
  if (choice < 50) return user.Free(at);
  if (choice < 53) return user.Register(at);
  user.Use(at);
}

// A step in the pool beside the regions.
void StepInPool(Worker& worker, PoolRig& rig, PoolUser& user) {
  Dice& dice = worker.dice();
  if (user.size() < kMostOfUser && dice.Chance(0.5)) {
    user.Take(dice.Bytes(rig.budget() / 4));
  } else if (user.size() > 0) {
    user.Free(dice.Below(user.size()));
  } else {
    rig.Inspect(worker, user);
  }
}

}  // namespace

void RunRegionRound(Round& round) {
  Dice& dice = round.dice();
  PoolOptions options = AnyPoolOptions(dice);
  options.memory = PoolMemory::kVirtual;
  PoolRig rig(round, options);
  Regions regions;
  for (std::size_t i = 0; i < kTags.size(); ++i) {
    regions[i].tag = kTags[i];
    regions[i].pool = *Again([&] { return rig.pool().Region(kTags[i]); });
  }
  const int threads = static_cast<int>(dice.Between(1, 6));
  RunWorkers(round, threads, [&](Worker& worker) {
    RegionUser user(worker, rig, regions);
    PoolUser beside(worker, rig.share());
    for (int i = Steps(2000 / threads); i > 0; --i) {
      StepInRegions(worker, rig, user);
      if (worker.dice().Chance(0.3)) StepInPool(worker, rig, beside);
    }
    user.FreeAll();
    beside.FreeAll();
  });
  rig.faults().End();
  const Stream stream = *rig.device().CreateStream();
  for (const Region& region : regions) {
    if (region.is_asleep) CheckOk(rig.pool().ResumeRegion(region.tag, stream), "ResumeRegion");
    CheckOk(rig.pool().LimitRegion(region.tag, 0, kNoBound), "LimitRegion");
  }
  rig.End();
}

}  // namespace tidepool::stress
