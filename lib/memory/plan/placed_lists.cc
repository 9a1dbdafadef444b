// SPDX-License-Identifier: Apache-2.0
// Keeps sorted lists of placed buffers per window of time.
#include "lib/memory/plan/placed_lists.h"

#include <algorithm>

#include "lib/base/arithmetic.h"

namespace tidepool::plan {
namespace {

constexpr std::int32_t kLeastStride = 8;
// The most lists per buffer on average, so that all lists together stay small.
constexpr std::int64_t kMostWindowsPerBuffer = 8;

std::int32_t Stride(const Instance& instance) {
  for (std::int32_t stride = kLeastStride;; stride *= 2) {
    std::int64_t windows = 0;
    const auto all = static_cast<std::int32_t>(instance.size.size());
    for (std::int32_t i = 0; i < all; ++i) {
      windows += (instance.end[i] - 1) / stride - instance.first[i] / stride + 2;
    }
    if (windows <= kMostWindowsPerBuffer * all) return stride;
  }
}

void InsertSorted(std::vector<PlacedLists::Entry>& list, PlacedLists::Entry entry) {
  list.insert(std::upper_bound(list.begin(), list.end(), entry), entry);
}

void RemoveSorted(std::vector<PlacedLists::Entry>& list, PlacedLists::Entry entry) {
  list.erase(std::lower_bound(list.begin(), list.end(), entry));
}

}  // namespace

PlacedLists::PlacedLists(const Instance& instance, const Offsets& offsets, Sorted sorted)
    : instance_(instance),
      has_tops_(sorted == Sorted::kByOffsetAndTop),
      stride_(Stride(instance)),
      windows_(CeilDivide(instance.sections(), stride_)) {
  const auto add = [&](std::int32_t i, std::int64_t offset) {
    ForEachLists(i, [&](Lists& lists) {
      lists.by_offset.push_back({offset, i});
      if (has_tops_) lists.by_top.push_back({offset + instance.size[i], i});
    });
  };
  for (std::int32_t i = 0; i < instance.count(); ++i) {
    if (offsets[i] >= 0) add(i, offsets[i]);
  }
  for (std::int32_t i = 0; i < instance.obstacles(); ++i) {
    add(instance.count() + i, instance.obstacle_offset[i]);
  }
  const auto sort = [](Lists& lists) {
    std::sort(lists.by_offset.begin(), lists.by_offset.end());
    std::sort(lists.by_top.begin(), lists.by_top.end());
  };
  std::for_each(windows_.begin(), windows_.end(), sort);
  sort(all_);
}

template <typename Change>
void PlacedLists::ForEachLists(std::int32_t buffer, const Change& change) {
  for (std::int32_t w = FirstWindow(buffer); w < EndWindow(buffer); ++w) change(windows_[w]);
  change(all_);
}

std::int32_t PlacedLists::FirstWindow(std::int32_t buffer) const {
  return std::max(0, instance_.first[buffer] / stride_ - 1);
}

std::int32_t PlacedLists::EndWindow(std::int32_t buffer) const {
  return (instance_.end[buffer] - 1) / stride_ + 1;
}

void PlacedLists::Insert(std::int32_t buffer, std::int64_t offset) {
  ForEachLists(buffer, [&](Lists& lists) {
    InsertSorted(lists.by_offset, {offset, buffer});
    if (has_tops_) InsertSorted(lists.by_top, {offset + instance_.size[buffer], buffer});
  });
}

void PlacedLists::Remove(std::int32_t buffer, std::int64_t offset) {
  ForEachLists(buffer, [&](Lists& lists) {
    RemoveSorted(lists.by_offset, {offset, buffer});
    if (has_tops_) RemoveSorted(lists.by_top, {offset + instance_.size[buffer], buffer});
  });
}

const PlacedLists::Lists& PlacedLists::Around(std::int32_t buffer) const {
  const std::int32_t window = instance_.first[buffer] / stride_;
  return instance_.end[buffer] <= (window + 2) * stride_ ? windows_[window] : all_;
}

}  // namespace tidepool::plan
