// SPDX-License-Identifier: Apache-2.0
// Kernels that write and check patterns after a delay, as a slow stream would use its memory.
// Patterns with different seeds differ in every word.
#ifndef TIDEPOOL_TESTS_GPU_PATTERNS_H_
#define TIDEPOOL_TESTS_GPU_PATTERNS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tidepool::gpu {

// Enough for all tests: every device has at least 4,096 of them.
std::int64_t Unit();

// Sizes are multiples of 4 bytes. Each function queues one kernel, which begins after a delay, and
// returns the error of the launch.
cudaError_t WritePattern(void* to, std::int64_t bytes, std::uint32_t seed, std::int64_t delay_ns,
                         cudaStream_t stream);
// Adds the number of damaged words to `damaged`, which lies in device memory.
cudaError_t CheckPattern(const void* from, std::int64_t bytes, std::uint32_t seed,
                         std::int64_t delay_ns, unsigned long long* damaged, cudaStream_t stream);

}  // namespace tidepool::gpu

#endif  // TIDEPOOL_TESTS_GPU_PATTERNS_H_
