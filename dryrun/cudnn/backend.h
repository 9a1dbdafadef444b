// SPDX-License-Identifier: Apache-2.0
// Descriptors of cuDNN's graph interface: objects with attributes, which may be other objects.
#ifndef TIDEPOOL_DRYRUN_CUDNN_BACKEND_H_
#define TIDEPOOL_DRYRUN_CUDNN_BACKEND_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "dryrun/cudnn/descriptors.h"

namespace tidepool::cudart_host {

struct BackendObject;
using BackendRef = std::shared_ptr<BackendObject>;

struct BackendAttribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;      // of the elements, unless they are descriptors
  std::vector<BackendRef> children;  // CUDNN_TYPE_BACKEND_DESCRIPTOR
};

// The content of a descriptor. It lives as long as a descriptor or another content refers to it:
// programs may destroy descriptors once others were made of them.
struct BackendObject {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool is_final = false;
  std::map<cudnnBackendAttributeName_t, BackendAttribute> attributes;

  bool Has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  // Returns the first element, or `other` for an attribute that was not set.
  template <typename Element>
  Element Get(cudnnBackendAttributeName_t name, Element other) const {
    const auto found = attributes.find(name);
    if (found == attributes.end() || found->second.bytes.size() < sizeof(Element)) return other;
    Element element;
    std::memcpy(&element, found->second.bytes.data(), sizeof element);
    return element;
  }
  // Returns all elements of an attribute, none if it was not set.
  template <typename Element>
  std::vector<Element> All(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<Element> elements(found->second.bytes.size() / sizeof(Element));
    if (elements.empty()) return elements;
    std::memcpy(elements.data(), found->second.bytes.data(), elements.size() * sizeof(Element));
    return elements;
  }
  // Returns the first descriptor of an attribute, or null.
  const BackendObject* Child(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() || found->second.children.empty()
               ? nullptr
               : found->second.children.front().get();
  }
};

// The object that a program's descriptor points to.
struct BackendHandle {
  BackendRef object;
};

inline const BackendRef* ObjectOf(cudnnBackendDescriptor_t descriptor) {
  return descriptor == nullptr ? nullptr : &static_cast<BackendHandle*>(descriptor)->object;
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
BackendAttribute AttributeOf(const std::vector<BackendRef>& children);

// Makes a descriptor that is final: one that the library gives to the program.
BackendRef MakeFinal(cudnnBackendDescriptorType_t type);

// Returns an engine of a graph, by its number.
BackendRef MakeEngine(const BackendRef& graph, std::int64_t number);

// The attributes of the operation for a pass.
struct OperationNames {
  Pass pass;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};

// Returns the attributes of a convolution, or null for another operation.
const OperationNames* NamesOf(cudnnBackendDescriptorType_t operation);

// Returns the pointer of a tensor in a variant pack, or null.
void* PointerOf(const BackendObject& pack, std::int64_t id);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_BACKEND_H_
