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

#include "lib/emit/image_shape.h"
#include "lib/emit/operation_calls.h"
#include "lib/emit/task_calls.h"

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

// Returns the text of a convolution from an image of shape `input`.
std::string ConvolutionShape(const ConvolutionParameters& c, const std::string& input,
                             std::int64_t outputs) {
  return absl::StrCat("{", input, ", ", outputs, ", ", c.r, ", ", c.s, ", ", c.padding_height, ", ",
                      c.padding_width, ", ", c.stride_height, ", ", c.stride_width, ", ",
                      c.dilation_height, ", ", c.dilation_width, ", ", c.groups, "}");
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
    const std::int64_t x = c.c * c.h * c.w;
    const std::int64_t y = OutputOf(c).elements();
    const std::int64_t weights = c.k * (c.c / c.groups) * c.r * c.s;
    const std::vector<Part> parts = PartsOf(c.n);
    const auto shape = [&](const Part& part) {
      return ConvolutionShape(c, ShapeOf(part.samples, c.c, c.h, c.w), c.k);
    };
    if (task_.phase == TaskPhase::kForward) {
      const std::string bias = roles_.weights.size() > 1 ? Weight(1, c.k).address : kNoBias;
      for (const Part& part : parts) {
        Call("Convolve", shape(part), AlgorithmNumber(part.algorithm, 0),
             From(Input(0, c.n * x), part.first * x), Weight(0, weights).address, bias,
             From(Output(c.n * y), part.first * y), "false", WorkspaceText());
      }
      return;
    }
    const RoleUse dy = Gradient(c.n * y);
    for (const Part& part : parts) {
      if (roles_.made_weight_gradients.empty()) break;
      const RoleUse dw = WeightGradient(0, weights);
      Call("ConvolveWeights", shape(part), AlgorithmNumber(part.algorithm, 2),
           From(Input(0, c.n * x), part.first * x), From(dy, part.first * y), dw.address,
           GradientOfBias(c.k), AddsTo(dw, part), WorkspaceText());
    }
    for (const Part& part : parts) {
      if (roles_.made_gradients.empty()) break;
      const RoleUse dx = MadeGradient(c.n * x);
      Call("ConvolveData", shape(part), AlgorithmNumber(part.algorithm, 1),
           Weight(0, weights).address, From(dy, part.first * y), From(dx, part.first * x), Adds(dx),
           WorkspaceText());
    }
  }

  // Adds the gradient of a convolution from the output's pixels to the input's.
  void AddTransposed() {
    const auto c = Get<ConvolutionParameters>();
    if (!status_.ok()) return;
    const bool is_forward = task_.phase == TaskPhase::kForward;
    const RoleUse out = is_forward ? Output(0) : Gradient(0);
    if (!status_.ok()) return;
    const ImageShape image = TransposedOutputOf(c, placed_.graph.data[out.data].bytes / kWordBytes);
    const std::int64_t x = c.c * c.h * c.w;
    const std::int64_t y = image.elements();
    const std::int64_t weights = c.c * (c.k / c.groups) * c.r * c.s;
    const std::vector<Part> parts = PartsOf(c.n);
    const auto shape = [&](const Part& part) {
      return ConvolutionShape(c, ShapeOf(part.samples, c.k, image.height, image.width), c.c);
    };
    if (is_forward) {
      const std::string bias = roles_.weights.size() > 1 ? Weight(1, c.k).address : kNoBias;
      for (const Part& part : parts) {
        Call("ConvolveTransposed", shape(part), AlgorithmNumber(part.algorithm, 1),
             From(Input(0, c.n * x), part.first * x), Weight(0, weights).address, bias,
             From(Output(c.n * y), part.first * y), WorkspaceText());
      }
      return;
    }
    const RoleUse dy = Gradient(c.n * y);
    for (const Part& part : parts) {
      if (roles_.made_weight_gradients.empty()) break;
      const RoleUse dw = WeightGradient(0, weights);
      Call("ConvolveTransposedWeights", shape(part), AlgorithmNumber(part.algorithm, 2),
           From(Input(0, c.n * x), part.first * x), From(dy, part.first * y), dw.address,
           GradientOfBias(c.k), AddsTo(dw, part), WorkspaceText());
    }
    for (const Part& part : parts) {
      if (roles_.made_gradients.empty()) break;
      const RoleUse dx = MadeGradient(c.n * x);
      Call("Convolve", shape(part), AlgorithmNumber(part.algorithm, 0), From(dy, part.first * y),
           Weight(0, weights).address, kNoBias, From(dx, part.first * x), Adds(dx),
           WorkspaceText());
    }
  }

 private:
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
  std::string GradientOfBias(std::int64_t outputs) {
    return roles_.made_weight_gradients.size() > 1 ? WeightGradient(1, outputs).address : kNoBias;
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
