// SPDX-License-Identifier: Apache-2.0
#include "tests/support/check_times/held_memory.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"

namespace tidepool::schedule {
namespace {

// A point in time at which an interval starts or ends. Ends come before starts of the same time.
struct Border {
  double seconds = 0;
  bool is_start = false;
  std::size_t index = 0;

  friend bool operator<(const Border& a, const Border& b) {
    return a.seconds < b.seconds || (a.seconds == b.seconds && a.is_start < b.is_start);
  }
};

// Ranges of addresses that are in use at one time.
class AddressesInUse {
 public:
  // Returns the memory that `taken` overlaps, or null after adding it.
  const HeldMemory* Add(const HeldMemory& taken) {
    const auto next = ranges_.lower_bound(taken.address);
    if (next != ranges_.end() && next->first < taken.address + taken.bytes) return next->second;
    if (next != ranges_.begin()) {
      const HeldMemory* before = std::prev(next)->second;
      if (before->address + before->bytes > taken.address) return before;
    }
    ranges_.emplace(taken.address, &taken);
    return nullptr;
  }
  void Remove(const HeldMemory& given) { ranges_.erase(given.address); }

 private:
  std::map<std::int64_t, const HeldMemory*> ranges_;  // by address
};

std::vector<Border> BordersOf(const std::vector<HeldMemory>& held, double tolerance) {
  std::vector<Border> borders;
  borders.reserve(2 * held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    // Memory held for less than the tolerance would end before it starts.
    if (held[i].end - tolerance <= held[i].start) continue;
    borders.push_back({held[i].start, true, i});
    borders.push_back({held[i].end - tolerance, false, i});
  }
  std::sort(borders.begin(), borders.end());
  return borders;
}

absl::Status WrongShare(const LinkCopy& copy, double share) {
  return absl::InvalidArgumentError(absl::StrCat(
      "step ", copy.step, ", a copy from ", copy.start, " to ", copy.end,
      " seconds: its link lets ", share, " seconds of it pass, expected ", copy.seconds));
}

// Counts the work that each copy in progress has done. All have done the same since the time at
// which the later one joined.
absl::Status CheckEqualParts(const std::vector<LinkCopy>& copies, double latency,
                             double tolerance) {
  std::vector<Border> borders;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    borders.push_back({copies[i].start + latency, true, i});
    borders.push_back({std::max(copies[i].end, copies[i].start + latency), false, i});
  }
  // A copy without bytes starts before it ends.
  std::stable_sort(borders.begin(), borders.end(),
                   [](const Border& a, const Border& b) { return a.seconds < b.seconds; });
  std::vector<double> done_at_start(copies.size());
  double done = 0;
  double now = 0;
  int active = 0;
  for (const Border& border : borders) {
    if (active > 0) done += (border.seconds - now) / active;
    now = border.seconds;
    if (border.is_start) {
      done_at_start[border.index] = done;
      ++active;
      continue;
    }
    --active;
    const LinkCopy& copy = copies[border.index];
    const double share = done - done_at_start[border.index];
    if (std::abs(share - copy.seconds) > tolerance) return WrongShare(copy, share);
  }
  return absl::OkStatus();
}

absl::Status CheckOneAtATime(std::vector<LinkCopy> copies, double latency, double tolerance) {
  std::sort(copies.begin(), copies.end(), [](const LinkCopy& a, const LinkCopy& b) {
    return a.start < b.start || (a.start == b.start && a.end < b.end);
  });
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const double seconds = copies[i].end - copies[i].start - latency;
    if (std::abs(seconds - copies[i].seconds) > tolerance) return WrongShare(copies[i], seconds);
    if (i == 0 || copies[i - 1].end <= copies[i].start + tolerance) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", copies[i].step, ", a copy at ", copies[i].start,
        " seconds: its link is in use by step ", copies[i - 1].step, " until ", copies[i - 1].end));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHeldMemory(std::vector<HeldMemory> held, std::int64_t memory_bytes,
                             double tolerance) {
  std::int64_t bytes = 0;
  AddressesInUse addresses;
  for (const Border& border : BordersOf(held, tolerance)) {
    const HeldMemory& own = held[border.index];
    if (border.is_start && own.bytes > memory_bytes - bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "step ", own.step, ", at ", own.start, " seconds: ", own.bytes, " bytes more than the ",
          bytes, " in use, expected up to the memory of the device, ", memory_bytes));
    }
    bytes += border.is_start ? own.bytes : -own.bytes;
    if (own.address < 0) continue;
    if (!border.is_start) {
      addresses.Remove(own);
    } else if (const HeldMemory* other = addresses.Add(own); other != nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("step ", own.step, ", at ", own.start, " seconds: the memory [", own.address,
                       ", ", own.address + own.bytes, ") is in use since step ", other->step,
                       ", until ", other->end, " seconds"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLinkCopies(std::vector<LinkCopy> copies, double latency, LinkSharing sharing,
                             double tolerance) {
  return sharing == LinkSharing::kEqualParts
             ? CheckEqualParts(copies, latency, tolerance)
             : CheckOneAtATime(std::move(copies), latency, tolerance);
}

}  // namespace tidepool::schedule
