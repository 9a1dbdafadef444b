/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of cuDNN in micro-batches, under a limit of workspace: micro-cuDNN (Oyama et al.,
 * CLUSTER 2018) for cuDNN 9. A C++ program includes this header and writes tidepool::CudnnHandle
 * for cudnnHandle_t; the overloads below then take the place of cuDNN's functions. It links
 * tidepool::cudnn and cuDNN. Programs that cannot be compiled again load libtidepool_cudnn.so
 * through LD_PRELOAD instead. Variables TIDEPOOL_CUDNN_* choose limits and policies
 * (bindings/cudnn/README.md).
 *
 * Look-ups return a virtual algorithm first, which names a plan: micro-batches, and an algorithm
 * for each. All functions take virtual algorithms and cuDNN's own; the latter run as they are.
 * Functions have cuDNN's errors. They are thread-safe as far as cuDNN is: two threads may use one
 * handle, one after the other. A destroyed handle is NOT_INITIALIZED. */
#ifndef TIDEPOOL_CUDNN_H_
#define TIDEPOOL_CUDNN_H_

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIDEPOOL_CUDNN_API __attribute__((visibility("default")))

/* Do the same as cuDNN's functions without "tidepool". */
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnCreate(cudnnHandle_t* handle);
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnDestroy(cudnnHandle_t handle);
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);

/* Counts of all convolutions of the handle's device since its first handle was created. */
typedef struct TidepoolCudnnStatistics { /* NOLINT(modernize-use-using): C has nothing else */
  int64_t convolutions;                  /* with a virtual algorithm */
  int64_t divided;                       /* of them, in more than one micro-batch */
  int64_t fallbacks;       /* with a slower plan, because the workspace was too small */
  int64_t changed;         /* with other descriptors than those of the look-up */
  int64_t kernels;         /* layers and directions that were looked up */
  int64_t measured;        /* micro-batches that cuDNN measured; the others were known */
  int64_t solves;          /* times that a total was divided between kernels */
  int64_t workspace_bytes; /* that the pool of workspaces holds of the device */
  int64_t graphs;          /* plans of the graph interface that were taken over */
  int64_t graphs_left;     /* those that exceed the limit and are left to cuDNN */
} TidepoolCudnnStatistics;
/* Stores the counts. CUDNN_STATUS_NOT_INITIALIZED for a handle that is not known. */
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnGetStatistics(cudnnHandle_t handle,
                                                            TidepoolCudnnStatistics* statistics);

/* Sets an option, by the name of its variable without the prefix, in lower case ("policy", "all").
 * It holds for devices without a handle. CUDNN_STATUS_BAD_PARAM for an unknown option or a
 * malformed value. */
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnSetOption(const char* name, const char* value);

/* A convolution of a network, for programs without cuDNN's headers. Data are packed. */
typedef struct TidepoolCudnnSizes { /* NOLINT(modernize-use-using): C has nothing else */
  int64_t n, c, h, w, k, r, s;
  int64_t stride_height, stride_width;
  int64_t padding_height, padding_width;
  int64_t dilation_height, dilation_width;
  int64_t groups;
  int64_t is_nhwc; /* 0: NCHW, 1: NHWC, with filters by height, width and channels too */
  int64_t is_half; /* 0: float, 1: half data with sums in float, CUDNN_TENSOR_OP_MATH */
} TidepoolCudnnSizes;
/* Measures the micro-batches of all three directions as look-ups do, under the options policy and
 * database, on the current device. Stores the number of micro-batches that were measured; those in
 * the database are known. A status of cuDNN: BAD_PARAM for sizes that are no convolution,
 * NOT_SUPPORTED where cuDNN has no algorithm for it. */
TIDEPOOL_CUDNN_API int tidepoolCudnnMeasure(const TidepoolCudnnSizes* sizes, int64_t* measured);

/* Do the same as cuDNN's functions of the graph interface without "tidepool". A plan of one
 * convolution that needs more workspace than the limit runs in micro-batches, and its workspace
 * size is theirs. It needs a graph with a handle. All descriptors of the graph must be made by
 * these functions. */
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnBackendCreateDescriptor(
    cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor);
TIDEPOOL_CUDNN_API cudnnStatus_t
tidepoolCudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor);
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnBackendFinalize(cudnnBackendDescriptor_t descriptor);
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnBackendSetAttribute(
    cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t count, const void* elements);
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnBackendGetAttribute(
    cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* elements);
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnBackendExecute(cudnnHandle_t handle,
                                                             cudnnBackendDescriptor_t plan,
                                                             cudnnBackendDescriptor_t pack);
/* NOT_SUPPORTED for a plan that was taken over: a graph can capture its execution. */
TIDEPOOL_CUDNN_API cudnnStatus_t
tidepoolCudnnBackendPopulateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                      cudnnBackendDescriptor_t pack, cudaGraph_t graph);
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnBackendUpdateCudaGraph(cudnnHandle_t handle,
                                                                     cudnnBackendDescriptor_t plan,
                                                                     cudnnBackendDescriptor_t pack,
                                                                     cudaGraph_t graph);

/* Declares the functions of one direction. `A`, `B` and `C` are the types of its descriptors in the
 * order of cuDNN. `layer` tells layers of one shape apart, 0 for none. Without layers, look-ups
 * before the first convolution are of different layers, and later look-ups return them in turn. */
#define TIDEPOOL_CUDNN_DIRECTION(Name, Short, A, B, C)                                           \
  TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnGetConvolution##Name##Algorithm_v7(              \
      cudnnHandle_t handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c, int wanted, \
      int* returned, cudnnConvolution##Short##AlgoPerf_t* results, uint64_t layer);              \
  TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnFindConvolution##Name##Algorithm(                \
      cudnnHandle_t handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c, int wanted, \
      int* returned, cudnnConvolution##Short##AlgoPerf_t* results, uint64_t layer);              \
  TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnFindConvolution##Name##AlgorithmEx(              \
      cudnnHandle_t handle, A a, const void* a_data, B b, const void* b_data,                    \
      cudnnConvolutionDescriptor_t convolution, C c, void* c_data, int wanted, int* returned,    \
      cudnnConvolution##Short##AlgoPerf_t* results, void* workspace, size_t workspace_bytes,     \
      uint64_t layer);                                                                           \
  TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnGetConvolution##Name##WorkspaceSize(             \
      cudnnHandle_t handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c,             \
      cudnnConvolution##Short##Algo_t algorithm, size_t* bytes, uint64_t layer);                 \
  TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnConvolution##Name(                               \
      cudnnHandle_t handle, const void* alpha, A a, const void* a_data, B b, const void* b_data, \
      cudnnConvolutionDescriptor_t convolution, cudnnConvolution##Short##Algo_t algorithm,       \
      void* workspace, size_t workspace_bytes, const void* beta, C c, void* c_data,              \
      uint64_t layer);

TIDEPOOL_CUDNN_DIRECTION(Forward, Fwd, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                         cudnnTensorDescriptor_t)
TIDEPOOL_CUDNN_DIRECTION(BackwardData, BwdData, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
                         cudnnTensorDescriptor_t)
TIDEPOOL_CUDNN_DIRECTION(BackwardFilter, BwdFilter, cudnnTensorDescriptor_t,
                         cudnnTensorDescriptor_t, cudnnFilterDescriptor_t)
#undef TIDEPOOL_CUDNN_DIRECTION

/* The forward pass with a bias and an activation, which takes algorithms of the forward pass. With
 * a virtual algorithm z must have the sizes, strides and type of y, otherwise NOT_SUPPORTED. */
TIDEPOOL_CUDNN_API cudnnStatus_t tidepoolCudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, cudnnTensorDescriptor_t x, const void* x_data,
    cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes,
    const void* alpha2, cudnnTensorDescriptor_t z, const void* z_data, cudnnTensorDescriptor_t bias,
    const void* bias_data, cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y,
    void* y_data, uint64_t layer);

#ifdef __cplusplus
}  // extern "C"

namespace tidepool {

// Takes the place of cudnnHandle_t in a program. Copies are the same handle.
class CudnnHandle {
 public:
  CudnnHandle() = default;
  CudnnHandle(decltype(nullptr)) {}  // NOLINT(google-explicit-constructor): cudnnHandle_t has it
  explicit CudnnHandle(cudnnHandle_t raw) : raw_(raw) {}
  operator cudnnHandle_t() const { return raw_; }  // NOLINT(google-explicit-constructor)

 private:
  cudnnHandle_t raw_ = nullptr;
};

// Takes the place of cudnnBackendDescriptor_t in a program. Copies are the same descriptor. Arrays
// of it are arrays of cudnnBackendDescriptor_t, as attributes want them.
class CudnnBackendDescriptor {
 public:
  CudnnBackendDescriptor() = default;
  CudnnBackendDescriptor(decltype(nullptr)) {}  // NOLINT(google-explicit-constructor): as void* has
  explicit CudnnBackendDescriptor(cudnnBackendDescriptor_t raw) : raw_(raw) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator cudnnBackendDescriptor_t() const { return raw_; }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};
static_assert(sizeof(CudnnBackendDescriptor) == sizeof(cudnnBackendDescriptor_t));

// Returns the layer id of a name: a hash that is not 0.
constexpr uint64_t CudnnLayer(const char* name) {
  uint64_t hash = 14695981039346656037ULL;
  for (; *name != 0; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 1099511628211ULL;
  return hash == 0 ? 1 : hash;
}

}  // namespace tidepool

inline cudnnStatus_t cudnnCreate(tidepool::CudnnHandle* handle) {
  cudnnHandle_t raw = nullptr;
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = tidepoolCudnnCreate(&raw);
  if (status == CUDNN_STATUS_SUCCESS) *handle = tidepool::CudnnHandle(raw);
  return status;
}
inline cudnnStatus_t cudnnDestroy(tidepool::CudnnHandle handle) {
  return tidepoolCudnnDestroy(handle);
}
inline cudnnStatus_t cudnnSetStream(tidepool::CudnnHandle handle, cudaStream_t stream) {
  return tidepoolCudnnSetStream(handle, stream);
}

inline cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  tidepool::CudnnBackendDescriptor* descriptor) {
  cudnnBackendDescriptor_t raw = nullptr;
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = tidepoolCudnnBackendCreateDescriptor(type, &raw);
  if (status == CUDNN_STATUS_SUCCESS) *descriptor = tidepool::CudnnBackendDescriptor(raw);
  return status;
}
inline cudnnStatus_t cudnnBackendDestroyDescriptor(tidepool::CudnnBackendDescriptor descriptor) {
  return tidepoolCudnnBackendDestroyDescriptor(descriptor);
}
inline cudnnStatus_t cudnnBackendFinalize(tidepool::CudnnBackendDescriptor descriptor) {
  return tidepoolCudnnBackendFinalize(descriptor);
}
inline cudnnStatus_t cudnnBackendSetAttribute(tidepool::CudnnBackendDescriptor descriptor,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t count,
                                              const void* elements) {
  return tidepoolCudnnBackendSetAttribute(descriptor, name, type, count, elements);
}
inline cudnnStatus_t cudnnBackendGetAttribute(tidepool::CudnnBackendDescriptor descriptor,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t wanted,
                                              int64_t* count, void* elements) {
  return tidepoolCudnnBackendGetAttribute(descriptor, name, type, wanted, count, elements);
}
inline cudnnStatus_t cudnnBackendExecute(tidepool::CudnnHandle handle,
                                         tidepool::CudnnBackendDescriptor plan,
                                         tidepool::CudnnBackendDescriptor pack) {
  return tidepoolCudnnBackendExecute(handle, plan, pack);
}

// Defines the overloads of one direction.
#define TIDEPOOL_CUDNN_DIRECTION(Name, Short, A, B, C)                                            \
  inline cudnnStatus_t cudnnGetConvolution##Name##Algorithm_v7(                                   \
      tidepool::CudnnHandle handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c,      \
      int wanted, int* returned, cudnnConvolution##Short##AlgoPerf_t* results,                    \
      uint64_t layer = 0) {                                                                       \
    return tidepoolCudnnGetConvolution##Name##Algorithm_v7(handle, a, b, convolution, c, wanted,  \
                                                           returned, results, layer);             \
  }                                                                                               \
  inline cudnnStatus_t cudnnFindConvolution##Name##Algorithm(                                     \
      tidepool::CudnnHandle handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c,      \
      int wanted, int* returned, cudnnConvolution##Short##AlgoPerf_t* results,                    \
      uint64_t layer = 0) {                                                                       \
    return tidepoolCudnnFindConvolution##Name##Algorithm(handle, a, b, convolution, c, wanted,    \
                                                         returned, results, layer);               \
  }                                                                                               \
  inline cudnnStatus_t cudnnFindConvolution##Name##AlgorithmEx(                                   \
      tidepool::CudnnHandle handle, A a, const void* a_data, B b, const void* b_data,             \
      cudnnConvolutionDescriptor_t convolution, C c, void* c_data, int wanted, int* returned,     \
      cudnnConvolution##Short##AlgoPerf_t* results, void* workspace, size_t workspace_bytes,      \
      uint64_t layer = 0) {                                                                       \
    return tidepoolCudnnFindConvolution##Name##AlgorithmEx(                                       \
        handle, a, a_data, b, b_data, convolution, c, c_data, wanted, returned, results,          \
        workspace, workspace_bytes, layer);                                                       \
  }                                                                                               \
  inline cudnnStatus_t cudnnGetConvolution##Name##WorkspaceSize(                                  \
      tidepool::CudnnHandle handle, A a, B b, cudnnConvolutionDescriptor_t convolution, C c,      \
      cudnnConvolution##Short##Algo_t algorithm, size_t* bytes, uint64_t layer = 0) {             \
    return tidepoolCudnnGetConvolution##Name##WorkspaceSize(handle, a, b, convolution, c,         \
                                                            algorithm, bytes, layer);             \
  }                                                                                               \
  inline cudnnStatus_t cudnnConvolution##Name(                                                    \
      tidepool::CudnnHandle handle, const void* alpha, A a, const void* a_data, B b,              \
      const void* b_data, cudnnConvolutionDescriptor_t convolution,                               \
      cudnnConvolution##Short##Algo_t algorithm, void* workspace, size_t workspace_bytes,         \
      const void* beta, C c, void* c_data, uint64_t layer = 0) {                                  \
    return tidepoolCudnnConvolution##Name(handle, alpha, a, a_data, b, b_data, convolution,       \
                                          algorithm, workspace, workspace_bytes, beta, c, c_data, \
                                          layer);                                                 \
  }

TIDEPOOL_CUDNN_DIRECTION(Forward, Fwd, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                         cudnnTensorDescriptor_t)
TIDEPOOL_CUDNN_DIRECTION(BackwardData, BwdData, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
                         cudnnTensorDescriptor_t)
TIDEPOOL_CUDNN_DIRECTION(BackwardFilter, BwdFilter, cudnnTensorDescriptor_t,
                         cudnnTensorDescriptor_t, cudnnFilterDescriptor_t)
#undef TIDEPOOL_CUDNN_DIRECTION

inline cudnnStatus_t cudnnConvolutionBiasActivationForward(
    tidepool::CudnnHandle handle, const void* alpha1, cudnnTensorDescriptor_t x, const void* x_data,
    cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes,
    const void* alpha2, cudnnTensorDescriptor_t z, const void* z_data, cudnnTensorDescriptor_t bias,
    const void* bias_data, cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y,
    void* y_data, uint64_t layer = 0) {
  return tidepoolCudnnConvolutionBiasActivationForward(
      handle, alpha1, x, x_data, w, w_data, convolution, algorithm, workspace, workspace_bytes,
      alpha2, z, z_data, bias, bias_data, activation, y, y_data, layer);
}

#endif  // __cplusplus

#endif /* TIDEPOOL_CUDNN_H_ */
