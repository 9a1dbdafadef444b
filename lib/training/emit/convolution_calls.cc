// SPDX-License-Identifier: Apache-2.0
// Convolutions, in the micro-batches of their algorithm.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/training/emit/image_shape.h"
#include "lib/training/emit/kernel_calls.h"
#include "lib/training/emit/task_calls.h"

namespace tidepool::emit {
namespace {

constexpr char kNoBias[] = "nullptr";

// Samples that are computed at once.
struct Part {
  std::string_view algorithm;
  std::int64_t first;
  std::int64_t samples;
};

// Returns cuDNN's number of an algorithm: of forward convolutions, gradients of data and those of
// weights.
int AlgorithmNumber(std::string_view name, std::size_t pass) {
  struct Algorithm {
    std::string_view name;
    std::array<int, 3> numbers;
  };
  static constexpr std::array<Algorithm, 7> kAlgorithms = {{{"default", {0, 1, 1}},
                                                            {"implicit-gemm", {0, 1, 1}},
                                                            {"precomputed-gemm", {1, 1, 1}},
                                                            {"gemm", {2, 0, 0}},
                                                            {"fft", {4, 2, 2}},
                                                            {"fft-tiling", {5, 3, 6}},
                                                            {"winograd", {7, 5, 5}}}};
  const auto found = std::ranges::find(kAlgorithms, name, &Algorithm::name);
  return found == kAlgorithms.end() ? kAlgorithms.front().numbers[pass] : found->numbers[pass];
}

// Returns the address of the numbers from number `first` of a datum on.
std::string From(const RoleUse& use, std::int64_t first) {
  if (first == 0) return use.address;
  return absl::StrCat("From(", use.address, ", ", first, ")");
}

class Convolutions final : public TaskCalls {
 public:
  using TaskCalls::TaskCalls;

  void Add() {
    const auto c = Get<ConvolutionParameters>();
    if (!status_.ok()) return;
    AddCalls(c, {.name = "Convolve",
                 .passes = {0, 1},
                 .image = {c.c, c.h, c.w},
                 .outputs = c.k,
                 .x = c.c * c.h * c.w,
                 .y = OutputOf(c).elements(),
                 .weights = c.k * (c.c / c.groups) * c.r * c.s});
  }

  // Adds the gradient of a convolution from the output's pixels to the input's.
  void AddTransposed() {
    const auto c = Get<ConvolutionParameters>();
    if (!status_.ok()) return;
    const RoleUse out = task_.phase == TaskPhase::kForward ? Output(0) : Gradient(0);
    if (!status_.ok()) return;
    const ImageShape image = TransposedOutputOf(c, placed_.graph.data[out.data].bytes / kWordBytes);
    AddCalls(c, {.name = "ConvolveTransposed",
                 .passes = {1, 0},
                 .image = {c.k, image.height, image.width},
                 .outputs = c.c,
                 .x = c.c * c.h * c.w,
                 .y = image.elements(),
                 .weights = c.c * (c.k / c.groups) * c.r * c.s});
  }

 private:
  // The functions and the sizes of a layer.
  struct Layer {
    std::string name;                   // of the function of the forward pass
    std::array<std::size_t, 2> passes;  // of cuDNN: those of y and of the gradient of x
    ImageShape image;                   // the input of cuDNN's convolution
    std::int64_t outputs;               // and its channels
    std::int64_t x;                     // numbers of a sample
    std::int64_t y;
    std::int64_t weights;
  };

  void AddCalls(const ConvolutionParameters& c, const Layer& layer) {
    task_.phase == TaskPhase::kForward ? AddForward(c, layer) : AddBackward(c, layer);
  }

  void AddForward(const ConvolutionParameters& c, const Layer& layer) {
    const std::string bias = roles_.weights.size() > 1 ? Weight(1, c.k).address : kNoBias;
    for (const Part& part : PartsOf(c.n)) {
      Call(layer.name, ShapeOf(c, layer, part), AlgorithmNumber(part.algorithm, layer.passes[0]),
           From(Input(0, c.n * layer.x), part.first * layer.x), Weight(0, layer.weights).address,
           bias, From(Output(c.n * layer.y), part.first * layer.y), "false", WorkspaceText());
    }
  }

  void AddBackward(const ConvolutionParameters& c, const Layer& layer) {
    const RoleUse dy = Gradient(c.n * layer.y);
    for (const Part& part : PartsOf(c.n)) {
      if (roles_.made_weight_gradients.empty()) break;
      const RoleUse dw = WeightGradient(0, layer.weights);
      const bool has_bias = roles_.made_weight_gradients.size() > 1;
      Call(layer.name + "Weights", ShapeOf(c, layer, part), AlgorithmNumber(part.algorithm, 2),
           From(Input(0, c.n * layer.x), part.first * layer.x), From(dy, part.first * layer.y),
           dw.address, has_bias ? WeightGradient(1, c.k).address : kNoBias, AddsTo(dw, part),
           WorkspaceText());
    }
    for (const Part& part : PartsOf(c.n)) {
      if (roles_.made_gradients.empty()) break;
      const RoleUse dx = MadeGradient(c.n * layer.x);
      Call(layer.name + "Data", ShapeOf(c, layer, part),
           AlgorithmNumber(part.algorithm, layer.passes[1]), Weight(0, layer.weights).address,
           From(dy, part.first * layer.y), From(dx, part.first * layer.x), Adds(dx),
           WorkspaceText());
    }
  }

  std::string ShapeOf(const ConvolutionParameters& c, const Layer& layer, const Part& part) {
    const ImageShape& image = layer.image;
    const std::string input =
        TaskCalls::ShapeOf(part.samples, image.channels, image.height, image.width);
    return absl::StrCat("{", input, ", ", layer.outputs, ", ", c.r, ", ", c.s, ", ",
                        c.padding_height, ", ", c.padding_width, ", ", c.stride_height, ", ",
                        c.stride_width, ", ", c.dilation_height, ", ", c.dilation_width, ", ",
                        c.groups, "}");
  }

  // Returns the micro-batches of the algorithm, or the whole batch.
  std::vector<Part> PartsOf(std::int64_t samples) const {
    const TaskAlgorithm& algorithm = placed_.algorithm;
    if (algorithm.micro_batches.empty()) return {{algorithm.name, 0, samples}};
    std::vector<Part> parts;
    parts.reserve(algorithm.micro_batches.size());
    std::int64_t first = 0;
    for (const MicroBatch& part : algorithm.micro_batches) {
      parts.push_back({part.algorithm, first, part.samples});
      first += part.samples;
    }
    return parts;
  }

  // The sum over a batch begins with the first micro-batch.
  static std::string AddsTo(const RoleUse& weight_gradient, const Part& part) {
    return part.first > 0 ? "true" : TaskCalls::AddsTo(weight_gradient);
  }
  std::string WorkspaceText() const {
    return absl::StrCat("{", placed_.workspace, ", ", placed_.algorithm.workspace_bytes, "}");
  }
};

}  // namespace

absl::StatusOr<std::string> ConvolutionCalls(const Network& network, const PlacedTask& placed) {
  Convolutions calls(network, placed);
  calls.Add();
  return std::move(calls).Finish();
}

absl::StatusOr<std::string> TransposedConvolutionCalls(const Network& network,
                                                       const PlacedTask& placed) {
  Convolutions calls(network, placed);
  calls.AddTransposed();
  return std::move(calls).Finish();
}

}  // namespace tidepool::emit
