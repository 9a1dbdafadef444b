// SPDX-License-Identifier: Apache-2.0
// The functions of handles and descriptors.
#include "dryrun/cudnn/descriptors.h"

#include <algorithm>
#include <cstring>

namespace tidepool::cudart_host {
namespace {

template <typename Object>
cudnnStatus_t Make(const char* function, Object** made) {
  if (const cudnnStatus_t status = EnterCudnn(function); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (made == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *made = new Object();
  CountLive(1);
  return CUDNN_STATUS_SUCCESS;
}

template <typename Object>
cudnnStatus_t Destroy(const char* function, Object* object) {
  const cudnnStatus_t status = EnterCudnn(function);
  if (object == nullptr) return CUDNN_STATUS_BAD_PARAM;
  delete object;
  CountLive(-1);
  return status;
}

bool AreSizes(int dimensions, const int* sizes) {
  return dimensions >= 3 && dimensions <= CUDNN_DIM_MAX && sizes != nullptr &&
         std::all_of(sizes, sizes + dimensions, [](int size) { return size > 0; });
}

cudnnStatus_t Set(const char* function, cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                  int dimensions, const int* sizes, const int* strides) {
  if (const cudnnStatus_t status = EnterCudnn(function); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (tensor == nullptr || !AreSizes(dimensions, sizes) || strides == nullptr) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  tensor->type = type;
  tensor->dimensions = dimensions;
  std::copy_n(sizes, dimensions, tensor->sizes.begin());
  std::copy_n(strides, dimensions, tensor->strides.begin());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t SetPacked(const char* function, cudnnTensorDescriptor_t tensor,
                        cudnnTensorFormat_t format, cudnnDataType_t type, int dimensions,
                        const int* sizes) {
  std::array<int, CUDNN_DIM_MAX> strides = {};
  if (!AreSizes(dimensions, sizes)) return CUDNN_STATUS_BAD_PARAM;
  PackStrides(format, dimensions, sizes, strides.data());
  return Set(function, tensor, type, dimensions, sizes, strides.data());
}

cudnnStatus_t SetFilter(const char* function, cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                        cudnnTensorFormat_t format, int dimensions, const int* sizes) {
  if (const cudnnStatus_t status = EnterCudnn(function); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (filter == nullptr || !AreSizes(dimensions, sizes)) return CUDNN_STATUS_BAD_PARAM;
  filter->type = type;
  filter->format = format;
  filter->dimensions = dimensions;
  std::copy_n(sizes, dimensions, filter->sizes.begin());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t SetConvolution(const char* function, cudnnConvolutionDescriptor_t convolution,
                             int dimensions, const int* pads, const int* strides,
                             const int* dilations, cudnnConvolutionMode_t mode,
                             cudnnDataType_t compute_type) {
  if (const cudnnStatus_t status = EnterCudnn(function); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (convolution == nullptr || dimensions < 1 || dimensions > CUDNN_DIM_MAX - 2) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  for (int i = 0; i < dimensions; ++i) {
    if (pads[i] < 0 || strides[i] < 1 || dilations[i] < 1) return CUDNN_STATUS_BAD_PARAM;
  }
  convolution->dimensions = dimensions;
  convolution->mode = mode;
  convolution->compute_type = compute_type;
  std::copy_n(pads, dimensions, convolution->pads.begin());
  std::copy_n(strides, dimensions, convolution->strides.begin());
  std::copy_n(dilations, dimensions, convolution->dilations.begin());
  return CUDNN_STATUS_SUCCESS;
}

// Returns success for an object that exists and was set.
template <typename Object>
cudnnStatus_t EnterGet(const char* function, const Object* object) {
  if (const cudnnStatus_t status = EnterCudnn(function); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  return object == nullptr || object->dimensions == 0 ? CUDNN_STATUS_BAD_PARAM
                                                      : CUDNN_STATUS_SUCCESS;
}

// Stores numbers in places that are not null.
template <typename Number>
void Store(Number value, Number* place) {
  if (place != nullptr) *place = value;
}

}  // namespace

double ScaleOf(const void* scale, cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(scale)
                                   : static_cast<double>(*static_cast<const float*>(scale));
}

void PackStrides(cudnnTensorFormat_t format, int dimensions, const int* sizes, int* strides) {
  int stride = 1;
  if (format == CUDNN_TENSOR_NHWC) {
    strides[1] = 1;
    stride = sizes[1];
  }
  const int last = format == CUDNN_TENSOR_NHWC ? 2 : 1;
  for (int i = dimensions - 1; i >= last; --i) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  strides[0] = stride;
}

}  // namespace tidepool::cudart_host

using tidepool::cudart_host::Destroy;
using tidepool::cudart_host::EnterCudnn;
using tidepool::cudart_host::EnterGet;
using tidepool::cudart_host::Make;
using tidepool::cudart_host::Set;
using tidepool::cudart_host::SetConvolution;
using tidepool::cudart_host::SetFilter;
using tidepool::cudart_host::SetPacked;
using tidepool::cudart_host::Store;

extern "C" {

// Handles
// ------------------------------------------------------------------------------------------

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
      return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return Make("cudnnCreate", handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return Destroy("cudnnDestroy", handle); }

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (handle == nullptr || stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

// Tensors
// ------------------------------------------------------------------------------------------

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return Make(__func__, tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return Destroy(__func__, tensor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  const int sizes[] = {n, c, h, w};
  return SetPacked(__func__, tensor, format, type, 4, sizes);
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                           int n, int c, int h, int w, int n_stride, int c_stride,
                                           int h_stride, int w_stride) {
  const int sizes[] = {n, c, h, w};
  const int strides[] = {n_stride, c_stride, h_stride, w_stride};
  return Set(__func__, tensor, type, 4, sizes, strides);
}
cudnnStatus_t cudnnGetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t* type,
                                         int* n, int* c, int* h, int* w, int* n_stride,
                                         int* c_stride, int* h_stride, int* w_stride) {
  if (const cudnnStatus_t status = EnterGet(__func__, tensor); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (tensor->dimensions != 4) return CUDNN_STATUS_BAD_PARAM;
  Store(tensor->type, type);
  int* const sizes[] = {n, c, h, w};
  int* const strides[] = {n_stride, c_stride, h_stride, w_stride};
  for (std::size_t i = 0; i < 4; ++i) {
    Store(tensor->sizes[i], sizes[i]);
    Store(tensor->strides[i], strides[i]);
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                         int dimensions, const int sizes[], const int strides[]) {
  return Set(__func__, tensor, type, dimensions, sizes, strides);
}
cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensor,
                                           cudnnTensorFormat_t format, cudnnDataType_t type,
                                           int dimensions, const int sizes[]) {
  return SetPacked(__func__, tensor, format, type, dimensions, sizes);
}
cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, int wanted,
                                         cudnnDataType_t* type, int* dimensions, int sizes[],
                                         int strides[]) {
  if (const cudnnStatus_t status = EnterGet(__func__, tensor); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  Store(tensor->type, type);
  Store(tensor->dimensions, dimensions);
  const int most = std::min(wanted, tensor->dimensions);
  std::copy_n(tensor->sizes.begin(), most, sizes);
  std::copy_n(tensor->strides.begin(), most, strides);
  return CUDNN_STATUS_SUCCESS;
}

// Filters
// ------------------------------------------------------------------------------------------

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return Make(__func__, filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return Destroy(__func__, filter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  const int sizes[] = {k, c, h, w};
  return SetFilter(__func__, filter, type, format, 4, sizes);
}
cudnnStatus_t cudnnGetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t* type,
                                         cudnnTensorFormat_t* format, int* k, int* c, int* h,
                                         int* w) {
  if (const cudnnStatus_t status = EnterGet(__func__, filter); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (filter->dimensions != 4) return CUDNN_STATUS_BAD_PARAM;
  Store(filter->type, type);
  Store(filter->format, format);
  int* const sizes[] = {k, c, h, w};
  for (std::size_t i = 0; i < 4; ++i) Store(filter->sizes[i], sizes[i]);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int dimensions,
                                         const int sizes[]) {
  return SetFilter(__func__, filter, type, format, dimensions, sizes);
}
cudnnStatus_t cudnnGetFilterNdDescriptor(cudnnFilterDescriptor_t filter, int wanted,
                                         cudnnDataType_t* type, cudnnTensorFormat_t* format,
                                         int* dimensions, int sizes[]) {
  if (const cudnnStatus_t status = EnterGet(__func__, filter); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  Store(filter->type, type);
  Store(filter->format, format);
  Store(filter->dimensions, dimensions);
  std::copy_n(filter->sizes.begin(), std::min(wanted, filter->dimensions), sizes);
  return CUDNN_STATUS_SUCCESS;
}

// Convolutions
// ------------------------------------------------------------------------------------------

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  return Make(__func__, convolution);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  return Destroy(__func__, convolution);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type) {
  const int pads[] = {pad_h, pad_w};
  const int strides[] = {stride_h, stride_w};
  const int dilations[] = {dilation_h, dilation_w};
  return SetConvolution(__func__, convolution, 2, pads, strides, dilations, mode, compute_type);
}
cudnnStatus_t cudnnGetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int* pad_h,
                                              int* pad_w, int* stride_h, int* stride_w,
                                              int* dilation_h, int* dilation_w,
                                              cudnnConvolutionMode_t* mode,
                                              cudnnDataType_t* compute_type) {
  if (const cudnnStatus_t status = EnterGet(__func__, convolution);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (convolution->dimensions != 2) return CUDNN_STATUS_BAD_PARAM;
  Store(convolution->pads[0], pad_h);
  Store(convolution->pads[1], pad_w);
  Store(convolution->strides[0], stride_h);
  Store(convolution->strides[1], stride_w);
  Store(convolution->dilations[0], dilation_h);
  Store(convolution->dilations[1], dilation_w);
  Store(convolution->mode, mode);
  Store(convolution->compute_type, compute_type);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution,
                                              int dimensions, const int pads[], const int strides[],
                                              const int dilations[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type) {
  return SetConvolution(__func__, convolution, dimensions, pads, strides, dilations, mode,
                        compute_type);
}
cudnnStatus_t cudnnGetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution, int wanted,
                                              int* dimensions, int pads[], int strides[],
                                              int dilations[], cudnnConvolutionMode_t* mode,
                                              cudnnDataType_t* compute_type) {
  if (const cudnnStatus_t status = EnterGet(__func__, convolution);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  Store(convolution->dimensions, dimensions);
  Store(convolution->mode, mode);
  Store(convolution->compute_type, compute_type);
  const int most = std::min(wanted, convolution->dimensions);
  std::copy_n(convolution->pads.begin(), most, pads);
  std::copy_n(convolution->strides.begin(), most, strides);
  std::copy_n(convolution->dilations.begin(), most, dilations);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t math) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (convolution == nullptr) return CUDNN_STATUS_BAD_PARAM;
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t* math) {
  if (const cudnnStatus_t status = EnterGet(__func__, convolution);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  Store(convolution->math, math);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (convolution == nullptr || groups < 1) return CUDNN_STATUS_BAD_PARAM;
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int* groups) {
  if (const cudnnStatus_t status = EnterGet(__func__, convolution);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  Store(convolution->groups, groups);
  return CUDNN_STATUS_SUCCESS;
}

// Activations
// ------------------------------------------------------------------------------------------

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* activation) {
  return Make(__func__, activation);
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation) {
  return Destroy(__func__, activation);
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double coefficient) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (activation == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *activation = {mode, nan, coefficient, 1};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t* mode, cudnnNanPropagation_t* nan,
                                           double* coefficient) {
  if (const cudnnStatus_t status = EnterGet(__func__, activation); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  Store(activation->mode, mode);
  Store(activation->nan, nan);
  Store(activation->coefficient, coefficient);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t convolution,
                                                    cudnnTensorDescriptor_t x,
                                                    cudnnFilterDescriptor_t w, int* n, int* c,
                                                    int* h, int* width) {
  if (const cudnnStatus_t status = EnterGet(__func__, convolution);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (x == nullptr || w == nullptr || x->dimensions != 4 || w->dimensions != 4) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const auto size = [&](std::size_t i) {
    const int reach = convolution->dilations[i] * (w->sizes[i + 2] - 1) + 1;
    return (x->sizes[i + 2] + 2 * convolution->pads[i] - reach) / convolution->strides[i] + 1;
  };
  Store(x->sizes[0], n);
  Store(w->sizes[0], c);
  Store(size(0), h);
  Store(size(1), width);
  return CUDNN_STATUS_SUCCESS;
}

// Pooling
// ------------------------------------------------------------------------------------------

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* pooling) {
  return Make(__func__, pooling);
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling) {
  return Destroy(__func__, pooling);
}
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t /*nan*/, int window_h, int window_w,
                                          int pad_h, int pad_w, int stride_h, int stride_w) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const bool is_valid = pooling != nullptr && window_h > 0 && window_w > 0 && pad_h >= 0 &&
                        pad_w >= 0 && stride_h > 0 && stride_w > 0;
  if (!is_valid) return CUDNN_STATUS_BAD_PARAM;
  *pooling = {mode, 2, {window_h, window_w}, {pad_h, pad_w}, {stride_h, stride_w}};
  return CUDNN_STATUS_SUCCESS;
}

// Other layers
// ------------------------------------------------------------------------------------------

cudnnStatus_t cudnnCreateLRNDescriptor(cudnnLRNDescriptor_t* response) {
  return Make(__func__, response);
}
cudnnStatus_t cudnnDestroyLRNDescriptor(cudnnLRNDescriptor_t response) {
  return Destroy(__func__, response);
}
cudnnStatus_t cudnnSetLRNDescriptor(cudnnLRNDescriptor_t response, unsigned channels, double alpha,
                                    double beta, double k) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  // The limits of cuDNN's header.
  const bool is_valid =
      response != nullptr && channels >= 1 && channels <= 16 && k >= 1e-5 && beta >= 0.01;
  if (!is_valid) return CUDNN_STATUS_BAD_PARAM;
  *response = {channels, alpha, beta, k};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* dropout) {
  return Make(__func__, dropout);
}
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropout) {
  return Destroy(__func__, dropout);
}
cudnnStatus_t cudnnCreateOpTensorDescriptor(cudnnOpTensorDescriptor_t* operation) {
  return Make(__func__, operation);
}
cudnnStatus_t cudnnDestroyOpTensorDescriptor(cudnnOpTensorDescriptor_t operation) {
  return Destroy(__func__, operation);
}
cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t operation,
                                         cudnnOpTensorOp_t its_operation,
                                         cudnnDataType_t compute_type,
                                         cudnnNanPropagation_t /*nan*/) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (operation == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *operation = {its_operation, compute_type};
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
