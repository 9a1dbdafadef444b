// SPDX-License-Identifier: Apache-2.0
// Snapshot history: reconstructs the state before the first recorded event.
#include "lib/trace/pytorch/snapshot_history.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "lib/trace/model/address_text.h"
#include "lib/trace/pytorch/reserved_ranges.h"
#include "tidepool/trace/trace.h"

namespace tidepool::pytorch {

using Word = SnapshotWord;

namespace {

// Addresses that events have used, and whether an allocation is live there.
class TouchedAddresses {
 public:
  void Allocate(std::uint64_t address) { is_live_[address] = true; }
  // Returns true for the first event at this address.
  bool Free(std::uint64_t address) {
    const auto [found, is_new] = is_live_.try_emplace(address, false);
    found->second = false;
    return is_new;
  }
  bool IsTouched(std::uint64_t address) const { return is_live_.contains(address); }
  bool IsLive(std::uint64_t address) const {
    const auto found = is_live_.find(address);
    return found != is_live_.end() && found->second;
  }

 private:
  absl::flat_hash_map<std::uint64_t, bool> is_live_;
};

EarlierAllocation FromBlock(const SnapshotBlock& block) {
  return {block.address, block.requested_size, block.stream, block.frames};
}

// Tells for each block whether events allocated inside it. Such a block did not exist before the
// history.
class DisturbedBlocks {
 public:
  // `blocks`, by address, must outlive this.
  explicit DisturbedBlocks(const std::vector<SnapshotBlock>& blocks)
      : blocks_(blocks), are_disturbed_(blocks.size()) {}

  void Allocate(std::uint64_t address) {
    const auto above = std::upper_bound(
        blocks_.begin(), blocks_.end(), address,
        [](std::uint64_t at, const SnapshotBlock& block) { return at < block.address; });
    if (above == blocks_.begin()) return;
    const auto block = above - 1;
    if (address - block->address < static_cast<std::uint64_t>(block->size))
      are_disturbed_[static_cast<std::size_t>(block - blocks_.begin())] = true;
  }
  bool operator[](std::size_t block) const { return are_disturbed_[block]; }

 private:
  const std::vector<SnapshotBlock>& blocks_;
  std::vector<bool> are_disturbed_;
};

// Sum of sizes that cannot overflow: it stops at kMostReservedBytes.
class Sum {
 public:
  void Add(std::int64_t bytes) {
    if (is_too_large_) return;
    total_ += bytes;
    is_too_large_ = total_ > kMostReservedBytes || total_ < -kMostReservedBytes;
  }
  std::int64_t total() const { return total_; }
  bool is_too_large() const { return is_too_large_; }

 private:
  std::int64_t total_ = 0;
  bool is_too_large_ = false;
};

absl::Status CheckEachOnce(const std::vector<SnapshotSegment>& segments, std::int32_t device) {
  absl::flat_hash_map<std::uint64_t, std::size_t> first;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].device != device) continue;
    const auto [found, is_new] = first.try_emplace(segments[i].address, i);
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        SegmentsName(device), "[", segments[i].index, "]: address ",
        std::string(trace::AddressText(segments[i].address).text()), " is already that of ",
        SegmentsName(device), "[", segments[found->second].index, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const SnapshotEvent& event, std::int32_t device, std::size_t index) {
  const std::uint64_t end = event.address + static_cast<std::uint64_t>(event.size);
  if (event.size >= 0 && event.size <= kMostReservedBytes && end >= event.address) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(TraceName(device), "[", index, "]: size ",
                                                 event.size, ", expected 0 to ", kMostReservedBytes,
                                                 " bytes"));
}

// Reserved ranges before the first event: starts from the segments and undoes events backwards.
class EarlierRanges {
 public:
  void AddSegment(const SnapshotSegment& segment) {
    ranges_.Add(segment.address, segment.address + static_cast<std::uint64_t>(segment.total_size),
                segment.stream);
    missing_.Add(segment.total_size);
  }

  // `event` reserves or gives back a valid size.
  void Undo(const SnapshotEvent& event) {
    const std::uint64_t end = event.address + static_cast<std::uint64_t>(event.size);
    if (Reserves(event.action)) {
      ranges_.Remove(event.address, end);
      missing_.Add(-event.size);
    } else {
      ranges_.Add(event.address, end, event.stream);
      missing_.Add(event.size);
    }
  }

  absl::StatusOr<std::vector<EarlierReservation>> Find() {
    std::vector<EarlierReservation> earlier;
    for (const auto& [begin, range] : ranges_.all()) {
      earlier.push_back({begin, static_cast<std::int64_t>(range.end - begin), range.note});
      missing_.Add(-earlier.back().bytes);
    }
    if (missing_.is_too_large())
      return absl::InvalidArgumentError("segments: more than 2^61 bytes, expected less");
    // A difference means that the history contradicts the segments.
    if (missing_.total() != 0)
      earlier.insert(earlier.begin(), {0, missing_.total(), PickleValue()});
    return earlier;
  }

 private:
  ReservedRanges<PickleValue> ranges_;
  Sum missing_;  // bytes of the segments without those of events and earlier reservations
};

}  // namespace

absl::Status SnapshotHistory::Read(std::int32_t device) {
  device_ = device;
  return schema_.CheckEvents(device, [&](const SnapshotEvent& event) { Note(event); });
}

void SnapshotHistory::Note(const SnapshotEvent& event) {
  if (size_ == 0) first_time_us_ = event.time_us;
  if (!beyond_.has_value() && !IsTime(event.time_us)) beyond_ = {size_, event};
  has_times_ |= event.has_time;
  has_refusal_ |= event.action == Word::kOom;
  has_request_ |= event.action == Word::kAlloc;
  has_completed_ |= event.action == Word::kFreeCompleted;
  if (event.action != Word::kSnapshot) ++of_memory_;
  if (Reserves(event.action) || GivesBack(event.action)) reservations_.push_back({size_, event});
  ++size_;
}

bool SnapshotHistory::TellsPeak(bool begins_late) const {
  constexpr std::size_t kFewEvents = 8;
  if (has_refusal_) return true;
  return begins_late ? has_request_ && of_memory_ >= kFewEvents : of_memory_ > 0;
}

void SnapshotHistory::CompleteFrees(const std::vector<SnapshotBlock>& blocks) {
  if (has_completed_) return;
  // The last event at each block that awaits its free; no value for an allocation.
  absl::flat_hash_map<std::uint64_t, std::optional<std::size_t>> last;
  for (const SnapshotBlock& block : blocks) {
    if (block.awaits_free) last[block.address] = std::nullopt;
  }
  if (!last.empty()) {
    ForEach([&](std::size_t number, const SnapshotEvent& event) {
      if (event.action != Word::kFreeRequested && event.action != Word::kAlloc) return true;
      const auto found = last.find(event.address);
      if (found == last.end()) return true;
      found->second.reset();
      if (event.action == Word::kFreeRequested) found->second = number;
      return true;
    });
  }
  for (const auto& [address, request] : last) {
    if (request.has_value()) waiting_.insert(*request);
  }
  completes_requests_ = true;
}

UnrecordedAllocations FindUnrecordedAllocations(const SnapshotHistory& history,
                                                const std::vector<SnapshotBlock>& blocks) {
  UnrecordedAllocations unrecorded;
  TouchedAddresses touched;
  DisturbedBlocks disturbed(blocks);
  history.ForEach([&](std::size_t /*number*/, const SnapshotEvent& event) {
    if (event.action == Word::kAlloc) {
      touched.Allocate(event.address);
      disturbed.Allocate(event.address);
    } else if (event.action == Word::kFreeCompleted || event.action == Word::kFree) {
      if (touched.Free(event.address))
        unrecorded.before.push_back({event.address, event.size, event.stream, PickleValue()});
    }
    return true;
  });
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const SnapshotBlock& block = blocks[i];
    if (touched.IsLive(block.address)) continue;
    if (!touched.IsTouched(block.address) && !disturbed[i]) {
      unrecorded.before.push_back(FromBlock(block));
    } else {
      unrecorded.after.push_back(FromBlock(block));
    }
  }
  std::sort(unrecorded.before.begin(), unrecorded.before.end(),
            [](const EarlierAllocation& a, const EarlierAllocation& b) {
              return a.address < b.address;  // no two are equal
            });
  return unrecorded;
}

absl::StatusOr<std::vector<EarlierReservation>> FindEarlierReservations(
    const SnapshotHistory& history, const std::vector<SnapshotSegment>& segments,
    std::int32_t device) {
  if (absl::Status status = CheckEachOnce(segments, device); !status.ok()) return status;
  EarlierRanges ranges;
  for (const SnapshotSegment& segment : segments) {
    if (segment.device == device) ranges.AddSegment(segment);
  }
  for (std::size_t i = history.reservations().size(); i > 0; --i) {
    const auto& [number, event] = history.reservations()[i - 1];
    if (absl::Status status = CheckSize(event, device, number); !status.ok()) return status;
    ranges.Undo(event);
  }
  return ranges.Find();
}

}  // namespace tidepool::pytorch
