// SPDX-License-Identifier: Apache-2.0
#include "policies/training/transfers/away_set.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "absl/types/span.h"
#include "lib/base/arithmetic.h"
#include "policies/training/transfers/sort_by_key.h"
#include "policies/training/transfers/transfer_dispatch.h"

namespace tidepool::transfers {
namespace {

// The bytes by which operations exceed the memory: a tree. Each node has the most of its
// operations, so that a range changes and answers in O(log operations).
class Excess {
 public:
  explicit Excess(const TransferProblem& problem)
      : leaves_(std::bit_ceil(std::max<std::size_t>(problem.running_bytes.size(), 1))),
        most_(2 * leaves_, std::numeric_limits<std::int64_t>::min() / 2),
        added_(2 * leaves_) {
    for (std::size_t k = 0; k < problem.running_bytes.size(); ++k) {
      most_[leaves_ + k] = problem.running_bytes[k] - problem.memory_bytes;
    }
    for (std::size_t node = leaves_; node-- > 1;) Refresh(node);
  }

  void Remove(std::size_t begin, std::size_t end, std::int64_t bytes) {
    Remove(1, 0, leaves_, begin, end, bytes);
  }
  std::int64_t Most(std::size_t begin, std::size_t end) const {
    return Most(1, 0, leaves_, begin, end);
  }

 private:
  void Refresh(std::size_t node) {
    most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + added_[node];
  }
  void Remove(std::size_t node, std::size_t first, std::size_t size, std::size_t begin,
              std::size_t end, std::int64_t bytes) {
    if (begin >= first + size || end <= first) return;
    if (begin <= first && first + size <= end) {
      most_[node] -= bytes;
      added_[node] -= bytes;
      return;
    }
    Remove(2 * node, first, size / 2, begin, end, bytes);
    Remove(2 * node + 1, first + size / 2, size / 2, begin, end, bytes);
    Refresh(node);
  }
  std::int64_t Most(std::size_t node, std::size_t first, std::size_t size, std::size_t begin,
                    std::size_t end) const {
    if (begin >= first + size || end <= first) return std::numeric_limits<std::int64_t>::min() / 2;
    if (begin <= first && first + size <= end) return most_[node];
    return added_[node] + std::max(Most(2 * node, first, size / 2, begin, end),
                                   Most(2 * node + 1, first + size / 2, size / 2, begin, end));
  }

  std::size_t leaves_;
  std::vector<std::int64_t> most_;
  std::vector<std::int64_t> added_;  // to all operations of a node, not yet to its children
};

// Random changes of a set.
class SetChanges {
 public:
  explicit SetChanges(const TransferProblem& problem)
      : problem_(problem), by_needed_(problem.absences.size()) {
    std::iota(by_needed_.begin(), by_needed_.end(), std::size_t{0});
    by_bytes_ = by_needed_;
    std::stable_sort(by_needed_.begin(), by_needed_.end(), [&](std::size_t a, std::size_t b) {
      return problem.absences[a].needed < problem.absences[b].needed;
    });
    std::stable_sort(by_bytes_.begin(), by_bytes_.end(), [&](std::size_t a, std::size_t b) {
      return problem.absences[a].bytes < problem.absences[b].bytes;
    });
  }

  void Make(std::mt19937_64& random, std::vector<bool>& set) const {
    switch (random() % 8) {
      case 0:
      case 1:
        return Exchange(random, set);
      case 2:
        return Swap(by_needed_, random, set);
      case 3:
        return Swap(by_bytes_, random, set);
      default:
        return Flip(random, set);
    }
  }

 private:
  static void Flip(std::mt19937_64& random, std::vector<bool>& set) {
    for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      set[random() % set.size()].flip();
    }
  }

  // Swaps two absences that are near each other in an order.
  static void Swap(const std::vector<std::size_t>& order, std::mt19937_64& random,
                   std::vector<bool>& set) {
    constexpr std::size_t kNear = 8;
    const std::size_t at = random() % set.size();
    const std::size_t near = std::min(at + 1 + random() % kNear, set.size() - 1);
    const bool other = set[order[near]];
    set[order[near]] = set[order[at]];
    set[order[at]] = other;
  }

  // Flips one absence, and others the other way for as many bytes.
  void Exchange(std::mt19937_64& random, std::vector<bool>& set) const {
    constexpr int kTries = 40;
    const std::size_t one = random() % set.size();
    set[one].flip();
    std::int64_t missing = problem_.absences[one].bytes;
    for (int tries = 0; tries < kTries && missing > 0; ++tries) {
      const std::size_t other = random() % set.size();
      const std::int64_t bytes = problem_.absences[other].bytes;
      if (other == one || set[other] != set[one] || bytes > 2 * missing) continue;
      set[other].flip();
      missing -= bytes;
    }
  }

  const TransferProblem& problem_;
  std::vector<std::size_t> by_needed_;
  std::vector<std::size_t> by_bytes_;
};

// Returns the absences in the order in which they are taken: those of data needed last come first.
std::vector<std::size_t> EagerOrder(const TransferProblem& problem) {
  const std::vector<Absence>& absences = problem.absences;
  const std::size_t operations = problem.seconds.size();
  std::vector<std::size_t> order(absences.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  SortByKey(
      operations + 1, [&](std::size_t g) { return operations - absences[g].needed; }, order);
  const auto stage = [&](std::size_t g) {
    return absences[g].begins_away ? 0U : 1U + static_cast<unsigned>(absences[g].is_at_home);
  };
  SortByKey(3, stage, order);
  return order;
}

// Adds absences in their order, each where an operation in it does not fit yet. Operations that fit
// do so for good, so from the last one on each is looked at once. O(operations + absences).
class EagerWalk {
 public:
  EagerWalk(const TransferProblem& problem, std::vector<bool>& set)
      : problem_(problem), set_(set) {}

  // Walks through absences in descending order of `needed`.
  void Add(absl::Span<const std::size_t> order, std::size_t skipped) {
    FindExcess();
    taken_.assign(operations() + 1, 0);
    sum_ = 0;
    at_ = operations();
    for (const std::size_t g : order) {
      if (!set_[g] && g != skipped && IsShort(problem_.absences[g])) Take(g);
    }
  }

 private:
  std::size_t operations() const { return problem_.seconds.size(); }

  void FindExcess() {
    excess_.assign(operations() + 1, 0);
    for (std::size_t g = 0; g < set_.size(); ++g) {
      if (!set_[g]) continue;
      excess_[problem_.absences[g].left] -= problem_.absences[g].bytes;
      excess_[problem_.absences[g].needed] += problem_.absences[g].bytes;
    }
    std::partial_sum(excess_.begin(), excess_.end(), excess_.begin());
    for (std::size_t k = 0; k < operations(); ++k) {
      excess_[k] += problem_.running_bytes[k] - problem_.memory_bytes;
    }
  }

  // Whether an operation in an absence does not fit. Goes on to the last one before its end.
  bool IsShort(const Absence& absence) {
    while (at_ > 0 && (at_ > absence.needed || excess_[at_ - 1] <= sum_)) sum_ -= taken_[--at_];
    return at_ > absence.left;
  }

  void Take(std::size_t g) {
    set_[g] = true;
    taken_[problem_.absences[g].left] += problem_.absences[g].bytes;
    sum_ += problem_.absences[g].bytes;
  }

  const TransferProblem& problem_;
  std::vector<bool>& set_;
  std::vector<std::int64_t> excess_;  // by operation: the bytes that do not fit, at first
  std::vector<std::int64_t> taken_;   // by operation: the bytes of added absences from it on
  std::size_t at_ = 0;                // operations, the last of which is looked at
  std::int64_t sum_ = 0;              // of the bytes taken from operations up to that one on
};

// Adds absences in the order of EagerOrder, but not `skipped`, each where an operation in it does
// not fit yet.
void AddUntilFits(const TransferProblem& problem, absl::Span<const std::size_t> order,
                  std::size_t skipped, std::vector<bool>& set) {
  const auto at_home = std::find_if(order.begin(), order.end(), [&](std::size_t g) {
    return problem.absences[g].is_at_home && !problem.absences[g].begins_away;
  });
  const auto others = static_cast<std::size_t>(at_home - order.begin());
  EagerWalk walk(problem, set);
  walk.Add(order.first(others), skipped);
  if (others < order.size()) walk.Add(order.subspan(others), skipped);
}

// Adds absences until all operations fit, and takes back those without which they still fit, but
// leaves `skipped` as it is. The order is that of EagerOrder.
void FitSetBut(const TransferProblem& problem, absl::Span<const std::size_t> order,
               std::size_t skipped, std::vector<bool>& set) {
  AddUntilFits(problem, order, skipped, set);
  Excess excess(problem);
  for (std::size_t g = 0; g < set.size(); ++g) {
    const Absence& absence = problem.absences[g];
    if (set[g]) excess.Remove(absence.left, absence.needed, absence.bytes);
  }
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::size_t g = order[i];
    const Absence& absence = problem.absences[g];
    if (!set[g] || g == skipped || absence.is_always_away()) continue;
    if (excess.Most(absence.left, absence.needed) + absence.bytes > 0) continue;
    set[g] = false;
    excess.Remove(absence.left, absence.needed, -absence.bytes);
  }
}

// Changes large absences, and then others the other way until the operations just fit. Such a set
// is many random changes away, and the first of them make schedules much slower.
class LargeChanges {
 public:
  explicit LargeChanges(const TransferProblem& problem)
      : problem_(problem), order_(EagerOrder(problem)), by_bytes_(order_) {
    std::sort(by_bytes_.begin(), by_bytes_.end(), [&](std::size_t a, std::size_t b) {
      const std::int64_t bytes = problem.absences[a].bytes;
      return std::pair(-bytes, a) < std::pair(-problem.absences[b].bytes, b);
    });
    by_bytes_.resize(std::min(by_bytes_.size(), kLargest));
  }

  // Changes the next largest absence, and the largest again after the last.
  std::vector<bool> Next(std::vector<bool> set) {
    const std::size_t changed = by_bytes_[next_++ % by_bytes_.size()];
    set[changed].flip();
    FitSetBut(problem_, order_, changed, set);
    return set;
  }

 private:
  static constexpr std::size_t kLargest = 16;

  const TransferProblem& problem_;
  const std::vector<std::size_t> order_;
  std::vector<std::size_t> by_bytes_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<bool> EagerSet(const TransferProblem& problem) {
  std::vector<bool> set;
  set.reserve(problem.absences.size());
  for (const Absence& absence : problem.absences) set.push_back(absence.is_always_away());
  AddUntilFits(problem, set);
  return set;
}

void AddUntilFits(const TransferProblem& problem, std::vector<bool>& set) {
  AddUntilFits(problem, EagerOrder(problem), set.size(), set);
}

void FitSet(const TransferProblem& problem, std::vector<bool>& set) {
  FitSetBut(problem, EagerOrder(problem), set.size(), set);
}

double ImproveSet(const TransferProblem& problem, double bound, std::uint64_t seed,
                  const GoOn& go_on, std::vector<bool>& set) {
  // At the start of a round, a schedule that takes this share longer takes the place of the last
  // one with a probability of 1 / e. The share falls with the steps of the round. Each round begins
  // with the best set. From the third on every other round changes a large absence first. The first
  // two do not, because large graphs have no time for more. Each round that begins with the best
  // set has twice as many steps as the one before it.
  constexpr double kFirstTemperature = 0.003;
  constexpr double kLastTemperature = 0.0001;
  constexpr double kFirstSteps = 2000;
  TransferDispatcher dispatcher(problem);
  double best = dispatcher.Run(set);
  if (problem.absences.empty()) return best;
  std::vector<bool> current = set;
  double current_seconds = best;
  std::vector<bool> next;
  std::mt19937_64 random(seed);
  SetChanges changes(problem);
  LargeChanges large_changes(problem);
  double steps = kFirstSteps;
  bool is_changed = false;
  double temperature = kFirstTemperature;
  while (best > bound * (1 + kEqualSeconds) &&
         go_on(problem.seconds.size() + problem.absences.size())) {
    next = current;
    changes.Make(random, next);
    const double chance = static_cast<double>((random() >> 11) + 1) * 0x1p-53;
    temperature *= std::pow(kLastTemperature / kFirstTemperature, 1 / steps);
    if (temperature < kLastTemperature) {
      is_changed = !is_changed && steps > kFirstSteps;
      temperature = kFirstTemperature;
      if (!is_changed) steps *= 2;
      current = is_changed ? large_changes.Next(set) : set;
      current_seconds = is_changed ? dispatcher.Run(current) : best;
      continue;
    }
    // A schedule is taken with the probability exp((current - seconds) / (current * temperature)).
    const double most_seconds = current_seconds * (1 - temperature * std::log(chance));
    const double seconds = dispatcher.RunWithin(most_seconds, next);
    if (seconds > most_seconds) continue;
    current.swap(next);
    current_seconds = seconds;
    if (seconds >= best) continue;
    best = seconds;
    set = current;
  }
  return best;
}

bool ChangeForLess(const TransferProblem& problem, double seconds, int tries, std::uint64_t seed,
                   std::vector<bool>& set) {
  if (set.empty()) return false;
  TransferDispatcher dispatcher(problem);
  std::mt19937_64 random(seed);
  const SetChanges changes(problem);
  std::vector<bool> next;
  for (int i = 0; i < tries; ++i) {
    next = set;
    changes.Make(random, next);
    if (dispatcher.RunWithin(seconds, next) >= seconds) continue;
    set.swap(next);
    return true;
  }
  return false;
}

}  // namespace tidepool::transfers
