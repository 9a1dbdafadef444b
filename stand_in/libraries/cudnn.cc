// SPDX-License-Identifier: Apache-2.0
// cuDNN 9. The sizes are guesses, so the memory of convolutions is not that of a GPU. Tensors
// and recurrent layers are in cudnn_rnn.cc.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "stand_in/libraries/answers.h"

namespace {

using tidepool::cudart_host::DeleteObject;
using tidepool::cudart_host::MakeObject;

// Bytes. Hardly any tensor has this size, so workspaces can be told from tensors in a recording.
constexpr std::int64_t kConvolutionWorkspace = (8 << 20) - 256;
constexpr std::size_t kNormalizationWorkspace = 1 << 20;
constexpr std::size_t kReserve = 1 << 16;

// Names and types of cudnn_graph.h: attributes of descriptors of the backend.
constexpr int kHeuristicResults = 202;  // CUDNN_ATTR_ENGINEHEUR_RESULTS
constexpr int kPlanWorkspace = 402;     // CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE
constexpr int kNumber = 3;              // CUDNN_TYPE_INT64

// Returns 10000 times the major, plus 100 times the minor, plus the patch number. PyTorch refuses a
// library that is older than the one that it was built for.
int Version() {
  static const int version = [] {
    const char* const text = std::getenv("CUDART_HOST_CUDNN");
    const int number = text != nullptr ? std::atoi(text) : 0;
    return number > 0 ? number : 99900;
  }();
  return version;
}

std::atomic<long long> workspaces_asked_for = 0;

int Store(std::size_t* place, std::size_t bytes) {
  *place = bytes;
  return 0;
}

}  // namespace

TIDEPOOL_ANSWER std::size_t cudnnGetVersion() { return static_cast<std::size_t>(Version()); }
TIDEPOOL_ANSWER std::size_t cudnnGetCudartVersion() {
  return static_cast<std::size_t>(tidepool::cudart_host::CudaMajor()) * 1000;
}
TIDEPOOL_ANSWER int cudnnGetProperty(int type, int* value) {
  const int parts[] = {Version() / 10000, Version() / 100 % 100, Version() % 100};
  *value = type >= 0 && type < 3 ? parts[type] : 0;
  return 0;
}
TIDEPOOL_ANSWER const char* cudnnGetErrorString(int /*status*/) {
  return tidepool::cudart_host::kNoWords;
}

// Objects
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cudnnCreate(void** made) { return MakeObject(made); }
TIDEPOOL_ANSWER int cudnnDestroy(void* object) { return DeleteObject(object); }
TIDEPOOL_ANSWER int cudnnBackendCreateDescriptor(int /*type*/, void** made) {
  return MakeObject(made);
}
TIDEPOOL_ANSWER int cudnnBackendDestroyDescriptor(void* object) { return DeleteObject(object); }

#define TIDEPOOL_DESCRIPTOR(Name)                                                             \
  TIDEPOOL_ANSWER int cudnnCreate##Name##Descriptor(void** made) { return MakeObject(made); } \
  TIDEPOOL_ANSWER int cudnnDestroy##Name##Descriptor(void* object) { return DeleteObject(object); }

TIDEPOOL_DESCRIPTOR(Activation)
TIDEPOOL_DESCRIPTOR(CTCLoss)
TIDEPOOL_DESCRIPTOR(Convolution)
TIDEPOOL_DESCRIPTOR(Dropout)
TIDEPOOL_DESCRIPTOR(Filter)
TIDEPOOL_DESCRIPTOR(Pooling)
TIDEPOOL_DESCRIPTOR(SpatialTransformer)

// Returns how often a program asked for the workspace of a convolution.
TIDEPOOL_ANSWER long long tidepoolConvolutionWorkspaces() { return workspaces_asked_for.load(); }

// Sizes
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cudnnBackendGetAttribute(void* /*object*/, int name, int type,
                                             std::int64_t wanted, std::int64_t* count,
                                             void* values) {
  if (name == kPlanWorkspace) workspaces_asked_for.fetch_add(1);
  const bool is_number = type == kNumber && values != nullptr && wanted > 0;
  if (is_number) {
    *static_cast<std::int64_t*>(values) = name == kPlanWorkspace ? kConvolutionWorkspace : 0;
  }
  if (count != nullptr) *count = name == kHeuristicResults || is_number ? 1 : 0;
  return 0;
}

TIDEPOOL_ANSWER int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    void* /*handle*/, int /*mode*/, int /*operations*/, void* /*x*/, void* /*z*/, void* /*y*/,
    void* /*scale*/, void* /*activation*/, std::size_t* bytes) {
  return Store(bytes, kNormalizationWorkspace);
}
TIDEPOOL_ANSWER int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    void* /*handle*/, int /*mode*/, int /*operations*/, void* /*activation*/, void* /*x*/,
    std::size_t* bytes) {
  return Store(bytes, kReserve);
}
TIDEPOOL_ANSWER int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    void* /*handle*/, int /*mode*/, int /*operations*/, void* /*x*/, void* /*y*/, void* /*dy*/,
    void* /*dz*/, void* /*dx*/, void* /*scale*/, void* /*activation*/, std::size_t* bytes) {
  return Store(bytes, kNormalizationWorkspace);
}

TIDEPOOL_ANSWER int cudnnDropoutGetStatesSize(void* /*handle*/, std::size_t* bytes) {
  return Store(bytes, kReserve);
}
