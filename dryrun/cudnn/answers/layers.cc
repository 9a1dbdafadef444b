// SPDX-License-Identifier: Apache-2.0
// The library itself, and the layers without a file of their own. Sizes of persistent normalization
// are guesses.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "dryrun/cudnn/descriptors.h"
#include "dryrun/libraries/answers.h"
#include "dryrun/libraries/gpu.h"

namespace tidepool::cudart_host {
namespace {

constexpr std::size_t kNormalizationWorkspace = 1 << 20;  // bytes
constexpr std::size_t kReserve = 1 << 16;

// On an H200 the other modes take neither workspace nor reserve.
bool IsPersistent(int mode) { return mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT; }

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

cudnnStatus_t Store(std::size_t* place, std::size_t bytes) {
  *place = bytes;
  return CUDNN_STATUS_SUCCESS;
}

// Passes the time of a normalization that reads or writes a tensor `passes` times. It writes
// several arrays, so all memory becomes unknown.
cudnnStatus_t Normalize(const char* name, cudnnHandle_t handle, cudnnTensorDescriptor_t tensor,
                        int passes) {
  auto bytes = static_cast<double>(BytesOfNumber(tensor->type));
  for (int i = 0; i < tensor->dimensions; ++i) bytes *= tensor->sizes[static_cast<std::size_t>(i)];
  Run(name, handle->stream, {.bytes = passes * bytes}, nullptr, 0);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t SetRate(cudnnDropoutDescriptor_t dropout, float rate) {
  dropout->rate = rate;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

// Nothing counts calls and objects.
cudnnStatus_t EnterCudnn(const char* /*function*/) { return CUDNN_STATUS_SUCCESS; }
void CountLive(long long /*change*/) {}

}  // namespace tidepool::cudart_host

using tidepool::cudart_host::IsPersistent;
using tidepool::cudart_host::kNormalizationWorkspace;
using tidepool::cudart_host::kReserve;
using tidepool::cudart_host::Normalize;
using tidepool::cudart_host::SetRate;
using tidepool::cudart_host::Store;
using tidepool::cudart_host::Version;

TIDEPOOL_ANSWER std::size_t cudnnGetVersion() { return static_cast<std::size_t>(Version()); }
TIDEPOOL_ANSWER std::size_t cudnnGetCudartVersion() {
  return static_cast<std::size_t>(tidepool::cudart_host::CudaMajor()) * 1000;
}
TIDEPOOL_ANSWER int cudnnGetProperty(int type, int* value) {
  const int parts[] = {Version() / 10000, Version() / 100 % 100, Version() % 100};
  *value = type >= 0 && type < 3 ? parts[type] : 0;
  return 0;
}

// Descriptors of layers without a size
// ------------------------------------------------------------------------------------------

#define TIDEPOOL_DESCRIPTOR(Name)                                    \
  TIDEPOOL_ANSWER int cudnnCreate##Name##Descriptor(void** made) {   \
    return tidepool::cudart_host::MakeObject(made);                  \
  }                                                                  \
  TIDEPOOL_ANSWER int cudnnDestroy##Name##Descriptor(void* object) { \
    return tidepool::cudart_host::DeleteObject(object);              \
  }

TIDEPOOL_DESCRIPTOR(SpatialTransformer)

// Normalization: the forward pass reads its input once for the mean and once more, the backward
// pass reads the input and the gradients twice.
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, int /*mode*/, int /*operations*/, void* /*alpha*/, void* /*beta*/,
    cudnnTensorDescriptor_t x, void* /*x_data*/, void* /*z*/, void* /*z_data*/, void* /*y*/,
    void* /*y_data*/, void* /*scales*/, void* /*scale*/, void* /*bias*/, double /*factor*/,
    void* /*mean*/, void* /*variance*/, double /*epsilon*/, void* /*saved_mean*/,
    void* /*saved_variance*/, void* /*activation*/, void* /*workspace*/, std::size_t /*bytes*/,
    void* /*reserve*/, std::size_t /*reserve_bytes*/) {
  return Normalize(__func__, handle, x, 3);
}
TIDEPOOL_ANSWER cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t /*mode*/, const void* /*alpha*/,
    const void* /*beta*/, cudnnTensorDescriptor_t x, const void* /*x_data*/,
    cudnnTensorDescriptor_t /*y*/, void* /*y_data*/, cudnnTensorDescriptor_t /*scales*/,
    const void* /*scale*/, const void* /*bias*/, const void* /*mean*/, const void* /*variance*/,
    double /*epsilon*/) {
  return Normalize(__func__, handle, x, 2);
}
TIDEPOOL_ANSWER cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, int /*mode*/, int /*operations*/, void* /*alpha*/, void* /*beta*/,
    void* /*alpha_weights*/, void* /*beta_weights*/, cudnnTensorDescriptor_t x, void* /*x_data*/,
    void* /*y*/, void* /*y_data*/, void* /*dy*/, void* /*dy_data*/, void* /*dz*/, void* /*dz_data*/,
    void* /*dx*/, void* /*dx_data*/, void* /*scales*/, void* /*scale*/, void* /*bias*/,
    void* /*dscale*/, void* /*dbias*/, double /*epsilon*/, void* /*mean*/, void* /*variance*/,
    void* /*activation*/, void* /*workspace*/, std::size_t /*bytes*/, void* /*reserve*/,
    std::size_t /*reserve_bytes*/) {
  return Normalize(__func__, handle, x, 5);
}

// Dropout
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout,
                                                        cudnnHandle_t /*handle*/, float rate,
                                                        void* /*states*/, size_t /*bytes*/,
                                                        unsigned long long /*seed*/) {
  return SetRate(dropout, rate);
}
TIDEPOOL_ANSWER cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t dropout,
                                                            cudnnHandle_t /*handle*/, float rate,
                                                            void* /*states*/, size_t /*bytes*/,
                                                            unsigned long long /*seed*/) {
  return SetRate(dropout, rate);
}
// Each thread that the GPU can hold has a generator: 6,488,064 bytes on an H200.
TIDEPOOL_ANSWER cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t /*handle*/, size_t* bytes) {
  constexpr std::int64_t kGeneratorBytes = 24;
  const tidepool::cudart_host::Gpu& gpu = tidepool::cudart_host::AssumedGpu();
  return Store(bytes,
               static_cast<std::size_t>(gpu.multiprocessors * gpu.threads * kGeneratorBytes));
}

// Sizes
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    void* /*handle*/, int mode, int /*operations*/, void* /*x*/, void* /*z*/, void* /*y*/,
    void* /*scale*/, void* /*activation*/, std::size_t* bytes) {
  return Store(bytes, IsPersistent(mode) ? kNormalizationWorkspace : 0);
}
TIDEPOOL_ANSWER cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    void* /*handle*/, int mode, int /*operations*/, void* /*activation*/, void* /*x*/,
    std::size_t* bytes) {
  return Store(bytes, IsPersistent(mode) ? kReserve : 0);
}
TIDEPOOL_ANSWER cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    void* /*handle*/, int mode, int /*operations*/, void* /*x*/, void* /*y*/, void* /*dy*/,
    void* /*dz*/, void* /*dx*/, void* /*scale*/, void* /*activation*/, std::size_t* bytes) {
  return Store(bytes, IsPersistent(mode) ? kNormalizationWorkspace : 0);
}
