// SPDX-License-Identifier: Apache-2.0
// Copies and sums of tensors, activations, and softmax.
#include <cmath>
#include <cstddef>
#include <vector>

#include "dryrun/cudnn/computes/layer_call.h"

namespace tidepool::cudart_host {
namespace {

bool HaveOneShape(cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t b) {
  return a->sizes == b->sizes && a->type == b->type;
}

// Returns the position in a tensor that is repeated along its dimensions of size 1.
Position Repeated(const TensorView& tensor, Position at) {
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (tensor.size(i) == 1) at[i] = 0;
  }
  return at;
}

bool Repeats(cudnnTensorDescriptor_t small, cudnnTensorDescriptor_t large) {
  for (std::size_t i = 0; i < 4; ++i) {
    if (small->sizes[i] != 1 && small->sizes[i] != large->sizes[i]) return false;
  }
  return small->type == large->type;
}

bool IsKnown(cudnnActivationMode_t mode) {
  return mode <= CUDNN_ACTIVATION_TANH || mode == CUDNN_ACTIVATION_IDENTITY;
}

double Activate(cudnnActivationMode_t mode, double x) {
  switch (mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return 1 / (1 + std::exp(-x));
    case CUDNN_ACTIVATION_RELU:
      return x > 0 ? x : 0;
    case CUDNN_ACTIVATION_TANH:
      return std::tanh(x);
    default:
      return x;
  }
}

// Returns the derivative from the result.
double Derivative(cudnnActivationMode_t mode, double y) {
  switch (mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return y * (1 - y);
    case CUDNN_ACTIVATION_RELU:
      return y > 0 ? 1 : 0;
    case CUDNN_ACTIVATION_TANH:
      return 1 - y * y;
    default:
      return 1;
  }
}

// Calls `body` with the first position of each row of a softmax.
template <typename Body>
void ForEachRow(cudnnSoftmaxMode_t mode, const TensorView& tensor, Body body) {
  ForEachPosition(tensor, [&](const Position& at) {
    const bool is_first =
        at[1] == 0 && (mode == CUDNN_SOFTMAX_MODE_CHANNEL || (at[2] == 0 && at[3] == 0));
    if (is_first) body(at);
  });
}

// Calls `body` with each position of the row.
template <typename Body>
void ForEachOfRow(cudnnSoftmaxMode_t mode, const TensorView& tensor, Position at, Body body) {
  const bool is_all = mode == CUDNN_SOFTMAX_MODE_INSTANCE;
  const Position first = at;
  for (at[1] = 0; at[1] < tensor.size(1); ++at[1]) {
    for (at[2] = first[2]; at[2] < (is_all ? tensor.size(2) : first[2] + 1); ++at[2]) {
      for (at[3] = first[3]; at[3] < (is_all ? tensor.size(3) : first[3] + 1); ++at[3]) body(at);
    }
  }
}

void Softmax(cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode, const Blend& blend,
             const TensorView& x, const TensorView& y) {
  ForEachRow(mode, x, [&](const Position& row) {
    double most = -INFINITY;
    ForEachOfRow(mode, x, row, [&](const Position& at) { most = std::fmax(most, x.Load(at)); });
    double sum = 0;
    ForEachOfRow(mode, x, row, [&](const Position& at) { sum += std::exp(x.Load(at) - most); });
    ForEachOfRow(mode, x, row, [&](const Position& at) {
      const double power = x.Load(at) - most;
      blend.Store(y, at,
                  algorithm == CUDNN_SOFTMAX_LOG ? power - std::log(sum) : std::exp(power) / sum);
    });
  });
}

void SoftmaxGradient(cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode, const Blend& blend,
                     const TensorView& y, const TensorView& dy, const TensorView& dx) {
  const bool is_log = algorithm == CUDNN_SOFTMAX_LOG;
  ForEachRow(mode, y, [&](const Position& row) {
    double sum = 0;
    ForEachOfRow(mode, y, row, [&](const Position& at) {
      sum += is_log ? dy.Load(at) : dy.Load(at) * y.Load(at);
    });
    ForEachOfRow(mode, y, row, [&](const Position& at) {
      const double gradient =
          is_log ? dy.Load(at) - std::exp(y.Load(at)) * sum : y.Load(at) * (dy.Load(at) - sum);
      blend.Store(dx, at, gradient);
    });
  });
}

}  // namespace
}  // namespace tidepool::cudart_host

using tidepool::cudart_host::Activate;
using tidepool::cudart_host::Blend;
using tidepool::cudart_host::BlendOf;
using tidepool::cudart_host::Derivative;
using tidepool::cudart_host::EnterLayer;
using tidepool::cudart_host::ForEachPosition;
using tidepool::cudart_host::HaveOneShape;
using tidepool::cudart_host::IsKnown;
using tidepool::cudart_host::Position;
using tidepool::cudart_host::QueueLayer;
using tidepool::cudart_host::Repeated;
using tidepool::cudart_host::Repeats;
using tidepool::cudart_host::ScaleOf;
using tidepool::cudart_host::Softmax;
using tidepool::cudart_host::SoftmaxGradient;
using tidepool::cudart_host::TensorView;

extern "C" {

cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void* alpha,
                                   cudnnTensorDescriptor_t x, const void* x_data, const void* beta,
                                   cudnnTensorDescriptor_t y, void* y_data) {
  const cudnnStatus_t status = EnterLayer(__func__, handle, {x, y}, {alpha, beta, x_data, y_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!HaveOneShape(x, y)) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, x->type);
  return QueueLayer(handle, [blend, from = TensorView(*x, x_data), to = TensorView(*y, y_data)] {
    ForEachPosition(to, [&](const Position& at) { blend.Store(to, at, from.Load(at)); });
  });
}

cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle, cudnnTensorDescriptor_t y, void* y_data,
                             const void* value) {
  const cudnnStatus_t status = EnterLayer(__func__, handle, {y}, {y_data, value});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return QueueLayer(handle, [number = ScaleOf(value, y->type), to = TensorView(*y, y_data)] {
    ForEachPosition(to, [&](const Position& at) { to.Store(at, number); });
  });
}

cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle, cudnnOpTensorDescriptor_t operation,
                            const void* alpha1, cudnnTensorDescriptor_t a, const void* a_data,
                            const void* alpha2, cudnnTensorDescriptor_t b, const void* b_data,
                            const void* beta, cudnnTensorDescriptor_t c, void* c_data) {
  const cudnnStatus_t status = EnterLayer(
      __func__, handle, {a, b, c}, {operation, alpha1, a_data, alpha2, b_data, beta, c_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (operation->operation != CUDNN_OP_TENSOR_MUL) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!HaveOneShape(a, c) || !Repeats(b, c)) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = {ScaleOf(alpha1, a->type) * ScaleOf(alpha2, a->type), ScaleOf(beta, c->type)};
  return QueueLayer(handle, [blend, first = TensorView(*a, a_data), second = TensorView(*b, b_data),
                             to = TensorView(*c, c_data)] {
    ForEachPosition(to, [&](const Position& at) {
      blend.Store(to, at, first.Load(at) * second.Load(Repeated(second, at)));
    });
  });
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t a,
                             const void* a_data, const void* beta, cudnnTensorDescriptor_t c,
                             void* c_data) {
  const cudnnStatus_t status = EnterLayer(__func__, handle, {a, c}, {alpha, beta, a_data, c_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!Repeats(a, c)) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, a->type);
  return QueueLayer(handle, [blend, from = TensorView(*a, a_data), to = TensorView(*c, c_data)] {
    ForEachPosition(
        to, [&](const Position& at) { blend.Store(to, at, from.Load(Repeated(from, at))); });
  });
}

cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                           cudnnTensorDescriptor_t dy, const void* dy_data,
                                           const void* beta, cudnnTensorDescriptor_t db,
                                           void* db_data) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {dy, db}, {alpha, beta, dy_data, db_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!Repeats(db, dy) || db->sizes[1] != dy->sizes[1]) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, dy->type);
  return QueueLayer(handle,
                    [blend, from = TensorView(*dy, dy_data), to = TensorView(*db, db_data)] {
                      std::vector<double> sums(static_cast<std::size_t>(to.size(1)));
                      ForEachPosition(from, [&](const Position& at) {
                        sums[static_cast<std::size_t>(at[1])] += from.Load(at);
                      });
                      for (int c = 0; c < to.size(1); ++c) {
                        blend.Store(to, {0, c, 0, 0}, sums[static_cast<std::size_t>(c)]);
                      }
                    });
}

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                                     const void* alpha, cudnnTensorDescriptor_t x,
                                     const void* x_data, const void* beta,
                                     cudnnTensorDescriptor_t y, void* y_data) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {x, y}, {activation, alpha, beta, x_data, y_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!HaveOneShape(x, y)) return CUDNN_STATUS_BAD_PARAM;
  if (!IsKnown(activation->mode)) return CUDNN_STATUS_NOT_SUPPORTED;
  const Blend blend = BlendOf(alpha, beta, x->type);
  return QueueLayer(handle, [blend, mode = activation->mode, from = TensorView(*x, x_data),
                             to = TensorView(*y, y_data)] {
    ForEachPosition(
        to, [&](const Position& at) { blend.Store(to, at, Activate(mode, from.Load(at))); });
  });
}

cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                                      const void* alpha, cudnnTensorDescriptor_t y,
                                      const void* y_data, cudnnTensorDescriptor_t dy,
                                      const void* dy_data, cudnnTensorDescriptor_t x,
                                      const void* x_data, const void* beta,
                                      cudnnTensorDescriptor_t dx, void* dx_data) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {x, y, dy, dx},
                 {activation, alpha, beta, x_data, y_data, dy_data, dx_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!HaveOneShape(y, dy) || !HaveOneShape(y, dx)) return CUDNN_STATUS_BAD_PARAM;
  if (!IsKnown(activation->mode)) return CUDNN_STATUS_NOT_SUPPORTED;
  const Blend blend = BlendOf(alpha, beta, y->type);
  return QueueLayer(handle, [blend, mode = activation->mode, result = TensorView(*y, y_data),
                             gradient = TensorView(*dy, dy_data), to = TensorView(*dx, dx_data)] {
    ForEachPosition(to, [&](const Position& at) {
      blend.Store(to, at, gradient.Load(at) * Derivative(mode, result.Load(at)));
    });
  });
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                  cudnnSoftmaxMode_t mode, const void* alpha,
                                  cudnnTensorDescriptor_t x, const void* x_data, const void* beta,
                                  cudnnTensorDescriptor_t y, void* y_data) {
  const cudnnStatus_t status = EnterLayer(__func__, handle, {x, y}, {alpha, beta, x_data, y_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!HaveOneShape(x, y)) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, x->type);
  return QueueLayer(
      handle, [blend, algorithm, mode, from = TensorView(*x, x_data), to = TensorView(*y, y_data)] {
        Softmax(algorithm, mode, blend, from, to);
      });
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                   cudnnSoftmaxMode_t mode, const void* alpha,
                                   cudnnTensorDescriptor_t y, const void* y_data,
                                   cudnnTensorDescriptor_t dy, const void* dy_data,
                                   const void* beta, cudnnTensorDescriptor_t dx, void* dx_data) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {y, dy, dx}, {alpha, beta, y_data, dy_data, dx_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!HaveOneShape(y, dy) || !HaveOneShape(y, dx)) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, y->type);
  return QueueLayer(handle, [blend, algorithm, mode, result = TensorView(*y, y_data),
                             gradient = TensorView(*dy, dy_data), to = TensorView(*dx, dx_data)] {
    SoftmaxGradient(algorithm, mode, blend, result, gradient, to);
  });
}

}  // extern "C"
