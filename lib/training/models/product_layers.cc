// SPDX-License-Identifier: Apache-2.0
// Convolutions and linear layers: products of data with weights. Their gradients of data and of
// weights are products too, each a task of its own.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/models/network_builder.h"

namespace tidepool::models {

std::int64_t NetworkBuilder::Windows(const std::string& name, std::int64_t side,
                                     std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                                     bool round_up) {
  const std::int64_t room = side + 2 * padding - kernel;
  if (room < 0) {
    Refuse(absl::StrCat("layer '", name, "' gets ", side, " pixels a side, and ", padding,
                        " of padding at both ends, expected at least its window of ", kernel,
                        ": a larger image"));
    return 1;
  }
  const std::int64_t windows = (room + (round_up ? stride - 1 : 0)) / stride + 1;
  // A window that begins in the padding after the image is left out.
  return round_up && (windows - 1) * stride >= side + padding ? windows - 1 : windows;
}

Tensor NetworkBuilder::Conv(const std::string& name, const Tensor& input,
                            const Convolution& convolution) {
  const Shape& in = input.shape;
  const Convolution& c = convolution;
  const Shape out = {c.outputs,
                     Windows(name, in.height, c.kernel_height, c.stride, c.padding_height, false),
                     Windows(name, in.width, c.kernel_width, c.stride, c.padding_width, false)};
  Layer layer{.name = name, .operation = "conv", .inputs = {input.data}};
  const std::int64_t weights =
      c.outputs * (in.channels / c.groups) * c.kernel_height * c.kernel_width;
  const std::size_t weight = Learn("weight", weights, layer);
  if (c.bias) Learn("bias", c.outputs, layer);
  const Tensor output = Output(name, out);
  layer.outputs = {output.data};
  const ConvolutionShape shape = {.batch = options_.batch,
                                  .inputs = in.channels,
                                  .outputs = c.outputs,
                                  .height = out.height,
                                  .width = out.width,
                                  .kernel_height = c.kernel_height,
                                  .kernel_width = c.kernel_width,
                                  .stride = c.stride,
                                  .groups = c.groups,
                                  .input_bytes = Bytes(in),
                                  .output_bytes = Bytes(out),
                                  .weight_bytes = graph_.data[weight].bytes};
  layer.parameters = ConvolutionParameters{.n = options_.batch,
                                           .c = in.channels,
                                           .h = in.height,
                                           .w = in.width,
                                           .k = c.outputs,
                                           .r = c.kernel_height,
                                           .s = c.kernel_width,
                                           .stride_height = c.stride,
                                           .stride_width = c.stride,
                                           .padding_height = c.padding_height,
                                           .padding_width = c.padding_width,
                                           .groups = c.groups};
  layer.is_product = true;
  layer.forward = ForwardAlgorithms(gpu_, shape);
  AddGradients(layer, {.of_weights = {input.data}, .of_data = {weight}},
               [&](int gradients) { return GradientAlgorithms(gpu_, shape, gradients); });
  return AddLayer(std::move(layer), output);
}

// A transposed convolution is the gradient of a convolution from `size` to the input.
Tensor NetworkBuilder::TransposedConv(const std::string& name, const Tensor& input,
                                      const Upsampling& upsampling, const Shape& size) {
  const Shape& in = input.shape;
  const std::int64_t kernel = upsampling.kernel;
  const std::int64_t stride = upsampling.stride;
  const Shape out = {upsampling.outputs, size.height, size.width};
  Layer layer{.name = name, .operation = "transposed-conv", .inputs = {input.data}};
  const std::int64_t weights = in.channels * out.channels * kernel * kernel;
  const std::size_t weight = Learn("weight", weights, layer);
  if (upsampling.bias) Learn("bias", out.channels, layer);
  const Tensor output = Output(name, out);
  layer.outputs = {output.data};
  const ConvolutionShape shape = {.batch = options_.batch,
                                  .inputs = out.channels,
                                  .outputs = in.channels,
                                  .height = in.height,
                                  .width = in.width,
                                  .kernel_height = kernel,
                                  .kernel_width = kernel,
                                  .stride = stride,
                                  .input_bytes = Bytes(out),
                                  .output_bytes = Bytes(in),
                                  .weight_bytes = graph_.data[weight].bytes};
  // Up to stride - 1 rows and columns that no window reaches make up `size`.
  layer.parameters = ConvolutionParameters{.n = options_.batch,
                                           .c = in.channels,
                                           .h = in.height,
                                           .w = in.width,
                                           .k = out.channels,
                                           .r = kernel,
                                           .s = kernel,
                                           .stride_height = stride,
                                           .stride_width = stride,
                                           .padding_height = (kernel - stride) / 2,
                                           .padding_width = (kernel - stride) / 2};
  layer.is_product = true;
  // The forward pass is one gradient, and the backward pass two convolutions.
  layer.forward = GradientAlgorithms(gpu_, shape, 1);
  AddGradients(layer, {.of_weights = {input.data}, .of_data = {weight}},
               [&](int gradients) { return GradientAlgorithms(gpu_, shape, gradients); });
  return AddLayer(std::move(layer), output);
}

Tensor NetworkBuilder::LinearWith(const std::string& name, const Tensor& input,
                                  const SharedWeight& weight, std::int64_t outputs) {
  Layer layer{.name = name, .operation = "linear", .inputs = {input.data}};
  layer.weights = {weight.number};
  layer.read_weights = {weights_[weight.number].data};
  return AddLinear(std::move(layer), input, outputs);
}

Tensor NetworkBuilder::Linear(const std::string& name, const Tensor& input, std::int64_t outputs,
                              bool bias) {
  Layer layer{.name = name, .operation = "linear", .inputs = {input.data}};
  Learn("weight", input.shape.channels * outputs, layer);
  if (bias) Learn("bias", outputs, layer);
  return AddLinear(std::move(layer), input, outputs);
}

Tensor NetworkBuilder::AddLinear(Layer layer, const Tensor& input, std::int64_t outputs) {
  const Shape& in = input.shape;
  const Tensor output = Output(layer.name, {outputs, in.height, in.width});
  const std::size_t weight = layer.read_weights.front();
  layer.outputs = {output.data};
  const Work once = {
      2.0 * static_cast<double>(options_.batch) * static_cast<double>(in.elements()) *
          static_cast<double>(outputs),
      BytesRead(in) + BytesRead(output.shape) + static_cast<double>(graph_.data[weight].bytes)};
  layer.parameters = LinearParameters{.n = options_.batch,
                                      .positions = in.height * in.width,
                                      .inputs = in.channels,
                                      .outputs = outputs,
                                      .bias = layer.read_weights.size() > 1 ? 1 : 0};
  layer.is_product = true;
  layer.forward = OnlyAlgorithm(gpu_, once);
  AddGradients(layer, {.of_weights = {input.data}, .of_data = {weight}}, [&](int gradients) {
    return OnlyAlgorithm(gpu_, {gradients * once.operations, gradients * once.bytes});
  });
  return AddLayer(std::move(layer), output);
}

}  // namespace tidepool::models
