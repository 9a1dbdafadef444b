// SPDX-License-Identifier: Apache-2.0
// Data-parallel training with real threads: several host devices add up their gradients, and each
// task reads the weights of a training on one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/host_device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

// Layers with weights of any size. A weight's gradient is a sum over samples of small whole
// numbers, so that its order does not matter.
class SummedLayers {
 public:
  SummedLayers(std::size_t layers, DataHome weights, std::mt19937_64& random) {
    TaskGraph& graph = family.graph;
    const auto add = [&](std::string name, std::int64_t bytes, std::int64_t per_sample,
                         DataKind kind, DataHome home) {
      graph.data.push_back({std::move(name), bytes, kind});
      graph.data.back().before = graph.data.back().after = home;
      if (kind == DataKind::kInput) graph.data.back().after = DataHome::kNowhere;
      family.bytes_per_sample.push_back(per_sample);
      return graph.data.size() - 1;
    };
    std::vector<std::size_t> maps = {add("input", 0, 64, DataKind::kInput, DataHome::kHost)};
    for (std::size_t i = 0; i < layers; ++i) {
      const std::string name = absl::StrCat(i);
      const auto count = std::uniform_int_distribution<std::int64_t>(1, 900)(random);
      weights_.push_back(add("w" + name, 4 * count, 0, DataKind::kWeight, weights));
      gradients_.push_back(
          add("g" + name, 4 * count, 0, DataKind::kWeightGradient, DataHome::kNowhere));
      states_.push_back(add("v" + name, 4 * count, 0, DataKind::kOptimizerState, weights));
      maps.push_back(add("x" + name, 0, 32, DataKind::kActivation, DataHome::kNowhere));
    }
    const auto run = [&](std::string name, TaskPhase phase, std::vector<std::size_t> reads,
                         std::vector<std::size_t> writes, std::vector<std::size_t> updates) {
      graph.tasks.push_back({.name = std::move(name),
                             .phase = phase,
                             .reads = std::move(reads),
                             .writes = std::move(writes),
                             .updates = std::move(updates)});
      family.costs.push_back({{.name = "only", .seconds = {1e-5}, .workspace_bytes = {700}}});
    };
    for (std::size_t i = 0; i < layers; ++i) {
      run(absl::StrCat("forward ", i), TaskPhase::kForward, {maps[i], weights_[i]}, {maps[i + 1]},
          {});
    }
    for (std::size_t i = layers; i-- > 0;) {
      run(absl::StrCat("backward ", i), TaskPhase::kBackward, {maps[i + 1], weights_[i]},
          {gradients_[i]}, {});
    }
    for (std::size_t i = 0; i < layers; ++i) {
      run(absl::StrCat("update ", i), TaskPhase::kUpdate, {gradients_[i]}, {},
          {weights_[i], states_[i]});
    }
    graph.name = "summed layers";
    family.batches = {1, 64};
  }

  GraphFamily family;

  std::size_t LayerOf(std::size_t task) const {
    const std::size_t layers = weights_.size();
    return task < layers ? task : task < 2 * layers ? 2 * layers - 1 - task : task - 2 * layers;
  }
  std::size_t CountOf(std::size_t layer) const {
    return static_cast<std::size_t>(family.graph.data[weights_[layer]].bytes) / sizeof(float);
  }
  static float First(std::size_t at) { return static_cast<float>(at % 5); }
  static float Slope(std::size_t layer, std::size_t at, std::int64_t sample) {
    const std::size_t mixed = (layer + 3) * (at + 7) * static_cast<std::size_t>(sample + 11);
    return static_cast<float>(mixed % 7) - 3;
  }
  // Returns a weight after some iterations of a batch.
  static float Trained(std::size_t layer, std::size_t at, std::int64_t batch, int iterations) {
    float sum = 0;
    for (std::int64_t sample = 0; sample < batch; ++sample) sum += Slope(layer, at, sample);
    float weight = First(at);
    for (int i = 0; i < iterations; ++i) weight -= sum + static_cast<float>(i);
    return weight;
  }

 private:
  std::vector<std::size_t> weights_;
  std::vector<std::size_t> gradients_;
  std::vector<std::size_t> states_;
};

// Runs a schedule on host devices, and compares all weights that tasks read.
class SummedTraining {
 public:
  SummedTraining(const SummedLayers& layers, MadeSchedule made)
      : layers_(layers), made_(std::move(made)) {
    for (std::size_t i = 0; i < made_.schedule.devices; ++i) {
      devices_.push_back(HostDevice::Create({.granularity = sysconf(_SC_PAGESIZE)}).value());
    }
  }

  absl::Status Create(bool measures = false) {
    std::vector<Device*> devices;
    for (const auto& device : devices_) devices.push_back(device.get());
    auto made = Executor::Create(
        devices, made_.graphs, made_.schedule, made_.machine,
        [this](const TaskLaunch& launch) { return Launch(launch); },
        [this](const HomeFill& fill) { return Fill(fill); },
        {.measures = measures,
         .add_received = [this](const ReceivedGradient& gradient) { return Add(gradient); }});
    if (made.ok()) executor_ = *std::move(made);
    return made.status();
  }

  // Runs an iteration after `before` others since the creation or a failure. Returns the number of
  // weights that differ from those of one device.
  absl::StatusOr<std::size_t> Run(int before) {
    before_ = before;
    wrong_.assign(made_.schedule.devices, 0);
    compared_ = 0;
    timeline_ = executor_->Run();
    if (!timeline_.ok()) return timeline_.status();
    std::size_t wrong = 0;
    for (const std::size_t count : wrong_) wrong += count;
    return compared_ > 0 ? wrong : wrong + 1;
  }

  HostDevice& device(std::size_t number) { return *devices_[number]; }
  const Timeline& timeline() const { return *timeline_; }

 private:
  HostDevice& DeviceOf(std::size_t number) { return *devices_[number == kHostDevice ? 0 : number]; }

  absl::Status Launch(const TaskLaunch& launch) {
    const std::size_t layer = layers_.LayerOf(launch.task);
    const TaskPhase phase = made_.graphs[launch.graph].tasks[launch.task].phase;
    if (phase == TaskPhase::kForward) ++compared_;
    return DeviceOf(launch.device).CallHost(launch.stream, [this, launch, layer, phase] {
      if (phase == TaskPhase::kForward) return Compare(launch, layer);
      phase == TaskPhase::kBackward ? MakeGradient(launch, layer) : Update(launch, layer);
    });
  }

  void Compare(const TaskLaunch& launch, std::size_t layer) {
    const auto* const weights = static_cast<const float*>(launch.reads[1]);
    for (std::size_t i = 0; i < layers_.CountOf(layer); ++i) {
      if (weights[i] != SummedLayers::Trained(layer, i, made_.batch, before_)) {
        ++wrong_[launch.device];
      }
    }
  }

  void MakeGradient(const TaskLaunch& launch, std::size_t layer) {
    auto* const gradient = static_cast<float*>(launch.writes[0]);
    const auto devices = static_cast<std::int64_t>(made_.schedule.devices);
    const std::int64_t first = static_cast<std::int64_t>(launch.device) * made_.batch / devices +
                               launch.repetition * made_.sub_batch;
    for (std::size_t i = 0; i < layers_.CountOf(layer); ++i) {
      float sum = launch.adds[0] != 0 ? gradient[i] : 0;
      for (std::int64_t k = 0; k < made_.graphs[launch.graph].batch; ++k) {
        sum += SummedLayers::Slope(layer, i, first + k);
      }
      gradient[i] = sum;
    }
  }

  void Update(const TaskLaunch& launch, std::size_t layer) {
    auto* const weights = static_cast<float*>(launch.updates[0]);
    auto* const state = static_cast<float*>(launch.updates[1]);
    for (std::size_t i = 0; i < layers_.CountOf(layer); ++i) {
      for (const void* gradient : launch.reads) {
        weights[i] -= static_cast<const float*>(gradient)[i];
      }
      weights[i] -= state[i];
      state[i] += 1;
    }
  }

  absl::Status Add(const ReceivedGradient& gradient) {
    return devices_[gradient.device]->CallHost(gradient.stream, [gradient] {
      auto* const sum = static_cast<float*>(gradient.sum);
      const auto* const received = static_cast<const float*>(gradient.received);
      const auto count = static_cast<std::size_t>(gradient.bytes) / sizeof(float);
      for (std::size_t i = 0; i < count; ++i) sum[i] += received[i];
    });
  }

  absl::Status Fill(const HomeFill& fill) {
    const bool is_weight = made_.graphs[0].data[fill.data].kind == DataKind::kWeight;
    return devices_[fill.device]->CallHost(fill.stream, [fill, is_weight] {
      auto* const values = static_cast<float*>(fill.address);
      const auto count = static_cast<std::size_t>(fill.bytes) / sizeof(float);
      for (std::size_t i = 0; i < count; ++i) values[i] = is_weight ? SummedLayers::First(i) : 0;
    });
  }

  const SummedLayers& layers_;
  const MadeSchedule made_;
  std::vector<std::unique_ptr<HostDevice>> devices_;
  int before_ = 0;
  std::vector<std::size_t> wrong_;  // by device
  std::size_t compared_ = 0;
  absl::StatusOr<Timeline> timeline_;
  std::unique_ptr<Executor> executor_;
};

MadeSchedule MadeFor(const SummedLayers& layers, std::size_t devices, std::int64_t sub_batch,
                     GradientReduction reduction, ScheduleMemory memory = ScheduleMemory::kFixed) {
  ScheduleRequest request = {.batch = static_cast<std::int64_t>(5 * devices),
                             .sub_batch = sub_batch,
                             .devices = devices,
                             .reduction = reduction,
                             .memory = memory};
  request.machine.devices.assign(devices, {.memory_bytes = 1 << 20});
  request.machine.host.cores = 2;
  request.machine.peers.bytes_per_second = 50e9;
  absl::StatusOr<MadeSchedule> made = MakeSchedule("none", layers.family, request);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

constexpr GradientReduction kReductions[] = {
    GradientReduction::kHost, GradientReduction::kFirstDevice, GradientReduction::kRing};

class ExchangeInMemory : public ::testing::TestWithParam<ScheduleMemory> {};

INSTANTIATE_TEST_SUITE_P(Memory, ExchangeInMemory,
                         ::testing::Values(ScheduleMemory::kFixed, ScheduleMemory::kPaged),
                         [](const auto& memory) {
                           return std::string(ScheduleMemoryName(memory.param));
                         });

TEST_P(ExchangeInMemory, WeightsAreThoseOfOneDevice) {
  std::mt19937_64 random(3);
  for (const DataHome weights : {DataHome::kDevice, DataHome::kHost}) {
    for (const GradientReduction reduction : kReductions) {
      for (std::size_t devices = 1; devices <= 5; ++devices) {
        const auto sub_batch = static_cast<std::int64_t>(2 + devices % 4);
        SCOPED_TRACE(absl::StrCat(std::string(GradientReductionName(reduction)), ", ", devices,
                                  " devices, sub-batch ", sub_batch));
        const SummedLayers layers(1 + devices, weights, random);
        SummedTraining training(layers, MadeFor(layers, devices, sub_batch, reduction, GetParam()));
        ASSERT_EQ(training.Create(), absl::OkStatus());
        for (int iteration = 0; iteration < 3; ++iteration) {
          const absl::StatusOr<std::size_t> wrong = training.Run(iteration);
          ASSERT_TRUE(wrong.ok()) << wrong.status();
          EXPECT_EQ(*wrong, 0) << iteration;
        }
      }
    }
  }
}

TEST(Exchange, TheTimelineHasTheCopiesBetweenDevices) {
  std::mt19937_64 random(4);
  const SummedLayers layers(2, DataHome::kDevice, random);
  const MadeSchedule made = MadeFor(layers, 3, 5, GradientReduction::kRing);
  SummedTraining training(layers, made);
  ASSERT_EQ(training.Create(/*measures=*/true), absl::OkStatus());
  ASSERT_TRUE(training.Run(0).ok());
  const Timeline predicted = Simulate(made).value();
  EXPECT_EQ(training.timeline().bytes_received, predicted.bytes_received);
  EXPECT_GT(predicted.bytes_received, 0);
  const auto count = [](const Timeline& timeline, TimelineEvent::Kind kind) {
    return std::ranges::count(timeline.events, kind, &TimelineEvent::kind);
  };
  for (const auto kind : {TimelineEvent::Kind::kReceive, TimelineEvent::Kind::kAdd}) {
    EXPECT_EQ(count(training.timeline(), kind), count(predicted, kind));
  }
}

// After any failed call of a device the training begins again, with the first weights.
TEST(Exchange, ADeviceThatFailsEndsTheIterationAndNoMore) {
  std::mt19937_64 random(5);
  const SummedLayers layers(2, DataHome::kDevice, random);
  for (const GradientReduction reduction : kReductions) {
    SummedTraining training(layers, MadeFor(layers, 3, 5, reduction));
    ASSERT_EQ(training.Create(), absl::OkStatus());
    for (std::size_t device = 0; device < 3; ++device) {
      for (int call = 1; call < 40; call += 3) {
        training.device(device).FailCall(HostDevice::Call::kAny, call);
        const absl::StatusOr<std::size_t> failed = training.Run(0);
        training.device(device).FailCall(HostDevice::Call::kAny, 0);
        if (failed.ok()) break;
        const absl::StatusOr<std::size_t> wrong = training.Run(0);
        ASSERT_TRUE(wrong.ok()) << wrong.status();
        EXPECT_EQ(*wrong, 0) << "device " << device << ", call " << call;
        training.device(device).FailCall(HostDevice::Call::kAny, 1);
        EXPECT_FALSE(training.Run(1).ok());
        training.device(device).FailCall(HostDevice::Call::kAny, 0);
      }
    }
  }
}

TEST(Exchange, AsksForAFunctionThatAdds) {
  std::mt19937_64 random(6);
  const SummedLayers layers(1, DataHome::kDevice, random);
  const MadeSchedule made = MadeFor(layers, 2, 5, GradientReduction::kRing);
  const auto first = HostDevice::Create({}).value();
  const auto second = HostDevice::Create({}).value();
  const auto executor =
      Executor::Create({first.get(), second.get()}, made.graphs, made.schedule, made.machine,
                       [](const TaskLaunch& /*launch*/) { return absl::OkStatus(); }, nullptr, {});
  EXPECT_EQ(executor.status().message(),
            "devices add gradients up, and no function was given, expected `add_received`");
}

}  // namespace
}  // namespace tidepool
