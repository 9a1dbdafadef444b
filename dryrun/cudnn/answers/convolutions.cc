// SPDX-License-Identifier: Apache-2.0
// Convolutions in the older interface of cuDNN, which PyTorch takes with
// TORCH_CUDNN_V8_API_DISABLED.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dryrun/cudnn/answers/algorithms.h"
#include "dryrun/cudnn/descriptors.h"
#include "dryrun/libraries/gpu.h"

namespace tidepool::cudart_host {
namespace {

// The numbers of algorithms in cudnnConvolutionFwdAlgo_t and those of the other passes, by
// AlgorithmKind; -1: the pass does not have it.
constexpr std::array<std::array<int, 7>, 3> kNumbers = {{
    {0, 1, 2, 7, 4, 5, 1},
    {0, 1, -1, 5, 2, 3, 1},
    {0, 1, -1, 5, 2, 6, 1},
}};

int NumberOf(Pass pass, AlgorithmKind kind) {
  return kNumbers[static_cast<std::size_t>(pass)][static_cast<std::size_t>(kind)];
}

// Floats take TF32 with CUDNN_DEFAULT_MATH.
cudnnMathType_t MathOf(const Convolution& convolution, const Algorithm& algorithm) {
  const bool is_float = convolution.type == CUDNN_DATA_FLOAT;
  if (algorithm.kind == AlgorithmKind::kTensorGemm) {
    return is_float ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
  }
  return is_float ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

template <std::size_t kSize>
std::vector<std::int64_t> Wide(const std::array<int, kSize>& numbers, int count) {
  return {numbers.begin(), numbers.begin() + count};
}

Convolution ConvolutionOf(Pass pass, const ConvolutionDescriptors& its) {
  const std::vector<std::int64_t> sizes = Wide(its.x->sizes, its.x->dimensions);
  const int directions = its.convolution->dimensions;
  return {.pass = pass,
          .type = its.x->type,
          .is_channels_last = IsChannelsLast(sizes, Wide(its.x->strides, its.x->dimensions)),
          .may_use_tensor_cores = its.convolution->math != CUDNN_FMA_MATH,
          .x = sizes,
          .w = Wide(its.w->sizes, its.w->dimensions),
          .y = Wide(its.y->sizes, its.y->dimensions),
          .padding = Wide(its.convolution->pads, directions),
          .stride = Wide(its.convolution->strides, directions),
          .dilation = Wide(its.convolution->dilations, directions)};
}

// Stores the algorithms that need no more than `most_bytes`, the fastest first.
template <typename Result>
cudnnStatus_t Propose(const Convolution& convolution, std::size_t most_bytes, int wanted,
                      int* count, Result* results) {
  *count = 0;
  for (const Algorithm& one : OfferedAlgorithms(convolution)) {
    const int number = NumberOf(convolution.pass, one.kind);
    const auto bytes = static_cast<std::size_t>(one.workspace_bytes);
    if (number < 0 || bytes > most_bytes || *count >= wanted) continue;
    NoteWorkspace(one.workspace_bytes, convolution);
    const double seconds = AssumedGpu().Seconds(one.work);
    results[(*count)++] = {.algo = static_cast<decltype(results->algo)>(number),
                           .status = CUDNN_STATUS_SUCCESS,
                           .time = static_cast<float>(seconds * 1e3),
                           .memory = bytes,
                           .determinism = CUDNN_DETERMINISTIC,
                           .mathType = MathOf(convolution, one),
                           .reserved = {}};
  }
  return CUDNN_STATUS_SUCCESS;
}

// Returns the algorithm of a number, the one for the descriptor's units where there are two.
std::optional<Algorithm> Find(const Convolution& convolution, int number, cudnnMathType_t math) {
  std::optional<Algorithm> found;
  for (const Algorithm& one : OfferedAlgorithms(convolution)) {
    if (NumberOf(convolution.pass, one.kind) != number) continue;
    if (MathOf(convolution, one) == math) return one;
    if (!found.has_value()) found = one;
  }
  return found;
}

cudnnStatus_t StoreWorkspace(Pass pass, const ConvolutionDescriptors& its, int number,
                             std::size_t* bytes) {
  const Convolution convolution = ConvolutionOf(pass, its);
  const std::optional<Algorithm> found = Find(convolution, number, its.convolution->math);
  if (!found.has_value()) return CUDNN_STATUS_BAD_PARAM;
  NoteWorkspace(found->workspace_bytes, convolution);
  *bytes = static_cast<std::size_t>(found->workspace_bytes);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Execute(const char* name, Pass pass, cudnnHandle_t handle,
                      const ConvolutionDescriptors& its, int number, void* output) {
  const Convolution convolution = ConvolutionOf(pass, its);
  const std::optional<Algorithm> found = Find(convolution, number, its.convolution->math);
  if (!found.has_value()) return CUDNN_STATUS_BAD_PARAM;
  Run(name, handle->stream, found->work, output, OutputBytes(convolution));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace tidepool::cudart_host

using tidepool::cudart_host::ConvolutionOf;
using tidepool::cudart_host::Execute;
using tidepool::cudart_host::Pass;
using tidepool::cudart_host::Propose;
using tidepool::cudart_host::Roles;
using tidepool::cudart_host::StoreWorkspace;

// Defines the functions of one direction (cudnn.h).
#define TIDEPOOL_DIRECTION(Name, Short, kPass, A, B, C)                                           \
  extern "C" cudnnStatus_t cudnnGetConvolution##Name##Algorithm_v7(                               \
      cudnnHandle_t, A a, B b, cudnnConvolutionDescriptor_t how, C c, int wanted, int* count,     \
      cudnnConvolution##Short##AlgoPerf_t* results) {                                             \
    return Propose(ConvolutionOf(kPass, Roles<kPass>(a, b, c, how)), SIZE_MAX, wanted, count,     \
                   results);                                                                      \
  }                                                                                               \
  extern "C" cudnnStatus_t cudnnFindConvolution##Name##AlgorithmEx(                               \
      cudnnHandle_t, A a, const void*, B b, const void*, cudnnConvolutionDescriptor_t how, C c,   \
      void*, int wanted, int* count, cudnnConvolution##Short##AlgoPerf_t* results, void*,         \
      size_t bytes) {                                                                             \
    return Propose(ConvolutionOf(kPass, Roles<kPass>(a, b, c, how)), bytes, wanted, count,        \
                   results);                                                                      \
  }                                                                                               \
  extern "C" cudnnStatus_t cudnnGetConvolution##Name##WorkspaceSize(                              \
      cudnnHandle_t, A a, B b, cudnnConvolutionDescriptor_t how, C c,                             \
      cudnnConvolution##Short##Algo_t algorithm, size_t* bytes) {                                 \
    return StoreWorkspace(kPass, Roles<kPass>(a, b, c, how), algorithm, bytes);                   \
  }                                                                                               \
  extern "C" cudnnStatus_t cudnnConvolution##Name(                                                \
      cudnnHandle_t handle, const void*, A a, const void*, B b, const void*,                      \
      cudnnConvolutionDescriptor_t how, cudnnConvolution##Short##Algo_t algorithm, void*, size_t, \
      const void*, C c, void* output) {                                                           \
    return Execute(__func__, kPass, handle, Roles<kPass>(a, b, c, how), algorithm, output);       \
  }

TIDEPOOL_DIRECTION(Forward, Fwd, Pass::kForward, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                   cudnnTensorDescriptor_t)
TIDEPOOL_DIRECTION(BackwardData, BwdData, Pass::kData, cudnnFilterDescriptor_t,
                   cudnnTensorDescriptor_t, cudnnTensorDescriptor_t)
TIDEPOOL_DIRECTION(BackwardFilter, BwdFilter, Pass::kFilter, cudnnTensorDescriptor_t,
                   cudnnTensorDescriptor_t, cudnnFilterDescriptor_t)
