// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/measuring_memory.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "bindings/cudnn/fusion.h"

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
  if (!made->TakeAll(convolution, samples)) return nullptr;
  return made;
}

bool MeasuringMemory::TakeAll(const Convolution& convolution, std::int64_t samples) {
  const Fusion* const fusion = FusionOf(convolution.fusion);
  const bool is_virtual = fusion != nullptr && !fusion->keeps_output;
  bool has_all = true;
  const auto take = [&](std::int64_t bytes) {
    char* const data = Take(bytes);
    has_all = has_all && data != nullptr;
    return data;
  };
  if (!is_virtual || convolution.pass != Pass::kData) data_.x = take(convolution.XBytes(samples));
  if (!is_virtual || convolution.pass != Pass::kForward) {
    data_.y = take(convolution.YBytes(samples));
  }
  data_.w = take(convolution.FilterBytes());
  if (fusion == nullptr) return has_all;
  for (std::size_t i = 0; i < fusion->tensors.size(); ++i) {
    const FusedTensor& tensor = fusion->tensors[i];
    if (tensor.is_virtual) continue;
    data_.fused[i] = take(convolution.BytesIn(tensor.its, tensor.has_batch ? samples : 1));
  }
  return has_all;
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
