// SPDX-License-Identifier: Apache-2.0
// The convolution of an operation graph.
#ifndef TIDEPOOL_BINDINGS_CUDNN_GRAPH_CONVOLUTION_H_
#define TIDEPOOL_BINDINGS_CUDNN_GRAPH_CONVOLUTION_H_

#include <cudnn.h>

#include <cstdint>
#include <optional>

#include "bindings/cudnn/convolution.h"
#include "bindings/cudnn/engines.h"
#include "bindings/cudnn/recorded.h"

namespace tidepool::cudnn {

struct GraphConvolution {
  Convolution convolution;  // that engines run
  Scales scales;
  std::int64_t x = 0;  // unique ids of the tensors
  std::int64_t w = 0;
  std::int64_t y = 0;
};

// Reads a graph. Returns nothing for a graph of other or more operations, and for a convolution
// that is not divided: as Convolution::Read, and one with other paddings after than before, or with
// a filter that is not packed.
std::optional<GraphConvolution> ReadGraph(const Recorded& graph);

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_GRAPH_CONVOLUTION_H_
