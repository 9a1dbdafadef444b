// SPDX-License-Identifier: Apache-2.0
// Tests schedules in rounds and on several devices: valid by the three checkers, with as many
// rounds as the batch needs, and the largest sub-batch that fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/support/check_times/check_times.h"
#include "tests/support/expect_valid.h"
#include "tests/support/rounds.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

GraphFamily FamilyOf(const std::string& name, const ModelOptions& model = {}) {
  return MakeModelFamily(name, model, std::vector<std::int64_t>{1}).value();
}

ScheduleRequest RequestOf(std::int64_t batch, std::int64_t sub_batch, std::size_t devices = 1) {
  ScheduleRequest request = {.batch = batch, .sub_batch = sub_batch, .devices = devices};
  request.machine.devices.assign(devices, {.memory_bytes = std::int64_t{1} << 36});
  request.machine.host.cores = 2;
  return request;
}

std::int64_t BytesOf(const TaskGraph& graph, DataKind kind) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) bytes += data.kind == kind ? data.bytes : 0;
  return bytes;
}

TEST(SubBatch, RoundsTakeTheWholeBatch) {
  const GraphFamily family = FamilyOf("alexnet");
  const absl::StatusOr<MadeSchedule> made = MakeSchedule("none", family, RequestOf(10, 3));
  ASSERT_TRUE(made.ok()) << made.status();
  ExpectValid(*made);
  EXPECT_EQ(made->sub_batch, 3);
  EXPECT_EQ(made->rounds, 4);
  EXPECT_EQ(made->batch, 10);
  EXPECT_EQ(made->schedule.memory, ScheduleMemory::kFixed);
  std::vector<std::pair<std::int64_t, std::int64_t>> rounds;
  for (const ScheduleRound& round : made->schedule.rounds) {
    rounds.emplace_back(round.times, round.batch);
  }
  EXPECT_THAT(rounds, ElementsAre(std::pair(1, 3), std::pair(2, 3), std::pair(1, 1)));
}

TEST(SubBatch, SchedulesOfAllHomesAreValid) {
  for (const char* name : testing::Cases({"alexnet", "resnet-50", "lstm"})) {
    for (const DataHome weights : {DataHome::kDevice, DataHome::kHost}) {
      for (const auto gradients : {WeightGradients::kResident, WeightGradients::kTemporary}) {
        const GraphFamily family = FamilyOf(name, {.image = std::string(name) == "lstm" ? 8 : 0,
                                                   .weight_gradients = gradients,
                                                   .optimizer = Optimizer::kMomentum,
                                                   .weights = weights});
        for (const std::size_t devices : {1, 2, 3}) {
          for (const std::int64_t sub_batch : {1, 3, 4}) {
            for (const auto memory : {ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
              SCOPED_TRACE(::testing::Message() << name << " weights " << static_cast<int>(weights)
                                                << " gradients " << static_cast<int>(gradients)
                                                << ", " << devices << " devices, " << sub_batch);
              const auto batch = static_cast<std::int64_t>(4 * devices);
              ScheduleRequest request = RequestOf(batch, sub_batch, devices);
              request.memory = memory;
              const absl::StatusOr<MadeSchedule> made = MakeSchedule("none", family, request);
              ASSERT_TRUE(made.ok()) << made.status();
              ExpectValid(*made);
              EXPECT_EQ(made->rounds, (4 + sub_batch - 1) / sub_batch);
              EXPECT_EQ(made->schedule.devices, devices);
              EXPECT_EQ(made->schedule.memory, memory);
              if (HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

// Without copies nothing waits.
TEST(SubBatch, TakesTheTimeOfItsTasks) {
  ModelOptions model;
  model.inputs = DataHome::kDevice;
  const GraphFamily family = FamilyOf("vgg-16", model);
  const MadeSchedule made = MakeSchedule("none", family, RequestOf(64, 5)).value();
  const Timeline timeline = Simulate(made).value();
  EXPECT_NEAR(timeline.seconds, made.lower_bound_seconds, 1e-9 * timeline.seconds);
  EXPECT_TRUE(made.proved);
  const double whole = TotalsOf(GraphAt(family, 64).value()).least_seconds;
  EXPECT_DOUBLE_EQ(made.ideal_seconds, whole);
  EXPECT_GT(timeline.seconds, whole);
}

TEST(SubBatch, InputsComeInEveryRound) {
  const GraphFamily family = FamilyOf("alexnet");
  const MadeSchedule made = MakeSchedule("none", family, RequestOf(12, 5)).value();
  const Timeline timeline = Simulate(made).value();
  EXPECT_EQ(timeline.bytes_in, BytesOf(GraphAt(family, 12).value(), DataKind::kInput));
  EXPECT_EQ(timeline.bytes_out, 0);
}

TEST(SubBatch, SeveralDevicesMoveEachWeightAndGradientOnce) {
  const GraphFamily family = FamilyOf("alexnet", {.weights = DataHome::kHost});
  const TaskGraph whole = GraphAt(family, 12).value();
  const std::int64_t weights = BytesOf(whole, DataKind::kWeight);
  const std::int64_t inputs = BytesOf(whole, DataKind::kInput);
  for (const std::int64_t sub_batch : {1, 2, 6}) {
    const MadeSchedule made = MakeSchedule("none", family, RequestOf(12, sub_batch, 2)).value();
    const Timeline timeline = Simulate(made).value();
    EXPECT_EQ(timeline.bytes_in, inputs + 2 * weights);
    EXPECT_EQ(timeline.bytes_out, 2 * weights);
  }
}

TEST(SubBatch, TheHostUpdatesTheWeightsOfOneDevice) {
  for (const DataHome weights : {DataHome::kDevice, DataHome::kHost}) {
    const GraphFamily family =
        FamilyOf("alexnet", {.optimizer = Optimizer::kAdam, .weights = weights});
    for (const char* policy : {"none", "modnn", "best"}) {
      for (const std::int64_t sub_batch : {4, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << policy << " " << sub_batch << " weights " << static_cast<int>(weights));
        ScheduleRequest request = RequestOf(4, sub_batch);
        request.host_updates = true;
        const absl::StatusOr<MadeSchedule> made = MakeSchedule(policy, family, request);
        ASSERT_TRUE(made.ok()) << made.status();
        ExpectValid(*made);
        const TaskGraph& graph = made->graphs.front();
        for (const ScheduleStep& step : made->schedule.steps) {
          const bool is_update =
              step.kind == StepKind::kRun && graph.tasks[step.index].phase == TaskPhase::kUpdate;
          EXPECT_EQ(step.device == kHostDevice, is_update);
        }
      }
    }
  }
}

// Weights come, and gradients leave. State of the optimizer does neither, and takes no memory.
TEST(SubBatch, StateOfTheOptimizerStaysWithTheUpdatesOnTheHost) {
  const GraphFamily family =
      FamilyOf("alexnet", {.optimizer = Optimizer::kAdam, .weights = DataHome::kHost});
  const TaskGraph graph = GraphAt(family, 4).value();
  const std::int64_t weights = BytesOf(graph, DataKind::kWeight);
  const std::int64_t states = BytesOf(graph, DataKind::kOptimizerState);
  ASSERT_GT(states, 0);
  ScheduleRequest request = RequestOf(4, kWholeBatch);
  const Timeline on_device = Simulate(MakeSchedule("none", family, request).value()).value();
  request.host_updates = true;
  const MadeSchedule made = MakeSchedule("none", family, request).value();
  const Timeline timeline = Simulate(made).value();
  EXPECT_EQ(timeline.bytes_in, BytesOf(graph, DataKind::kInput) + weights);
  EXPECT_EQ(timeline.bytes_out, weights);
  EXPECT_GE(on_device.bytes_out, weights + states);
  EXPECT_LE(timeline.peak_device_bytes + states, on_device.peak_device_bytes);
  request.machine.devices.front().memory_bytes = timeline.pool_bytes;
  for (const char* policy : {"none", "modnn", "best"}) {
    const absl::StatusOr<MadeSchedule> fits = MakeSchedule(policy, family, request);
    ASSERT_TRUE(fits.ok()) << policy << ": " << fits.status();
    ExpectValid(*fits);
  }
}

TEST(SubBatch, LargestIsTheLargestThatFits) {
  for (const char* name : {"vgg-16", "resnet-50"}) {
    const GraphFamily family = FamilyOf(name);
    for (const std::int64_t mib : {700, 1500, 4000, 100'000}) {
      SCOPED_TRACE(::testing::Message() << name << " " << mib);
      ScheduleRequest request = RequestOf(30, kLargestSubBatch);
      request.machine.devices.front().memory_bytes = mib << 20;
      const absl::StatusOr<MadeSchedule> made = MakeSchedule("none", family, request);
      if (!made.ok()) {
        request.sub_batch = 1;
        EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted) << made.status();
        EXPECT_FALSE(MakeSchedule("none", family, request).ok());
        continue;
      }
      ExpectValid(*made);
      if (made->sub_batch == 30) continue;
      request.sub_batch = made->sub_batch + 1;
      EXPECT_EQ(MakeSchedule("none", family, request).status().code(),
                absl::StatusCode::kResourceExhausted);
    }
  }
}

// Without its updates, no task reads the gradient of the weight.
TEST(SubBatch, OneTaskMayWriteGradientsOfBothKinds) {
  GraphFamily family = FamilyOf("alexnet");
  TaskGraph& graph = family.graph;
  const auto task = [&](std::string_view name) {
    return std::ranges::find(graph.tasks, name, &GraphTask::name) - graph.tasks.begin();
  };
  const std::ptrdiff_t weight = task("fc8.backward-weights");
  const std::ptrdiff_t data = task("fc8.backward-data");
  ASSERT_LT(std::max(weight, data), std::ssize(graph.tasks));
  for (const std::size_t written : graph.tasks[weight].writes) {
    graph.tasks[data].writes.push_back(written);
  }
  for (const std::size_t read : graph.tasks[weight].reads) {
    std::vector<std::size_t>& reads = graph.tasks[data].reads;
    if (std::ranges::find(reads, read) == reads.end()) reads.push_back(read);
  }
  graph.tasks.erase(graph.tasks.begin() + weight);
  if (!family.costs.empty()) family.costs.erase(family.costs.begin() + weight);
  const absl::StatusOr<MadeSchedule> made =
      MakeSchedule("modnn", family, RequestOf(8, kLargestSubBatch, 2));
  ASSERT_TRUE(made.ok()) << made.status();
  ExpectValid(*made);
}

TEST(SubBatch, LargestHasCostsInTheFamilysTable) {
  GraphFamily family = FamilyOf("alexnet");
  ASSERT_EQ(TabulateCosts(std::vector<std::int64_t>{4, 8}, family), absl::OkStatus());
  family.cost_model = nullptr;
  ScheduleRequest request = RequestOf(13, kLargestSubBatch);
  // 8 and 7 would leave rounds of 5 and 6 samples, which have costs.
  EXPECT_EQ(MakeSchedule("none", family, request)->sub_batch, 8);
  request.batch = 14;
  EXPECT_EQ(MakeSchedule("none", family, request)->sub_batch, 8);
  request.batch = 17;  // 8 leaves one sample
  EXPECT_EQ(MakeSchedule("none", family, request)->sub_batch, 6);
  request.batch = 3;
  EXPECT_EQ(MakeSchedule("none", family, request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SubBatch, DynamicAlgorithmsTakeTheRoomBesideTheData) {
  const TaskGraph graph = MakeModel("vgg-16", {.batch = 16}).value();
  ScheduleRequest request = RequestOf(0, kWholeBatch);
  request.memory = ScheduleMemory::kPaged;
  double last = 1e9;
  int fits = 0;
  for (std::int64_t mib = 1500; mib < 6000; mib += 250) {
    request.machine.devices.front().memory_bytes = mib << 20;
    request.options = LayerwiseOptions{.set = OffloadSet::kDynamic};
    const absl::StatusOr<MadeSchedule> made = MakeSchedule("none", graph, request);
    request.options = LayerwiseOptions{.algorithms = AlgorithmChoice::kLeastMemory};
    EXPECT_EQ(made.ok(), MakeSchedule("none", graph, request).ok()) << mib;
    if (!made.ok()) continue;
    ++fits;
    const double seconds = Simulate(*made)->seconds;
    EXPECT_LE(seconds, last * (1 + 1e-12));
    last = seconds;
  }
  EXPECT_GT(fits, 3);
}

std::string ErrorOf(const std::string& policy, const GraphFamily& family,
                    const ScheduleRequest& request) {
  return std::string(MakeSchedule(policy, family, request).status().message());
}

TEST(SubBatch, NumbersOutOfRangeAreErrors) {
  const GraphFamily family = FamilyOf("alexnet");
  EXPECT_EQ(ErrorOf("none", family, RequestOf(0, 1)),
            "a batch of 0 samples for a family of graphs, expected 1 to 1099511627776");
  EXPECT_EQ(ErrorOf("none", family, RequestOf(8, 0)),
            "a sub-batch of 0 samples, expected 1 to 8, the batch of one device");
  EXPECT_EQ(ErrorOf("none", family, RequestOf(8, 9)),
            "a sub-batch of 9 samples, expected 1 to 8, the batch of one device");
  EXPECT_EQ(ErrorOf("none", family, RequestOf(8, 5, 2)),
            "a sub-batch of 5 samples, expected 1 to 4, the batch of one device");
  EXPECT_EQ(ErrorOf("none", family, RequestOf(9, 1, 2)),
            "a batch of 9 samples on 2 devices, expected a multiple of 2");
  ScheduleRequest request = RequestOf(8, 1, 2);
  request.devices = 3;
  EXPECT_EQ(ErrorOf("none", family, request),
            "3 devices, expected 1 to 2, the devices of the machine");
  request.devices = 0;
  EXPECT_EQ(ErrorOf("none", family, request),
            "0 devices, expected 1 to 2, the devices of the machine");
  request = RequestOf(8, 1, 2);
  request.machine.host.cores = 0;
  EXPECT_THAT(ErrorOf("none", family, request), HasSubstr("no cores of the host"));
  request = RequestOf(8, kWholeBatch);
  request.host_updates = true;
  request.machine.host.cores = 0;
  EXPECT_THAT(ErrorOf("none", family, request), HasSubstr("no cores of the host"));
  request.machine.host.cores = 1;
  EXPECT_THAT(
      std::string(MakeSchedule("none", GraphAt(family, 8).value(), request).status().message()),
      HasSubstr("expected a family of graphs for sub-batches, several devices and updates"));
  EXPECT_THAT(ErrorOf("vdnn", family, request), HasSubstr("updates on the host"));
  request = RequestOf(8, 1);
  request.placing.alignment = 3;
  EXPECT_THAT(ErrorOf("none", family, request), HasSubstr("alignment 3, expected a power of two"));
}

TEST(SubBatch, PoliciesOfPoolsHaveNoRounds) {
  const GraphFamily family = FamilyOf("alexnet");
  for (const ScheduleRequest& request :
       {RequestOf(8, 2), RequestOf(8, kLargestSubBatch), RequestOf(8, kWholeBatch, 2)}) {
    EXPECT_THAT(ErrorOf("vdnn++", family, request),
                AllOf(HasSubstr("policy 'vdnn++'"), HasSubstr("expected one of none")));
  }
  ScheduleRequest pool = RequestOf(8, 2);
  pool.memory = ScheduleMemory::kPool;
  EXPECT_THAT(ErrorOf("none", family, pool), HasSubstr("expected fixed or paged memory"));
  // The whole batch in one round is a graph like any other.
  const MadeSchedule made = MakeSchedule("vdnn++", family, RequestOf(8, 8)).value();
  const TaskGraph graph = GraphAt(family, 8).value();
  EXPECT_EQ(made.schedule, MakeSchedule("vdnn++", graph, RequestOf(0, kWholeBatch))->schedule);
}

TEST(SubBatch, GraphsOfOneBatchHaveNoOther) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 4}).value();
  for (const ScheduleRequest& request :
       {RequestOf(0, 2), RequestOf(8, kWholeBatch), RequestOf(0, kWholeBatch, 2)}) {
    EXPECT_THAT(MakeSchedule("none", graph, request).status().message(),
                HasSubstr("expected a family of graphs"));
  }
  EXPECT_TRUE(MakeSchedule("none", graph, RequestOf(4, 4)).ok());
}

TEST(SubBatch, SizesThatOverflowAreErrors) {
  GraphFamily family = FamilyOf("alexnet");
  for (const std::int64_t sub_batch : {kWholeBatch, kMostBatch}) {
    const absl::Status status =
        MakeSchedule("none", family, RequestOf(kMostBatch, sub_batch)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("at batch 1099511627776"));
  }
  family.bytes_per_sample.front() = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(ErrorOf("none", family, RequestOf(8, 2)),
              AllOf(HasSubstr("at batch 2"), HasSubstr("expected at most 2^50")));
}

TEST(SubBatch, MemoryThatIsTooSmallNamesTheLeast) {
  ScheduleRequest request = RequestOf(8, kLargestSubBatch);
  request.machine.devices.front().memory_bytes = 1 << 20;
  const absl::Status status = MakeSchedule("none", FamilyOf("alexnet"), request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("no sub-batch fits; at 1: "));
}

}  // namespace
}  // namespace tidepool
