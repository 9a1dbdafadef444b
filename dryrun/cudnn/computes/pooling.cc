// SPDX-License-Identifier: Apache-2.0
// Pooling over rows and columns.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "dryrun/cudnn/computes/layer_call.h"

namespace tidepool::cudart_host {
namespace {

bool IsMaximum(cudnnPoolingMode_t mode) {
  return mode == CUDNN_POOLING_MAX || mode == CUDNN_POOLING_MAX_DETERMINISTIC;
}

// The rows and columns of the input that an element of the output covers.
struct Window {
  Window(const cudnnPoolingStruct& pooling, const TensorView& x, const Position& at) {
    for (std::size_t i = 0; i < 2; ++i) {
      const int start = at[i + 2] * pooling.strides[i] - pooling.pads[i];
      const int padded_end = std::min(start + pooling.windows[i], x.size(i + 2) + pooling.pads[i]);
      padded_elements *= padded_end - start;
      begin[i] = std::max(start, 0);
      end[i] = std::min(start + pooling.windows[i], x.size(i + 2));
    }
  }

  template <typename Body>
  void ForEach(const Position& output, Body body) const {
    Position at = output;
    for (at[2] = begin[0]; at[2] < end[0]; ++at[2]) {
      for (at[3] = begin[1]; at[3] < end[1]; ++at[3]) body(at);
    }
  }
  // Returns the number that an average divides by.
  double Divisor(cudnnPoolingMode_t mode) const {
    const bool counts_padding = mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
    return counts_padding ? padded_elements : (end[0] - begin[0]) * (end[1] - begin[1]);
  }

  std::array<int, 2> begin = {};
  std::array<int, 2> end = {};
  int padded_elements = 1;
};

// Returns the first position of the maximum.
Position MaximumOf(const Window& window, const TensorView& x, const Position& output) {
  Position best = {output[0], output[1], window.begin[0], window.begin[1]};
  window.ForEach(output, [&](const Position& at) {
    if (x.Load(at) > x.Load(best)) best = at;
  });
  return best;
}

void Pool(const cudnnPoolingStruct& pooling, const Blend& blend, const TensorView& x,
          const TensorView& y) {
  ForEachPosition(y, [&](const Position& output) {
    const Window window(pooling, x, output);
    if (IsMaximum(pooling.mode)) {
      blend.Store(y, output, x.Load(MaximumOf(window, x, output)));
      return;
    }
    double sum = 0;
    window.ForEach(output, [&](const Position& at) { sum += x.Load(at); });
    blend.Store(y, output, sum / window.Divisor(pooling.mode));
  });
}

// Gradients of an input by its positions, as sums in double precision.
class GradientSums {
 public:
  explicit GradientSums(const TensorView& tensor)
      : tensor_(tensor),
        sums_(static_cast<std::size_t>(tensor.size(0)) * static_cast<std::size_t>(tensor.size(1)) *
              static_cast<std::size_t>(tensor.size(2)) * static_cast<std::size_t>(tensor.size(3))) {
  }
  double& At(const Position& at) {
    std::size_t index = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      index = index * static_cast<std::size_t>(tensor_.size(i)) + static_cast<std::size_t>(at[i]);
    }
    return sums_[index];
  }

 private:
  const TensorView& tensor_;
  std::vector<double> sums_;
};

void PoolGradient(const cudnnPoolingStruct& pooling, const Blend& blend, const TensorView& dy,
                  const TensorView& x, const TensorView& dx) {
  GradientSums sums(dx);
  ForEachPosition(dy, [&](const Position& output) {
    const Window window(pooling, x, output);
    if (IsMaximum(pooling.mode)) {
      sums.At(MaximumOf(window, x, output)) += dy.Load(output);
      return;
    }
    const double part = dy.Load(output) / window.Divisor(pooling.mode);
    window.ForEach(output, [&](const Position& at) { sums.At(at) += part; });
  });
  ForEachPosition(dx, [&](const Position& at) { blend.Store(dx, at, sums.At(at)); });
}

// Returns whether the output has all windows inside of the padded image, or one more that begins
// inside: cuDNN takes both.
bool AreWindows(cudnnPoolingDescriptor_t pooling, cudnnTensorDescriptor_t x,
                cudnnTensorDescriptor_t y) {
  bool are_windows = pooling->dimensions == 2 && x->sizes[0] == y->sizes[0] &&
                     x->sizes[1] == y->sizes[1] && x->type == y->type;
  for (std::size_t i = 0; i < 2 && are_windows; ++i) {
    const int room = x->sizes[i + 2] + 2 * pooling->pads[i] - pooling->windows[i];
    const int windows = y->sizes[i + 2];
    const int inside = room / pooling->strides[i] + 1;
    const bool begins_inside =
        (windows - 1) * pooling->strides[i] < x->sizes[i + 2] + pooling->pads[i];
    are_windows = room >= 0 && (windows == inside || (windows == inside + 1 && begins_inside));
  }
  return are_windows;
}

}  // namespace
}  // namespace tidepool::cudart_host

using tidepool::cudart_host::AreWindows;
using tidepool::cudart_host::Blend;
using tidepool::cudart_host::BlendOf;
using tidepool::cudart_host::EnterLayer;
using tidepool::cudart_host::Pool;
using tidepool::cudart_host::PoolGradient;
using tidepool::cudart_host::QueueLayer;
using tidepool::cudart_host::TensorView;

extern "C" {

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling,
                                  const void* alpha, cudnnTensorDescriptor_t x, const void* x_data,
                                  const void* beta, cudnnTensorDescriptor_t y, void* y_data) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {x, y}, {pooling, alpha, beta, x_data, y_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!AreWindows(pooling, x, y)) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, x->type);
  return QueueLayer(handle, [blend, windows = *pooling, from = TensorView(*x, x_data),
                             to = TensorView(*y, y_data)] { Pool(windows, blend, from, to); });
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling,
                                   const void* alpha, cudnnTensorDescriptor_t y, const void* y_data,
                                   cudnnTensorDescriptor_t dy, const void* dy_data,
                                   cudnnTensorDescriptor_t x, const void* x_data, const void* beta,
                                   cudnnTensorDescriptor_t dx, void* dx_data) {
  const cudnnStatus_t status = EnterLayer(__func__, handle, {y, dy, x, dx},
                                          {pooling, alpha, beta, y_data, dy_data, x_data, dx_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const bool is_valid = AreWindows(pooling, x, dy) && y->sizes == dy->sizes &&
                        x->sizes == dx->sizes && x->type == dx->type;
  if (!is_valid) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, x->type);
  return QueueLayer(handle, [blend, windows = *pooling, gradient = TensorView(*dy, dy_data),
                             input = TensorView(*x, x_data), to = TensorView(*dx, dx_data)] {
    PoolGradient(windows, blend, gradient, input, to);
  });
}

}  // extern "C"
