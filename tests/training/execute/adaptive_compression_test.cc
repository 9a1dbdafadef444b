// SPDX-License-Identifier: Apache-2.0
// Iterations with data of changing density on the host device: densities are probed, compression is
// chosen again, and tasks read the right bytes.
#include "tidepool/training/adaptive_compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/pool_schedule.h"
#include "tests/training/execute/placed_rig.h"
#include "tidepool/training/executor.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kLayers = 6;
constexpr std::int64_t kBytes = 400'000;

// A chain of convolutions, and their backward pass.
TaskGraph Chain() {
  TaskGraph graph;
  graph.name = "chain";
  graph.batch = 1;
  graph.data.push_back({"x0", kBytes, DataKind::kInput});
  for (std::size_t i = 1; i <= kLayers; ++i) {
    graph.data.push_back({absl::StrCat("x", i), kBytes, DataKind::kActivation});
  }
  for (std::size_t i = 0; i <= kLayers; ++i) {
    graph.data.push_back({absl::StrCat("dx", i), 5'000, DataKind::kGradient});
  }
  const auto add = [&](std::string name, std::size_t layer, TaskPhase phase,
                       std::vector<std::size_t> reads, std::size_t write) {
    graph.tasks.push_back({.name = std::move(name),
                           .layer = absl::StrCat("conv", layer),
                           .operation = "conv",
                           .phase = phase,
                           .reads = std::move(reads),
                           .writes = {write},
                           .algorithms = {{"plain", 1.0}}});
  };
  const std::size_t gradients = kLayers + 1;
  for (std::size_t i = 1; i <= kLayers; ++i) {
    add(absl::StrCat("forward", i), i, TaskPhase::kForward, {i - 1}, i);
  }
  add("loss", kLayers + 1, TaskPhase::kBackward, {kLayers}, gradients + kLayers);
  for (std::size_t i = kLayers; i >= 1; --i) {
    add(absl::StrCat("backward", i), i, TaskPhase::kBackward, {i - 1, gradients + i},
        gradients + i - 1);
  }
  return graph;
}

// Changes words so that this share is not zero.
void Thin(void* data, std::int64_t bytes, double density) {
  for (std::int64_t i = 0; i < bytes / 4; ++i) {
    auto* const word = static_cast<std::byte*>(data) + 4 * i;
    const bool stays = static_cast<double>(Mix(7, i) % 1000) < density * 1000;
    if (stays) *word |= std::byte{1};
    if (!stays) std::memset(word, 0, 4);
  }
}

void FillInput(void* data) {
  WritePattern(data, kBytes, 1000);
  Thin(data, kBytes, 1);
}

std::uint64_t DoThinTask(const TaskGraph& graph, const TaskLaunch& launch, double density) {
  const std::uint64_t hash = DoTask(graph, launch);
  const GraphTask& task = graph.tasks[launch.task];
  for (std::size_t i = 0; i < task.writes.size(); ++i) {
    Thin(launch.writes[i], graph.data[task.writes[i]].bytes, density);
  }
  return hash;
}

// Returns the hashes of tasks of one iteration in plain memory.
std::vector<std::uint64_t> PlainHashes(const TaskGraph& graph, double density) {
  std::vector<std::vector<std::uint8_t>> data;
  for (const GraphData& datum : graph.data) {
    data.emplace_back(static_cast<std::size_t>(datum.bytes));
  }
  FillInput(data[0].data());
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    TaskLaunch launch = {.task = i, .stream = {}};
    for (const std::size_t read : graph.tasks[i].reads) launch.reads.push_back(data[read].data());
    for (const std::size_t one : graph.tasks[i].writes) launch.writes.push_back(data[one].data());
    hashes.push_back(DoThinTask(graph, launch, density));
  }
  return hashes;
}

class AdaptiveRun : public ::testing::Test {
 protected:
  AdaptiveRun() : hashes_(graph_.tasks.size()) {
    options_.machine.memory() = 4 << 20;
    options_.set = OffloadSet::kAll;
    options_.densities = std::vector<double>(graph_.data.size(), 1);
    CompressionProfile& profile = options_.machine.placing.compression;
    profile.words32 = {{0.01, 0.01}, {0.01, 0.01}, 1};
    profile.slot_ns = 0;
    const Schedule schedule = testing::MakePoolSchedule("vdnn++", graph_, options_).value();
    const Timeline timeline = Simulate(graph_, schedule, options_.machine).value();
    adaptive_ = std::make_unique<AdaptiveCompression>(
        AdaptiveCompression::Create(graph_, timeline,
                                    {.machine = options_.machine.machine,
                                     .placing = options_.machine.placing,
                                     .densities = options_.densities})
            .value());
    executor_ = Create(Place(timeline), 2).value();
  }

  absl::StatusOr<std::unique_ptr<Executor>> Create(const Schedule& schedule, int probe_every) {
    return Executor::Create(
        {device_.get()}, {graph_}, schedule, options_.machine.machine,
        [this](const TaskLaunch& launch) {
          return device_->CallHost(launch.stream, [this, launch, density = density_] {
            hashes_[launch.task] = DoThinTask(graph_, launch, density);
          });
        },
        [this](const HomeFill& fill) {
          return device_->CallHost(fill.stream, [address = fill.address] { FillInput(address); });
        },
        {.probe_every = probe_every,
         .on_density =
             [this](std::size_t data, const DensityEstimate& estimate) {
               densities_[data] = estimate;
               adaptive_->Note(data, estimate);
             },
         .pipeline = pipeline_.get()});
  }
  // Returns the schedule with the simulated addresses.
  Schedule Place(const Timeline& timeline) const {
    PlacingOptions placing = options_.machine.placing;
    placing.plan = timeline.plan;
    return PlaceInPool(graph_, timeline.resolved, options_.machine.machine, placing)
        .value()
        .schedule;
  }

  // Runs an iteration with data of this density, and returns whether compression was chosen again.
  bool Iterate(double density) {
    density_ = density;
    densities_.clear();
    const absl::StatusOr<Timeline> timeline = executor_->Run();
    EXPECT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_EQ(hashes_, PlainHashes(graph_, density)) << density;
    const absl::StatusOr<std::optional<Timeline>> chosen = adaptive_->ChooseAgain();
    EXPECT_TRUE(chosen.ok()) << chosen.status();
    if (!chosen->has_value()) return false;
    EXPECT_EQ(executor_->Reschedule(Place(**chosen)), absl::OkStatus());
    return true;
  }

  int Compressed() const {
    int compressed = 0;
    for (const ScheduleStep& step : adaptive_->schedule().steps) compressed += step.density >= 0;
    return compressed;
  }

  const TaskGraph graph_ = Chain();
  testing::PoolPolicy options_;
  const std::unique_ptr<HostDevice> device_ = HostDevice::Create({}).value();
  testing::SmallPipeline pipeline_{*device_, 8 << 20};
  std::vector<std::uint64_t> hashes_;
  double density_ = 1;
  std::map<std::size_t, DensityEstimate> densities_;
  std::unique_ptr<AdaptiveCompression> adaptive_;
  std::unique_ptr<Executor> executor_;
};

// Iterations 1, 3, 5, ... probe.
TEST_F(AdaptiveRun, ChoosesAgainWhenADensityLeavesItsBand) {
  EXPECT_FALSE(Iterate(1));
  EXPECT_EQ(densities_.size(), kLayers);  // x0 to x5 leave
  EXPECT_FALSE(Iterate(0.3));             // not probed
  EXPECT_TRUE(densities_.empty());
  EXPECT_TRUE(Iterate(0.3));
  // The input is dense.
  EXPECT_EQ(Compressed(), kLayers - 1);
  EXPECT_NEAR(densities_[3].density, 0.3, 0.05);
  EXPECT_FALSE(Iterate(0.3));
  EXPECT_FALSE(Iterate(0.305));  // probed, within the band
  EXPECT_EQ(densities_.size(), kLayers);
  EXPECT_TRUE(densities_[3].is_exact);  // counted while it was compressed
  EXPECT_FALSE(Iterate(0.305));
  EXPECT_TRUE(Iterate(1));
  EXPECT_EQ(Compressed(), 0);
  EXPECT_FALSE(Iterate(1));
  EXPECT_EQ(adaptive_->choices(), 2);
}

TEST_F(AdaptiveRun, WithoutProbesNothingIsNoted) {
  executor_ =
      Create(Place(Simulate(graph_, adaptive_->schedule(), options_.machine).value()), 0).value();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Iterate(0.2));
  EXPECT_EQ(adaptive_->noted(), 0);
}

TEST_F(AdaptiveRun, RefusesProbesThatTellNobody) {
  const Schedule placed = Place(Simulate(graph_, adaptive_->schedule(), options_.machine).value());
  EXPECT_THAT(Create(placed, -1).status().message(), HasSubstr("expected 0 or more"));
  const LaunchTask launch = [](const TaskLaunch& /*launch*/) { return absl::OkStatus(); };
  EXPECT_THAT(Executor::Create({device_.get()}, {graph_}, placed, options_.machine.machine, launch,
                               nullptr, {.probe_every = 1})
                  .status()
                  .message(),
              HasSubstr("without a function on_density"));
}

}  // namespace
}  // namespace tidepool
