// SPDX-License-Identifier: Apache-2.0
// Time of the host that the executor takes for a task of ResNet-50, on the host device, with empty
// tasks and data so small that copies take no time, and the allocations and the waits of the host:
// with all movable data moved, and with none. Then copies of an offloader in both directions at
// once, compared with copies one after another, on a slow link. The best of the rounds.
//
//   executor_bench [ROUNDS [LINK_GB_PER_S]]
//       default: 20 rounds, 2 GB/s
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "bench/support/number_argument.h"
#include "bench/support/offload_rig.h"
#include "tests/support/counted_allocations.h"
#include "tests/training/execute/first_fit_addresses.h"
#include "tests/training/execute/offload_everything.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/host_device.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::bench {
namespace {

double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TaskGraph SmallModel(const char* name) {
  TaskGraph graph = Take(MakeModel(name, {.batch = 32, .inputs = DataHome::kDevice}));
  constexpr std::int64_t kDivisor = 1 << 20;
  for (GraphData& data : graph.data) data.bytes = data.bytes / kDivisor + 1;
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) algorithm.workspace_bytes /= kDivisor;
  }
  return graph;
}

struct Machine {
  Machine(const HostDeviceOptions& device_options, std::int64_t bytes,
          const OffloaderOptions& options) {
    device = Take(HostDevice::Create(device_options));
    PoolOptions pool_options;
    pool_options.initial_bytes = pool_options.max_bytes = bytes;
    pool = Take(Pool::Create(device.get(), pool_options));
    host = Take(PinnedPool::Create(device.get(), {.max_bytes = bytes}));
    offloader = Take(Offloader::Create(device.get(), pool.get(), host.get(), options));
    stream = Take(device->CreateStream());
  }

  std::unique_ptr<HostDevice> device;
  std::unique_ptr<Pool> pool;
  std::unique_ptr<PinnedPool> host;
  std::unique_ptr<Offloader> offloader;
  Stream stream;
};

// The least seconds of an iteration: of the thread that runs it, and of the clock.
struct Best {
  double thread = std::numeric_limits<double>::infinity();
  double wall = std::numeric_limits<double>::infinity();
};

Best BestOf(Executor& executor, int rounds) {
  Best best;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const double thread_begin = ThreadSeconds();
    Take(executor.Run());
    best.thread = std::min(best.thread, ThreadSeconds() - thread_begin);
    best.wall = std::min(best.wall, SecondsSince(begin));
  }
  return best;
}

// The schedule that moves everything, or the one that moves nothing.
void MeasureTasks(const TaskGraph& graph, const Schedule& pool, const char* name, int rounds) {
  testing::FirstFitAddresses addresses(graph);
  const Schedule schedule = addresses.Fix(pool);
  const std::unique_ptr<HostDevice> host = Take(HostDevice::Create({}));
  testing::UncountedDevice device(*host);
  tidepool::Machine machine;
  machine.devices[0].memory_bytes = addresses.top();
  const auto executor = Take(
      Executor::Create({&device}, {graph}, schedule, machine,
                       [](const TaskLaunch& /*launch*/) { return absl::OkStatus(); }, nullptr, {}));
  const auto calls = [&] { return host->CountCalls(HostDevice::Call::kAny); };
  const auto waits = [&] {
    return host->CountCalls(HostDevice::Call::kSynchronizeStream) +
           host->CountCalls(HostDevice::Call::kSynchronizeEvent);
  };
  Take(executor->Run());
  const std::int64_t calls_before = calls();
  const std::int64_t waits_before = waits();
  const std::int64_t allocations_before = testing::allocations_of_thread;
  const Best best = BestOf(*executor, rounds);
  const auto tasks = static_cast<double>(graph.tasks.size());
  const auto each = [&](std::int64_t sum) { return static_cast<double>(sum) / rounds; };
  std::printf(
      "%-13s  %zu tasks, %zu steps: %5.2f us a task of the host's thread, %5.2f us of time; "
      "%.0f calls of the device, %.0f allocations, %.0f waits of the host\n",
      name, graph.tasks.size(), schedule.steps.size(), best.thread / tasks * 1e6,
      best.wall / tasks * 1e6, each(calls() - calls_before),
      each(testing::allocations_of_thread - allocations_before), each(waits() - waits_before));
}

// Repeatedly brings half of the buffers back while the other half leaves.
double BothWaysSeconds(double link, bool one_at_a_time, int rounds) {
  constexpr std::int64_t kBytes = std::int64_t{4} << 20;
  constexpr std::size_t kEachWay = 8;
  Machine machine({.copy_bytes_per_second = link}, 3 * kEachWay * kBytes,
                  {.one_transfer_at_a_time = one_at_a_time});
  std::vector<BufferId> in;
  std::vector<BufferId> out;
  for (std::size_t i = 0; i < kEachWay; ++i) {
    in.push_back(Take(machine.offloader->Allocate(kBytes, machine.stream)));
    out.push_back(Take(machine.offloader->Allocate(kBytes, machine.stream)));
    Check(machine.offloader->Offload(in.back(), {}));
  }
  Check(machine.offloader->Synchronize());
  double seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < kEachWay; ++i) {
      Check(machine.offloader->Offload(out[i], {}));
      Check(machine.offloader->Prefetch(in[i], machine.stream));
    }
    Check(machine.offloader->Synchronize());
    seconds = std::min(seconds, SecondsSince(begin));
    std::swap(in, out);
  }
  std::printf("%-13s  %5.1f ms, %5.2f GB/s each way\n", one_at_a_time ? "one at a time" : "at once",
              seconds * 1e3, static_cast<double>(kBytes * kEachWay) / seconds * 1e-9);
  return seconds;
}

void Run(int rounds, double link) {
  const TaskGraph graph = SmallModel("resnet-50");
  MeasureTasks(graph, testing::OffloadEverything(graph, {}).Make(), "moved", rounds);
  MeasureTasks(graph, testing::OffloadEverything(graph, {.moves_nothing = true}).Make(), "stays",
               rounds);
  const double one = BothWaysSeconds(link, true, rounds);
  const double both = BothWaysSeconds(link, false, rounds);
  std::printf("both ways at once are %.2f times as fast\n", one / both);
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  const tidepool::bench::NumberArguments arguments{argc, argv};
  const auto rounds = static_cast<int>(arguments.At(1, 20, 1, 100'000));
  tidepool::bench::Run(rounds, arguments.At(2, 2, 0.001, 1000) * 1e9);
  return 0;
}
