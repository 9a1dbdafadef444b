// SPDX-License-Identifier: Apache-2.0
// The options that name a GPU: a known one, a file, or rates.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_GPU_OPTION_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_GPU_OPTION_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::tool {

struct GpuOption {
  std::string gpu = "h200";     // a known GPU, or a file
  double flops_per_second = 0;  // 0: the GPU's, as the next
  double bytes_per_second = 0;
};

// Adds --gpu, --flops and --bandwidth to `group`.
void AddGpuOptions(CLI::App& app, GpuOption& option, const std::string& group);

// Returns the rates of the GPU, with those of --flops and --bandwidth in the place of its own. A
// name that is no known GPU is a file.
absl::StatusOr<GpuRates> RatesOf(const GpuOption& option);

// Returns the known GPU with this name, or with this name of its driver. Null: no known one.
const GpuRates* KnownGpu(std::string_view name);

// Returns "PCIe 5.0 x16 of h200" for a known GPU, and its name for another one.
std::string LinkText(const std::string& gpu);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_GPU_OPTION_H_
