// SPDX-License-Identifier: Apache-2.0
// The CUDA device of the command line, in builds that have one.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_CUDA_DEVICES_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_CUDA_DEVICES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/device.h"

namespace tidepool::tool {

// Returns the first GPU. InvalidArgument, about the option --device, in a build without CUDA and on
// a machine without a GPU.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice();

// Returns the first GPU's address on the PCI bus, such as "0000:3b:00.0"; empty without
// a GPU.
std::string FirstGpuAddress();

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_CUDA_DEVICES_H_
