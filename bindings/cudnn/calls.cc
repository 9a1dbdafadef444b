// SPDX-License-Identifier: Apache-2.0
// Each function asks the planner of the handle's device. A convolution that is not divided goes to
// cuDNN as it is.
#include "bindings/cudnn/calls.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "bindings/cudnn/convolution.h"
#include "bindings/cudnn/handles.h"
#include "bindings/cudnn/include/tidepool/cudnn.h"
#include "bindings/cudnn/planner.h"
#include "tidepool/log.h"

namespace tidepool::cudnn {
namespace {

const PassFunctions& Of(const Functions& functions, Pass pass) {
  return functions.passes[static_cast<std::size_t>(pass)];
}

Descriptors DescriptorsOf(const Arguments& its) {
  return Descriptors::Of(its.pass, its.a, its.b, its.convolution, its.c);
}

// Returns the data by roles. The order of cuDNN is that of the descriptors.
ConvolutionData DataOf(const Arguments& its) {
  auto* const a = static_cast<char*>(const_cast<void*>(its.a_data));
  auto* const b = static_cast<char*>(const_cast<void*>(its.b_data));
  auto* const c = static_cast<char*>(its.c_data);
  if (its.pass == Pass::kForward) return {a, b, c};
  if (its.pass == Pass::kData) return {c, a, b};
  return {a, c, b};
}

cudnnStatus_t LookUpInCudnn(const Functions& functions, LookUpKind kind, const Arguments& its,
                            const Results& results) {
  const PassFunctions& pass = Of(functions, its.pass);
  if (kind == LookUpKind::kMeasuredInWorkspace) {
    return pass.find_ex(its.handle, its.a, its.a_data, its.b, its.b_data, its.convolution, its.c,
                        its.c_data, results.wanted, results.returned, results.performances,
                        its.workspace, its.workspace_bytes);
  }
  const auto look = kind == LookUpKind::kHeuristic ? pass.look : pass.find;
  return look(its.handle, its.a, its.b, its.convolution, its.c, results.wanted, results.returned,
              results.performances);
}

// Writes the plan first, and then cuDNN's own algorithms for the whole batch.
void Write(const LookedUp& answer, const Convolution& convolution, const Results& results) {
  *results.returned = 0;
  const auto add = [&](Performance performance) {
    if (*results.returned == results.wanted) return;
    results.performances[(*results.returned)++] = performance;
  };
  Performance plan = {};
  plan.algorithm = answer.algorithm;
  plan.milliseconds = static_cast<float>(answer.seconds * 1e3);
  plan.workspace_bytes = static_cast<std::size_t>(answer.workspace_bytes);
  plan.determinism = answer.is_deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
  plan.math = convolution.math;
  add(plan);
  for (const KernelRow& row : answer.whole) {
    if (row.precision != convolution.precision()) continue;
    const Algorithm algorithm = Algorithm::Of(row.algorithm);
    Performance own = {};
    own.algorithm = algorithm.number;
    own.milliseconds = static_cast<float>(row.seconds * 1e3);
    own.workspace_bytes = static_cast<std::size_t>(row.workspace_bytes);
    own.determinism = algorithm.is_deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    own.math = algorithm.math;
    add(own);
  }
}

// Logs an error, if the program wants that.
cudnnStatus_t Reported(const Planner& planner, const char* function, cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS && planner.prints_errors()) {
    Log(LogLevel::kError, absl::StrCat("cuda:", planner.ordinal(), ": ", function,
                                       " returns status ", static_cast<int>(status), " of cuDNN"));
  }
  return status;
}

// Runs a convolution with a virtual algorithm. `call` has the scales and the epilogue; `z` is the
// descriptor of the epilogue's z. Returns nothing for an algorithm of cuDNN.
std::optional<cudnnStatus_t> RunVirtual(const Functions& functions, const Arguments& its,
                                        int algorithm, Call call,
                                        cudnnTensorDescriptor_t z = nullptr) {
  if (its.handle == nullptr) return std::nullopt;
  HandleState& state = Handles::Get().Find(functions, its.handle);
  Planner* const planner = state.planner.load(std::memory_order_acquire);
  if (planner == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!IsVirtual(algorithm)) return std::nullopt;
  call.handle = its.handle;
  call.descriptors = DescriptorsOf(its);
  call.data = DataOf(its);
  call.workspace = its.workspace;
  call.workspace_bytes = its.workspace_bytes;
  const auto convolution = Convolution::Read(functions, its.pass, call.descriptors);
  if (!convolution.has_value()) return CUDNN_STATUS_BAD_PARAM;
  if (call.epilogue != nullptr && !convolution->IsLikeY(functions, z)) {
    return Reported(*planner, "a fused convolution", CUDNN_STATUS_NOT_SUPPORTED);
  }
  const locks::MutexLock lock(&state.mutex);
  return Reported(*planner, "a convolution", planner->Run(*convolution, algorithm, call));
}

}  // namespace

cudnnStatus_t Create(cudnnHandle_t* handle) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const cudnnStatus_t status = functions->create(handle);
  if (status == CUDNN_STATUS_SUCCESS) Handles::Get().Add(*functions, *handle);
  return status;
}

cudnnStatus_t Destroy(cudnnHandle_t handle) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  if (handle != nullptr && Handles::Get().Find(*functions, handle).planner.load() == nullptr) {
    return CUDNN_STATUS_NOT_INITIALIZED;
  }
  Handles::Get().Remove(handle);
  return functions->destroy(handle);
}

cudnnStatus_t SetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  if (handle == nullptr) return functions->set_stream(handle, stream);
  Planner* const planner = Handles::Get().Find(*functions, handle).planner.load();
  if (planner == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  planner->ForgetStream(stream);
  return functions->set_stream(handle, stream);
}

cudnnStatus_t LookUp(LookUpKind kind, const Arguments& its, const Results& results) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const bool has_results = results.wanted > 0 && results.returned != nullptr &&
                           results.performances != nullptr && its.handle != nullptr;
  if (!has_results) return LookUpInCudnn(*functions, kind, its, results);
  HandleState& state = Handles::Get().Find(*functions, its.handle);
  Planner* const planner = state.planner.load(std::memory_order_acquire);
  if (planner == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const auto convolution = Convolution::Read(*functions, its.pass, DescriptorsOf(its));
  if (!convolution.has_value()) return LookUpInCudnn(*functions, kind, its, results);
  std::optional<std::int64_t> limit;
  if (kind == LookUpKind::kMeasuredInWorkspace) {
    const std::size_t given = its.workspace == nullptr ? 0 : its.workspace_bytes;
    limit =
        static_cast<std::int64_t>(std::min(given, static_cast<std::size_t>(kMostWorkspaceBytes)));
  }
  const locks::MutexLock lock(&state.mutex);
  const std::optional<LookedUp> answer =
      planner->LookUp(its.handle, *convolution, its.layer, limit);
  if (!answer.has_value()) return LookUpInCudnn(*functions, kind, its, results);
  Write(*answer, *convolution, results);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t WorkspaceSize(const Arguments& its, int algorithm, std::size_t* bytes) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!IsVirtual(algorithm) || its.handle == nullptr) {
    return Of(*functions, its.pass)
        .size(its.handle, its.a, its.b, its.convolution, its.c, algorithm, bytes);
  }
  HandleState& state = Handles::Get().Find(*functions, its.handle);
  Planner* const planner = state.planner.load(std::memory_order_acquire);
  if (planner == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const auto convolution = Convolution::Read(*functions, its.pass, DescriptorsOf(its));
  if (!convolution.has_value() || bytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const locks::MutexLock lock(&state.mutex);
  const auto needed = planner->WorkspaceOf(its.handle, *convolution, algorithm);
  if (!needed.has_value()) {
    return Reported(*planner, "the size of a workspace", CUDNN_STATUS_BAD_PARAM);
  }
  *bytes = static_cast<std::size_t>(*needed);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Convolve(const Arguments& its, int algorithm, const void* alpha, const void* beta) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  if (const auto status = RunVirtual(*functions, its, algorithm, {.alpha = alpha, .beta = beta});
      status.has_value()) {
    return *status;
  }
  return Of(*functions, its.pass)
      .run(its.handle, alpha, its.a, its.a_data, its.b, its.b_data, its.convolution, algorithm,
           its.workspace, its.workspace_bytes, beta, its.c, its.c_data);
}

cudnnStatus_t ConvolveFused(const Arguments& its, int algorithm, const void* alpha,
                            cudnnTensorDescriptor_t z, const Epilogue& epilogue) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  if (const auto status =
          RunVirtual(*functions, its, algorithm, {.alpha = alpha, .epilogue = &epilogue}, z);
      status.has_value()) {
    return *status;
  }
  return functions->run_fused(its.handle, alpha, static_cast<cudnnTensorDescriptor_t>(its.a),
                              its.a_data, static_cast<cudnnFilterDescriptor_t>(its.b), its.b_data,
                              its.convolution, static_cast<cudnnConvolutionFwdAlgo_t>(algorithm),
                              its.workspace, its.workspace_bytes, epilogue.alpha, z, epilogue.z,
                              epilogue.bias, epilogue.bias_data, epilogue.activation,
                              static_cast<cudnnTensorDescriptor_t>(its.c), its.c_data);
}

cudnnStatus_t Measure(const TidepoolCudnnSizes& sizes, std::int64_t& measured) {
  measured = 0;
  cudnnHandle_t handle = nullptr;
  if (const cudnnStatus_t status = Create(&handle); status != CUDNN_STATUS_SUCCESS) return status;
  const Functions& functions = *Functions::Get();
  Planner* const planner = Handles::Get().Find(functions, handle).planner.load();
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  for (const Pass pass : {Pass::kForward, Pass::kData, Pass::kFilter}) {
    const auto convolution = Convolution::Packed(pass, sizes);
    if (!convolution.has_value()) {
      status = CUDNN_STATUS_BAD_PARAM;
    } else if (!planner->LookUp(handle, *convolution, 0, kMostWorkspaceBytes).has_value()) {
      status = CUDNN_STATUS_NOT_SUPPORTED;
    }
  }
  measured = planner->Statistics().measured;
  static_cast<void>(Destroy(handle));
  return status;
}

}  // namespace tidepool::cudnn
