// SPDX-License-Identifier: Apache-2.0
// Virtual memory of a CUDA device, by the driver's functions.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DRIVER_BACKING_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DRIVER_BACKING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/memory/device/virtual_memory.h"

namespace tidepool::cuda {

// Returns null if the device or its driver has no virtual memory. The devices `may_use` get access
// to mapped memory; the device itself always has it. Counts physical memory in `used_bytes`, which
// outlives the result. The device is current here and in every call.
absl::StatusOr<std::unique_ptr<device::VirtualMemory>> MakeVirtualMemory(
    int ordinal, const std::vector<int>& may_use, std::atomic<std::int64_t>* used_bytes);

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_CUDA_DRIVER_BACKING_H_
