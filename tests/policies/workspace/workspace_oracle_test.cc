// SPDX-License-Identifier: Apache-2.0
// Answers against enumeration on small random tables, in which ties are frequent.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/policies/workspace/slow_workspace.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace {

using testing::RandomTable;
using testing::SlowDivision;
using testing::SlowFront;

std::vector<WorkspacePoint> PointsOf(const std::vector<KernelConfiguration>& front) {
  std::vector<WorkspacePoint> points;
  for (const KernelConfiguration& point : front) {
    points.push_back({point.seconds, point.workspace_bytes});
  }
  return points;
}

// Checks that the parts are rows of the table, and have the time and workspace that they add up to.
void ExpectMadeOf(const KernelTable& table, std::int64_t batch,
                  const KernelConfiguration& configuration) {
  std::int64_t samples = 0;
  double seconds = 0;
  std::int64_t workspace = 0;
  for (const KernelPart& part : configuration.parts) {
    const auto row = std::find_if(table.begin(), table.end(), [&](const KernelRow& its) {
      return its.algorithm == part.algorithm && its.micro_batch == part.micro_batch;
    });
    ASSERT_NE(row, table.end());
    samples += part.micro_batch;
    seconds += row->seconds;
    workspace = std::max(workspace, row->workspace_bytes);
  }
  EXPECT_EQ(samples, batch);
  EXPECT_EQ(seconds, configuration.seconds);
  EXPECT_EQ(workspace, configuration.workspace_bytes);
}

TEST(ConfigurationFront, IsThatOfAllDivisions) {
  std::mt19937_64 random(1);
  std::size_t points = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto batch = static_cast<std::int64_t>(1 + random() % 7);
    const KernelTable table = RandomTable(random, batch, 1 + random() % 8);
    const char* policies[] = {"all", "powerOfTwo", "undivided", "1,3"};
    const auto sizes = MicroBatchSizes(policies[random() % 4], batch);
    ASSERT_TRUE(sizes.ok());
    const auto limit = static_cast<std::int64_t>(random() % 9);
    const auto front = ConfigurationFront(table, *sizes, batch, limit);
    EXPECT_EQ(PointsOf(front), SlowFront(table, *sizes, batch, limit)) << i;
    for (const KernelConfiguration& point : front) ExpectMadeOf(table, batch, point);
    points += front.size();
  }
  EXPECT_GT(points, 1000U);
}

TEST(DivideWorkspace, IsTheBestOfAllDivisions) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::vector<KernelConfiguration>> fronts;
    std::vector<std::vector<WorkspacePoint>> points;
    for (std::size_t k = 1 + random() % 6; k > 0; --k) {
      std::vector<KernelConfiguration>& front = fronts.emplace_back();
      double seconds = 40;
      auto bytes = static_cast<std::int64_t>(random() % 4);
      for (std::size_t p = 1 + random() % 5; p > 0; --p) {
        front.push_back({.seconds = seconds, .workspace_bytes = bytes});
        seconds -= static_cast<double>(1 + random() % 8) / 2;
        bytes += static_cast<std::int64_t>(1 + random() % 6);
      }
      points.push_back(PointsOf(front));
    }
    const auto limit = static_cast<std::int64_t>(random() % 50);
    const auto answer = DivideWorkspace(fronts, limit);
    const auto expected = SlowDivision(points, limit);
    ASSERT_EQ(answer.ok(), expected.has_value()) << i;
    if (!answer.ok()) continue;
    EXPECT_TRUE(answer->proved);
    EXPECT_EQ(answer->seconds, expected->seconds) << i;
    EXPECT_EQ(answer->workspace_bytes, expected->workspace_bytes) << i;
    EXPECT_EQ(answer->front.back(), *expected) << i;
    for (const WorkspacePoint& point : answer->front) {
      EXPECT_EQ(SlowDivision(points, point.workspace_bytes), point) << i;
    }
  }
}

TEST(ChooseWorkspaces, GroupsTakeTurns) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    WorkspaceCase question = {.kind = WorkspaceKind::kShared, .batch = 4};
    for (int k = 0; k < 4; ++k) question.kernels.push_back(RandomTable(random, 4, 6));
    for (KernelTable& table : question.kernels) table.push_back({4, 99, 5, 1});
    question.groups = {{0, 2}, {1}, {3}};
    question.limit_bytes = static_cast<std::int64_t>(random() % 20);
    const auto sizes = *MicroBatchSizes("all", 4);
    double seconds = 0;
    std::int64_t bytes = 0;
    bool fits = true;
    for (const std::vector<std::size_t>& group : question.groups) {
      std::vector<std::vector<WorkspacePoint>> fronts;
      for (const std::size_t kernel : group) {
        fronts.push_back(SlowFront(question.kernels[kernel], sizes, 4, question.limit_bytes));
      }
      const auto best = SlowDivision(fronts, question.limit_bytes);
      fits = fits && best.has_value();
      seconds += fits ? best->seconds : 0;
      bytes = std::max(bytes, fits ? best->workspace_bytes : 0);
    }
    const auto answer = ChooseWorkspaces(question);
    ASSERT_EQ(answer.ok(), fits) << i;
    if (!fits) continue;
    EXPECT_EQ(answer->seconds, seconds) << i;
    EXPECT_EQ(answer->workspace_bytes, bytes) << i;
    EXPECT_EQ(answer->front.back(), (WorkspacePoint{seconds, bytes})) << i;
  }
}

// Returns the least time of the slowest device, by all choices of rows.
double SlowSplit(const std::vector<std::vector<DeviceRow>>& devices, std::size_t device,
                 std::int64_t left, std::int64_t multiple_of) {
  if (device == devices.size()) return left == 0 ? 0 : std::numeric_limits<double>::infinity();
  double best = SlowSplit(devices, device + 1, left, multiple_of);
  for (const DeviceRow& row : devices[device]) {
    if (row.samples > left || row.samples % multiple_of != 0) continue;
    best = std::min(best, std::max(row.seconds, SlowSplit(devices, device + 1, left - row.samples,
                                                          multiple_of)));
  }
  return best;
}

TEST(SplitBatch, IsTheBestOfAllSplits) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 2000; ++i) {
    WorkspaceCase question = {.kind = WorkspaceKind::kDevices,
                              .batch = static_cast<std::int64_t>(1 + random() % 12),
                              .multiple_of = static_cast<std::int64_t>(1 + random() % 2)};
    for (std::size_t k = 1 + random() % 4; k > 0; --k) {
      std::vector<DeviceRow>& device = question.devices.emplace_back();
      for (std::size_t r = 1 + random() % 4; r > 0; --r) {
        device.push_back(
            {static_cast<std::int64_t>(1 + random() % 12), static_cast<double>(random() % 20)});
      }
    }
    const double expected = SlowSplit(question.devices, 0, question.batch, question.multiple_of);
    const auto split = SplitBatch(question);
    ASSERT_EQ(split.ok(), expected < std::numeric_limits<double>::infinity()) << i;
    if (!split.ok()) continue;
    EXPECT_EQ(split->seconds, expected) << i;
    std::int64_t samples = 0;
    double slowest = 0;
    for (const DeviceRow& row : split->devices) {
      samples += row.samples;
      slowest = std::max(slowest, row.seconds);
    }
    EXPECT_EQ(samples, question.batch) << i;
    EXPECT_EQ(slowest, expected) << i;
  }
}

}  // namespace
}  // namespace tidepool
