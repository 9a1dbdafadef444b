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
      operations + 1, [&](std::size_t absence) { return operations - absences[absence].needed; },
      order);
  const auto stage = [&](std::size_t absence) {
    return absences[absence].begins_away ? 0U
                                         : 1U + static_cast<unsigned>(absences[absence].is_at_home);
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
    for (const std::size_t absence : order) {
      if (!set_[absence] && absence != skipped && IsShort(problem_.absences[absence]))
        Take(absence);
    }
  }

 private:
  std::size_t operations() const { return problem_.seconds.size(); }

  void FindExcess() {
    excess_.assign(operations() + 1, 0);
    for (std::size_t absence = 0; absence < set_.size(); ++absence) {
      if (!set_[absence]) continue;
      excess_[problem_.absences[absence].left] -= problem_.absences[absence].bytes;
      excess_[problem_.absences[absence].needed] += problem_.absences[absence].bytes;
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

  void Take(std::size_t absence) {
    set_[absence] = true;
    taken_[problem_.absences[absence].left] += problem_.absences[absence].bytes;
    sum_ += problem_.absences[absence].bytes;
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
  const auto at_home = std::find_if(order.begin(), order.end(), [&](std::size_t absence) {
    return problem.absences[absence].is_at_home && !problem.absences[absence].begins_away;
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
  for (std::size_t i = 0; i < set.size(); ++i) {
    const Absence& absence = problem.absences[i];
    if (set[i]) excess.Remove(absence.left, absence.needed, absence.bytes);
  }
  for (auto next = order.rbegin(); next != order.rend(); ++next) {
    const std::size_t i = *next;
    const Absence& absence = problem.absences[i];
    if (!set[i] || i == skipped || absence.is_always_away()) continue;
    if (excess.Most(absence.left, absence.needed) + absence.bytes > 0) continue;
    set[i] = false;
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

// A schedule that takes this share longer takes the place of the last one with a probability of
// 1 / e. The share falls in a round.
class Temperature {
 public:
  double value() const { return value_; }
  // Falls by one of the steps of a round. Returns false at its end.
  bool Fall(double steps) {
    value_ *= std::pow(kLast / kFirst, 1 / steps);
    return value_ >= kLast;
  }

 private:
  static constexpr double kFirst = 0.003;
  static constexpr double kLast = 0.0001;

  double value_ = kFirst;
};

// Simulated annealing of a set, in rounds.
class Annealing {
 public:
  // Improves `best`.
  Annealing(const TransferProblem& problem, std::uint64_t seed, std::vector<bool>& best)
      : problem_(problem),
        dispatcher_(problem),
        random_(seed),
        changes_(problem),
        large_changes_(problem),
        best_(best),
        best_seconds_(dispatcher_.Run(best)),
        current_(best),
        current_seconds_(best_seconds_) {}

  double best_seconds() const { return best_seconds_; }

  void Run(double bound, const GoOn& go_on) {
    const std::size_t steps = problem_.seconds.size() + problem_.absences.size();
    while (best_seconds_ > bound * (1 + kEqualSeconds) && go_on(steps)) {
      next_ = current_;
      changes_.Make(random_, next_);
      const double chance = static_cast<double>((random_() >> 11) + 1) * 0x1p-53;
      if (temperature_.Fall(tries_)) {
        Try(chance);
      } else {
        BeginRound();
      }
    }
  }

 private:
  static constexpr double kFirstTries = 2000;

  // Each round begins with the best set. From the third on every other round changes a large
  // absence first. The first two do not, because large graphs have no time for more. Each other
  // round has twice as many tries as the one before it.
  void BeginRound() {
    begins_with_large_change_ = !begins_with_large_change_ && tries_ > kFirstTries;
    temperature_ = Temperature();
    if (begins_with_large_change_) {
      current_ = large_changes_.Next(best_);
      current_seconds_ = dispatcher_.Run(current_);
    } else {
      tries_ *= 2;
      current_ = best_;
      current_seconds_ = best_seconds_;
    }
  }

  // Takes the next set with the probability exp((current - next) / (current * temperature)) of
  // their times.
  void Try(double chance) {
    const double most_seconds = current_seconds_ * (1 - temperature_.value() * std::log(chance));
    const double seconds = dispatcher_.RunWithin(most_seconds, next_);
    if (seconds > most_seconds) return;
    current_.swap(next_);
    current_seconds_ = seconds;
    if (seconds >= best_seconds_) return;
    best_seconds_ = seconds;
    best_ = current_;
  }

  const TransferProblem& problem_;
  TransferDispatcher dispatcher_;
  std::mt19937_64 random_;
  const SetChanges changes_;
  LargeChanges large_changes_;
  std::vector<bool>& best_;
  double best_seconds_;
  std::vector<bool> current_;
  double current_seconds_;
  std::vector<bool> next_;
  Temperature temperature_;
  double tries_ = kFirstTries;  // of the round
  bool begins_with_large_change_ = false;
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
  Annealing annealing(problem, seed, set);
  if (!problem.absences.empty()) annealing.Run(bound, go_on);
  return annealing.best_seconds();
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
