// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over samples, rows and columns (Ioffe and Szegedy, arXiv:1502.03167).
#include <cmath>
#include <cstddef>

#include "dryrun/cudnn/computes/layer_call.h"

namespace tidepool::cudart_host {
namespace {

// Calls `body` with each position of a channel.
template <typename Body>
void ForEachOfChannel(const TensorView& tensor, int channel, Body body) {
  Position at = {0, channel, 0, 0};
  for (at[0] = 0; at[0] < tensor.size(0); ++at[0]) {
    for (at[2] = 0; at[2] < tensor.size(2); ++at[2]) {
      for (at[3] = 0; at[3] < tensor.size(3); ++at[3]) body(at);
    }
  }
}

double CountOfChannel(const TensorView& tensor) {
  return static_cast<double>(tensor.size(0)) * tensor.size(2) * tensor.size(3);
}

struct Normalization {
  TensorView x;
  TensorView y;
  TensorView scale;
  TensorView shift;
  TensorView saved_mean;
  TensorView saved_inverse_deviation;
  TensorView running_mean;
  TensorView running_variance;
  bool has_running = false;
  double average_factor = 0;
  double epsilon = 0;
  Blend blend;
};

void Normalize(const Normalization& n) {
  const double count = CountOfChannel(n.x);
  for (int c = 0; c < n.x.size(1); ++c) {
    double mean = 0;
    ForEachOfChannel(n.x, c, [&](const Position& at) { mean += n.x.Load(at) / count; });
    double variance = 0;
    ForEachOfChannel(n.x, c, [&](const Position& at) {
      const double distance = n.x.Load(at) - mean;
      variance += distance * distance / count;
    });
    const double inverse = 1 / std::sqrt(variance + n.epsilon);
    const Position channel = {0, c, 0, 0};
    n.saved_mean.Store(channel, mean);
    n.saved_inverse_deviation.Store(channel, inverse);
    if (n.has_running) {
      const Blend average = {n.average_factor, 1 - n.average_factor};
      average.Store(n.running_mean, channel, mean);
      average.Store(n.running_variance, channel,
                    count > 1 ? variance * count / (count - 1) : variance);
    }
    ForEachOfChannel(n.x, c, [&](const Position& at) {
      const double normal = (n.x.Load(at) - mean) * inverse;
      n.blend.Store(n.y, at, n.scale.Load(channel) * normal + n.shift.Load(channel));
    });
  }
}

struct NormalizationGradients {
  TensorView x;
  TensorView dy;
  TensorView dx;
  TensorView scale;
  TensorView scale_gradient;
  TensorView shift_gradient;
  TensorView mean;
  TensorView inverse_deviation;
  Blend blend;
  Blend blend_weights;
};

void NormalizeGradients(const NormalizationGradients& n) {
  const double count = CountOfChannel(n.x);
  for (int c = 0; c < n.x.size(1); ++c) {
    const Position channel = {0, c, 0, 0};
    const double mean = n.mean.Load(channel);
    const double inverse = n.inverse_deviation.Load(channel);
    double sum = 0;
    double product = 0;
    ForEachOfChannel(n.x, c, [&](const Position& at) {
      sum += n.dy.Load(at);
      product += n.dy.Load(at) * (n.x.Load(at) - mean) * inverse;
    });
    n.blend_weights.Store(n.shift_gradient, channel, sum);
    n.blend_weights.Store(n.scale_gradient, channel, product);
    ForEachOfChannel(n.x, c, [&](const Position& at) {
      const double normal = (n.x.Load(at) - mean) * inverse;
      const double centred = n.dy.Load(at) - sum / count - normal * product / count;
      n.blend.Store(n.dx, at, n.scale.Load(channel) * inverse * centred);
    });
  }
}

// The parameters of one sample (each number has its own), or of channels.
bool AreParametersOf(cudnnBatchNormMode_t mode, cudnnTensorDescriptor_t parameters,
                     cudnnTensorDescriptor_t x) {
  const bool is_each = mode == CUDNN_BATCHNORM_PER_ACTIVATION;
  return parameters->sizes[0] == 1 && parameters->sizes[1] == x->sizes[1] &&
         parameters->sizes[2] == (is_each ? x->sizes[2] : 1) &&
         parameters->sizes[3] == (is_each ? x->sizes[3] : 1) && parameters->type == x->type;
}

bool IsOfChannels(cudnnTensorDescriptor_t channels, cudnnTensorDescriptor_t x) {
  return AreParametersOf(CUDNN_BATCHNORM_SPATIAL, channels, x);
}

}  // namespace
}  // namespace tidepool::cudart_host

using tidepool::cudart_host::AreParametersOf;
using tidepool::cudart_host::Blend;
using tidepool::cudart_host::BlendOf;
using tidepool::cudart_host::EnterLayer;
using tidepool::cudart_host::ForEachPosition;
using tidepool::cudart_host::IsOfChannels;
using tidepool::cudart_host::Normalization;
using tidepool::cudart_host::NormalizationGradients;
using tidepool::cudart_host::Normalize;
using tidepool::cudart_host::NormalizeGradients;
using tidepool::cudart_host::Position;
using tidepool::cudart_host::QueueLayer;
using tidepool::cudart_host::TensorView;

extern "C" {

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t y, void* y_data,
    cudnnTensorDescriptor_t channels, const void* scale, const void* shift, double average_factor,
    void* running_mean, void* running_variance, double epsilon, void* saved_mean,
    void* saved_inverse_deviation) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {x, y, channels},
                 {alpha, beta, x_data, y_data, scale, shift, saved_mean, saved_inverse_deviation});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (mode == CUDNN_BATCHNORM_PER_ACTIVATION) return CUDNN_STATUS_NOT_SUPPORTED;
  if (x->sizes != y->sizes || !IsOfChannels(channels, x)) return CUDNN_STATUS_BAD_PARAM;
  const Normalization work = {.x = {*x, x_data},
                              .y = {*y, y_data},
                              .scale = {*channels, scale},
                              .shift = {*channels, shift},
                              .saved_mean = {*channels, saved_mean},
                              .saved_inverse_deviation = {*channels, saved_inverse_deviation},
                              .running_mean = {*channels, running_mean},
                              .running_variance = {*channels, running_variance},
                              .has_running = running_mean != nullptr && running_variance != nullptr,
                              .average_factor = average_factor,
                              .epsilon = epsilon,
                              .blend = BlendOf(alpha, beta, x->type)};
  return QueueLayer(handle, [work] { Normalize(work); });
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t y, void* y_data,
    cudnnTensorDescriptor_t parameters, const void* scale, const void* shift, const void* mean,
    const void* variance, double epsilon) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {x, y, parameters},
                 {alpha, beta, x_data, y_data, scale, shift, mean, variance});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (x->sizes != y->sizes || !AreParametersOf(mode, parameters, x)) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, x->type);
  return QueueLayer(handle, [blend, epsilon, from = TensorView(*x, x_data),
                             to = TensorView(*y, y_data), scales = TensorView(*parameters, scale),
                             shifts = TensorView(*parameters, shift),
                             means = TensorView(*parameters, mean),
                             variances = TensorView(*parameters, variance)] {
    ForEachPosition(to, [&](const Position& at) {
      Position parameter = at;
      for (std::size_t i = 0; i < at.size(); ++i) {
        if (scales.size(i) == 1) parameter[i] = 0;
      }
      const double normal =
          (from.Load(at) - means.Load(parameter)) / std::sqrt(variances.Load(parameter) + epsilon);
      blend.Store(to, at, scales.Load(parameter) * normal + shifts.Load(parameter));
    });
  });
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data, const void* beta_data,
    const void* alpha_weights, const void* beta_weights, cudnnTensorDescriptor_t x,
    const void* x_data, cudnnTensorDescriptor_t dy, const void* dy_data, cudnnTensorDescriptor_t dx,
    void* dx_data, cudnnTensorDescriptor_t channels, const void* scale, void* scale_gradient,
    void* shift_gradient, double /*epsilon*/, const void* saved_mean,
    const void* saved_inverse_deviation) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {x, dy, dx, channels},
                 {alpha_data, beta_data, alpha_weights, beta_weights, x_data, dy_data, dx_data,
                  scale, scale_gradient, shift_gradient, saved_mean, saved_inverse_deviation});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (mode == CUDNN_BATCHNORM_PER_ACTIVATION) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool is_valid = x->sizes == dy->sizes && x->sizes == dx->sizes && IsOfChannels(channels, x);
  if (!is_valid) return CUDNN_STATUS_BAD_PARAM;
  const NormalizationGradients work = {
      .x = {*x, x_data},
      .dy = {*dy, dy_data},
      .dx = {*dx, dx_data},
      .scale = {*channels, scale},
      .scale_gradient = {*channels, scale_gradient},
      .shift_gradient = {*channels, shift_gradient},
      .mean = {*channels, saved_mean},
      .inverse_deviation = {*channels, saved_inverse_deviation},
      .blend = BlendOf(alpha_data, beta_data, x->type),
      .blend_weights = BlendOf(alpha_weights, beta_weights, x->type)};
  return QueueLayer(handle, [work] { NormalizeGradients(work); });
}

}  // extern "C"
