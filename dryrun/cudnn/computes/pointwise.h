// SPDX-License-Identifier: Apache-2.0
// Operations on each element of tensors, which follow a convolution in a graph.
#ifndef TIDEPOOL_DRYRUN_CUDNN_COMPUTES_POINTWISE_H_
#define TIDEPOOL_DRYRUN_CUDNN_COMPUTES_POINTWISE_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "dryrun/cudnn/computes/shape.h"

namespace tidepool::cudart_host {

// A tensor of a graph. A virtual one has no memory of the program.
struct GraphTensor {
  TensorShape shape;
  std::int64_t id = 0;
  bool is_virtual = false;
  void* data = nullptr;
};

struct Pointwise {
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
  double alpha1 = 1;  // of x
  double alpha2 = 1;  // of b
  double least = 0;   // of a ReLU's results
  double most = std::numeric_limits<double>::infinity();
  GraphTensor x;
  std::optional<GraphTensor> b;  // sizes of 1 are repeated
  GraphTensor y;
};

// Returns whether the stand-in computes an operation: a sum, a product, an identity or a ReLU, on
// tensors that suit each other.
bool IsSupported(const Pointwise& operation);

// Computes y.
void Compute(const Pointwise& operation);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_COMPUTES_POINTWISE_H_
