// SPDX-License-Identifier: Apache-2.0
// Descriptors of cuDNN's graph interface, and the convolutions that they describe.
#ifndef TIDEPOOL_DRYRUN_CUDNN_BACKEND_H_
#define TIDEPOOL_DRYRUN_CUDNN_BACKEND_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dryrun/cudnn/algorithms.h"
#include "dryrun/cudnn/pointwise.h"
#include "dryrun/cudnn/shape.h"

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

// A graph's convolution, and the operations on its output.
struct GraphConvolution {
  Pass pass = Pass::kForward;
  ConvolutionShape shape;
  double alpha = 1;
  double beta = 0;
  GraphTensor x;
  GraphTensor w;
  GraphTensor y;
  std::vector<Pointwise> pointwise = {};

  const GraphTensor& output() const {
    return pass == Pass::kForward ? y : pass == Pass::kData ? x : w;
  }
};

// Returns the convolution of an operation, or nothing where its descriptors do not suit each other.
// Paddings before and after must be equal.
std::optional<GraphConvolution> ConvolutionOfOperation(const BackendObject& operation);

// Returns a pointwise operation, or nothing where it is not supported.
std::optional<Pointwise> PointwiseOfOperation(const BackendObject& operation);

// Returns the convolution of a graph, engine, engine configuration or plan. Nothing for other
// graphs: the convolution comes first, and pointwise operations use its output and each other's.
std::optional<GraphConvolution> ConvolutionOf(const BackendObject& object);

// Returns the cost of the algorithm that an engine configuration names. The index of an engine is
// the number of cuDNN's algorithm; its only knob is the arithmetic.
std::optional<AlgorithmCost> CostOfConfiguration(const BackendObject& configuration);

// Returns the notes of an algorithm.
std::vector<cudnnBackendNumericalNote_t> NotesOf(Pass pass, const AlgorithmCost& cost);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_BACKEND_H_
