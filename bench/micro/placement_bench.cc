// SPDX-License-Identifier: Apache-2.0
// Claim: the placement engine serves an allocate + free pair, exactly placed, in the time of the
// fastest inexact peers. Every row is nanoseconds a pair on one core; jemalloc runs beside it for
// the ratio.
#include <benchmark/benchmark.h>
#include <jemalloc/jemalloc.h>

#include <string>

#include "bench/support/arena_engine.h"
#include "bench/support/workloads.h"
#include "tidepool/placement.h"

namespace tidepool::bench {
namespace {

// The CPU allocator as it comes. Memory is asked for and never touched.
class JemallocEngine {
 public:
  void* Allocate(std::int64_t bytes) { return mallocx(static_cast<std::size_t>(bytes), 0); }
  void Free(void* pointer) { dallocx(pointer, 0); }
};

template <typename Workload>
void Run(benchmark::State& state, Workload& workload) {
  for (auto _ : state) workload.Step();
}

template <typename Engine>
void Register(const std::string& name, auto make) {
  for (int live : {100, 1000, 10000, 100000}) {
    benchmark::RegisterBenchmark((name + "/random/" + std::to_string(live)).c_str(),
                                 [=](benchmark::State& state) {
                                   Engine engine = make();
                                   RandomReplacement<Engine> workload(engine, live);
                                   Run(state, workload);
                                 });
  }
  benchmark::RegisterBenchmark((name + "/one_size").c_str(), [=](benchmark::State& state) {
    Engine engine = make();
    OneSize<Engine> workload(engine);
    Run(state, workload);
  });
  benchmark::RegisterBenchmark((name + "/first_in_first_out").c_str(),
                               [=](benchmark::State& state) {
                                 Engine engine = make();
                                 FirstInFirstOut<Engine> workload(engine);
                                 Run(state, workload);
                               });
  benchmark::RegisterBenchmark((name + "/checkpointing").c_str(), [=](benchmark::State& state) {
    Engine engine = make();
    Checkpointing<Engine> workload(engine);
    Run(state, workload);
  });
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using tidepool::bench::ArenaEngine;
  for (const std::string& policy : tidepool::PlacementPolicyNames()) {
    tidepool::bench::Register<ArenaEngine>(policy, [=] { return ArenaEngine(policy); });
  }
  tidepool::bench::Register<tidepool::bench::JemallocEngine>(
      "jemalloc", [] { return tidepool::bench::JemallocEngine(); });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
