// SPDX-License-Identifier: Apache-2.0
// Virtual memory of the host device, made of the host's pages.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_HOST_BACKING_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_HOST_BACKING_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "lib/memory/device/host/memory_budget.h"
#include "lib/memory/device/virtual_memory.h"

namespace tidepool::host {

// Makes the backing of a host device. `budget` has to outlive it.
absl::StatusOr<std::unique_ptr<device::VirtualBacking>> MakeHostBacking(std::int64_t granularity,
                                                                        MemoryBudget* budget);

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_HOST_BACKING_H_
