// SPDX-License-Identifier: Apache-2.0
// Claim: a buffer that leaves the device and comes back costs the calling thread at most 2 us
// beside its two copies.
//
// Nanoseconds are processor time of the calling thread in Offload and Prefetch, and in two bare
// copies of the same bytes. The two take turns, and a figure is the median over the turns. The
// thread waits outside of the measured calls.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/support/offload_rig.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace tidepool::bench {
namespace {

using Release = OffloaderOptions::Release;

constexpr std::int64_t kBytes = std::int64_t{64} << 10;
constexpr std::int64_t kPoolBytes = std::int64_t{64} << 20;
constexpr std::size_t kBuffers = 16;
constexpr std::size_t kTurns = 4000;

std::int64_t ProcessorNanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

std::int64_t Timed(auto work) {
  const std::int64_t begin = ProcessorNanoseconds();
  Check(work());
  return ProcessorNanoseconds() - begin;
}

std::int64_t Median(std::vector<std::int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void Measure(const char* name, Release release) {
  const auto device = Take(HostDevice::Create({.memory_bytes = 2 * kPoolBytes}));
  const auto pool =
      Take(Pool::Create(device.get(), {.initial_bytes = kPoolBytes, .max_bytes = kPoolBytes}));
  PinnedPoolOptions host_options;
  host_options.max_bytes = kPoolBytes;
  const auto host = Take(PinnedPool::Create(device.get(), host_options));
  OffloaderOptions options;
  options.release = release;
  const auto offloader = Take(Offloader::Create(device.get(), pool.get(), host.get(), options));
  const Stream stream = Take(device->CreateStream());
  std::vector<BufferId> buffers;
  for (std::size_t i = 0; i < kBuffers; ++i) {
    buffers.push_back(Take(offloader->Allocate(kBytes, stream)));
  }
  void* const on_device = Take(pool->Allocate(kBytes, stream));
  void* const on_host = Take(host->Allocate(kBytes));
  std::vector<std::int64_t> offloads;
  std::vector<std::int64_t> prefetches;
  std::vector<std::int64_t> copies;
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    const BufferId buffer = buffers[turn % kBuffers];
    offloads.push_back(Timed([&] { return offloader->Offload(buffer, {}); }));
    Check(offloader->Await(buffer));
    prefetches.push_back(Timed([&] { return offloader->Prefetch(buffer, stream); }));
    Check(offloader->Synchronize());
    const auto copy = [&](void* to, void* from, CopyDirection direction) {
      const std::int64_t time =
          Timed([&] { return device->Copy(to, from, kBytes, direction, stream); });
      Check(device->SynchronizeStream(stream));
      return time;
    };
    copies.push_back(copy(on_host, on_device, CopyDirection::kFromDevice) +
                     copy(on_device, on_host, CopyDirection::kToDevice));
  }
  Check(host->Free(on_host));
  Check(pool->Free(on_device, stream));
  const std::int64_t offload = Median(offloads);
  const std::int64_t prefetch = Median(prefetches);
  const std::int64_t bare = Median(copies);
  std::printf("%-12s Offload %5lld ns, Prefetch %5lld ns, two bare copies %5lld ns: %5lld beside\n",
              name, static_cast<long long>(offload), static_cast<long long>(prefetch),
              static_cast<long long>(bare), static_cast<long long>(offload + prefetch - bare));
}

}  // namespace
}  // namespace tidepool::bench

int main() {
  namespace bench = tidepool::bench;
  bench::Measure("when awaited", bench::Release::kWhenAwaited);
  bench::Measure("when out", bench::Release::kWhenOut);
}
