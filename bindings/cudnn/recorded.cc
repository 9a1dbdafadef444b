// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/recorded.h"

#include <algorithm>
#include <utility>

namespace tidepool::cudnn {
namespace {

// Returns the bytes of an element; 0 for a type that no convolution has.
std::size_t BytesOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_KNOB_TYPE:
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

}  // namespace

const RecordedAttribute* Recorded::Find(cudnnBackendAttributeName_t name) const {
  const auto found =
      std::find_if(attributes.begin(), attributes.end(),
                   [&](const RecordedAttribute& attribute) { return attribute.name == name; });
  return found == attributes.end() ? nullptr : &*found;
}

RecordedRef Recorded::Child(cudnnBackendAttributeName_t name) const {
  const RecordedAttribute* const attribute = Find(name);
  return attribute == nullptr || attribute->children.size() != 1 ? nullptr
                                                                 : attribute->children.front();
}

RecordedRef GraphOf(const RecordedRef& descriptor) {
  if (descriptor == nullptr || descriptor->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    return descriptor;
  }
  if (descriptor->graph != nullptr) return descriptor->graph;
  for (const cudnnBackendAttributeName_t name :
       {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_ATTR_ENGINECFG_ENGINE,
        CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH}) {
    if (const RecordedRef child = descriptor->Child(name); child != nullptr) return GraphOf(child);
  }
  return nullptr;
}

// Is never destroyed: programs call cuDNN until their very end.
RecordedDescriptors& RecordedDescriptors::Get() {
  static auto* const all = new RecordedDescriptors();
  return *all;
}

void RecordedDescriptors::Add(cudnnBackendDescriptor_t address, cudnnBackendDescriptorType_t type) {
  auto made = std::make_shared<Recorded>();
  made->address = address;
  made->type = type;
  made->attributes.reserve(4);  // of a variant pack, which programs make for each call
  const locks::MutexLock lock(&mutex_);
  all_[address] = std::move(made);
}

void RecordedDescriptors::Remove(cudnnBackendDescriptor_t address) {
  RecordedRef gone;
  const locks::MutexLock lock(&mutex_);
  const auto found = all_.find(address);
  if (found == all_.end()) return;
  gone = std::move(found->second);
  all_.erase(found);
  gone->address = nullptr;
}

RecordedRef RecordedDescriptors::Find(cudnnBackendDescriptor_t address) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = all_.find(address);
  return found == all_.end() ? nullptr : found->second;
}

void RecordedDescriptors::Set(cudnnBackendDescriptor_t address, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, std::int64_t count,
                              const void* elements) {
  const RecordedRef its = Find(address);
  if (its == nullptr) return;
  RecordedAttribute attribute = {name, type, count};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* const children = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (std::int64_t i = 0; i < count; ++i) attribute.children.push_back(Find(children[i]));
  } else {
    const auto* const raw = static_cast<const std::byte*>(elements);
    attribute.bytes.assign(raw, raw + static_cast<std::size_t>(count) * BytesOf(type));
  }
  std::erase_if(its->attributes,
                [&](const RecordedAttribute& other) { return other.name == name; });
  its->attributes.push_back(std::move(attribute));
}

}  // namespace tidepool::cudnn
