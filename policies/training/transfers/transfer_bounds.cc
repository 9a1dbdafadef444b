// SPDX-License-Identifier: Apache-2.0
// Bounds from the bytes that must be away while an operation runs: they leave before it, and come
// back after it.
#include "policies/training/transfers/transfer_bounds.h"

#include <algorithm>
#include <limits>

namespace tidepool::transfers {
namespace {

// More sums than these, or sums of more sizes, are not enumerated: the bytes themselves are the
// bound then. Hundreds of equal sizes would take longer than the search.
constexpr std::size_t kMostSums = 4096;
constexpr std::int64_t kMostSizes = 64;

// Returns the smallest sum of some of at most kMostSizes sizes that is at least `bytes`. Where
// there are too many sums to look at, it returns `bytes`.
std::int64_t SmallestSum(const std::vector<std::int64_t>& sizes, std::int64_t bytes) {
  std::vector<std::int64_t> sums = {0};
  std::vector<std::int64_t> merged;
  for (const std::int64_t size : sizes) {
    std::vector<std::int64_t> larger = sums;
    for (std::int64_t& sum : larger) sum += size;
    merged.clear();
    std::set_union(sums.begin(), sums.end(), larger.begin(), larger.end(),
                   std::back_inserter(merged));
    // Only the smallest of the sums that are enough is of interest.
    const auto enough = std::lower_bound(merged.begin(), merged.end(), bytes);
    if (enough != merged.end()) merged.erase(enough + 1, merged.end());
    if (merged.size() > kMostSums) return bytes;
    sums.swap(merged);
  }
  return sums.back() >= bytes ? sums.back() : bytes;
}

double Seconds(std::int64_t bytes, double rate) {
  return bytes > 0 ? static_cast<double>(bytes) / rate : 0;
}

// Returns bytes per second; 0 for a copy that takes no time, or none.
double Rate(std::int64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

}  // namespace

TransferBounds::TransferBounds(const TransferProblem& problem)
    : first_unfit_(problem.seconds.size()), seconds_from_(problem.seconds.size() + 1) {
  for (std::size_t k = problem.seconds.size(); k-- > 0;) {
    seconds_from_[k] = seconds_from_[k + 1] + problem.seconds[k];
  }
  FindRates(problem);
  FindNeeds(problem);
  FindCritical(problem);
}

// Small data may have a higher rate, because its memory takes whole granules. It must not raise the
// rate of all others, so its bytes count as if they were copied in no time.
void TransferBounds::FindRates(const TransferProblem& problem) {
  constexpr std::int64_t kSmallPart = 256;  // of the largest
  std::int64_t largest = 0;
  for (const Absence& one : problem.absences) largest = std::max(largest, one.bytes);
  for (const Absence& one : problem.absences) {
    if (one.bytes < largest / kSmallPart) continue;
    out_rate_ = std::max(out_rate_, Rate(one.bytes, one.out_seconds));
    in_rate_ = std::max(in_rate_, Rate(one.bytes, one.in_seconds));
  }
  for (const Absence& one : problem.absences) {
    if (IsFast(one)) fast_bytes_ += one.bytes;
  }
}

bool TransferBounds::IsFast(const Absence& absence) const {
  return absence.in_seconds <= 0 || absence.ends_away ||
         Rate(absence.bytes, absence.out_seconds) > out_rate_ ||
         Rate(absence.bytes, absence.in_seconds) > in_rate_;
}

void TransferBounds::FindNeeds(const TransferProblem& problem) {
  needed_.resize(problem.seconds.size());
  clean_.resize(problem.seconds.size());
  const std::vector<Away> away = MostAway(problem);
  std::vector<std::int64_t> sizes;
  for (std::size_t k = 0; k < needed_.size(); ++k) {
    const std::int64_t excess = problem.running_bytes[k] - problem.memory_bytes;
    if (excess <= 0) continue;
    if (away[k].bytes < excess) first_unfit_ = std::min(first_unfit_, k);
    clean_[k] = away[k].clean;
    needed_[k] = std::max<std::int64_t>(0, excess - away[k].fast);
    if (away[k].slow > kMostSizes) continue;
    sizes.clear();
    for (const Absence& absence : problem.absences) {
      if (absence.left > k || absence.needed <= k || IsFast(absence)) continue;
      sizes.push_back(absence.bytes);
    }
    needed_[k] = SmallestSum(sizes, needed_[k]);
  }
}

// Returns, by operation, the data that may be away beside it.
std::vector<TransferBounds::Away> TransferBounds::MostAway(const TransferProblem& problem) const {
  // First the changes from one operation to the next, then their sums.
  std::vector<Away> away(problem.seconds.size() + 1);
  for (const Absence& absence : problem.absences) {
    if (absence.left >= absence.needed) continue;
    const bool is_fast = IsFast(absence);
    const std::int64_t fast = is_fast ? absence.bytes : 0;
    const std::int64_t clean = !is_fast && absence.out_seconds <= 0 ? absence.bytes : 0;
    away[absence.left].Add({absence.bytes, clean, fast, is_fast ? 0 : 1});
    away[absence.needed].Add({-absence.bytes, -clean, -fast, is_fast ? 0 : -1});
  }
  for (std::size_t k = 1; k < away.size(); ++k) away[k].Add(away[k - 1]);
  return away;
}

void TransferBounds::FindCritical(const TransferProblem& problem) {
  double before = 0;
  for (std::size_t k = 0; k < needed_.size(); ++k) {
    if (needed_[k] > 0) {
      const double after = std::max(seconds_from_[k + 1], Seconds(needed_[k], in_rate_));
      critical_.push_back({k, before, std::max<std::int64_t>(0, needed_[k] - clean_[k]),
                           problem.seconds[k] + after});
    }
    before += problem.seconds[k];
  }
  if (critical_.size() <= kMostCritical) return;
  // The operations with the highest bound of the empty schedule decide most often.
  std::vector<Critical> by_bound = critical_;
  const auto bound = [&](const Critical& one) {
    return std::max(one.before, Seconds(one.sent, out_rate_)) + one.after;
  };
  std::nth_element(by_bound.begin(), by_bound.begin() + kMostCritical, by_bound.end(),
                   [&](const Critical& a, const Critical& b) { return bound(a) > bound(b); });
  by_bound.resize(kMostCritical);
  std::sort(by_bound.begin(), by_bound.end(),
            [](const Critical& a, const Critical& b) { return a.operation < b.operation; });
  critical_.swap(by_bound);
}

double TransferBounds::Of(const Progress& progress) const {
  const double rest = seconds_from_[progress.started];
  double bound = std::max(progress.busy_until + rest,
                          progress.in_until + Seconds(progress.away_bytes - fast_bytes_, in_rate_));
  const double ended = seconds_from_[0] - rest;
  for (auto one = critical_.rbegin(); one != critical_.rend(); ++one) {
    if (one->operation < progress.started) break;
    double start = progress.busy_until + one->before - ended;
    const std::int64_t missing = one->sent - progress.away_bytes;
    if (missing > 0) start = std::max(start, progress.out_until + Seconds(missing, out_rate_));
    bound = std::max(bound, start + one->after);
  }
  return bound;
}

}  // namespace tidepool::transfers
