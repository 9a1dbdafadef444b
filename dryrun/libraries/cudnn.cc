// SPDX-License-Identifier: Apache-2.0
// cuDNN 9: its version, its handles, tensors, and the layers without a file of their own. Sizes of
// persistent normalization are guesses.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "dryrun/libraries/answers.h"
#include "dryrun/libraries/cudnn_types.h"
#include "dryrun/libraries/gpu.h"

namespace {

using tidepool::cudart_host::DeleteObject;
using tidepool::cudart_host::MakeObject;
using tidepool::cudart_host::Run;
using tidepool::cudart_host::cudnn::BytesOf;
using tidepool::cudart_host::cudnn::Delete;
using tidepool::cudart_host::cudnn::Dropout;
using tidepool::cudart_host::cudnn::Handle;
using tidepool::cudart_host::cudnn::Make;
using tidepool::cudart_host::cudnn::Tensor;

constexpr std::size_t kNormalizationWorkspace = 1 << 20;  // bytes
constexpr std::size_t kReserve = 1 << 16;

// CUDNN_BATCHNORM_SPATIAL_PERSISTENT. On an H200 the other modes take neither workspace nor
// reserve.
bool IsPersistent(int mode) { return mode == 2; }

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

int Store(std::size_t* place, std::size_t bytes) {
  *place = bytes;
  return 0;
}

// Passes the time of a normalization that reads or writes a tensor `passes` times. It writes
// several arrays, so all memory becomes unknown.
int Normalize(const char* name, void* handle, const void* descriptor, int passes) {
  const auto& tensor = *static_cast<const Tensor*>(descriptor);
  double bytes = static_cast<double>(BytesOf(tensor.type));
  for (const int size : tensor.sizes) bytes *= size;
  Run(name, static_cast<Handle*>(handle)->stream, {.bytes = passes * bytes}, nullptr, 0);
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

TIDEPOOL_ANSWER int cudnnCreate(void** made) { return Make<Handle>(made); }
TIDEPOOL_ANSWER int cudnnDestroy(void* object) { return Delete<Handle>(object); }
TIDEPOOL_ANSWER int cudnnSetStream(void* object, void* stream) {
  static_cast<Handle*>(object)->stream = stream;
  return 0;
}
TIDEPOOL_ANSWER int cudnnGetStream(void* object, void** stream) {
  *stream = static_cast<Handle*>(object)->stream;
  return 0;
}

#define TIDEPOOL_DESCRIPTOR(Name)                                                             \
  TIDEPOOL_ANSWER int cudnnCreate##Name##Descriptor(void** made) { return MakeObject(made); } \
  TIDEPOOL_ANSWER int cudnnDestroy##Name##Descriptor(void* object) { return DeleteObject(object); }

TIDEPOOL_DESCRIPTOR(Activation)
TIDEPOOL_DESCRIPTOR(CTCLoss)
TIDEPOOL_DESCRIPTOR(Pooling)
TIDEPOOL_DESCRIPTOR(SpatialTransformer)

// Tensors
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cudnnCreateTensorDescriptor(void** made) { return Make<Tensor>(made); }
TIDEPOOL_ANSWER int cudnnDestroyTensorDescriptor(void* object) { return Delete<Tensor>(object); }
TIDEPOOL_ANSWER int cudnnSetTensorNdDescriptor(void* descriptor, int type, int count,
                                               const int* sizes, const int* strides) {
  *static_cast<Tensor*>(descriptor) = {type, {sizes, sizes + count}, {strides, strides + count}, 0};
  return 0;
}
TIDEPOOL_ANSWER int cudnnGetTensorNdDescriptor(void* descriptor, int most, int* type, int* count,
                                               int* sizes, int* strides) {
  const auto& tensor = *static_cast<const Tensor*>(descriptor);
  const auto stored = std::min<std::ptrdiff_t>(most, std::ssize(tensor.sizes));
  *type = tensor.type;
  *count = static_cast<int>(std::ssize(tensor.sizes));
  std::copy_n(tensor.sizes.begin(), stored, sizes);
  std::copy_n(tensor.strides.begin(), stored, strides);
  return 0;
}

// Normalization: the forward pass reads its input once for the mean and once more, the backward
// pass reads the input and the gradients twice.
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cudnnBatchNormalizationForwardTrainingEx(
    void* handle, int /*mode*/, int /*operations*/, void* /*alpha*/, void* /*beta*/, void* x,
    void* /*x_data*/, void* /*z*/, void* /*z_data*/, void* /*y*/, void* /*y_data*/,
    void* /*scales*/, void* /*scale*/, void* /*bias*/, double /*factor*/, void* /*mean*/,
    void* /*variance*/, double /*epsilon*/, void* /*saved_mean*/, void* /*saved_variance*/,
    void* /*activation*/, void* /*workspace*/, std::size_t /*bytes*/, void* /*reserve*/,
    std::size_t /*reserve_bytes*/) {
  return Normalize(__func__, handle, x, 3);
}
TIDEPOOL_ANSWER int cudnnBatchNormalizationForwardInference(
    void* handle, int /*mode*/, void* /*alpha*/, void* /*beta*/, void* x, void* /*x_data*/,
    void* /*y*/, void* /*y_data*/, void* /*scales*/, void* /*scale*/, void* /*bias*/,
    void* /*mean*/, void* /*variance*/, double /*epsilon*/) {
  return Normalize(__func__, handle, x, 2);
}
TIDEPOOL_ANSWER int cudnnBatchNormalizationBackwardEx(
    void* handle, int /*mode*/, int /*operations*/, void* /*alpha*/, void* /*beta*/,
    void* /*alpha_weights*/, void* /*beta_weights*/, void* x, void* /*x_data*/, void* /*y*/,
    void* /*y_data*/, void* /*dy*/, void* /*dy_data*/, void* /*dz*/, void* /*dz_data*/,
    void* /*dx*/, void* /*dx_data*/, void* /*scales*/, void* /*scale*/, void* /*bias*/,
    void* /*dscale*/, void* /*dbias*/, double /*epsilon*/, void* /*mean*/, void* /*variance*/,
    void* /*activation*/, void* /*workspace*/, std::size_t /*bytes*/, void* /*reserve*/,
    std::size_t /*reserve_bytes*/) {
  return Normalize(__func__, handle, x, 5);
}

// Dropout
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cudnnCreateDropoutDescriptor(void** made) { return Make<Dropout>(made); }
TIDEPOOL_ANSWER int cudnnDestroyDropoutDescriptor(void* object) { return Delete<Dropout>(object); }
TIDEPOOL_ANSWER int cudnnSetDropoutDescriptor(void* descriptor, void* /*handle*/, float rate,
                                              void* /*states*/, std::size_t /*bytes*/,
                                              std::uint64_t /*seed*/) {
  static_cast<Dropout*>(descriptor)->rate = rate;
  return 0;
}
TIDEPOOL_ANSWER int cudnnRestoreDropoutDescriptor(void* descriptor, void* /*handle*/, float rate,
                                                  void* /*states*/, std::size_t /*bytes*/,
                                                  std::uint64_t /*seed*/) {
  static_cast<Dropout*>(descriptor)->rate = rate;
  return 0;
}
// Each thread that the GPU can hold has a generator: 6,488,064 bytes on an H200.
TIDEPOOL_ANSWER int cudnnDropoutGetStatesSize(void* /*handle*/, std::size_t* bytes) {
  constexpr std::int64_t kGeneratorBytes = 24;
  const tidepool::cudart_host::Gpu& gpu = tidepool::cudart_host::AssumedGpu();
  return Store(bytes,
               static_cast<std::size_t>(gpu.multiprocessors * gpu.threads * kGeneratorBytes));
}

// Sizes
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    void* /*handle*/, int mode, int /*operations*/, void* /*x*/, void* /*z*/, void* /*y*/,
    void* /*scale*/, void* /*activation*/, std::size_t* bytes) {
  return Store(bytes, IsPersistent(mode) ? kNormalizationWorkspace : 0);
}
TIDEPOOL_ANSWER int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void* /*handle*/, int mode,
                                                                         int /*operations*/,
                                                                         void* /*activation*/,
                                                                         void* /*x*/,
                                                                         std::size_t* bytes) {
  return Store(bytes, IsPersistent(mode) ? kReserve : 0);
}
TIDEPOOL_ANSWER int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    void* /*handle*/, int mode, int /*operations*/, void* /*x*/, void* /*y*/, void* /*dy*/,
    void* /*dz*/, void* /*dx*/, void* /*scale*/, void* /*activation*/, std::size_t* bytes) {
  return Store(bytes, IsPersistent(mode) ? kNormalizationWorkspace : 0);
}
