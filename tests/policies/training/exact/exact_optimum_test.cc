// SPDX-License-Identifier: Apache-2.0
// No policy is faster than the optimum that an exact search finds for small graphs, on one device
// and on several, in rounds, with compressors and with several compute streams. The schedule of the
// optimum is valid by all checkers, and the simulator gives it the time of the exact search.
//
// A device has one stream of copies in each direction, or one for both, so no schedule has more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/exact_search/exact_training.h"
#include "tests/support/exact_search/small_graphs.h"
#include "tests/support/expect_valid.h"
#include "tests/support/rounds.h"
#include "tidepool/training/memory_front.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using testing::ExactAnswer;
using testing::ExactTraining;
using testing::ExactTrainingAnswer;
using testing::Rounds;
using testing::SmallGraphs;

constexpr std::int64_t kUnit = 512;
constexpr std::size_t kMostStates = 1'000'000;
constexpr double kEqual = 1e-9;
constexpr double kWork = 0.02;  // seconds of each search
const int kGraphs = Rounds(16);

// Returns the family of graphs of any batch that are all like one.
GraphFamily FamilyOf(const TaskGraph& graph) {
  GraphFamily family = {.graph = graph,
                        .bytes_per_sample = std::vector<std::int64_t>(graph.data.size()),
                        .batches = {1, 8}};
  for (GraphTask& task : family.graph.tasks) {
    const TaskAlgorithm& only = task.algorithms.front();
    family.costs.push_back({{only.name, {only.seconds}, {only.workspace_bytes}}});
    task.algorithms.clear();
  }
  return family;
}

void SetRate(int seconds_of_a_unit, MachineLink& link) {
  link.out_bytes_per_second = link.in_bytes_per_second =
      static_cast<double>(kUnit) / seconds_of_a_unit;
}

// Hands the schedule of the optimum to the checkers and the simulator. Returns whether its
// simulated time is that of the exact search; it is never less.
bool HasItsTime(const ExactTraining& training, const ExactTrainingAnswer& exact,
                const std::vector<TaskGraph>& graphs) {
  MadeSchedule made;
  made.schedule = exact.schedule;
  made.graphs = graphs;
  made.machine = training.machine;
  ExpectValid(made);
  const absl::StatusOr<Timeline> timeline = Simulate(graphs, exact.schedule, training.machine);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  if (!timeline.ok()) return false;
  EXPECT_GE(timeline->seconds, exact.seconds * (1 - kEqual));
  return timeline->seconds <= exact.seconds * (1 + kEqual);
}

// The policies that make schedules of a request, against the optimum.
class Policies {
 public:
  // Counts those with a schedule, and those of `best` that are optimal.
  template <typename GraphOrFamily>
  void Compare(const GraphOrFamily& graph, ScheduleRequest request, double optimum) {
    for (const OffloadPolicyInfo& policy : OffloadPolicies()) {
      const bool is_single = request.devices == 1 && request.sub_batch == kWholeBatch;
      if (!is_single && !policy.has_rounds) continue;
      request.options = std::monostate();
      if (policy.name == "best") request.options = options;
      const absl::StatusOr<MadeSchedule> made = MakeSchedule(policy.name, graph, request);
      if (!made.ok()) continue;
      const double seconds = Simulate(*made)->seconds;
      EXPECT_GE(seconds, optimum * (1 - kEqual)) << policy.name;
      ++schedules;
      if (policy.name == "best") optimal += seconds <= optimum * (1 + kEqual) ? 1 : 0;
    }
  }

  // Compares a batch of two, with each way to add gradients up.
  void CompareOnTwoDevices(const ExactTraining& training, double optimum) {
    for (const GradientReduction reduction :
         {GradientReduction::kFirstDevice, GradientReduction::kRing}) {
      Compare(FamilyOf(training.graph),
              {.machine = training.machine,
               .batch = 2,
               .devices = 2,
               .reduction = reduction,
               .memory = ScheduleMemory::kPaged},
              optimum);
    }
  }

  BestOptions options = {.time_limit_seconds = 1000, .work_seconds = kWork};
  int schedules = 0;
  int optimal = 0;
};

std::int64_t RandomMemory(const TaskGraph& graph, SmallGraphs& random, int most_more) {
  std::int64_t weights = 0;
  for (const GraphData& data : graph.data) {
    const bool is_small = data.kind == DataKind::kWeight || data.kind == DataKind::kWeightGradient;
    if (is_small) weights += data.bytes;
  }
  return TotalsOf(graph).largest_task + weights + kUnit * random.From(0, most_more);
}

TEST(ExactOptimum, OfOneDevice) {
  SmallGraphs random(1);
  Policies policies;
  int graphs = 0;
  for (int i = 0; i < kGraphs; ++i) {
    SCOPED_TRACE(i);
    ExactTraining training = {
        .graph = random.Make({.layers = static_cast<std::size_t>(random.From(2, 3)),
                              .has_loss = random.Chance(50),
                              .has_skips = true,
                              .has_workspaces = true,
                              .input = random.Chance(50) ? DataHome::kHost : DataHome::kDevice,
                              .has_labels = random.Chance(50)})};
    training.machine.devices[0].memory_bytes = RandomMemory(training.graph, random, 8);
    SetRate(random.From(1, 3), training.machine.links[0]);
    training.machine.links[0].full_duplex = random.Chance(50);
    const ExactTrainingAnswer exact = SearchTrainingExactly(training, kMostStates);
    if (exact.kind != ExactAnswer::Kind::kOptimum) continue;
    ++graphs;
    EXPECT_TRUE(HasItsTime(training, exact, {training.graph}));
    for (const ScheduleMemory memory : {ScheduleMemory::kPaged, ScheduleMemory::kFixed}) {
      policies.Compare(training.graph, {.machine = training.machine, .memory = memory},
                       exact.seconds);
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(graphs, kGraphs * 3 / 4);
  EXPECT_GE(policies.schedules, 5 * graphs);
  EXPECT_GE(policies.optimal, graphs * 3 / 2);
}

TEST(ExactOptimum, OfCompressedCopies) {
  SmallGraphs random(2);
  Policies policies;
  int graphs = 0;
  for (int i = 0; i < kGraphs; ++i) {
    SCOPED_TRACE(i);
    ExactTraining training = {.graph = random.Make({.layers = 2})};
    training.machine.devices[0].memory_bytes = RandomMemory(training.graph, random, 4);
    SetRate(4, training.machine.links[0]);
    // Compressed copies out take 2 seconds a unit, copies in 1 to 6.
    training.machine.devices[0].compressor = {
        .out_bytes_per_second = kUnit / 2.0,
        .in_bytes_per_second = static_cast<double>(kUnit) / random.From(1, 6)};
    for (const GraphData& data : training.graph.data) {
      const bool is_compressed = data.before != DataHome::kHost && random.Chance(70);
      training.densities.push_back(is_compressed ? 0.25 - 1.0 / 32 : 1);
    }
    policies.options.densities = training.densities;
    const ExactTrainingAnswer exact = SearchTrainingExactly(training, kMostStates);
    if (exact.kind != ExactAnswer::Kind::kOptimum) continue;
    ++graphs;
    EXPECT_TRUE(HasItsTime(training, exact, {training.graph}));
    policies.Compare(training.graph,
                     {.machine = training.machine, .memory = ScheduleMemory::kPaged},
                     exact.seconds);
    if (HasFailure()) return;
  }
  EXPECT_GE(graphs, kGraphs * 3 / 4);
  EXPECT_GE(policies.optimal, graphs / 2);
}

// Two branches of a graph run beside each other.
TaskGraph BranchedGraph(SmallGraphs& random) {
  TaskGraph graph;
  graph.name = "branches";
  const auto add = [&](std::vector<std::size_t> reads, TaskPhase phase) {
    const std::string number = std::to_string(graph.data.size());
    graph.data.push_back({"data" + number, kUnit * random.From(1, 6), DataKind::kActivation});
    graph.tasks.push_back({.name = "task" + number,
                           .phase = phase,
                           .reads = std::move(reads),
                           .writes = {graph.data.size() - 1},
                           .algorithms = {{"only", static_cast<double>(random.From(1, 9)), 0}},
                           .may_rerun = phase == TaskPhase::kForward});
  };
  add({}, TaskPhase::kForward);
  add({0}, TaskPhase::kForward);
  add({0}, TaskPhase::kForward);
  add({1, 2}, TaskPhase::kForward);
  add({3, 1}, TaskPhase::kBackward);
  add({3, 2}, TaskPhase::kBackward);
  add({4, 5, 0}, TaskPhase::kBackward);
  return graph;
}

TEST(ExactOptimum, OfSeveralComputeStreams) {
  SmallGraphs random(3);
  Policies policies;
  int graphs = 0;
  for (int i = 0; i < kGraphs; ++i) {
    SCOPED_TRACE(i);
    ExactTraining training = {.graph = BranchedGraph(random), .keeps_order = false};
    training.machine.devices[0] = {.memory_bytes = RandomMemory(training.graph, random, 10),
                                   .compute_streams = 2};
    SetRate(random.From(1, 3), training.machine.links[0]);
    const ExactTrainingAnswer exact = SearchTrainingExactly(training, kMostStates);
    if (exact.kind != ExactAnswer::Kind::kOptimum) continue;
    ++graphs;
    EXPECT_TRUE(HasItsTime(training, exact, {training.graph}));
    for (const ScheduleMemory memory : {ScheduleMemory::kPaged, ScheduleMemory::kFixed}) {
      policies.Compare(training.graph, {.machine = training.machine, .memory = memory},
                       exact.seconds);
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(graphs, kGraphs * 3 / 4);
  EXPECT_GE(policies.optimal, graphs / 2);
}

// A round may take its input while the round before still runs. Pages are handed out in the order
// of rounds, so such an optimum may have no schedule in pages.
TEST(ExactOptimum, OfRounds) {
  SmallGraphs random(4);
  Policies policies;
  int graphs = 0;
  int with_their_time = 0;
  for (int i = 0; i < kGraphs; ++i) {
    SCOPED_TRACE(i);
    const bool has_input = i % 2 == 0;
    ExactTraining training = {
        .graph = random.Make(
            {.layers = 2, .has_loss = false, .has_weights = true, .has_input = has_input}),
        .rounds = 2,
        .round_batch = 1};
    training.machine.devices[0].memory_bytes = RandomMemory(training.graph, random, 6);
    SetRate(random.From(1, 2), training.machine.links[0]);
    const ExactTrainingAnswer exact = SearchTrainingExactly(training, kMostStates);
    if (exact.kind != ExactAnswer::Kind::kOptimum) continue;
    ++graphs;
    const GraphFamily family = FamilyOf(training.graph);
    const std::vector<TaskGraph> both = {GraphAt(family, 2).value(), training.graph};
    const bool has_its_time = HasItsTime(training, exact, both);
    EXPECT_TRUE(has_input || has_its_time);
    with_their_time += has_its_time ? 1 : 0;
    for (const ScheduleMemory memory : {ScheduleMemory::kPaged, ScheduleMemory::kFixed}) {
      const ScheduleRequest request = {
          .machine = training.machine, .batch = 2, .sub_batch = 1, .memory = memory};
      policies.Compare(family, request, exact.seconds);
    }
    ScheduleRequest request = {.machine = training.machine, .batch = 2, .sub_batch = 1};
    const absl::StatusOr<MemoryFront> front = MakeFront(
        family, request,
        {.memory_bytes = {training.machine.devices[0].memory_bytes}, .best = policies.options});
    for (const FrontPoint& point : front.ok() ? front->points : std::vector<FrontPoint>()) {
      EXPECT_GE(point.seconds, exact.seconds * (1 - kEqual));
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(graphs, kGraphs * 3 / 4);
  EXPECT_GE(with_their_time, graphs * 3 / 4);
  EXPECT_GE(policies.optimal, graphs / 2);
}

TEST(ExactOptimum, OfSeveralDevices) {
  SmallGraphs random(5);
  Policies policies;
  int graphs = 0;
  for (int i = 0; i < kGraphs; ++i) {
    SCOPED_TRACE(i);
    ExactTraining training = {
        .graph = random.Make(
            {.layers = 1, .unit = 2 * kUnit, .has_loss = random.Chance(50), .has_weights = true}),
        .devices = 2,
        .recomputes = false};
    const std::int64_t memory = RandomMemory(training.graph, random, 6);
    training.machine.devices = {{.memory_bytes = memory, .link = 0},
                                {.memory_bytes = memory, .link = 1}};
    training.machine.links.resize(2);
    for (MachineLink& link : training.machine.links) SetRate(1, link);
    training.machine.peers.bytes_per_second = static_cast<double>(kUnit) / random.From(1, 3);
    const ExactTrainingAnswer exact = SearchTrainingExactly(training, kMostStates);
    if (exact.kind != ExactAnswer::Kind::kOptimum) continue;
    ++graphs;
    EXPECT_TRUE(HasItsTime(training, exact, {training.graph}));
    policies.CompareOnTwoDevices(training, exact.seconds);
    if (HasFailure()) return;
  }
  EXPECT_GE(graphs, kGraphs * 3 / 4);
  EXPECT_GE(policies.schedules, graphs);
}

// One link of two devices, and a bus between them. An optimum may leave the link idle for a copy
// that comes later, which no schedule can.
class ExactOptimumOfSharedLinks : public ::testing::TestWithParam<LinkSharing> {};

TEST_P(ExactOptimumOfSharedLinks, IsBeatenByNoSchedule) {
  // Copies that divide a link have many more states, so some graphs are left out.
  const bool divides = GetParam() == LinkSharing::kEqualParts;
  const std::size_t most_states = divides ? kMostStates / 5 : kMostStates;
  SmallGraphs random(6);
  Policies policies;
  int graphs = 0;
  int with_their_time = 0;
  for (int i = 0; i < kGraphs; ++i) {
    SCOPED_TRACE(i);
    ExactTraining training = {
        .graph = random.Make(
            {.layers = 1, .unit = 2 * kUnit, .has_loss = random.Chance(50), .has_weights = true}),
        .ticks_of_a_second = divides ? 64 : 1,
        .devices = 2,
        .recomputes = false};
    const std::int64_t memory = RandomMemory(training.graph, random, 6);
    training.machine.devices.assign(2, {.memory_bytes = memory});
    MachineLink& link = training.machine.links[0];
    SetRate(1, link);
    link.full_duplex = random.Chance(50);
    link.sharing = GetParam();
    training.machine.peers = {.bytes_per_second = static_cast<double>(kUnit) / random.From(1, 3),
                              .is_bus = true,
                              .sharing = GetParam()};
    const ExactTrainingAnswer exact = SearchTrainingExactly(training, most_states);
    if (exact.kind != ExactAnswer::Kind::kOptimum) continue;
    ++graphs;
    const bool has_its_time = HasItsTime(training, exact, {training.graph});
    with_their_time += has_its_time ? 1 : 0;
    policies.CompareOnTwoDevices(training, exact.seconds);
    if (HasFailure()) return;
  }
  EXPECT_GE(graphs, divides ? kGraphs / 2 : kGraphs * 3 / 4);
  EXPECT_GE(with_their_time, graphs / 2);
  EXPECT_GE(policies.schedules, graphs);
}

INSTANTIATE_TEST_SUITE_P(ExactOptimum, ExactOptimumOfSharedLinks,
                         ::testing::Values(LinkSharing::kEqualParts,
                                           LinkSharing::kFirstComeFirstServed),
                         [](const auto& sharing) {
                           return sharing.param == LinkSharing::kEqualParts
                                      ? "EqualParts"
                                      : "FirstComeFirstServed";
                         });

// The host adds up the gradients of one device or two, and sends the new weights. A schedule lists
// the update of a weight after the tasks that need the old one, so an optimum with another order
// has none.
TEST(ExactOptimum, OfUpdatesOnTheHost) {
  SmallGraphs random(7);
  Policies policies;
  int graphs = 0;
  for (int i = 0; i < kGraphs; ++i) {
    SCOPED_TRACE(i);
    const std::size_t devices = i % 2 == 0 ? 1 : 2;
    ExactTraining training = {
        .graph = random.Make({.layers = 1, .has_loss = random.Chance(50), .has_weights = true}),
        .devices = devices,
        .host_updates = true,
        .recomputes = devices == 1};
    const std::int64_t memory = RandomMemory(training.graph, random, 6);
    training.machine.devices.assign(devices, {.memory_bytes = memory});
    MachineLink& link = training.machine.links[0];
    SetRate(random.From(1, 2), link);
    link.full_duplex = random.Chance(50);
    link.sharing = LinkSharing::kFirstComeFirstServed;
    training.machine.host = {.cores = 1,
                             .accumulation_bytes_per_second = 2.0 * kUnit,
                             .update_bytes_per_second = static_cast<double>(kUnit)};
    const ExactTrainingAnswer exact = SearchTrainingExactly(training, kMostStates);
    if (exact.kind != ExactAnswer::Kind::kOptimum) continue;
    ++graphs;
    for (const ScheduleMemory memory_kind : {ScheduleMemory::kPaged, ScheduleMemory::kFixed}) {
      policies.Compare(FamilyOf(training.graph),
                       {.machine = training.machine,
                        .batch = static_cast<std::int64_t>(devices),
                        .devices = devices,
                        .host_updates = true,
                        .memory = memory_kind},
                       exact.seconds);
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(graphs, kGraphs * 3 / 4);
  EXPECT_GE(policies.schedules, graphs);
  EXPECT_GE(policies.optimal, graphs / 4);
}

}  // namespace
}  // namespace tidepool
