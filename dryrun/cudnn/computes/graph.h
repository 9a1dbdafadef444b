// SPDX-License-Identifier: Apache-2.0
// The convolutions that descriptors of cuDNN's graph interface describe.
#ifndef TIDEPOOL_DRYRUN_CUDNN_COMPUTES_GRAPH_H_
#define TIDEPOOL_DRYRUN_CUDNN_COMPUTES_GRAPH_H_

#include <optional>
#include <vector>

#include "dryrun/cudnn/backend.h"
#include "dryrun/cudnn/computes/algorithms.h"
#include "dryrun/cudnn/computes/pointwise.h"
#include "dryrun/cudnn/computes/shape.h"

namespace tidepool::cudart_host {

// A graph's convolution, and the operations on its output.
struct GraphConvolution {
  Pass pass = Pass::kForward;
  ConvolutionShape shape;
  double alpha = 1;
  double beta = 0;
  GraphTensor x;
  GraphTensor w;
  GraphTensor y;
  std::vector<Pointwise> pointwise = {};

  const GraphTensor& output() const {
    return pass == Pass::kForward ? y : pass == Pass::kData ? x : w;
  }
};

// Returns the convolution of an operation, or nothing where its descriptors do not suit each other.
// Paddings before and after must be equal.
std::optional<GraphConvolution> ConvolutionOfOperation(const BackendObject& operation);

// Returns a pointwise operation, or nothing where it is not supported.
std::optional<Pointwise> PointwiseOfOperation(const BackendObject& operation);

// Returns the convolution of a graph, engine, engine configuration or plan. Nothing for other
// graphs: the convolution comes first, and pointwise operations use its output and each other's.
std::optional<GraphConvolution> ConvolutionOf(const BackendObject& object);

// Returns the cost of the algorithm that an engine configuration names. The index of an engine is
// the number of cuDNN's algorithm; its only knob is the arithmetic.
std::optional<AlgorithmCost> CostOfConfiguration(const BackendObject& configuration);

// Returns the notes of an algorithm.
std::vector<cudnnBackendNumericalNote_t> NotesOf(Pass pass, const AlgorithmCost& cost);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_COMPUTES_GRAPH_H_
