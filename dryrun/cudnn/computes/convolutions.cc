// SPDX-License-Identifier: Apache-2.0
// The functions of convolutions: look-ups, workspaces, and the convolutions themselves, which
// compute in their stream.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dryrun/cudnn/computes/algorithms.h"
#include "dryrun/cudnn/computes/control.h"
#include "dryrun/cudnn/computes/convolution_work.h"
#include "dryrun/cudnn/computes/shape.h"
#include "dryrun/cudnn/descriptors.h"
#include "dryrun/runtime/cudart/control.h"
#include "dryrun/stream_work.h"

namespace tidepool::cudart_host {
namespace {

constexpr std::size_t kPage = 4096;

std::atomic<long long> races = 0;
std::atomic<std::uint64_t> next_token = 1;

// Calls `body` with the places in the workspace that a convolution marks as its own.
template <typename Body>
void ForEachMark(const ConvolutionWork& work, Body body) {
  if (work.workspace_bytes < sizeof(std::uint64_t)) return;
  const std::size_t last = work.workspace_bytes - sizeof(std::uint64_t);
  for (std::size_t at = 0; at < last; at += kPage) body(work.workspace + at);
  body(work.workspace + last);
}

// Computes, and finds out whether other work uses the workspace meanwhile.
void Run(const ConvolutionWork& work) {
  const std::uint64_t token = next_token.fetch_add(1);
  ForEachMark(work, [&](char* place) { std::memcpy(place, &token, sizeof token); });
  if (work.epilogue.has_value()) {
    ConvolveFused(work.shape, work.alpha, work.x, work.w, work.y, work.beta, *work.epilogue);
  } else {
    Convolve(work.pass, work.shape, work.alpha, work.x, work.w, work.y, work.beta);
  }
  for (const Pointwise& operation : work.pointwise) Compute(operation);
  bool has_raced = false;
  ForEachMark(work, [&](const char* place) {
    std::uint64_t found = 0;
    std::memcpy(&found, place, sizeof found);
    has_raced = has_raced || found != token;
  });
  if (has_raced) races.fetch_add(1);
}

template <typename Result>
cudnnStatus_t Look(const char* function, Pass pass, cudnnHandle_t handle,
                   const ConvolutionDescriptors& roles, int wanted, int* returned, Result* results,
                   bool has_times, std::size_t limit) {
  if (const cudnnStatus_t status = EnterCudnn(function); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const auto shape = ShapeOf(roles);
  if (handle == nullptr || !shape.has_value() || wanted < 1 || results == nullptr ||
      returned == nullptr) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  std::vector<Result> all;
  std::vector<bool> is_supported(static_cast<std::size_t>(AlgorithmCount(pass)));
  const auto add = [&](const AlgorithmCost& cost, cudnnStatus_t status) {
    Result result = {};
    result.algo = static_cast<decltype(result.algo)>(cost.algorithm);
    result.status = status;
    result.time = has_times && status == CUDNN_STATUS_SUCCESS ? cost.milliseconds : -1;
    result.memory = cost.workspace_bytes;
    result.determinism = cost.is_deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    result.mathType = cost.math;
    all.push_back(result);
  };
  std::vector<AlgorithmCost> too_large;
  for (const AlgorithmCost& cost : CostsOf(pass, *shape)) {
    is_supported[static_cast<std::size_t>(cost.algorithm)] = true;
    if (cost.workspace_bytes > limit) {
      too_large.push_back(cost);
    } else {
      add(cost, CUDNN_STATUS_SUCCESS);
    }
  }
  for (const AlgorithmCost& cost : too_large) {
    add(cost, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  }
  for (int algorithm = 0; algorithm < AlgorithmCount(pass); ++algorithm) {
    if (is_supported[static_cast<std::size_t>(algorithm)]) continue;
    AlgorithmCost cost;
    cost.algorithm = algorithm;
    add(cost, CUDNN_STATUS_NOT_SUPPORTED);
  }
  *returned = std::min(wanted, static_cast<int>(all.size()));
  std::copy_n(all.begin(), *returned, results);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t TellWorkspace(const char* function, Pass pass, cudnnHandle_t handle,
                            const ConvolutionDescriptors& roles, int algorithm,
                            std::size_t* bytes) {
  if (const cudnnStatus_t status = EnterCudnn(function); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const auto shape = ShapeOf(roles);
  if (handle == nullptr || !shape.has_value() || bytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const auto cost = CostOf(pass, *shape, algorithm);
  if (!cost.has_value()) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = cost->workspace_bytes;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Start(const char* function, cudnnHandle_t handle, const ConvolutionDescriptors& roles,
                    int algorithm, const void* alpha, const void* beta,
                    std::unique_ptr<ConvolutionWork> work) {
  if (const cudnnStatus_t status = EnterCudnn(function); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const auto shape = ShapeOf(roles);
  if (handle == nullptr || !shape.has_value() || alpha == nullptr || beta == nullptr ||
      work->x == nullptr || work->w == nullptr || work->y == nullptr) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  work->shape = *shape;
  work->alpha = ScaleOf(alpha, shape->x.type);
  work->beta = ScaleOf(beta, shape->x.type);
  return QueueConvolution(handle, algorithm, std::move(work));
}

template <Pass kPass>
std::unique_ptr<ConvolutionWork> WorkOf(const void* a, const void* b, void* c, void* workspace,
                                        std::size_t workspace_bytes) {
  auto work = std::make_unique<ConvolutionWork>();
  work->pass = kPass;
  void* const first = const_cast<void*>(a);
  void* const second = const_cast<void*>(b);
  work->x = kPass == Pass::kData ? c : first;
  work->w = kPass == Pass::kForward ? second : kPass == Pass::kData ? first : c;
  work->y = kPass == Pass::kForward ? c : second;
  work->workspace = static_cast<char*>(workspace);
  work->workspace_bytes = workspace_bytes;
  return work;
}

// Returns the end of a fused convolution; nothing for arguments that do not suit.
std::optional<Epilogue> EpilogueOf(cudnnTensorDescriptor_t y, cudnnTensorDescriptor_t z,
                                   const void* z_data, cudnnTensorDescriptor_t bias,
                                   const void* bias_data, cudnnActivationDescriptor_t activation) {
  if (y == nullptr || z == nullptr || z_data == nullptr || bias == nullptr ||
      bias_data == nullptr || activation == nullptr) {
    return std::nullopt;
  }
  const bool suits =
      z->sizes == y->sizes && z->strides == y->strides && z->type == y->type &&
      bias->type == y->type && bias->sizes[1] == y->sizes[1] &&
      (activation->mode == CUDNN_ACTIVATION_RELU || activation->mode == CUDNN_ACTIVATION_IDENTITY);
  if (!suits) return std::nullopt;
  return Epilogue{z_data, bias_data, activation->mode == CUDNN_ACTIVATION_RELU};
}

}  // namespace

cudnnStatus_t QueueConvolution(cudnnHandle_t handle, int algorithm,
                               std::unique_ptr<ConvolutionWork> work) {
  const auto cost = CostOf(work->pass, work->shape, algorithm);
  if (!cost.has_value()) return CUDNN_STATUS_NOT_SUPPORTED;
  const std::size_t needed = cost->workspace_bytes;
  const bool has_workspace =
      needed == 0 || (work->workspace != nullptr && work->workspace_bytes >= needed);
  if (!has_workspace) return CUDNN_STATUS_BAD_PARAM;
  work->workspace_bytes = needed;
  cudartHostRunKernel("convolution", handle->stream, static_cast<double>(cost->milliseconds) / 1e3,
                      nullptr, 0);
  const auto run = [work = std::shared_ptr<ConvolutionWork>(std::move(work))] { Run(*work); };
  return QueueWork(handle->stream, run) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace tidepool::cudart_host

using tidepool::cudart_host::AlgorithmCount;
using tidepool::cudart_host::EnterCudnn;
using tidepool::cudart_host::EpilogueOf;
using tidepool::cudart_host::Look;
using tidepool::cudart_host::Pass;
using tidepool::cudart_host::Roles;
using tidepool::cudart_host::Start;
using tidepool::cudart_host::TellWorkspace;
using tidepool::cudart_host::WorkOf;

extern "C" long long cudnnHostCountRaces() { return tidepool::cudart_host::races.load(); }

// Defines the functions of one direction (cudnn.h).
#define TIDEPOOL_DIRECTION(Name, Short, kPass, A, B, C)                                          \
  extern "C" cudnnStatus_t cudnnGetConvolution##Name##AlgorithmMaxCount(cudnnHandle_t handle,    \
                                                                        int* count) {            \
    if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {     \
      return status;                                                                             \
    }                                                                                            \
    if (handle == nullptr || count == nullptr) return CUDNN_STATUS_BAD_PARAM;                    \
    *count = 2 * AlgorithmCount(kPass);                                                          \
    return CUDNN_STATUS_SUCCESS;                                                                 \
  }                                                                                              \
  extern "C" cudnnStatus_t cudnnGetConvolution##Name##Algorithm_v7(                              \
      cudnnHandle_t handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c, int wanted, \
      int* returned, cudnnConvolution##Short##AlgoPerf_t* results) {                             \
    return Look(__func__, kPass, handle, Roles<kPass>(a, b, c, convolution), wanted, returned,   \
                results, false, SIZE_MAX);                                                       \
  }                                                                                              \
  extern "C" cudnnStatus_t cudnnFindConvolution##Name##Algorithm(                                \
      cudnnHandle_t handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c, int wanted, \
      int* returned, cudnnConvolution##Short##AlgoPerf_t* results) {                             \
    return Look(__func__, kPass, handle, Roles<kPass>(a, b, c, convolution), wanted, returned,   \
                results, true, SIZE_MAX);                                                        \
  }                                                                                              \
  extern "C" cudnnStatus_t cudnnFindConvolution##Name##AlgorithmEx(                              \
      cudnnHandle_t handle, A a, const void*, B b, const void*,                                  \
      cudnnConvolutionDescriptor_t convolution, C c, void*, int wanted, int* returned,           \
      cudnnConvolution##Short##AlgoPerf_t* results, void* workspace, size_t workspace_bytes) {   \
    return Look(__func__, kPass, handle, Roles<kPass>(a, b, c, convolution), wanted, returned,   \
                results, true, workspace == nullptr ? 0 : workspace_bytes);                      \
  }                                                                                              \
  extern "C" cudnnStatus_t cudnnGetConvolution##Name##WorkspaceSize(                             \
      cudnnHandle_t handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c,             \
      cudnnConvolution##Short##Algo_t algorithm, size_t* bytes) {                                \
    return TellWorkspace(__func__, kPass, handle, Roles<kPass>(a, b, c, convolution), algorithm, \
                         bytes);                                                                 \
  }                                                                                              \
  extern "C" cudnnStatus_t cudnnConvolution##Name(                                               \
      cudnnHandle_t handle, const void* alpha, A a, const void* a_data, B b, const void* b_data, \
      cudnnConvolutionDescriptor_t convolution, cudnnConvolution##Short##Algo_t algorithm,       \
      void* workspace, size_t workspace_bytes, const void* beta, C c, void* c_data) {            \
    return Start(__func__, handle, Roles<kPass>(a, b, c, convolution), algorithm, alpha, beta,   \
                 WorkOf<kPass>(a_data, b_data, c_data, workspace, workspace_bytes));             \
  }

TIDEPOOL_DIRECTION(Forward, Fwd, Pass::kForward, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                   cudnnTensorDescriptor_t)
TIDEPOOL_DIRECTION(BackwardData, BwdData, Pass::kData, cudnnFilterDescriptor_t,
                   cudnnTensorDescriptor_t, cudnnTensorDescriptor_t)
TIDEPOOL_DIRECTION(BackwardFilter, BwdFilter, Pass::kFilter, cudnnTensorDescriptor_t,
                   cudnnTensorDescriptor_t, cudnnFilterDescriptor_t)

extern "C" cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, cudnnTensorDescriptor_t x, const void* x_data,
    cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes,
    const void* alpha2, cudnnTensorDescriptor_t z, const void* z_data, cudnnTensorDescriptor_t bias,
    const void* bias_data, cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y,
    void* y_data) {
  auto work = WorkOf<Pass::kForward>(x_data, w_data, y_data, workspace, workspace_bytes);
  work->epilogue = EpilogueOf(y, z, z_data, bias, bias_data, activation);
  if (!work->epilogue.has_value()) return CUDNN_STATUS_BAD_PARAM;
  return Start(__func__, handle, {x, w, y, convolution}, algorithm, alpha1, alpha2,
               std::move(work));
}
