// SPDX-License-Identifier: Apache-2.0
// The images of a sample: data has bytes alone, so their sides are those of the layer that makes
// it.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_IMAGE_SHAPE_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_IMAGE_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tidepool/training/graph.h"

namespace tidepool::emit {

struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  std::int64_t elements() const { return channels * height * width; }
};

// Returns the output of a convolution.
ImageShape OutputOf(const ConvolutionParameters& convolution);
// Returns the output of a transposed convolution, a datum of `numbers` numbers. It may have up to
// stride - 1 rows and as many columns more than windows reach: as many as make up the numbers, and
// none where no number of them does. O(stride).
ImageShape TransposedOutputOf(const ConvolutionParameters& convolution, std::int64_t numbers);

// Returns the shape of a datum that a convolution writes, of either kind; none for other data.
// O(tasks).
std::optional<ImageShape> ShapeOfData(const TaskGraph& graph, std::size_t data);

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_IMAGE_SHAPE_H_
