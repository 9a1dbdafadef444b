// SPDX-License-Identifier: Apache-2.0
// The begin and the end of a function that computes a layer.
#ifndef TIDEPOOL_DRYRUN_CUDNN_COMPUTES_LAYER_CALL_H_
#define TIDEPOOL_DRYRUN_CUDNN_COMPUTES_LAYER_CALL_H_

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>

#include "dryrun/cudnn/computes/tensor_view.h"
#include "dryrun/stream_work.h"

namespace tidepool::cudart_host {

// Counts the call and checks its arguments: tensors that layers take, and pointers that are set.
inline cudnnStatus_t EnterLayer(const char* function, cudnnHandle_t handle,
                                std::initializer_list<cudnnTensorDescriptor_t> tensors,
                                std::initializer_list<const void*> pointers) {
  if (const cudnnStatus_t status = EnterCudnn(function); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const bool is_valid = handle != nullptr && std::ranges::all_of(tensors, IsLayerTensor) &&
                        std::ranges::none_of(pointers, [](const void* p) { return p == nullptr; });
  return is_valid ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

// Queues the work in the stream of the handle.
inline cudnnStatus_t QueueLayer(cudnnHandle_t handle, std::function<void()> work) {
  return QueueWork(handle->stream, std::move(work)) ? CUDNN_STATUS_SUCCESS
                                                    : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_COMPUTES_LAYER_CALL_H_
