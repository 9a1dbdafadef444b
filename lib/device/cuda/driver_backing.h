// Virtual memory of a CUDA device: that of the driver.
#ifndef TIDEPOOL_LIB_DEVICE_CUDA_DRIVER_BACKING_H_
#define TIDEPOOL_LIB_DEVICE_CUDA_DRIVER_BACKING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/device/virtual_memory.h"

namespace tidepool::cuda {

// Null where the device or its driver has none. The devices of `may_use` may use what is mapped,
// the device itself always. Counts physical memory in `used_bytes`, which outlives it. The device
// is current here and in every call.
absl::StatusOr<std::unique_ptr<device::VirtualMemory>> MakeVirtualMemory(
    int ordinal, const std::vector<int>& may_use, std::atomic<std::int64_t>* used_bytes);

}  // namespace tidepool::cuda

#endif  // TIDEPOOL_LIB_DEVICE_CUDA_DRIVER_BACKING_H_
