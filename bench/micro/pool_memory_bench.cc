// SPDX-License-Identifier: Apache-2.0
// Claims: streams that share one map strand no memory and need few events; a pool that grows holds
// little more than it needs and asks the device seldom. Means and extremes over ten draws; with
// several streams they depend a little on how fast the device's threads are.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/support/pool_engine.h"
#include "bench/support/workloads.h"

namespace tidepool::bench {
namespace {

using Call = HostDevice::Call;

// Random replacement where each block is freed on the stream that took it.
class ManyStreams {
 public:
  ManyStreams(PoolOnHost& host, int streams, int live, std::int64_t scale, std::uint64_t seed)
      : pool_(host.pool()), scale_(scale), sizes_(LogUniformSizes(1 << 16, seed)) {
    for (int i = 0; i < streams; ++i) streams_.push_back(host.NewStream());
    for (int i = 0; i < live; ++i) blocks_.push_back(Take());
  }
  ~ManyStreams() {
    for (const Block& block : blocks_) Free(block);
  }

  // Counts units of 512 bytes, although the pool may round further.
  std::int64_t peak_live_bytes() const { return peak_live_bytes_; }

  void Step() {
    Block& victim = blocks_[index_.Below(static_cast<std::uint32_t>(blocks_.size()))];
    Free(victim);
    victim = Take();
  }

 private:
  struct Block {
    void* address;
    std::int64_t bytes;
    Stream stream;
  };

  Block Take() {
    const Stream stream = streams_[index_.Below(static_cast<std::uint32_t>(streams_.size()))];
    const std::int64_t bytes = scale_ * sizes_[next_++ & (sizes_.size() - 1)];
    live_bytes_ += (bytes + 511) & -512;
    peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
    return {pool_.Allocate(static_cast<std::size_t>(bytes), stream).value(), bytes, stream};
  }
  void Free(const Block& block) {
    live_bytes_ -= (block.bytes + 511) & -512;
    pool_.Free(block.address, block.stream).IgnoreError();
  }

  Pool& pool_;
  std::int64_t scale_;
  std::vector<std::int64_t> sizes_;
  std::vector<Stream> streams_;
  std::vector<Block> blocks_;
  IndexSource index_;
  std::size_t next_ = 0;
  std::int64_t live_bytes_ = 0;
  std::int64_t peak_live_bytes_ = 0;
};

void MeasureStreams(benchmark::State& state, int streams) {
  constexpr int kLive = 400;
  constexpr int kDraws = 10;
  constexpr int kFrees = 20'000;
  double ratios = 0;
  double most = 0;
  std::int64_t records = 0;
  std::int64_t waits = 0;
  std::int64_t synchronisations = 0;
  for (auto _ : state) {
    for (std::uint64_t seed = 1; seed <= kDraws; ++seed) {
      PoolOnHost host({.max_bytes = kDeviceBytes});
      ManyStreams workload(host, streams, kLive, 1, seed);
      for (int i = 0; i < kFrees; ++i) workload.Step();
      const PoolStats stats = host.pool().Stats();
      const double ratio = static_cast<double>(stats.peak_reserved_bytes) /
                           static_cast<double>(workload.peak_live_bytes());
      ratios += ratio;
      most = std::max(most, ratio);
      records += stats.event_records;
      waits += stats.stream_waits;
      synchronisations += host.device().CountCalls(Call::kSynchronizeStream) +
                          host.device().CountCalls(Call::kSynchronizeEvent);
    }
  }
  const auto per_thousand = [](std::int64_t count) {
    return static_cast<double>(count) * 1000 / kFrees / kDraws;
  };
  state.counters["reserved_over_live"] = ratios / kDraws;
  state.counters["most_reserved_over_live"] = most;
  state.counters["events_per_1000_frees"] = per_thousand(records);
  state.counters["waits_per_1000_frees"] = per_thousand(waits);
  state.counters["host_synchronisations"] = static_cast<double>(synchronisations);
}

struct Kind {
  const char* name;
  PoolMemory memory;
  bool remap;
};

// From 1 GiB.
void MeasureGrowth(benchmark::State& state, int live, std::int64_t scale, const Kind& kind) {
  constexpr int kDraws = 10;
  constexpr int kSteps = 20'000;
  double reserved = 0;
  double calls = 0;
  double most_calls = 0;
  double growths = 0;
  double remaps = 0;
  for (auto _ : state) {
    for (std::uint64_t seed = 1; seed <= kDraws; ++seed) {
      PoolOnHost host({.initial_bytes = std::int64_t{1} << 30,
                       .max_bytes = kind.remap ? std::int64_t{1} << 37 : kDeviceBytes,
                       .memory = kind.memory,
                       .remap = kind.remap},
                      {.granularity = std::int64_t{2} << 20});  // a GPU's

      const std::int64_t before = host.device().CountCalls(Call::kAny);
      ManyStreams workload(host, 1, live, scale, seed);
      for (int i = 0; i < kSteps; ++i) workload.Step();
      const auto made = static_cast<double>(host.device().CountCalls(Call::kAny) - before);
      const PoolStats stats = host.pool().Stats();
      reserved += static_cast<double>(stats.peak_reserved_bytes) /
                  static_cast<double>(workload.peak_live_bytes());
      growths += static_cast<double>(stats.growths);
      remaps += static_cast<double>(stats.remaps);
      calls += made;
      most_calls = std::max(most_calls, made);
    }
  }
  state.counters["reserved_over_live"] = reserved / kDraws;
  state.counters["device_calls"] = calls / kDraws;
  state.counters["most_device_calls"] = most_calls;
  state.counters["growths"] = growths / kDraws;
  state.counters["remaps"] = remaps / kDraws;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  namespace bench = tidepool::bench;
  using tidepool::PoolMemory;
  for (const int streams : {1, 4, 16}) {
    benchmark::RegisterBenchmark(
        absl::StrCat("streams/", streams).c_str(),
        [streams](benchmark::State& state) { bench::MeasureStreams(state, streams); })
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
  for (const auto& [live, scale] : {std::pair{100, 1}, {100, 10}, {1000, 1}}) {
    for (const bench::Kind& kind : {bench::Kind{"growth", PoolMemory::kVirtual, false},
                                    bench::Kind{"growth_remapping", PoolMemory::kVirtual, true},
                                    bench::Kind{"growth_segments", PoolMemory::kSegments, false}}) {
      benchmark::RegisterBenchmark(
          absl::StrCat(kind.name, "/", live, "/sizes_times/", scale).c_str(),
          [live = live, scale = scale, kind](benchmark::State& state) {
            bench::MeasureGrowth(state, live, scale, kind);
          })
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
