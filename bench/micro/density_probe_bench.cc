// SPDX-License-Identifier: Apache-2.0
// Benchmark of the density probe. Claim: a probe of 1,024 lines takes well under 1 % of the time to
// compress on one core, for uncached buffers of 64 MiB and more in huge pages.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/support/activations.h"
#include "tidepool/copies/density_probe.h"

namespace tidepool::bench {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
// Larger than the caches: each call takes another part.
constexpr std::size_t kAllBytes = 512 * kMiB;

// Uses huge pages if the system has them, as pools of host memory do.
const std::byte* All() {
  static const std::byte* const kAll = [] {
    const auto part = Activations(16 * kMiB, 0.5, Zeros::kClustered, 1);
    auto* const all = static_cast<std::byte*>(std::aligned_alloc(2 * kMiB, kAllBytes));
    madvise(all, kAllBytes, MADV_HUGEPAGE);
    for (std::size_t at = 0; at < kAllBytes; at += part.size()) {
      std::memcpy(all + at, part.data(), part.size());
    }
    return all;
  }();
  return kAll;
}

absl::Span<const std::byte> Next(std::size_t bytes, std::size_t& turn) {
  const std::size_t parts = kAllBytes / bytes;
  return {All() + turn++ % parts * bytes, bytes};
}

void Probe(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) * kMiB;
  std::size_t turn = 0;
  All();
  DensityProbeOptions options;
  for (auto _ : state) {
    // Chooses other lines than the previous call.
    options.seed = turn;
    benchmark::DoNotOptimize(ProbeDensity(Next(bytes, turn), options)->density);
  }
}
BENCHMARK(Probe)->Arg(1)->Arg(4)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);

void Compress(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) * kMiB;
  const auto codec = ZeroValueCodec::Create({}).value();
  std::vector<std::byte> stream(ZeroValueBound(bytes), std::byte{1});
  std::size_t turn = 0;
  All();
  for (auto _ : state) {
    benchmark::DoNotOptimize(codec->Compress(Next(bytes, turn), absl::MakeSpan(stream)).value());
  }
}
BENCHMARK(Compress)->Arg(1)->Arg(4)->Arg(16)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tidepool::bench

BENCHMARK_MAIN();
