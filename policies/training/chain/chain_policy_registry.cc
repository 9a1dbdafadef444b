// SPDX-License-Identifier: Apache-2.0
// Finds chain policies by name, and checks their arguments.
#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/budget/budget.h"
#include "lib/base/text/nearest.h"
#include "lib/base/text/sizes.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/chain/recompute_model.h"
#include "policies/training/chain/smallest_blocks.h"
#include "tidepool/training/chain_policy.h"
#include "tidepool/training/machine.h"

namespace tidepool {
namespace {

using chain_policies::ChainPolicy;

std::int64_t EnoughForPofo(const Chain& chain) {
  const chain_policies::RecomputeModel model(chain);
  return std::min({LeastChainMemory(chain), chain_policies::PersistentMemory(chain),
                   chain_policies::FindSmallestBlocks(model, 1).bytes});
}

// Copies with latency go with no recomputation.
std::int64_t EnoughWithLatency(const Chain& chain) {
  return std::min(LeastChainMemory(chain), chain_policies::PersistentMemory(chain));
}

constexpr auto kChainPolicies = std::to_array<ChainPolicy>({
    {.name = "greedy",
     .description = "offloads the first activations of a chain",
     .make = chain_policies::MakeGreedy,
     .enough = LeastChainMemory},
    {.name = "vdnn-ratio",
     .description = "offloads activations of a chain, most time per byte first",
     .make = chain_policies::MakeVdnnRatio,
     .enough = LeastChainMemory},
    {.name = "tflms",
     .description = "offloads the first n activations of a chain, prefetches k operations ahead",
     .make = chain_policies::MakeTflms,
     .enough = ChainPeak},
    {.name = "dynprog",
     .description = "offloads the best set of a chain's activations",
     .make = chain_policies::MakeDynprog,
     .enough = LeastChainMemory},
    {.name = "autoswap",
     .description = "offloads activations of a chain by four scores",
     .make = chain_policies::MakeAutoswap,
     .enough = LeastChainMemory},
    {.name = "recompute",
     .description = "recomputes activations of a chain, offloads nothing",
     .make = chain_policies::MakeRecompute,
     .enough = chain_policies::PersistentMemory,
     .sends = false,
     .recomputes = true},
    {.name = "pofo",
     .description = "offloads or recomputes activations of a chain",
     .make = chain_policies::MakePofo,
     .enough = EnoughForPofo,
     .recomputes = true},
    {.name = "best",
     .description = "the fastest schedule that a search finds; offloads and recomputes data",
     .make = chain_policies::MakeBest,
     .enough = LeastChainMemory,
     .takes_copies = true},
});

absl::Status UnknownPolicy(std::string_view name) {
  const std::vector<std::string> names = text::NearestFirst(name, ChainPolicyNames());
  return absl::NotFoundError(absl::StrCat("no chain policy '",
                                          absl::CHexEscape({name.data(), name.size()}),
                                          "', expected one of ", absl::StrJoin(names, ", ")));
}

// Up to this number of slots the sums of a chain's sizes are exact.
constexpr std::int64_t kMostSlots = 1'000'000;

absl::Status CheckPolicyOptions(const ChainPolicyOptions& options) {
  if (options.slots < 0 || options.slots > kMostSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.slots, " slots, expected 0 to ", kMostSlots));
  }
  if (!(options.time_limit_seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("a time limit of ", options.time_limit_seconds,
                                                   " seconds, expected more than 0"));
  }
  const double latency = options.copies.latency_seconds;
  if (!(latency >= 0 && latency <= kMostTaskSeconds)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a latency of ", latency, " seconds, expected 0 to ", kMostTaskSeconds));
  }
  const double density = options.copies.density;
  if (!(density >= 0 && density <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("a density of ", density, ", expected 0 to 1"));
  }
  if (options.copies.part_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("parts of ", options.copies.part_bytes, " bytes, expected 0 or more"));
  }
  Machine machine;
  machine.devices.front().compressor = options.copies.compressor;
  return ValidateMachine(machine);
}

// Returns the options without a compressor that makes no copy faster.
ChainPolicyOptions WithCompressorThatPays(const Chain& chain, ChainPolicyOptions options) {
  ChainCopies& copies = options.copies;
  if (!chain_policies::RatesOf(chain, copies).GainFromCompression(copies.density)) {
    copies.compressor = {};
    copies.density = ChainCopies().density;
  }
  return options;
}

absl::Status CheckCopies(const ChainPolicy& policy, const ChainCopies& copies) {
  if (policy.takes_copies || copies == ChainCopies()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "policy '", std::string(policy.name),
      "' knows one transfer at a time, whole activations, no latency and no compressor, expected "
      "best for others"));
}

// The operation that needs the most memory by itself.
struct LargestNeed {
  const char* name = "F_";
  std::size_t index = 0;
  std::int64_t bytes = 0;

  void Add(const char* other, std::size_t i, std::int64_t needed) {
    if (needed > bytes) *this = {other, i, needed};
  }
};

absl::Status NeedsMore(const LargestNeed& largest, const Chain& chain) {
  return absl::ResourceExhaustedError(
      absl::StrCat(largest.name, largest.index, " alone needs ", text::ExactSize(largest.bytes),
                   ", and the memory has ", text::ExactSize(chain.memory_bytes)));
}

// Policies that recompute may keep outputs alone.
LargestNeed FindLargestNeed(const Chain& chain, bool recomputes) {
  const bool has_outputs = recomputes && !chain.output.empty();
  LargestNeed largest;
  for (std::size_t i = 0; i < chain.forward_seconds.size(); ++i) {
    const std::int64_t input = has_outputs ? chain.output[i] : chain.x[i];
    std::int64_t forward = chain.x[i + 1] + chain.forward_extra[i];
    if (has_outputs) {
      const std::int64_t extra =
          chain.output_extra.empty() ? chain.forward_extra[i] : chain.output_extra[i];
      forward = std::min(forward, chain.output[i + 1] + extra);
    }
    largest.Add("F_", i, input + forward);
    largest.Add("B_", i,
                input + chain.x[i + 1] + chain.y[i] + chain.y[i + 1] + chain.backward_extra[i]);
  }
  return largest;
}

// Returns the policy with this name, with arguments that it takes.
absl::StatusOr<ChainPolicy> CheckedPolicy(std::string_view name, const Chain& chain,
                                          const ChainPolicyOptions& options) {
  const auto* found = std::find_if(kChainPolicies.begin(), kChainPolicies.end(),
                                   [&](const ChainPolicy& one) { return one.name == name; });
  if (found == kChainPolicies.end()) return UnknownPolicy(name);
  if (absl::Status status = CheckPolicyOptions(options); !status.ok()) return status;
  if (absl::Status status = CheckCopies(*found, options.copies); !status.ok()) return status;
  if (absl::Status status = ValidateChain(chain); !status.ok()) return status;
  ChainPolicy policy = *found;
  const bool is_best = policy.takes_copies;
  if (is_best && options.recomputes && chain_policies::CheckRecomputedLength(chain).ok()) {
    policy.recomputes = true;
    policy.enough = options.copies.latency_seconds > 0 ? EnoughWithLatency : EnoughForPofo;
  }
  return policy;
}

}  // namespace

namespace chain_policies {

absl::Span<const ChainPolicy> ChainPolicies() { return kChainPolicies; }

}  // namespace chain_policies

std::vector<std::string> ChainPolicyNames() {
  std::vector<std::string> names;
  names.reserve(kChainPolicies.size());
  for (const ChainPolicy& policy : kChainPolicies) names.emplace_back(policy.name);
  return names;
}

absl::StatusOr<ChainSchedule> MakeChainSchedule(std::string_view name, const Chain& chain,
                                                const ChainPolicyOptions& options) {
  const absl::StatusOr<ChainPolicy> policy = CheckedPolicy(name, chain, options);
  if (!policy.ok()) return policy.status();
  const LargestNeed largest = FindLargestNeed(chain, policy->recomputes);
  if (largest.bytes > chain.memory_bytes) return NeedsMore(largest, chain);
  ChainPolicyOptions own = WithCompressorThatPays(chain, options);
  bool was_late = false;
  own.was_late = &was_late;
  absl::StatusOr<ChainSchedule> schedule = policy->make(chain, own);
  if (was_late && options.was_late != nullptr) *options.was_late = true;
  const bool is_stopped = options.stop.stop_requested();
  if (is_stopped && absl::IsResourceExhausted(schedule.status())) {
    return absl::CancelledError("the search was stopped before it had a schedule");
  }
  if (!schedule.ok()) return schedule;
  schedule->policy = policy->name;
  schedule->copies = own.copies;
  schedule->stopped = is_stopped && !schedule->proved;
  schedule->timed_out = was_late && !schedule->proved;
  return schedule;
}

absl::StatusOr<std::int64_t> LeastPolicyMemory(std::string_view name, const Chain& chain,
                                               const ChainPolicyOptions& options) {
  const absl::StatusOr<ChainPolicy> policy = CheckedPolicy(name, chain, options);
  if (!policy.ok()) return policy.status();
  if (policy->recomputes) {
    absl::Status status = chain_policies::CheckRecomputedLength(chain);
    if (!status.ok()) return status;
  }
  const ChainPolicyOptions own = WithCompressorThatPays(chain, options);
  budget::Budget budget(options.time_limit_seconds, options.stop);
  Chain smaller = chain;
  std::int64_t enough = policy->enough(chain);
  std::int64_t too_small = FindLargestNeed(chain, policy->recomputes).bytes - 1;
  while (too_small + 1 < enough && !budget.HasEnded()) {
    smaller.memory_bytes = too_small + (enough - too_small) / 2;
    (policy->make(smaller, own).ok() ? enough : too_small) = smaller.memory_bytes;
  }
  return enough;
}

}  // namespace tidepool
