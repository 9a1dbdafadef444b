// SPDX-License-Identifier: Apache-2.0
// The kernels of tests/gpu as host functions of the stand-in's streams, so that the tests of a pool
// under kernels run without a GPU.
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "tests/gpu/patterns.h"

namespace tidepool::gpu {
namespace {

std::uint32_t Word(std::uint32_t seed, std::int64_t index) {
  return (seed ^ static_cast<std::uint32_t>(index)) * 0x7FEB352DU;
}

// Delays each access of a stream to memory.
cudaError_t Launch(std::int64_t delay_ns, cudaStream_t stream, std::function<void()> kernel) {
  auto queued = std::make_unique<std::function<void()>>([delay_ns, run = std::move(kernel)] {
    std::this_thread::sleep_for(std::chrono::nanoseconds(delay_ns));
    run();
  });
  const cudaError_t error = cudaLaunchHostFunc(
      stream,
      [](void* data) {
        const std::unique_ptr<std::function<void()>> work(
            static_cast<std::function<void()>*>(data));
        (*work)();
      },
      queued.get());
  if (error == cudaSuccess) static_cast<void>(queued.release());
  return error;
}

}  // namespace

std::int64_t Unit() { return std::int64_t{16} << 10; }

cudaError_t WritePattern(void* to, std::int64_t bytes, std::uint32_t seed, std::int64_t delay_ns,
                         cudaStream_t stream) {
  return Launch(delay_ns, stream, [words = static_cast<std::uint32_t*>(to), bytes, seed] {
    for (std::int64_t i = 0; i < bytes / 4; ++i) words[i] = Word(seed, i);
  });
}

cudaError_t CheckPattern(const void* from, std::int64_t bytes, std::uint32_t seed,
                         std::int64_t delay_ns, unsigned long long* damaged, cudaStream_t stream) {
  return Launch(delay_ns, stream,
                [words = static_cast<const std::uint32_t*>(from), bytes, seed, damaged] {
                  unsigned long long wrong = 0;
                  for (std::int64_t i = 0; i < bytes / 4; ++i) wrong += words[i] != Word(seed, i);
                  // Streams are threads here.
                  if (wrong != 0) __atomic_fetch_add(damaged, wrong, __ATOMIC_RELAXED);
                });
}

}  // namespace tidepool::gpu
