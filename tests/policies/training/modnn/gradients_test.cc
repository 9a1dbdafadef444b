// SPDX-License-Identifier: Apache-2.0
// Trains a small network on host devices by schedules of moDNN: gradients of sub-batches and of
// several devices are those of the whole batch, up to the order of summation.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/policies/training/modnn/valid_schedule.h"
#include "tidepool/host_device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool {
namespace {

constexpr std::size_t kLayers = 5;
constexpr std::size_t kWidth = 6;
constexpr std::int64_t kBatch = 12;
constexpr std::int64_t kRow = kWidth * sizeof(double);

// The numbers of data and tasks of a network of linear layers with tanh in between.
struct Network {
  GraphFamily family;
  std::map<std::string, std::size_t> data;

  std::size_t Add(const std::string& name, DataKind kind, std::int64_t fixed, std::int64_t row) {
    GraphData one = {name, fixed, kind};
    if (kind == DataKind::kWeightGradient) one.before = one.after = DataHome::kDevice;
    if (kind == DataKind::kInput) one.before = DataHome::kHost;
    family.graph.data.push_back(one);
    family.bytes_per_sample.push_back(row);
    return data[name] = family.graph.data.size() - 1;
  }
  void AddTask(GraphTask task) {
    family.graph.tasks.push_back(std::move(task));
    family.costs.push_back({{"a", {1e-3}, {0}}});
  }
};

std::string Of(const char* name, std::size_t layer) { return name + std::to_string(layer); }

Network MakeNetwork() {
  Network net;
  net.family.graph.name = "linear";
  net.family.batches = {1, kBatch};
  net.Add("y0", DataKind::kInput, 0, kRow);
  net.Add("label", DataKind::kInput, 0, kRow);
  for (std::size_t l = 1; l <= kLayers; ++l) {
    net.Add(Of("w", l), DataKind::kWeight, kWidth * kRow, 0);
    net.Add(Of("g", l), DataKind::kWeightGradient, kWidth * kRow, 0);
    net.Add(Of("y", l), DataKind::kActivation, 0, kRow);
    net.Add(Of("d", l), DataKind::kGradient, 0, kRow);
  }
  const auto at = [&](const char* name, std::size_t l) { return net.data.at(Of(name, l)); };
  for (std::size_t l = 1; l <= kLayers; ++l) {
    net.AddTask(
        {.name = Of("forward", l), .reads = {at("y", l - 1), at("w", l)}, .writes = {at("y", l)}});
  }
  net.AddTask({.name = "loss",
               .phase = TaskPhase::kBackward,
               .reads = {at("y", kLayers), net.data.at("label")},
               .writes = {at("d", kLayers)}});
  for (std::size_t l = kLayers; l >= 1; --l) {
    net.AddTask({.name = Of("weights", l),
                 .phase = TaskPhase::kBackward,
                 .reads = {at("y", l - 1), at("d", l)},
                 .writes = {at("g", l)}});
    if (l == 1) break;
    net.AddTask({.name = Of("data", l),
                 .phase = TaskPhase::kBackward,
                 .reads = {at("y", l - 1), at("d", l), at("w", l)},
                 .writes = {at("d", l - 1)}});
  }
  for (std::size_t l = 1; l <= kLayers; ++l) {
    net.AddTask({.name = Of("update", l),
                 .phase = TaskPhase::kUpdate,
                 .reads = {at("g", l)},
                 .updates = {at("w", l)}});
  }
  return net;
}

double* Numbers(void* address) { return static_cast<double*>(address); }

// Computes tasks, and keeps the gradients that updates read.
class Training {
 public:
  Training(const Network& net, const MadeSchedule& made) : net_(net), made_(made) {}

  // Returns the gradients of all layers after one iteration.
  std::vector<double> Run() {
    std::vector<std::unique_ptr<HostDevice>> devices;
    std::vector<Device*> pointers;
    for (std::size_t i = 0; i < made_.schedule.devices; ++i) {
      devices.push_back(HostDevice::Create({}).value());
      pointers.push_back(devices.back().get());
    }
    const auto call = [&](std::size_t device, Stream stream, auto function) {
      return pointers[device == kHostDevice ? 0 : device]->CallHost(stream, function);
    };
    auto executor = Executor::Create(
        pointers, made_.graphs, made_.schedule, made_.machine,
        [&](const TaskLaunch& launch) {
          return call(launch.device, launch.stream, [this, launch] { Compute(launch); });
        },
        [&](const HomeFill& fill) {
          return call(fill.device, fill.stream, [this, fill] { Fill(fill); });
        },
        {});
    EXPECT_TRUE(executor.ok()) << executor.status();
    const absl::StatusOr<Timeline> timeline = (*executor)->Run();
    EXPECT_TRUE(timeline.ok()) << timeline.status();
    return gradients_;
  }

 private:
  std::size_t SamplesOf(std::size_t graph) const {
    return static_cast<std::size_t>(made_.graphs[graph].batch);
  }

  // Inputs are functions of the number of their sample in the whole batch.
  void Fill(const HomeFill& fill) {
    double* numbers = Numbers(fill.address);
    const std::string& name = net_.family.graph.data[fill.data].name;
    const bool is_input = net_.family.graph.data[fill.data].kind == DataKind::kInput;
    std::int64_t first = 0;
    if (is_input) {
      const auto devices = static_cast<std::int64_t>(made_.schedule.devices);
      first = static_cast<std::int64_t>(fill.owner) * (kBatch / devices) +
              fill.repetition * made_.sub_batch;
    }
    const double shift = static_cast<double>(name.front()) + static_cast<double>(name.back());
    for (std::int64_t i = 0; i < fill.bytes / static_cast<std::int64_t>(sizeof(double)); ++i) {
      const double index = static_cast<double>(first * static_cast<std::int64_t>(kWidth) + i);
      numbers[i] = std::sin(index * 1.7 + shift);
    }
  }

  void Compute(const TaskLaunch& launch) {
    const std::string& name = net_.family.graph.tasks[launch.task].name;
    const std::size_t samples = SamplesOf(launch.graph);
    const auto in = [&](std::size_t i) { return Numbers(launch.reads[i]); };
    if (name == "loss") return Subtract(samples, in(0), in(1), Numbers(launch.writes[0]));
    if (name[0] == 'f') return Forward(samples, in(0), in(1), Numbers(launch.writes[0]));
    if (name[0] == 'd') return Data(samples, in(0), in(1), in(2), Numbers(launch.writes[0]));
    if (name[0] == 'w') {
      return Weights(samples, in(0), in(1), launch.adds[0] != 0, Numbers(launch.writes[0]));
    }
    Keep(launch);
  }

  static void Subtract(std::size_t samples, const double* y, const double* label, double* d) {
    for (std::size_t i = 0; i < samples * kWidth; ++i) d[i] = y[i] - label[i];
  }
  static void Forward(std::size_t samples, const double* x, const double* w, double* y) {
    for (std::size_t s = 0; s < samples; ++s) {
      for (std::size_t o = 0; o < kWidth; ++o) {
        double sum = 0;
        for (std::size_t i = 0; i < kWidth; ++i) sum += x[s * kWidth + i] * w[i * kWidth + o];
        y[s * kWidth + o] = std::tanh(sum);
      }
    }
  }
  // The derivative of tanh is that of the layer's input, which is an output of tanh itself.
  static void Data(std::size_t samples, const double* x, const double* d, const double* w,
                   double* dx) {
    for (std::size_t s = 0; s < samples; ++s) {
      for (std::size_t i = 0; i < kWidth; ++i) {
        double sum = 0;
        for (std::size_t o = 0; o < kWidth; ++o) sum += d[s * kWidth + o] * w[i * kWidth + o];
        const double at = x[s * kWidth + i];
        dx[s * kWidth + i] = sum * (1 - at * at);
      }
    }
  }
  static void Weights(std::size_t samples, const double* x, const double* d, bool adds, double* g) {
    if (!adds) std::fill(g, g + kWidth * kWidth, 0.0);
    for (std::size_t s = 0; s < samples; ++s) {
      for (std::size_t i = 0; i < kWidth; ++i) {
        for (std::size_t o = 0; o < kWidth; ++o) {
          g[i * kWidth + o] += x[s * kWidth + i] * d[s * kWidth + o];
        }
      }
    }
  }

  // Adds up the gradients of all devices.
  void Keep(const TaskLaunch& launch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<double> sum(kWidth * kWidth);
    for (const void* copy : launch.reads) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<const double*>(copy)[i];
    }
    const auto layer =
        static_cast<std::size_t>(net_.family.graph.tasks[launch.task].name.back() - '1');
    gradients_.resize(kLayers * sum.size());
    std::copy(sum.begin(), sum.end(),
              gradients_.begin() + static_cast<std::ptrdiff_t>(layer * sum.size()));
  }

  const Network& net_;
  const MadeSchedule& made_;
  std::mutex mutex_;
  std::vector<double> gradients_;
};

constexpr std::int64_t kAmple = 1 << 20;

std::int64_t BoundOf(const Network& net, std::int64_t sub_batch,
                     StayingData staying = StayingData::kWeights) {
  return LeastMemory(GraphAt(net.family, sub_batch).value(), 64, staying).bytes;
}

std::vector<double> GradientsOf(const Network& net, std::int64_t sub_batch, std::size_t devices,
                                std::int64_t memory) {
  ScheduleRequest request = {.batch = kBatch, .sub_batch = sub_batch, .devices = devices};
  request.placing.alignment = 64;
  request.machine.devices.assign(devices, {.memory_bytes = memory});
  request.machine.links.front() = {.out_bytes_per_second = 1e6, .in_bytes_per_second = 1e6};
  request.machine.host.cores = 2;
  const absl::StatusOr<MadeSchedule> made = MakeSchedule("modnn", net.family, request);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return {};
  EXPECT_EQ(testing::CheckMade(*made), absl::OkStatus());
  const bool sends = std::any_of(
      made->schedule.steps.begin(), made->schedule.steps.end(), [&](const ScheduleStep& step) {
        return step.kind == StepKind::kOffload &&
               made->graphs[0].data[step.index].kind == DataKind::kActivation;
      });
  EXPECT_EQ(sends, memory < kAmple);
  return Training(net, *made).Run();
}

void ExpectNear(const std::vector<double>& sums, const std::vector<double>& whole) {
  ASSERT_EQ(sums.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_NEAR(sums[i], whole[i], 1e-12 * std::max(1.0, std::abs(whole[i]))) << i;
  }
}

TEST(ModnnGradients, AreThoseOfTheWholeBatch) {
  const Network net = MakeNetwork();
  ASSERT_EQ(ValidateFamily(net.family), absl::OkStatus());
  const std::vector<double> whole = GradientsOf(net, kBatch, 1, kAmple);
  ASSERT_EQ(whole.size(), kLayers * kWidth * kWidth);
  for (const std::size_t devices : {1, 2, 3}) {
    for (const std::int64_t sub_batch : {1, 3, 4, 5, 12}) {
      if (sub_batch * static_cast<std::int64_t>(devices) > kBatch) continue;
      for (const bool at_bound : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << devices << " devices, " << sub_batch << ", bound " << at_bound);
        const std::vector<double> sums =
            GradientsOf(net, sub_batch, devices, at_bound ? BoundOf(net, sub_batch) : kAmple);
        ExpectNear(sums, whole);
        if (sub_batch == kBatch) {
          EXPECT_EQ(sums, whole);
        }
      }
    }
  }
}

TEST(ModnnGradients, AreThoseOfTheWholeBatchWhereWeightsLeaveToo) {
  Network net = MakeNetwork();
  for (GraphData& data : net.family.graph.data) {
    if (data.kind == DataKind::kWeight) data.before = data.after = DataHome::kHost;
    if (data.kind == DataKind::kWeightGradient) data.before = data.after = DataHome::kNowhere;
  }
  const std::vector<double> whole = GradientsOf(net, kBatch, 1, kAmple);
  for (const std::int64_t sub_batch : {1, 3, 4, 5}) {
    SCOPED_TRACE(sub_batch);
    const std::int64_t bound = BoundOf(net, sub_batch, StayingData::kNone);
    ASSERT_LT(bound, BoundOf(net, sub_batch));
    ExpectNear(GradientsOf(net, sub_batch, 1, bound), whole);
  }
}

}  // namespace
}  // namespace tidepool
