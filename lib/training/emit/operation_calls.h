// SPDX-License-Identifier: Apache-2.0
// The calls of operations that have a file of their own, as KernelCalls returns them.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_OPERATION_CALLS_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_OPERATION_CALLS_H_

#include <string>

#include "absl/status/statusor.h"
#include "lib/training/emit/kernel_calls.h"
#include "lib/training/emit/network.h"

namespace tidepool::emit {

absl::StatusOr<std::string> ConvolutionCalls(const Network& network, const PlacedTask& placed);
absl::StatusOr<std::string> TransposedConvolutionCalls(const Network& network,
                                                       const PlacedTask& placed);
absl::StatusOr<std::string> SumCalls(const Network& network, const PlacedTask& placed);
absl::StatusOr<std::string> ConcatenationCalls(const Network& network, const PlacedTask& placed);

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_OPERATION_CALLS_H_
