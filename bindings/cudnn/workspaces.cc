// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/workspaces.h"

#include "bindings/support/cuda_end.h"

namespace tidepool::cudnn {

absl::StatusOr<std::unique_ptr<Workspaces>> Workspaces::Create(int ordinal,
                                                               std::int64_t total_bytes) {
  absl::StatusOr<std::unique_ptr<CudaDevice>> device = CudaDevice::Create({.ordinal = ordinal});
  if (!device.ok()) return device.status();
  PoolOptions options;
  options.initial_bytes = total_bytes;
  options.max_bytes = total_bytes;
  options.memory = PoolMemory::kSegments;
  // The total is a promise, so streams keep no memory of their own.
  options.exact_placement = true;
  absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(device->get(), options);
  if (!pool.ok()) return pool.status();
  const absl::StatusOr<Stream> legacy = (*device)->WrapStream(nullptr);
  if (!legacy.ok()) return legacy.status();
  return std::unique_ptr<Workspaces>(new Workspaces(*std::move(device), *legacy, *std::move(pool)));
}

bool Workspaces::WasReset() const { return bindings::WasDeviceReset(*pool_); }

}  // namespace tidepool::cudnn
