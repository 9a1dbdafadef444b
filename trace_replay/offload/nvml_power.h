// SPDX-License-Identifier: Apache-2.0
// The power of a GPU by NVML, NVIDIA's library for management, where a machine has it.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_NVML_POWER_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_NVML_POWER_H_

#include <string>

#include "trace_replay/offload/power_sampler.h"

namespace tidepool::tool {

// Returns the power of the GPU at this address of the PCI bus, such as "0000:3b:00.0". Loads
// libnvidia-ml.so.1 and keeps it as long as the source lives. Null where the library, the GPU or
// its sensor is missing.
PowerSource NvmlPower(const std::string& bus_id);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_NVML_POWER_H_
