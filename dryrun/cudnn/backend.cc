// SPDX-License-Identifier: Apache-2.0
#include "dryrun/cudnn/backend.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dryrun/cudnn/library.h"

namespace tidepool::cudart_host {
namespace {

// Returns 0 for types that neither library reads: such elements are not kept.
std::size_t BytesOfElement(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_KNOB_TYPE:
    case CUDNN_TYPE_NAN_PROPOGATION:
    case CUDNN_TYPE_NUMERICAL_NOTE:
    case CUDNN_TYPE_POINTWISE_MODE:
      return 4;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
      return 8;
    default:
      return 0;
  }
}

// Returns an attribute that was set, or that follows from others.
std::optional<BackendAttribute> Find(const BackendObject& object,
                                     cudnnBackendAttributeName_t name) {
  if (auto derived = DerivedAttribute(object, name)) return derived;
  const auto found = object.attributes.find(name);
  return found == object.attributes.end() ? std::nullopt : std::optional(found->second);
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

}  // namespace

const OperationNames* NamesOf(cudnnBackendDescriptorType_t type) {
  static constexpr OperationNames kForward = {Pass::kForward,
                                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  static constexpr OperationNames kData = {Pass::kData,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  static constexpr OperationNames kFilter = {Pass::kFilter,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return &kForward;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return &kData;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return &kFilter;
    default:
      return nullptr;
  }
}

BackendAttribute AttributeOf(const std::vector<BackendRef>& children) {
  BackendAttribute attribute;
  attribute.type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  attribute.count = static_cast<std::int64_t>(children.size());
  attribute.children = children;
  return attribute;
}

BackendRef MakeFinal(cudnnBackendDescriptorType_t type) {
  auto made = std::make_shared<BackendObject>();
  made->type = type;
  made->is_final = true;
  return made;
}

BackendRef MakeEngine(const BackendRef& graph, std::int64_t number) {
  BackendRef engine = MakeFinal(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = AttributeOf({graph});
  engine->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] =
      AttributeOf(CUDNN_TYPE_INT64, std::vector<std::int64_t>{number});
  return engine;
}

void* PointerOf(const BackendObject& pack, std::int64_t id) {
  const auto ids = pack.All<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.All<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const auto found = std::find(ids.begin(), ids.end(), id);
  const auto at = static_cast<std::size_t>(found - ids.begin());
  return at < pointers.size() ? pointers[at] : nullptr;
}

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
  const cudnnStatus_t status = CheckFinal(**object);
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
  if (object == nullptr || (*object)->is_final || count < 0 || (count > 0 && elements == nullptr)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (count == 0) return CUDNN_STATUS_SUCCESS;
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
  if (!found.has_value()) return GiveUnknown(type, wanted, count, elements);
  if (found->type != type) return CUDNN_STATUS_BAD_PARAM;
  if (count != nullptr) {
    *count = elements == nullptr ? found->count : std::min<std::int64_t>(found->count, wanted);
  }
  return elements == nullptr ? CUDNN_STATUS_SUCCESS : Store(*found, wanted, elements);
}

}  // extern "C"
