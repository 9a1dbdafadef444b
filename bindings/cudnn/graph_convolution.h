// SPDX-License-Identifier: Apache-2.0
// The convolution of an operation graph.
#ifndef TIDEPOOL_BINDINGS_CUDNN_GRAPH_CONVOLUTION_H_
#define TIDEPOOL_BINDINGS_CUDNN_GRAPH_CONVOLUTION_H_

#include <cudnn.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "bindings/cudnn/convolution.h"
#include "bindings/cudnn/engines.h"
#include "bindings/cudnn/recorded.h"

namespace tidepool::cudnn {

struct GraphConvolution {
  Convolution convolution;  // that engines run
  Scales scales;
  // The program's unique ids of the tensors that have memory, by their numbers in a fusion.
  std::vector<std::optional<std::int64_t>> ids;
};

// Reads a graph: a convolution, and pointwise operations on its output unless that is a filter's
// gradient. Their tensors have the convolution's batch, or one sample for all of it. Returns
// nothing for other graphs, and for a convolution that is not divided: as Convolution::Read, and
// one with other paddings after than before, or with a filter that is not packed.
std::optional<GraphConvolution> ReadGraph(const Recorded& graph);

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_GRAPH_CONVOLUTION_H_
