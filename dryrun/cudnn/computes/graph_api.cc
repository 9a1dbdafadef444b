// SPDX-License-Identifier: Apache-2.0
// The part of cuDNN's graph interface that this library has alone (library.h).
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dryrun/cudnn/computes/convolution_work.h"
#include "dryrun/cudnn/computes/graph.h"
#include "dryrun/cudnn/library.h"

namespace tidepool::cudart_host {
namespace {

using Name = cudnnBackendAttributeName_t;

bool HasAll(const BackendObject& object, std::initializer_list<Name> names) {
  return std::ranges::all_of(names, [&](Name name) { return object.Has(name); });
}

// Returns the engine configuration of an algorithm for a graph.
BackendRef ConfigurationOf(const BackendRef& graph, const AlgorithmCost& cost) {
  const BackendRef engine = MakeEngine(graph, cost.algorithm);
  const BackendRef knob = MakeFinal(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  knob->attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE] =
      AttributeOf(CUDNN_TYPE_KNOB_TYPE, std::vector{CUDNN_KNOB_TYPE_TILE_SIZE});
  knob->attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE] = AttributeOf(
      CUDNN_TYPE_INT64, std::vector<std::int64_t>{cost.math == CUDNN_TENSOR_OP_MATH ? 1 : 0});
  BackendRef configuration = MakeFinal(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = AttributeOf({engine});
  configuration->attributes[CUDNN_ATTR_ENGINECFG_KNOB_CHOICES] = AttributeOf({knob});
  return configuration;
}

// Returns the configurations that a heuristic suggests, the fastest first. The fallback has those
// without a workspace.
BackendAttribute Suggestions(const BackendObject& heuristic) {
  const BackendRef graph =
      heuristic.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).children.front();
  const std::optional<GraphConvolution> its = ConvolutionOf(*graph);
  const bool is_fallback = heuristic.Get(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_INSTANT) ==
                           CUDNN_HEUR_MODE_FALLBACK;
  std::vector<BackendRef> configurations;
  if (its.has_value()) {
    for (const AlgorithmCost& cost : CostsOf(its->pass, its->shape)) {
      if (is_fallback && cost.workspace_bytes > 0) continue;
      configurations.push_back(ConfigurationOf(graph, cost));
    }
  }
  return AttributeOf(configurations);
}

// An engine has the notes of all its configurations.
BackendAttribute NotesOfEngine(const BackendObject& engine) {
  std::vector<cudnnBackendNumericalNote_t> notes;
  const std::optional<GraphConvolution> its = ConvolutionOf(engine);
  if (its.has_value()) {
    const auto index = engine.Get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
    for (const AlgorithmCost& cost : CostsOf(its->pass, its->shape)) {
      if (cost.algorithm != index) continue;
      const auto more = NotesOf(its->pass, cost);
      notes.insert(notes.end(), more.begin(), more.end());
    }
  }
  std::sort(notes.begin(), notes.end());
  notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
  return AttributeOf(CUDNN_TYPE_NUMERICAL_NOTE, notes);
}

BackendAttribute WorkspaceOfPlan(const BackendObject& plan) {
  const BackendObject* const configuration = plan.Child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const std::optional<AlgorithmCost> cost = CostOfConfiguration(*configuration);
  const std::size_t bytes = cost.has_value() ? cost->workspace_bytes : 0;
  return AttributeOf(CUDNN_TYPE_INT64, std::vector<std::int64_t>{static_cast<std::int64_t>(bytes)});
}

// Finds the data of a graph's tensors, and makes those of virtual ones. Returns false where a
// pointer is missing.
bool AddData(const BackendObject& pack, GraphConvolution& its, ConvolutionWork& work) {
  std::map<std::int64_t, void*> virtual_data;
  bool has_all = true;
  const auto add = [&](GraphTensor& tensor) {
    if (tensor.is_virtual) {
      void*& data = virtual_data[tensor.id];
      if (data == nullptr) {
        const std::int64_t bytes = ExtentOf(tensor.shape) * BytesOfNumber(tensor.shape.type);
        data = work.virtual_data.emplace_back(static_cast<std::size_t>(bytes)).data();
      }
      tensor.data = data;
    } else {
      tensor.data = PointerOf(pack, tensor.id);
    }
    has_all = has_all && tensor.data != nullptr;
  };
  for (GraphTensor* const tensor : {&its.x, &its.w, &its.y}) add(*tensor);
  for (Pointwise& operation : its.pointwise) {
    add(operation.x);
    add(operation.y);
    if (operation.b.has_value()) add(*operation.b);
  }
  work.x = its.x.data;
  work.w = its.w.data;
  work.y = its.y.data;
  work.pointwise = its.pointwise;
  return has_all;
}

}  // namespace

cudnnStatus_t CheckFinal(const BackendObject& object) {
  const auto required = [&](std::initializer_list<Name> names) {
    return HasAll(object, names) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
  };
  switch (object.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return required({CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_ATTR_TENSOR_DATA_TYPE,
                       CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES,
                       CUDNN_ATTR_TENSOR_UNIQUE_ID});
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return required({CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                       CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                       CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                       CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS});
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return required({CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC});
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      if (!HasAll(object,
                  {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                   CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC})) {
        return CUDNN_STATUS_BAD_PARAM;
      }
      return PointwiseOfOperation(object).has_value() ? CUDNN_STATUS_SUCCESS
                                                      : CUDNN_STATUS_NOT_SUPPORTED;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      if (!object.Has(CUDNN_ATTR_OPERATIONGRAPH_OPS)) return CUDNN_STATUS_BAD_PARAM;
      return ConvolutionOf(object).has_value() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    }
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return required({CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH});
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
      return required({CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE});
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      return required({CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_ATTR_ENGINE_OPERATION_GRAPH});
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      if (!object.Has(CUDNN_ATTR_ENGINECFG_ENGINE)) return CUDNN_STATUS_BAD_PARAM;
      return CostOfConfiguration(object).has_value() ? CUDNN_STATUS_SUCCESS
                                                     : CUDNN_STATUS_NOT_SUPPORTED;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return required({CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG});
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return required({CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS});
    default:
      return ConvolutionOfOperation(object).has_value() ? CUDNN_STATUS_SUCCESS
                                                        : CUDNN_STATUS_BAD_PARAM;
  }
}

std::optional<BackendAttribute> DerivedAttribute(const BackendObject& object, Name name) {
  if (object.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    return Suggestions(object);
  }
  if (object.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    return NotesOfEngine(object);
  }
  if (object.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    return WorkspaceOfPlan(object);
  }
  if (object.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR &&
      name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES && !object.Has(name)) {
    return AttributeOf({});
  }
  return std::nullopt;
}

cudnnStatus_t GiveUnknown(cudnnBackendAttributeType_t /*type*/, std::int64_t /*wanted*/,
                          std::int64_t* /*count*/, void* /*elements*/) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const BackendRef* const its_plan = ObjectOf(plan);
  const BackendRef* const its_pack = ObjectOf(pack);
  if (handle == nullptr || its_plan == nullptr || its_pack == nullptr || !(*its_plan)->is_final ||
      !(*its_pack)->is_final || (*its_plan)->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      (*its_pack)->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const BackendObject& configuration = *(*its_plan)->Child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  std::optional<GraphConvolution> its = ConvolutionOf(configuration);
  const std::optional<AlgorithmCost> cost = CostOfConfiguration(configuration);
  if (!its.has_value() || !cost.has_value()) return CUDNN_STATUS_NOT_SUPPORTED;
  auto work = std::make_unique<ConvolutionWork>();
  work->pass = its->pass;
  work->shape = its->shape;
  work->shape.math = cost->math;
  work->alpha = its->alpha;
  work->beta = its->beta;
  work->workspace = (*its_pack)->Get<char*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  // A variant pack says no size: the program promises the size that the plan told.
  work->workspace_bytes = work->workspace == nullptr ? 0 : cost->workspace_bytes;
  if (!AddData(**its_pack, *its, *work)) return CUDNN_STATUS_BAD_PARAM;
  return QueueConvolution(handle, cost->algorithm, std::move(work));
}

// The stand-in's engines have no native graphs.
cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t /*handle*/,
                                            cudnnBackendDescriptor_t /*plan*/,
                                            cudnnBackendDescriptor_t /*pack*/,
                                            cudaGraph_t /*graph*/) {
  const cudnnStatus_t status = EnterCudnn(__func__);
  return status != CUDNN_STATUS_SUCCESS ? status : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendUpdateCudaGraph(cudnnHandle_t /*handle*/,
                                          cudnnBackendDescriptor_t /*plan*/,
                                          cudnnBackendDescriptor_t /*pack*/,
                                          cudaGraph_t /*graph*/) {
  const cudnnStatus_t status = EnterCudnn(__func__);
  return status != CUDNN_STATUS_SUCCESS ? status : CUDNN_STATUS_NOT_SUPPORTED;
}

}  // extern "C"
