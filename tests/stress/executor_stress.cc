// SPDX-License-Identifier: Apache-2.0
// The executor: random schedules of random graphs, iteration after iteration, alone and several on
// one device. The host may compress their copies. Calls of the device or launches fail. Then the
// iteration reports an error, and the next iteration is right.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/stress/device_faults.h"
#include "tests/stress/stress.h"
#include "tests/stress/watch.h"
#include "tests/training/execute/offload_everything.h"
#include "tests/training/execute/task_work.h"
#include "tests/training/graph/random_graph.h"
#include "tests/training/schedule/random_schedule.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/host_device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/timeline.h"

namespace tidepool::stress {
namespace {

using absl::StatusCode;
using testing::RandomGraphs;

constexpr int kMostIterations = 3;

TaskGraph SmallGraph(RandomGraphs& random, std::int64_t most_bytes) {
  TaskGraph graph = random.Valid(2 + random.Below(16));
  for (GraphData& data : graph.data) data.bytes = 1 + data.bytes % most_bytes;
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) {
      algorithm.workspace_bytes = std::min<std::int64_t>(algorithm.workspace_bytes, 5000);
    }
  }
  return graph;
}

Schedule AnySchedule(RandomGraphs& random, const TaskGraph& graph) {
  if (random.Chance(0.5)) return testing::RandomSchedules(graph, random).Valid();
  return testing::OffloadEverything(
             graph, {.drops_early = random.Chance(0.5), .density = random.Chance(0.5) ? 0.5 : -1.0})
      .Make();
}

// Returns a schedule of a pool with the memory of the machine, with addresses. An executor needs
// weights that come back to where they were.
PlacedSchedule AnyPlacedSchedule(RandomGraphs& random, const TaskGraph& graph,
                                 const Machine& machine, bool compresses) {
  for (;;) {
    Schedule schedule = AnySchedule(random, graph);
    schedule.fingerprint = GraphFingerprint(graph);
    for (ScheduleStep& step : schedule.steps) {
      if (!compresses) step.density = -1;
    }
    absl::StatusOr<PlacedSchedule> placed = PlaceInPool(graph, schedule, machine);
    CheckOk(placed.status(), "PlaceInPool");
    const std::int64_t memory[] = {machine.devices.front().memory_bytes};
    if (ValidateAddresses({&graph, 1}, placed->schedule, memory).ok()) return *std::move(placed);
  }
}

// A device, and memory for compressed bytes.
class ExecutorRig {
 public:
  explicit ExecutorRig(Round& round)
      : device_(HostDevice::Create({.memory_bytes = kDeviceBytes}).value()),
        faults_(*device_, round),
        compresses_(round.dice().Chance(0.5)),
        page_bytes_(round.dice().Chance(0.2) ? 64 << 10 : 4 << 20) {}

  HostDevice& device() { return *device_; }
  DeviceFaults& faults() { return faults_; }
  bool compresses() const { return compresses_; }
  std::int64_t page_bytes() const { return page_bytes_; }
  // Expects that all memory was given back. Memory that a device refuses to take back is lost.
  void End() {
    faults_.End();
    if (faults_.are_wanted()) return;
    Check(device_->used_bytes() == 0, "no executor is left, and ", device_->used_bytes(),
          " bytes of the device are in use");
  }

 private:
  static constexpr std::int64_t kDeviceBytes = std::int64_t{64} << 20;

  const std::unique_ptr<HostDevice> device_;
  DeviceFaults faults_;
  const bool compresses_;
  const std::int64_t page_bytes_;
};

// A pipeline of one executor.
struct Compression {
  Compression(ExecutorRig& rig, Worker& worker) {
    const auto get = [&](auto make, const char* what) {
      auto made = Again([&] {
        rig.faults().MaybeOrder(worker.dice());
        return make();
      });
      CheckOk(made.status(), what);
      return *std::move(made);
    };
    staging = get([&] { return PinnedPool::Create(&rig.device(), {.max_bytes = 1 << 20}); },
                  "PinnedPool::Create");
    pages = get(
        [&] { return PagePool::Create({.page_bytes = 16 << 10, .max_bytes = rig.page_bytes()}); },
        "PagePool::Create");
    pipeline = get(
        [&] {
          return CompressionPipeline::Create(
              &rig.device(), staging.get(), pages.get(),
              {.ring = {.slots = 2, .slot_bytes = 16 << 10}, .threads = 2});
        },
        "CompressionPipeline::Create");
  }

  std::unique_ptr<PinnedPool> staging;
  std::unique_ptr<PagePool> pages;
  std::unique_ptr<CompressionPipeline> pipeline;
};

// An executor, and the contents that its tasks have to find.
class Runner {
 public:
  Runner(Worker& worker, ExecutorRig& rig)
      : worker_(worker),
        rig_(rig),
        random_(worker.dice().Seed()),
        graph_(SmallGraph(random_, kMostBytes)),
        placed_(AnyPlacedSchedule(random_, graph_, machine_, rig.compresses())),
        expected_(PlainRun(graph_, placed_.schedule, kMostIterations)),
        found_(graph_.tasks.size()) {
    if (rig.compresses()) compression_ = std::make_unique<Compression>(rig, worker);
    Begin();
  }

  // Fills the weights again.
  void Begin() {
    worker_.Begins("Executor::Create");
    executor_ = nullptr;
    auto made = Again([&] {
      return Executor::Create(
          {&rig_.device()}, {graph_}, placed_.schedule, machine_,
          [this](const TaskLaunch& launch) { return Launch(launch); },
          [this](const HomeFill& fill) { return Fill(fill); },
          {.measures = worker_.dice().Chance(0.3),
           .pipeline = compression_ == nullptr ? nullptr : compression_->pipeline.get()});
    });
    CheckOk(made.status(), "Executor::Create");
    executor_ = *std::move(made);
    iterations_ = 0;
  }

  // Runs one iteration. Its results are right if it does not fail.
  absl::Status Run() {
    if (iterations_ == kMostIterations) Begin();
    worker_.Begins("Executor::Run");
    absl::Status status = executor_->Run().status();
    // ResourceExhausted: there are too few pages for the compressed bytes.
    worker_.Ended(status,
                  {StatusCode::kResourceExhausted, StatusCode::kAborted, rig_.faults().expected()});
    if (!status.ok()) {
      iterations_ = 0;
      return status;
    }
    const auto begin = expected_.begin() + static_cast<std::ptrdiff_t>(iterations_ * found_.size());
    ++worker_.counts().checks;
    Check(std::equal(found_.begin(), found_.end(), begin),
          "a task did not find what it should, in iteration ", iterations_, " of a schedule by ",
          placed_.schedule.policy);
    ++iterations_;
    return status;
  }

  // Lets the n-th launch from now on fail; 0: no launch.
  void FailLaunch(std::size_t n) { failing_launch_ = n; }
  // Orders faults with each launch.
  void SetStorm(bool storms) { storms_ = storms; }
  std::size_t tasks() const { return graph_.tasks.size(); }

 private:
  absl::Status Launch(const TaskLaunch& launch) {
    if (storms_) rig_.faults().MaybeOrder(worker_.dice());
    if (failing_launch_ > 0 && --failing_launch_ == 0) {
      return absl::AbortedError("no launch, expected a kernel");
    }
    return rig_.device().CallHost(launch.stream,
                                  [this, launch] { found_[launch.task] = DoTask(graph_, launch); });
  }
  absl::Status Fill(const HomeFill& fill) {
    return rig_.device().CallHost(
        fill.stream, [fill] { WritePattern(fill.address, fill.bytes, 1000 + fill.data); });
  }

  static constexpr std::int64_t kMostBytes = 60'000;

  Worker& worker_;
  ExecutorRig& rig_;
  RandomGraphs random_;
  const TaskGraph graph_;
  const Machine machine_ = {.devices = {{.memory_bytes = std::int64_t{4} << 20}}};
  const PlacedSchedule placed_;
  const std::vector<std::uint64_t> expected_;  // hashes of tasks, for one iteration after the other
  std::vector<std::uint64_t> found_;
  std::unique_ptr<Compression> compression_;  // null: copies are raw
  std::unique_ptr<Executor> executor_;
  int iterations_ = 0;  // since the weights were filled
  std::size_t failing_launch_ = 0;
  bool storms_ = false;
};

// One call of the device fails, chosen from all calls of an iteration.
void RunWithOneFault(Worker& worker, ExecutorRig& rig, Runner& runner) {
  Dice& dice = worker.dice();
  const Call call = static_cast<Call>(dice.Below(kCalls));
  const std::int64_t before = rig.device().CountCalls(call);
  if (!runner.Run().ok()) return;
  const std::int64_t calls = rig.device().CountCalls(call) - before;
  if (dice.Chance(0.5)) runner.Begin();
  rig.faults().Order(call, dice.Between(1, calls + 1));
  runner.Run().IgnoreError();
  if (dice.Chance(0.2)) runner.Begin();
  rig.faults().End();
}

// Runs as if the previous iteration had not run.
void RunAfterFaults(ExecutorRig& rig, Runner& runner) {
  const absl::Status status = runner.Run();
  const bool has_room = rig.page_bytes() > 1 << 20;
  Check(status.ok() || !has_room,
        "an iteration without faults failed after one with faults: ", status.ToString());
}

void RunAlone(Worker& worker, ExecutorRig& rig) {
  Dice& dice = worker.dice();
  Runner runner(worker, rig);
  rig.faults().End();  // of the construction
  RunAfterFaults(rig, runner);
  for (int i = Steps(10); i > 0; --i) {
    if (dice.Chance(0.2)) {
      runner.FailLaunch(dice.Below(runner.tasks()) + 1);
      runner.Run().IgnoreError();
      runner.FailLaunch(0);
    } else if (rig.faults().are_wanted()) {
      RunWithOneFault(worker, rig, runner);
    }
    RunAfterFaults(rig, runner);
  }
  if (!rig.faults().are_wanted()) return;
  runner.SetStorm(true);
  for (int i = Steps(5); i > 0; --i) runner.Run().IgnoreError();
  runner.SetStorm(false);
  rig.faults().End();
  RunAfterFaults(rig, runner);
}

void RunBesideOthers(Worker& worker, ExecutorRig& rig) {
  Runner runner(worker, rig);
  runner.SetStorm(true);
  for (int i = Steps(10); i > 0; --i) runner.Run().IgnoreError();
}

}  // namespace

void RunExecutorRound(Round& round) {
  ExecutorRig rig(round);
  const int executors = round.dice().Chance(0.7) ? 1 : static_cast<int>(round.dice().Between(2, 3));
  AddDescription(absl::StrCat(executors, " executors", rig.compresses() ? ", compressed" : "",
                              ", pages ", rig.page_bytes()));
  RunWorkers(round, executors, [&](Worker& worker) {
    if (executors == 1) {
      RunAlone(worker, rig);
    } else {
      RunBesideOthers(worker, rig);
    }
  });
  rig.End();
}

}  // namespace tidepool::stress
