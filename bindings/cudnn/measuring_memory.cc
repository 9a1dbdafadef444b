// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/measuring_memory.h"

#include <cuda_runtime_api.h>

#include <utility>

namespace tidepool::cudnn {

std::unique_ptr<MeasuringMemory> MeasuringMemory::Create(const Functions& functions,
                                                         cudnnHandle_t handle,
                                                         const Convolution& convolution,
                                                         std::int64_t samples) {
  int ordinal = 0;
  cudaStream_t native = nullptr;
  if (cudaGetDevice(&ordinal) != cudaSuccess ||
      functions.get_stream(handle, &native) != CUDNN_STATUS_SUCCESS) {
    return nullptr;
  }
  auto pool = Workspaces::Create(ordinal, 0);
  if (!pool.ok()) return nullptr;
  const absl::StatusOr<Stream> stream = (*pool)->NameOf(native);
  if (!stream.ok()) return nullptr;
  std::unique_ptr<MeasuringMemory> made(new MeasuringMemory(*std::move(pool), *stream));
  made->data_ = {made->Take(convolution.XBytes(samples)), made->Take(convolution.FilterBytes()),
                 made->Take(convolution.YBytes(samples))};
  const ConvolutionData& data = made->data_;
  if (data.x == nullptr || data.w == nullptr || data.y == nullptr) return nullptr;
  return made;
}

MeasuringMemory::~MeasuringMemory() {
  Workspace(0);
  for (void* const address : taken_) pool_->Free(address, stream_);
}

char* MeasuringMemory::Take(std::int64_t bytes) {
  const absl::StatusOr<void*> address = pool_->Allocate(bytes, stream_);
  if (!address.ok()) return nullptr;
  taken_.push_back(*address);
  return static_cast<char*>(*address);
}

void* MeasuringMemory::Workspace(std::int64_t bytes) {
  if (workspace_ != nullptr) pool_->Free(workspace_, stream_);
  workspace_ = bytes == 0 ? nullptr : pool_->Allocate(bytes, stream_).value_or(nullptr);
  return workspace_;
}

}  // namespace tidepool::cudnn
