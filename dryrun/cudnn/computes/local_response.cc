// SPDX-License-Identifier: Apache-2.0
// Local response normalisation over channels (Krizhevsky et al. 2012, section 3.3).
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "dryrun/cudnn/computes/layer_call.h"

namespace tidepool::cudart_host {
namespace {

// The channels that a number is normalised by: `before` ones, its own, and `after` ones.
struct Reach {
  explicit Reach(const cudnnLRNStruct& response)
      : before((static_cast<int>(response.channels) - 1) / 2),
        after(static_cast<int>(response.channels) - 1 - before) {}
  int before;
  int after;
};

// Returns k + alpha / n x the sum of the squares around each channel of one pixel.
std::vector<double> ScalesOf(const cudnnLRNStruct& response, const TensorView& x, Position at) {
  const Reach reach(response);
  const int channels = x.size(1);
  std::vector<double> scales(static_cast<std::size_t>(channels));
  for (int c = 0; c < channels; ++c) {
    double squares = 0;
    for (at[1] = std::max(c - reach.before, 0); at[1] <= std::min(c + reach.after, channels - 1);
         ++at[1]) {
      squares += x.Load(at) * x.Load(at);
    }
    scales[static_cast<std::size_t>(c)] =
        response.k + response.alpha / static_cast<double>(response.channels) * squares;
  }
  return scales;
}

// Calls `body` with each pixel: a position of channel 0.
template <typename Body>
void ForEachPixel(const TensorView& tensor, Body body) {
  ForEachPosition(tensor, [&](const Position& at) {
    if (at[1] == 0) body(at);
  });
}

void NormalizeResponse(const cudnnLRNStruct& response, const Blend& blend, const TensorView& x,
                       const TensorView& y) {
  ForEachPixel(x, [&](Position at) {
    const std::vector<double> scales = ScalesOf(response, x, at);
    for (at[1] = 0; at[1] < x.size(1); ++at[1]) {
      const double scale = scales[static_cast<std::size_t>(at[1])];
      blend.Store(y, at, x.Load(at) * std::pow(scale, -response.beta));
    }
  });
}

// A number changes the results of all channels that reach it.
void NormalizeResponseGradient(const cudnnLRNStruct& response, const Blend& blend,
                               const TensorView& dy, const TensorView& x, const TensorView& dx) {
  const Reach reach(response);
  const double factor = 2 * response.alpha * response.beta / static_cast<double>(response.channels);
  ForEachPixel(x, [&](const Position& pixel) {
    const std::vector<double> scales = ScalesOf(response, x, pixel);
    const int channels = x.size(1);
    Position at = pixel;
    for (int c = 0; c < channels; ++c) {
      double sum = 0;
      for (at[1] = std::max(c - reach.after, 0); at[1] <= std::min(c + reach.before, channels - 1);
           ++at[1]) {
        const double scale = scales[static_cast<std::size_t>(at[1])];
        sum += dy.Load(at) * x.Load(at) * std::pow(scale, -response.beta - 1);
      }
      at[1] = c;
      const double scale = scales[static_cast<std::size_t>(c)];
      blend.Store(dx, at,
                  dy.Load(at) * std::pow(scale, -response.beta) - factor * x.Load(at) * sum);
    }
  });
}

bool IsForLayers(cudnnLRNDescriptor_t response, cudnnTensorDescriptor_t a,
                 cudnnTensorDescriptor_t b) {
  return response->channels > 0 && a->sizes == b->sizes && a->type == b->type;
}

}  // namespace
}  // namespace tidepool::cudart_host

using tidepool::cudart_host::Blend;
using tidepool::cudart_host::BlendOf;
using tidepool::cudart_host::EnterLayer;
using tidepool::cudart_host::IsForLayers;
using tidepool::cudart_host::NormalizeResponse;
using tidepool::cudart_host::NormalizeResponseGradient;
using tidepool::cudart_host::QueueLayer;
using tidepool::cudart_host::TensorView;

extern "C" {

cudnnStatus_t cudnnLRNCrossChannelForward(cudnnHandle_t handle, cudnnLRNDescriptor_t response,
                                          cudnnLRNMode_t /*mode*/, const void* alpha,
                                          cudnnTensorDescriptor_t x, const void* x_data,
                                          const void* beta, cudnnTensorDescriptor_t y,
                                          void* y_data) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {x, y}, {response, alpha, beta, x_data, y_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!IsForLayers(response, x, y)) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, x->type);
  return QueueLayer(
      handle, [blend, its = *response, from = TensorView(*x, x_data), to = TensorView(*y, y_data)] {
        NormalizeResponse(its, blend, from, to);
      });
}

cudnnStatus_t cudnnLRNCrossChannelBackward(cudnnHandle_t handle, cudnnLRNDescriptor_t response,
                                           cudnnLRNMode_t /*mode*/, const void* alpha,
                                           cudnnTensorDescriptor_t y, const void* y_data,
                                           cudnnTensorDescriptor_t dy, const void* dy_data,
                                           cudnnTensorDescriptor_t x, const void* x_data,
                                           const void* beta, cudnnTensorDescriptor_t dx,
                                           void* dx_data) {
  const cudnnStatus_t status = EnterLayer(
      __func__, handle, {y, dy, x, dx}, {response, alpha, beta, y_data, dy_data, x_data, dx_data});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const bool is_valid = IsForLayers(response, x, dx) && x->sizes == dy->sizes &&
                        x->sizes == y->sizes && x->type == dy->type;
  if (!is_valid) return CUDNN_STATUS_BAD_PARAM;
  const Blend blend = BlendOf(alpha, beta, x->type);
  return QueueLayer(handle, [blend, its = *response, gradient = TensorView(*dy, dy_data),
                             input = TensorView(*x, x_data), to = TensorView(*dx, dx_data)] {
    NormalizeResponseGradient(its, blend, gradient, input, to);
  });
}

}  // extern "C"
