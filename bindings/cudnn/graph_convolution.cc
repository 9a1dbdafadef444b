// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/graph_convolution.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "bindings/cudnn/fusion.h"
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
  bool is_virtual = false;
};

std::optional<GraphTensor> ReadGraphTensor(const RecordedRef& descriptor) {
  if (descriptor == nullptr || descriptor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR ||
      !HasOnly(*descriptor, {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS,
                             CUDNN_ATTR_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_UNIQUE_ID,
                             CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_ATTR_TENSOR_IS_VIRTUAL})) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> sizes = Numbers(*descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS);
  const std::vector<std::int64_t> strides = Numbers(*descriptor, CUDNN_ATTR_TENSOR_STRIDES);
  GraphTensor its;
  its.tensor.type = First(*descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  its.id = First<std::int64_t>(*descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  its.alignment = First<std::int64_t>(*descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
  its.dimensions = static_cast<int>(sizes.size());
  its.is_virtual = First(*descriptor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
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

// Reads the operations after a convolution.
class FusionReader {
 public:
  explicit FusionReader(const Convolution& convolution) : its_(convolution) {}

  // Adds a tensor of the convolution, or another one. Returns false where it cannot be divided.
  bool AddTensor(const GraphTensor& tensor) {
    if (!numbers_.try_emplace(tensor.id, ids_.size()).second) return false;
    ids_.push_back(tensor.is_virtual ? std::nullopt : std::optional(tensor.id));
    if (!tensor.is_virtual) alignment_ = std::gcd(alignment_, tensor.alignment);
    if (ids_.size() <= kFirstFusedTensor) return true;
    FusedTensor fused = {tensor.tensor, tensor.tensor.sizes[0] == its_.batch(), tensor.is_virtual};
    const bool is_divided = tensor.dimensions == its_.dimensions &&
                            (fused.has_batch || tensor.tensor.sizes[0] == 1) &&
                            (tensor.is_virtual || Convolution::HasKnownType(tensor.tensor));
    fused.its.sizes[0] = 1;
    fusion_.tensors.push_back(fused);
    return is_divided && fusion_.tensors.size() <= kMostFusedTensors;
  }

  bool AddOperation(const Recorded& operation) {
    const RecordedRef settings = operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    FusedOperation made;
    if (operation.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || settings == nullptr ||
        !IsElementwise(*settings) || !CopyAll(*settings, made.settings)) {
      return false;
    }
    // Backward operations read y, and write dx.
    const Name output = operation.Find(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC) != nullptr
                            ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC
                            : CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
    for (const RecordedAttribute& attribute : operation.attributes) {
      if (attribute.name == CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR) continue;
      if (attribute.type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        if (attribute.name == output) continue;
        if (!AddInput(operation, attribute.name, made)) return false;
      } else if (!Copy(attribute, made.scales)) {
        return false;
      }
    }
    return AddOutput(operation, output, made);
  }

  // Returns the number of the operations.
  std::int64_t Finish(bool keeps_output) {
    fusion_.keeps_output = keeps_output;
    return NumberOf(fusion_, its_.dimensions);
  }
  std::int64_t alignment() const { return alignment_; }
  const std::vector<std::optional<std::int64_t>>& ids() const { return ids_; }

 private:
  // An index counts from a micro-batch's first sample.
  static bool IsElementwise(const Recorded& settings) {
    const auto mode = First(settings, CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
    return settings.type == CUDNN_BACKEND_POINTWISE_DESCRIPTOR &&
           (mode < CUDNN_POINTWISE_GEN_INDEX || mode == CUDNN_POINTWISE_BINARY_SELECT);
  }
  // Fails for attributes of types that are not known.
  static bool Copy(const RecordedAttribute& from, std::vector<FixedAttribute>& to) {
    to.push_back({from.name, from.type, from.count, {from.bytes.begin(), from.bytes.end()}});
    return !from.bytes.empty();
  }
  static bool CopyAll(const Recorded& from, std::vector<FixedAttribute>& to) {
    return std::ranges::all_of(from.attributes,
                               [&](const RecordedAttribute& its) { return Copy(its, to); });
  }

  // A virtual input was written by an operation before.
  bool AddInput(const Recorded& operation, Name name, FusedOperation& made) {
    const std::optional<GraphTensor> tensor = ReadGraphTensor(operation.Child(name));
    if (!tensor.has_value()) return false;
    if (!numbers_.contains(tensor->id) && (tensor->is_virtual || !AddTensor(*tensor))) return false;
    // A filter has no batch, though its first size may be equal.
    const std::size_t number = numbers_[tensor->id];
    if (number == kFilterNumber) return false;
    made.tensors.emplace_back(name, number);
    return true;
  }
  // All outputs have the batch: each micro-batch writes its own samples.
  bool AddOutput(const Recorded& operation, Name name, FusedOperation& made) {
    const std::optional<GraphTensor> tensor = ReadGraphTensor(operation.Child(name));
    if (!tensor.has_value() || !AddTensor(*tensor) || !fusion_.tensors.back().has_batch) {
      return false;
    }
    made.tensors.emplace_back(name, numbers_[tensor->id]);
    fusion_.operations.push_back(std::move(made));
    return true;
  }

  static constexpr std::size_t kFilterNumber = 1;

  const Convolution& its_;
  Fusion fusion_;
  std::map<std::int64_t, std::size_t> numbers_;  // by the program's unique ids
  std::vector<std::optional<std::int64_t>> ids_;
  std::int64_t alignment_ = Convolution::kEngineAlignment;
};

// Reads the operations after the first one into a convolution. Returns the program's ids of the
// tensors by their numbers.
std::optional<std::vector<std::optional<std::int64_t>>> ReadFusion(
    const std::array<GraphTensor, 3>& tensors, const std::vector<RecordedRef>& operations,
    Convolution& its) {
  const bool is_fused = operations.size() > 1;
  if (is_fused && its.pass == Pass::kFilter) return std::nullopt;
  FusionReader reader(its);
  const std::size_t output = its.pass == Pass::kForward ? 2 : its.pass == Pass::kData ? 0 : 1;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool may_be_virtual = is_fused && i == output;
    if ((tensors[i].is_virtual && !may_be_virtual) || !reader.AddTensor(tensors[i])) {
      return std::nullopt;
    }
  }
  for (std::size_t i = 1; i < operations.size(); ++i) {
    if (!reader.AddOperation(*operations[i])) return std::nullopt;
  }
  its.alignment = static_cast<int>(reader.alignment());
  if (is_fused) its.fusion = reader.Finish(!tensors[output].is_virtual);
  return reader.ids();
}

}  // namespace

std::optional<GraphConvolution> ReadGraph(const Recorded& graph) {
  const RecordedAttribute* const operations = graph.Find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations == nullptr || operations->children.empty() ||
      std::ranges::find(operations->children, nullptr) != operations->children.end() ||
      !HasOnly(graph, {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_HANDLE})) {
    return std::nullopt;
  }
  const RecordedRef& operation = operations->children.front();
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
  const auto ids = ReadFusion({*x, *w, *y}, operations->children, its);
  if (!ids.has_value()) return std::nullopt;
  return GraphConvolution{its, {*alpha, *beta}, *ids};
}

}  // namespace tidepool::cudnn
