// SPDX-License-Identifier: Apache-2.0
// In all pools streams may wait for memory of each other. Where the trace has their order, each
// policy also gets the pool in which they do not.
#include "trace_replay/commands/size_search.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/commands/plan_answer.h"
#include "trace_replay/commands/planned.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/commands/stream_waits.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/progress.h"

namespace tidepool::tool {
namespace {

// The events that the restart search may simulate, which takes a second or two. Then the table says
// "at most".
constexpr std::int64_t kMostRestartSteps = 20'000'000;

struct Plans {
  absl::StatusOr<Plan> with_waits = Plan();
  absl::StatusOr<Plan> without_waits = Plan();
};

class SizeSearch {
 public:
  SizeSearch(const SizeQuestion& question, const MeasuredTrace& measured)
      : question_(question),
        measured_(measured),
        limits_({.alignment = measured.alignment,
                 .time_limit_seconds = question.time_limit_seconds,
                 .most_restart_steps = kMostRestartSteps,
                 .stop = StopAtInterrupt()}) {
    absl::StatusOr<PlanProblem> problem = ProblemOf(measured, StreamWaits::kNone);
    if (problem.ok() && HasOrderedStreams(*problem)) streams_ = *std::move(problem);
  }

  absl::StatusOr<SizeAnswer> Run() {
    if (question_.plan || absl::c_any_of(question_.policies, NeedsPlan)) MakePlans();
    if (question_.plan && !plans_.without_waits.ok()) return plans_.without_waits.status();
    SizeAnswer answer;
    for (const std::string& name : question_.policies) {
      if (limits_.stop.stop_requested()) return absl::CancelledError("interrupted");
      progress_.Show(absl::StrCat("policy ", name, ", ", answer.sizes.size() + 1, " of ",
                                  question_.policies.size()),
                     Part(answer.sizes.size()));
      absl::StatusOr<PolicySize> size = SizeOf(name);
      if (size.ok()) {
        answer.sizes.push_back(*std::move(size));
      } else if (question_.are_asked_for || !NeedsPlan(name) || !CanBeLeftOut(size.status())) {
        return size.status();
      }
    }
    if (question_.plan) answer.plan = *std::move(plans_.without_waits);
    if (streams_.has_value()) answer.streams = StreamsText(*streams_);
    return answer;
  }

 private:
  double Part(std::size_t policies) const {
    return static_cast<double>(policies) / static_cast<double>(question_.policies.size());
  }

  void MakePlans() {
    const double seconds = question_.time_limit_seconds;
    plans_.without_waits = PlanTrace(measured_, StreamWaits::kNone, std::nullopt, seconds);
    plans_.with_waits = streams_.has_value()
                            ? PlanTrace(measured_, StreamWaits::kAllowed, std::nullopt, seconds)
                            : plans_.without_waits;
  }

  absl::StatusOr<PolicySize> SizeOf(const std::string& name) {
    if (IsPyTorchPolicy(name)) return PyTorchSize(name);
    return NeedsPlan(name) ? SizeOfPlan(name) : PlacementSize(name);
  }

  // The allocator gives no stream memory of another, so its pool is one without waits.
  absl::StatusOr<PolicySize> PyTorchSize(const std::string& name) {
    const auto settings = PyTorchSettings(name, *measured_.trace, question_.pytorch_settings);
    if (!settings.ok()) return settings.status();
    const auto result = MinimumCachingMemory(*measured_.trace, *settings, limits_);
    if (!result.ok()) return result.status();
    PolicySize size = {name, *result, limits_};
    size.fails_in_asked_memory = FailsInAskedMemory(*settings, *result);
    if (streams_.has_value()) size.bytes_without_waits = result->pool_bytes;
    return size;
  }

  // Whether PyTorch's allocator refuses a request in the memory of --fits. It may do so although it
  // serves all in less.
  bool FailsInAskedMemory(const CachingAllocatorSettings& settings,
                          const MinimumPoolResult& result) const {
    if (result.serves_all_larger.value_or(false)) return false;
    if (result.exact_pool_bytes.value_or(INT64_MAX) > question_.fits_bytes) return false;
    const auto replay = ReplayCaching(
        *measured_.trace, {.settings = settings,
                           .memory_bytes = std::min(question_.fits_bytes, kMostCachingMemory),
                           .stop_at_refusal = true});
    return replay.ok() && replay->refused > 0;
  }

  absl::StatusOr<PolicySize> SizeOfPlan(const std::string& name) {
    if (!plans_.with_waits.ok()) return plans_.with_waits.status();
    if (!plans_.without_waits.ok()) return plans_.without_waits.status();
    const absl::StatusOr<MinimumPoolResult> result =
        PlannedSize(measured_, ToPlanned(measured_, *plans_.with_waits));
    if (!result.ok()) return result.status();
    PolicySize size = {name, *result, limits_};
    if (streams_.has_value()) size.bytes_without_waits = plans_.without_waits->height;
    return size;
  }

  absl::StatusOr<PolicySize> PlacementSize(const std::string& name) {
    const absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy(name);
    if (!policy.ok()) return policy.status();
    const absl::StatusOr<MinimumPoolResult> result =
        MinimumPool(*measured_.trace, **policy, limits_);
    if (!result.ok()) return result.status();
    PolicySize size = {name, *result, limits_};
    if (!streams_.has_value()) return size;
    const absl::StatusOr<std::int64_t> bytes =
        PoolWithoutWaits(measured_, *streams_, **policy, limits_);
    if (!bytes.ok()) return bytes.status();
    size.bytes_without_waits = *bytes;
    return size;
  }

  const SizeQuestion& question_;
  const MeasuredTrace& measured_;
  const MinimumPoolOptions limits_;
  std::optional<PlanProblem> streams_;  // empty where streams do not matter
  Plans plans_;
  Progress progress_;
};

}  // namespace

absl::StatusOr<SizeAnswer> FindSizes(const SizeQuestion& question, const MeasuredTrace& measured) {
  return SizeSearch(question, measured).Run();
}

}  // namespace tidepool::tool
