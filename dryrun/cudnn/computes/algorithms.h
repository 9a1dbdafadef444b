// SPDX-License-Identifier: Apache-2.0
// Times and workspaces of cuDNN's algorithms: from a table, or from formulas.
#ifndef TIDEPOOL_DRYRUN_CUDNN_COMPUTES_ALGORITHMS_H_
#define TIDEPOOL_DRYRUN_CUDNN_COMPUTES_ALGORITHMS_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "dryrun/cudnn/computes/shape.h"

namespace tidepool::cudart_host {

struct AlgorithmCost {
  int algorithm = 0;
  float milliseconds = 0;
  std::size_t workspace_bytes = 0;
  bool is_deterministic = true;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

// Returns the number of algorithms of a pass.
int AlgorithmCount(Pass pass);

// Returns the costs of all supported algorithms, the fastest first. With half data, matrix products
// come with tensor cores too.
std::vector<AlgorithmCost> CostsOf(Pass pass, const ConvolutionShape& shape);

// Returns the cost of an algorithm, with the arithmetic of the shape if it has that; nothing where
// the algorithm is not supported.
std::optional<AlgorithmCost> CostOf(Pass pass, const ConvolutionShape& shape, int algorithm);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_COMPUTES_ALGORITHMS_H_
