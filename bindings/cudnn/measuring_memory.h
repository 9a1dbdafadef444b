// SPDX-License-Identifier: Apache-2.0
// Memory of the device for a measurement: the data of a convolution, and workspaces.
#ifndef TIDEPOOL_BINDINGS_CUDNN_MEASURING_MEMORY_H_
#define TIDEPOOL_BINDINGS_CUDNN_MEASURING_MEMORY_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/cudnn/convolution.h"
#include "bindings/cudnn/engines.h"
#include "bindings/cudnn/functions.h"
#include "bindings/cudnn/workspaces.h"

namespace tidepool::cudnn {

// Comes from a pool of its own, which gives all memory back at the end. Not thread-safe.
class MeasuringMemory {
 public:
  // Takes memory for a batch of `samples`, on the current device. Null where the device has
  // too little, or a call fails.
  static std::unique_ptr<MeasuringMemory> Create(const Functions& functions, cudnnHandle_t handle,
                                                 const Convolution& convolution,
                                                 std::int64_t samples);
  // Waits for the work that uses the memory.
  ~MeasuringMemory();
  MeasuringMemory(const MeasuringMemory&) = delete;
  MeasuringMemory& operator=(const MeasuringMemory&) = delete;

  const ConvolutionData& data() const { return data_; }
  // Returns a workspace, which replaces the last one. Null for 0 bytes, and where the device has
  // too little.
  void* Workspace(std::int64_t bytes);

 private:
  MeasuringMemory(std::unique_ptr<Workspaces> pool, Stream stream)
      : pool_(std::move(pool)), stream_(stream) {}
  char* Take(std::int64_t bytes);
  // Takes memory for all tensors that are not virtual. Returns false where the device has too
  // little.
  bool TakeAll(const Convolution& convolution, std::int64_t samples);

  std::unique_ptr<Workspaces> pool_;
  Stream stream_;
  ConvolutionData data_;
  std::vector<void*> taken_;
  void* workspace_ = nullptr;
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_MEASURING_MEMORY_H_
