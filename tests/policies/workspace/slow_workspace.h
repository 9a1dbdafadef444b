// SPDX-License-Identifier: Apache-2.0
// Obvious answers to questions about workspaces, by enumeration; and random questions.
#ifndef TIDEPOOL_TESTS_POLICIES_WORKSPACE_SLOW_WORKSPACE_H_
#define TIDEPOOL_TESTS_POLICIES_WORKSPACE_SLOW_WORKSPACE_H_

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "tidepool/training/workspace_policy.h"

namespace tidepool::testing {

// Returns the points that no other dominates, by ascending workspace.
inline std::vector<WorkspacePoint> Undominated(std::vector<WorkspacePoint> points) {
  std::sort(points.begin(), points.end(), [](const WorkspacePoint& a, const WorkspacePoint& b) {
    return a.workspace_bytes != b.workspace_bytes ? a.workspace_bytes < b.workspace_bytes
                                                  : a.seconds < b.seconds;
  });
  std::vector<WorkspacePoint> front;
  for (const WorkspacePoint& point : points) {
    if (front.empty() || point.seconds < front.back().seconds) front.push_back(point);
  }
  return front;
}

// Returns the front of all divisions of a batch into rows of these sizes within the limit.
inline std::vector<WorkspacePoint> SlowFront(const KernelTable& table,
                                             const std::vector<std::int64_t>& sizes,
                                             std::int64_t batch, std::int64_t limit) {
  std::vector<WorkspacePoint> points;
  const std::function<void(std::size_t, std::int64_t, WorkspacePoint)> divide =
      [&](std::size_t first, std::int64_t left, WorkspacePoint point) {
        if (left == 0) points.push_back(point);
        for (std::size_t i = first; i < table.size(); ++i) {
          const KernelRow& row = table[i];
          if (row.micro_batch > left || row.workspace_bytes > limit) continue;
          if (std::find(sizes.begin(), sizes.end(), row.micro_batch) == sizes.end()) continue;
          divide(
              i, left - row.micro_batch,
              {point.seconds + row.seconds, std::max(point.workspace_bytes, row.workspace_bytes)});
        }
      };
  divide(0, batch, {});
  return Undominated(points);
}

// Returns the best sum of one point of each front within the limit, or no value.
inline std::optional<WorkspacePoint> SlowDivision(
    const std::vector<std::vector<WorkspacePoint>>& fronts, std::int64_t limit) {
  std::vector<WorkspacePoint> points = {{}};
  for (const std::vector<WorkspacePoint>& front : fronts) {
    std::vector<WorkspacePoint> longer;
    for (const WorkspacePoint& point : points) {
      for (const WorkspacePoint& next : front) {
        longer.push_back(
            {point.seconds + next.seconds, point.workspace_bytes + next.workspace_bytes});
      }
    }
    points = std::move(longer);
  }
  std::erase_if(points, [&](const WorkspacePoint& p) { return p.workspace_bytes > limit; });
  const std::vector<WorkspacePoint> front = Undominated(points);
  return front.empty() ? std::nullopt : std::optional(front.back());
}

// Makes a table with small whole times and workspaces, so that ties are frequent.
inline KernelTable RandomTable(std::mt19937_64& random, std::int64_t batch, std::size_t rows) {
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  KernelTable table;
  for (std::size_t i = 0; i < rows; ++i) {
    table.push_back({.micro_batch = 1 + below(batch),
                     .algorithm = static_cast<std::int64_t>(i),
                     .seconds = static_cast<double>(below(12)) / 4,
                     .workspace_bytes = below(8)});
  }
  return table;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_POLICIES_WORKSPACE_SLOW_WORKSPACE_H_
