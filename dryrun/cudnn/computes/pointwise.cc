// SPDX-License-Identifier: Apache-2.0
#include "dryrun/cudnn/computes/pointwise.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <array>

namespace tidepool::cudart_host {
namespace {

using Place = std::array<std::int64_t, 5>;

std::int64_t OffsetOf(const TensorShape& tensor, const Place& at) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (tensor.sizes[i] > 1) offset += at[i] * tensor.strides[i];
  }
  return offset;
}

double LoadAt(const GraphTensor& tensor, const Place& at) {
  const std::int64_t offset = OffsetOf(tensor.shape, at);
  if (tensor.shape.type == CUDNN_DATA_DOUBLE)
    return static_cast<const double*>(tensor.data)[offset];
  if (tensor.shape.type == CUDNN_DATA_HALF) {
    return static_cast<double>(__half2float(static_cast<const __half*>(tensor.data)[offset]));
  }
  return static_cast<double>(static_cast<const float*>(tensor.data)[offset]);
}

void StoreAt(const GraphTensor& tensor, const Place& at, double value) {
  const std::int64_t offset = OffsetOf(tensor.shape, at);
  if (tensor.shape.type == CUDNN_DATA_DOUBLE) {
    static_cast<double*>(tensor.data)[offset] = value;
  } else if (tensor.shape.type == CUDNN_DATA_HALF) {
    static_cast<__half*>(tensor.data)[offset] = __float2half(static_cast<float>(value));
  } else {
    static_cast<float*>(tensor.data)[offset] = static_cast<float>(value);
  }
}

double ResultOf(const Pointwise& its, double x, double b) {
  switch (its.mode) {
    case CUDNN_POINTWISE_ADD:
      return its.alpha1 * x + its.alpha2 * b;
    case CUDNN_POINTWISE_MUL:
      return its.alpha1 * x * (its.alpha2 * b);
    case CUDNN_POINTWISE_RELU_FWD:
      return std::clamp(its.alpha1 * x, its.least, its.most);
    default:
      return its.alpha1 * x;
  }
}

// Returns whether sizes are those of the result, or 1.
bool IsRepeated(const TensorShape& tensor, const TensorShape& result) {
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] != 1 && tensor.sizes[i] != result.sizes[i]) return false;
  }
  return IsComputed(tensor.type);
}

}  // namespace

bool IsSupported(const Pointwise& its) {
  const bool has_two = its.mode == CUDNN_POINTWISE_ADD || its.mode == CUDNN_POINTWISE_MUL;
  const bool has_one = its.mode == CUDNN_POINTWISE_RELU_FWD || its.mode == CUDNN_POINTWISE_IDENTITY;
  if ((!has_two && !has_one) || has_two != its.b.has_value()) return false;
  return IsComputed(its.y.shape.type) && IsRepeated(its.x.shape, its.y.shape) &&
         (!has_two || IsRepeated(its.b->shape, its.y.shape));
}

void Compute(const Pointwise& its) {
  const auto& sizes = its.y.shape.sizes;
  Place at = {};
  for (at[0] = 0; at[0] < sizes[0]; ++at[0]) {
    for (at[1] = 0; at[1] < sizes[1]; ++at[1]) {
      for (at[2] = 0; at[2] < sizes[2]; ++at[2]) {
        for (at[3] = 0; at[3] < sizes[3]; ++at[3]) {
          for (at[4] = 0; at[4] < sizes[4]; ++at[4]) {
            const double b = its.b.has_value() ? LoadAt(*its.b, at) : 0;
            StoreAt(its.y, at, ResultOf(its, LoadAt(its.x, at), b));
          }
        }
      }
    }
  }
}

}  // namespace tidepool::cudart_host
