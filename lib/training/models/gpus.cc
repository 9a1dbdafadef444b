// SPDX-License-Identifier: Apache-2.0
// The known GPUs: rates of their data sheets, and the link to the host.
//
// Single precision rates and memory bandwidths are those of NVIDIA's data sheets. From Ampere on,
// the rate is the matrix units' dense TF32, which frameworks use there for single precision. Rates
// of consumer cards are cores x 2 x boost clock, from their specification pages. A Tesla K80 has
// two GPUs; "k80" is one of them, a GK210, with half of the board's rates. A launch takes about 5
// us (a common measurement; the guides name no number).
//
// The link is PCI Express with 16 lanes, of the generation in the data sheet. NVLink connects these
// GPUs with each other, not with the host. PCIe 3.0 moves 15.75 GB/s (8 GT/s a lane, of 130 bits
// 128); copies reach about 12 GB/s of it, which is also the rate of the comparisons with the papers
// on offloading. Each generation doubles the rate of a lane (PCI-SIG: 8, 16, 32 GT/s), so 4.0 and
// 5.0 have 24 and 48 GB/s. PCIe 2.0 moves 8 GB/s (5 GT/s a lane, of 10 bits 8), so copies reach
// about 6 GB/s; 6.0 has 96 GB/s. NVLink-C2C moves 900 GB/s in both directions between a Grace
// processor and its two GPUs, of which copies are taken to reach three quarters. A measured rate is
// better where there is one.
#include <array>
#include <cstdint>
#include <utility>

#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

constexpr double kLaunchSeconds = 5e-6;

struct Link {
  double bytes_per_second;
  const char* name;
};
constexpr Link kPcie2 = {6e9, "PCIe 2.0 x16"};
constexpr Link kPcie3 = {12e9, "PCIe 3.0 x16"};
constexpr Link kPcie4 = {24e9, "PCIe 4.0 x16"};
constexpr Link kPcie5 = {48e9, "PCIe 5.0 x16"};
constexpr Link kPcie6 = {96e9, "PCIe 6.0 x16"};
constexpr Link kGrace = {170e9, "NVLink-C2C"};

GpuRates Gpu(const char* name, double flops_per_second, double bytes_per_second, const Link& link) {
  return {name,           flops_per_second,      bytes_per_second,
          kLaunchSeconds, link.bytes_per_second, link.name};
}

// Adds the rates of numbers of 16 bits.
GpuRates WithHalf(GpuRates gpu, double float16_flops_per_second, double bfloat16_flops_per_second) {
  gpu.float16_flops_per_second = float16_flops_per_second;
  gpu.bfloat16_flops_per_second = bfloat16_flops_per_second;
  return gpu;
}

// Adds the rate of both types of 16 bits, on matrix units that have TF32 too.
GpuRates WithTensorFloat32(GpuRates gpu, double half_flops_per_second) {
  gpu.has_tensor_float32 = true;
  return WithHalf(std::move(gpu), half_flops_per_second, half_flops_per_second);
}

// Adds the memory, and the name that the driver gives.
GpuRates WithMemory(GpuRates gpu, double gibibytes, const char* title) {
  gpu.memory_bytes = static_cast<std::int64_t>(gibibytes * (1 << 30));
  gpu.title = title;
  return gpu;
}

}  // namespace

absl::Span<const GpuRates> KnownGpus() {
  static const auto* const kGpus = new auto(std::to_array<GpuRates>({
      Gpu("gtx-750-ti", 1.389e12, 86.4e9, kPcie3),  // GeForce GTX 750 Ti: 640 cores, 1085 MHz
      Gpu("gtx-970", 3.92e12, 224e9, kPcie3),       // GeForce GTX 970: 1664 cores, 1178 MHz
      Gpu("gtx-1080-ti", 11.34e12, 484e9, kPcie3),  // GeForce GTX 1080 Ti: 3584 cores, 1582 MHz
      Gpu("titan-x", 6.61e12, 336.5e9, kPcie3),     // GTX TITAN X (Maxwell): 3072 cores, 1075 MHz
      Gpu("k20xm", 3.95e12, 250e9, kPcie2),         // Tesla K20X data sheet; K20Xm is its module
      Gpu("k40", 4.29e12, 288e9, kPcie3),           // Tesla K40 data sheet, base clock
      Gpu("k80", 4.37e12, 240e9, kPcie3),           // Tesla K80 data sheet, boost clock, halved
      // Tesla P100 SXM2 data sheet
      WithHalf(Gpu("p100", 10.6e12, 732e9, kPcie3), 21.2e12, 0),
      // A100 80GB SXM data sheet, TF32 without sparsity, as for all GPUs below
      WithTensorFloat32(Gpu("a100", 156e12, 2039e9, kPcie4), 312e12),
      // dryrun/program/tidepool_dryrun/gpus.py has the sources of these, and their memory. The
      // first three have no bfloat16.
      WithMemory(WithHalf(Gpu("t4", 8.1e12, 320e9, kPcie3), 65e12, 0), 14.57, "Tesla T4"),
      WithMemory(WithHalf(Gpu("v100", 15.7e12, 900e9, kPcie3), 125e12, 0), 15.77,
                 "Tesla V100-SXM2-16GB"),
      WithMemory(WithHalf(Gpu("v100-32", 15.7e12, 900e9, kPcie3), 125e12, 0), 31.74,
                 "Tesla V100-SXM2-32GB"),
      WithMemory(WithTensorFloat32(Gpu("a10g", 35e12, 600e9, kPcie4), 70e12), 22.07, "NVIDIA A10G"),
      WithMemory(WithTensorFloat32(Gpu("a100-40", 156e12, 1555e9, kPcie4), 312e12), 39.38,
                 "NVIDIA A100-SXM4-40GB"),
      WithMemory(WithTensorFloat32(Gpu("a100-80", 156e12, 2039e9, kPcie4), 312e12), 79.15,
                 "NVIDIA A100-SXM4-80GB"),
      WithMemory(WithTensorFloat32(Gpu("l4", 60.5e12, 300e9, kPcie4), 121e12), 22.03, "NVIDIA L4"),
      WithMemory(WithTensorFloat32(Gpu("l40s", 181e12, 864e9, kPcie4), 362e12), 44.39,
                 "NVIDIA L40S"),
      WithMemory(WithTensorFloat32(Gpu("h100-pcie", 378e12, 2000e9, kPcie5), 756e12), 79.18,
                 "NVIDIA H100 PCIe"),
      WithMemory(WithTensorFloat32(Gpu("h100", 494.7e12, 3350e9, kPcie5), 989.4e12), 79.19,
                 "NVIDIA H100 80GB HBM3"),
      WithMemory(WithTensorFloat32(Gpu("h200", 494.7e12, 4800e9, kPcie5), 989.4e12), 139.81,
                 "NVIDIA H200"),
      WithMemory(WithTensorFloat32(Gpu("b200", 1125e12, 8000e9, kPcie5), 2250e12), 178.35,
                 "NVIDIA B200"),
      WithMemory(WithTensorFloat32(Gpu("b300", 1125e12, 8000e9, kPcie6), 2250e12), 267.69,
                 "NVIDIA B300 SXM6 AC"),
      WithMemory(WithTensorFloat32(Gpu("gb200", 1250e12, 8000e9, kGrace), 2500e12), 184.31,
                 "NVIDIA GB200"),
      WithMemory(WithTensorFloat32(Gpu("gb300", 1250e12, 8000e9, kGrace), 2500e12), 276.50,
                 "NVIDIA GB300"),
      WithMemory(WithTensorFloat32(Gpu("rtx-3090", 35.6e12, 936e9, kPcie4), 71e12), 23.68,
                 "NVIDIA GeForce RTX 3090"),
      WithMemory(WithTensorFloat32(Gpu("rtx-4090", 82.6e12, 1008e9, kPcie4), 165.2e12), 23.64,
                 "NVIDIA GeForce RTX 4090"),
      WithMemory(WithTensorFloat32(Gpu("rtx-5090", 104.8e12, 1792e9, kPcie5), 209.5e12), 31.36,
                 "NVIDIA GeForce RTX 5090"),
      WithMemory(WithTensorFloat32(Gpu("rtx-pro-6000", 251.9e12, 1792e9, kPcie5), 503.8e12), 94.97,
                 "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"),
  }));
  return *kGpus;
}

}  // namespace tidepool
