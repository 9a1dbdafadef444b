// SPDX-License-Identifier: Apache-2.0
#include "lib/training/emit/image_shape.h"

#include <algorithm>
#include <variant>

#include "lib/training/emit/network.h"

namespace tidepool::emit {

ImageShape OutputOf(const ConvolutionParameters& c) {
  const auto windows = [](std::int64_t side, std::int64_t padding, std::int64_t dilation,
                          std::int64_t kernel, std::int64_t stride) {
    return (side + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  };
  return {c.k, windows(c.h, c.padding_height, c.dilation_height, c.r, c.stride_height),
          windows(c.w, c.padding_width, c.dilation_width, c.s, c.stride_width)};
}

ImageShape TransposedOutputOf(const ConvolutionParameters& c, std::int64_t numbers) {
  const auto pixels = [](std::int64_t side, std::int64_t padding, std::int64_t dilation,
                         std::int64_t kernel, std::int64_t stride) {
    return (side - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1;
  };
  const ImageShape least = {c.k,
                            pixels(c.h, c.padding_height, c.dilation_height, c.r, c.stride_height),
                            pixels(c.w, c.padding_width, c.dilation_width, c.s, c.stride_width)};
  ImageShape shape = least;
  for (std::int64_t more = 0; more < std::min(c.stride_height, c.stride_width); ++more) {
    if (c.n * shape.elements() == numbers) return shape;
    ++shape.height;
    ++shape.width;
  }
  return least;
}

std::optional<ImageShape> ShapeOfData(const TaskGraph& graph, std::size_t data) {
  const auto writer = std::ranges::find_if(graph.tasks, [&](const GraphTask& task) {
    return task.phase == TaskPhase::kForward && !task.writes.empty() && task.writes.front() == data;
  });
  if (writer == graph.tasks.end()) return std::nullopt;
  const auto* convolution = std::get_if<ConvolutionParameters>(&writer->parameters);
  if (convolution == nullptr) return std::nullopt;
  return writer->operation == "transposed-conv"
             ? TransposedOutputOf(*convolution, graph.data[data].bytes / kWordBytes)
             : OutputOf(*convolution);
}

}  // namespace tidepool::emit
