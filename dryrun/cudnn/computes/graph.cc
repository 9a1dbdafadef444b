// SPDX-License-Identifier: Apache-2.0
#include "dryrun/cudnn/computes/graph.h"

#include <algorithm>
#include <array>
#include <set>

namespace tidepool::cudart_host {
namespace {

bool ToInts(const std::vector<std::int64_t>& numbers, std::array<int, CUDNN_DIM_MAX>& ints) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i == CUDNN_DIM_MAX || numbers[i] < 0 || numbers[i] > INT32_MAX) return false;
    ints[i] = static_cast<int>(numbers[i]);
  }
  return true;
}

// Reads a tensor as a descriptor of the other interface.
bool Read(const BackendObject* object, cudnnTensorStruct& tensor) {
  if (object == nullptr || object->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return false;
  const auto sizes = object->All<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = object->All<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.type = object->Get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.dimensions = static_cast<int>(sizes.size());
  return sizes.size() >= 3 && sizes.size() == strides.size() && ToInts(sizes, tensor.sizes) &&
         ToInts(strides, tensor.strides);
}

bool Read(const BackendObject* object, cudnnConvolutionStruct& convolution) {
  if (object == nullptr || object->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) return false;
  const auto numbers = [&](cudnnBackendAttributeName_t name) {
    return object->All<std::int64_t>(name);
  };
  convolution.dimensions =
      static_cast<int>(object->Get<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0));
  convolution.mode = object->Get(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.compute_type = object->Get(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  return numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) ==
             numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) &&
         ToInts(numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), convolution.pads) &&
         ToInts(numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), convolution.strides) &&
         ToInts(numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS), convolution.dilations);
}

// Returns a scale, which programs set as float or as double.
double Scale(const BackendObject& operation, cudnnBackendAttributeName_t name) {
  const auto found = operation.attributes.find(name);
  if (found != operation.attributes.end() && found->second.type == CUDNN_TYPE_DOUBLE) {
    return operation.Get(name, 0.0);
  }
  return static_cast<double>(operation.Get(name, 0.0F));
}

// Returns a tensor with a shape that was read already.
GraphTensor TensorOf(const BackendObject& tensor, const TensorShape& shape) {
  return {shape, tensor.Get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0),
          tensor.Get(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false)};
}

std::optional<GraphTensor> TensorOf(const BackendObject* object) {
  cudnnTensorStruct tensor;
  if (!Read(object, tensor) || tensor.dimensions > 5) return std::nullopt;
  return TensorOf(*object, ShapeOfTensor(tensor.type, tensor.dimensions, tensor.sizes.data(),
                                         tensor.strides.data()));
}

// Adds the operations after the convolution. Returns false where one reads a virtual tensor that no
// other has written.
bool AddPointwise(const std::vector<BackendRef>& operations, GraphConvolution& its) {
  std::set<std::int64_t> written = {its.output().id};
  for (const GraphTensor& tensor : {its.x, its.w, its.y}) {
    if (tensor.is_virtual && !written.contains(tensor.id)) return false;
  }
  for (std::size_t i = 1; i < operations.size(); ++i) {
    const std::optional<Pointwise> operation = PointwiseOfOperation(*operations[i]);
    if (!operation.has_value()) return false;
    const auto is_there = [&](const GraphTensor& tensor) {
      return !tensor.is_virtual || written.contains(tensor.id);
    };
    if (!is_there(operation->x) || (operation->b.has_value() && !is_there(*operation->b)) ||
        !written.insert(operation->y.id).second) {
      return false;
    }
    its.pointwise.push_back(*operation);
  }
  return !its.output().is_virtual || !its.pointwise.empty();
}

cudnnMathType_t MathOf(const BackendObject& configuration) {
  const BackendObject* const knob = configuration.Child(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  const bool has_cores =
      knob != nullptr && knob->Get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 0) == 1;
  return has_cores ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH;
}

}  // namespace

std::optional<GraphConvolution> ConvolutionOfOperation(const BackendObject& operation) {
  const OperationNames* const names = NamesOf(operation.type);
  if (names == nullptr) return std::nullopt;
  const BackendObject* const x = operation.Child(names->x);
  const BackendObject* const w = operation.Child(names->w);
  const BackendObject* const y = operation.Child(names->y);
  cudnnTensorStruct x_tensor;
  cudnnTensorStruct w_tensor;
  cudnnTensorStruct y_tensor;
  cudnnConvolutionStruct convolution;
  if (!Read(x, x_tensor) || !Read(w, w_tensor) || !Read(y, y_tensor) ||
      !Read(operation.Child(names->convolution), convolution)) {
    return std::nullopt;
  }
  // Groups follow from the channels.
  if (w_tensor.sizes[1] < 1 || x_tensor.sizes[1] % w_tensor.sizes[1] != 0) return std::nullopt;
  convolution.groups = x_tensor.sizes[1] / w_tensor.sizes[1];
  cudnnFilterStruct filter;
  filter.type = w_tensor.type;
  filter.dimensions = w_tensor.dimensions;
  filter.sizes = w_tensor.sizes;
  const auto shape = ShapeOf({&x_tensor, &filter, &y_tensor, &convolution});
  if (!shape.has_value()) return std::nullopt;
  GraphConvolution its = {names->pass,
                          *shape,
                          Scale(operation, names->alpha),
                          Scale(operation, names->beta),
                          TensorOf(*x, shape->x),
                          TensorOf(*w, shape->w),
                          TensorOf(*y, shape->y)};
  // The filter has strides of its own here. Dimensions without use come first.
  const int unused = 5 - w_tensor.dimensions;
  for (int i = 0; i < w_tensor.dimensions; ++i) {
    const int at = i < 2 ? i : i + unused;
    its.shape.w.strides[static_cast<std::size_t>(at)] =
        w_tensor.strides[static_cast<std::size_t>(i)];
  }
  its.w.shape = its.shape.w;
  return its;
}

std::optional<Pointwise> PointwiseOfOperation(const BackendObject& operation) {
  const BackendObject* const settings =
      operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const BackendObject* const b = operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  const auto x = TensorOf(operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  const auto y = TensorOf(operation.Child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  if (settings == nullptr || !x.has_value() || !y.has_value()) return std::nullopt;
  Pointwise its;
  its.mode = settings->Get(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
  its.least = settings->Get(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, its.least);
  its.most = settings->Get(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, its.most);
  if (operation.Has(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1)) {
    its.alpha1 = Scale(operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1);
  }
  if (operation.Has(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2)) {
    its.alpha2 = Scale(operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2);
  }
  its.x = *x;
  its.y = *y;
  if (b != nullptr) its.b = TensorOf(b);
  if ((b != nullptr && !its.b.has_value()) || !IsSupported(its)) return std::nullopt;
  return its;
}

std::optional<GraphConvolution> ConvolutionOf(const BackendObject& object) {
  switch (object.type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      const auto found = object.attributes.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
      if (found == object.attributes.end()) return std::nullopt;
      const std::vector<BackendRef>& operations = found->second.children;
      auto its = ConvolutionOfOperation(*operations.front());
      if (its.has_value() && !AddPointwise(operations, *its)) its.reset();
      return its;
    }
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      break;
    default:
      return std::nullopt;
  }
  for (const cudnnBackendAttributeName_t name :
       {CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_ATTR_ENGINECFG_ENGINE,
        CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG}) {
    if (const BackendObject* const child = object.Child(name)) return ConvolutionOf(*child);
  }
  return std::nullopt;
}

std::optional<AlgorithmCost> CostOfConfiguration(const BackendObject& configuration) {
  const BackendObject* const engine = configuration.Child(CUDNN_ATTR_ENGINECFG_ENGINE);
  const std::optional<GraphConvolution> its = ConvolutionOf(configuration);
  if (engine == nullptr || !its.has_value()) return std::nullopt;
  const auto index = engine->Get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
  for (const AlgorithmCost& cost : CostsOf(its->pass, its->shape)) {
    if (cost.algorithm == index && cost.math == MathOf(configuration)) return cost;
  }
  return std::nullopt;
}

std::vector<cudnnBackendNumericalNote_t> NotesOf(Pass pass, const AlgorithmCost& cost) {
  constexpr std::array<std::array<int, 2>, 3> kFfts = {{{4, 5}, {2, 3}, {2, 6}}};       // by pass
  constexpr std::array<std::array<int, 2>, 3> kWinograds = {{{6, 7}, {4, 5}, {4, 5}}};  // by pass
  const auto is_in = [&](const std::array<std::array<int, 2>, 3>& numbers) {
    const std::array<int, 2>& of = numbers[static_cast<std::size_t>(pass)];
    return std::find(of.begin(), of.end(), cost.algorithm) != of.end();
  };
  std::vector<cudnnBackendNumericalNote_t> notes;
  if (cost.math == CUDNN_TENSOR_OP_MATH) notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  if (is_in(kFfts)) notes.push_back(CUDNN_NUMERICAL_NOTE_FFT);
  if (!cost.is_deterministic) notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  if (is_in(kWinograds)) notes.push_back(CUDNN_NUMERICAL_NOTE_WINOGRAD);
  return notes;
}

}  // namespace tidepool::cudart_host
