// SPDX-License-Identifier: Apache-2.0
// Problems with several streams for the planner, and their slow model: every pair of buffers is
// compared by a walk through all waits.
#ifndef TIDEPOOL_TESTS_SUPPORT_STREAM_PROBLEM_H_
#define TIDEPOOL_TESTS_SUPPORT_STREAM_PROBLEM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tidepool/trace/plan.h"

namespace tidepool::testing {

struct StreamShape {
  int events = 20;
  int streams = 2;
  std::int64_t largest = 9;
  int waits_in_ten = 2;          // of ten events
  int foreign_frees_in_ten = 0;  // of ten frees, on any stream
  std::int64_t alignment = 1;
};

// Draws a sequence of allocations, frees and waits, one a tick.
inline PlanProblem RandomStreamProblem(std::mt19937_64& random, const StreamShape& shape) {
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  const auto any_stream = [&] { return static_cast<std::uint32_t>(below(shape.streams)); };
  PlanProblem problem;
  std::vector<std::size_t> live;
  for (std::int64_t time = 0; time < shape.events; ++time) {
    if (below(10) < shape.waits_in_ten) {
      problem.waits.push_back({time, any_stream(), any_stream()});
    } else if (live.empty() || below(2) == 0) {
      live.push_back(problem.buffers.size());
      const std::uint32_t stream = any_stream();
      problem.buffers.push_back({.lower = time,
                                 .upper = shape.events,
                                 .bytes = shape.alignment * (1 + below(shape.largest)),
                                 .alignment = shape.alignment,
                                 .stream = stream,
                                 .free_stream = stream});
    } else {
      std::swap(live[static_cast<std::size_t>(below(static_cast<std::int64_t>(live.size())))],
                live.back());
      PlanBuffer& buffer = problem.buffers[live.back()];
      live.pop_back();
      buffer.upper = time;
      if (below(10) < shape.foreign_frees_in_ten) buffer.free_stream = any_stream();
    }
  }
  return problem;
}

// Returns whether two buffers need disjoint addresses.
inline bool SlowConflict(const PlanProblem& problem, std::size_t a, std::size_t b) {
  if (problem.buffers[a].lower > problem.buffers[b].lower) std::swap(a, b);
  const PlanBuffer& first = problem.buffers[a];
  const PlanBuffer& second = problem.buffers[b];
  if (second.lower < first.upper) return true;
  std::vector<bool> knows(1024);
  knows[first.free_stream] = true;
  for (const PlanWait& wait : problem.waits) {
    if (wait.time < first.upper || wait.time > second.lower) continue;
    if (knows[wait.awaited]) knows[wait.stream] = true;
  }
  return !knows[second.stream];
}

inline bool SlowIsValidForStreams(const PlanProblem& problem,
                                  const std::vector<std::int64_t>& offsets, std::int64_t height) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  if (offsets.size() != buffers.size()) return false;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] + buffers[i].bytes > height) return false;
    if (offsets[i] % buffers[i].alignment != 0) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (offsets[i] < offsets[j] + buffers[j].bytes &&
          offsets[j] < offsets[i] + buffers[i].bytes && SlowConflict(problem, i, j)) {
        return false;
      }
    }
  }
  return true;
}

// Returns the most bytes of buffers that need disjoint addresses pairwise, by trying all sets.
inline std::int64_t SlowLargestClique(const PlanProblem& problem) {
  const std::size_t count = problem.buffers.size();
  std::int64_t largest = 0;
  for (std::uint32_t set = 0; set < std::uint32_t{1} << count; ++set) {
    std::int64_t bytes = 0;
    bool is_clique = true;
    for (std::size_t i = 0; i < count && is_clique; ++i) {
      if ((set >> i & 1) == 0) continue;
      bytes += problem.buffers[i].bytes;
      for (std::size_t j = 0; j < i && is_clique; ++j) {
        is_clique = (set >> j & 1) == 0 || SlowConflict(problem, i, j);
      }
    }
    if (is_clique) largest = std::max(largest, bytes);
  }
  return largest;
}

// Returns the smallest height, by first-fit in all orders.
inline std::int64_t SlowSmallestHeightOfStreams(const PlanProblem& problem) {
  const std::vector<PlanBuffer>& buffers = problem.buffers;
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::int64_t smallest = INT64_MAX;
  do {
    std::vector<std::int64_t> offsets(buffers.size());
    std::int64_t height = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::int64_t& offset = offsets[order[i]];
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t j = 0; j < i; ++j) {
          const std::size_t other = order[j];
          const std::int64_t end = offsets[other] + buffers[other].bytes;
          if (offset >= end || offsets[other] >= offset + buffers[order[i]].bytes) continue;
          if (!SlowConflict(problem, order[i], other)) continue;
          offset = end;
          moved = true;
        }
      }
      height = std::max(height, offset + buffers[order[i]].bytes);
    }
    smallest = std::min(smallest, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return buffers.empty() ? 0 : smallest;
}

// Returns the problem of one stream's buffers alone. They live until their stream knows of their
// free.
inline PlanProblem SlowPartOf(const PlanProblem& problem, std::uint32_t stream) {
  PlanProblem part;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    PlanBuffer buffer = problem.buffers[i];
    if (buffer.stream != stream) continue;
    for (std::size_t j = 0; j < problem.buffers.size(); ++j) {
      const PlanBuffer& later = problem.buffers[j];
      if (later.stream == stream && later.lower >= buffer.upper && SlowConflict(problem, i, j)) {
        buffer.upper = later.lower + 1;
      }
    }
    buffer.stream = buffer.free_stream = 0;
    part.buffers.push_back(buffer);
  }
  return part;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_STREAM_PROBLEM_H_
