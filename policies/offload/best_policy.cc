// SPDX-License-Identifier: Apache-2.0
#include "policies/offload/best_policy.h"

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "policies/offload/best_maker.h"
#include "policies/offload/option_names.h"
#include "policies/offload/policy_options.h"

namespace tidepool::offload_policies {
namespace {

absl::Status CheckWeightHomes(const TaskGraph& graph) {
  for (const GraphData& data : graph.data) {
    if (!ExistsAfter(data) || data.before != DataHome::kHost) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(InQuotes(data.name), " is at home on the host, expected weights and their ",
                     "states on the device"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Schedule> MakeBest(std::string_view /*policy*/, const TaskGraph& graph,
                                  const ScheduleRequest& request) {
  const absl::StatusOr<BestOptions> options = OptionsOf<BestOptions>(request);
  if (!options.ok()) return options.status();
  if (!(options->time_limit_seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("a time limit of ", options->time_limit_seconds,
                                                   " seconds, expected more than 0"));
  }
  if (!(options->work_seconds >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("work of ", options->work_seconds, " seconds, expected 0 or more"));
  }
  if (options->part_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("parts of ", options->part_bytes, " bytes, expected 0 or more"));
  }
  if (absl::Status status = CheckWeightHomes(graph); !status.ok()) return status;
  return BestMaker(graph, request, *options).Make();
}

}  // namespace tidepool::offload_policies
