// SPDX-License-Identifier: Apache-2.0
// The objects that handles of cuDNN point to, for both modes (library.h).
#ifndef TIDEPOOL_DRYRUN_CUDNN_DESCRIPTORS_H_
#define TIDEPOOL_DRYRUN_CUDNN_DESCRIPTORS_H_

#include <cudnn.h>

#include <array>
#include <cstdint>

#include "dryrun/cudnn/library.h"

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

// The directions of a convolution: they compute Y, the gradient of X, and that of W.
enum class Pass : std::uint8_t { kForward, kData, kFilter };

// The descriptors of a convolution, by their roles.
struct ConvolutionDescriptors {
  cudnnTensorDescriptor_t x = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnTensorDescriptor_t y = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
};

// Returns the roles of the arguments of a function of the pass, in the order of cuDNN.
template <Pass kPass, typename A, typename B, typename C>
ConvolutionDescriptors Roles(A a, B b, C c, cudnnConvolutionDescriptor_t convolution) {
  if constexpr (kPass == Pass::kForward) return {a, b, c, convolution};
  if constexpr (kPass == Pass::kData) return {c, a, b, convolution};
  if constexpr (kPass == Pass::kFilter) return {a, c, b, convolution};
}

// Returns the bytes of a number of a tensor.
inline std::int64_t BytesOfNumber(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
      return 1;
    default:
      return 4;
  }
}

// Returns a scale of a call: double for double data, and otherwise float.
double ScaleOf(const void* scale, cudnnDataType_t type);

// Stores the strides of a packed tensor.
void PackStrides(cudnnTensorFormat_t format, int dimensions, const int* sizes, int* strides);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_DESCRIPTORS_H_
