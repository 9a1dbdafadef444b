// SPDX-License-Identifier: Apache-2.0
// Iterations on a GPU: kernels find the last written pattern in every buffer, however often it went
// to the host and back meanwhile.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/gpu/patterns.h"
#include "tests/support/pool_schedule.h"
#include "tidepool/cuda_device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

constexpr std::int64_t kShortDelayNs = 20'000;

// Sizes are whole words, and so small that a test is short.
TaskGraph SmallNetwork(const std::string& name) {
  TaskGraph graph = MakeModel(name, {.batch = 32}).value();
  const std::int64_t divisor = (std::int64_t{2} << 30) / (1024 * gpu::Unit());
  const auto shrunk = [&](std::int64_t bytes) { return bytes / divisor & -4; };
  for (GraphData& data : graph.data) data.bytes = shrunk(data.bytes) + 4;
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) {
      algorithm.workspace_bytes = shrunk(algorithm.workspace_bytes);
    }
  }
  return graph;
}

class GpuOffloadTest : public ::testing::Test {
 protected:
  GpuOffloadTest() : device_(CudaDevice::Create({}).value()) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&damaged_), sizeof *damaged_), cudaSuccess);
    EXPECT_EQ(cudaMemset(damaged_, 0, sizeof *damaged_), cudaSuccess);
  }
  ~GpuOffloadTest() override { EXPECT_EQ(cudaFree(damaged_), cudaSuccess); }

  unsigned long long DamagedWords() const {
    unsigned long long words = 0;
    EXPECT_EQ(cudaMemcpy(&words, damaged_, sizeof words, cudaMemcpyDeviceToHost), cudaSuccess);
    return words;
  }

  // Each datum has a pattern of its own, which updates write again.
  LaunchTask Launch(const TaskGraph& graph) {
    return [this, &graph](const TaskLaunch& launch) {
      const GraphTask& task = graph.tasks[launch.task];
      Check(graph, task.reads, launch.reads, launch.stream);
      Check(graph, task.updates, launch.updates, launch.stream);
      Write(graph, task.writes, launch.writes, launch.stream);
      Write(graph, task.updates, launch.updates, launch.stream);
      return absl::OkStatus();
    };
  }
  FillHome Fill(const TaskGraph& graph) {
    return [this, &graph](const HomeFill& fill) {
      Write(graph, {fill.data}, {fill.address}, fill.stream);
      return absl::OkStatus();
    };
  }

  void ExpectIntact(const std::string& name, const std::string& policy,
                    const std::string& placement) {
    const TaskGraph graph = SmallNetwork(name);
    testing::PoolPolicy options;
    options.set = OffloadSet::kAll;
    options.machine.memory() = std::int64_t{1} << 40;
    options.machine.placing.placement = placement;
    const Schedule schedule = testing::MakePoolSchedule(policy, graph, options).value();
    options.machine.memory() = Simulate(graph, schedule, options.machine)->pool_bytes;
    const Machine& machine = options.machine.machine;
    const Timeline simulated = Simulate(graph, schedule, options.machine).value();
    const PlacedSchedule placed =
        PlaceInPool(graph, schedule, machine, options.machine.placing).value();
    const auto executor = Executor::Create({device_.get()}, {graph}, placed.schedule, machine,
                                           Launch(graph), Fill(graph), {})
                              .value();
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<Timeline> timeline = executor->Run();
      ASSERT_TRUE(timeline.ok()) << timeline.status();
      EXPECT_EQ(timeline->bytes_out, simulated.bytes_out);
      EXPECT_EQ(timeline->bytes_in, simulated.bytes_in);
    }
    EXPECT_EQ(DamagedWords(), 0);
  }

 private:
  cudaStream_t Native(Stream stream) { return *device_->NativeStream(stream); }

  void Write(const TaskGraph& graph, const std::vector<std::size_t>& uses,
             const std::vector<void*>& addresses, Stream stream) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      EXPECT_EQ(
          gpu::WritePattern(addresses[i], graph.data[uses[i]].bytes,
                            static_cast<std::uint32_t>(uses[i]), kShortDelayNs, Native(stream)),
          cudaSuccess);
    }
  }
  void Check(const TaskGraph& graph, const std::vector<std::size_t>& uses,
             const std::vector<void*>& addresses, Stream stream) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      EXPECT_EQ(gpu::CheckPattern(addresses[i], graph.data[uses[i]].bytes,
                                  static_cast<std::uint32_t>(uses[i]), 0, damaged_, Native(stream)),
                cudaSuccess);
    }
  }

  const std::unique_ptr<CudaDevice> device_;
  unsigned long long* damaged_ = nullptr;
};

TEST_F(GpuOffloadTest, IterationsKeepTheirData) {
  for (const char* policy : {"vdnn", "vdnn++"}) {
    for (const char* placement : {"best-fit", "planned"}) {
      SCOPED_TRACE(std::string(policy) + ", " + placement);
      ExpectIntact("alexnet", policy, placement);
    }
  }
}

TEST_F(GpuOffloadTest, ResidualNetworksToo) { ExpectIntact("resnet-50", "vdnn++", "planned"); }

}  // namespace
}  // namespace tidepool
