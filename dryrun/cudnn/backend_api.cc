// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN's graph interface.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dryrun/cudnn/backend.h"
#include "dryrun/cudnn/convolution_work.h"
#include "dryrun/cudnn/objects.h"

namespace tidepool::cudart_host {
namespace {

using Name = cudnnBackendAttributeName_t;

// The object that a program's descriptor points to.
struct BackendHandle {
  BackendRef object;
};

const BackendRef* ObjectOf(cudnnBackendDescriptor_t descriptor) {
  return descriptor == nullptr ? nullptr : &static_cast<BackendHandle*>(descriptor)->object;
}

std::size_t BytesOfElement(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_KNOB_TYPE:
    case CUDNN_TYPE_NUMERICAL_NOTE:
    case CUDNN_TYPE_POINTWISE_MODE:
      return 4;
    default:
      return 8;
  }
}

bool HasAll(const BackendObject& object, std::initializer_list<Name> names) {
  return std::ranges::all_of(names, [&](Name name) { return object.Has(name); });
}

// Checks a descriptor that is to be final.
cudnnStatus_t Check(const BackendObject& object) {
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

template <typename Element>
BackendAttribute AttributeOf(cudnnBackendAttributeType_t type,
                             const std::vector<Element>& elements) {
  BackendAttribute attribute;
  attribute.type = type;
  attribute.count = static_cast<std::int64_t>(elements.size());
  const auto* const raw = reinterpret_cast<const std::byte*>(elements.data());
  attribute.bytes.assign(raw, raw + elements.size() * sizeof(Element));
  return attribute;
}

BackendAttribute AttributeOf(const std::vector<BackendRef>& children) {
  BackendAttribute attribute;
  attribute.type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  attribute.count = static_cast<std::int64_t>(children.size());
  attribute.children = children;
  return attribute;
}

BackendRef Final(cudnnBackendDescriptorType_t type) {
  auto made = std::make_shared<BackendObject>();
  made->type = type;
  made->is_final = true;
  return made;
}

// Returns the engine configuration of an algorithm for a graph.
BackendRef ConfigurationOf(const BackendRef& graph, const AlgorithmCost& cost) {
  const BackendRef engine = Final(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = AttributeOf({graph});
  engine->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] =
      AttributeOf(CUDNN_TYPE_INT64, std::vector<std::int64_t>{cost.algorithm});
  const BackendRef knob = Final(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  knob->attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE] =
      AttributeOf(CUDNN_TYPE_KNOB_TYPE, std::vector{CUDNN_KNOB_TYPE_TILE_SIZE});
  knob->attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE] = AttributeOf(
      CUDNN_TYPE_INT64, std::vector<std::int64_t>{cost.math == CUDNN_TENSOR_OP_MATH ? 1 : 0});
  BackendRef configuration = Final(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
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

// Returns an attribute of a final descriptor: one that was set, or one that follows.
std::optional<BackendAttribute> Find(const BackendObject& object, Name name) {
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
  const auto found = object.attributes.find(name);
  if (found == object.attributes.end()) return std::nullopt;
  return found->second;
}

// Stores elements. Descriptors are written into those that the program made for them.
cudnnStatus_t Store(const BackendAttribute& attribute, std::int64_t wanted, void* elements) {
  const std::int64_t count = std::min(wanted, attribute.count);
  if (attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const std::size_t bytes = static_cast<std::size_t>(count) * BytesOfElement(attribute.type);
    std::copy_n(attribute.bytes.begin(), bytes, static_cast<std::byte*>(elements));
    return CUDNN_STATUS_SUCCESS;
  }
  auto* const descriptors = static_cast<cudnnBackendDescriptor_t*>(elements);
  for (std::int64_t i = 0; i < count; ++i) {
    const BackendRef& child = attribute.children[static_cast<std::size_t>(i)];
    auto* const given = static_cast<BackendHandle*>(descriptors[i]);
    if (given == nullptr || given->object->type != child->type) return CUDNN_STATUS_BAD_PARAM;
    given->object = child;
  }
  return CUDNN_STATUS_SUCCESS;
}

// Returns the pointer of a tensor in a variant pack, or null.
void* PointerOf(const BackendObject& pack, std::int64_t id) {
  const auto ids = pack.All<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.All<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const auto found = std::find(ids.begin(), ids.end(), id);
  const auto at = static_cast<std::size_t>(found - ids.begin());
  return at < pointers.size() ? pointers[at] : nullptr;
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
        const std::int64_t bytes = ExtentOf(tensor.shape) * BytesOf(tensor.shape.type);
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
}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM;
  auto made = std::make_unique<BackendHandle>();
  made->object = std::make_shared<BackendObject>();
  made->object->type = type;
  *descriptor = made.release();
  CountLive(1);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = EnterCudnn(__func__);
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const std::unique_ptr<BackendHandle> gone(static_cast<BackendHandle*>(descriptor));
  CountLive(-1);
  return status;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const BackendRef* const object = ObjectOf(descriptor);
  if (object == nullptr || (*object)->is_final) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = Check(**object);
  (*object)->is_final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const BackendRef* const object = ObjectOf(descriptor);
  if (object == nullptr || (*object)->is_final || count < 1 || elements == nullptr) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  BackendAttribute attribute;
  attribute.type = type;
  attribute.count = count;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* const descriptors = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (int64_t i = 0; i < count; ++i) {
      const BackendRef* const child = ObjectOf(descriptors[i]);
      if (child == nullptr || !(*child)->is_final) return CUDNN_STATUS_BAD_PARAM;
      attribute.children.push_back(*child);
    }
  } else {
    const auto* const raw = static_cast<const std::byte*>(elements);
    attribute.bytes.assign(raw, raw + static_cast<std::size_t>(count) * BytesOfElement(type));
  }
  (*object)->attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t* count, void* elements) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const BackendRef* const object = ObjectOf(descriptor);
  if (object == nullptr || !(*object)->is_final || wanted < 0) return CUDNN_STATUS_BAD_PARAM;
  const std::optional<BackendAttribute> found = Find(**object, name);
  if (!found.has_value()) return CUDNN_STATUS_NOT_SUPPORTED;
  if (found->type != type) return CUDNN_STATUS_BAD_PARAM;
  if (count != nullptr) *count = found->count;
  return elements == nullptr ? CUDNN_STATUS_SUCCESS : Store(*found, wanted, elements);
}

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
