// SPDX-License-Identifier: Apache-2.0
// A convolution in a stream, of either interface of cuDNN.
#ifndef TIDEPOOL_DRYRUN_CUDNN_COMPUTES_CONVOLUTION_WORK_H_
#define TIDEPOOL_DRYRUN_CUDNN_COMPUTES_CONVOLUTION_WORK_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "dryrun/cudnn/computes/pointwise.h"
#include "dryrun/cudnn/computes/shape.h"
#include "dryrun/cudnn/descriptors.h"

namespace tidepool::cudart_host {

struct ConvolutionWork {
  Pass pass = Pass::kForward;
  ConvolutionShape shape;
  double alpha = 1;
  double beta = 0;
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  char* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  std::optional<Epilogue> epilogue = {};  // of a fused convolution
  std::vector<Pointwise> pointwise = {};  // of a graph, after the convolution
  std::vector<std::vector<std::byte>> virtual_data = {};
};

// Queues a convolution by an algorithm in the stream of the handle. On the clock of events it takes
// the algorithm's time, if kernels are assumed to take time.
cudnnStatus_t QueueConvolution(cudnnHandle_t handle, int algorithm,
                               std::unique_ptr<ConvolutionWork> work);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_COMPUTES_CONVOLUTION_WORK_H_
