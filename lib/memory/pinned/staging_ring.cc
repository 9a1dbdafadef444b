// SPDX-License-Identifier: Apache-2.0
// A turn is a number: slot i is handed out at turns i, i + slots, ... The first waiter gets the
// slot of the next turn as soon as it is free, and no waiter overtakes.
#include "tidepool/staging_ring.h"

#include <algorithm>
#include <limits>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/locks/mutex.h"

namespace tidepool {
namespace pinned {
namespace {

constexpr std::int64_t kMostSlots = 65536;
// Slots share no page, so threads and copies that work on neighbours do not share cache lines.
constexpr std::int64_t kSlotAlignment = 4096;

class StagingRingImpl final : public StagingRing {
 public:
  StagingRingImpl(PinnedPool& pool, std::byte* data, const StagingRingOptions& options,
                  std::int64_t stride)
      : pool_(pool),
        data_(data),
        options_(options),
        stride_(stride),
        in_use_(static_cast<std::size_t>(options.slots)) {}
  ~StagingRingImpl() override { pool_.Free(data_).IgnoreError(); }

  absl::StatusOr<StagingSlot> Acquire(absl::Time deadline) override {
    const locks::MutexLock lock(&mutex_);
    if (is_closed_) return ClosedError();
    if (queue_.empty() && !in_use_[NextIndex()]) return TakeNext();
    if (deadline == absl::InfinitePast()) return DeadlineError();
    ++stats_.blocked;
    Waiter waiter;
    const auto position = queue_.insert(queue_.end(), &waiter);
    const locks::SteadyTime end = locks::ToSteady(deadline);
    bool is_late = false;
    while (!waiter.slot.has_value() && !is_closed_ && !is_late) {
      is_late = waiter.woken.WaitWithDeadline(&mutex_, end);
    }
    // A served waiter is no longer in the queue.
    if (waiter.slot.has_value()) return *waiter.slot;
    queue_.erase(position);
    return is_closed_ ? ClosedError() : DeadlineError();
  }

  absl::Status Release(std::int64_t index) override {
    const locks::MutexLock lock(&mutex_);
    if (index < 0 || index >= options_.slots || !in_use_[static_cast<std::size_t>(index)]) {
      return absl::InvalidArgumentError(
          absl::StrCat("slot ", index, " is not in use, expected an acquired slot"));
    }
    in_use_[static_cast<std::size_t>(index)] = false;
    --stats_.in_use;
    while (!is_closed_ && !queue_.empty() && !in_use_[NextIndex()]) {
      Waiter& first = *queue_.front();
      queue_.pop_front();
      first.slot = TakeNext();
      first.woken.Signal();
    }
    return absl::OkStatus();
  }

  void Close() override {
    const locks::MutexLock lock(&mutex_);
    is_closed_ = true;
    for (Waiter* const waiter : queue_) waiter->woken.Signal();
  }

  std::int64_t slots() const override { return options_.slots; }
  std::int64_t slot_bytes() const override { return options_.slot_bytes; }
  StagingRingStats Stats() const override {
    const locks::MutexLock lock(&mutex_);
    return stats_;
  }

 private:
  struct Waiter {
    std::optional<StagingSlot> slot;
    locks::CondVar woken;
  };

  std::size_t NextIndex() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<std::size_t>(turn_ % options_.slots);
  }

  StagingSlot TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::size_t index = NextIndex();
    ++turn_;
    in_use_[index] = true;
    ++stats_.acquires;
    stats_.peak_in_use = std::max(stats_.peak_in_use, ++stats_.in_use);
    const auto number = static_cast<std::int64_t>(index);
    return {data_ + number * stride_, options_.slot_bytes, number};
  }

  static absl::Status ClosedError() { return absl::CancelledError("the staging ring was closed"); }
  absl::Status DeadlineError() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return absl::DeadlineExceededError(absl::StrCat("slot ", NextIndex(), " of ", options_.slots,
                                                    " was not released until the deadline"));
  }

  PinnedPool& pool_;
  std::byte* const data_;
  const StagingRingOptions options_;
  const std::int64_t stride_;

  mutable locks::Mutex mutex_;
  std::vector<bool> in_use_ ABSL_GUARDED_BY(mutex_);  // by slot
  std::int64_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Waiter*> queue_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  StagingRingStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace
}  // namespace pinned

absl::StatusOr<std::unique_ptr<StagingRing>> StagingRing::Create(
    PinnedPool* pool, const StagingRingOptions& options) {
  if (pool == nullptr) return absl::InvalidArgumentError("the pinned pool is null");
  if (options.slots < 1 || options.slots > pinned::kMostSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots ", options.slots, ", expected 1 to ", pinned::kMostSlots));
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / pinned::kMostSlots / 2;
  if (options.slot_bytes < 1 || options.slot_bytes > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("slot_bytes ", options.slot_bytes, ", expected 1 to ", kMost));
  }
  const std::int64_t stride = AlignUp(options.slot_bytes, pinned::kSlotAlignment);
  // The last slot needs no bytes up to the next stride.
  const std::int64_t bytes = (options.slots - 1) * stride + options.slot_bytes;
  const absl::StatusOr<void*> data = pool->Allocate(static_cast<std::size_t>(bytes));
  if (!data.ok()) return data.status();
  return std::make_unique<pinned::StagingRingImpl>(*pool, static_cast<std::byte*>(*data), options,
                                                   stride);
}

}  // namespace tidepool
