// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/best_policy.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/budget/budget.h"
#include "policies/training/layerwise/compression_choice.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/requests/policy_options.h"
#include "policies/training/search/best_maker.h"
#include "policies/training/search/concurrent_order.h"
#include "policies/training/transfers/copy_rates.h"

namespace tidepool::search {
namespace {

// Searches for a schedule on one stream without compression. Then, in the time that is left,
// searches with compression, and on several streams. The answer is no slower than that of a search
// before, so no option of the machine makes it slower.
class BestInStages {
 public:
  BestInStages(const TaskGraph& graph, const ScheduleRequest& request, const BestOptions& options)
      : graph_(graph),
        request_(request),
        options_(options),
        budget_(options.time_limit_seconds, options.stop) {
    if (options_.work_seconds == 0) options_.work_seconds = options.time_limit_seconds;
    options_.densities.clear();
    const bool has_stages =
        !options.densities.empty() || request.machine.devices.front().compute_streams > 1;
    if (has_stages) options_.was_proved = nullptr;  // a later stage may be faster
    densities_ = transfers::DensitiesThatPay(graph, transfers::RatesOfDevice(request.machine, 0),
                                             options.densities);
  }

  absl::StatusOr<Schedule> Make() {
    absl::StatusOr<Schedule> schedule = MakeInStages();
    if (budget_.timed_out() && options_.was_late != nullptr) *options_.was_late = true;
    return schedule;
  }

 private:
  absl::StatusOr<Schedule> MakeInStages() {
    absl::StatusOr<Schedule> schedule = BestMaker(graph_, request_, options_, budget_).Make();
    if (!schedule.ok()) return schedule;
    if (!densities_.empty()) Compress(*schedule);
    if (request_.machine.devices.front().compute_streams > 1) UseStreams(*schedule);
    return schedule;
  }

  void Compress(Schedule& schedule) {
    options_.densities = densities_;
    transfers::CompressCopies(densities_, schedule);
    if (budget_.HasEnded()) return;
    BestMaker maker(graph_, request_, options_, budget_);
    maker.AddCandidate(schedule);
    absl::StatusOr<Schedule> faster = maker.Make();
    if (faster.ok()) schedule = *std::move(faster);
  }

  void UseStreams(Schedule& schedule) {
    const ConcurrentOrder order =
        InConcurrentOrder(graph_, request_.machine.devices.front().compute_streams);
    if (!order.is_faster) return;
    BestMaker maker(graph_, request_, options_, budget_);
    maker.AddCandidate(schedule);
    AssignStreams(graph_, request_.machine, schedule);
    maker.AddConcurrentCandidate(schedule);
    if (!budget_.HasEnded()) {
      absl::StatusOr<Schedule> concurrent =
          BestMaker(order.graph, request_, options_, budget_).Make();
      if (concurrent.ok()) {
        RestoreTasks(graph_, order, *concurrent);
        AssignStreams(graph_, request_.machine, *concurrent);
        maker.AddConcurrentCandidate(*concurrent);
      }
    }
    schedule = maker.fastest();
  }

  const TaskGraph& graph_;
  const ScheduleRequest& request_;
  BestOptions options_;
  std::vector<double> densities_;
  budget::Budget budget_;
};

}  // namespace

absl::StatusOr<Schedule> MakeBest(std::string_view /*policy*/, const TaskGraph& graph,
                                  const ScheduleRequest& request) {
  const absl::StatusOr<BestOptions> options = requests::OptionsOf<BestOptions>(request);
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
  absl::Status status = layerwise::CheckDensities(graph, options->densities);
  if (!status.ok()) return status;
  return BestInStages(graph, request, *options).Make();
}

}  // namespace tidepool::search
