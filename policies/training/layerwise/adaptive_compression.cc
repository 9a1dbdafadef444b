// SPDX-License-Identifier: Apache-2.0
// Compares densities with their bands, and chooses again when one has left.
#include "tidepool/training/adaptive_compression.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "policies/training/layerwise/compression_choice.h"

namespace tidepool {
namespace {

constexpr double kLeastError = 0.02;  // of a band

}  // namespace

absl::StatusOr<AdaptiveCompression> AdaptiveCompression::Create(
    const TaskGraph& graph, const Timeline& simulated, const AdaptiveCompressionOptions& options) {
  if (absl::Status status = layerwise::CheckDensities(graph, options.densities); !status.ok()) {
    return status;
  }
  return AdaptiveCompression(graph, simulated.resolved, options, simulated.plan);
}

AdaptiveCompression::AdaptiveCompression(const TaskGraph& graph, Schedule schedule,
                                         const AdaptiveCompressionOptions& options,
                                         std::shared_ptr<const PlacementPlan> plan)
    : graph_(graph),
      schedule_(std::move(schedule)),
      machine_(options.machine),
      placing_(options.placing),
      bands_(graph.data.size(), Band{.error = kLeastError}) {
  placing_.plan = std::move(plan);
  for (std::size_t i = 0; i < options.densities.size(); ++i) {
    bands_[i].density = options.densities[i];
  }
}

void AdaptiveCompression::Note(std::size_t data, const DensityEstimate& estimate) {
  bands_[data].latest = estimate;
  ++noted_;
}

bool AdaptiveCompression::HasLeft(const Band& band) {
  return band.latest.has_value() &&
         std::abs(band.latest->density - band.density) > band.error + band.latest->error;
}

// Makes the latest densities the centres of the bands.
void AdaptiveCompression::Renew() {
  for (Band& band : bands_) {
    if (!band.latest.has_value()) continue;
    band = {.density = band.latest->density, .error = std::max(band.latest->error, kLeastError)};
  }
}

absl::StatusOr<std::optional<Timeline>> AdaptiveCompression::ChooseAgain() {
  if (std::none_of(bands_.begin(), bands_.end(), HasLeft)) return std::nullopt;
  Renew();
  std::vector<double> densities;
  std::vector<double> errors;
  for (const Band& band : bands_) {
    densities.push_back(band.density);
    errors.push_back(std::min(band.error, 1.0));
  }
  Schedule schedule = schedule_;
  for (ScheduleStep& step : schedule.steps) step.density = -1;
  absl::Status status =
      layerwise::ChooseCompression(graph_, densities, errors, machine_, placing_, schedule);
  if (!status.ok() && !absl::IsResourceExhausted(status)) return status;
  if (!status.ok()) return std::nullopt;
  absl::StatusOr<Timeline> timeline = Simulate(graph_, schedule, machine_, placing_);
  if (absl::IsResourceExhausted(timeline.status())) return std::nullopt;
  if (!timeline.ok()) return timeline.status();
  if (timeline->stayed > 0) return std::nullopt;
  schedule_ = std::move(schedule);
  ++choices_;
  return *std::move(timeline);
}

}  // namespace tidepool
