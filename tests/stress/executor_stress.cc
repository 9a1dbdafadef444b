// SPDX-License-Identifier: Apache-2.0
// The executor: random schedules of random graphs, iteration after iteration, alone and several on
// one offloader. Calls of the device or launches fail. Then the iteration reports an error, all
// memory is given back, and the next iteration is right.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/stress/offloader_rig.h"
#include "tests/stress/stress.h"
#include "tests/training/execute/offload_everything.h"
#include "tests/training/execute/task_work.h"
#include "tests/training/graph/random_graph.h"
#include "tests/training/schedule/random_schedule.h"
#include "tidepool/training/executor.h"

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
  return testing::OffloadEverything(graph, {.drops_early = random.Chance(0.5),
                                            .density = random.Chance(0.5) ? 0.5 : -1.0,
                                            .moves_weights = random.Chance(0.5)})
      .Make();
}

// An executor, and the contents that its tasks have to find.
class Runner {
 public:
  Runner(Worker& worker, OffloaderRig& rig, std::int64_t most_bytes)
      : worker_(worker),
        rig_(rig),
        random_(worker.dice().Seed()),
        graph_(SmallGraph(random_, most_bytes)),
        schedule_(AnySchedule(random_, graph_)),
        expected_(PlainRun(graph_, schedule_, kMostIterations)),
        found_(graph_.tasks.size()) {
    Begin();
  }

  // Fills the weights again.
  void Begin() {
    worker_.Begins("Executor::Create");
    executor_ = nullptr;
    auto made = Again([&] {
      return Executor::Create(
          &rig_.device(), &rig_.offloader(), graph_, schedule_,
          [this](const TaskLaunch& launch) { return Launch(launch); },
          [this](std::size_t data, void* address, Stream stream) {
            return Fill(data, address, stream);
          },
          {.measures = worker_.dice().Chance(0.3)});
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
    // ResourceExhausted: the pool is too small, which the test cannot know beforehand.
    // FailedPrecondition: a copy failed, and another executor got its error.
    const bool is_sure = is_alone_ || !rig_.faults().are_wanted();
    worker_.Ended(status, {StatusCode::kResourceExhausted, StatusCode::kAborted,
                           is_sure ? StatusCode::kOk : StatusCode::kFailedPrecondition,
                           rig_.faults().expected()});
    if (!status.ok()) {
      iterations_ = 0;
      return status;
    }
    if (!is_sure) return status;
    const auto begin = expected_.begin() + static_cast<std::ptrdiff_t>(iterations_ * found_.size());
    ++worker_.counts().checks;
    Check(std::equal(found_.begin(), found_.end(), begin),
          "a task did not find what it should, in iteration ", iterations_, " of a schedule by ",
          schedule_.policy);
    ++iterations_;
    return status;
  }

  // Lets the n-th launch from now on fail; 0: no launch.
  void FailLaunch(std::size_t n) { failing_launch_ = n; }
  // Other executors of the same offloader may get the error of a copy that this one needed.
  void SetAlone(bool is_alone) { is_alone_ = is_alone; }
  // Orders faults with each launch.
  void SetStorm(bool storms) { storms_ = storms; }
  std::size_t tasks() const { return graph_.tasks.size(); }
  // The bytes of all data and workspaces together.
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const GraphData& data : graph_.data) sum += data.bytes + 512;
    return sum + 6000;
  }

 private:
  absl::Status Launch(const TaskLaunch& launch) {
    if (storms_) rig_.faults().MaybeOrder(worker_.dice());
    if (failing_launch_ > 0 && --failing_launch_ == 0) {
      return absl::AbortedError("no launch, expected a kernel");
    }
    return rig_.device().CallHost(launch.stream,
                                  [this, launch] { found_[launch.task] = DoTask(graph_, launch); });
  }
  absl::Status Fill(std::size_t data, void* address, Stream stream) {
    return rig_.device().CallHost(stream, [=, bytes = graph_.data[data].bytes] {
      WritePattern(address, bytes, 1000 + data);
    });
  }

  Worker& worker_;
  OffloaderRig& rig_;
  RandomGraphs random_;
  const TaskGraph graph_;
  const Schedule schedule_;
  const std::vector<std::uint64_t> expected_;  // hashes of tasks, for one iteration after the other
  std::vector<std::uint64_t> found_;
  std::unique_ptr<Executor> executor_;
  int iterations_ = 0;  // since the weights were filled
  std::size_t failing_launch_ = 0;
  bool storms_ = false;
  bool is_alone_ = true;
};

void CheckAllIsBack(OffloaderRig& rig) {
  const OffloaderStats stats = rig.offloader().Stats();
  Check(stats.buffers == 0 && stats.device_bytes == 0, "an iteration failed, and left are ",
        stats.buffers, " buffers, ", stats.device_bytes, " bytes on the device");
  const std::int64_t live = rig.pool().pool().Stats().live_bytes;
  Check(live == 0, "an iteration failed, and live in the pool are ", live, " bytes");
}

// One call of the device fails, chosen from all calls of an iteration.
void RunWithOneFault(Worker& worker, OffloaderRig& rig, Runner& runner) {
  Dice& dice = worker.dice();
  const Call call = static_cast<Call>(dice.Below(kCalls));
  const std::int64_t before = rig.device().CountCalls(call);
  if (!runner.Run().ok()) return CheckAllIsBack(rig);
  const std::int64_t calls = rig.device().CountCalls(call) - before;
  if (dice.Chance(0.5)) runner.Begin();
  rig.faults().Order(call, dice.Between(1, calls + 1));
  const absl::Status status = runner.Run();
  if (absl::IsUnavailable(status)) CheckAllIsBack(rig);
  if (dice.Chance(0.2)) runner.Begin();
  rig.faults().End();
}

// Resets the rig as if the previous iteration had not run.
void RunAfterFaults(OffloaderRig& rig, Runner& runner, bool has_room) {
  const absl::Status status = runner.Run();
  Check(status.ok() || !has_room,
        "an iteration without faults failed after one with faults: ", status.ToString());
  if (!status.ok()) CheckAllIsBack(rig);
}

void RunAlone(Worker& worker, OffloaderRig& rig, std::int64_t most_bytes) {
  Dice& dice = worker.dice();
  Runner runner(worker, rig, most_bytes);
  rig.faults().End();  // of the construction of the rig
  const bool has_room = !rig.pool().has_neighbours() && runner.bytes() * 4 < rig.pool().budget();
  RunAfterFaults(rig, runner, has_room);
  for (int i = Steps(10); i > 0; --i) {
    if (dice.Chance(0.2)) {
      runner.FailLaunch(dice.Below(runner.tasks()) + 1);
      if (!runner.Run().ok()) CheckAllIsBack(rig);
      runner.FailLaunch(0);
    } else if (rig.faults().are_wanted()) {
      RunWithOneFault(worker, rig, runner);
    }
    RunAfterFaults(rig, runner, has_room);
  }
  if (!rig.faults().are_wanted()) return;
  runner.SetStorm(true);
  for (int i = Steps(5); i > 0; --i) {
    if (!runner.Run().ok()) CheckAllIsBack(rig);
  }
  runner.SetStorm(false);
  rig.faults().End();
  RunAfterFaults(rig, runner, has_room);
}

void RunBesideOthers(Worker& worker, OffloaderRig& rig, std::int64_t most_bytes) {
  Runner runner(worker, rig, most_bytes);
  runner.SetAlone(false);
  runner.SetStorm(true);
  for (int i = Steps(10); i > 0; --i) runner.Run().IgnoreError();
}

}  // namespace

void RunExecutorRound(Round& round) {
  Dice& dice = round.dice();
  PoolOptions options = AnyPoolOptions(dice);
  options.max_bytes = dice.Between(2, 16) * (64 << 10);
  options.initial_bytes = dice.Chance(0.5) ? 0 : options.max_bytes / 2;
  OffloaderRig rig(round, options);
  const int executors = dice.Chance(0.7) ? 1 : static_cast<int>(dice.Between(2, 3));
  const std::int64_t most_bytes = rig.pool().budget() / (dice.Chance(0.5) ? 12 : 100);
  RunWorkers(round, executors, [&](Worker& worker) {
    if (executors == 1) {
      RunAlone(worker, rig, most_bytes);
    } else {
      RunBesideOthers(worker, rig, most_bytes);
    }
  });
  CheckAllIsBack(rig);
  rig.End();
}

}  // namespace tidepool::stress
