// SPDX-License-Identifier: Apache-2.0
// Claims: a pair through the pool costs at most 1.3 times the bare engine's, hardly more when the
// pool's memory is in many segments, and at most 60 ns more while it is recorded; a second thread
// costs little, and on a stream of its own it gains. Every row is nanoseconds a pair; with threads,
// the wall clock over the pairs of all of them, the median of ten rounds, and only on a machine
// that is idle before and after the row.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/support/arena_engine.h"
#include "bench/support/idle_machine.h"
#include "bench/support/pool_engine.h"
#include "bench/support/workloads.h"
#include "tidepool/recorder.h"

namespace tidepool::bench {
namespace {

PoolOptions Roomy() { return {.initial_bytes = kDeviceBytes, .max_bytes = kDeviceBytes}; }

void BareEngine(benchmark::State& state, int live) {
  ArenaEngine engine("best-fit");
  RandomReplacement<ArenaEngine> workload(engine, static_cast<std::size_t>(live));
  for (auto _ : state) workload.Step();
}

void OneStreamOf(const PoolOptions& options, benchmark::State& state, int live) {
  PoolOnHost host(options);
  PoolEngine engine(host.pool(), host.NewStream());
  RandomReplacement<PoolEngine> workload(engine, static_cast<std::size_t>(live));
  for (auto _ : state) workload.Step();
  const PoolStats stats = host.pool().Stats();
  state.counters["event_records"] = static_cast<double>(stats.event_records);
  state.counters["growths"] = static_cast<double>(stats.growths);
}

void OneStream(benchmark::State& state, int live) { OneStreamOf(Roomy(), state, live); }

// Grows from nothing into as many segments as it needs.
void ManySegments(benchmark::State& state, int live) {
  OneStreamOf({.max_bytes = kDeviceBytes, .memory = PoolMemory::kSegments}, state, live);
}

void Recorded(benchmark::State& state, int live) {
  const std::string path = absl::StrCat("/tmp/tidepool_pool_bench.", getpid(), ".tide");
  {
    const std::unique_ptr<Recorder> recorder = Recorder::Create({.path = path}).value();
    PoolOptions options = Roomy();
    options.recorder = recorder.get();
    PoolOnHost host(options);
    PoolEngine engine(host.pool(), host.NewStream());
    RandomReplacement<PoolEngine> workload(engine, static_cast<std::size_t>(live));
    for (auto _ : state) workload.Step();
  }
  std::remove(path.c_str());
}

using Clock = std::chrono::steady_clock;

struct ThreadsSetup {
  std::string name;
  int threads = 1;
  bool one_stream = true;
  std::int64_t pool_bytes = kDeviceBytes;
};

// Returns false, and refuses the row, on a machine that other programs use.
bool IsIdle(benchmark::State& state) {
  const double share = ProcessorShare();
  if (share >= kIdleShare) return true;
  const std::string error =
      absl::StrCat("a thread had ", static_cast<int>(100 * share), " % of a processor, expected ",
                   static_cast<int>(100 * kIdleShare), " %: run it on an idle machine");
  state.SkipWithError(error.c_str());
  return false;
}

// Threads that each play a workload of their own, on one stream or on one each.
template <typename Workload>
void Threads(benchmark::State& state, const ThreadsSetup& setup, auto make) {
  constexpr int kPairs = 200'000;  // of each thread
  const auto& [name, threads, one_stream, bytes] = setup;
  if (!IsIdle(state)) return;
  PoolOnHost host({.initial_bytes = bytes, .max_bytes = bytes});
  const Stream shared = host.NewStream();
  std::vector<std::unique_ptr<PoolEngine>> engines;
  std::vector<std::unique_ptr<Workload>> workloads;
  for (int i = 0; i < threads; ++i) {
    engines.push_back(
        std::make_unique<PoolEngine>(host.pool(), one_stream ? shared : host.NewStream()));
    workloads.push_back(make(*engines.back(), i));
  }
  std::vector<double> rounds;  // seconds
  for (auto _ : state) {
    // Each worker stamps its own times: this thread may run again long after the workers began.
    std::vector<Clock::time_point> begins(workloads.size());
    std::vector<Clock::time_point> ends(workloads.size());
    std::vector<std::thread> workers;
    std::barrier start(threads);
    for (std::size_t worker = 0; worker < workloads.size(); ++worker) {
      workers.emplace_back([&, worker] {
        start.arrive_and_wait();
        begins[worker] = Clock::now();
        for (int i = 0; i < kPairs; ++i) workloads[worker]->Step();
        ends[worker] = Clock::now();
      });
    }
    for (std::thread& worker : workers) worker.join();
    const std::chrono::duration<double> elapsed = std::ranges::max(ends) - std::ranges::min(begins);
    state.SetIterationTime(elapsed.count());
    rounds.push_back(elapsed.count());
  }
  if (!IsIdle(state)) return;
  const auto median = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::ranges::nth_element(rounds, median);
  state.counters["nanoseconds_per_pair"] = *median / threads / kPairs * 1e9;
  state.counters["event_records"] = static_cast<double>(host.pool().Stats().event_records);
}

void RegisterThreads(const ThreadsSetup& setup) {
  const auto add = [&](const std::string& workload, auto run) {
    benchmark::RegisterBenchmark(absl::StrCat("pool/", setup.name, "/", workload).c_str(), run)
        ->UseManualTime()
        ->Iterations(10)
        ->Unit(benchmark::kMillisecond);
  };
  add("random/1000", [=](benchmark::State& state) {
    using Workload = RandomReplacement<PoolEngine>;
    Threads<Workload>(state, setup, [](PoolEngine& engine, int seed) {
      return std::make_unique<Workload>(engine, 1000, static_cast<std::uint64_t>(seed) + 1);
    });
  });
  add("checkpointing", [=](benchmark::State& state) {
    using Workload = Checkpointing<PoolEngine>;
    Threads<Workload>(state, setup,
                      [](PoolEngine& engine, int) { return std::make_unique<Workload>(engine); });
  });
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  namespace bench = tidepool::bench;
  for (const int live : {100, 1000, 10000}) {
    const auto add = [&](const char* name, void (*run)(benchmark::State&, int)) {
      benchmark::RegisterBenchmark(absl::StrCat(name, "/random/", live).c_str(),
                                   [run, live](benchmark::State& state) { run(state, live); });
    };
    add("engine", bench::BareEngine);
    add("pool", bench::OneStream);
    add("pool_in_segments", bench::ManySegments);
    add("pool_recorded", bench::Recorded);
  }
  constexpr std::int64_t kOneGpu = std::int64_t{80} << 30;
  bench::RegisterThreads({"one_thread"});
  bench::RegisterThreads({"two_threads_one_stream", 2});
  bench::RegisterThreads({"two_threads_two_streams", 2, false});
  bench::RegisterThreads({"two_threads_two_streams_80_gib", 2, false, kOneGpu});
  bench::RegisterThreads({"four_threads_four_streams", 4, false});
  bench::RegisterThreads({"four_threads_four_streams_80_gib", 4, false, kOneGpu});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
