// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/density_probes.h"

#include <algorithm>
#include <utility>

#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

std::int64_t CompressedCopies(const Schedule& schedule) {
  return std::count_if(schedule.steps.begin(), schedule.steps.end(),
                       [](const ScheduleStep& step) { return step.density >= 0; });
}

}  // namespace

absl::StatusOr<DensityProbes> DensityProbes::Create(const ScheduledGraph& scheduled,
                                                    const Timeline& simulated) {
  absl::StatusOr<AdaptiveCompression> adaptive =
      AdaptiveCompression::Create(scheduled.graph(), simulated,
                                  {.machine = scheduled.made.machine,
                                   .placing = scheduled.made.placing,
                                   .densities = scheduled.choice.layerwise.densities});
  if (!adaptive.ok()) return adaptive.status();
  return DensityProbes(scheduled, *std::move(adaptive));
}

absl::Status DensityProbes::AfterIteration(FixedIteration& iteration) {
  compressed_.push_back(CompressedCopies(adaptive_.schedule()));
  const absl::StatusOr<std::optional<Timeline>> chosen = adaptive_.ChooseAgain();
  if (!chosen.ok()) return chosen.status();
  if (!chosen->has_value()) return absl::OkStatus();
  PlacingOptions placing = scheduled_->made.placing;
  placing.plan = (*chosen)->plan;
  const absl::StatusOr<PlacedSchedule> placed =
      PlaceInPool(scheduled_->graph(), (*chosen)->resolved, scheduled_->made.machine, placing);
  return placed.ok() ? iteration.Reschedule(placed->schedule) : placed.status();
}

nlohmann::ordered_json DensityProbes::Json() const {
  return {{"probes", adaptive_.noted()},
          {"choices", adaptive_.choices()},
          {"compressed_by_iteration", compressed_}};
}

std::vector<std::vector<std::string>> DensityProbes::Rows() const {
  return {{"  densities probed", CountText(adaptive_.noted())},
          {"  compression chosen again", CountText(adaptive_.choices())},
          {"  compressed copies of the last", CountText(compressed_.back())}};
}

}  // namespace tidepool::tool
