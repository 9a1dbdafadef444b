// Kernels that write a pattern and look for it, late: what a stream does with memory that it was
// given. Patterns differ by their seeds, in every word.
#ifndef TIDEPOOL_TESTS_GPU_PATTERNS_H_
#define TIDEPOOL_TESTS_GPU_PATTERNS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tidepool::gpu {

// Of what tests ask for: the device has at least 4,096 of them.
std::int64_t Unit();

// Bytes are a multiple of 4. Each queues one kernel, which begins after a delay, and returns what
// the launch said.
cudaError_t WritePattern(void* to, std::int64_t bytes, std::uint32_t seed, std::int64_t delay_ns,
                         cudaStream_t stream);
// Adds the number of words that are not as written to `damaged`, in memory of the device.
cudaError_t CheckPattern(const void* from, std::int64_t bytes, std::uint32_t seed,
                         std::int64_t delay_ns, unsigned long long* damaged, cudaStream_t stream);

}  // namespace tidepool::gpu

#endif  // TIDEPOOL_TESTS_GPU_PATTERNS_H_
