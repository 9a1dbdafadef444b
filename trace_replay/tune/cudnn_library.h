// SPDX-License-Identifier: Apache-2.0
// The library of cuDNN's convolutions in micro-batches (bindings/cudnn), loaded when it is needed.
#ifndef TIDEPOOL_TRACE_REPLAY_TUNE_CUDNN_LIBRARY_H_
#define TIDEPOOL_TRACE_REPLAY_TUNE_CUDNN_LIBRARY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"

namespace tidepool::tool {

struct CudnnMeasurement {
  std::int64_t convolutions = 0;  // of different sizes
  std::int64_t measured = 0;      // micro-batches; the others were known
};

// The data of convolutions.
struct ConvolutionLayout {
  bool is_nhwc = false;  // NCHW
  bool is_half = false;  // float; half data is summed up in float
};

// Measures the convolutions of a graph with the cuDNN that a program would load, and keeps the
// times in the profile `store`. `policy` is that of MicroBatchSizes. InvalidArgument without the
// library, cuDNN or a device, and for a policy or a convolution that cuDNN does not have.
absl::StatusOr<CudnnMeasurement> MeasureConvolutions(const TaskGraph& graph,
                                                     const ConvolutionLayout& layout,
                                                     const std::string& policy,
                                                     const std::string& store);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TUNE_CUDNN_LIBRARY_H_
