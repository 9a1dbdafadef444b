// SPDX-License-Identifier: Apache-2.0
// The descriptors of the graph interface as the program set them: cuDNN does not tell all that a
// plan came from.
#ifndef TIDEPOOL_BINDINGS_CUDNN_RECORDED_H_
#define TIDEPOOL_BINDINGS_CUDNN_RECORDED_H_

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudnn {

struct Recorded;
struct GraphPlan;
using RecordedRef = std::shared_ptr<Recorded>;

// An attribute: its elements, or the descriptors that it names.
struct RecordedAttribute {
  cudnnBackendAttributeName_t name = CUDNN_ATTR_TENSOR_DATA_TYPE;
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::int64_t count = 0;
  absl::InlinedVector<std::byte, 64> bytes = {};  // a pack of eight tensors takes no memory
  std::vector<RecordedRef> children = {};         // null: not recorded

  template <typename Element>
  std::size_t Count() const {
    return bytes.size() / sizeof(Element);
  }
  // Returns an element, or `other` where there are fewer.
  template <typename Element>
  Element At(std::size_t i, Element other) const {
    if (i < Count<Element>()) {
      std::memcpy(&other, bytes.data() + i * sizeof(Element), sizeof other);
    }
    return other;
  }
  template <typename Element>
  Element First(Element other) const {
    return At(0, other);
  }
  template <typename Element>
  std::vector<Element> All() const {
    std::vector<Element> elements(Count<Element>());
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = At(i, Element());
    return elements;
  }
};

// A descriptor. It lives as long as others name it: programs may destroy descriptors of which they
// made others. As cuDNN's own, it is used by one thread at a time until it is final.
struct Recorded {
  cudnnBackendDescriptor_t address = nullptr;  // null: destroyed
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  std::vector<RecordedAttribute> attributes;
  RecordedRef graph;                // of a descriptor that cuDNN filled
  std::shared_ptr<GraphPlan> plan;  // of a plan that was taken over

  // Returns an attribute, or null if it was not set.
  const RecordedAttribute* Find(cudnnBackendAttributeName_t name) const;
  // Returns the only descriptor of an attribute, or null.
  RecordedRef Child(cudnnBackendAttributeName_t name) const;
};

// Returns the operation graph that a plan, a configuration, an engine or a heuristic is of, or
// null.
RecordedRef GraphOf(const RecordedRef& descriptor);

// All descriptors of the process. Thread-safe. Programs make a variant pack for each call, so its
// record takes no memory of its own: those of destroyed packs are used again.
class RecordedDescriptors {
 public:
  static RecordedDescriptors& Get();

  void Add(cudnnBackendDescriptor_t address, cudnnBackendDescriptorType_t type);
  void Remove(cudnnBackendDescriptor_t address);
  // Returns null for a descriptor that is not known.
  RecordedRef Find(cudnnBackendDescriptor_t address) const;
  void Set(cudnnBackendDescriptor_t address, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, std::int64_t count, const void* elements);

 private:
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kMostSpare = 16;

  // Threads with descriptors of their own seldom meet.
  struct Shard {
    mutable locks::Mutex mutex;
    absl::flat_hash_map<cudnnBackendDescriptor_t, RecordedRef> all ABSL_GUARDED_BY(mutex);
    std::vector<RecordedRef> spare ABSL_GUARDED_BY(mutex);  // of destroyed packs
  };
  Shard& ShardOf(cudnnBackendDescriptor_t address) const;

  mutable std::array<Shard, kShards> shards_;
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_RECORDED_H_
