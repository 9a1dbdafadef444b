// SPDX-License-Identifier: Apache-2.0
// Offloading on a GPU: copies in both directions at once against copies in one direction, and an
// iteration with transfers that fit under its compute against the same iteration without transfers.
#ifndef TIDEPOOL_BENCH_GPU_GPU_OFFLOAD_H_
#define TIDEPOOL_BENCH_GPU_GPU_OFFLOAD_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/pool_schedule.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/cuda_device.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/timeline.h"

namespace tidepool::bench {

class GpuOffload {
 public:
  explicit GpuOffload(CudaDevice& device) : device_(device) {
    stream_ = Take(device.CreateStream());
    PoolOptions pool;
    pool.initial_bytes = pool.max_bytes = kPoolBytes;
    pool_ = Take(Pool::Create(&device, pool));
    host_ = Take(PinnedPool::Create(&device, {.max_bytes = kPoolBytes}));
    OffloaderOptions options;
    options.release = OffloaderOptions::Release::kWhenAwaited;
    offloader_ = Take(Offloader::Create(&device, pool_.get(), host_.get(), options));
  }

  nlohmann::json Measure() {
    nlohmann::json json = Copies();
    json["iteration"] = Iteration();
    return json;
  }

 private:
  static constexpr std::int64_t kPoolBytes = std::int64_t{6} << 30;
  static constexpr std::int64_t kBufferBytes = std::int64_t{64} << 20;
  static constexpr int kBuffers = 16;
  static constexpr int kRounds = 7;

  template <typename T>
  static T Take(absl::StatusOr<T> value) {
    Check(value.status());
    return *std::move(value);
  }
  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "gpu_bench: offload: %s\n", status.ToString().c_str());
    std::exit(1);
  }
  static double Median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
    return values[kRounds / 2];
  }
  template <typename Work>
  double Seconds(Work work) {
    Check(offloader_->Synchronize());
    const auto begin = std::chrono::steady_clock::now();
    work();
    Check(offloader_->Synchronize());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  std::vector<BufferId> Buffers() {
    std::vector<BufferId> buffers;
    for (int i = 0; i < kBuffers; ++i) {
      buffers.push_back(Take(offloader_->Allocate(kBufferBytes, stream_)));
    }
    return buffers;
  }
  void Send(const std::vector<BufferId>& buffers) {
    for (const BufferId buffer : buffers) Check(offloader_->Offload(buffer, {}));
  }
  void Fetch(const std::vector<BufferId>& buffers) {
    for (const BufferId buffer : buffers) Check(offloader_->Prefetch(buffer, stream_));
  }

  // Returns the rates of each direction, alone and while the other direction runs.
  nlohmann::json Copies() {
    std::vector<BufferId> here = Buffers();
    std::vector<BufferId> there = Buffers();
    Seconds([&] { Send(there); });
    std::vector<double> out;
    std::vector<double> in;
    std::vector<double> both;
    for (int i = 0; i < kRounds; ++i) {
      out.push_back(Seconds([&] { Send(here); }));
      in.push_back(Seconds([&] { Fetch(here); }));
      both.push_back(Seconds([&] {
        Send(here);
        Fetch(there);
      }));
      std::swap(here, there);
    }
    for (const auto* buffers : {&here, &there}) {
      for (const BufferId buffer : *buffers) Check(offloader_->Free(buffer));
    }
    const double bytes = static_cast<double>(kBufferBytes) * kBuffers;
    const double slower = std::max(Median(out), Median(in));
    return {{"out_gb_per_s", bytes / Median(out) / 1e9},
            {"in_gb_per_s", bytes / Median(in) / 1e9},
            {"each_way_at_once_gb_per_s", bytes / Median(both) / 1e9},
            {"at_once_over_the_slower_alone", slower / Median(both)}};
  }

  // Makes a chain of tasks that fill a workspace so often that they take longer than a copy.
  static TaskGraph Chain() {
    constexpr std::size_t kLayers = 24;
    TaskGraph graph;
    graph.name = "chain";
    graph.data.push_back({"x0", kBufferBytes, DataKind::kInput});
    const std::vector<TaskAlgorithm> algorithms = {{"fill", 1e-3, kBufferBytes}};
    for (std::size_t i = 1; i <= kLayers; ++i) {
      graph.data.push_back({"x" + std::to_string(i), kBufferBytes, DataKind::kActivation});
      graph.tasks.push_back({.name = "layer" + std::to_string(i) + ".forward",
                             .layer = "layer" + std::to_string(i),
                             .operation = "conv",
                             .reads = {i - 1},
                             .writes = {i},
                             .algorithms = algorithms});
    }
    std::size_t gradient = kLayers;
    for (std::size_t i = kLayers; i > 0; --i) {
      graph.data.push_back({"g" + std::to_string(i), kBufferBytes, DataKind::kGradient});
      graph.tasks.push_back({.name = "layer" + std::to_string(i) + ".backward",
                             .layer = "layer" + std::to_string(i),
                             .operation = "conv",
                             .phase = TaskPhase::kBackward,
                             .reads = {i - 1, gradient},
                             .writes = {graph.data.size() - 1},
                             .algorithms = algorithms});
      gradient = graph.data.size() - 1;
    }
    return graph;
  }

  double SecondsOf(const TaskGraph& graph, const char* policy, int fills) {
    testing::PoolPolicy options;
    options.machine.memory() = kPoolBytes;
    const Schedule schedule = Take(testing::MakePoolSchedule(policy, graph, options));
    const LaunchTask launch = [&](const TaskLaunch& task) {
      for (int i = 0; i < fills; ++i) {
        absl::Status status = device_.Fill(task.workspace, 1, kBufferBytes, task.stream);
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    };
    const Machine& machine = options.machine.machine;
    const Schedule placed = Take(PlaceInPool(graph, schedule, machine)).schedule;
    const auto executor =
        Take(Executor::Create({&device_}, {graph}, placed, machine, launch, nullptr, {}));
    std::vector<double> seconds;
    Check(executor->Run().status());
    for (int i = 0; i < kRounds; ++i) seconds.push_back(Take(executor->Run()).seconds);
    return Median(seconds);
  }

  nlohmann::json Iteration() {
    const TaskGraph graph = Chain();
    constexpr int kFills = 150;
    const double ideal = SecondsOf(graph, "none", kFills);
    const double vdnnpp = SecondsOf(graph, "vdnn++", kFills);
    const double vdnn = SecondsOf(graph, "vdnn", kFills);
    return {{"all_in_memory_seconds", ideal},
            {"vdnnpp_seconds", vdnnpp},
            {"vdnn_seconds", vdnn},
            {"vdnnpp_over_all_in_memory", vdnnpp / ideal}};
  }

  CudaDevice& device_;
  Stream stream_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<PinnedPool> host_;
  std::unique_ptr<Offloader> offloader_;
};

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_GPU_GPU_OFFLOAD_H_
