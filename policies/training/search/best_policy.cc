// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/best_policy.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/budget/budget.h"
#include "lib/base/text/sizes.h"
#include "policies/training/layerwise/compression_choice.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/requests/policy_options.h"
#include "policies/training/search/best_maker.h"
#include "policies/training/search/concurrent_order.h"
#include "policies/training/transfers/copy_rates.h"

namespace tidepool::search {

// Searches for a schedule on one stream without compression. Then, in the time that is left,
// searches with compression, and on several streams. The answer is no slower than that of a search
// before, so no option of the machine makes it slower.
class BestInStages {
 public:
  BestInStages(requests::PolicyTable policies, const TaskGraph& graph,
               const ScheduleRequest& request, const BestOptions& options, budget::Budget& budget)
      : policies_(policies),
        graph_(graph),
        request_(request),
        first_options_(FirstOptions(request, options)),
        options_(first_options_),
        densities_(transfers::DensitiesThatPay(graph, transfers::RatesOfDevice(request.machine, 0),
                                               options.densities)),
        budget_(budget),
        first_(policies, graph, request, first_options_, budget) {}

  absl::StatusOr<Schedule> Make() {
    absl::StatusOr<Schedule> schedule = InFurtherStages(first_.Make());
    if (budget_.timed_out() && options_.was_late != nullptr) *options_.was_late = true;
    return schedule;
  }

  // The further stages search with the work of the round.
  absl::StatusOr<Schedule> MakeRound(double work_seconds) {
    options_.work_seconds = work_seconds;
    return InFurtherStages(first_.MakeRound(work_seconds));
  }

  void TakeLeads(const BestInStages& other) { first_.TakeLeads(other.first_); }
  bool IsFastest() const { return !HasStages(request_, densities_) && first_.IsFastest(); }

 private:
  static bool HasStages(const ScheduleRequest& request, const std::vector<double>& densities) {
    return !densities.empty() || request.machine.devices.front().compute_streams > 1;
  }

  static BestOptions FirstOptions(const ScheduleRequest& request, BestOptions options) {
    if (options.work_seconds == 0) options.work_seconds = options.time_limit_seconds;
    // A later stage may be faster.
    if (HasStages(request, options.densities)) options.was_proved = nullptr;
    options.densities.clear();
    return options;
  }

  absl::StatusOr<Schedule> InFurtherStages(absl::StatusOr<Schedule> schedule) {
    if (!schedule.ok()) return schedule;
    options_.densities.clear();
    if (!densities_.empty()) Compress(*schedule);
    if (request_.machine.devices.front().compute_streams > 1) UseStreams(*schedule);
    return schedule;
  }

  void Compress(Schedule& schedule) {
    options_.densities = densities_;
    transfers::CompressCopies(densities_, schedule);
    if (budget_.HasEnded()) return;
    BestMaker maker(policies_, graph_, request_, options_, budget_);
    maker.AddCandidate(schedule);
    absl::StatusOr<Schedule> faster = maker.Make();
    if (faster.ok()) schedule = *std::move(faster);
  }

  void UseStreams(Schedule& schedule) {
    const ConcurrentOrder order =
        InConcurrentOrder(graph_, request_.machine.devices.front().compute_streams);
    if (!order.is_faster) return;
    BestMaker maker(policies_, graph_, request_, options_, budget_);
    maker.AddCandidate(schedule);
    AssignStreams(graph_, request_.machine, schedule);
    maker.AddConcurrentCandidate(schedule);
    if (!budget_.HasEnded()) {
      absl::StatusOr<Schedule> concurrent =
          BestMaker(policies_, order.graph, request_, options_, budget_).Make();
      if (concurrent.ok()) {
        RestoreTasks(graph_, order, *concurrent);
        AssignStreams(graph_, request_.machine, *concurrent);
        maker.AddConcurrentCandidate(*concurrent);
      }
    }
    schedule = maker.fastest();
  }

  const requests::PolicyTable policies_;
  const TaskGraph& graph_;
  const ScheduleRequest& request_;
  const BestOptions first_options_;
  BestOptions options_;  // of the further stages
  const std::vector<double> densities_;
  budget::Budget& budget_;
  BestMaker first_;
};

// Adds to a refusal a memory in which a short search finds a schedule, at most a twentieth more
// than one in which it finds none, or than that of the largest task.
static absl::Status WithEnoughMemory(const absl::Status& refusal, requests::PolicyTable policies,
                                     const TaskGraph& graph, ScheduleRequest request,
                                     BestOptions options, double seconds) {
  constexpr std::int64_t kSteps = 20;
  constexpr double kWorkSeconds = 0.1;
  constexpr std::int64_t kMostMemory = std::int64_t{1} << 50;
  budget::Budget budget(seconds, options.stop);
  if (options.work_seconds == 0) options.work_seconds = options.time_limit_seconds;
  options.work_seconds = std::min(options.work_seconds, kWorkSeconds);
  options.was_proved = options.was_late = nullptr;
  std::int64_t& memory = request.machine.devices.front().memory_bytes;
  memory = std::min(memory, kMostMemory);
  for (memory = std::max(TotalsOf(graph).largest_task, memory + memory / kSteps);
       !budget.HasEnded() && memory < kMostMemory; memory += memory / kSteps + 1) {
    if (!BestInStages(policies, graph, request, options, budget).Make().ok()) continue;
    absl::Status told(refusal.code(), absl::StrCat(refusal.message(), "; a memory of ",
                                                   text::ExactSize(memory), " would do"));
    refusal.ForEachPayload(
        [&](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
    return told;
  }
  return refusal;
}

absl::StatusOr<Schedule> MakeBest(requests::PolicyTable policies, const TaskGraph& graph,
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
  budget::Budget budget(options->time_limit_seconds, options->stop);
  absl::StatusOr<Schedule> schedule =
      BestInStages(policies, graph, request, *options, budget).Make();
  if (!absl::IsResourceExhausted(schedule.status())) return schedule;
  return WithEnoughMemory(schedule.status(), policies, graph, request, *options,
                          options->time_limit_seconds);
}

struct BestSearch::Parts {
  Parts(requests::PolicyTable policies, const TaskGraph& one, const ScheduleRequest& asked,
        budget::Budget& budget)
      : graph(one),
        request(asked),
        stages(policies, graph, request, std::get<BestOptions>(request.options), budget) {}

  const TaskGraph graph;
  const ScheduleRequest request;
  BestInStages stages;
};

BestSearch::BestSearch(requests::PolicyTable policies, const TaskGraph& graph,
                       const ScheduleRequest& request, budget::Budget& budget)
    : parts_(std::make_unique<Parts>(policies, graph, request, budget)) {}
BestSearch::BestSearch(BestSearch&& other) noexcept = default;
BestSearch::~BestSearch() = default;

absl::StatusOr<Schedule> BestSearch::MakeRound(double work_seconds) {
  return parts_->stages.MakeRound(work_seconds);
}
void BestSearch::TakeLeads(const BestSearch& other) {
  parts_->stages.TakeLeads(other.parts_->stages);
}
bool BestSearch::IsFastest() const { return parts_->stages.IsFastest(); }

}  // namespace tidepool::search
