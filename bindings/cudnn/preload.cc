// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN under their own names, for programs that load this library before cuDNN.
#include "bindings/cudnn/calls.h"
#include "bindings/cudnn/graphs.h"
#include "bindings/cudnn/include/tidepool/cudnn.h"

using tidepool::cudnn::Convolve;
using tidepool::cudnn::ConvolveFused;
using tidepool::cudnn::Functions;
using tidepool::cudnn::LookUp;
using tidepool::cudnn::LookUpKind;
using tidepool::cudnn::Pass;
using tidepool::cudnn::Performance;
using tidepool::cudnn::WorkspaceSize;

extern "C" TIDEPOOL_CUDNN_API cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return tidepool::cudnn::Create(handle);
}
extern "C" TIDEPOOL_CUDNN_API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return tidepool::cudnn::Destroy(handle);
}
extern "C" TIDEPOOL_CUDNN_API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle,
                                                           cudaStream_t stream) {
  return tidepool::cudnn::SetStream(handle, stream);
}

#define TIDEPOOL_CUDNN_NAME(Name) cudnn##Name
#define TIDEPOOL_CUDNN_LAYER
#define TIDEPOOL_CUDNN_LAYER_ID 0
#include "bindings/cudnn/functions.inc"
