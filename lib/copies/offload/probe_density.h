// SPDX-License-Identifier: Apache-2.0
// The density of a buffer's copy on the host.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_PROBE_DENSITY_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_PROBE_DENSITY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "lib/copies/offload/buffer_memory.h"
#include "tidepool/copies/density_probe.h"

namespace tidepool::offload {

// Probes a raw copy of `bytes` bytes, or tells the count of a compressed one. The memory must not
// change meanwhile; the caller need not hold the mutex. Errors are Offloader::ProbeDensity's.
absl::StatusOr<DensityEstimate> ProbeHostMemory(const HostMemory& host, std::int64_t bytes,
                                                const DensityProbeOptions& options);

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_PROBE_DENSITY_H_
