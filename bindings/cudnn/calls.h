// SPDX-License-Identifier: Apache-2.0
// The functions that take the place of cuDNN's, for all directions. Descriptors come in the order
// of cuDNN (functions.h).
#ifndef TIDEPOOL_BINDINGS_CUDNN_CALLS_H_
#define TIDEPOOL_BINDINGS_CUDNN_CALLS_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

#include "bindings/cudnn/functions.h"
#include "bindings/cudnn/include/tidepool/cudnn.h"
#include "bindings/cudnn/plan.h"

namespace tidepool::cudnn {

cudnnStatus_t Create(cudnnHandle_t* handle);
cudnnStatus_t Destroy(cudnnHandle_t handle);
cudnnStatus_t SetStream(cudnnHandle_t handle, cudaStream_t stream);

// The arguments of a function of a direction.
struct Arguments {
  Pass pass = Pass::kForward;
  cudnnHandle_t handle = nullptr;
  void* a = nullptr;
  const void* a_data = nullptr;
  void* b = nullptr;
  const void* b_data = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  void* c = nullptr;
  void* c_data = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  std::uint64_t layer = 0;
};

struct Results {
  int wanted = 0;
  int* returned = nullptr;
  Performance* performances = nullptr;
};

enum class LookUpKind : std::uint8_t { kHeuristic, kMeasured, kMeasuredInWorkspace };

cudnnStatus_t LookUp(LookUpKind kind, const Arguments& arguments, const Results& results);
cudnnStatus_t WorkspaceSize(const Arguments& arguments, int algorithm, std::size_t* bytes);
cudnnStatus_t Convolve(const Arguments& arguments, int algorithm, const void* alpha,
                       const void* beta);
// The forward pass with a bias and an activation. With a virtual algorithm z must have the
// descriptor of y; otherwise NOT_SUPPORTED.
cudnnStatus_t ConvolveFused(const Arguments& arguments, int algorithm, const void* alpha,
                            cudnnTensorDescriptor_t z, const Epilogue& epilogue);

// Measures all directions of a convolution with a handle of its own (tidepoolCudnnMeasure).
cudnnStatus_t Measure(const TidepoolCudnnSizes& sizes, std::int64_t& measured);

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_CALLS_H_
