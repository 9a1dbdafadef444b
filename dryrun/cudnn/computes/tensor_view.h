// SPDX-License-Identifier: Apache-2.0
// A tensor of four dimensions in memory, with its elements as doubles.
#ifndef TIDEPOOL_DRYRUN_CUDNN_COMPUTES_TENSOR_VIEW_H_
#define TIDEPOOL_DRYRUN_CUDNN_COMPUTES_TENSOR_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "dryrun/cudnn/descriptors.h"

namespace tidepool::cudart_host {

// The position of an element: sample, channel, row, column.
using Position = std::array<int, 4>;

class TensorView {
 public:
  TensorView(const cudnnTensorStruct& layout, const void* data)
      : layout_(layout), data_(const_cast<void*>(data)) {}

  int size(std::size_t dimension) const { return layout_.sizes[dimension]; }

  double Load(const Position& at) const {
    const std::int64_t offset = OffsetOf(at);
    return is_double() ? static_cast<const double*>(data_)[offset]
                       : static_cast<double>(static_cast<const float*>(data_)[offset]);
  }
  void Store(const Position& at, double value) const {
    const std::int64_t offset = OffsetOf(at);
    if (is_double()) {
      static_cast<double*>(data_)[offset] = value;
    } else {
      static_cast<float*>(data_)[offset] = static_cast<float>(value);
    }
  }

 private:
  bool is_double() const { return layout_.type == CUDNN_DATA_DOUBLE; }
  std::int64_t OffsetOf(const Position& at) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      offset += static_cast<std::int64_t>(at[i]) * layout_.strides[i];
    }
    return offset;
  }

  cudnnTensorStruct layout_;
  void* data_;
};

// Stores alpha * result + beta * the element before. With beta 0 that element is not read.
struct Blend {
  double alpha = 1;
  double beta = 0;

  void Store(const TensorView& tensor, const Position& at, double result) const {
    const double scaled = alpha * result;
    tensor.Store(at, beta == 0 ? scaled : scaled + beta * tensor.Load(at));
  }
};

// Calls `body` with each position of a tensor.
template <typename Body>
void ForEachPosition(const TensorView& tensor, Body body) {
  Position at = {};
  for (at[0] = 0; at[0] < tensor.size(0); ++at[0]) {
    for (at[1] = 0; at[1] < tensor.size(1); ++at[1]) {
      for (at[2] = 0; at[2] < tensor.size(2); ++at[2]) {
        for (at[3] = 0; at[3] < tensor.size(3); ++at[3]) body(at);
      }
    }
  }
}

// Whether the layers of the stand-in take the tensor.
inline bool IsLayerTensor(cudnnTensorDescriptor_t tensor) {
  return tensor != nullptr && tensor->dimensions == 4 &&
         (tensor->type == CUDNN_DATA_FLOAT || tensor->type == CUDNN_DATA_DOUBLE);
}

// Returns the scales of a call on tensors of a type.
inline Blend BlendOf(const void* alpha, const void* beta, cudnnDataType_t type) {
  return {ScaleOf(alpha, type), ScaleOf(beta, type)};
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_COMPUTES_TENSOR_VIEW_H_
