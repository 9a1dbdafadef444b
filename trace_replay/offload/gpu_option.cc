// SPDX-License-Identifier: Apache-2.0
// Finds a GPU by its name or its file.
#include "trace_replay/offload/gpu_option.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trace_replay/options.h"

namespace tidepool::tool {
namespace {

std::string KnownNames() {
  return absl::StrJoin(KnownGpus(), ", ", [](std::string* text, const GpuRates& gpu) {
    absl::StrAppend(text, gpu.name);
  });
}

// Names of GPUs are read without case, '-' and '_', as names of models are.
std::string Plain(const std::string& name) {
  std::string plain = absl::AsciiStrToLower(name);
  std::erase_if(plain, [](char c) { return c == '-' || c == '_'; });
  return plain;
}

absl::StatusOr<GpuRates> FindGpu(const std::string& name) {
  for (const GpuRates& gpu : KnownGpus()) {
    if (Plain(gpu.name) == Plain(name)) return gpu;
  }
  const std::filesystem::path path = name;
  std::error_code error;
  if (path.extension() == ".json" || std::filesystem::exists(path, error)) return ReadGpu(path);
  return absl::InvalidArgumentError(absl::StrCat("--gpu: unknown GPU '", absl::CHexEscape(name),
                                                 "', expected a JSON file or one of ",
                                                 KnownNames()));
}

}  // namespace

void AddGpuOptions(CLI::App& app, GpuOption& option, const std::string& group) {
  app.add_option("--gpu", option.gpu,
                 absl::StrCat("Take the times of tasks from the data sheet of this GPU: ",
                              KnownNames(), "; or from a JSON file of your own GPU"))
      ->type_name("NAME|FILE")
      ->capture_default_str()
      ->group(group);
  AddNumberOption(app, "--flops", option.flops_per_second, {.least = 1, .most = 1e24},
                  "Operations a second in single precision, such as 60e12, in the place of the "
                  "GPU's")
      ->default_str("")
      ->group(group);
  AddRateOption(app, "--bandwidth", option.bytes_per_second,
                "Bandwidth of the GPU's memory, such as 2TB/s, in the place of the GPU's")
      ->group(group);
}

absl::StatusOr<GpuRates> RatesOf(const GpuOption& option) {
  absl::StatusOr<GpuRates> gpu = FindGpu(option.gpu);
  if (!gpu.ok()) return gpu;
  if (option.flops_per_second > 0) {
    gpu->flops_per_second = option.flops_per_second;
    absl::StrAppend(&gpu->name, " at ", option.flops_per_second, " FLOP/s");
  }
  if (option.bytes_per_second > 0) {
    gpu->bytes_per_second = option.bytes_per_second;
    absl::StrAppend(&gpu->name, " at ", option.bytes_per_second, " B/s");
  }
  return gpu;
}

const GpuRates* KnownGpu(std::string_view name) {
  for (const GpuRates& gpu : KnownGpus()) {
    if (!name.empty() && (name == gpu.name || name == gpu.title)) return &gpu;
  }
  return nullptr;
}

std::string LinkText(const std::string& gpu) {
  const GpuRates* const known = KnownGpu(gpu);
  return known == nullptr ? gpu : absl::StrCat(known->link, " of ", gpu);
}

}  // namespace tidepool::tool
