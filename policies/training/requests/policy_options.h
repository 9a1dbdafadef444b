// SPDX-License-Identifier: Apache-2.0
// The options of a policy within a request.
#ifndef TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_OPTIONS_H_
#define TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_OPTIONS_H_

#include <stop_token>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::requests {

// Returns the policy's options, or its defaults for a request without any. InvalidArgument for
// those of another policy.
template <typename Options>
absl::StatusOr<Options> OptionsOf(const ScheduleRequest& request) {
  if (const auto* options = std::get_if<Options>(&request.options)) return *options;
  if (std::holds_alternative<std::monostate>(request.options)) return Options();
  return absl::InvalidArgumentError(
      "the options are those of another policy, expected the policy's own or none");
}

// Returns the token that stops the policy's searches.
inline std::stop_token StopOf(const PolicyOptions& options) {
  if (const auto* best = std::get_if<BestOptions>(&options)) return best->stop;
  if (const auto* chain = std::get_if<GraphChainOptions>(&options)) return chain->chain.stop;
  return {};
}

}  // namespace tidepool::requests

#endif  // TIDEPOOL_POLICIES_TRAINING_REQUESTS_POLICY_OPTIONS_H_
