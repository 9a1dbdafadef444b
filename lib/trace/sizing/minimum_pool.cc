// SPDX-License-Identifier: Apache-2.0
// The restart search of the papers, and the exact answers.
#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/budget/budget.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/blocks/geometry.h"
#include "lib/trace/sizing/exact_pool.h"
#include "lib/trace/sizing/many_pools_arena.h"
#include "lib/trace/sizing/replay.h"
#include "lib/trace/sizing/restart_search.h"
#include "lib/trace/sizing/steps.h"
#include "tidepool/trace/sizing.h"

namespace tidepool {
namespace {

using budget::Budget;
using sizing::ManyPoolsArena;
using sizing::PoolInterval;
using sizing::PoolOutcome;
using sizing::PoolQuestion;
using sizing::PoolSet;
using sizing::RestartResult;

class Finder {
 public:
  Finder(const Trace& trace, PlacementPolicy& policy, const MinimumPoolOptions& options,
         const TraceLoad& load, std::int64_t most_places)
      : trace_(trace),
        policy_(policy),
        options_(options),
        load_(load),
        most_pieces_(sizing::MostPieces(load, most_places)) {}

  absl::StatusOr<MinimumPoolResult> Find() {
    const bool simulates_many =
        !policy_.IsStateful() && ManyPoolsArena::Addresses(load_, options_.alignment) > 0;
    std::vector<sizing::Step> steps;
    if (simulates_many) steps = sizing::ToSteps(trace_, options_.alignment);
    if (absl::Status status = Restart(simulates_many, steps); !status.ok()) return status;
    if (!simulates_many) {
      result_.exact_limit = ExactLimit::kUnsearchable;
      return result_;
    }
    Budget budget(options_.time_limit_seconds, options_.stop);
    absl::StatusOr<PoolQuestion> question = Sample(budget);
    if (!question.ok()) return question.status();
    Read(*question, sizing::SimulateAllPools(steps, load_, policy_, options_, most_pieces_,
                                             *question, budget));
    if (absl::Status status = CheckNotStopped(); !status.ok()) return status;
    if (!result_.exact_pool_bytes.has_value()) return result_;
    if (absl::Status status = Verify(*result_.exact_pool_bytes); !status.ok()) return status;
    return result_;
  }

 private:
  absl::StatusOr<ReplayResult> ReplayIn(std::int64_t pool_bytes) {
    return sizing::ReplayWithLoad(trace_, load_, policy_,
                                  {.pool_bytes = pool_bytes,
                                   .alignment = options_.alignment,
                                   .stop_at_refusal = true,
                                   .stop = options_.stop});
  }
  absl::Status CheckNotStopped() const { return sizing::CheckNotStopped(options_.stop); }

  absl::StatusOr<bool> Serves(std::int64_t pool_bytes) {
    absl::StatusOr<ReplayResult> replay = ReplayIn(pool_bytes);
    if (!replay.ok()) return replay.status();
    return replay->refused == 0;
  }

  absl::Status Verify(std::int64_t pool_bytes) {
    absl::StatusOr<bool> serves = Serves(pool_bytes);
    if (!serves.ok() || *serves) return serves.status();
    return absl::InternalError(absl::StrCat("a replay refuted the pool of ", pool_bytes, " bytes"));
  }

  absl::Status Restart(bool simulates_many, const std::vector<sizing::Step>& steps) {
    if (!simulates_many) return RestartByReplay();
    const RestartResult restart = sizing::SearchByRestart(steps, load_, policy_, options_);
    switch (restart.end) {
      case RestartResult::End::kServed:
        result_.pool_bytes = restart.pool_bytes;
        result_.attempts = restart.attempts;
        return Verify(result_.pool_bytes);
      case RestartResult::End::kUndetermined:
        return RestartByReplay();
      case RestartResult::End::kOutOfSteps:
        return Bisect();
      case RestartResult::End::kStopped:
        return CheckNotStopped();
    }
    return absl::OkStatus();
  }

  absl::Status RestartByReplay() {
    const auto events = static_cast<std::int64_t>(trace_.events.size());
    result_.pool_bytes = load_.peak_live_bytes;
    for (std::int64_t steps_left = options_.most_restart_steps;; steps_left -= events) {
      if (steps_left < events) return Bisect();
      ++result_.attempts;
      absl::StatusOr<ReplayResult> replay = ReplayIn(result_.pool_bytes);
      if (!replay.ok() || replay->refused == 0) return replay.status();
      result_.pool_bytes += replay->first_refused_bytes - replay->largest_free_bytes;
    }
  }

  // Finds, by few replays, a pool that serves the trace and is close to the smallest.
  absl::Status Bisect() {
    constexpr int kMostReplays = 12;
    constexpr int kFinest = 256;  // parts of the peak: precise enough
    result_.gave_up_restarts = true;
    result_.attempts = 0;
    std::int64_t fails = load_.peak_live_bytes - options_.alignment;
    if (absl::Status status = FindServing(&fails); !status.ok()) return status;
    while (result_.attempts < kMostReplays &&
           result_.pool_bytes - fails > load_.peak_live_bytes / kFinest) {
      const std::int64_t middle = Aligned(fails + (result_.pool_bytes - fails) / 2);
      if (middle <= fails) break;
      absl::StatusOr<bool> serves = CountedServes(middle);
      if (!serves.ok()) return serves.status();
      (*serves ? result_.pool_bytes : fails) = middle;
    }
    return absl::OkStatus();
  }

  // Tries the peak and larger and larger pools above it, up to the largest possible arena.
  absl::Status FindServing(std::int64_t* fails) {
    const std::int64_t largest = blocks::MaxArenaBytes(options_.alignment);
    result_.pool_bytes = load_.peak_live_bytes;
    for (std::int64_t more = load_.peak_live_bytes / 8 + options_.alignment;; more *= 2) {
      absl::StatusOr<bool> serves = CountedServes(result_.pool_bytes);
      if (!serves.ok() || *serves) return serves.status();
      if (result_.pool_bytes == largest) break;
      *fails = result_.pool_bytes;
      result_.pool_bytes =
          Aligned(more > largest - load_.peak_live_bytes ? largest : load_.peak_live_bytes + more);
    }
    return absl::InvalidArgumentError(absl::StrCat("no pool up to ", text::ExactSize(largest),
                                                   " serves the trace, expected a smaller trace"));
  }

  absl::StatusOr<bool> CountedServes(std::int64_t pool_bytes) {
    ++result_.attempts;
    return Serves(pool_bytes);
  }

  // Tries some pools around the result of the restart search. A smaller pool that serves, or a
  // larger one that fails, saves the exact search most of its work.
  absl::StatusOr<PoolQuestion> Sample(Budget& budget) {
    constexpr std::int64_t kMostSamples = 256;
    const auto events = static_cast<std::int64_t>(trace_.events.size());
    const std::int64_t samples =
        std::min(kMostSamples, options_.most_steps / 4 / std::max<std::int64_t>(1, events));
    PoolQuestion question = {.serving_pool = result_.pool_bytes};
    const std::int64_t peak = load_.peak_live_bytes;
    for (std::int64_t i = 0; i < samples; ++i) {
      const std::int64_t below = Aligned(peak + (result_.pool_bytes - peak) / samples * i);
      if (below >= question.serving_pool || budget.HasEnded()) break;
      absl::StatusOr<bool> serves = Serves(below);
      if (!serves.ok()) return serves.status();
      if (*serves) question.serving_pool = below;
    }
    const std::int64_t largest = blocks::MaxArenaBytes(options_.alignment);
    for (std::int64_t i = 1; i <= samples && !question.larger_fails && !budget.HasEnded(); ++i) {
      const std::int64_t above = Aligned(question.serving_pool + peak / 2 / samples * i);
      if (above <= question.serving_pool || above > largest) continue;
      absl::StatusOr<bool> serves = Serves(above);
      if (!serves.ok()) return serves.status();
      question.larger_fails = !*serves;
    }
    return question;
  }

  std::int64_t Aligned(std::int64_t pool_bytes) const { return pool_bytes & -options_.alignment; }

  void Read(const PoolQuestion& question, const PoolOutcome& outcome) {
    result_.exact_pieces = outcome.pieces;
    result_.most_exact_pieces = most_pieces_;
    ReadPools(question, outcome);
    if (!result_.exact_pool_bytes.has_value() || !result_.serves_all_larger.has_value()) {
      result_.exact_limit = outcome.limit;
    }
  }

  void ReadPools(const PoolQuestion& question, const PoolOutcome& outcome) {
    std::int64_t smallest = question.serving_pool;
    if (!outcome.serving.empty()) smallest = std::min(smallest, outcome.serving.min());
    if (!outcome.unknown.empty() && outcome.unknown.min() < smallest) return;
    result_.exact_pool_bytes = smallest;
    const PoolSet failing_between = PoolSet(PoolInterval{smallest, question.serving_pool})
                                        .Without(outcome.serving)
                                        .Without(outcome.unknown);
    if (outcome.larger_fails || !failing_between.empty()) {
      result_.serves_all_larger = false;
    } else if (outcome.unknown.empty()) {
      result_.serves_all_larger = true;
    }
  }

  const Trace& trace_;
  PlacementPolicy& policy_;
  const MinimumPoolOptions& options_;
  const TraceLoad& load_;
  const std::int64_t most_pieces_;
  MinimumPoolResult result_;
};

}  // namespace

absl::StatusOr<MinimumPoolResult> sizing::MinimumPoolWithin(const Trace& trace,
                                                            PlacementPolicy& policy,
                                                            const MinimumPoolOptions& options,
                                                            std::int64_t most_places) {
  absl::StatusOr<TraceLoad> load = MeasureLoad(trace, options.alignment);
  if (!load.ok()) return load.status();
  if (trace.allocations.empty())
    return MinimumPoolResult{.exact_pool_bytes = 0, .serves_all_larger = true};
  // The load decides whether an arena can hold the trace; the largest pool needs the most bits.
  absl::StatusOr<ReplayResult> fits = sizing::ReplayWithLoad(trace, *load, policy,
                                                             {.pool_bytes = load->peak_live_bytes,
                                                              .alignment = options.alignment,
                                                              .stop_at_refusal = true,
                                                              .stop = options.stop});
  if (!fits.ok()) return fits.status();
  return Finder(trace, policy, options, *load, most_places).Find();
}

absl::StatusOr<MinimumPoolResult> MinimumPool(const Trace& trace, PlacementPolicy& policy,
                                              const MinimumPoolOptions& options) {
  return sizing::MinimumPoolWithin(trace, policy, options, sizing::kMostPlaces);
}

}  // namespace tidepool
