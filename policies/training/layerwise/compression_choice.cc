// SPDX-License-Identifier: Apache-2.0
// Tries all offloads at once, and halves groups that take too long.
#include "policies/training/layerwise/compression_choice.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/training/schedule/steps/begin_on_host.h"
#include "policies/training/requests/option_names.h"
#include "tidepool/copies/compression_advisor.h"

namespace tidepool::layerwise {
namespace {

// Share of the iteration. Even compression that keeps up with the link adds the time for its last
// slot.
constexpr double kMostDelay = 0.01;
// Each group costs simulations of the whole iteration; halving down to single offloads would take
// hours for 100,000 tasks.
constexpr std::size_t kMostGroups = 128;

class CompressionChoice {
 public:
  CompressionChoice(const TaskGraph& graph, const std::vector<double>& densities,
                    const std::vector<double>& errors, const Machine& machine,
                    const PlacingOptions& placing, Schedule& schedule)
      : graph_(graph),
        densities_(densities),
        errors_(errors),
        machine_(machine),
        placing_(placing),
        schedule_(schedule) {}

  absl::Status Choose() {
    const absl::StatusOr<double> seconds = Seconds();
    const bool does_not_fit = absl::IsResourceExhausted(seconds.status());
    if (!seconds.ok() && !does_not_fit) return seconds.status();
    const absl::StatusOr<std::vector<std::size_t>> steps = StepsThatSave();
    if (!steps.ok()) return steps.status();
    // The host may have enough room for compressed data, and then any time is acceptable.
    if (does_not_fit) return TryAll(*steps, seconds.status());
    allowed_seconds_ = *seconds * (1 + kMostDelay);
    least_group_ = std::max<std::size_t>(steps->size() / kMostGroups, 1);
    return Try(*steps);
  }

 private:
  absl::StatusOr<double> Seconds() const {
    const absl::StatusOr<Timeline> timeline = Simulate(graph_, schedule_, machine_, placing_);
    if (!timeline.ok()) return timeline.status();
    return timeline->seconds;
  }

  // Returns the offloads that compression is worth if there is enough time.
  absl::StatusOr<std::vector<std::size_t>> StepsThatSave() const {
    CompressionAdvisorOptions options;
    const MachineLink& link = machine_.links[machine_.devices.front().link];
    options.link_bytes_per_second = std::min(link.out_bytes_per_second, link.in_bytes_per_second);
    options.threads = placing_.compression_threads;
    const absl::StatusOr<CompressionAdvisor> advisor =
        CompressionAdvisor::Create(placing_.compression, options);
    if (!advisor.ok()) return advisor.status();
    std::vector<std::size_t> steps;
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const ScheduleStep& step = schedule_.steps[i];
      if (step.kind != StepKind::kOffload) continue;
      if (schedule::HostMayRead(graph_.data[step.index])) continue;
      const absl::StatusOr<CompressionAdvice> advice =
          advisor->Advise({.bytes = graph_.data[step.index].bytes,
                           .density = densities_[step.index],
                           .density_error = errors_.empty() ? 0 : errors_[step.index]});
      if (!advice.ok()) return advice.status();
      if (advice->compress) steps.push_back(i);
    }
    return steps;
  }

  void Compress(absl::Span<const std::size_t> steps) {
    for (const std::size_t i : steps) {
      schedule_.steps[i].density = densities_[schedule_.steps[i].index];
    }
  }

  // Compresses all of `steps`. Returns `otherwise` when the iteration does not fit then either.
  absl::Status TryAll(absl::Span<const std::size_t> steps, const absl::Status& otherwise) {
    Compress(steps);
    const absl::Status status = Seconds().status();
    return absl::IsResourceExhausted(status) ? otherwise : status;
  }

  // Compresses as many of `steps`, in addition to those already compressed, as time allows.
  absl::Status Try(absl::Span<const std::size_t> steps) {
    if (steps.empty()) return absl::OkStatus();
    Compress(steps);
    const absl::StatusOr<double> seconds = Seconds();
    const bool does_not_fit = absl::IsResourceExhausted(seconds.status());
    if (!seconds.ok() && !does_not_fit) return seconds.status();
    if (seconds.ok() && *seconds <= allowed_seconds_) return absl::OkStatus();
    for (const std::size_t i : steps) schedule_.steps[i].density = -1;
    if (steps.size() <= least_group_) return absl::OkStatus();
    const std::size_t half = steps.size() / 2;
    if (absl::Status status = Try(steps.first(half)); !status.ok()) return status;
    return Try(steps.subspan(half));
  }

  const TaskGraph& graph_;
  const std::vector<double>& densities_;
  const std::vector<double>& errors_;
  const Machine& machine_;
  const PlacingOptions& placing_;
  Schedule& schedule_;
  double allowed_seconds_ = 0;
  std::size_t least_group_ = 1;  // steps in a group that is not halved further
};

}  // namespace

absl::Status CheckDensities(const TaskGraph& graph, const std::vector<double>& densities) {
  if (densities.empty()) return absl::OkStatus();
  if (densities.size() != graph.data.size()) {
    return absl::InvalidArgumentError(absl::StrCat(densities.size(), " densities, expected ",
                                                   graph.data.size(), ", one for each data"));
  }
  for (std::size_t i = 0; i < densities.size(); ++i) {
    if (densities[i] >= 0 && densities[i] <= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("density ", densities[i], " of ",
                                                   requests::InQuotes(graph.data[i].name),
                                                   ", expected 0 to 1"));
  }
  return absl::OkStatus();
}

absl::Status ChooseCompression(const TaskGraph& graph, const std::vector<double>& densities,
                               const std::vector<double>& errors, const Machine& machine,
                               const PlacingOptions& placing, Schedule& schedule) {
  return CompressionChoice(graph, densities, errors, machine, placing, schedule).Choose();
}

}  // namespace tidepool::layerwise
