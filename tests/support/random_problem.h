// SPDX-License-Identifier: Apache-2.0
// Problems for the planner that are small enough for exhaustive search, and the slow planner that
// searches.
#ifndef TIDEPOOL_TESTS_SUPPORT_RANDOM_PROBLEM_H_
#define TIDEPOOL_TESTS_SUPPORT_RANDOM_PROBLEM_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "tidepool/trace/plan.h"

namespace tidepool::testing {

// Seconds that no search takes.
inline constexpr double kNoLimit = 1e9;

struct ProblemShape {
  int buffers = 6;
  int times = 6;  // the number of times at which buffers begin and end, less 1
  std::int64_t largest = 9;
  std::int64_t unit = 1;      // all sizes are multiples of it
  int alignment_bits = 0;     // alignments are powers of two of fewer bits
  std::int64_t earliest = 0;  // the first time
};

inline PlanProblem RandomProblem(std::mt19937_64& random, const ProblemShape& shape) {
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  PlanProblem problem;
  for (int i = 0; i < shape.buffers; ++i) {
    const std::int64_t lower = below(shape.times);
    const std::int64_t upper = lower + 1 + below(shape.times - lower);
    problem.buffers.push_back({.lower = shape.earliest + lower,
                               .upper = shape.earliest + upper,
                               .bytes = shape.unit * (1 + below(shape.largest)),
                               .alignment = std::int64_t{1} << below(shape.alignment_bits + 1)});
  }
  return problem;
}

// Cuts a rectangle of `width` ticks and `height` bytes into buffers: a plan exists in which no byte
// is ever free. The problem gets harder with the number of buffers; thousands are too hard for
// every planner.
inline PlanProblem CutRectangle(std::mt19937_64& random, int pieces, std::int64_t width,
                                std::int64_t height) {
  const auto inside = [&](std::int64_t from, std::int64_t to) {
    return from + 1 +
           static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(to - from - 1));
  };
  PlanProblem problem = {{{.lower = 0, .upper = width, .bytes = height}}};
  while (static_cast<int>(problem.buffers.size()) < pieces) {
    // The largest of a few candidates, so that no splinters remain.
    PlanBuffer* cut = &problem.buffers.front();
    double largest = 0;
    for (PlanBuffer& piece : problem.buffers) {
      const double area = static_cast<double>(piece.upper - piece.lower) *
                          static_cast<double>(piece.bytes) *
                          (0.3 + static_cast<double>(random() % 1000) / 1000);
      if (area > largest) cut = &piece;
      largest = std::max(largest, area);
    }
    PlanBuffer rest = *cut;
    if (random() % 2 == 0 && cut->upper - cut->lower > 1) {
      rest.lower = cut->upper = inside(cut->lower, cut->upper);
    } else if (cut->bytes > 1) {
      cut->bytes = inside(0, cut->bytes);
      rest.bytes -= cut->bytes;
    } else {
      continue;
    }
    problem.buffers.push_back(rest);
  }
  return problem;
}

inline bool LiveTogether(const PlanBuffer& a, const PlanBuffer& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

// Returns the smallest height of any plan. Tries all orders, with each buffer at its lowest offset
// above all earlier buffers that are live at the same time. O(n! n^2).
inline std::int64_t SlowSmallestHeight(const PlanProblem& problem) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::int64_t smallest = INT64_MAX;
  std::vector<std::int64_t> top(buffers.size());
  do {
    std::int64_t height = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const PlanBuffer& buffer = buffers[order[i]];
      std::int64_t offset = 0;
      for (std::size_t j = 0; j < i; ++j) {
        if (LiveTogether(buffer, buffers[order[j]])) offset = std::max(offset, top[order[j]]);
      }
      offset = (offset + buffer.alignment - 1) / buffer.alignment * buffer.alignment;
      top[order[i]] = offset + buffer.bytes;
      height = std::max(height, top[order[i]]);
    }
    smallest = std::min(smallest, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return smallest;
}

inline bool IsFixed(const PlanBuffer& buffer) { return buffer.offset != PlanBuffer::kAnywhere; }

// Returns the lowest offset at which a buffer fits next to the buffers in `placed`. Tries 0 and the
// end of each of them. O(n^2).
inline std::int64_t SlowFirstFit(const PlanProblem& problem,
                                 const std::vector<std::int64_t>& offsets,
                                 const std::vector<std::size_t>& placed, std::size_t index) {
  const PlanBuffer& buffer = problem.buffers[index];
  std::vector<std::int64_t> places = {0};
  for (const std::size_t i : placed) places.push_back(offsets[i] + problem.buffers[i].bytes);
  std::int64_t lowest = INT64_MAX;
  for (std::int64_t place : places) {
    place = (place + buffer.alignment - 1) / buffer.alignment * buffer.alignment;
    bool fits = true;
    for (const std::size_t i : placed) {
      fits &= !LiveTogether(buffer, problem.buffers[i]) || place + buffer.bytes <= offsets[i] ||
              offsets[i] + problem.buffers[i].bytes <= place;
    }
    if (fits) lowest = std::min(lowest, place);
  }
  return lowest;
}

// Returns the smallest height of any plan that keeps fixed buffers where they are. Tries all orders
// of the other buffers, each at the lowest offset where it fits. O(n! n^3).
inline std::int64_t SlowSmallestHeightAroundFixed(const PlanProblem& problem) {
  std::vector<std::int64_t> offsets;
  std::vector<std::size_t> fixed;
  std::vector<std::size_t> order;
  std::int64_t fixed_top = 0;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const PlanBuffer& buffer = problem.buffers[i];
    offsets.push_back(buffer.offset);
    (IsFixed(buffer) ? fixed : order).push_back(i);
    if (IsFixed(buffer)) fixed_top = std::max(fixed_top, buffer.offset + buffer.bytes);
  }
  std::int64_t smallest = INT64_MAX;
  do {
    std::int64_t height = fixed_top;
    std::vector<std::size_t> placed = fixed;
    for (const std::size_t i : order) {
      offsets[i] = SlowFirstFit(problem, offsets, placed, i);
      placed.push_back(i);
      height = std::max(height, offsets[i] + problem.buffers[i].bytes);
    }
    smallest = std::min(smallest, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return smallest;
}

// Fixes about one buffer in `one_in` at its offset.
inline PlanProblem FixSome(std::mt19937_64& random, PlanProblem problem,
                           const std::vector<std::int64_t>& offsets, int one_in) {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (random() % static_cast<unsigned>(one_in) == 0) problem.buffers[i].offset = offsets[i];
  }
  return problem;
}

// Returns whether offsets are a valid plan, by comparing all pairs.
inline bool SlowIsValid(const PlanProblem& problem, const std::vector<std::int64_t>& offsets,
                        std::int64_t height) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  if (offsets.size() != buffers.size()) return false;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] + buffers[i].bytes > height) return false;
    if (IsFixed(buffers[i])) {
      if (offsets[i] != buffers[i].offset) return false;
    } else if (offsets[i] % buffers[i].alignment != 0) {
      return false;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (LiveTogether(buffers[i], buffers[j]) && offsets[i] < offsets[j] + buffers[j].bytes &&
          offsets[j] < offsets[i] + buffers[i].bytes) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_RANDOM_PROBLEM_H_
