// SPDX-License-Identifier: Apache-2.0
// Claims: a pair on the pinned pool takes well under a microsecond; several threads pin memory
// faster than one; sizes of 64 KiB and more are rounded up by less than 2 %, where pools of powers
// of two (PyTorch's host allocator, CuPy's pinned pool) waste up to all of it again.
#include <benchmark/benchmark.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lib/memory/blocks/arena.h"
#include "tidepool/host_device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/placement.h"
#include "tidepool/staging_ring.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::bench {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;
constexpr std::int64_t kSmallest = 64 * kKiB;

// 64 to 256 KiB.
std::vector<std::size_t> Sizes() {
  std::mt19937_64 random(1);
  std::vector<std::size_t> sizes(4096);
  for (std::size_t& size : sizes) size = static_cast<std::size_t>(kSmallest) + random() % 196608;
  return sizes;
}

// Frees a random live buffer and allocates another, with a number of live buffers.
void BM_Pair(benchmark::State& state) {
  const auto live = static_cast<std::size_t>(state.range(0));
  const auto device = *HostDevice::Create({});
  const auto pool = *PinnedPool::Create(device.get(), {.max_bytes = 512 * kMiB});
  const std::vector<std::size_t> sizes = Sizes();
  std::vector<void*> buffers;
  for (std::size_t i = 0; i < live; ++i) buffers.push_back(*pool->Allocate(sizes[i]));
  std::mt19937 random(2);
  std::size_t next = 0;
  for (auto _ : state) {
    void*& victim = buffers[random() % live];
    pool->Free(victim).IgnoreError();
    victim = *pool->Allocate(sizes[next++ % sizes.size()]);
  }
  for (void* const buffer : buffers) pool->Free(buffer).IgnoreError();
}
BENCHMARK(BM_Pair)->Arg(1)->Arg(100)->Arg(1000);

// Pins and unpins each buffer by itself, without a pool.
void BM_PairOfTheDevice(benchmark::State& state) {
  const auto device = *HostDevice::Create({});
  for (auto _ : state) {
    void* const buffer = *device->AllocatePinned(128 * kKiB);
    device->FreePinned(buffer).IgnoreError();
  }
}
BENCHMARK(BM_PairOfTheDevice);

void BM_StagingSlot(benchmark::State& state) {
  const auto device = *HostDevice::Create({});
  const auto pool = *PinnedPool::Create(device.get(), {.max_bytes = kMiB});
  const auto ring = *StagingRing::Create(pool.get(), {});
  for (auto _ : state) ring->Release(ring->Acquire()->index).IgnoreError();
}
BENCHMARK(BM_StagingSlot);

void BM_Page(benchmark::State& state) {
  const auto pool = *PagePool::Create({.max_bytes = 64 * kMiB, .initial_bytes = 64 * kMiB});
  std::vector<void*> pages(16);
  for (auto _ : state) {
    pool->Take(absl::MakeSpan(pages)).IgnoreError();
    pool->Return(pages).IgnoreError();
  }
  state.SetItemsProcessed(state.iterations() * 16);
}
BENCHMARK(BM_Page);

// Pins 1 GiB with a number of threads, and with huge pages never (0) or advised (1).
void BM_PinOneGiB(benchmark::State& state) {
  const auto device = *HostDevice::Create({});
  for (auto _ : state) {
    auto pool = *PinnedPool::Create(device.get(),
                                    {.max_bytes = kGiB,
                                     .pages = {.huge_pages = static_cast<HugePages>(state.range(1)),
                                               .threads = static_cast<int>(state.range(0))}});
    state.SetIterationTime(static_cast<double>(pool->Stats().pin_ns) * 1e-9);
  }
}
BENCHMARK(BM_PinOneGiB)
    ->ArgNames({"threads", "huge"})
    ->ArgsProduct({{1, 2, 4}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);

// Measures the large allocations of a trace when most is live: by how much sizes are rounded up by
// this pool, by a pool of pages and by a pool of powers of two; and the height of the arena.
void BM_Waste(benchmark::State& state, const std::string& path) {
  const Trace trace = *ReadTrace(path);
  const auto policy = *MakePlacementPolicy("best-fit");
  double asked_peak = 0;
  double exact = 0;
  double pages = 0;
  double powers = 0;
  double high_water = 0;
  for (auto _ : state) {
    blocks::Arena arena(std::int64_t{1} << 42, 512, *policy);
    std::vector<std::int64_t> offsets(trace.allocations.size(), blocks::kNoOffset);
    std::int64_t asked = 0;
    std::int64_t in_pages = 0;
    std::int64_t in_powers = 0;
    for (const TraceEvent& event : trace.events) {
      if (!event.TouchesMemory()) continue;
      const std::int64_t bytes = trace.allocations[event.index].bytes;
      if (bytes < kSmallest) continue;
      const bool takes = event.kind == TraceEvent::Kind::kAllocate;
      if (takes) {
        offsets[event.index] = arena.Allocate(bytes, Hint::kResident);
      } else if (!arena.Free(offsets[event.index])) {
        continue;
      }
      const std::int64_t sign = takes ? 1 : -1;
      asked += sign * bytes;
      in_pages += sign * ((bytes + 4095) & -4096);
      in_powers +=
          sign * static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
      if (static_cast<double>(asked) <= asked_peak) continue;
      asked_peak = static_cast<double>(asked);
      exact = static_cast<double>(arena.blocks().live_bytes());
      pages = static_cast<double>(in_pages);
      powers = static_cast<double>(in_powers);
    }
    high_water = static_cast<double>(arena.high_water());
  }
  const auto percent = [&](double bytes) { return 100 * (bytes / asked_peak - 1); };
  state.counters["peak_MiB"] = asked_peak / static_cast<double>(kMiB);
  state.counters["ours_%"] = percent(exact);
  state.counters["pages_%"] = percent(pages);
  state.counters["powers_%"] = percent(powers);
  state.counters["arena_%"] = percent(high_water);
}

void RegisterWaste() {
  for (const auto& entry :
       std::filesystem::directory_iterator(TIDEPOOL_SOURCE_DIR "/examples/traces")) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".csv.gz")) continue;
    benchmark::RegisterBenchmark(("BM_Waste/" + entry.path().stem().stem().string()).c_str(),
                                 [path](benchmark::State& state) { BM_Waste(state, path); })
        ->Iterations(1);
  }
}

}  // namespace
}  // namespace tidepool::bench

int main(int count, char** arguments) {
  tidepool::bench::RegisterWaste();
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
