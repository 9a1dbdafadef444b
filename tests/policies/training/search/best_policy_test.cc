// SPDX-License-Identifier: Apache-2.0
// The policy `best` on graphs: schedules are valid, keep to the memory, and are no slower than
// those of other policies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/check_times/check_times.h"
#include "tests/support/expect_valid.h"
#include "tests/support/rounds.h"
#include "tests/support/sizes.h"
#include "tests/training/chain/micro_batch_graphs.h"
#include "tests/training/schedule/random_device_schedule.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Returns a request for a search that ends by its work, on machines of any speed.
ScheduleRequest RequestWith(std::int64_t memory_bytes, bool recomputes, double work = 0.2) {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = memory_bytes;
  request.options =
      BestOptions{.time_limit_seconds = 1000, .work_seconds = work, .recomputes = recomputes};
  return request;
}

// Returns the memory of the device that holds everything.
std::int64_t PeakOf(const TaskGraph& graph) {
  const MadeSchedule made =
      MakeSchedule("best", graph, RequestWith(std::int64_t{1} << 50, false)).value();
  return Simulate(made).value().peak_device_bytes;
}

TEST(BestPolicy, TakesNoLongerThanTheTasksWhereAllFits) {
  for (const char* name : {"resnet-18", "u-net", "gpt2-small"}) {
    const TaskGraph graph = MakeModel(name, {.batch = 2, .inputs = DataHome::kDevice}).value();
    const MadeSchedule made =
        MakeSchedule("best", graph, RequestWith(std::int64_t{1} << 50, true)).value();
    ExpectValid(made);
    const Timeline timeline = Simulate(made).value();
    EXPECT_NEAR(timeline.seconds, made.ideal_seconds, made.ideal_seconds * 1e-9) << name;
    EXPECT_EQ(timeline.bytes_out, 0) << name;
  }
}

// The gradients of the iteration before give room to activations, and no copy is needed.
TEST(BestPolicy, GradientsTakeNoMemoryBeforeTheyAreWritten) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 8, .inputs = DataHome::kDevice}).value();
  std::int64_t gradients = 0;
  for (const GraphData& data : graph.data) {
    if (data.kind == DataKind::kWeightGradient) gradients += data.bytes;
  }
  ScheduleRequest request = RequestWith(PeakOf(graph) - gradients / 8, false);
  request.memory = ScheduleMemory::kPaged;
  const MadeSchedule made = MakeSchedule("best", graph, request).value();
  ExpectValid(made);
  const Timeline timeline = Simulate(made).value();
  EXPECT_NEAR(timeline.seconds, made.ideal_seconds, made.ideal_seconds * 1e-9);
  EXPECT_EQ(timeline.bytes_out, 0);
  EXPECT_LE(timeline.peak_device_bytes, made.machine.devices.front().memory_bytes);
}

TEST(BestPolicy, SendsWeightsInAMemoryTooSmallForThemAll) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 1, .inputs = DataHome::kDevice}).value();
  std::int64_t resident = 0;
  for (const GraphData& data : graph.data) {
    if (data.before == DataHome::kDevice) resident += data.bytes;
  }
  ScheduleRequest request = RequestWith(resident + kMiB, false);
  request.memory = ScheduleMemory::kPaged;
  const MadeSchedule made = MakeSchedule("best", graph, request).value();
  ExpectValid(made);
  EXPECT_TRUE(std::any_of(
      made.schedule.steps.begin(), made.schedule.steps.end(), [&](const ScheduleStep& step) {
        return step.kind == StepKind::kOffload && ExistsAfter(graph.data[step.index]);
      }));
}

// Copies would take no time beside the tasks. Tasks that run again do.
TEST(BestPolicy, RecomputesAloneWhereNothingMayLeave) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 256, .gpu = "l4"}).value();
  ScheduleRequest request = RequestWith(PeakOf(graph) / 10 * 8, true, 0.1);
  MachineLink& link = request.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second = 150e9;
  for (const ScheduleMemory memory : {ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
    request.memory = memory;
    BestOptions& options = std::get<BestOptions>(request.options);
    options.offloads = true;
    options.known.clear();
    const MadeSchedule sends = MakeSchedule("best", graph, request).value();
    EXPECT_GT(Simulate(sends)->bytes_out, 0);
    options.offloads = false;
    options.known = {sends.schedule};
    const MadeSchedule made = MakeSchedule("best", graph, request).value();
    ExpectValid(made);
    EXPECT_EQ(Simulate(made)->bytes_out, 0);
    EXPECT_GT(Simulate(made)->seconds, Simulate(sends)->seconds * 1.01);
  }
}

TEST(BestPolicy, SaysThatNothingMayLeave) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 8}).value();
  ScheduleRequest request = RequestWith(PeakOf(graph) / 10 * 9, false);
  std::get<BestOptions>(request.options).offloads = false;
  EXPECT_THAT(std::string(MakeSchedule("best", graph, request).status().message()),
              HasSubstr(" without data that leaves for the host; the largest task"));
}

GraphTask TaskOf(TaskPhase phase, double seconds, std::vector<std::size_t> reads,
                 std::vector<std::size_t> writes) {
  GraphTask task = {.name = "task", .phase = phase, .algorithms = {{"only", seconds, 0}}};
  task.reads = std::move(reads);
  task.writes = std::move(writes);
  task.may_rerun = phase == TaskPhase::kForward;
  return task;
}

// Three layers forward and backward, with data of some hundred units.
TaskGraph ChainOf(std::int64_t unit) {
  TaskGraph graph;
  graph.name = "chain";
  graph.batch = 1;
  enum : std::size_t { kInput, kWeight, kOne, kTwo, kThree, kSlope3, kSlope2, kSlope1, kStep };
  graph.data = {
      {"input", 2 * unit, DataKind::kInput},     {"weight", unit, DataKind::kWeight},
      {"one", 4 * unit, DataKind::kActivation},  {"two", 4 * unit, DataKind::kActivation},
      {"three", unit, DataKind::kActivation},    {"slope3", unit, DataKind::kGradient},
      {"slope2", 4 * unit, DataKind::kGradient}, {"slope1", 4 * unit, DataKind::kGradient},
      {"step", unit, DataKind::kWeightGradient}};
  graph.data[kInput].before = DataHome::kHost;
  graph.data[kWeight].before = graph.data[kWeight].after = DataHome::kDevice;
  graph.data[kStep].before = graph.data[kStep].after = DataHome::kDevice;
  graph.tasks = {TaskOf(TaskPhase::kForward, 1, {kInput, kWeight}, {kOne}),
                 TaskOf(TaskPhase::kForward, 2, {kOne}, {kTwo}),
                 TaskOf(TaskPhase::kForward, 3, {kTwo}, {kThree}),
                 TaskOf(TaskPhase::kBackward, 1, {kThree}, {kSlope3}),
                 TaskOf(TaskPhase::kBackward, 3, {kSlope3, kTwo}, {kSlope2}),
                 TaskOf(TaskPhase::kBackward, 2, {kSlope2, kOne}, {kSlope1}),
                 TaskOf(TaskPhase::kBackward, 1, {kSlope1, kInput}, {kStep}),
                 TaskOf(TaskPhase::kUpdate, 1, {kStep}, {})};
  graph.tasks.back().updates = {kWeight};
  return graph;
}

// Kilobytes over a slow link are as megabytes over a fast one.
TEST(BestPolicy, SizesDoNotMatterInThemselves) {
  constexpr std::int64_t kUnits = 14;
  const auto seconds = [](std::int64_t unit, ScheduleMemory memory) {
    ScheduleRequest request = RequestWith(kUnits * unit, true, 2);
    MachineLink& link = request.machine.links.front();
    link.out_bytes_per_second = link.in_bytes_per_second = static_cast<double>(unit) * 1.953125;
    request.memory = memory;
    const MadeSchedule made = MakeSchedule("best", ChainOf(unit), request).value();
    ExpectValid(made);
    EXPECT_TRUE(made.proved);
    return Simulate(made)->seconds;
  };
  for (const ScheduleMemory memory : {ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
    const double large = seconds(kMiB, memory);
    EXPECT_NEAR(seconds(512, memory), large, large * 1e-9);
  }
}

// The memory is full to the byte, and the input comes back at another address, in that of a
// workspace.
TEST(BestPolicy, DataComesBackAtAnotherAddress) {
  TaskGraph graph;
  graph.name = "full";
  graph.batch = 1;
  graph.data = {
      {"input", 4 * kMiB, DataKind::kInput},     {"one", 4 * kMiB, DataKind::kActivation},
      {"two", kMiB, DataKind::kActivation},      {"slope2", kMiB, DataKind::kGradient},
      {"slope1", 4 * kMiB, DataKind::kGradient}, {"step", kMiB, DataKind::kWeightGradient}};
  graph.data[0].before = DataHome::kDevice;
  graph.tasks = {TaskOf(TaskPhase::kForward, 1, {0}, {1}), TaskOf(TaskPhase::kForward, 1, {1}, {2}),
                 TaskOf(TaskPhase::kBackward, 1, {2}, {3}),
                 TaskOf(TaskPhase::kBackward, 1, {3, 1}, {4}),
                 TaskOf(TaskPhase::kBackward, 0, {4, 0}, {5})};
  graph.tasks[2].algorithms.front().workspace_bytes = 6 * kMiB;
  ScheduleRequest request = RequestWith(13 * kMiB, false, 2);
  MachineLink& link = request.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second = 0.1 * static_cast<double>(kMiB);
  request.memory = ScheduleMemory::kFixed;
  const MadeSchedule made = MakeSchedule("best", graph, request).value();
  ExpectValid(made);
  EXPECT_NEAR(Simulate(made)->seconds, 81, 1e-9);  // of a search through all schedules
}

// The result of a softmax costs the time of the scores too, which nothing keeps. No schedule takes
// less than 1.0648 times the ideal (bench/papers/rerun_bound.py).
TEST(BestPolicy, RunsTheTasksWithTheCheapestBytesAgain) {
  const TaskGraph graph =
      MakeModel("gpt2-medium", {.batch = 8, .gpu = "h100", .fused_attention = false}).value();
  ScheduleRequest request = RequestWith(std::int64_t{20} << 30, true);
  MachineLink& link = request.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second = 12e9;
  request.memory = ScheduleMemory::kPaged;
  request.options = BestOptions{.time_limit_seconds = 1000, .work_seconds = 2};
  const MadeSchedule made = MakeSchedule("best", graph, request).value();
  const double slowdown = Simulate(made).value().seconds / made.ideal_seconds;
  EXPECT_GE(slowdown, 1.0647);
  EXPECT_LE(slowdown, 1.068);
}

TEST(BestPolicy, SchedulesAreValidInAnyMemory) {
  int fits = 0;
  for (const char* name : testing::Cases({"resnet-18", "alexnet", "u-net"})) {
    const TaskGraph graph = MakeModel(name, {.batch = 2}).value();
    const std::int64_t peak = PeakOf(graph);
    for (const bool recomputes : {false, true}) {
      for (const double share : {0.6, 0.9}) {
        SCOPED_TRACE(::testing::Message() << name << " " << share << " " << recomputes);
        const ScheduleRequest request =
            RequestWith(static_cast<std::int64_t>(static_cast<double>(peak) * share), recomputes);
        const absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
        if (absl::IsResourceExhausted(made.status())) continue;
        ASSERT_TRUE(made.ok()) << made.status();
        ++fits;
        ExpectValid(*made);
        const Timeline timeline = Simulate(*made).value();
        EXPECT_LE(timeline.peak_device_bytes, request.machine.devices.front().memory_bytes);
        EXPECT_GE(timeline.seconds, made->lower_bound_seconds * (1 - 1e-9));
      }
    }
  }
  EXPECT_GT(fits, testing::Rounds(5));
}

struct Network {
  const char* name;
  std::int64_t batch;
  std::int64_t image = 0;
};

// Expects that `best` takes no longer than any policy with its default options, on its own memory.
void ExpectNoneIsFaster(const TaskGraph& graph, const ScheduleRequest& request, int& compared) {
  const absl::StatusOr<MadeSchedule> best = MakeSchedule("best", graph, request);
  const double seconds = best.ok() ? Simulate(*best)->seconds : 0;
  ScheduleRequest asked = request;
  asked.options = std::monostate();
  for (const OffloadPolicyInfo& info : OffloadPolicies()) {
    const std::string& policy = info.name;
    if (policy == "best") continue;
    asked.memory = info.has_rounds ? request.memory : std::nullopt;
    const absl::StatusOr<MadeSchedule> other = MakeSchedule(policy, graph, asked);
    if (!other.ok()) continue;
    const absl::StatusOr<Timeline> timeline = Simulate(*other);
    if (!timeline.ok()) continue;
    ++compared;
    ASSERT_TRUE(best.ok()) << policy << " fits: " << best.status();
    EXPECT_LE(seconds, timeline->seconds * (1 + 1e-9)) << policy;
  }
}

// Searches of any length find schedules at least as good as those of all policies that they make.
TEST(BestPolicy, IsNoSlowerThanAnyOtherPolicy) {
  int compared = 0;
  int limits = 0;
  for (const Network& network :
       testing::Cases({Network{"resnet-18", 8}, Network{"alexnet", 16}, Network{"u-net", 1, 188},
                       Network{"gpt2-small", 1, 128}, Network{"densenet-121", 1}})) {
    const TaskGraph graph =
        MakeModel(network.name, {.batch = network.batch, .image = network.image, .gpu = "v100"})
            .value();
    const std::int64_t peak = PeakOf(graph);
    for (const double share : {0.7, 1.2}) {
      SCOPED_TRACE(::testing::Message() << network.name << " " << share);
      ScheduleRequest request =
          RequestWith(static_cast<std::int64_t>(static_cast<double>(peak) * share), true, 0.02);
      request.memory = ScheduleMemory::kPaged;  // plans of addresses depend on the clock
      request.machine.links.front().full_duplex = ++limits % 2 == 0;
      ExpectNoneIsFaster(graph, request, compared);
    }
  }
  EXPECT_GT(compared, testing::Rounds(40));
}

TEST(BestPolicy, IsNoSlowerThanOthersWhereWeightsAreAtHomeOnTheHost) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 4, .weights = DataHome::kHost}).value();
  int compared = 0;
  for (const auto memory : {ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
    for (const std::int64_t mib : {310, 400, 1024}) {
      SCOPED_TRACE(::testing::Message() << mib << " MiB");
      ScheduleRequest request = RequestWith(mib * kMiB, true, 0.02);
      request.memory = memory;
      ExpectNoneIsFaster(graph, request, compared);
    }
  }
  EXPECT_GE(compared, 6);
  EXPECT_TRUE(
      absl::IsResourceExhausted(MakeSchedule("best", graph, RequestWith(kMiB, true)).status()));
}

// All of it must come and go, which takes longer than the tasks.
TEST(BestPolicy, StreamsWeightsFromTheHostWithinTheBound) {
  const TaskGraph graph =
      MakeModel("gpt2-small", {.batch = 1, .image = 128, .gpu = "v100", .weights = DataHome::kHost})
          .value();
  for (const auto memory : {ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
    ScheduleRequest request = RequestWith(std::int64_t{1} << 30, false);
    request.memory = memory;
    request.machine.links.front().full_duplex = true;
    const MadeSchedule made = MakeSchedule("best", graph, request).value();
    ExpectValid(made);
    EXPECT_LE(Simulate(made)->seconds, made.lower_bound_seconds * 1.02);
  }
}

TEST(BestPolicy, CopiesPartsWhereThatIsFaster) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 8, .gpu = "v100"}).value();
  const auto memory = static_cast<std::int64_t>(static_cast<double>(PeakOf(graph)) * 0.62);
  ScheduleRequest request = RequestWith(memory, false, 0.5);
  request.memory = ScheduleMemory::kPaged;
  const MadeSchedule whole = MakeSchedule("best", graph, request).value();
  std::get<BestOptions>(request.options).part_bytes = kMiB;
  const MadeSchedule parts = MakeSchedule("best", graph, request).value();
  ExpectValid(parts);
  EXPECT_TRUE(std::any_of(parts.schedule.steps.begin(), parts.schedule.steps.end(),
                          [](const ScheduleStep& step) { return step.end >= 0; }));
  EXPECT_LT(Simulate(parts)->seconds, Simulate(whole)->seconds);
}

TEST(BestPolicy, RunsTasksAgainWhereTheLinkIsSlow) {
  const TaskGraph graph =
      MakeModel("gpt2-small", {.batch = 2, .image = 256, .fused_attention = false}).value();
  const auto memory = static_cast<std::int64_t>(static_cast<double>(PeakOf(graph)) * 0.7);
  const auto make = [&](bool recomputes) {
    ScheduleRequest request = RequestWith(memory, recomputes);
    request.memory = ScheduleMemory::kPaged;
    return MakeSchedule("best", graph, request).value();
  };
  const MadeSchedule sent = make(false);
  const MadeSchedule made = make(true);
  ExpectValid(made);
  EXPECT_LT(Simulate(made)->seconds, Simulate(sent)->seconds);
  EXPECT_LT(Simulate(made)->seconds, 1.35 * made.ideal_seconds);
}

// Reruns of one micro-batch leave the peaks of the others as they are.
TEST(BestPolicy, RunsTasksAgainInEachMicroBatch) {
  const TaskGraph graph = testing::WithMicroBatches(
      MakeModel("gpt2-medium", {.batch = 8, .image = 256, .inputs = DataHome::kDevice}).value(), 3);
  const auto memory = static_cast<std::int64_t>(static_cast<double>(PeakOf(graph)) * 0.75);
  for (const auto kind : {ScheduleMemory::kPaged, ScheduleMemory::kFixed}) {
    ScheduleRequest request = RequestWith(memory, true, 0.5);
    std::get<BestOptions>(request.options).offloads = false;
    request.memory = kind;
    const absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
    ASSERT_TRUE(made.ok()) << made.status();
    ExpectValid(*made);
    EXPECT_LT(Simulate(*made)->seconds, 1.3 * made->ideal_seconds);
    EXPECT_EQ(Simulate(*made)->bytes_out, 0);
    EXPECT_EQ(made->schedule.policy, "best");  // not that of a policy of chains
  }
}

TaskAlgorithm OnlyAlgorithm(double seconds, std::int64_t workspace_bytes = 0) {
  return {.name = "only", .seconds = seconds, .workspace_bytes = workspace_bytes};
}

// Returns a graph with a task that has no room for all weights. It reads the result of a cheap
// task, for which tasks that read the weights have no room.
TaskGraph WithLargeWeights() {
  enum : std::size_t { kInput, kWeight, kCheap, kSmall, kScore, kWeightGradient, kGradient };
  const auto data = [](const char* name, std::int64_t mib, DataKind kind) {
    return GraphData{.name = name,
                     .bytes = mib * kMiB,
                     .kind = kind,
                     .before = HomeBefore(kind),
                     .after = HomeAfter(kind)};
  };
  TaskGraph graph;
  graph.data = {
      data("input", 1, DataKind::kInput),        data("weight", 100, DataKind::kWeight),
      data("cheap", 100, DataKind::kActivation), data("small", 1, DataKind::kActivation),
      data("score", 1, DataKind::kActivation),   data("weight.gradient", 1, DataKind::kActivation),
      data("gradient", 1, DataKind::kActivation)};
  graph.tasks = {{.name = "cheap.forward",
                  .reads = {kInput},
                  .writes = {kCheap},
                  .algorithms = {OnlyAlgorithm(1e-3)},
                  .may_rerun = true},
                 {.name = "small.forward",
                  .reads = {kCheap},
                  .writes = {kSmall},
                  .algorithms = {OnlyAlgorithm(1e-2)}},
                 {.name = "score.forward",
                  .reads = {kSmall, kWeight},
                  .writes = {kScore},
                  .algorithms = {OnlyAlgorithm(1e-2, 200 * kMiB)}},
                 {.name = "score.backward",
                  .phase = TaskPhase::kBackward,
                  .reads = {kScore, kWeight},
                  .writes = {kWeightGradient},
                  .algorithms = {OnlyAlgorithm(1e-2, 200 * kMiB)}},
                 {.name = "small.backward",
                  .phase = TaskPhase::kBackward,
                  .reads = {kCheap, kScore},
                  .writes = {kGradient},
                  .algorithms = {OnlyAlgorithm(1e-2, 200 * kMiB)}},
                 {.name = "update",
                  .phase = TaskPhase::kUpdate,
                  .reads = {kWeightGradient, kGradient},
                  .updates = {kWeight},
                  .algorithms = {OnlyAlgorithm(1e-3)}}};
  return graph;
}

TEST(BestPolicy, RunsTasksAgainWhereWeightsMustLeave) {
  const TaskGraph graph = WithLargeWeights();
  const auto make = [&](bool recomputes) {
    ScheduleRequest request = RequestWith(320 * kMiB, recomputes);
    request.memory = ScheduleMemory::kPaged;
    return MakeSchedule("best", graph, request).value();
  };
  const MadeSchedule sent = make(false);
  const MadeSchedule made = make(true);
  ExpectValid(made);
  const double gained = 100.0 * kMiB / made.machine.links.front().out_bytes_per_second;
  EXPECT_LT(Simulate(made)->seconds, Simulate(sent)->seconds - gained / 2);
}

TEST(BestPolicy, GivesTheSameScheduleForASeed) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 4}).value();
  const auto memory = static_cast<std::int64_t>(static_cast<double>(PeakOf(graph)) * 0.8);
  const MadeSchedule first = MakeSchedule("best", graph, RequestWith(memory, true, 1)).value();
  const MadeSchedule second = MakeSchedule("best", graph, RequestWith(memory, true, 1)).value();
  EXPECT_EQ(first.schedule, second.schedule);
}

// Without a search, the eager set of data leaves.
TEST(BestPolicy, GivesTheBestSoFarAtAStop) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 4}).value();
  const auto memory = static_cast<std::int64_t>(static_cast<double>(PeakOf(graph)) * 0.8);
  ScheduleRequest request = RequestWith(memory, true);
  const MadeSchedule whole = MakeSchedule("best", graph, request).value();
  EXPECT_NE(whole.ended_by, EndedBy::kInterrupt);
  std::stop_source source;
  source.request_stop();
  std::get<BestOptions>(request.options).stop = source.get_token();
  const MadeSchedule stopped = MakeSchedule("best", graph, request).value();
  EXPECT_EQ(stopped.ended_by, EndedBy::kInterrupt);
  ExpectValid(stopped);
  EXPECT_LT(Simulate(whole)->seconds, Simulate(stopped)->seconds);
  request.machine.devices.front().memory_bytes = kMiB;
  EXPECT_TRUE(absl::IsCancelled(MakeSchedule("best", graph, request).status()));
}

std::int64_t BytesAtHomeOf(const TaskGraph& graph) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) {
    if (data.before == DataHome::kDevice) bytes += data.bytes;
  }
  return bytes;
}

TEST(BestPolicy, TellsWhatEndedTheSearch) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 4}).value();
  const auto end_of = [&](double share, double work_seconds, double time_limit_seconds) {
    const auto memory = static_cast<std::int64_t>(static_cast<double>(PeakOf(graph)) * share);
    ScheduleRequest request = RequestWith(memory, true);
    auto& options = std::get<BestOptions>(request.options);
    options.work_seconds = work_seconds;
    options.time_limit_seconds = time_limit_seconds;
    return MakeSchedule("best", graph, request).value().ended_by;
  };
  EXPECT_EQ(end_of(1.1, 0.01, 1e6), EndedBy::kProof);
  EXPECT_EQ(end_of(0.8, 0.01, 1e6), EndedBy::kWork);
  EXPECT_EQ(end_of(0.8, 1e6, 1e-3), EndedBy::kClock);
  EXPECT_EQ(EndedByName(EndedBy::kWork), "work");
}

// No search finds room for data that is at home on the device, so a longer one would not either.
TEST(BestPolicy, TellsThatTheTimeLimitEndedARefusedSearch) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 4}).value();
  const auto refusal_in = [&](std::int64_t memory, double time_limit_seconds) {
    ScheduleRequest request = RequestWith(memory, true);
    auto& options = std::get<BestOptions>(request.options);
    options.work_seconds = 1e-3;
    options.time_limit_seconds = time_limit_seconds;
    return MakeSchedule("best", graph, request).status();
  };
  const std::int64_t least = BytesAtHomeOf(graph);
  const absl::Status late = refusal_in(least + kMiB, 1e-9);
  EXPECT_THAT(std::string(late.message()), HasSubstr("the time limit ended the search"));
  EXPECT_EQ(EndedByOf(late), EndedBy::kClock);
  EXPECT_EQ(EndedByOf(refusal_in(least + kMiB, 1e6)), EndedBy::kWork);
  EXPECT_EQ(EndedByOf(refusal_in(least / 2, 1e-9)), EndedBy::kWork);
}

TEST(BestPolicy, RefusesWrongRequests) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 4}).value();
  const absl::Status small = MakeSchedule("best", graph, RequestWith(kMiB, true)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(small));
  EXPECT_THAT(std::string(small.message()), HasSubstr("the memory of 1.0 MiB"));
  for (const double limit : {0.0, -1.0, std::nan("")}) {
    ScheduleRequest request = RequestWith(1024 * kMiB, true);
    request.options = BestOptions{.time_limit_seconds = limit};
    EXPECT_TRUE(absl::IsInvalidArgument(MakeSchedule("best", graph, request).status()));
  }
  ScheduleRequest in_parts = RequestWith(1024 * kMiB, true);
  in_parts.options = BestOptions{.part_bytes = -1};
  EXPECT_TRUE(absl::IsInvalidArgument(MakeSchedule("best", graph, in_parts).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeSchedule("best", graph, RequestWith(1024 * kMiB, true, -1)).status()));
  ScheduleRequest request = RequestWith(1024 * kMiB, true);
  request.options = LayerwiseOptions();
  EXPECT_TRUE(absl::IsInvalidArgument(MakeSchedule("best", graph, request).status()));
}

TEST(BestPolicy, NeverTakesLongerWithMoreMemory) {
  constexpr int kStepPercent = 20;
  for (const char* name : testing::Cases({"resnet-18", "u-net", "gpt2-small"})) {
    const TaskGraph graph = MakeModel(name, {.batch = 4, .inputs = DataHome::kDevice}).value();
    const std::int64_t peak = PeakOf(graph);
    double first = 0;
    double last = std::numeric_limits<double>::infinity();
    for (int percent = 60; percent <= 100; percent += kStepPercent) {
      ScheduleRequest request = RequestWith(peak / 100 * percent, true, 0.1);
      request.memory = ScheduleMemory::kPaged;  // plans of addresses depend on the clock
      const auto made = MakeSchedule("best", graph, request);
      if (absl::IsResourceExhausted(made.status()) && std::isinf(last)) continue;
      ASSERT_TRUE(made.ok()) << made.status();
      const double seconds = Simulate(*made)->seconds;
      EXPECT_LE(seconds, last * (1 + 1e-9)) << name << " " << percent << " %";
      last = seconds;
      if (first == 0) first = seconds;
    }
    EXPECT_GT(first, last * 1.01) << name;
  }
}

// In less memory weights must leave beside a task that runs again, or a task has a faster algorithm
// than it has room for in more memory: searches in more memory looked at neither.
TEST(BestPolicy, TakesNoLongerInMoreMemoryWhereTasksRunAgainAndAlgorithmsDiffer) {
  struct Step {
    const char* name;
    std::int64_t less_mib;
    std::int64_t more_mib;
  };
  for (const Step& step :
       testing::Cases({Step{"resnet-18", 375, 400}, {"resnet-50", 1500, 1700}})) {
    const TaskGraph graph = MakeModel(step.name, {.batch = 32, .gpu = "v100"}).value();
    const auto seconds_in = [&](std::int64_t mib) {
      ScheduleRequest request = RequestWith(mib * kMiB, true, 0.5);
      request.memory = ScheduleMemory::kPaged;
      return Simulate(MakeSchedule("best", graph, request).value())->seconds;
    };
    EXPECT_LE(seconds_in(step.more_mib), seconds_in(step.less_mib)) << step.name;
  }
}

// Any schedule with addresses is one in pages too.
TEST(BestPolicy, PagesAreNoSlowerThanKnownAddresses) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 8, .gpu = "v100"}).value();
  const std::int64_t peak = PeakOf(graph);
  int fitting = 0;
  for (const std::int64_t percent : {60, 80}) {
    ScheduleRequest request = RequestWith(peak / 100 * percent, percent > 70, 0.05);
    const absl::StatusOr<MadeSchedule> fixed = MakeSchedule("best", graph, request);
    if (!fixed.ok()) continue;
    request.memory = ScheduleMemory::kPaged;
    std::get<BestOptions>(request.options).known = {fixed->schedule};
    const MadeSchedule paged = MakeSchedule("best", graph, request).value();
    ExpectValid(paged);
    ++fitting;
    EXPECT_LE(Simulate(paged)->seconds, Simulate(*fixed)->seconds * (1 + 1e-9)) << percent;
  }
  EXPECT_GT(fitting, 0);
}

// Four tensors of 98 MiB fill the memory of ResNet-50 but for 2 MiB, so that a plan of addresses
// needs data to leave for a few tasks only.
// A plan of addresses takes work that a search in pages has left for a better iteration.
TEST(BestPolicy, PagesAreNoSlowerThanAddresses) {
  constexpr double kWork = 2.0 / 3;
  const TaskGraph graph = MakeModel("vgg-19", {.batch = 128, .gpu = "a100"}).value();
  ScheduleRequest request = RequestWith(PeakOf(graph) / 100 * 70, true, kWork);
  MachineLink& link = request.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second = 24e9;
  const double seconds = Simulate(MakeSchedule("best", graph, request).value())->seconds;
  request.memory = ScheduleMemory::kPaged;
  const double paged_seconds = Simulate(MakeSchedule("best", graph, request).value())->seconds;
  EXPECT_LE(paged_seconds, seconds * (1 + 1e-9));
}

TEST(BestPolicy, FindsAddressesWhereTheLargestTaskFillsTheMemory) {
  const TaskGraph graph = MakeModel("resnet-50", {.batch = 32, .gpu = "v100"}).value();
  const MadeSchedule made =
      MakeSchedule("best", graph, RequestWith(395 * kMiB, false, 0.05)).value();
  ExpectValid(made);
}

// Tensors of up to a sixth of the memory lie among a thousand others. Addresses for nearly the
// times in pages exist. With searches of the planner that are too short, the schedule takes 1.4
// times the ideal.
TEST(BestPolicy, FindsAddressesOfLargeTensorsAmongManyOthers) {
  const TaskGraph graph = MakeModel("inception-v3", {.batch = 128, .gpu = "a100"}).value();
  ScheduleRequest request = RequestWith(4083 * kMiB, true, 2);
  MachineLink& link = request.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second = 24e9;
  const MadeSchedule made = MakeSchedule("best", graph, request).value();
  ExpectValid(made);
  EXPECT_LT(Simulate(made)->seconds, 1.32 * made.ideal_seconds);
}

TEST(BestPolicy, TellsWhatDoesNotFit) {
  const auto message = [](const TaskGraph& graph, std::int64_t memory_bytes) {
    const absl::Status status =
        MakeSchedule("best", graph, RequestWith(memory_bytes, false, 0.02)).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    return std::string(status.message());
  };
  const TaskGraph small = MakeModel("resnet-50", {.batch = 4, .gpu = "v100"}).value();
  EXPECT_THAT(message(small, 128 * kMiB),
              HasSubstr("data at home on the device, such as weights, takes"));
  const TaskGraph large = MakeModel("resnet-34", {.batch = 32, .gpu = "v100"}).value();
  EXPECT_THAT(message(large, 290 * kMiB),
              AllOf(HasSubstr("no schedule was found"),
                    HasSubstr("the largest task, 'bn1.backward', uses 294.0 MiB")));
}

TEST(BestPolicy, TellsThatTheHostHasNoRoom) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 32, .gpu = "v100"}).value();
  ScheduleRequest request = RequestWith(350 * kMiB, false, 0.02);
  request.machine.host.memory_bytes = 40 * kMiB;
  for (const auto memory : {ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
    request.memory = memory;
    const absl::Status status = MakeSchedule("best", graph, request).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("no schedule was found that keeps to the memory of 350.0 MiB (367001600 "
                          "bytes) and to the host's memory of 40.0 MiB (41943040 bytes)"));
  }
}

// Eight data of 5 MiB at every moment. No offsets keep to that: all were tried.
TaskGraph GraphWithoutPlan() {
  struct Life {
    std::size_t first, last;  // pairs of tasks: the first writes, and both change
    std::int64_t mib;
  };
  constexpr Life kLives[] = {{0, 1, 2}, {0, 2, 3}, {2, 3, 1}, {2, 4, 1},
                             {3, 3, 1}, {3, 4, 2}, {4, 5, 2}, {5, 5, 3}};
  TaskGraph graph;
  for (std::size_t task = 0; task < 12; ++task) {
    graph.tasks.push_back(
        {.name = absl::StrCat("task", task), .algorithms = {{.name = "only", .seconds = 0.01}}});
  }
  for (const Life& life : kLives) {
    const std::size_t data = graph.data.size();
    graph.data.push_back({.name = absl::StrCat("data", data), .bytes = life.mib * kMiB});
    graph.tasks[2 * life.first].writes.push_back(data);
    for (std::size_t task = 2 * life.first + 1; task < 2 * life.last + 2; ++task) {
      graph.tasks[task].updates.push_back(data);
    }
  }
  return graph;
}

// The first graph has a task that needs more, the second one no plan of addresses.
TEST(BestPolicy, TellsAMemoryThatWouldDo) {
  const std::pair<TaskGraph, std::int64_t> cases[] = {
      {MakeModel("resnet-34", {.batch = 32, .gpu = "v100"}).value(), 250 * kMiB},
      {GraphWithoutPlan(), 5 * kMiB}};
  for (const auto& [graph, bytes] : cases) {
    ScheduleRequest request = RequestWith(bytes, false, 0.02);
    if (bytes == 5 * kMiB) request.machine.host.memory_bytes = 0;
    const absl::Status refusal = MakeSchedule("best", graph, request).status();
    ASSERT_TRUE(absl::IsResourceExhausted(refusal)) << refusal;
    const std::vector<std::string> words = absl::StrSplit(refusal.message(), ' ');
    ASSERT_THAT(words, AllOf(Contains("would"), SizeIs(Ge(4)))) << refusal;
    std::int64_t& enough = request.machine.devices.front().memory_bytes;
    ASSERT_TRUE(absl::SimpleAtoi((words.end() - 4)->substr(1), &enough)) << refusal;
    EXPECT_GE(enough, TotalsOf(graph).largest_task);
    EXPECT_GE(enough, bytes + bytes / 20);
    EXPECT_TRUE(MakeSchedule("best", graph, request).ok()) << refusal;
  }
}

// Nothing can leave, as the host has no memory.
TEST(BestPolicy, TellsWhichPlanIsTheLowest) {
  const TaskGraph graph = GraphWithoutPlan();
  ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
  const auto make = [&](std::int64_t memory_bytes, ScheduleMemory memory) {
    ScheduleRequest request = RequestWith(memory_bytes, false, 0.02);
    request.machine.host.memory_bytes = 0;
    request.memory = memory;
    return MakeSchedule("best", graph, request);
  };
  const absl::Status status = make(5 * kMiB, ScheduleMemory::kFixed).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no plan of addresses was found that keeps to the memory of 5.0 MiB"),
                    HasSubstr(" and to the host's memory of 0 bytes"),
                    HasSubstr("the lowest one needs 6.0 MiB"), HasSubstr("pages need no plan")));
  ExpectValid(make(6 * kMiB, ScheduleMemory::kFixed).value());
  ExpectValid(make(5 * kMiB, ScheduleMemory::kPaged).value());
}

TEST(BestPolicy, RefusesLinksAndNamesThatAreNone) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 4}).value();
  for (const double rate : {0.0, -1.0, std::nan("")}) {
    ScheduleRequest request = RequestWith(1024 * kMiB, true);
    request.machine.links.front().in_bytes_per_second = rate;
    EXPECT_TRUE(absl::IsInvalidArgument(MakeSchedule("best", graph, request).status())) << rate;
  }
  for (const double latency : {-1.0, std::nan("")}) {
    ScheduleRequest request = RequestWith(1024 * kMiB, true);
    request.machine.links.front().latency_seconds = latency;
    EXPECT_TRUE(absl::IsInvalidArgument(MakeSchedule("best", graph, request).status())) << latency;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(MakeSchedule("best", graph, RequestWith(-1, true)).status()));
  const absl::Status unknown = MakeSchedule("bestt", graph, RequestWith(kMiB, true)).status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("expected one of best, "));
}

TEST(BestPolicy, SchedulesTheSmallestGraphs) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, kMostDataBytes / 4}) {
    for (const double seconds : {0.0, 1.0}) {
      const TaskGraph graph = FromChain({.forward_seconds = {seconds},
                                         .backward_seconds = {seconds},
                                         .forward_extra = {bytes},
                                         .backward_extra = {0},
                                         .x = {bytes, bytes},
                                         .y = {0, bytes},
                                         .link_bytes_per_second = 1,
                                         .memory_bytes = 0})
                                  .value();
      const auto made = MakeSchedule("best", graph, RequestWith(kMostDataBytes, true));
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ(Simulate(*made)->seconds, 2 * seconds);
      EXPECT_TRUE(made->proved);
      // The largest task has x_0, x_1 and y_1, or the workspace in its place.
      if (bytes > 0) {
        EXPECT_TRUE(absl::IsResourceExhausted(
            MakeSchedule("best", graph, RequestWith(bytes, true)).status()));
      }
    }
  }
}

TEST(BestPolicy, SchedulesAnUpdateAlone) {
  TaskGraph graph;
  graph.data = {{.name = "w",
                 .bytes = kMiB,
                 .kind = DataKind::kWeight,
                 .before = DataHome::kDevice,
                 .after = DataHome::kDevice}};
  graph.tasks = {{.name = "update",
                  .phase = TaskPhase::kUpdate,
                  .updates = {0},
                  .algorithms = {{.name = "only", .seconds = 1}}}};
  const auto made = MakeSchedule("best", graph, RequestWith(kMiB, true));
  ASSERT_TRUE(made.ok()) << made.status();
  ExpectValid(*made);
  EXPECT_EQ(Simulate(*made)->seconds, 1);
}

TEST(BestPolicy, SchedulesRandomGraphs) {
  testing::RandomGraphs random(31);
  int fits = 0;
  for (int i = 0; i < 300; ++i) {
    TaskGraph graph =
        testing::RandomTraining(random).Make(static_cast<std::size_t>(1 + random.Below(6)));
    for (GraphData& data : graph.data) {
      const bool is_moved = i % 3 != 0 && ExistsAfter(data);
      if (is_moved) data.before = data.after = DataHome::kDevice;
    }
    ScheduleRequest request =
        RequestWith(static_cast<std::int64_t>(8 + random.Below(60)), true, 0.01);
    request.placing.alignment = 1;
    if (i % 2 == 0) request.memory = ScheduleMemory::kPaged;
    const absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
    if (absl::IsResourceExhausted(made.status())) continue;
    ASSERT_TRUE(made.ok()) << made.status() << GraphJson(graph);
    ++fits;
    ExpectValid(*made);
    if (HasFailure()) return;
  }
  EXPECT_GT(fits, 100);
}

TEST(BestPolicy, SchedulesRandomMicroBatches) {
  testing::RandomGraphs random(32);
  const int rounds = testing::Rounds(60);
  int fits = 0;
  int again = 0;
  for (int i = 0; i < rounds; ++i) {
    const TaskGraph graph = testing::RandomMicroBatches(random);
    SCOPED_TRACE(GraphJson(graph));
    ScheduleRequest request = RequestWith(std::int64_t{1} << 50, true, 0.01);
    request.placing.alignment = 1;
    const MadeSchedule all = MakeSchedule("best", graph, request).value();
    const std::int64_t peak = Simulate(all)->peak_device_bytes;
    for (const std::int64_t eighths : {7, 6}) {
      request.machine.devices.front().memory_bytes = peak * eighths / 8;
      std::get<BestOptions>(request.options).offloads = i % 4 < 2;
      request.machine.links.front().out_bytes_per_second = 1;
      request.machine.links.front().in_bytes_per_second = 1;
      if (i % 2 == 0) request.memory = ScheduleMemory::kPaged;
      const absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
      if (absl::IsResourceExhausted(made.status())) continue;
      ASSERT_TRUE(made.ok()) << made.status();
      ExpectValid(*made);
      if (HasFailure()) return;
      ++fits;
      again += RunsOf(made->schedule) > graph.tasks.size() ? 1 : 0;
    }
  }
  EXPECT_GE(fits, rounds);
  EXPECT_GE(again, rounds / 5);
}

}  // namespace
}  // namespace tidepool
