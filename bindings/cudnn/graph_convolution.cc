// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/graph_convolution.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "bindings/cudnn/operation.h"

namespace tidepool::cudnn {
namespace {

using Name = cudnnBackendAttributeName_t;

// Returns whether a descriptor has no other attributes than these. Others that are zero say
// nothing.
bool HasOnly(const Recorded& descriptor, std::initializer_list<Name> names) {
  return std::ranges::all_of(descriptor.attributes, [&](const RecordedAttribute& its) {
    const bool is_zero =
        its.children.empty() && !its.bytes.empty() &&
        std::ranges::all_of(its.bytes, [](std::byte b) { return b == std::byte{0}; });
    return is_zero || std::ranges::find(names, its.name) != names.end();
  });
}

template <typename Element>
Element First(const Recorded& descriptor, Name name, Element other) {
  const RecordedAttribute* const attribute = descriptor.Find(name);
  return attribute == nullptr ? other : attribute->First(other);
}

std::vector<std::int64_t> Numbers(const Recorded& descriptor, Name name) {
  const RecordedAttribute* const attribute = descriptor.Find(name);
  return attribute == nullptr ? std::vector<std::int64_t>() : attribute->All<std::int64_t>();
}

// Stores numbers. Returns false for too many, and for those that are no int of at least `least`.
template <std::size_t kSize>
bool Store(const std::vector<std::int64_t>& numbers, int least, std::array<int, kSize>& ints) {
  if (numbers.empty() || numbers.size() > kSize) return false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < least || numbers[i] > INT32_MAX) return false;
    ints[i] = static_cast<int>(numbers[i]);
  }
  return true;
}

struct GraphTensor {
  Convolution::Tensor tensor;
  std::int64_t id = 0;
  std::int64_t alignment = 0;
  int dimensions = 0;
};

std::optional<GraphTensor> ReadGraphTensor(const RecordedRef& descriptor) {
  if (descriptor == nullptr || descriptor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR ||
      !HasOnly(*descriptor, {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS,
                             CUDNN_ATTR_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_UNIQUE_ID,
                             CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT})) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> sizes = Numbers(*descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS);
  const std::vector<std::int64_t> strides = Numbers(*descriptor, CUDNN_ATTR_TENSOR_STRIDES);
  GraphTensor its;
  its.tensor.type = First(*descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  its.id = First<std::int64_t>(*descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  its.alignment = First<std::int64_t>(*descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
  its.dimensions = static_cast<int>(sizes.size());
  if (sizes.size() < 3 || sizes.size() != strides.size() || its.alignment < 1 ||
      !Store(sizes, 1, its.tensor.sizes) || !Store(strides, 0, its.tensor.strides)) {
    return std::nullopt;
  }
  return its;
}

// Finds the format in which a filter is packed. Strides of sizes of 1 say nothing.
bool HasFormat(const GraphTensor& filter, Convolution& its) {
  for (const cudnnTensorFormat_t format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
    its.filter_format = format;
    const auto packed = its.FilterStrides();
    bool is_packed = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(filter.dimensions); ++i) {
      is_packed =
          is_packed && (filter.tensor.sizes[i] == 1 || filter.tensor.strides[i] == packed[i]);
    }
    if (is_packed) return true;
  }
  return false;
}

bool ReadArithmetic(const RecordedRef& descriptor, Convolution& its, int& spatial) {
  if (descriptor == nullptr || descriptor->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR ||
      !HasOnly(*descriptor,
               {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS})) {
    return false;
  }
  const auto before = Numbers(*descriptor, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  its.compute_type = First(*descriptor, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  its.mode = First(*descriptor, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CONVOLUTION);
  spatial = static_cast<int>(before.size());
  return before == Numbers(*descriptor, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) &&
         Store(before, 0, its.pads) &&
         Store(Numbers(*descriptor, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), 1, its.strides) &&
         Store(Numbers(*descriptor, CUDNN_ATTR_CONVOLUTION_DILATIONS), 1, its.dilations);
}

// Returns a scale, which programs set as float or as double.
std::optional<double> ReadScale(const Recorded& operation, Name name) {
  const RecordedAttribute* const scale = operation.Find(name);
  if (scale == nullptr) return std::nullopt;
  if (scale->type == CUDNN_TYPE_DOUBLE) return scale->First(0.0);
  return static_cast<double>(scale->First(0.0F));
}

}  // namespace

std::optional<GraphConvolution> ReadGraph(const Recorded& graph) {
  const RecordedRef operation = graph.Child(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operation == nullptr ||
      !HasOnly(graph, {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_HANDLE})) {
    return std::nullopt;
  }
  const auto names = std::ranges::find(kOperations, operation->type, &Operation::type);
  if (names == kOperations.end() ||
      !HasOnly(*operation,
               {names->alpha, names->beta, names->convolution, names->x, names->w, names->y})) {
    return std::nullopt;
  }
  const std::optional<GraphTensor> x = ReadGraphTensor(operation->Child(names->x));
  const std::optional<GraphTensor> w = ReadGraphTensor(operation->Child(names->w));
  const std::optional<GraphTensor> y = ReadGraphTensor(operation->Child(names->y));
  const std::optional<double> alpha = ReadScale(*operation, names->alpha);
  const std::optional<double> beta = ReadScale(*operation, names->beta);
  if (!x.has_value() || !w.has_value() || !y.has_value() || !alpha.has_value() ||
      !beta.has_value()) {
    return std::nullopt;
  }
  Convolution its;
  its.pass = static_cast<Pass>(names - kOperations.begin());
  its.source = Convolution::Source::kEngines;
  its.dimensions = x->dimensions;
  its.x = x->tensor;
  its.y = y->tensor;
  its.filter_type = w->tensor.type;
  its.filter_sizes = w->tensor.sizes;
  int spatial = 0;
  if (!ReadArithmetic(operation->Child(names->convolution), its, spatial) ||
      !its.IsDivided(y->dimensions, w->dimensions, spatial) || !HasFormat(*w, its) ||
      its.x.sizes[1] % its.filter_sizes[1] != 0) {
    return std::nullopt;
  }
  // Groups follow from the channels.
  its.groups = its.x.sizes[1] / its.filter_sizes[1];
  const std::int64_t most = Convolution::kEngineAlignment;
  its.alignment = static_cast<int>(
      std::gcd(std::gcd(most, x->alignment), std::gcd(w->alignment, y->alignment)));
  return GraphConvolution{its, {*alpha, *beta}, x->id, w->id, y->id};
}

}  // namespace tidepool::cudnn
