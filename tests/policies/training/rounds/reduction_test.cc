// SPDX-License-Identifier: Apache-2.0
// Tests gradients that devices add up: each device gets each gradient once, schedules are valid by
// the three checkers, the cost model takes the fastest, and faults in an exchange are found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "policies/training/rounds/exchange_gradients.h"
#include "tests/support/expect_valid.h"
#include "tests/support/rounds.h"
#include "tests/support/temporary_files.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/schedule_file.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

constexpr GradientReduction kExchanges[] = {GradientReduction::kFirstDevice,
                                            GradientReduction::kRing};

GraphFamily ReducedFamily(const std::string& name, DataHome weights, Optimizer optimizer) {
  return MakeModelFamily(
             name, {.image = name == "lstm" ? 8 : 0, .optimizer = optimizer, .weights = weights},
             std::vector<std::int64_t>{1})
      .value();
}

ScheduleRequest ReducedRequest(std::size_t devices, std::int64_t sub_batch,
                               GradientReduction reduction) {
  ScheduleRequest request = {.batch = static_cast<std::int64_t>(4 * devices),
                             .sub_batch = sub_batch,
                             .devices = devices,
                             .reduction = reduction};
  request.machine.devices.assign(devices, {.memory_bytes = std::int64_t{1} << 36});
  request.machine.host.cores = 2;
  request.machine.peers = {.bytes_per_second = 50e9, .latency_seconds = 1e-6};
  return request;
}

// Counts, by device and byte of one datum, how often the sum has the gradient of each device.
class SlowSums {
 public:
  SlowSums(std::size_t devices, std::int64_t bytes)
      : sums_(devices, std::vector<std::vector<int>>(static_cast<std::size_t>(bytes),
                                                     std::vector<int>(devices))) {
    for (std::size_t device = 0; device < devices; ++device) {
      for (std::vector<int>& sum : sums_[device]) sum[device] = 1;
    }
  }

  void Perform(const ScheduleStep& step) {
    const auto end = step.end < 0 ? sums_[0].size() : static_cast<std::size_t>(step.end);
    for (auto i = static_cast<std::size_t>(step.begin); i < end; ++i) {
      std::vector<int>& own = sums_[step.device][i];
      const std::vector<int>& other = sums_[step.source][i];
      for (std::size_t device = 0; device < own.size(); ++device) {
        own[device] = other[device] + (step.kind == StepKind::kAdd ? own[device] : 0);
      }
    }
  }

  bool IsWhole(std::size_t device) const {
    return std::ranges::all_of(sums_[device], [](const std::vector<int>& sum) {
      return std::ranges::all_of(sum, [](int times) { return times == 1; });
    });
  }

 private:
  std::vector<std::vector<std::vector<int>>> sums_;
};

TEST(Reduction, EachDeviceOfARingHasEachGradientOnce) {
  for (std::size_t devices = 1; devices <= 5; ++devices) {
    for (const std::int64_t bytes : {1, 4, 512, 516, 1024, 2600, 5120}) {
      SlowSums sums(devices, bytes);
      std::vector<std::int64_t> received(devices);
      for (const ScheduleStep& step : rounds::RingSteps(0, bytes, devices, -1)) {
        sums.Perform(step);
        received[step.device] += step.end - step.begin;
        EXPECT_LE(step.end - step.begin, rounds::RingPartBytes(bytes, devices));
      }
      for (std::size_t device = 0; device < devices; ++device) {
        EXPECT_TRUE(sums.IsWhole(device)) << devices << " devices, " << bytes << " bytes";
        if (bytes != static_cast<std::int64_t>(512 * devices)) continue;
        EXPECT_EQ(received[device], static_cast<std::int64_t>(2 * (devices - 1) * 512));
      }
    }
  }
}

TEST(Reduction, TheFirstDeviceHasEachGradientOnce) {
  for (std::size_t devices = 1; devices <= 5; ++devices) {
    SlowSums sums(devices, 100);
    for (const ScheduleStep& step : rounds::StepsToFirst(0, devices, -1)) {
      sums.Perform(step);
    }
    EXPECT_TRUE(sums.IsWhole(0)) << devices;
  }
}

TEST(Reduction, SchedulesOfAllHomesAreValid) {
  for (const char* name : testing::Cases({"alexnet", "lstm"})) {
    for (const DataHome weights : {DataHome::kDevice, DataHome::kHost}) {
      const GraphFamily family = ReducedFamily(name, weights, Optimizer::kMomentum);
      for (const GradientReduction reduction : kExchanges) {
        for (const std::size_t devices : {1, 2, 3, 5}) {
          for (const std::int64_t sub_batch : {1, 3, 4}) {
            for (const bool is_bus : {false, true}) {
              SCOPED_TRACE(::testing::Message()
                           << name << " weights " << static_cast<int>(weights) << ", " << devices
                           << " devices, " << GradientReductionName(reduction) << ", "
                           << sub_batch);
              ScheduleRequest request = ReducedRequest(devices, sub_batch, reduction);
              request.machine.peers.is_bus = is_bus;
              request.machine.host.cores = 0;
              request.memory = sub_batch == 3 ? ScheduleMemory::kPaged : ScheduleMemory::kFixed;
              const absl::StatusOr<MadeSchedule> made = MakeSchedule("none", family, request);
              ASSERT_TRUE(made.ok()) << made.status();
              ExpectValid(*made);
              EXPECT_EQ(made->reduction, reduction);
              if (HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(Reduction, PoliciesWithAddressesOfTheirOwnLeaveRoomForTheBuffer) {
  const GraphFamily family =
      ReducedFamily("alexnet", DataHome::kDevice, Optimizer::kGradientDescent);
  for (const GradientReduction reduction : kExchanges) {
    for (const ScheduleMemory memory : {ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
      ScheduleRequest request = ReducedRequest(3, kLargestSubBatch, reduction);
      request.memory = memory;
      for (MachineDevice& device : request.machine.devices) device.memory_bytes = 768 << 20;
      const absl::StatusOr<MadeSchedule> made = MakeSchedule("modnn", family, request);
      ASSERT_TRUE(made.ok()) << made.status();
      ExpectValid(*made);
    }
  }
}

// The rate at which devices reach each other decides.
TEST(Reduction, TheCostModelTakesTheFastest) {
  const GraphFamily family =
      ReducedFamily("alexnet", DataHome::kDevice, Optimizer::kGradientDescent);
  std::vector<GradientReduction> taken;
  for (const double rate : {1e8, 300e9}) {
    double least = 1e9;
    for (const auto reduction :
         {GradientReduction::kHost, GradientReduction::kFirstDevice, GradientReduction::kRing}) {
      ScheduleRequest request = ReducedRequest(4, kWholeBatch, reduction);
      request.machine.peers.bytes_per_second = rate;
      const MadeSchedule made = MakeSchedule("none", family, request).value();
      least = std::min(least, Simulate(made).value().seconds);
    }
    ScheduleRequest request = ReducedRequest(4, kWholeBatch, GradientReduction::kAutomatic);
    request.machine.peers.bytes_per_second = rate;
    const MadeSchedule made = MakeSchedule("none", family, request).value();
    EXPECT_EQ(Simulate(made).value().seconds, least);
    taken.push_back(made.reduction);
  }
  EXPECT_EQ(taken.front(), GradientReduction::kHost);
  EXPECT_EQ(taken.back(), GradientReduction::kRing);
}

TEST(Reduction, WithoutLinksOfPeersTheHostAddsUp) {
  const GraphFamily family =
      ReducedFamily("alexnet", DataHome::kDevice, Optimizer::kGradientDescent);
  ScheduleRequest request = ReducedRequest(2, 3, GradientReduction::kAutomatic);
  request.machine.peers = {};
  const MadeSchedule made = MakeSchedule("none", family, request).value();
  request.reduction = GradientReduction::kHost;
  EXPECT_EQ(made.schedule, MakeSchedule("none", family, request).value().schedule);
  EXPECT_EQ(Simulate(made).value().bytes_received, 0);
}

TEST(Reduction, ARingMovesLittleAndNothingOverTheLink) {
  const GraphFamily family =
      MakeModelFamily("alexnet", {.inputs = DataHome::kDevice}, std::vector<std::int64_t>{1})
          .value();
  std::int64_t gradients = 0;
  const TaskGraph graph = GraphAt(family, 4).value();
  for (const GraphData& data : graph.data) {
    if (data.kind == DataKind::kWeightGradient) gradients += data.bytes;
  }
  const ScheduleRequest request = ReducedRequest(4, kWholeBatch, GradientReduction::kRing);
  const Timeline timeline = Simulate(MakeSchedule("none", family, request).value()).value();
  EXPECT_EQ(timeline.bytes_in + timeline.bytes_out, 0);
  EXPECT_EQ(timeline.bytes_received, 2 * 3 * gradients);
}

// The baseline: no gradient leaves before all tasks have ended.
TEST(Reduction, TheFirstDeviceAddsUpAfterTheRounds) {
  const GraphFamily family =
      ReducedFamily("alexnet", DataHome::kDevice, Optimizer::kGradientDescent);
  const ScheduleRequest request = ReducedRequest(3, kWholeBatch, GradientReduction::kFirstDevice);
  const MadeSchedule made = MakeSchedule("none", family, request).value();
  const Timeline timeline = Simulate(made).value();
  double tasks = 0;
  double first = timeline.seconds;
  double updates = timeline.seconds;
  for (const TimelineEvent& event : timeline.events) {
    if (event.kind == TimelineEvent::Kind::kAdd) first = std::min(first, event.start);
    if (event.kind != TimelineEvent::Kind::kTask) continue;
    const bool is_update = made.graphs.front().tasks[event.index].phase == TaskPhase::kUpdate;
    if (is_update) {
      updates = std::min(updates, event.start);
    } else {
      tasks = std::max(tasks, event.end);
    }
  }
  EXPECT_GE(first, tasks);
  EXPECT_GT(updates, first);
}

TEST(Reduction, FilesHaveTheExchange) {
  const GraphFamily family =
      ReducedFamily("alexnet", DataHome::kDevice, Optimizer::kGradientDescent);
  ScheduleRequest request = ReducedRequest(3, kWholeBatch, GradientReduction::kRing);
  request.machine.peers = {.bytes_per_second = 5e10,
                           .latency_seconds = 1e-6,
                           .is_bus = true,
                           .sharing = LinkSharing::kFirstComeFirstServed,
                           .addition_bytes_per_second = 1e12};
  const MadeSchedule made = MakeSchedule("none", family, request).value();
  const std::string json = ScheduleJson({.schedule = made.schedule, .machine = made.machine});
  const std::string path = TemporaryFile("schedule.json");
  ASSERT_EQ(WriteSchedule({.schedule = made.schedule, .machine = made.machine}, path),
            absl::OkStatus());
  const absl::StatusOr<ScheduleFile> read = ReadSchedule(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->schedule, made.schedule);
  EXPECT_EQ(read->machine, made.machine);
  EXPECT_THAT(json, HasSubstr("[\"add\","));
  EXPECT_THAT(json, HasSubstr("[\"receive\","));
}

bool IsExchange(const ScheduleStep& step) {
  return step.kind == StepKind::kAdd || step.kind == StepKind::kReceive;
}

// The exchange of one small gradient, with the rest of a schedule around it.
struct SmallExchange {
  MadeSchedule made;
  std::size_t gradient = 0;
  std::vector<std::size_t> steps;

  SmallExchange(std::size_t devices, GradientReduction reduction) {
    const GraphFamily family =
        ReducedFamily("alexnet", DataHome::kDevice, Optimizer::kGradientDescent);
    ScheduleRequest request = ReducedRequest(devices, kWholeBatch, reduction);
    request.memory = ScheduleMemory::kPaged;
    made = MakeSchedule("none", family, request).value();
    const std::vector<GraphData>& data = made.graphs.front().data;
    std::int64_t least = 1 << 30;
    for (std::size_t i = 0; i < data.size(); ++i) {
      const std::int64_t bytes = data[i].bytes;
      if (data[i].kind != DataKind::kWeightGradient || bytes <= 1024 || bytes >= least) continue;
      gradient = i;
      least = bytes;
    }
    for (std::size_t i = 0; i < made.schedule.steps.size(); ++i) {
      const ScheduleStep& step = made.schedule.steps[i];
      if (IsExchange(step) && step.index == gradient) steps.push_back(i);
    }
  }

  absl::Status Validate() const { return ValidateSchedule(made.graphs, made.schedule); }
};

TEST(Reduction, EachStepOfAnExchangeIsNeededOnce) {
  for (const GradientReduction reduction : kExchanges) {
    SmallExchange exchange(3, reduction);
    ASSERT_EQ(exchange.Validate(), absl::OkStatus());
    ASSERT_FALSE(exchange.steps.empty());
    const std::vector<ScheduleStep> steps = exchange.made.schedule.steps;
    std::size_t& length = exchange.made.schedule.rounds.back().steps;
    for (const std::size_t at : exchange.steps) {
      const auto own = [&] {
        return exchange.made.schedule.steps.begin() + static_cast<std::ptrdiff_t>(at);
      };
      exchange.made.schedule.steps.erase(own());
      --length;
      EXPECT_EQ(exchange.Validate().code(), absl::StatusCode::kInvalidArgument) << at;
      exchange.made.schedule.steps = steps;
      ++length;
      if (steps[at].kind != StepKind::kAdd) continue;
      exchange.made.schedule.steps.insert(own(), steps[at]);
      ++length;
      EXPECT_THAT(std::string(exchange.Validate().message()), HasSubstr("both sums have"));
      exchange.made.schedule.steps = steps;
      --length;
    }
  }
}

// A schedule that the checker takes after a random change has the sum of all gradients.
TEST(Reduction, TheCheckerTakesWholeSumsAlone) {
  std::mt19937_64 random(7);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  std::vector<SmallExchange> exchanges;
  for (const std::size_t devices : {2, 3, 4}) {
    for (const GradientReduction reduction : kExchanges) exchanges.emplace_back(devices, reduction);
  }
  int taken = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SmallExchange exchange = exchanges[below(exchanges.size())];
    const std::size_t devices = exchange.made.schedule.devices;
    std::vector<ScheduleStep>& steps = exchange.made.schedule.steps;
    for (std::size_t changes = 1 + below(2); changes > 0; --changes) {
      ScheduleStep& step = steps[exchange.steps[below(exchange.steps.size())]];
      ScheduleStep& other = steps[exchange.steps[below(exchange.steps.size())]];
      switch (below(5)) {
        case 0:
          std::swap(step, other);
          break;
        case 1:
          step = other;
          break;
        case 2:
          step.source = below(devices);
          break;
        case 3:
          step.end = step.begin + static_cast<std::int64_t>(16 * (1 + below(40)));
          break;
        default:
          step.kind = below(2) == 0 ? StepKind::kAdd : StepKind::kReceive;
      }
    }
    if (!exchange.Validate().ok()) continue;
    ++taken;
    const TaskGraph& graph = exchange.made.graphs.front();
    SlowSums sums(devices, graph.data[exchange.gradient].bytes);
    for (const ScheduleStep& step : steps) {
      if (IsExchange(step) && step.index == exchange.gradient) sums.Perform(step);
      if (step.kind != StepKind::kRun || step.device == kHostDevice) continue;
      const GraphTask& task = graph.tasks[step.index];
      const bool reads = std::ranges::count(task.reads, exchange.gradient) > 0;
      if (task.phase != TaskPhase::kUpdate || !reads) continue;
      EXPECT_TRUE(sums.IsWhole(step.device)) << trial;
    }
  }
  EXPECT_GT(taken, 20);
}

// Steps are in one order for all devices: those of a circle of waits name data that is not ready.
TEST(Reduction, NoDevicesWaitForEachOther) {
  SmallExchange exchange(2, GradientReduction::kRing);
  std::vector<ScheduleStep>& steps = exchange.made.schedule.steps;
  const ScheduleStep step = steps[exchange.steps.front()];
  const auto runs = [&](const ScheduleStep& one) {
    if (one.kind != StepKind::kRun || one.device != step.source) return false;
    const GraphTask& task = exchange.made.graphs.front().tasks[one.index];
    return std::ranges::count(task.writes, exchange.gradient) > 0;
  };
  const auto run = std::ranges::find_if(steps, runs);
  ASSERT_NE(run, steps.end());
  std::rotate(run, run + 1,
              steps.begin() + static_cast<std::ptrdiff_t>(exchange.steps.front()) + 1);
  EXPECT_THAT(std::string(exchange.Validate().message()), HasSubstr("is not ready"));
}

TEST(Reduction, RefusesExchangesThatNoMachineHas) {
  const GraphFamily family =
      ReducedFamily("alexnet", DataHome::kDevice, Optimizer::kGradientDescent);
  const auto error_of = [&](const ScheduleRequest& request) {
    const absl::StatusOr<MadeSchedule> made = MakeSchedule("none", family, request);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  };
  ScheduleRequest request = ReducedRequest(2, kWholeBatch, GradientReduction::kRing);
  request.machine.peers = {};
  EXPECT_EQ(error_of(request),
            "the reduction ring on a machine without links of peers, expected a rate at which "
            "devices reach each other, or a reduction by the host");
  request.machine.peers.bytes_per_second = 0.5;
  EXPECT_EQ(error_of(request),
            "links of peers: a rate of 0.5 bytes per second, expected at least 1");
  request.machine.peers = {.is_bus = true};
  EXPECT_EQ(error_of(request), "links of peers: a rate of 0 bytes per second, expected at least 1");
  request = ReducedRequest(2, kWholeBatch, GradientReduction::kRing);
  request.batch = 1;
  EXPECT_EQ(error_of(request), "a batch of 1 samples on 2 devices, expected a multiple of 2");
  const SmallExchange exchange(2, GradientReduction::kRing);
  Machine machine = exchange.made.machine;
  machine.peers = {};
  EXPECT_THAT(
      std::string(
          LowerSchedule(exchange.made.graphs, exchange.made.schedule, machine).status().message()),
      HasSubstr("expected a machine with connections between its devices"));
}

TEST(Reduction, RefusesWrongSteps) {
  SmallExchange exchange(2, GradientReduction::kRing);
  const std::size_t at = exchange.steps.front();
  const ScheduleStep right = exchange.made.schedule.steps[at];
  ScheduleStep& step = exchange.made.schedule.steps[at];
  const auto error = [&] { return std::string(exchange.Validate().message()); };
  step.source = step.device;
  EXPECT_THAT(error(), HasSubstr("expected another device, with a number below 2"));
  step.source = 2;
  EXPECT_THAT(error(), HasSubstr("expected another device, with a number below 2"));
  step = right;
  step.end = step.begin + 8;
  EXPECT_THAT(error(), HasSubstr("expected multiples of 16"));
  step = right;
  step.index = 0;
  step.end = -1;
  EXPECT_THAT(error(), HasSubstr("expected one: devices add nothing else"));
  step = right;
  step.kind = StepKind::kDrop;
  EXPECT_THAT(error(), HasSubstr("expected 0 for all steps but receive and add"));
}

}  // namespace
}  // namespace tidepool
