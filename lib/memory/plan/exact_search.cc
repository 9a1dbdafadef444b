// SPDX-License-Identifier: Apache-2.0
// Exact search: depth first over canonical plans, with undo.
#include "lib/memory/plan/exact_search.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <tuple>

#include "lib/memory/plan/exact_part.h"

namespace tidepool::plan {
namespace {

// With more unplaced buffers than this, a node looks for failures only in the sections of the last
// placed buffer. A look at all sections would take longer than it saves.
constexpr std::int32_t kMostForFullCheck = 1000;
// Slots and saved offsets over all parts: about 300 MiB.
constexpr std::size_t kMostMemory = 8'000'000;
// A count of the buffers in all sections takes a second for this number.
constexpr double kMostSpans = 1e9;

template <typename Offset>
class Searcher {
 public:
  using Part = ExactPart<Offset>;
  using Kind = ExactAnswer::Kind;

  // The search counts addresses without those of obstacles.
  Searcher(const Instance& instance, Offset capacity, std::span<const Key> keys,
           std::vector<double>& weights, budget::Budget& budget)
      : instance_(instance),
        limits_(Limits(instance)),
        capacity_(static_cast<Offset>(capacity - ObstacleBytes(instance))),
        keys_(keys),
        weights_(weights),
        budget_(budget),
        offsets_(static_cast<std::size_t>(instance.count())) {}

  ExactAnswer Run() {
    Level& all = LevelAt(0);
    all.part.Reset(instance_.count(), instance_.sections());
    all.part.first_section = 0;
    for (std::int32_t i = 0; i < instance_.count(); ++i) {
      all.part.size[i] = static_cast<Offset>(instance_.size[i]);
      all.part.first[i] = instance_.first[i];
      all.part.end[i] = instance_.end[i];
      all.part.buffer[i] = i;
      all.part.lowest[i] = limits_.Lift(0, i, all.part.size[i]);
    }
    all.part.CountSections();
    memory_ = all.part.size.size();
    Rank(all.part);
    ExactAnswer answer;
    answer.kind = SolvePart(0, {}) ? Kind::kFound
                  : is_stopped_    ? Kind::kStopped
                                   : Kind::kInfeasible;
    if (answer.kind == Kind::kFound) answer.offsets = WithObstacles(std::move(offsets_));
    return answer;
  }

 private:
  // The buffer that was placed last.
  struct Last {
    Offset offset = 0;
    std::int32_t rank = -1;
    std::int32_t first = 0;
    std::int32_t end = 0;
    Offset top = 0;
  };

  struct Candidate {
    Offset offset;
    std::int32_t rank;
    std::int32_t slot;

    bool operator<(const Candidate& other) const {
      return std::tie(offset, rank) < std::tie(other.offset, other.rank);
    }
  };

  struct Node {
    std::size_t first_candidate;
    std::size_t next_candidate;
    typename Part::Mark placed;
  };

  // One level of the search: the tree of a part.
  struct Level {
    Part part;
    std::vector<Node> nodes;
    std::vector<Candidate> candidates;  // candidates of all nodes, the last node's at the end
    std::vector<Offset> section_lowest;
  };

  // The results of a walk over the unplaced buffers.
  struct Tops {
    Offset lowest = Part::kNever;          // the lowest top of any unplaced buffer
    Offset lowest_to_come = Part::kNever;  // the same for buffers that were not passed over
    Offset highest = 0;
    Offset largest_passed = 0;  // the size of the largest passed-over buffer
  };

  static ExactLimits<Offset> Limits(const Instance& instance) {
    ExactLimits<Offset> limits;
    if (!instance.is_aligned) limits.alignment = &instance.alignment;
    std::int64_t below = 0;
    for (std::int32_t i = 0; i < instance.obstacles(); ++i) {
      limits.cuts.push_back(static_cast<Offset>(instance.obstacle_offset[i] - below));
      below += instance.size[instance.count() + i];
    }
    return limits;
  }

  static std::int64_t ObstacleBytes(const Instance& instance) {
    return std::accumulate(instance.size.begin() + instance.count(), instance.size.end(),
                           std::int64_t{0});
  }

  // Converts offsets back: adds the addresses of obstacles below each buffer.
  Offsets WithObstacles(Offsets offsets) const {
    for (std::int64_t& offset : offsets) {
      const auto below =
          std::upper_bound(limits_.cuts.begin(), limits_.cuts.end(), offset) - limits_.cuts.begin();
      const auto first = instance_.size.begin() + instance_.count();
      offset = std::accumulate(first, first + below, offset);
    }
    return offsets;
  }

  Level& LevelAt(std::size_t depth) {
    while (levels_.size() <= depth) levels_.emplace_back();
    return levels_[depth];
  }

  bool Stop() {
    is_stopped_ = true;
    return false;
  }

  // Computes the ranks of the part's buffers again: its loads differ from those of the whole.
  void Rank(Part& part) {
    Instance view;
    view.lower_bound = instance_.lower_bound;
    view.load.assign(part.total.begin(), part.total.end());
    view.first.assign(part.first.begin(), part.first.begin() + part.count);
    view.end.assign(part.end.begin(), part.end.begin() + part.count);
    view.size.assign(part.size.begin(), part.size.begin() + part.count);
    view.duration.resize(part.count);
    for (std::int32_t i = 0; i < part.count; ++i) {
      view.duration[i] = instance_.duration[part.buffer[i]];
    }
    const auto weights = weights_.begin() + part.first_section;
    const std::vector<std::int32_t> order =
        OrderBy(view, keys_, std::vector<double>(weights, weights + part.sections()));
    for (std::int32_t i = 0; i < part.count; ++i) part.rank[order[i]] = i;
  }

  bool SolvePart(std::size_t depth, const Last& start) {
    Level& level = LevelAt(depth);
    Part& part = level.part;
    level.nodes.clear();
    level.candidates.clear();
    level.section_lowest.resize(part.sections());
    Enter(level, start);
    while (!level.nodes.empty() && !is_stopped_) {
      Node& node = level.nodes.back();
      if (node.placed.slot >= 0) {
        part.Undo(node.placed);
        node.placed.slot = -1;
        // The buffer has no buffer beside or above it, so other candidates cannot do better.
        if (node.placed.meets_none) node.next_candidate = level.candidates.size();
      }
      if (node.next_candidate == level.candidates.size()) {
        level.candidates.resize(node.first_candidate);
        level.nodes.pop_back();
        continue;
      }
      if (Descend(depth, node)) return true;
    }
    return false;
  }

  // Places the node's next candidate. Returns whether that solved the part.
  bool Descend(std::size_t depth, Node& node) {
    Level& level = levels_[depth];
    Part& part = level.part;
    const Candidate next = level.candidates[node.next_candidate++];
    const Last last = {next.offset, next.rank, part.first[next.slot], part.end[next.slot],
                       static_cast<Offset>(next.offset + part.size[next.slot])};
    offsets_[part.buffer[next.slot]] = next.offset;
    const bool splits = part.Place(next.slot, limits_, &node.placed);
    if (part.count == 0) return true;
    if (part.saved_lowest.size() + memory_ > kMostMemory) return Stop();
    if (splits) return SolveSplit(depth, last);
    Enter(level, last);
    return false;
  }

  // Adds a node, unless the unplaced buffers cannot fit.
  void Enter(Level& level, const Last& last) {
    if (!budget_.Take()) {
      is_stopped_ = true;
      return;
    }
    const Tops tops = FindTops(level.part, last);
    if (tops.lowest_to_come == Part::kNever || tops.highest > capacity_) return;
    if (tops.largest_passed > 0 && tops.lowest_to_come + tops.largest_passed > capacity_) return;
    const std::size_t first_candidate = level.candidates.size();
    const bool fails = level.part.count <= kMostForFullCheck ? FailsAnywhere(level, last, tops)
                                                             : FailsUnder(level.part, last);
    if (fails) return;
    AddCandidates(level, last, tops.lowest);
    std::sort(level.candidates.begin() + static_cast<std::ptrdiff_t>(first_candidate),
              level.candidates.end());
    level.nodes.push_back({first_candidate, first_candidate, {}});
  }

  static bool IsPassed(Offset lowest, std::int32_t rank, const Last& last) {
    return (static_cast<unsigned>(lowest < last.offset) |
            (static_cast<unsigned>(lowest == last.offset) &
             static_cast<unsigned>(rank < last.rank))) != 0;
  }

  static Tops FindTops(const Part& part, const Last& last) {
    Tops tops;
    const Offset* const lowest = part.lowest.data();
    const Offset* const size = part.size.data();
    const std::int32_t* const rank = part.rank.data();
    for (std::int32_t i = 0; i < part.count; ++i) {
      const Offset top = lowest[i] + size[i];
      const bool passed = IsPassed(lowest[i], rank[i], last);
      tops.lowest = std::min(tops.lowest, top);
      tops.highest = std::max(tops.highest, top);
      tops.lowest_to_come = std::min(tops.lowest_to_come, passed ? Part::kNever : top);
      tops.largest_passed = std::max(tops.largest_passed, passed ? size[i] : Offset{0});
    }
    return tops;
  }

  // Returns whether some section's unplaced buffers cannot fit above the lowest of their offsets.
  bool FailsAnywhere(Level& level, const Last& last, const Tops& tops) {
    const Part& part = level.part;
    Offset* const section_lowest = level.section_lowest.data();
    std::fill(level.section_lowest.begin(), level.section_lowest.end(), Part::kNever);
    for (std::int32_t i = 0; i < part.count; ++i) {
      const Offset lowest =
          IsPassed(part.lowest[i], part.rank[i], last) ? tops.lowest_to_come : part.lowest[i];
      const std::int32_t end = part.end[i];
      for (std::int32_t s = part.first[i]; s < end; ++s) {
        section_lowest[s] = std::min(section_lowest[s], lowest);
      }
    }
    unsigned fails = 0;
    const Offset* const total = part.total.data();
    const std::int32_t sections = part.sections();
    for (std::int32_t s = 0; s < sections; ++s) fails |= Fails(section_lowest[s], total[s]);
    if (fails == 0) return false;
    for (std::int32_t s = 0; s < sections; ++s) {
      if (Fails(section_lowest[s], total[s]) != 0) weights_[part.first_section + s] += 1;
    }
    return true;
  }

  // Checks only the sections of the last placed buffer, above the lowest offset that it leaves.
  bool FailsUnder(const Part& part, const Last& last) {
    bool any = false;
    for (std::int32_t s = last.first; s < last.end; ++s) {
      if (Fails(last.top, part.total[s]) == 0) continue;
      weights_[part.first_section + s] += 1;
      any = true;
    }
    return any;
  }

  unsigned Fails(Offset lowest, Offset total) const {
    return static_cast<unsigned>(total > 0) & static_cast<unsigned>(lowest + total > capacity_);
  }

  // Adds buffers that were not passed over and lie below the lowest top. A buffer above that top
  // would leave room for a buffer below it.
  static void AddCandidates(Level& level, const Last& last, Offset lowest_top) {
    const Part& part = level.part;
    for (std::int32_t i = 0; i < part.count; ++i) {
      if (part.lowest[i] < lowest_top && !IsPassed(part.lowest[i], part.rank[i], last)) {
        level.candidates.push_back({part.lowest[i], part.rank[i], i});
      }
    }
  }

  struct Fragment {
    std::int32_t first;
    std::int32_t end;
    Offset tightness;  // greatest sum of a section's lowest offset and total
  };

  // Solves the unplaced rest of the part, which may consist of several fragments, tightest
  // fragments first.
  bool SolveSplit(std::size_t depth, const Last& last) {
    Level& level = levels_[depth];
    const std::vector<Fragment> fragments = FindFragments(level);
    if (fragments.size() == 1) {
      Enter(level, last);
      return false;
    }
    for (const Fragment& fragment : fragments) {
      const std::size_t memory = memory_;
      if (!CopyFragment(levels_[depth].part, fragment, LevelAt(depth + 1).part)) return Stop();
      // Offsets continue from the last one. Ranks changed, so all buffers of equal offset are
      // tried.
      const bool is_solved = SolvePart(depth + 1, {.offset = last.offset});
      memory_ = memory;
      if (!is_solved) return false;
    }
    return true;
  }

  static std::vector<Fragment> FindFragments(Level& level) {
    const Part& part = level.part;
    std::vector<Offset>& lowest = level.section_lowest;
    std::fill(lowest.begin(), lowest.end(), Part::kNever);
    for (std::int32_t i = 0; i < part.count; ++i) {
      for (std::int32_t s = part.first[i]; s < part.end[i]; ++s) {
        lowest[s] = std::min(lowest[s], part.lowest[i]);
      }
    }
    std::vector<Fragment> fragments;
    for (std::int32_t s = 0; s < part.sections(); ++s) {
      if (part.total[s] == 0) continue;
      if (s == 0 || part.crossings[s - 1] == 0) fragments.push_back({s, s, 0});
      fragments.back().end = s + 1;
      fragments.back().tightness =
          std::max<Offset>(fragments.back().tightness, lowest[s] + part.total[s]);
    }
    std::stable_sort(fragments.begin(), fragments.end(), [](const Fragment& a, const Fragment& b) {
      return a.tightness > b.tightness;
    });
    return fragments;
  }

  // Returns false when the memory limit is reached.
  bool CopyFragment(const Part& from, const Fragment& fragment, Part& to) {
    std::vector<std::int32_t> slots;
    for (std::int32_t i = 0; i < from.count; ++i) {
      if (from.first[i] >= fragment.first && from.end[i] <= fragment.end) slots.push_back(i);
    }
    to.Reset(static_cast<std::int32_t>(slots.size()), fragment.end - fragment.first);
    memory_ += to.size.size() + from.saved_lowest.size();
    if (memory_ > kMostMemory) return false;
    to.first_section = from.first_section + fragment.first;
    for (std::int32_t i = 0; i < to.count; ++i) {
      to.lowest[i] = from.lowest[slots[i]];
      to.size[i] = from.size[slots[i]];
      to.first[i] = from.first[slots[i]] - fragment.first;
      to.end[i] = from.end[slots[i]] - fragment.first;
      to.buffer[i] = from.buffer[slots[i]];
    }
    to.CountSections();
    Rank(to);
    return true;
  }

  const Instance& instance_;
  const ExactLimits<Offset> limits_;
  const Offset capacity_;
  const std::span<const Key> keys_;
  std::vector<double>& weights_;
  budget::Budget& budget_;
  Offsets offsets_;
  std::deque<Level> levels_;  // of nested parts; a deque does not move them
  std::size_t memory_ = 0;
  bool is_stopped_ = false;
};

}  // namespace

ExactSearch::ExactSearch(const Instance& instance, std::uint64_t seed)
    : instance_(instance), weights_(instance.load.size()) {
  for (std::int32_t i = 0; i < instance.count(); ++i) spans_ += instance.end[i] - instance.first[i];
  std::mt19937_64 random(seed);
  for (double& weight : weights_) weight = static_cast<double>(random() >> 11) * 0x1p-53;
}

bool ExactSearch::IsFor(const Instance& instance) {
  if (instance.has_streams) return false;  // sections say too much
  if (instance.obstacles() == 0) return true;
  for (std::int32_t i = 0; i < instance.obstacles(); ++i) {
    if (!instance.LivesThroughout(instance.count() + i)) return false;
  }
  return instance.is_aligned;
}

ExactAnswer ExactSearch::Find(std::int64_t capacity, std::span<const Key> keys,
                              budget::Budget& budget) {
  constexpr double kDecay = 0.9;
  for (double& weight : weights_) weight *= kDecay;
  if (static_cast<std::size_t>(instance_.count()) > kMostMemory || spans_ > kMostSpans) return {};
  if (!IsFor(instance_)) return {};
  const std::int64_t step =
      *std::max_element(instance_.alignment.begin(), instance_.alignment.end());
  const std::int64_t size = *std::max_element(instance_.size.begin(), instance_.size.end());
  // The largest sum that the search forms: an aligned top, and a section's total above it.
  const std::int64_t load = *std::max_element(instance_.load.begin(), instance_.load.end());
  if (capacity + size + step + load < ExactPart<std::int32_t>::kNever) {
    return Searcher<std::int32_t>(instance_, static_cast<std::int32_t>(capacity), keys, weights_,
                                  budget)
        .Run();
  }
  return Searcher<std::int64_t>(instance_, capacity, keys, weights_, budget).Run();
}

}  // namespace tidepool::plan
