// SPDX-License-Identifier: Apache-2.0
// A slot's turn is a count: slot i comes at turns i, i + slots, ... Whoever is first in line gets
// the slot of the next turn when it is free, and nobody passes.
#include "tidepool/host/staging_ring.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tidepool {
namespace pinned {
namespace {

constexpr std::int64_t kMostSlots = 65536;
// Slots share no page: threads and copies that work on neighbours do not meet.
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
    std::unique_lock lock(mutex_);
    if (is_closed_) return Closed();
    if (line_.empty() && !in_use_[NextIndex()]) return TakeNext();
    if (deadline == absl::InfinitePast()) return TooLate();
    ++stats_.blocked;
    Waiter waiter;
    const auto place = line_.insert(line_.end(), &waiter);
    const auto is_over = [&] { return waiter.slot.has_value() || is_closed_; };
    if (deadline == absl::InfiniteFuture()) {
      waiter.served.wait(lock, is_over);
    } else {
      waiter.served.wait_until(lock, absl::ToChronoTime(deadline), is_over);
    }
    // Who was served is out of the line.
    if (waiter.slot.has_value()) return *waiter.slot;
    line_.erase(place);
    return is_closed_ ? Closed() : TooLate();
  }

  absl::Status Release(std::int64_t index) override {
    const std::lock_guard lock(mutex_);
    if (index < 0 || index >= options_.slots || !in_use_[static_cast<std::size_t>(index)]) {
      return absl::InvalidArgumentError(
          absl::StrCat("slot ", index, " is not in use, expected one that was acquired"));
    }
    in_use_[static_cast<std::size_t>(index)] = false;
    --stats_.in_use;
    while (!is_closed_ && !line_.empty() && !in_use_[NextIndex()]) {
      Waiter& first = *line_.front();
      line_.pop_front();
      first.slot = TakeNext();
      first.served.notify_one();
    }
    return absl::OkStatus();
  }

  void Close() override {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    for (Waiter* const waiter : line_) waiter->served.notify_one();
  }

  std::int64_t slots() const override { return options_.slots; }
  std::int64_t slot_bytes() const override { return options_.slot_bytes; }
  StagingRingStats Stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  struct Waiter {
    std::optional<StagingSlot> slot;
    std::condition_variable served;
  };

  std::size_t NextIndex() const { return static_cast<std::size_t>(turn_ % options_.slots); }

  StagingSlot TakeNext() {
    const std::size_t index = NextIndex();
    ++turn_;
    in_use_[index] = true;
    ++stats_.acquires;
    stats_.peak_in_use = std::max(stats_.peak_in_use, ++stats_.in_use);
    const auto number = static_cast<std::int64_t>(index);
    return {data_ + number * stride_, options_.slot_bytes, number};
  }

  static absl::Status Closed() {
    return absl::CancelledError("the staging ring was closed, expected an open one");
  }
  absl::Status TooLate() const {
    return absl::DeadlineExceededError(absl::StrCat("slot ", NextIndex(), " of ", options_.slots,
                                                    " is in use until the deadline, expected its "
                                                    "release"));
  }

  PinnedPool& pool_;
  std::byte* const data_;
  const StagingRingOptions options_;
  const std::int64_t stride_;

  mutable std::mutex mutex_;  // of all that follows
  std::vector<bool> in_use_;
  std::int64_t turn_ = 0;
  std::list<Waiter*> line_;
  bool is_closed_ = false;
  StagingRingStats stats_;
};

}  // namespace
}  // namespace pinned

absl::StatusOr<std::unique_ptr<StagingRing>> StagingRing::Create(
    PinnedPool* pool, const StagingRingOptions& options) {
  if (pool == nullptr) return absl::InvalidArgumentError("no pinned pool, expected one");
  if (options.slots < 1 || options.slots > pinned::kMostSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots ", options.slots, ", expected 1 to ", pinned::kMostSlots));
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / pinned::kMostSlots / 2;
  if (options.slot_bytes < 1 || options.slot_bytes > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("slot_bytes ", options.slot_bytes, ", expected 1 to ", kMost));
  }
  const std::int64_t stride =
      (options.slot_bytes + pinned::kSlotAlignment - 1) & -pinned::kSlotAlignment;
  // The last slot ends where it ends.
  const std::int64_t bytes = (options.slots - 1) * stride + options.slot_bytes;
  const absl::StatusOr<void*> data = pool->Allocate(static_cast<std::size_t>(bytes));
  if (!data.ok()) return data.status();
  return std::make_unique<pinned::StagingRingImpl>(*pool, static_cast<std::byte*>(*data), options,
                                                   stride);
}

}  // namespace tidepool
