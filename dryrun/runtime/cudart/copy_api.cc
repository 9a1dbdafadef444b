// SPDX-License-Identifier: Apache-2.0
// Copies and fills of the runtime, in all their variants.
#include <cuda_runtime_api.h>

#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/memory_operations.h"

using namespace tidepool::cudart_host;  // NOLINT: this is that namespace's interface in C

namespace {

CopyShape Row(void* to, const void* from, size_t bytes) {
  return {static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1};
}

CopyShape PeerRow(void* to, const void* from, size_t bytes) {
  CopyShape row = Row(to, from, bytes);
  row.has_devices = true;
  return row;
}

cudaError_t CopyLater(const char* function, const CopyShape& shape, cudaMemcpyKind kind,
                      cudaStream_t handle) {
  return CallOnStream(function, handle, [&](Runtime& runtime, const StreamRef& stream) {
    return QueueCopy(runtime, stream, shape, kind);
  });
}

cudaError_t FillLater(const char* function, void* to, size_t pitch, int value, size_t width,
                      size_t height, cudaStream_t handle) {
  return CallOnStream(function, handle, [&](Runtime& runtime, const StreamRef& stream) {
    return QueueFill(runtime, stream, to, pitch, value, width, height);
  });
}

bool AreDevices(int first, int second) {
  return Runtime::Get().FindDevice(first) != nullptr &&
         Runtime::Get().FindDevice(second) != nullptr;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return CopyNow(__func__, cudaStreamLegacy, Row(to, from, bytes), kind);
}

cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return CopyNow(__func__, cudaStreamPerThread, Row(to, from, bytes), kind);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return CopyLater(__func__, Row(to, from, bytes), kind, stream);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           size_t bytes) {
  if (!AreDevices(to_device, from_device)) return Remember(cudaErrorInvalidDevice);
  return CopyNow(__func__, cudaStreamLegacy, PeerRow(to, from, bytes), cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  if (!AreDevices(to_device, from_device)) return Remember(cudaErrorInvalidDevice);
  return CopyLater(__func__, PeerRow(to, from, bytes), cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return CopyNow(
      __func__, cudaStreamLegacy,
      {static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, height},
      kind);
}

cudaError_t cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind) {
  return CopyNow(
      __func__, cudaStreamPerThread,
      {static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, height},
      kind);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return CopyLater(
      __func__,
      {static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, height},
      kind, stream);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return FillLater(__func__, to, bytes, value, bytes, 1, cudaStreamLegacy);
}

cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return FillLater(__func__, to, bytes, value, bytes, 1, cudaStreamPerThread);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return FillLater(__func__, to, bytes, value, bytes, 1, stream);
}

cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return FillLater(__func__, to, pitch, value, width, height, cudaStreamLegacy);
}

cudaError_t cudaMemset2D_ptds(void* to, size_t pitch, int value, size_t width, size_t height) {
  return FillLater(__func__, to, pitch, value, width, height, cudaStreamPerThread);
}

cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return FillLater(__func__, to, pitch, value, width, height, stream);
}

}  // extern "C"
