// SPDX-License-Identifier: Apache-2.0
// The shape of a convolution, with two or one spatial dimensions as three, and its computation.
#ifndef TIDEPOOL_DRYRUN_CUDNN_COMPUTES_SHAPE_H_
#define TIDEPOOL_DRYRUN_CUDNN_COMPUTES_SHAPE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "dryrun/cudnn/descriptors.h"

namespace tidepool::cudart_host {

// Sizes and strides by n, c, and three spatial dimensions, those without use first. Strides count
// elements.
struct TensorShape {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::array<std::int64_t, 5> sizes = {1, 1, 1, 1, 1};
  std::array<std::int64_t, 5> strides = {0, 0, 0, 0, 0};
};

// Returns the shape of a tensor of up to five dimensions.
TensorShape ShapeOfTensor(cudnnDataType_t type, int dimensions, const int* sizes,
                          const int* strides);

// Returns the elements from the first to the last of a tensor.
std::int64_t ExtentOf(const TensorShape& tensor);

struct ConvolutionShape {
  TensorShape x;
  TensorShape w;  // k, c of a group, spatial
  TensorShape y;
  std::array<std::int64_t, 3> pads = {0, 0, 0};
  std::array<std::int64_t, 3> strides = {1, 1, 1};
  std::array<std::int64_t, 3> dilations = {1, 1, 1};
  std::int64_t groups = 1;
  bool flips = false;  // CUDNN_CONVOLUTION: the filter is mirrored
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

// Returns the shape that the descriptors describe, or nothing where they do not suit each other.
std::optional<ConvolutionShape> ShapeOf(const ConvolutionDescriptors& descriptors);

// Returns the text of a layer, such as c48h27w27k128r5s5. It has no batch.
std::string LayerOf(const ConvolutionShape& shape);

// Computes output = alpha * pass(inputs) + beta * output directly, with sums in double precision.
// An output with beta 0 is not read.
void Convolve(Pass pass, const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
              double beta);

// The end of a fused convolution.
struct Epilogue {
  const void* z = nullptr;     // with the strides of y; may be y
  const void* bias = nullptr;  // a number for each channel, packed
  bool clamps = false;         // negative numbers to zero
};
// Computes y = activation(alpha * convolution(x, w) + beta * z + bias). With beta 0 z is not read.
void ConvolveFused(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
                   double beta, const Epilogue& epilogue);

// Returns whether convolutions of the type are computed.
bool IsComputed(cudnnDataType_t type);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_COMPUTES_SHAPE_H_
