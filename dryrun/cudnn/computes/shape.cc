// SPDX-License-Identifier: Apache-2.0
#include "dryrun/cudnn/computes/shape.h"

#include <cuda_fp16.h>

#include <cstddef>
#include <vector>

namespace tidepool::cudart_host {
namespace {

double Load(float value) { return value; }
double Load(double value) { return value; }
double Load(__half value) { return __half2float(value); }
void Store(double value, float& to) { to = static_cast<float>(value); }
void Store(double value, double& to) { to = value; }
void Store(double value, __half& to) { to = __float2half(static_cast<float>(value)); }

// Returns the dimension among three of the i-th of `dimensions` spatial ones.
std::size_t Spatial(int dimensions, int i) {
  const int at = 3 - dimensions + i;
  return static_cast<std::size_t>(at);
}

// Returns the size of the output of a spatial dimension.
std::int64_t Reached(const ConvolutionShape& shape, std::size_t i) {
  const std::int64_t reach = shape.dilations[i] * (shape.w.sizes[i + 2] - 1) + 1;
  const std::int64_t room = shape.x.sizes[i + 2] + 2 * shape.pads[i] - reach;
  return room < 0 ? -1 : room / shape.strides[i] + 1;
}

bool Suits(const ConvolutionShape& shape) {
  const bool has_channels = shape.x.sizes[1] == shape.w.sizes[1] * shape.groups &&
                            shape.y.sizes[1] == shape.w.sizes[0] &&
                            shape.w.sizes[0] % shape.groups == 0;
  if (!has_channels || shape.x.sizes[0] != shape.y.sizes[0]) return false;
  for (std::size_t i = 0; i < 3; ++i) {
    if (shape.y.sizes[i + 2] != Reached(shape, i)) return false;
  }
  return shape.x.type == shape.w.type && shape.x.type == shape.y.type && IsComputed(shape.x.type);
}

// Calls `body` with the offsets in x, w and y of each product of a sample and a pair of channels.
template <typename Body>
void ForEachTap(const ConvolutionShape& s, std::int64_t n, std::int64_t k, std::int64_t c,
                Body body) {
  const std::int64_t first = k / (s.w.sizes[0] / s.groups) * s.w.sizes[1];
  const auto input = [&](std::size_t i, std::int64_t out, std::int64_t tap) {
    return out * s.strides[i] + tap * s.dilations[i] - s.pads[i];
  };
  const auto is_in = [&](std::size_t i, std::int64_t at) {
    return at >= 0 && at < s.x.sizes[i + 2];
  };
  const auto filter = [&](std::size_t i, std::int64_t tap) {
    return s.w.strides[i + 2] * (s.flips ? s.w.sizes[i + 2] - 1 - tap : tap);
  };
  const std::int64_t x0 = n * s.x.strides[0] + (first + c) * s.x.strides[1];
  const std::int64_t w0 = k * s.w.strides[0] + c * s.w.strides[1];
  const std::int64_t y0 = n * s.y.strides[0] + k * s.y.strides[1];
  for (std::int64_t o = 0; o < s.y.sizes[2]; ++o) {
    for (std::int64_t p = 0; p < s.y.sizes[3]; ++p) {
      for (std::int64_t q = 0; q < s.y.sizes[4]; ++q) {
        for (std::int64_t t = 0; t < s.w.sizes[2]; ++t) {
          if (!is_in(0, input(0, o, t))) continue;
          for (std::int64_t v = 0; v < s.w.sizes[3]; ++v) {
            if (!is_in(1, input(1, p, v))) continue;
            for (std::int64_t u = 0; u < s.w.sizes[4]; ++u) {
              if (!is_in(2, input(2, q, u))) continue;
              body(x0 + input(0, o, t) * s.x.strides[2] + input(1, p, v) * s.x.strides[3] +
                       input(2, q, u) * s.x.strides[4],
                   w0 + filter(0, t) + filter(1, v) + filter(2, u),
                   y0 + o * s.y.strides[2] + p * s.y.strides[3] + q * s.y.strides[4]);
            }
          }
        }
      }
    }
  }
}

// Calls `body` with the channel and the offset of each element of a tensor.
template <typename Body>
void ForEachElement(const TensorShape& shape, Body body) {
  std::array<std::int64_t, 5> at = {};
  for (at[0] = 0; at[0] < shape.sizes[0]; ++at[0]) {
    for (at[1] = 0; at[1] < shape.sizes[1]; ++at[1]) {
      for (at[2] = 0; at[2] < shape.sizes[2]; ++at[2]) {
        for (at[3] = 0; at[3] < shape.sizes[3]; ++at[3]) {
          for (at[4] = 0; at[4] < shape.sizes[4]; ++at[4]) {
            std::int64_t offset = 0;
            for (std::size_t i = 0; i < 5; ++i) offset += at[i] * shape.strides[i];
            body(at[1], offset);
          }
        }
      }
    }
  }
}

// Stores alpha * sums + beta * output in all elements of a tensor.
template <typename Number>
void Finish(const TensorShape& shape, double alpha, const std::vector<double>& sums, double beta,
            Number* output) {
  ForEachElement(shape, [&](std::int64_t, std::int64_t offset) {
    const double sum = alpha * sums[static_cast<std::size_t>(offset)];
    Store(beta == 0 ? sum : sum + beta * Load(output[offset]), output[offset]);
  });
}

template <typename Number>
void ConvolveOf(Pass pass, const ConvolutionShape& s, double alpha, void* x_data, void* w_data,
                void* y_data, double beta) {
  auto* const x = static_cast<Number*>(x_data);
  auto* const w = static_cast<Number*>(w_data);
  auto* const y = static_cast<Number*>(y_data);
  const TensorShape& output = pass == Pass::kForward ? s.y : pass == Pass::kData ? s.x : s.w;
  std::vector<double> sums(static_cast<std::size_t>(ExtentOf(output)));
  const auto sum = [&](std::int64_t at) -> double& { return sums[static_cast<std::size_t>(at)]; };
  for (std::int64_t n = 0; n < s.x.sizes[0]; ++n) {
    for (std::int64_t k = 0; k < s.w.sizes[0]; ++k) {
      for (std::int64_t c = 0; c < s.w.sizes[1]; ++c) {
        ForEachTap(s, n, k, c, [&](std::int64_t in, std::int64_t tap, std::int64_t out) {
          if (pass == Pass::kForward) {
            sum(out) += Load(x[in]) * Load(w[tap]);
          } else if (pass == Pass::kData) {
            sum(in) += Load(y[out]) * Load(w[tap]);
          } else {
            sum(tap) += Load(y[out]) * Load(x[in]);
          }
        });
      }
    }
  }
  Finish(output, alpha, sums, beta, pass == Pass::kForward ? y : pass == Pass::kData ? x : w);
}

template <typename Number>
void ConvolveFusedOf(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y_data,
                     double beta, const Epilogue& epilogue) {
  auto* const y = static_cast<Number*>(y_data);
  const auto* const z = static_cast<const Number*>(epilogue.z);
  const auto* const bias = static_cast<const Number*>(epilogue.bias);
  if (beta != 0 && z != y) {
    ForEachElement(shape.y, [&](std::int64_t, std::int64_t offset) { y[offset] = z[offset]; });
  }
  ConvolveOf<Number>(Pass::kForward, shape, alpha, x, w, y_data, beta);
  ForEachElement(shape.y, [&](std::int64_t channel, std::int64_t offset) {
    const double sum = Load(y[offset]) + Load(bias[channel]);
    Store(epilogue.clamps && sum < 0 ? 0 : sum, y[offset]);
  });
}

}  // namespace

TensorShape ShapeOfTensor(cudnnDataType_t type, int dimensions, const int* sizes,
                          const int* strides) {
  TensorShape shape;
  shape.type = type;
  for (int i = 0; i < dimensions; ++i) {
    const std::size_t at = i < 2 ? static_cast<std::size_t>(i) : Spatial(dimensions - 2, i - 2) + 2;
    shape.sizes[at] = sizes[i];
    shape.strides[at] = strides[i];
  }
  return shape;
}

std::int64_t ExtentOf(const TensorShape& tensor) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 5; ++i) last += (tensor.sizes[i] - 1) * tensor.strides[i];
  return last + 1;
}

bool IsComputed(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF;
}

std::optional<ConvolutionShape> ShapeOf(const ConvolutionDescriptors& descriptors) {
  const auto& [x, w, y, convolution] = descriptors;
  if (x == nullptr || w == nullptr || y == nullptr || convolution == nullptr) return std::nullopt;
  const int spatial = convolution->dimensions;
  if (spatial < 1 || spatial > 3 || x->dimensions != spatial + 2 || w->dimensions != spatial + 2 ||
      y->dimensions != spatial + 2) {
    return std::nullopt;
  }
  std::array<int, CUDNN_DIM_MAX> filter_strides = {};
  PackStrides(w->format, w->dimensions, w->sizes.data(), filter_strides.data());
  ConvolutionShape shape;
  shape.x = ShapeOfTensor(x->type, x->dimensions, x->sizes.data(), x->strides.data());
  shape.w = ShapeOfTensor(w->type, w->dimensions, w->sizes.data(), filter_strides.data());
  shape.y = ShapeOfTensor(y->type, y->dimensions, y->sizes.data(), y->strides.data());
  for (int i = 0; i < spatial; ++i) {
    const auto from = static_cast<std::size_t>(i);
    const std::size_t to = Spatial(spatial, i);
    shape.pads[to] = convolution->pads[from];
    shape.strides[to] = convolution->strides[from];
    shape.dilations[to] = convolution->dilations[from];
  }
  shape.groups = convolution->groups;
  shape.flips = convolution->mode == CUDNN_CONVOLUTION;
  shape.compute_type = convolution->compute_type;
  shape.math = convolution->math;
  if (!Suits(shape)) return std::nullopt;
  return shape;
}

std::string LayerOf(const ConvolutionShape& s) {
  const auto field = [](const char* name, std::int64_t value) {
    return name + std::to_string(value);
  };
  return field("c", s.x.sizes[1]) + field("h", s.x.sizes[3]) + field("w", s.x.sizes[4]) +
         field("k", s.w.sizes[0]) + field("r", s.w.sizes[3]) + field("s", s.w.sizes[4]);
}

void Convolve(Pass pass, const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
              double beta) {
  if (shape.x.type == CUDNN_DATA_FLOAT) ConvolveOf<float>(pass, shape, alpha, x, w, y, beta);
  if (shape.x.type == CUDNN_DATA_DOUBLE) ConvolveOf<double>(pass, shape, alpha, x, w, y, beta);
  if (shape.x.type == CUDNN_DATA_HALF) ConvolveOf<__half>(pass, shape, alpha, x, w, y, beta);
}

void ConvolveFused(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
                   double beta, const Epilogue& its) {
  const cudnnDataType_t type = shape.x.type;
  if (type == CUDNN_DATA_FLOAT) ConvolveFusedOf<float>(shape, alpha, x, w, y, beta, its);
  if (type == CUDNN_DATA_DOUBLE) ConvolveFusedOf<double>(shape, alpha, x, w, y, beta, its);
  if (type == CUDNN_DATA_HALF) ConvolveFusedOf<__half>(shape, alpha, x, w, y, beta, its);
}

}  // namespace tidepool::cudart_host
