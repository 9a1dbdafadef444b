// SPDX-License-Identifier: Apache-2.0
// Chooses sub-batches: a fixed point of a rule and of the workspaces at its answer.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "policies/training/sub_batch/task_memory.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool {
namespace {

using sub_batch::DataSizes;
using sub_batch::FastestWorkspaces;
using sub_batch::WindowBytes;

constexpr std::int64_t kMultiple = 64;

class SubBatchSearch {
 public:
  SubBatchSearch(const GraphFamily& family, std::int64_t batch, std::int64_t memory_bytes,
                 std::int64_t alignment, const SubBatchOptions& options)
      : family_(family),
        batch_(batch),
        memory_bytes_(memory_bytes),
        alignment_(alignment),
        options_(options) {}

  absl::StatusOr<SubBatchChoice> Choose() {
    if (Least() > Most()) {
      return absl::InvalidArgumentError(absl::StrCat("the family has costs from ", Least(),
                                                     " samples on, expected some at ", batch_,
                                                     " samples or less, the batch of one device"));
    }
    const absl::StatusOr<std::int64_t> stable = FixedPoint();
    if (!stable.ok()) return stable.status();
    for (std::optional<std::int64_t> next = stable.value(); next.has_value(); next = Below(*next)) {
      const absl::StatusOr<bool> keeps = KeepsRule(*next);
      if (!keeps.ok()) return keeps.status();
      if (*keeps) return SubBatchChoice{*next, profiles_, /*keeps_rule=*/true};
    }
    return LargestThatRuns(*stable);
  }

 private:
  // The ends of the range of batches that have costs.
  std::int64_t Least() const { return family_.cost_model != nullptr ? 1 : family_.batches.front(); }
  std::int64_t Most() const {
    return family_.cost_model != nullptr ? batch_ : std::min(batch_, family_.batches.back());
  }

  // The rest of the batch is a round of its own.
  bool HasCosts(std::int64_t sub_batch) const {
    const std::int64_t rest = batch_ % sub_batch;
    return rest == 0 || rest >= Least();
  }

  // Returns the next smaller sub-batch that may be chosen.
  std::optional<std::int64_t> Below(std::int64_t sub_batch) const {
    while (--sub_batch >= Least()) {
      sub_batch = std::max(RegularSubBatch(sub_batch), Least());
      if (HasCosts(sub_batch)) return sub_batch;
    }
    return std::nullopt;
  }

  // Returns the largest sub-batch up to `sub_batch` that may be chosen, or the least one.
  std::int64_t AtMost(std::int64_t sub_batch) const {
    if (sub_batch >= batch_ && Most() == batch_) return batch_;
    return Below(sub_batch + 1).value_or(Least());
  }

  DataSizes SizesAt(std::int64_t sub_batch) const {
    std::vector<std::int64_t> bytes;
    bytes.reserve(family_.graph.data.size());
    for (std::size_t data = 0; data < family_.graph.data.size(); ++data) {
      bytes.push_back(family_.graph.data[data].bytes + family_.bytes_per_sample[data] * sub_batch);
    }
    return {family_.graph, std::move(bytes), alignment_, StayingData::kWeights};
  }

  absl::StatusOr<TaskGraph> Profile(std::int64_t sub_batch) {
    ++profiles_;
    return GraphAt(family_, sub_batch);
  }

  // Equation (8), with the workspaces of some batch.
  bool Fits(std::int64_t sub_batch, const std::vector<std::int64_t>& workspaces) const {
    return WindowBytes(family_.graph, SizesAt(sub_batch), workspaces, options_.consecutive_share) <=
           memory_bytes_;
  }

  std::int64_t LargestWindow(const std::vector<std::int64_t>& workspaces) const {
    std::int64_t fits = Least() - 1;
    std::int64_t fails = Most() + 1;
    for (std::int64_t next = fails - 1; fails - fits > 1; next = fits + (fails - fits) / 2) {
      (Fits(next, workspaces) ? fits : fails) = next;
    }
    return std::max(fits, Least());
  }

  // Equation (3) of DATE 2018. As printed it has no b on its right side, so its sides differ in
  // unit.
  std::int64_t ByLargestTask(std::int64_t sub_batch,
                             const std::vector<std::int64_t>& workspaces) const {
    const DataSizes sizes = SizesAt(sub_batch);
    std::int64_t largest = 1;
    for (std::size_t task = 0; task < family_.graph.tasks.size(); ++task) {
      largest = std::max(largest,
                         sizes.OfTask(family_.graph.tasks[task]) + sizes.Rounded(workspaces[task]));
    }
    const auto room =
        static_cast<double>(std::max<std::int64_t>(memory_bytes_ - sizes.staying(), 0));
    const double samples = static_cast<double>(sub_batch) * room / static_cast<double>(largest);
    return static_cast<std::int64_t>(
        std::clamp(samples, static_cast<double>(Least()), static_cast<double>(Most())));
  }

  std::int64_t Apply(std::int64_t sub_batch, const std::vector<std::int64_t>& workspaces) const {
    return AtMost(options_.rule == SubBatchRule::kConsecutiveTasks
                      ? LargestWindow(workspaces)
                      : ByLargestTask(sub_batch, workspaces));
  }

  // Answers that come again without being the last one alternate: the least of them is taken.
  absl::StatusOr<std::int64_t> FixedPoint() {
    std::vector<std::int64_t> answers = {Most()};
    for (;;) {
      const absl::StatusOr<TaskGraph> graph = Profile(answers.back());
      if (!graph.ok()) return graph.status();
      const std::int64_t next = Apply(answers.back(), FastestWorkspaces(*graph));
      const auto before = std::find(answers.begin(), answers.end(), next);
      if (before != answers.end()) return *std::min_element(before, answers.end());
      answers.push_back(next);
    }
  }

  // The rule of DATE only asks that all tasks run.
  absl::StatusOr<bool> KeepsRule(std::int64_t sub_batch) {
    const absl::StatusOr<TaskGraph> graph = Profile(sub_batch);
    if (!graph.ok()) return graph.status();
    if (LeastMemory(*graph, alignment_).bytes > memory_bytes_) return false;
    return options_.rule == SubBatchRule::kLargestTask ||
           Fits(sub_batch, FastestWorkspaces(*graph));
  }

  absl::StatusOr<SubBatchChoice> LargestThatRuns(std::int64_t most) {
    MemoryBound bound;
    TaskGraph graph;
    std::int64_t last = most;
    for (std::optional<std::int64_t> next = most; next.has_value(); next = Below(*next)) {
      absl::StatusOr<TaskGraph> at = Profile(*next);
      if (!at.ok()) return at.status();
      graph = *std::move(at);
      bound = LeastMemory(graph, alignment_);
      if (bound.bytes <= memory_bytes_) return SubBatchChoice{*next, profiles_};
      last = *next;
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "task \"", absl::CHexEscape(graph.tasks[bound.task].name), "\" needs ", bound.bytes,
        " bytes at a sub-batch of ", last, ", ", bound.staying_bytes,
        " of them for weights and their gradients; the memory has ", memory_bytes_, " bytes"));
  }

  const GraphFamily& family_;
  const std::int64_t batch_;
  const std::int64_t memory_bytes_;
  const std::int64_t alignment_;
  const SubBatchOptions& options_;
  int profiles_ = 0;
};

}  // namespace

std::int64_t RegularSubBatch(std::int64_t sub_batch) {
  if (sub_batch >= kMultiple) return sub_batch / kMultiple * kMultiple;
  std::int64_t power = 1;
  while (power * 2 <= sub_batch) power *= 2;
  return power;
}

absl::StatusOr<SubBatchRule> SubBatchRuleFromName(std::string_view name) {
  if (name == "consecutive-tasks") return SubBatchRule::kConsecutiveTasks;
  if (name == "largest-task") return SubBatchRule::kLargestTask;
  return absl::InvalidArgumentError(absl::StrCat("no rule of sub-batches \"",
                                                 absl::CHexEscape({name.data(), name.size()}),
                                                 "\", expected consecutive-tasks or largest-task"));
}

absl::StatusOr<SubBatchChoice> ChooseSubBatch(const GraphFamily& family, std::int64_t batch,
                                              std::int64_t memory_bytes, std::int64_t alignment,
                                              const SubBatchOptions& options) {
  if (!(options.consecutive_share > 0 && options.consecutive_share <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("a share of ", options.consecutive_share,
                                                   " of the tasks, expected more than 0, up to 1"));
  }
  return SubBatchSearch(family, batch, memory_bytes, alignment, options).Choose();
}

bool NormalizesOverBatch(const TaskGraph& graph) {
  return std::any_of(graph.tasks.begin(), graph.tasks.end(),
                     [](const GraphTask& task) { return task.operation == "batch-norm"; });
}

}  // namespace tidepool
