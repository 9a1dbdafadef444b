// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/offloader_rig.h"

#include <utility>

#include "lib/memory/pinned/create_pools.h"
#include "tests/stress/watch.h"
#include "tests/support/sizes.h"

namespace tidepool::stress {
namespace {

template <typename Made>
auto Get(absl::StatusOr<Made> made, const char* what) {
  CheckOk(made.status(), what);
  return *std::move(made);
}

}  // namespace

OffloaderRig::OffloaderRig(Round& round, const PoolOptions& pool) : pool_(round, pool) {
  Dice& dice = round.dice();
  MakePools(dice);
  if (dice.Chance(0.7)) MakePipeline(dice);
  OffloaderOptions options;
  options.release = dice.Chance(0.5) ? OffloaderOptions::Release::kWhenOut
                                     : OffloaderOptions::Release::kWhenAwaited;
  options.one_transfer_at_a_time = dice.Chance(0.2);
  options.pipeline = pipeline_.get();
  offloader_ = Get(Again([&] {
                     faults().MaybeOrder(dice);
                     return Offloader::Create(&device(), &pool_.pool(), pinned_.get(), options);
                   }),
                   "Offloader::Create");
  AddDescription(absl::StrCat(
      options.release == OffloaderOptions::Release::kWhenOut ? "; when out" : "; when awaited",
      options.one_transfer_at_a_time ? ", one transfer at a time" : "",
      pipeline_ != nullptr ? ", compressed" : "", ", pinned ", pinned_->Stats().max_bytes,
      ", pages ", pages_->Stats().max_pages));
}

void OffloaderRig::MakePools(Dice& dice) {
  PinnedPoolOptions pinned;
  pinned.max_bytes = dice.Chance(0.3) ? 256 << 10 : dice.Between(1, 5) * kMiB;
  pinned.may_grow = dice.Chance(0.5);
  if (pinned.may_grow) pinned.initial_bytes = 0;
  const auto make = [&](const PinnedPoolOptions& options) {
    return Get(Again([&] {
                 faults().MaybeOrder(dice);
                 return pinned::CreatePinnedPool(&device(), options, {.growth_bytes = 256 << 10});
               }),
               "PinnedPool::Create");
  };
  pinned_ = make(pinned);
  staging_ = make({.max_bytes = kMiB});
  pages_ = Get(
      pinned::CreatePagePool(
          {.page_bytes = 16 << 10, .max_bytes = dice.Chance(0.3) ? 256 << 10 : 4 * kMiB}, 64 << 10),
      "PagePool::Create");
}

void OffloaderRig::MakePipeline(Dice& dice) {
  CompressionPipelineOptions options;
  options.ring.slots = dice.Between(1, 4);
  options.ring.slot_bytes = std::int64_t{16 << 10} << dice.Below(3);
  options.threads = static_cast<int>(dice.Between(1, 3));
  const bool in_pages = dice.Chance(0.7);
  pipeline_ = Get(Again([&] {
                    faults().MaybeOrder(dice);
                    return CompressionPipeline::Create(
                        &device(), staging_.get(),
                        in_pages ? CompressedMemory(pages_.get()) : CompressedMemory(pinned_.get()),
                        options);
                  }),
                  "CompressionPipeline::Create");
}

std::optional<ZeroValueWord> OffloaderRig::AnyWord(Dice& dice) const {
  if (pipeline_ == nullptr || dice.Chance(0.4)) return std::nullopt;
  return dice.Chance(0.7) ? ZeroValueWord::k32Bits : ZeroValueWord::k16Bits;
}

void OffloaderRig::Inspect(Dice& dice) {
  const OffloaderStats stats = offloader_->Stats();
  Check(stats.buffers >= 0 && stats.device_bytes >= 0 && stats.host_bytes >= 0,
        "the offloader says ", stats.buffers, " buffers, ", stats.device_bytes,
        " bytes on the device, ", stats.host_bytes, " on the host");
  const PinnedPoolStats pinned = pinned_->Stats();
  Check(pinned.reserved_bytes <= pinned.max_bytes && pinned.live_bytes <= pinned.reserved_bytes,
        "pinned are ", pinned.reserved_bytes, " of ", pinned.max_bytes, " bytes, live ",
        pinned.live_bytes);
  const PagePoolStats pages = pages_->Stats();
  Check(pages.used_pages <= pages.touched_pages && pages.touched_pages <= pages.max_pages, "of ",
        pages.max_pages, " pages ", pages.touched_pages, " were touched, used are ",
        pages.used_pages);
  if (dice.Chance(0.1)) pinned_->Trim().IgnoreError();
  if (dice.Chance(0.1)) pages_->Trim().IgnoreError();
  if (dice.Chance(0.1)) CheckOk(pinned_->CheckInvariants(), "PinnedPool::CheckInvariants");
  if (!dice.Chance(0.2)) return;
  device().HoldCopies();
  for (int i = 0; i < 20; ++i) std::this_thread::yield();
  device().ReleaseCopies();
}

void OffloaderRig::End() {
  faults().End();
  offloader_.reset();
  pipeline_.reset();
  for (PinnedPool* pinned : {pinned_.get(), staging_.get()}) {
    CheckOk(pinned->CheckInvariants(), "PinnedPool::CheckInvariants in the end");
    Check(pinned->Stats().live_count == 0, "no buffer is left, and ", pinned->Stats().live_count,
          " hold pinned memory");
  }
  Check(pages_->Stats().used_pages == 0, "no buffer is left, and ", pages_->Stats().used_pages,
        " pages are in use");
  pool_.End();
}

}  // namespace tidepool::stress
