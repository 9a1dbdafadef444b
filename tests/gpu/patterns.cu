// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/patterns.h"

namespace tidepool::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 64;

__device__ std::uint64_t Now() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ void Delay(std::int64_t ns) {
  const std::uint64_t end = Now() + static_cast<std::uint64_t>(ns);
  while (Now() < end) __nanosleep(1000);
}

__device__ std::uint32_t Word(std::uint32_t seed, std::int64_t index) {
  std::uint32_t word = seed ^ static_cast<std::uint32_t>(index);
  word = (word ^ (word >> 16)) * 0x7FEB352Du;
  word = (word ^ (word >> 15)) * 0x846CA68Bu;
  return word ^ (word >> 16);
}

__global__ void Write(std::uint32_t* to, std::int64_t words, std::uint32_t seed,
                      std::int64_t delay_ns) {
  Delay(delay_ns);
  const std::int64_t first = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  for (std::int64_t i = first; i < words; i += std::int64_t{gridDim.x} * blockDim.x) {
    to[i] = Word(seed, i);
  }
}

__global__ void Check(const std::uint32_t* from, std::int64_t words, std::uint32_t seed,
                      std::int64_t delay_ns, unsigned long long* damaged) {
  Delay(delay_ns);
  unsigned long long wrong = 0;
  const std::int64_t first = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  for (std::int64_t i = first; i < words; i += std::int64_t{gridDim.x} * blockDim.x) {
    wrong += from[i] != Word(seed, i);
  }
  if (wrong != 0) atomicAdd(damaged, wrong);
}

int Blocks(std::int64_t words) {
  const std::int64_t blocks = (words + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks);
}

}  // namespace

std::int64_t Unit() { return std::int64_t{1} << 20; }

cudaError_t WritePattern(void* to, std::int64_t bytes, std::uint32_t seed, std::int64_t delay_ns,
                         cudaStream_t stream) {
  const std::int64_t words = bytes / 4;
  Write<<<Blocks(words), kThreads, 0, stream>>>(static_cast<std::uint32_t*>(to), words, seed,
                                                delay_ns);
  return cudaGetLastError();
}

cudaError_t CheckPattern(const void* from, std::int64_t bytes, std::uint32_t seed,
                         std::int64_t delay_ns, unsigned long long* damaged, cudaStream_t stream) {
  const std::int64_t words = bytes / 4;
  Check<<<Blocks(words), kThreads, 0, stream>>>(static_cast<const std::uint32_t*>(from), words,
                                                seed, delay_ns, damaged);
  return cudaGetLastError();
}

}  // namespace tidepool::gpu
