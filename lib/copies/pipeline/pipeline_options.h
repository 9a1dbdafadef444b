// SPDX-License-Identifier: Apache-2.0
// Options of a pipeline: defaults from the machine's profile, and the check of all values.
#ifndef TIDEPOOL_LIB_COPIES_PIPELINE_PIPELINE_OPTIONS_H_
#define TIDEPOOL_LIB_COPIES_PIPELINE_PIPELINE_OPTIONS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/copies/compression_pipeline.h"

namespace tidepool::pipeline {

// Replaces zeros by the values that the machine's profile recommends, and checks all values. Errors
// are those of the profile, if it is needed, and InvalidArgument.
absl::StatusOr<CompressionPipelineOptions> ResolveOptions(
    const CompressionPipelineOptions& options);

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_COPIES_PIPELINE_PIPELINE_OPTIONS_H_
