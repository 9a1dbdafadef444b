// SPDX-License-Identifier: Apache-2.0
#include "policies/training/rounds/front_sub_batches.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "policies/training/requests/request_check.h"
#include "policies/training/rounds/round_graph.h"
#include "policies/training/sub_batch/task_memory.h"
#include "tidepool/training/lower_bound.h"

namespace tidepool::rounds {
namespace {

constexpr double kDoesNotFit = std::numeric_limits<double>::infinity();

// Weights at home on the host may leave between tasks, and so do their gradients.
bool HasWeightsOnHost(const TaskGraph& graph) {
  return std::any_of(graph.data.begin(), graph.data.end(), [](const GraphData& data) {
    return StaysAcrossRounds(data) && data.after == DataHome::kHost;
  });
}

absl::StatusOr<FrontSubBatch> SubBatchOf(const GraphFamily& family, std::int64_t batch,
                                         const ScheduleRequest& request, std::int64_t samples) {
  const absl::StatusOr<TaskGraph> graph = GraphAt(family, samples);
  if (!graph.ok()) return graph.status();
  const bool has_updates = !requests::UpdatesOnHost(request);
  const StayingData staying = (samples == batch && has_updates) || HasWeightsOnHost(*graph)
                                  ? StayingData::kAtHome
                                  : StayingData::kWeights;
  FrontSubBatch sub_batch(samples);
  sub_batch.AddRound(*graph, request.placing.alignment, staying, batch / samples, has_updates);
  if (batch % samples == 0) return sub_batch;
  const absl::StatusOr<TaskGraph> rest = GraphAt(family, batch % samples);
  if (!rest.ok()) return rest.status();
  sub_batch.AddRound(*rest, request.placing.alignment, staying, 1, false);
  return sub_batch;
}

// Returns the batch and all regular sub-batches below, the largest first.
std::vector<std::int64_t> RegularUpTo(std::int64_t batch) {
  std::vector<std::int64_t> samples = {batch};
  while (samples.back() > 1) samples.push_back(RegularSubBatch(samples.back() - 1));
  return samples;
}

std::vector<std::int64_t> SamplesOf(std::int64_t batch, std::int64_t sub_batch, bool has_rounds) {
  if (sub_batch == kLargestSubBatch && has_rounds) return RegularUpTo(batch);
  return {sub_batch > 0 ? sub_batch : batch};
}

}  // namespace

void FrontSubBatch::AddRound(const TaskGraph& graph, std::int64_t alignment, StayingData staying,
                             std::int64_t times, bool has_updates) {
  const sub_batch::DataSizes sizes = sub_batch::SizesOf(graph, alignment, StayingData::kNone);
  const sub_batch::DataSizes beside = sub_batch::SizesOf(graph, alignment, staying);
  least_bytes_ = std::max(least_bytes_, beside.staying());
  for (const GraphTask& task : graph.tasks) {
    const bool is_update = task.phase == TaskPhase::kUpdate;
    if (is_update && !has_updates) continue;
    const auto repetitions = static_cast<double>(is_update ? 1 : times);
    const std::int64_t bytes = sizes.OfTask(task);
    std::vector<Choice> choices;
    choices.reserve(task.algorithms.size());
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      choices.push_back({.bytes = bytes + sizes.Rounded(algorithm.workspace_bytes),
                         .seconds = algorithm.seconds * repetitions});
    }
    const std::int64_t workspace = choices.front().bytes - bytes;
    least_bytes_ = std::max(least_bytes_, choices.front().bytes);
    modnn_bytes_ = std::max(modnn_bytes_, beside.staying() + beside.OfTask(task) + workspace);
    ideal_seconds_ += sub_batch::FastestOf(task).seconds * repetitions;
    tasks_.push_back(std::move(choices));
  }
  const absl::StatusOr<RoundGraph> round = RoundGraphOf(graph, /*updates_on_host=*/false);
  const bool is_whole = times == 1 && has_updates;
  rounds_.push_back({.graph = is_whole || !round.ok() ? graph : round->graph,
                     .times = static_cast<double>(times)});
}

double FrontSubBatch::LeastSeconds(std::int64_t memory) const {
  if (memory < least_bytes_) return kDoesNotFit;
  double sum = 0;
  for (const std::vector<Choice>& choices : tasks_) {
    double least = kDoesNotFit;
    for (const Choice& choice : choices) {
      if (choice.bytes <= memory) least = std::min(least, choice.seconds);
    }
    sum += least;
  }
  return sum;
}

double FrontSubBatch::EstimatedSeconds(std::int64_t memory, Machine machine,
                                       bool recomputes) const {
  machine.devices.resize(1);
  machine.devices.front().memory_bytes = memory;
  double sum = 0;
  for (const Round& round : rounds_) {
    Schedule order;
    order.memory = ScheduleMemory::kPaged;
    for (std::size_t task = 0; task < round.graph.tasks.size(); ++task) {
      order.steps.push_back({.kind = StepKind::kRun, .index = task});
      if (recomputes) order.steps.push_back(order.steps.back());
    }
    sum += LowerBoundSeconds({&round.graph, 1}, order, machine) * round.times;
  }
  return sum;
}

absl::StatusOr<std::vector<FrontSubBatch>> FindSubBatches(const GraphOrFamily& graphs,
                                                          std::int64_t batch,
                                                          const ScheduleRequest& request,
                                                          bool has_rounds) {
  std::vector<FrontSubBatch> sub_batches;
  if (const auto* graph = std::get_if<TaskGraph>(&graphs)) {
    sub_batches.emplace_back(batch);
    sub_batches.back().AddRound(*graph, request.placing.alignment, StayingData::kAtHome, 1, true);
    return sub_batches;
  }
  const auto& family = std::get<GraphFamily>(graphs);
  const GraphFamily on_device = requests::UpdatesOnHost(request) ? WithoutUpdates(family) : family;
  absl::Status first;
  for (const std::int64_t samples : SamplesOf(batch, request.sub_batch, has_rounds)) {
    absl::StatusOr<FrontSubBatch> sub_batch = SubBatchOf(on_device, batch, request, samples);
    if (sub_batch.ok()) {
      sub_batches.insert(sub_batches.begin(), *std::move(sub_batch));
    } else {
      first.Update(sub_batch.status());
    }
  }
  if (sub_batches.empty()) return first;
  return sub_batches;
}

}  // namespace tidepool::rounds
