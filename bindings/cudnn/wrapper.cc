// SPDX-License-Identifier: Apache-2.0
// The functions of tidepool/cudnn.h.
#include "bindings/cudnn/calls.h"
#include "bindings/cudnn/graphs.h"
#include "bindings/cudnn/handles.h"
#include "bindings/cudnn/include/tidepool/cudnn.h"

using tidepool::cudnn::Convolve;
using tidepool::cudnn::ConvolveFused;
using tidepool::cudnn::Functions;
using tidepool::cudnn::Handles;
using tidepool::cudnn::LookUp;
using tidepool::cudnn::LookUpKind;
using tidepool::cudnn::Pass;
using tidepool::cudnn::Performance;
using tidepool::cudnn::WorkspaceSize;

cudnnStatus_t tidepoolCudnnCreate(cudnnHandle_t* handle) { return tidepool::cudnn::Create(handle); }
cudnnStatus_t tidepoolCudnnDestroy(cudnnHandle_t handle) {
  return tidepool::cudnn::Destroy(handle);
}
cudnnStatus_t tidepoolCudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return tidepool::cudnn::SetStream(handle, stream);
}

cudnnStatus_t tidepoolCudnnGetStatistics(cudnnHandle_t handle,
                                         TidepoolCudnnStatistics* statistics) {
  const auto* const functions = tidepool::cudnn::Functions::Get();
  if (functions == nullptr || !Handles::Get().IsAlive(handle)) return CUDNN_STATUS_NOT_INITIALIZED;
  if (statistics == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *statistics = Handles::Get().Find(*functions, handle).planner.load()->Statistics();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t tidepoolCudnnSetOption(const char* name, const char* value) {
  if (name == nullptr || value == nullptr) return CUDNN_STATUS_BAD_PARAM;
  return Handles::Get().SetOption(name, value) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

int tidepoolCudnnMeasure(const TidepoolCudnnSizes* sizes, int64_t* measured) {
  if (sizes == nullptr || measured == nullptr) return CUDNN_STATUS_BAD_PARAM;
  return tidepool::cudnn::Measure(*sizes, *measured);
}

#define TIDEPOOL_CUDNN_NAME(Name) tidepoolCudnn##Name
#define TIDEPOOL_CUDNN_LAYER , uint64_t layer
#define TIDEPOOL_CUDNN_LAYER_ID layer
#include "bindings/cudnn/functions.inc"
