// SPDX-License-Identifier: Apache-2.0
// An executor of schedules of a pool, with the addresses that the pool gives. Its tasks do real
// work by host functions.
#ifndef TIDEPOOL_TESTS_TRAINING_EXECUTE_PLACED_RIG_H_
#define TIDEPOOL_TESTS_TRAINING_EXECUTE_PLACED_RIG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/training/execute/task_work.h"
#include "tests/training/graph/random_graph.h"
#include "tests/training/schedule/random_schedule.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/host_device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/timeline.h"

namespace tidepool::testing {

// Returns a random graph with little data.
inline TaskGraph SmallRandomGraph(RandomGraphs& random, std::size_t tasks) {
  TaskGraph graph = random.Valid(tasks);
  for (GraphData& data : graph.data) data.bytes = 1 + data.bytes % 9000;
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) {
      algorithm.workspace_bytes = std::min<std::int64_t>(algorithm.workspace_bytes, 5000);
    }
  }
  if (random.Chance(0.4)) random.MoveHomes(graph);
  return graph;
}

// A pipeline with small pools of its own.
class SmallPipeline {
 public:
  explicit SmallPipeline(Device& device, std::int64_t page_bytes = std::int64_t{4} << 20)
      : staging_(PinnedPool::Create(&device, {.max_bytes = std::int64_t{1} << 20}).value()),
        pages_(PagePool::Create({.page_bytes = 16 << 10, .max_bytes = page_bytes}).value()),
        pipeline_(CompressionPipeline::Create(
                      &device, staging_.get(), pages_.get(),
                      {.ring = {.slots = 3, .slot_bytes = 32 << 10}, .threads = 2})
                      .value()) {}

  CompressionPipeline* get() { return pipeline_.get(); }
  std::int64_t used_pages() const { return pages_->Stats().used_pages; }

 private:
  const std::unique_ptr<PinnedPool> staging_;
  const std::unique_ptr<PagePool> pages_;
  const std::unique_ptr<CompressionPipeline> pipeline_;
};

struct PlacedRigOptions {
  HostDeviceOptions device = {.memory_bytes = std::int64_t{64} << 20};
  std::int64_t memory_bytes = std::int64_t{1} << 20;  // of the pool
  std::int64_t host_bytes = std::int64_t{1} << 40;
  bool one_transfer_at_a_time = false;
  bool compresses = false;  // copies with a density; otherwise all copies are raw
  std::int64_t page_bytes = std::int64_t{4} << 20;  // for compressed bytes
  std::shared_ptr<HostDevice> shared = nullptr;     // null: a device of its own
};

class PlacedRig {
 public:
  // `graph` outlives the rig.
  explicit PlacedRig(const TaskGraph& graph, const PlacedRigOptions& options = {})
      : graph_(graph),
        device_(options.shared != nullptr ? options.shared
                                          : HostDevice::Create(options.device).value()) {
    machine_.devices.front().memory_bytes = options.memory_bytes;
    machine_.host.memory_bytes = options.host_bytes;
    machine_.links.front().full_duplex = !options.one_transfer_at_a_time;
    if (options.compresses) {
      pipeline_ = std::make_unique<SmallPipeline>(*device_, options.page_bytes);
    }
  }

  // Returns the schedule with addresses.
  absl::StatusOr<Schedule> Place(Schedule schedule) const {
    for (ScheduleStep& step : schedule.steps) {
      if (pipeline_ == nullptr) step.density = -1;
    }
    absl::StatusOr<PlacedSchedule> placed = PlaceInPool(graph_, schedule, machine_);
    if (!placed.ok()) return placed.status();
    return std::move(placed->schedule);
  }
  std::int64_t PoolBytes(const Schedule& schedule) const {
    return PlaceInPool(graph_, schedule, machine_).value().pool_bytes;
  }
  // Makes an executor of the schedule of a pool.
  absl::Status Create(const Schedule& schedule, ExecutorOptions options = {}) {
    options.pipeline = pipeline_ == nullptr ? nullptr : pipeline_->get();
    const absl::StatusOr<Schedule> placed = Place(schedule);
    if (!placed.ok()) return placed.status();
    auto made = Executor::Create(
        {device_.get()}, {graph_}, *placed, machine_,
        [this](const TaskLaunch& launch) { return Launch(launch); },
        [this](const HomeFill& fill) { return Fill(fill); }, options);
    if (made.ok()) executor_ = *std::move(made);
    return made.status();
  }
  absl::Status Reschedule(const Schedule& schedule) {
    const absl::StatusOr<Schedule> placed = Place(schedule);
    return placed.ok() ? executor_->Reschedule(*placed) : placed.status();
  }
  // Returns the hashes of tasks of this number of iterations.
  absl::StatusOr<std::vector<std::uint64_t>> Run(int iterations) {
    std::vector<std::uint64_t> hashes;
    for (int i = 0; i < iterations; ++i) {
      hashes_.assign(graph_.tasks.size(), 0);
      const absl::StatusOr<Timeline> timeline = executor_->Run();
      if (!timeline.ok()) return timeline.status();
      timeline_ = *timeline;
      hashes.insert(hashes.end(), hashes_.begin(), hashes_.end());
    }
    return hashes;
  }

  // Makes the launch of the n-th task from now on fail; 0: no launch.
  void FailLaunch(std::size_t n) { failing_ = n; }
  void Destroy() { executor_.reset(); }
  Executor& executor() { return *executor_; }
  HostDevice& device() { return *device_; }
  SmallPipeline* pipeline() { return pipeline_.get(); }
  const Timeline& timeline() const { return timeline_; }  // of the last iteration that ended

 private:
  absl::Status Launch(const TaskLaunch& launch) {
    if (failing_ > 0 && --failing_ == 0) {
      return absl::InternalError("no launch, expected a kernel");
    }
    return device_->CallHost(launch.stream,
                             [this, launch] { hashes_[launch.task] = DoTask(graph_, launch); });
  }
  absl::Status Fill(const HomeFill& fill) {
    return device_->CallHost(fill.stream,
                             [fill] { WritePattern(fill.address, fill.bytes, 1000 + fill.data); });
  }

  const TaskGraph& graph_;
  Machine machine_;
  const std::shared_ptr<HostDevice> device_;
  std::unique_ptr<SmallPipeline> pipeline_;  // null: copies are raw
  std::vector<std::uint64_t> hashes_;
  Timeline timeline_;
  std::size_t failing_ = 0;
  std::unique_ptr<Executor> executor_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_EXECUTE_PLACED_RIG_H_
