// SPDX-License-Identifier: Apache-2.0
// Simulates the points of a sweep one after another, and searches them for answers.
#include "trace_replay/offload/sweep.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trace_replay/caller.h"
#include "trace_replay/offload/simulated_iteration.h"
#include "trace_replay/offload/timeline_answer.h"
#include "trace_replay/progress.h"

namespace tidepool::tool {
namespace {

// Policies without sets would have the same points for each set.
std::vector<SweepSeries> SeriesOf(const SweepOptions& sweep, std::int64_t batch) {
  std::vector<SweepSeries> series;
  for (const std::string& policy : sweep.policies.values) {
    for (const std::string& set : sweep.sets.values) {
      if (!TakesSet(policy) && set != sweep.sets.values.front()) continue;
      series.push_back({batch, policy, set});
    }
  }
  return series;
}

// Returns the pools of an iteration as fields of its answer. Fixed addresses have no pools.
absl::StatusOr<nlohmann::ordered_json> PoolsJson(const SimulatedIteration& iteration) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (iteration.scheduled.schedule().memory != ScheduleMemory::kPool) return json;
  const absl::StatusOr<SmallestPools> pools = SizePools(iteration);
  if (!pools.ok()) return pools.status();
  json["smallest_pools"] = SmallestPoolsJson(*pools);
  return json;
}

// Writes the schedule of an iteration that fits to the options of the next point.
absl::StatusOr<SweepPoint> SimulatePoint(OffloadCommandOptions& options,
                                         const GraphOrFamily& graphs, std::int64_t batch) {
  const absl::StatusOr<SimulatedIteration> iteration = ScheduleAndSimulate(options, graphs, batch);
  if (!iteration.ok()) return iteration.status();
  const ScheduledGraph& scheduled = iteration->scheduled;
  SweepPoint point = {
      .series = {batch == 0 ? scheduled.graph().batch : batch, options.policy, options.set},
      .graph = scheduled.graph().name,
      .memory_bytes = options.machine.memory_bytes.value_or(0),
      .ideal_seconds = scheduled.made.ideal_seconds};
  if (!iteration->timeline.ok()) {
    if (options.json) {
      point.json = DoesNotFitJson(options, iteration->scheduled, iteration->timeline.status());
    }
    return point;
  }
  const Timeline& timeline = *iteration->timeline;
  point.fits = true;
  options.choice.known = {scheduled.schedule()};
  point.schedule = scheduled.schedule().policy;
  point.seconds = timeline.seconds;
  point.compute_seconds = timeline.compute_seconds;
  point.bytes_out = timeline.bytes_out;
  point.bytes_in = timeline.bytes_in;
  point.peak_device_bytes = timeline.peak_device_bytes;
  point.peak_host_bytes = timeline.peak_host_bytes;
  point.pool_bytes = timeline.pool_bytes;
  if (options.json) {
    const absl::StatusOr<nlohmann::ordered_json> pools = PoolsJson(*iteration);
    if (!pools.ok()) return pools.status();
    point.json = TimelineAnswerJson(options, iteration->scheduled, timeline, *pools);
  }
  return point;
}

// Returns the indices of memories, the least first.
std::vector<std::size_t> LeastFirst(const std::vector<std::int64_t>& memories) {
  std::vector<std::size_t> order(memories.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return memories[a] < memories[b]; });
  return order;
}

bool IsGoodEnough(const SweepPoint& point, double most_slowdown) {
  return point.fits && point.slowdown() <= most_slowdown;
}

// Returns the answer for the same series and memory, and adds it before its first use.
SweepAnswer& AnswerFor(const SweepSeries& series, std::int64_t memory_bytes,
                       std::vector<SweepAnswer>& answers) {
  for (SweepAnswer& answer : answers) {
    if (answer.series == series && answer.memory_bytes == memory_bytes) return answer;
  }
  answers.push_back({series, memory_bytes, std::nullopt});
  return answers.back();
}

}  // namespace

std::string SeriesText(const SweepSeries& series) {
  std::string text = series.policy;
  if (TakesSet(series.policy)) absl::StrAppend(&text, " ", series.set);
  if (series.batch > 0) absl::StrAppend(&text, ", batch ", series.batch);
  return text;
}

absl::StatusOr<std::vector<SweepPoint>> RunSweep(
    const OffloadCommandOptions& point, const SweepOptions& sweep,
    const std::function<absl::StatusOr<GraphOrFamily>(std::int64_t batch)>& graph_of) {
  std::vector<std::int64_t> batches = sweep.batches.values;
  if (batches.empty()) batches = {0};
  const std::size_t count =
      batches.size() * SeriesOf(sweep, 0).size() * sweep.memories.values.size();
  if (count > kMostSweepPoints) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " points, expected at most ", kMostSweepPoints));
  }
  Progress progress;
  std::vector<SweepPoint> points;
  OffloadCommandOptions options = point;
  for (const std::int64_t batch : batches) {
    const absl::StatusOr<GraphOrFamily> graphs = graph_of(batch);
    if (!graphs.ok()) return graphs.status();
    for (const SweepSeries& series : SeriesOf(sweep, batch)) {
      options.policy = series.policy;
      options.set = series.set;
      options.choice.known.clear();
      const std::vector<std::size_t> order = LeastFirst(sweep.memories.values);
      std::vector<SweepPoint> least_first;
      least_first.reserve(order.size());
      std::vector<std::size_t> place(order.size());  // in that list, by memory
      for (const std::size_t memory : order) {
        if (absl::Status status = CheckNotStopped(); !status.ok()) return status;
        const std::size_t done = points.size() + least_first.size();
        progress.Show(absl::StrCat("point ", done + 1, " of ", count),
                      static_cast<double>(done) / static_cast<double>(count));
        options.machine.memory_bytes = sweep.memories.values[memory];
        absl::StatusOr<SweepPoint> next = SimulatePoint(options, *graphs, batch);
        if (!next.ok()) return next.status();
        place[memory] = least_first.size();
        least_first.push_back(*std::move(next));
      }
      for (const std::size_t at : place) points.push_back(std::move(least_first[at]));
    }
  }
  return points;
}

std::vector<SweepAnswer> SmallestMemories(const std::vector<SweepPoint>& points,
                                          double most_slowdown) {
  std::vector<SweepAnswer> answers;
  for (const SweepPoint& point : points) {
    SweepAnswer& answer = AnswerFor(point.series, 0, answers);
    if (!IsGoodEnough(point, most_slowdown)) continue;
    if (!answer.best.has_value() || point.memory_bytes < answer.best->memory_bytes) {
      answer.best = point;
    }
  }
  return answers;
}

std::vector<SweepAnswer> LargestBatches(const std::vector<SweepPoint>& points,
                                        double most_slowdown) {
  std::vector<SweepAnswer> answers;
  for (const SweepPoint& point : points) {
    SweepAnswer& answer =
        AnswerFor({0, point.series.policy, point.series.set}, point.memory_bytes, answers);
    if (!IsGoodEnough(point, most_slowdown)) continue;
    if (!answer.best.has_value() || point.series.batch > answer.best->series.batch) {
      answer.best = point;
    }
  }
  return answers;
}

}  // namespace tidepool::tool
