// SPDX-License-Identifier: Apache-2.0
// Answers questions about kernels: each kernel alone, all under one limit, or groups that take
// turns in one memory.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace {

using Front = std::vector<KernelConfiguration>;

std::int64_t AddBytes(std::int64_t a, std::int64_t b) {
  return b > std::numeric_limits<std::int64_t>::max() - a ? std::numeric_limits<std::int64_t>::max()
                                                          : a + b;
}

KernelTable PreciseRows(const KernelTable& table, KernelPrecision precision) {
  KernelTable rows;
  std::copy_if(table.begin(), table.end(), std::back_inserter(rows),
               [&](const KernelRow& row) { return row.precision >= precision; });
  return rows;
}

absl::Status DoesNotFit(const WorkspaceCase& question, std::size_t kernel, const Front& unlimited) {
  if (unlimited.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("kernel ", kernel, " has no micro-batches of the policy ", question.policy,
                     " that add up to ", text::Count(question.batch, "sample")));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "kernel ", kernel, " needs at least ", text::ExactSize(unlimited.front().workspace_bytes),
      " of workspace, and the limit is ", text::ExactSize(question.limit_bytes)));
}

absl::StatusOr<std::vector<Front>> FrontsOf(const WorkspaceCase& question) {
  const auto sizes = MicroBatchSizes(question.policy, question.batch);
  if (!sizes.ok()) return sizes.status();
  std::vector<Front> fronts;
  for (std::size_t i = 0; i < question.kernels.size(); ++i) {
    const KernelTable rows = PreciseRows(question.kernels[i], question.precision);
    fronts.push_back(ConfigurationFront(rows, *sizes, question.batch, question.limit_bytes));
    if (!fronts.back().empty()) continue;
    return DoesNotFit(question, i,
                      ConfigurationFront(rows, *sizes, question.batch, kMostWorkspaceBytes));
  }
  return fronts;
}

using Points = std::vector<WorkspacePoint>;

// Returns the points of several fronts when all have the same limit, from the least one that
// serves all. `together` makes one workspace of two.
template <typename Together>
Points AtEachLimit(const std::vector<Points>& fronts, const Together& together) {
  std::vector<std::int64_t> limits;
  std::int64_t least = 0;
  for (const Points& front : fronts) {
    least = std::max(least, front.front().workspace_bytes);
    for (const WorkspacePoint& point : front) limits.push_back(point.workspace_bytes);
  }
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  std::vector<std::size_t> at(fronts.size());
  Points points;
  for (const std::int64_t limit : limits) {
    if (limit < least) continue;
    WorkspacePoint all;
    for (std::size_t i = 0; i < fronts.size(); ++i) {
      while (at[i] + 1 < fronts[i].size() && fronts[i][at[i] + 1].workspace_bytes <= limit) ++at[i];
      all.seconds += fronts[i][at[i]].seconds;
      all.workspace_bytes = together(all.workspace_bytes, fronts[i][at[i]].workspace_bytes);
    }
    points.push_back(all);
  }
  return points;
}

Points PointsOf(const Front& front) {
  Points points;
  points.reserve(front.size());
  for (const KernelConfiguration& configuration : front) {
    points.push_back({configuration.seconds, configuration.workspace_bytes});
  }
  return points;
}

WorkspaceAnswer Reuse(std::vector<Front> fronts) {
  WorkspaceAnswer answer;
  std::vector<Points> points;
  points.reserve(fronts.size());
  for (Front& front : fronts) {
    points.push_back(PointsOf(front));
    answer.kernels.push_back(std::move(front.back()));
  }
  answer.front = AtEachLimit(points, AddBytes);
  answer.seconds = answer.front.back().seconds;
  answer.workspace_bytes = answer.front.back().workspace_bytes;
  return answer;
}

absl::StatusOr<WorkspaceAnswer> Share(const WorkspaceCase& question, std::vector<Front> fronts) {
  std::vector<std::vector<std::size_t>> groups = question.groups;
  for (std::size_t i = 0; question.groups.empty() && i < fronts.size(); ++i) groups.push_back({i});
  WorkspaceAnswer answer;
  answer.kernels.resize(fronts.size());
  std::vector<Points> points;
  for (const std::vector<std::size_t>& group : groups) {
    if (group.empty()) continue;
    std::vector<Front> members;
    members.reserve(group.size());
    for (const std::size_t kernel : group) members.push_back(std::move(fronts[kernel]));
    Points alone = PointsOf(members.front());
    absl::StatusOr<WorkspaceAnswer> divided = DivideWorkspace(members, question.limit_bytes);
    if (!divided.ok()) {
      return absl::Status(divided.status().code(),
                          absl::StrCat("the group of kernel ", group.front(), ": ",
                                       std::string(divided.status().message())));
    }
    for (std::size_t k = 0; k < group.size(); ++k) {
      answer.kernels[group[k]] = std::move(divided->kernels[k]);
    }
    answer.proved = answer.proved && divided->proved;
    points.push_back(group.size() == 1 ? std::move(alone) : std::move(divided->front));
  }
  answer.front = AtEachLimit(points, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
  answer.seconds = answer.front.back().seconds;
  answer.workspace_bytes = answer.front.back().workspace_bytes;
  return answer;
}

}  // namespace

absl::StatusOr<WorkspaceAnswer> ChooseWorkspaces(const WorkspaceCase& question) {
  if (absl::Status status = ValidateWorkspaceCase(question); !status.ok()) return status;
  if (question.kind == WorkspaceKind::kDevices) {
    return absl::InvalidArgumentError("a question about devices, expected one about kernels");
  }
  absl::StatusOr<std::vector<Front>> fronts = FrontsOf(question);
  if (!fronts.ok()) return fronts.status();
  if (question.kind == WorkspaceKind::kReuse) return Reuse(*std::move(fronts));
  if (question.kind == WorkspaceKind::kShared) return Share(question, *std::move(fronts));
  return DivideWorkspace(*fronts, question.limit_bytes);
}

}  // namespace tidepool
