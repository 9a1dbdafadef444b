// SPDX-License-Identifier: Apache-2.0
#include "dryrun/libraries/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tidepool::cudart_host {
namespace {

double NumberOf(const char* variable, double otherwise = 0) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::max(0.0, std::atof(text)) : otherwise;
}

Gpu GpuOfEnvironment() {
  Gpu gpu;
  gpu.capability = static_cast<int>(NumberOf("CUDART_HOST_CAPABILITY"));
  gpu.bytes = NumberOf("CUDART_HOST_ASSUMED_BYTES_PER_SECOND");
  // The defaults are those of the runtime.
  gpu.multiprocessors = static_cast<std::int64_t>(NumberOf("CUDART_HOST_MULTIPROCESSORS", 108));
  gpu.threads = static_cast<std::int64_t>(NumberOf("CUDART_HOST_THREADS_PER_MULTIPROCESSOR", 2048));
  const char* const rates = std::getenv("CUDART_HOST_ASSUMED_OPERATIONS_PER_SECOND");
  if (rates != nullptr && std::sscanf(rates, "%lf,%lf,%lf", &gpu.double_operations,
                                      &gpu.single_operations, &gpu.half_operations) != 3) {
    std::fprintf(
        stderr,
        "cuda_libraries: CUDART_HOST_ASSUMED_OPERATIONS_PER_SECOND=%s is ignored, expected "
        "three numbers: of doubles, floats and 16-bit numbers\n",
        rates);
    gpu.double_operations = gpu.single_operations = gpu.half_operations = 0;
  }
  return gpu;
}

}  // namespace

double Gpu::RateOf(Numbers numbers) const {
  switch (numbers) {
    case Numbers::kDouble:
      return double_operations;
    case Numbers::kSingle:
      return single_operations;
    case Numbers::kTensorFloat:
      return half_operations / 2;
    case Numbers::kHalf:
      return half_operations;
    case Numbers::kByte:
      return half_operations * 2;
  }
  return 0;
}

double Gpu::Seconds(const Work& work) const {
  const double rate = RateOf(work.numbers) * work.efficiency;
  if (rate <= 0 || bytes <= 0) return 0;
  return std::max(work.operations / rate, work.bytes / bytes);
}

const Gpu& AssumedGpu() {
  static const Gpu gpu = GpuOfEnvironment();
  return gpu;
}

// The runtime is looked for by name: two libraries of the stand-in have one.
void Run(const char* name, void* stream, const Work& work, void* output, double bytes) {
  using RunKernel = void (*)(const char*, void*, double, void*, long long);
  static const auto run = reinterpret_cast<RunKernel>(dlsym(RTLD_DEFAULT, "cudartHostRunKernel"));
  constexpr double kMost = 1LL << 60;
  if (run == nullptr) return;
  run(name, stream, AssumedGpu().Seconds(work), output,
      static_cast<long long>(std::min(bytes, kMost)));
}

}  // namespace tidepool::cudart_host
