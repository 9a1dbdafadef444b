// SPDX-License-Identifier: Apache-2.0
// The known GPUs: rates of their data sheets, and the link to the host.
//
// Those of dry runs are rows of dryrun/program/tidepool_dryrun/gpus.inc, with their sources. From
// Ampere on, the rate of single precision is the matrix units' dense TF32, which frameworks use
// there: half of the rate of 16 bits. The rates of the others here are those of NVIDIA's data
// sheets, and for consumer cards cores x 2 x boost clock, from their specification pages. A Tesla
// K80 has two GPUs; "k80" is one of them, a GK210, with half of the board's rates. A launch takes
// about 5 us (a common measurement; the guides name no number).
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

constexpr double kLaunchSeconds = 5e-6;
constexpr int kAmpere = 80;                                    // ten times its capability
constexpr std::string_view kUnifiedMemory = "unified memory";  // in the place of a link

struct LinkRow {
  std::string_view name;
  double bytes_per_second;
};

struct GpuRow {
  std::string_view name;
  std::string_view title;
  int capability;
  int multiprocessors;
  int threads;
  int shared_bytes;
  double l2_mib;
  double memory_gib;
  double gigabytes_per_second;
  double tera_doubles;
  double tera_floats;
  double tera_halves;
  std::string_view link;   // to the host
  std::string_view peers;  // the link to other GPUs of a node
  std::string_view source;
};

#define GPU(...)
#define LINK(...) {__VA_ARGS__},
constexpr LinkRow kLinks[] = {
#include "dryrun/program/tidepool_dryrun/gpus.inc"
};
#undef LINK
#undef GPU

#define LINK(...)
#define GPU(...) {__VA_ARGS__},
constexpr GpuRow kGpusOfDryRuns[] = {
#include "dryrun/program/tidepool_dryrun/gpus.inc"
};
#undef GPU
#undef LINK

constexpr double LinkBytesPerSecond(std::string_view name) {
  for (const LinkRow& link : kLinks) {
    if (link.name == name) return link.bytes_per_second;
  }
  return 0;
}

GpuRates Gpu(std::string_view name, double flops_per_second, double bytes_per_second,
             std::string_view link) {
  return {std::string(name), flops_per_second,         bytes_per_second,
          kLaunchSeconds,    LinkBytesPerSecond(link), std::string(link)};
}

// The first GPU with a rate of 16 bits of its own, which has no bfloat16.
GpuRates P100() {
  GpuRates gpu = Gpu("p100", 10.6e12, 732e9, "PCIe 3.0 x16");  // Tesla P100 SXM2 data sheet
  gpu.float16_flops_per_second = 21.2e12;
  return gpu;
}

GpuRates A100() {
  GpuRates gpu = Gpu("a100", 156e12, 2039e9, "PCIe 4.0 x16");  // A100 80GB SXM data sheet
  gpu.has_tensor_float32 = true;
  gpu.float16_flops_per_second = gpu.bfloat16_flops_per_second = 312e12;
  return gpu;
}

GpuRates OfDryRuns(const GpuRow& row) {
  const bool has_tensor_float32 = row.capability >= kAmpere;
  const double halves = row.tera_halves * 1e12;
  GpuRates gpu = Gpu(row.name, has_tensor_float32 ? halves / 2 : row.tera_floats * 1e12,
                     row.gigabytes_per_second * 1e9, row.link);
  gpu.float16_flops_per_second = halves;
  gpu.bfloat16_flops_per_second = has_tensor_float32 ? halves : 0;
  gpu.has_tensor_float32 = has_tensor_float32;
  gpu.title = row.title;
  if (row.link == kUnifiedMemory) {
    gpu.is_integrated = true;
    gpu.link_bytes_per_second = gpu.bytes_per_second / 2;  // a copy reads and writes
  }
  gpu.memory_bytes = static_cast<std::int64_t>(row.memory_gib * (1 << 30));
  return gpu;
}

std::vector<GpuRates> AllGpus() {
  constexpr std::string_view kPcie2 = "PCIe 2.0 x16";
  constexpr std::string_view kPcie3 = "PCIe 3.0 x16";
  std::vector<GpuRates> gpus = {
      Gpu("gtx-750-ti", 1.389e12, 86.4e9, kPcie3),  // GeForce GTX 750 Ti: 640 cores, 1085 MHz
      Gpu("gtx-970", 3.92e12, 224e9, kPcie3),       // GeForce GTX 970: 1664 cores, 1178 MHz
      Gpu("gtx-1080-ti", 11.34e12, 484e9, kPcie3),  // GeForce GTX 1080 Ti: 3584 cores, 1582 MHz
      Gpu("titan-x", 6.61e12, 336.5e9, kPcie3),     // GTX TITAN X (Maxwell): 3072 cores, 1075 MHz
      Gpu("k20xm", 3.95e12, 250e9, kPcie2),         // Tesla K20X data sheet; K20Xm is its module
      Gpu("k40", 4.29e12, 288e9, kPcie3),           // Tesla K40 data sheet, base clock
      Gpu("k80", 4.37e12, 240e9, kPcie3),           // Tesla K80 data sheet, boost clock, halved
      P100(),
      A100(),
  };
  for (const GpuRow& row : kGpusOfDryRuns) gpus.push_back(OfDryRuns(row));
  return gpus;
}

}  // namespace

absl::Span<const GpuRates> KnownGpus() {
  static const auto* const kGpus = new std::vector<GpuRates>(AllGpus());
  return *kGpus;
}

}  // namespace tidepool
