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
  void Reserve(std::size_t events) { is_live_.reserve(events); }
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

// Returns for each block whether events allocated inside it. Such a block did not exist before the
// history.
std::vector<bool> AreDisturbed(const std::vector<SnapshotEvent>& events,
                               const std::vector<SnapshotBlock>& blocks) {
  std::vector<bool> are_disturbed(blocks.size());
  for (const SnapshotEvent& event : events) {
    if (event.action != Word::kAlloc) continue;
    const auto above = std::upper_bound(
        blocks.begin(), blocks.end(), event.address,
        [](std::uint64_t address, const SnapshotBlock& block) { return address < block.address; });
    if (above == blocks.begin()) continue;
    const auto block = above - 1;
    if (event.address - block->address < static_cast<std::uint64_t>(block->size))
      are_disturbed[static_cast<std::size_t>(block - blocks.begin())] = true;
  }
  return are_disturbed;
}

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

void CompleteFrees(const std::vector<SnapshotBlock>& blocks, std::vector<SnapshotEvent>& events) {
  const bool has_completed =
      std::any_of(events.begin(), events.end(),
                  [](const SnapshotEvent& event) { return event.action == Word::kFreeCompleted; });
  if (has_completed) return;
  absl::flat_hash_set<std::uint64_t> awaiting;
  for (const SnapshotBlock& block : blocks) {
    if (block.awaits_free) awaiting.insert(block.address);
  }
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->action != Word::kFreeRequested && event->action != Word::kAlloc) continue;
    const bool awaits = awaiting.erase(event->address) > 0;
    if (event->action == Word::kFreeRequested && !awaits) event->action = Word::kFreeCompleted;
  }
}

UnrecordedAllocations FindUnrecordedAllocations(const std::vector<SnapshotEvent>& events,
                                                const std::vector<SnapshotBlock>& blocks) {
  UnrecordedAllocations unrecorded;
  TouchedAddresses touched;
  touched.Reserve(events.size() / 3);
  for (const SnapshotEvent& event : events) {
    if (event.action == Word::kAlloc) touched.Allocate(event.address);
    if (event.action != Word::kFreeCompleted && event.action != Word::kFree) continue;
    if (touched.Free(event.address))
      unrecorded.before.push_back({event.address, event.size, event.stream, PickleValue()});
  }
  std::vector<bool> are_disturbed = AreDisturbed(events, blocks);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const SnapshotBlock& block = blocks[i];
    if (touched.IsLive(block.address)) continue;
    if (!touched.IsTouched(block.address) && !are_disturbed[i]) {
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
    const std::vector<SnapshotEvent>& events, const std::vector<SnapshotSegment>& segments,
    std::int32_t device) {
  if (absl::Status status = CheckEachOnce(segments, device); !status.ok()) return status;
  EarlierRanges ranges;
  for (const SnapshotSegment& segment : segments) {
    if (segment.device == device) ranges.AddSegment(segment);
  }
  for (std::size_t i = events.size(); i > 0; --i) {
    const SnapshotEvent& event = events[i - 1];
    if (!Reserves(event.action) && !GivesBack(event.action)) continue;
    if (absl::Status status = CheckSize(event, device, i - 1); !status.ok()) return status;
    ranges.Undo(event);
  }
  return ranges.Find();
}

}  // namespace tidepool::pytorch
