// SPDX-License-Identifier: Apache-2.0
// The objects that handles of cuDNN point to, and the entry of each function.
#ifndef TIDEPOOL_DRYRUN_CUDNN_OBJECTS_H_
#define TIDEPOOL_DRYRUN_CUDNN_OBJECTS_H_

#include <cudnn.h>

#include <array>
#include <cstdint>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int dimensions = 0;  // 0: not set
  std::array<int, CUDNN_DIM_MAX> sizes = {};
  std::array<int, CUDNN_DIM_MAX> strides = {};
};

struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int dimensions = 0;
  std::array<int, CUDNN_DIM_MAX> sizes = {};  // k, c of a group, spatial
};

struct cudnnConvolutionStruct {
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
  int dimensions = 0;  // spatial
  std::array<int, CUDNN_DIM_MAX> pads = {};
  std::array<int, CUDNN_DIM_MAX> strides = {};
  std::array<int, CUDNN_DIM_MAX> dilations = {};
};

struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  double coefficient = 0;
  int dimensions = 0;  // 0: not set
};

struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  int dimensions = 0;  // 0: not set
  std::array<int, 2> windows = {};
  std::array<int, 2> pads = {};
  std::array<int, 2> strides = {};
};

struct cudnnLRNStruct {
  unsigned channels = 0;  // 0: not set
  double alpha = 0;
  double beta = 0;
  double k = 0;
};

struct cudnnDropoutStruct {
  float rate = 0;
  void* states = nullptr;  // null: not set
};

struct cudnnOpTensorStruct {
  cudnnOpTensorOp_t operation = CUDNN_OP_TENSOR_ADD;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
};

namespace tidepool::cudart_host {

// Counts a call of a function. Returns the status that it has to fail with, or success.
cudnnStatus_t EnterCudnn(const char* function);

// Counts objects that tests see as live (cudnnHostCountLive).
void CountLive(long long change);

// Returns a scale of a call: double for double data, and otherwise float.
double ScaleOf(const void* scale, cudnnDataType_t type);

// Stores the strides of a packed tensor.
void PackStrides(cudnnTensorFormat_t format, int dimensions, const int* sizes, int* strides);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_OBJECTS_H_
