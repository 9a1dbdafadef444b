// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/recorded.h"

#include <algorithm>
#include <utility>

namespace tidepool::cudnn {
namespace {

// CUDNN_TYPE_NAN_PROPOGATION, a name that newer versions of cuDNN warn of.
constexpr auto kNanPropagation = static_cast<cudnnBackendAttributeType_t>(10);

// Returns the bytes of an element; 0 for a type that no convolution and no pointwise operation has.
std::size_t BytesOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_KNOB_TYPE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case kNanPropagation:
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

// Descriptors are at least 16 bytes, so the lowest bits of their addresses say nothing.
RecordedDescriptors::Shard& RecordedDescriptors::ShardOf(cudnnBackendDescriptor_t address) const {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  return shards_[((bits >> 4) ^ (bits >> 8)) % kShards];
}

void RecordedDescriptors::Add(cudnnBackendDescriptor_t address, cudnnBackendDescriptorType_t type) {
  Shard& shard = ShardOf(address);
  const locks::MutexLock lock(&shard.mutex);
  RecordedRef& its = shard.all[address];
  if (shard.spare.empty()) {
    its = std::make_shared<Recorded>();
  } else {
    its = std::move(shard.spare.back());
    shard.spare.pop_back();
  }
  its->address = address;
  its->type = type;
}

void RecordedDescriptors::Remove(cudnnBackendDescriptor_t address) {
  RecordedRef gone;
  Shard& shard = ShardOf(address);
  const locks::MutexLock lock(&shard.mutex);
  const auto found = shard.all.find(address);
  if (found == shard.all.end()) return;
  gone = std::move(found->second);
  shard.all.erase(found);
  gone->address = nullptr;
  const bool is_ours = gone->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR && gone.use_count() == 1;
  if (!is_ours || shard.spare.size() == kMostSpare) return;
  gone->attributes.clear();
  shard.spare.push_back(std::move(gone));
}

RecordedRef RecordedDescriptors::Find(cudnnBackendDescriptor_t address) const {
  const Shard& shard = ShardOf(address);
  const locks::MutexLock lock(&shard.mutex);
  const auto found = shard.all.find(address);
  return found == shard.all.end() ? nullptr : found->second;
}

// A descriptor belongs to one thread until it is final, so only the search needs the lock.
void RecordedDescriptors::Set(cudnnBackendDescriptor_t address, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, std::int64_t count,
                              const void* elements) {
  const RecordedRef its = Find(address);
  if (its == nullptr) return;
  auto found = std::ranges::find(its->attributes, name, &RecordedAttribute::name);
  if (found == its->attributes.end()) found = its->attributes.emplace(found);
  found->name = name;
  found->type = type;
  found->count = count;
  found->bytes.clear();
  found->children.clear();
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* const children = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (std::int64_t i = 0; i < count; ++i) found->children.push_back(Find(children[i]));
  } else {
    const auto* const raw = static_cast<const std::byte*>(elements);
    found->bytes.assign(raw, raw + static_cast<std::size_t>(count) * BytesOf(type));
  }
}

}  // namespace tidepool::cudnn
