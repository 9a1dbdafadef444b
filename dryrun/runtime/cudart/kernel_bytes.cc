// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/kernel_bytes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "dryrun/runtime/cudart/element_bytes.h"
#include "dryrun/runtime/cudart/kernel_arguments.h"
#include "dryrun/runtime/cudart/kernel_name.h"
#include "dryrun/runtime/cudart/list_bytes.h"

namespace tidepool::cudart_host {
namespace {

using Rule = KernelBytes::Rule;

// ------------------------------------------------------------------ tensors of sizes and strides

// TensorInfo: an address, 25 sizes, 25 strides, and how many there are.
std::int64_t BytesOfTensorInfo(const NameParts& type, const void* tensor) {
  constexpr std::size_t kMostDimensions = 25;
  const std::int64_t index = SizeOfType(TextOf(type.templates, 1));
  if (index == 0) return 0;
  const auto sizes = sizeof(void*);
  const auto dimensions =
      At<std::int32_t>(tensor, sizes + 2 * kMostDimensions * static_cast<std::size_t>(index));
  std::int64_t bytes = SizeOfType(TextOf(type.templates, 0));
  for (std::int32_t i = 0; i < dimensions; ++i) {
    bytes *= IntegerAt(tensor, sizes + static_cast<std::size_t>(i * index), index);
  }
  return bytes;
}

// GenericPackedTensorAccessor<..., T, N, traits, index>: an address and N sizes.
std::int64_t BytesOfAccessor(const NameParts& type, const void* tensor) {
  const std::size_t count = type.templates.size();
  if (count < 4) return 0;
  const std::int64_t index = SizeOfType(type.templates[count - 1]);
  std::int64_t bytes = SizeOfType(type.templates[count - 4]);
  for (std::int64_t i = 0; i < NumberAfter(type.templates[count - 3], ""); ++i) {
    bytes *= IntegerAt(tensor, sizeof(void*) + static_cast<std::size_t>(i * index), index);
  }
  return bytes;
}

bool IsAccessor(std::string_view type) { return Contains(type, "PackedTensorAccessor<"); }

bool DescribesTensor(std::string_view type) {
  return IsAccessor(type) || Contains(type, "TensorInfo<");
}

std::int64_t BytesOfTensor(std::string_view type, const void* tensor) {
  const NameParts parts = PartsOfType(type);
  return parts.name == "TensorInfo" ? BytesOfTensorInfo(parts, tensor)
                                    : BytesOfAccessor(parts, tensor);
}

// Returns the bytes of all arguments that tell the sizes of their tensor.
std::int64_t BytesOfDescribed(const NameParts& kernel, const KernelLaunch& launch) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (DescribesTensor(kernel.parameters[i])) {
      bytes += BytesOfTensor(kernel.parameters[i], launch.arguments[i]);
    }
  }
  return bytes;
}

// ------------------------------------------------------------------------------------- formulas

// In the place of an argument: the first size of the grid, and of a block.
constexpr int kBlocks = 1000;
constexpr int kThreads = 1001;

// Arguments are numbered from 0, or with -1 from the last one back.
struct Term {
  std::vector<int> factors;   // integers, or tensors that tell their sizes: the product is the
                              // number of elements
  std::vector<int> tensors;   // that have as many elements, or without factors as many as they tell
  std::vector<int> divisors;  // of the product
};

std::size_t PlaceOf(const NameParts& kernel, int argument) {
  return static_cast<std::size_t>(
      argument < 0 ? argument + static_cast<int>(kernel.parameters.size()) : argument);
}

std::int64_t IntegerOf(const NameParts& kernel, const KernelLaunch& launch, int argument) {
  if (argument == kBlocks) return launch.grid.x;
  if (argument == kThreads) return launch.block.x;
  const std::size_t place = PlaceOf(kernel, argument);
  const std::string_view type = TextOf(kernel.parameters, place);
  const std::int64_t size = SizeOfType(type);
  if (size == 0) return 0;
  return DescribesTensor(type) ? BytesOfTensor(type, launch.arguments[place]) / size
                               : IntegerAt(launch.arguments[place], 0, size);
}

std::int64_t BytesOfTerm(const Term& term, const NameParts& kernel, const KernelLaunch& launch) {
  std::int64_t elements = 1;
  for (const int factor : term.factors) elements *= IntegerOf(kernel, launch, factor);
  for (const int divisor : term.divisors) {
    elements /= std::max<std::int64_t>(1, IntegerOf(kernel, launch, divisor));
  }
  std::int64_t bytes = 0;
  for (const int tensor : term.tensors) {
    const std::size_t place = PlaceOf(kernel, tensor);
    const std::string_view type = TextOf(kernel.parameters, place);
    bytes += term.factors.empty() ? BytesOfTensor(type, launch.arguments[place])
                                  : elements * SizeOfType(type);
  }
  return bytes;
}

Rule Sum(std::vector<Term> terms) {
  return [terms = std::move(terms)](const NameParts& kernel, const KernelLaunch& launch) {
    std::int64_t bytes = 0;
    for (const Term& term : terms) bytes += BytesOfTerm(term, kernel, launch);
    return bytes;
  };
}

// ------------------------------------------------------------------- reductions, concatenations

// ReduceConfig in ReduceOp, after an operation and its first value of unknown sizes: found by the
// sizes of the block and the grid that it asks for.
struct ReduceConfig {
  std::array<std::int32_t, 3> sizes;  // of an element, inputs of each output, outputs
  std::array<std::int32_t, 2> steps;
  std::int32_t blocks_of_output;
  std::array<std::int32_t, 5> factors;
  std::int32_t width, height;
};

bool IsOf(const ReduceConfig& config, const KernelLaunch& launch) {
  return config.width == static_cast<std::int32_t>(launch.block.x) &&
         config.height == static_cast<std::int32_t>(launch.block.y) &&
         config.blocks_of_output == static_cast<std::int32_t>(launch.grid.y) &&
         config.sizes[1] > 0 && config.sizes[2] > 0;
}

// <threads, vector, ReduceOp<input, operation, index, output, ...>>(ReduceOp)
std::int64_t OfReduction(const NameParts& kernel, const KernelLaunch& launch) {
  constexpr std::size_t kMostOffset = 64;
  const std::vector<std::string> types = PartsOfType(TextOf(kernel.templates, 2)).templates;
  for (std::size_t offset = 0; offset <= kMostOffset; offset += 4) {
    const auto config = At<ReduceConfig>(launch.arguments[0], offset);
    if (!IsOf(config, launch)) continue;
    const std::int64_t outputs = config.sizes[2];
    return outputs *
           (config.sizes[1] * SizeOfType(TextOf(types, 0)) + SizeOfType(TextOf(types, 3)));
  }
  return -1;
}

// <T, index, dimensions, most, ...>(result, inputs, ...): the inputs have an address, an offset, a
// size and the number of elements each. A row of blocks copies one of them.
std::int64_t OfConcatenation(const NameParts& kernel, const KernelLaunch& launch) {
  const std::int64_t index = SizeOfType(TextOf(kernel.templates, 1));
  const std::int64_t most = NumberAfter(TextOf(kernel.templates, 3), "");
  const auto first = static_cast<std::size_t>(most * (8 + 2 * index));
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(launch.grid.y, most); ++i) {
    elements += IntegerAt(launch.arguments[1], first + static_cast<std::size_t>(i * index), index);
  }
  return 2 * elements * SizeOfType(TextOf(kernel.templates, 0));
}

// <T, packed, ...>(input, result, rows, columns, ...): each T has some elements of a row.
std::int64_t OfTransposition(const NameParts& kernel, const KernelLaunch& launch) {
  return IntegerOf(kernel, launch, 2) * IntegerOf(kernel, launch, 3) *
         NumberAfter(TextOf(kernel.templates, 1), "") * 2 * SizeOfType(TextOf(kernel.templates, 0));
}

// --------------------------------------------------------------------------------------- kernels

// By the name in PyTorch, or after :: by another one.
const absl::flat_hash_map<std::string_view, Rule>& Rules() {
  static const auto* const rules = [] {
    const Rule softmax = Sum({{{kBlocks, 2}, {0, 1}, {}}});
    const Rule softmax_backward = Sum({{{kBlocks, 3}, {0, 1, 2}, {}}});
    const Rule pool_backward = Sum({{{2, 3, 4, 5}, {-1}, {}}, {{2, 3, 6, 7}, {0, 1}, {}}});
    const Rule layer_norm_backward = Sum({{{kBlocks, 6}, {0, 1, 5}, {}}});
    const Rule moments = Sum({{{kBlocks, 0}, {2}, {}}});
    const Rule gradients = Sum({{{kBlocks, 0}, {1, 2}, {}}});
    const Rule average_backward = Sum({{{0}, {1}, {}}, {{0, 5, 6}, {1}, {3, 4}}});
    const Rule average_of_images = Sum({{{kBlocks, 2, 3}, {0}, {}}, {{kBlocks, 4, 5}, {1}, {}}});
    return new absl::flat_hash_map<std::string_view, Rule>{
        {"vectorized_elementwise_kernel", OfVectors},
        {"unrolled_elementwise_kernel", OfUnrolled},
        {"unrolled_elementwise_kernel_for_multi_outputs", OfVectors},
        {"elementwise_kernel", OfPlaces},
        {"::elementwise_kernel_with_index", OfNumbered},
        {"index_elementwise_kernel", OfIndices},
        {"_scatter_gather_elementwise_kernel", OfScatter},
        {"distribution_elementwise_grid_stride_kernel", OfRandom},
        {"reduce_kernel", OfReduction},
        {"multi_tensor_apply_kernel", OfLists},
        {"CatArrayBatchedCopy", OfConcatenation},
        {"CatArrayBatchedCopy_contig", OfConcatenation},
        {"CatArrayBatchedCopy_alignedK_contig", OfConcatenation},
        {"CatArrayBatchedCopy_vectorized", OfConcatenation},
        {"transpose_copy_tiled_kernel", OfTransposition},
        {"vectorized_layer_norm_kernel", Sum({{{kBlocks, 0}, {2, 7}, {}}})},
        {"layer_norm_grad_input_kernel", layer_norm_backward},
        {"layer_norm_grad_input_kernel_vectorized", layer_norm_backward},
        {"GammaBetaBackwardCUDAKernelTemplate", Sum({{{0, 1}, {2, 3}, {}}})},
        {"LayerNormForwardCUDAKernel", Sum({{{kBlocks, 0}, {1, 6}, {}}})},
        {"RowwiseMomentsCUDAKernel", moments},
        {"RowwiseMomentsContiguousCUDAKernel", moments},
        {"ComputeInternalGradientsCUDAKernel", gradients},
        {"ComputeInternalGradientsContiguousCUDAKernel", gradients},
        {"cunn_SoftMaxForward", softmax},
        {"cunn_SoftMaxForwardSmem", softmax},
        {"cunn_SoftMaxForwardReg", softmax},
        {"cunn_SoftMaxBackward", softmax_backward},
        {"cunn_SoftMaxBackwardSmem", softmax_backward},
        {"::softmax_warp_forward", Sum({{{2, 4}, {0, 1}, {}}})},
        {"::softmax_warp_backward", Sum({{{3, 5}, {0, 1, 2}, {}}})},
        {"cunn_SpatialSoftMaxForward", Sum({{{2, 3, 4}, {0, 1}, {}}})},
        {"cunn_SpatialSoftMaxBackward", Sum({{{3, 4, 5}, {0, 1, 2}, {}}})},
        // Batch norm of the layout NHWC; that of NCHW tells the sizes of its tensors.
        {"batch_norm_collect_statistics_channels_last_kernel", Sum({{{5, 6}, {0}, {}}})},
        {"batch_norm_transform_input_channels_last_kernel", Sum({{{7, 8}, {0, 6}, {}}})},
        {"batch_norm_backward_reduce_channels_last_kernel", Sum({{{-2, -1}, {0, 1}, {}}})},
        {"batch_norm_backward_elemt_channels_last_kernel", Sum({{{-2, -1}, {0, 1, 7}, {}}})},
        {"batch_norm_backward_kernel", Sum({{{}, {0, 0, 1, 1, 2}, {}}})},  // sums, then gradients
        {"vectorized_gather_kernel", Sum({{{3, 4}, {0, 1}, {}}})},
        {"indexSelectSmallIndex", Sum({{{2, 5}, {0, 1}, {}}})},
        {"indexSelectLargeIndex", Sum({{{5}, {0, 1}, {}}})},
        {"indexFuncSmallIndex", Sum({{{2, 5}, {0, 0, 1}, {}}})},
        {"indexFuncLargeIndex", Sum({{{5}, {0, 0, 1}, {}}})},
        {"compute_grad_weight", Sum({{{3, 4}, {1}, {}}})},
        {"sum_and_scatter", Sum({{{kBlocks, kThreads}, {1, 1}, {}}})},
        {"fused_dropout_kernel", BytesOfDescribed},
        {"fused_dropout_kernel_vec", BytesOfDescribed},
        {"triu_tril_kernel", BytesOfDescribed},
        {"kernel::lstm_cell_forward", BytesOfDescribed},
        {"kernel::lstm_cell_backward", BytesOfDescribed},
        {"kernel::gru_cell_forward", BytesOfDescribed},
        {"kernel::gru_cell_backward", BytesOfDescribed},
        {"tma_scatter_kernel", Sum({{{3, 4}, {0, 0, 1}, {}}})},
        {"tensor_kernel_scan_innermost_dim", Sum({{{2, 3}, {0, 1}, {}}})},
        {"tensor_kernel_scan_outer_dim", Sum({{{2, 3, 4}, {0, 1}, {}}})},
        {"roll_cuda_kernel", Sum({{{2}, {0, 1}, {}}})},
        {"max_pool_forward_nchw", Sum({{{0}, {-1, -2}, {}}, {{0, 3, 4}, {1}, {5, 6}}})},
        {"max_pool_forward_nhwc", Sum({{{1, 2, 5, 6}, {-1, -2}, {}}, {{1, 2, 3, 4}, {0}, {}}})},
        {"max_pool_backward_nchw", pool_backward},
        {"max_pool_backward_nhwc", pool_backward},
        {"avg_pool2d_out_cuda_frame", Sum({{{0}, {1}, {}}, {{0, 3, 4}, {1}, {5, 6}}})},
        {"avg_pool2d_out_cuda_frame_nhwc", Sum({{{0}, {1}, {}}, {{0, 3, 4}, {1}, {5, 6}}})},
        {"avg_pool2d_backward_out_cuda_frame", average_backward},
        {"avg_pool2d_backward_out_cuda_frame_nhwc", average_backward},
        {"avg_pool2d_backward_nonoverlap_frame", average_backward},
        {"adaptive_average_pool", average_of_images},
        {"adaptive_average_gradinput", average_of_images},
        {"atomic_adaptive_average_gradinput", average_of_images},
        {"upsample_nearest2d_nhwc_out_frame", Sum({{{-1}, {1}, {}}, {{-1, 3, 4}, {0}, {5, 6}}})},
        {"upsample_nearest2d_backward_nhwc_out_frame",
         Sum({{{-1}, {1}, {}}, {{-1, 3, 4}, {0}, {5, 6}}})},
        {"upsample_nearest2d_backward_out_frame",
         Sum({{{1, 2, 3, 4}, {0}, {}}, {{1, 2, 5, 6}, {0}, {}}})},
        {"upsample_nearest2d_out_frame", Sum({{{2, 3, 4}, {0}, {}}, {{2, 5, 6}, {1}, {}}})},
        {"::at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortHistogramKernel",
         Sum({{{2}, {1}, {}}})},
        {"::at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel",
         Sum({{{8}, {4, 5, 6, 7}, {}}})},
    };
  }();
  return *rules;
}

Rule RuleOf(const NameParts& kernel) {
  constexpr std::string_view kPyTorch = "at::native::";
  const auto found = Rules().find(
      kernel.path.starts_with(kPyTorch) ? kernel.path.substr(kPyTorch.size()) : "::" + kernel.path);
  if (found != Rules().end()) return found->second;
  const bool has_accessors =
      std::any_of(kernel.parameters.begin(), kernel.parameters.end(), IsAccessor);
  return has_accessors ? BytesOfDescribed : Rule();
}

}  // namespace

KernelBytes::KernelBytes(const char* mangled)
    : parts_(PartsOfMangled(mangled)), rule_(RuleOf(parts_)) {}

std::int64_t KernelBytes::Of(const KernelLaunch& launch) const {
  const std::int64_t bytes =
      rule_ == nullptr || launch.arguments == nullptr ? 0 : rule_(parts_, launch);
  return bytes > 0 ? bytes : -1;
}

}  // namespace tidepool::cudart_host
