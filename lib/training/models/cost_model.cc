// SPDX-License-Identifier: Apache-2.0
// Computes work, workspaces and times of tasks.
#include "lib/training/models/cost_model.h"

#include <algorithm>

#include "lib/base/arithmetic.h"

namespace tidepool::models {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 62;

constexpr double kImplicitGemmEfficiency = 0.4;
constexpr double kPrecomputedGemmEfficiency = 0.5;
constexpr double kTransformedEfficiency = 0.25;

constexpr std::int64_t kTile = 32;
constexpr std::int64_t kSpectrumNumbers = kTile * (kTile / 2 + 1);  // complex numbers
constexpr std::int64_t kSpectrumBytes = kSpectrumNumbers * 2 * kWordBytes;
constexpr double kFftOperations = 2.5 * kTile * kTile * 10;  // 2.5 n log2(n), real to complex

// The costs of one convolution; a gradient costs as much as a convolution.
struct Convolutions {
  double count;
  double bytes;  // of X, Y and W, or of their gradients, in sum
};

double Multiplications(const ConvolutionShape& shape) {
  return static_cast<double>(shape.batch) * static_cast<double>(shape.outputs * shape.inputs) /
         static_cast<double>(shape.groups) * static_cast<double>(shape.height * shape.width) *
         static_cast<double>(shape.kernel_height * shape.kernel_width);
}

bool HasWinograd(const ConvolutionShape& shape) {
  return shape.kernel_height == 3 && shape.kernel_width == 3 && shape.stride == 1 &&
         shape.groups == 1;
}

std::int64_t TilesOf(const ConvolutionShape& shape) {
  const std::int64_t step = kTile - shape.kernel_height + 1;
  return (CeilDivide(shape.height, step)) * (CeilDivide(shape.width, step));
}

bool HasFft(const ConvolutionShape& shape) {
  return shape.kernel_height == shape.kernel_width && shape.kernel_height >= 5 &&
         shape.kernel_height <= kTile / 2 && shape.stride == 1 &&
         (shape.groups == 1 || TilesOf(shape) == 1);
}

std::int64_t WinogradBytes(const ConvolutionShape& shape) {
  const double bytes =
      2.25 * (static_cast<double>(shape.input_bytes) + static_cast<double>(shape.output_bytes)) +
      4.0 * static_cast<double>(shape.weight_bytes);
  return static_cast<std::int64_t>(std::min(bytes, static_cast<double>(kLargest)));
}

// Returns the pairs of channels that a filter connects.
double FiltersOf(const ConvolutionShape& shape) {
  return static_cast<double>(shape.inputs * shape.outputs) / static_cast<double>(shape.groups);
}

// Returns the number of transformed tiles of X, Y and W, in all groups.
double TransformsOf(const ConvolutionShape& shape) {
  const auto batch = static_cast<double>(shape.batch);
  if (shape.groups > 1) {
    return batch * static_cast<double>(shape.inputs + shape.outputs) + FiltersOf(shape);
  }
  return 2 * (batch * static_cast<double>(TilesOf(shape)) *
                  static_cast<double>(std::max(shape.inputs, shape.outputs)) +
              FiltersOf(shape));
}

// Groups are convolved in sequence, in one workspace.
std::int64_t FftBytes(const ConvolutionShape& shape) {
  const double bytes =
      static_cast<double>(kSpectrumBytes) * TransformsOf(shape) / static_cast<double>(shape.groups);
  return static_cast<std::int64_t>(std::min(bytes, static_cast<double>(kLargest)));
}

double FftOperationsOf(const ConvolutionShape& shape) {
  // A complex multiplication and addition is eight operations.
  const double products = 8.0 * static_cast<double>(kSpectrumNumbers) *
                          static_cast<double>(shape.batch) * static_cast<double>(TilesOf(shape)) *
                          FiltersOf(shape);
  return products + TransformsOf(shape) * kFftOperations;
}

std::vector<TaskAlgorithm> Algorithms(const GpuRates& gpu, const ConvolutionShape& shape,
                                      const Convolutions& convolutions) {
  const auto with_workspace = [&](double operations, std::int64_t workspace) {
    const double passes = convolutions.count * static_cast<double>(shape.groups);
    return Seconds(gpu, {operations * convolutions.count,
                         convolutions.bytes + 2 * passes * static_cast<double>(workspace),
                         kTransformedEfficiency});
  };
  const double direct = 2 * Multiplications(shape);
  std::vector<TaskAlgorithm> algorithms = {
      {"implicit-gemm",
       Seconds(gpu, {direct * convolutions.count, convolutions.bytes, kImplicitGemmEfficiency}),
       0}};
  if (HasWinograd(shape)) {
    const std::int64_t workspace = WinogradBytes(shape);
    algorithms.push_back({"winograd", with_workspace(direct / 4, workspace), workspace});
  }
  if (HasFft(shape)) {
    const std::int64_t workspace = FftBytes(shape);
    algorithms.push_back({"fft", with_workspace(FftOperationsOf(shape), workspace), workspace});
  }
  return algorithms;
}

double TouchedBytes(const ConvolutionShape& shape) {
  return static_cast<double>(shape.input_bytes) + static_cast<double>(shape.output_bytes) +
         static_cast<double>(shape.weight_bytes);
}

}  // namespace

std::int64_t BytesOf(DataType type) {
  switch (type) {
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt8:
    case DataType::kUint8:
      return 1;
    default:
      return kWordBytes;
  }
}

std::int64_t Product(std::initializer_list<std::int64_t> factors) {
  __extension__ using Wide = __int128;
  Wide product = 1;
  for (const std::int64_t factor : factors) product = std::min<Wide>(product * factor, kLargest);
  return static_cast<std::int64_t>(product);
}

double Seconds(const GpuRates& gpu, const Work& work) {
  return std::max(work.operations / (gpu.flops_per_second * work.efficiency),
                  work.bytes / gpu.bytes_per_second) +
         gpu.launch_seconds;
}

std::vector<TaskAlgorithm> OnlyAlgorithm(const GpuRates& gpu, const Work& work) {
  return {{"default", Seconds(gpu, work), 0}};
}

std::vector<TaskAlgorithm> ForwardAlgorithms(const GpuRates& gpu, const ConvolutionShape& shape) {
  const double bytes = TouchedBytes(shape);
  std::vector<TaskAlgorithm> algorithms = Algorithms(gpu, shape, {1, bytes});
  const std::int64_t indexes =
      Product({kWordBytes, shape.inputs / shape.groups, shape.kernel_height, shape.kernel_width});
  algorithms.push_back(
      {"precomputed-gemm",
       Seconds(gpu, {2 * Multiplications(shape), bytes, kPrecomputedGemmEfficiency}), indexes});
  std::stable_sort(algorithms.begin(), algorithms.end(),
                   [](const TaskAlgorithm& a, const TaskAlgorithm& b) {
                     return a.workspace_bytes < b.workspace_bytes;
                   });
  return algorithms;
}

std::vector<TaskAlgorithm> GradientAlgorithms(const GpuRates& gpu, const ConvolutionShape& shape,
                                              int gradients) {
  return Algorithms(gpu, shape, {static_cast<double>(gradients), gradients * TouchedBytes(shape)});
}

}  // namespace tidepool::models
