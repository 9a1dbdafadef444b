/* SPDX-License-Identifier: Apache-2.0 */
/* Declares the part of cuDNN 9 that the stand-in has, with the names, types and numbers of cuDNN's
 * own header. Programs compile with either header and run with either library. */
#ifndef TIDEPOOL_DRYRUN_CUDNN_INCLUDE_CUDNN_H_
#define TIDEPOOL_DRYRUN_CUDNN_INCLUDE_CUDNN_H_

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDNN_MAJOR 9
#define CUDNN_DIM_MAX 8

typedef struct cudnnContext* cudnnHandle_t;
typedef struct cudnnTensorStruct* cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct* cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct* cudnnConvolutionDescriptor_t;
typedef struct cudnnActivationStruct* cudnnActivationDescriptor_t;
typedef struct cudnnPoolingStruct* cudnnPoolingDescriptor_t;
typedef struct cudnnLRNStruct* cudnnLRNDescriptor_t;
typedef struct cudnnDropoutStruct* cudnnDropoutDescriptor_t;
typedef struct cudnnOpTensorStruct* cudnnOpTensorDescriptor_t;

typedef enum {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_INTERNAL_ERROR = 4000,
  CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
  CUDNN_STATUS_EXECUTION_FAILED = 5000
} cudnnStatus_t;

typedef enum {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_DOUBLE = 1,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_INT8 = 3,
  CUDNN_DATA_INT32 = 4,
  CUDNN_DATA_UINT8 = 6,
  CUDNN_DATA_BFLOAT16 = 9
} cudnnDataType_t;

typedef enum {
  CUDNN_DEFAULT_MATH = 0,
  CUDNN_TENSOR_OP_MATH = 1,
  CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
  CUDNN_FMA_MATH = 3
} cudnnMathType_t;

typedef enum {
  CUDNN_TENSOR_NCHW = 0,
  CUDNN_TENSOR_NHWC = 1,
  CUDNN_TENSOR_NCHW_VECT_C = 2
} cudnnTensorFormat_t;

typedef enum { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 } cudnnConvolutionMode_t;
typedef enum { CUDNN_NON_DETERMINISTIC = 0, CUDNN_DETERMINISTIC = 1 } cudnnDeterminism_t;
typedef enum { CUDNN_NOT_PROPAGATE_NAN = 0, CUDNN_PROPAGATE_NAN = 1 } cudnnNanPropagation_t;

typedef enum {
  CUDNN_ACTIVATION_SIGMOID = 0,
  CUDNN_ACTIVATION_RELU = 1,
  CUDNN_ACTIVATION_TANH = 2,
  CUDNN_ACTIVATION_CLIPPED_RELU = 3,
  CUDNN_ACTIVATION_ELU = 4,
  CUDNN_ACTIVATION_IDENTITY = 5,
  CUDNN_ACTIVATION_SWISH = 6
} cudnnActivationMode_t;

typedef enum {
  CUDNN_POOLING_MAX = 0,
  CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1,
  CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING = 2,
  CUDNN_POOLING_MAX_DETERMINISTIC = 3
} cudnnPoolingMode_t;

typedef enum {
  CUDNN_SOFTMAX_FAST = 0,
  CUDNN_SOFTMAX_ACCURATE = 1,
  CUDNN_SOFTMAX_LOG = 2
} cudnnSoftmaxAlgorithm_t;
typedef enum { CUDNN_SOFTMAX_MODE_INSTANCE = 0, CUDNN_SOFTMAX_MODE_CHANNEL = 1 } cudnnSoftmaxMode_t;

typedef enum { CUDNN_LRN_CROSS_CHANNEL_DIM1 = 0 } cudnnLRNMode_t;

typedef enum {
  CUDNN_OP_TENSOR_ADD = 0,
  CUDNN_OP_TENSOR_MUL = 1,
  CUDNN_OP_TENSOR_MIN = 2,
  CUDNN_OP_TENSOR_MAX = 3,
  CUDNN_OP_TENSOR_SQRT = 4,
  CUDNN_OP_TENSOR_NOT = 5
} cudnnOpTensorOp_t;

typedef enum {
  CUDNN_BATCHNORM_PER_ACTIVATION = 0,
  CUDNN_BATCHNORM_SPATIAL = 1,
  CUDNN_BATCHNORM_SPATIAL_PERSISTENT = 2
} cudnnBatchNormMode_t;

typedef enum {
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
  CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,
  CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3,
  CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,
  CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7,
  CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8
} cudnnConvolutionFwdAlgo_t;

typedef enum {
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT = 2,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 = 3,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD = 4,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED = 5,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING = 6,
  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7
} cudnnConvolutionBwdFilterAlgo_t;

typedef enum {
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT = 2,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING = 3,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6
} cudnnConvolutionBwdDataAlgo_t;

typedef struct cudnnConvolutionFwdAlgoPerfStruct {
  cudnnConvolutionFwdAlgo_t algo;
  cudnnStatus_t status;
  float time; /* milliseconds */
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t;

typedef struct cudnnConvolutionBwdDataAlgoPerfStruct {
  cudnnConvolutionBwdDataAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionBwdDataAlgoPerf_t;

typedef struct cudnnConvolutionBwdFilterAlgoPerfStruct {
  cudnnConvolutionBwdFilterAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionBwdFilterAlgoPerf_t;

/* The library and its handles */
size_t cudnnGetVersion(void);
const char* cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream);

/* Tensors */
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor);
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w);
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                           int n, int c, int h, int w, int n_stride, int c_stride,
                                           int h_stride, int w_stride);
cudnnStatus_t cudnnGetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t* type,
                                         int* n, int* c, int* h, int* w, int* n_stride,
                                         int* c_stride, int* h_stride, int* w_stride);
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                         int dimensions, const int sizes[], const int strides[]);
cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensor,
                                           cudnnTensorFormat_t format, cudnnDataType_t type,
                                           int dimensions, const int sizes[]);
cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, int wanted,
                                         cudnnDataType_t* type, int* dimensions, int sizes[],
                                         int strides[]);

/* Filters */
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter);
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w);
cudnnStatus_t cudnnGetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t* type,
                                         cudnnTensorFormat_t* format, int* k, int* c, int* h,
                                         int* w);
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int dimensions,
                                         const int sizes[]);
cudnnStatus_t cudnnGetFilterNdDescriptor(cudnnFilterDescriptor_t filter, int wanted,
                                         cudnnDataType_t* type, cudnnTensorFormat_t* format,
                                         int* dimensions, int sizes[]);

/* Convolutions */
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution);
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type);
cudnnStatus_t cudnnGetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int* pad_h,
                                              int* pad_w, int* stride_h, int* stride_w,
                                              int* dilation_h, int* dilation_w,
                                              cudnnConvolutionMode_t* mode,
                                              cudnnDataType_t* compute_type);
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution,
                                              int dimensions, const int pads[], const int strides[],
                                              const int dilations[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type);
cudnnStatus_t cudnnGetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution, int wanted,
                                              int* dimensions, int pads[], int strides[],
                                              int dilations[], cudnnConvolutionMode_t* mode,
                                              cudnnDataType_t* compute_type);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t math);
cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t* math);
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups);
cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int* groups);
cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t convolution,
                                                    cudnnTensorDescriptor_t x,
                                                    cudnnFilterDescriptor_t w, int* n, int* c,
                                                    int* h, int* width);

/* Activations */
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* activation);
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation);
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double coefficient);
cudnnStatus_t cudnnGetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t* mode, cudnnNanPropagation_t* nan,
                                           double* coefficient);

/* Computes y = activation(alpha1 * convolution(x, w) + alpha2 * z + bias). The stand-in has ReLU
 * and the identity. */
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, cudnnTensorDescriptor_t x, const void* x_data,
    cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes,
    const void* alpha2, cudnnTensorDescriptor_t z, const void* z_data, cudnnTensorDescriptor_t bias,
    const void* bias_data, cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y,
    void* y_data);

/* Declares the functions of one direction. `A`, `B` and `C` are the types of its descriptors, in
 * the order of cuDNN. */
#define TIDEPOOL_STAND_IN_DIRECTION(Name, Short, A, B, C)                                        \
  cudnnStatus_t cudnnGetConvolution##Name##AlgorithmMaxCount(cudnnHandle_t handle, int* count);  \
  cudnnStatus_t cudnnGetConvolution##Name##Algorithm_v7(                                         \
      cudnnHandle_t handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c, int wanted, \
      int* returned, cudnnConvolution##Short##AlgoPerf_t* results);                              \
  cudnnStatus_t cudnnFindConvolution##Name##Algorithm(                                           \
      cudnnHandle_t handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c, int wanted, \
      int* returned, cudnnConvolution##Short##AlgoPerf_t* results);                              \
  cudnnStatus_t cudnnFindConvolution##Name##AlgorithmEx(                                         \
      cudnnHandle_t handle, A a, const void* a_data, B b, const void* b_data,                    \
      cudnnConvolutionDescriptor_t convolution, C c, void* c_data, int wanted, int* returned,    \
      cudnnConvolution##Short##AlgoPerf_t* results, void* workspace, size_t workspace_bytes);    \
  cudnnStatus_t cudnnGetConvolution##Name##WorkspaceSize(                                        \
      cudnnHandle_t handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c,             \
      cudnnConvolution##Short##Algo_t algorithm, size_t* bytes);                                 \
  cudnnStatus_t cudnnConvolution##Name(                                                          \
      cudnnHandle_t handle, const void* alpha, A a, const void* a_data, B b, const void* b_data, \
      cudnnConvolutionDescriptor_t convolution, cudnnConvolution##Short##Algo_t algorithm,       \
      void* workspace, size_t workspace_bytes, const void* beta, C c, void* c_data);

TIDEPOOL_STAND_IN_DIRECTION(Forward, Fwd, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                            cudnnTensorDescriptor_t)
TIDEPOOL_STAND_IN_DIRECTION(BackwardData, BwdData, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
                            cudnnTensorDescriptor_t)
TIDEPOOL_STAND_IN_DIRECTION(BackwardFilter, BwdFilter, cudnnTensorDescriptor_t,
                            cudnnTensorDescriptor_t, cudnnFilterDescriptor_t)
#undef TIDEPOOL_STAND_IN_DIRECTION

/* Layers besides convolutions, for float and double data of four dimensions. The stand-in has the
 * sigmoid, ReLU, tanh and the identity, and trains batch normalisation over samples and pixels. Of
 * operations of two tensors it has products. */
cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle, cudnnTensorDescriptor_t y, void* y_data,
                             const void* value);
cudnnStatus_t cudnnCreateOpTensorDescriptor(cudnnOpTensorDescriptor_t* operation);
cudnnStatus_t cudnnDestroyOpTensorDescriptor(cudnnOpTensorDescriptor_t operation);
cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t operation,
                                         cudnnOpTensorOp_t its_operation,
                                         cudnnDataType_t compute_type, cudnnNanPropagation_t nan);
cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle, cudnnOpTensorDescriptor_t operation,
                            const void* alpha1, cudnnTensorDescriptor_t a, const void* a_data,
                            const void* alpha2, cudnnTensorDescriptor_t b, const void* b_data,
                            const void* beta, cudnnTensorDescriptor_t c, void* c_data);
cudnnStatus_t cudnnCreateLRNDescriptor(cudnnLRNDescriptor_t* response);
cudnnStatus_t cudnnDestroyLRNDescriptor(cudnnLRNDescriptor_t response);
cudnnStatus_t cudnnSetLRNDescriptor(cudnnLRNDescriptor_t response, unsigned channels, double alpha,
                                    double beta, double k);
cudnnStatus_t cudnnLRNCrossChannelForward(cudnnHandle_t handle, cudnnLRNDescriptor_t response,
                                          cudnnLRNMode_t mode, const void* alpha,
                                          cudnnTensorDescriptor_t x, const void* x_data,
                                          const void* beta, cudnnTensorDescriptor_t y,
                                          void* y_data);
cudnnStatus_t cudnnLRNCrossChannelBackward(cudnnHandle_t handle, cudnnLRNDescriptor_t response,
                                           cudnnLRNMode_t mode, const void* alpha,
                                           cudnnTensorDescriptor_t y, const void* y_data,
                                           cudnnTensorDescriptor_t dy, const void* dy_data,
                                           cudnnTensorDescriptor_t x, const void* x_data,
                                           const void* beta, cudnnTensorDescriptor_t dx,
                                           void* dx_data);
cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* dropout);
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropout);
cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t* bytes);
cudnnStatus_t cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t x, size_t* bytes);
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle,
                                        float rate, void* states, size_t bytes,
                                        unsigned long long seed);
cudnnStatus_t cudnnDropoutForward(cudnnHandle_t handle, cudnnDropoutDescriptor_t dropout,
                                  cudnnTensorDescriptor_t x, const void* x_data,
                                  cudnnTensorDescriptor_t y, void* y_data, void* mask,
                                  size_t mask_bytes);
cudnnStatus_t cudnnDropoutBackward(cudnnHandle_t handle, cudnnDropoutDescriptor_t dropout,
                                   cudnnTensorDescriptor_t dy, const void* dy_data,
                                   cudnnTensorDescriptor_t dx, void* dx_data, void* mask,
                                   size_t mask_bytes);
cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                           cudnnTensorDescriptor_t dy, const void* dy_data,
                                           const void* beta, cudnnTensorDescriptor_t db,
                                           void* db_data);
cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void* alpha,
                                   cudnnTensorDescriptor_t x, const void* x_data, const void* beta,
                                   cudnnTensorDescriptor_t y, void* y_data);
cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t a,
                             const void* a_data, const void* beta, cudnnTensorDescriptor_t c,
                             void* c_data);
cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* pooling);
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling);
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t nan, int window_h, int window_w,
                                          int pad_h, int pad_w, int stride_h, int stride_w);
cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling,
                                  const void* alpha, cudnnTensorDescriptor_t x, const void* x_data,
                                  const void* beta, cudnnTensorDescriptor_t y, void* y_data);
cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling,
                                   const void* alpha, cudnnTensorDescriptor_t y, const void* y_data,
                                   cudnnTensorDescriptor_t dy, const void* dy_data,
                                   cudnnTensorDescriptor_t x, const void* x_data, const void* beta,
                                   cudnnTensorDescriptor_t dx, void* dx_data);
cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                                     const void* alpha, cudnnTensorDescriptor_t x,
                                     const void* x_data, const void* beta,
                                     cudnnTensorDescriptor_t y, void* y_data);
cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                                      const void* alpha, cudnnTensorDescriptor_t y,
                                      const void* y_data, cudnnTensorDescriptor_t dy,
                                      const void* dy_data, cudnnTensorDescriptor_t x,
                                      const void* x_data, const void* beta,
                                      cudnnTensorDescriptor_t dx, void* dx_data);
cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                  cudnnSoftmaxMode_t mode, const void* alpha,
                                  cudnnTensorDescriptor_t x, const void* x_data, const void* beta,
                                  cudnnTensorDescriptor_t y, void* y_data);
cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                   cudnnSoftmaxMode_t mode, const void* alpha,
                                   cudnnTensorDescriptor_t y, const void* y_data,
                                   cudnnTensorDescriptor_t dy, const void* dy_data,
                                   const void* beta, cudnnTensorDescriptor_t dx, void* dx_data);
cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t y, void* y_data,
    cudnnTensorDescriptor_t channels, const void* scale, const void* shift, double average_factor,
    void* running_mean, void* running_variance, double epsilon, void* saved_mean,
    void* saved_inverse_deviation);
cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t y, void* y_data,
    cudnnTensorDescriptor_t parameters, const void* scale, const void* shift, const void* mean,
    const void* variance, double epsilon);
cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data, const void* beta_data,
    const void* alpha_weights, const void* beta_weights, cudnnTensorDescriptor_t x,
    const void* x_data, cudnnTensorDescriptor_t dy, const void* dy_data, cudnnTensorDescriptor_t dx,
    void* dx_data, cudnnTensorDescriptor_t channels, const void* scale, void* scale_gradient,
    void* shift_gradient, double epsilon, const void* saved_mean,
    const void* saved_inverse_deviation);

#ifdef __cplusplus
}
#endif

#include <cudnn_graph.h>

#endif /* TIDEPOOL_DRYRUN_CUDNN_INCLUDE_CUDNN_H_ */
