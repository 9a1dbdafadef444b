// SPDX-License-Identifier: Apache-2.0
// The functions of the cuDNN that the program uses, found when they are first needed. The three
// directions of a convolution have functions of one form: their descriptors are pointers, their
// algorithms ints, and their results the same structure.
#ifndef TIDEPOOL_BINDINGS_CUDNN_FUNCTIONS_H_
#define TIDEPOOL_BINDINGS_CUDNN_FUNCTIONS_H_

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace tidepool::cudnn {

enum class Pass : std::uint8_t { kForward, kData, kFilter };
inline constexpr std::size_t kPasses = 3;

// The result of a look-up, as cudnnConvolutionFwdAlgoPerf_t and its two siblings have it.
struct Performance {
  int algorithm;
  cudnnStatus_t status;
  float milliseconds;
  std::size_t workspace_bytes;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math;
  int reserved[3];
};
static_assert(sizeof(Performance) == sizeof(cudnnConvolutionFwdAlgoPerf_t) &&
              sizeof(Performance) == sizeof(cudnnConvolutionBwdDataAlgoPerf_t) &&
              sizeof(Performance) == sizeof(cudnnConvolutionBwdFilterAlgoPerf_t));

// The functions of a direction. `a`, `b` and `c` are its descriptors in the order of cuDNN.
struct PassFunctions {
  cudnnStatus_t (*look)(cudnnHandle_t, void* a, void* b, cudnnConvolutionDescriptor_t, void* c,
                        int wanted, int* returned, Performance*);
  cudnnStatus_t (*find)(cudnnHandle_t, void* a, void* b, cudnnConvolutionDescriptor_t, void* c,
                        int wanted, int* returned, Performance*);
  cudnnStatus_t (*find_ex)(cudnnHandle_t, void* a, const void*, void* b, const void*,
                           cudnnConvolutionDescriptor_t, void* c, void*, int wanted, int* returned,
                           Performance*, void* workspace, std::size_t workspace_bytes);
  cudnnStatus_t (*size)(cudnnHandle_t, void* a, void* b, cudnnConvolutionDescriptor_t, void* c,
                        int algorithm, std::size_t* bytes);
  cudnnStatus_t (*run)(cudnnHandle_t, const void* alpha, void* a, const void*, void* b, const void*,
                       cudnnConvolutionDescriptor_t, int algorithm, void* workspace,
                       std::size_t workspace_bytes, const void* beta, void* c, void*);
};

// Writes a plan into a graph of CUDA.
using PlanToGraph = cudnnStatus_t (*)(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                      cudnnBackendDescriptor_t pack, cudaGraph_t graph);

struct Functions {
  // Returns the functions, or null and says so once on stderr where the process has no cuDNN.
  // Thread-safe.
  static const Functions* Get();

  std::array<PassFunctions, kPasses> passes;  // by Pass
  decltype(&cudnnConvolutionBiasActivationForward) run_fused;
  decltype(&cudnnGetVersion) get_version;
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetStream) get_stream;
  decltype(&cudnnCreateTensorDescriptor) create_tensor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
  decltype(&cudnnSetTensorNdDescriptor) set_tensor;
  decltype(&cudnnGetTensorNdDescriptor) get_tensor;
  decltype(&cudnnCreateFilterDescriptor) create_filter;
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter;
  decltype(&cudnnSetFilterNdDescriptor) set_filter;
  decltype(&cudnnGetFilterNdDescriptor) get_filter;
  decltype(&cudnnCreateConvolutionDescriptor) create_convolution;
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_convolution;
  decltype(&cudnnSetConvolutionNdDescriptor) set_convolution;
  decltype(&cudnnGetConvolutionNdDescriptor) get_convolution;
  decltype(&cudnnSetConvolutionMathType) set_math;
  decltype(&cudnnGetConvolutionMathType) get_math;
  decltype(&cudnnSetConvolutionGroupCount) set_groups;
  decltype(&cudnnGetConvolutionGroupCount) get_groups;
  // The graph interface.
  decltype(&cudnnBackendCreateDescriptor) create_backend;
  decltype(&cudnnBackendDestroyDescriptor) destroy_backend;
  decltype(&cudnnBackendFinalize) finalize_backend;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendExecute) execute;
  // Null where cuDNN is too old for them.
  PlanToGraph populate_graph;
  PlanToGraph update_graph;
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_FUNCTIONS_H_
