// SPDX-License-Identifier: Apache-2.0
// Claims: the share of the arena that a policy leaves unused (peak address over peak live; the best
// possible is 1), and how evenly it answers (p99 over median of an allocate + free pair). Random
// replacement, sizes from 512 B to 64 MiB. The first table measures no times, so it repeats
// exactly.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/support/arena_engine.h"
#include "bench/support/workloads.h"
#include "tidepool/placement.h"

namespace tidepool::bench {
namespace {

constexpr int kSteps = 200'000;

// Measures the mean over ten draws of sizes: with ten live blocks a single draw says little.
void MeasureAddresses(benchmark::State& state, const std::string& policy, int live) {
  constexpr int kDraws = 10;
  double sum = 0;
  for (auto _ : state) {
    for (std::uint64_t seed = 1; seed <= kDraws; ++seed) {
      ArenaEngine engine(policy);
      RandomReplacement<ArenaEngine> workload(engine, static_cast<std::size_t>(live), seed);
      for (int i = 0; i < kSteps / kDraws; ++i) workload.Step();
      sum += static_cast<double>(engine.arena().high_water()) /
             static_cast<double>(engine.arena().peak_live_bytes());
    }
  }
  state.counters["peak_address_over_live"] = sum / kDraws;
}

double NanosecondsBetween(std::chrono::steady_clock::time_point a,
                          std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double, std::nano>(b - a).count();
}

// Returns the time of a look at the clock, which is part of every sample.
double ClockCost() {
  std::vector<double> samples(10'001);
  for (double& sample : samples) {
    const auto start = std::chrono::steady_clock::now();
    sample = NanosecondsBetween(start, std::chrono::steady_clock::now());
  }
  std::nth_element(samples.begin(), samples.begin() + 5'000, samples.end());
  return samples[5'000];
}

void MeasureLatency(benchmark::State& state, const std::string& policy, int live) {
  ArenaEngine engine(policy);
  RandomReplacement<ArenaEngine> workload(engine, static_cast<std::size_t>(live));
  std::vector<double> samples(kSteps);
  for (auto _ : state) {
    const double clock = ClockCost();
    for (double& sample : samples) {
      const auto start = std::chrono::steady_clock::now();
      workload.Step();
      sample = NanosecondsBetween(start, std::chrono::steady_clock::now()) - clock;
    }
    std::sort(samples.begin(), samples.end());
    state.counters["median_ns"] = samples[kSteps / 2];
    state.counters["p99_ns"] = samples[kSteps * 99 / 100];
    state.counters["p99_over_median"] = samples[kSteps * 99 / 100] / samples[kSteps / 2];
  }
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;  // NOLINT(google-build-using-namespace)
  for (const std::string& policy : tidepool::PlacementPolicyNames()) {
    // From the top of an arena without end, addresses say nothing.
    const bool grows_upwards = policy != "high-end-offload";
    for (const int live : {10, 100, 1'000, 10'000}) {
      if (!grows_upwards) break;
      benchmark::RegisterBenchmark(
          ("addresses/" + policy + "/" + std::to_string(live)).c_str(),
          [=](benchmark::State& state) { MeasureAddresses(state, policy, live); })
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
    for (const int live : {100, 1'000, 10'000, 100'000}) {
      benchmark::RegisterBenchmark(
          ("latency/" + policy + "/" + std::to_string(live)).c_str(),
          [=](benchmark::State& state) { MeasureLatency(state, policy, live); })
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
