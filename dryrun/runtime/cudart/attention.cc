// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/attention.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dryrun/runtime/cudart/kernel_arguments.h"
#include "dryrun/runtime/cudart/kernel_name.h"

namespace tidepool::cudart_host {
namespace {

// A multiplication and an addition for each query, key and dimension of a head.
constexpr double kOperations = 2;

template <typename Number = std::int32_t>
double NumberAt(const KernelLaunch& launch, std::size_t offset) {
  return static_cast<double>(At<Number>(launch.arguments[0], offset));
}

// Where structures of arguments have their numbers.
struct FlashOffsets {
  std::size_t heads = 96;
  std::size_t batch = 176;
  std::size_t queries = 180;
  std::size_t keys = 184;
  std::size_t dimensions = 192;
};

// The operations are in units of a product of queries with keys, and of weights with values.
struct Efficient {
  std::size_t dimensions, value_dimensions, queries, keys;
  double products, value_products;
};
constexpr Efficient kForward = {96, 100, 104, 108, 1, 1};
constexpr Efficient kBackward = {144, 148, 152, 156, 3, 2};

// Returns whether the backward pass has a mask for earlier keys. It has no bias then, of which the
// rows are 0 apart. Newer versions have another number in front of the mask.
bool IsCausalBackward(const KernelLaunch& launch) {
  constexpr std::size_t kRows = 192;
  constexpr std::size_t kNewerRows = 200;
  if (NumberAt<std::int64_t>(launch, kRows) == 0) return NumberAt<std::uint8_t>(launch, 164) != 0;
  return NumberAt<std::int64_t>(launch, kNewerRows) == 0 &&
         NumberAt<std::uint8_t>(launch, 168) != 0;
}

bool IsCausalForward(const KernelLaunch& launch) {
  return NumberAt<std::uint8_t>(launch, 116) != 0;
}

// Half of the products are left out where a query looks at earlier keys alone.
double ShareOf(bool is_causal) { return is_causal ? 0.5 : 1; }

// <traits, drops, is causal, ...>(parameters), with two products of matrices, or five of the
// backward pass.
double OperationsOfFlash(const NameParts& kernel, const KernelLaunch& launch, double products) {
  constexpr FlashOffsets at;
  const bool is_causal = kernel.templates.size() > 2 && kernel.templates[2] == "true";
  return products * kOperations * ShareOf(is_causal) * NumberAt(launch, at.batch) *
         NumberAt(launch, at.heads) * NumberAt(launch, at.queries) * NumberAt(launch, at.keys) *
         NumberAt(launch, at.dimensions);
}

// The grid has the heads and the batch. Floats have TF32's half of the rate of 16-bit numbers.
double OperationsOfEfficient(const NameParts& kernel, const KernelLaunch& launch,
                             const Efficient& at, bool is_causal) {
  const double rate = kernel.name.find("_f32_") == std::string::npos ? 1 : 2;
  return rate * kOperations * ShareOf(is_causal) * launch.grid.y * launch.grid.z *
         NumberAt(launch, at.queries) * NumberAt(launch, at.keys) *
         (at.products * NumberAt(launch, at.dimensions) +
          at.value_products * NumberAt(launch, at.value_dimensions));
}

}  // namespace

double OperationsOfAttention(const NameParts& kernel, const KernelLaunch& launch) {
  const std::string_view name = kernel.path;
  if (launch.arguments == nullptr) return 0;
  if (name == "pytorch_flash::flash_fwd_kernel" ||
      name == "pytorch_flash::flash_fwd_splitkv_kernel")
    return OperationsOfFlash(kernel, launch, 2);
  if (name == "pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel")
    return OperationsOfFlash(kernel, launch, 5);
  if (name.starts_with("fmha_cutlassF_"))
    return OperationsOfEfficient(kernel, launch, kForward, IsCausalForward(launch));
  if (name.starts_with("fmha_cutlassB_"))
    return OperationsOfEfficient(kernel, launch, kBackward, IsCausalBackward(launch));
  return 0;
}

double EfficiencyOfAttention(int capability) {
  constexpr int kHopper = 90;
  return capability >= kHopper ? 0.35 : 0.6;
}

}  // namespace tidepool::cudart_host
