// SPDX-License-Identifier: Apache-2.0
// Files of GPUs (docs/formats/gpu.md): the rates of a GPU of one's own.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_GPU_FILE_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_GPU_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tidepool/schedule/model_zoo.h"

namespace tidepool::tool {

// Reads a file of at most 64 KiB. Errors are InvalidArgument with "FILE: " or "FILE:LINE: ".
absl::StatusOr<GpuRates> ReadGpu(const std::string& path);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_GPU_FILE_H_
