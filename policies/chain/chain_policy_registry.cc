// SPDX-License-Identifier: Apache-2.0
// Finds chain policies by name, and checks their arguments.
#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/text/nearest_first.h"
#include "lib/text/sizes.h"
#include "policies/chain/chain_policies.h"
#include "tidepool/schedule/chain_policy.h"
#include "tidepool/schedule/machine.h"

namespace tidepool {
namespace {

struct NamedChainPolicy {
  const char* name;
  absl::StatusOr<ChainSchedule> (*make)(const Chain& chain, const ChainPolicyOptions& options);
  bool recomputes = false;
  bool takes_copies = false;
};
constexpr auto kChainPolicies = std::to_array<NamedChainPolicy>({
    {"greedy", chain_policies::MakeGreedy},
    {"dynprog", chain_policies::MakeDynprog},
    {"vdnn-ratio", chain_policies::MakeVdnnRatio},
    {"autoswap", chain_policies::MakeAutoswap},
    {"tflms", chain_policies::MakeTflms},
    {"best", chain_policies::MakeBest, false, true},
    {"pofo", chain_policies::MakePofo, true},
    {"recompute", chain_policies::MakeRecompute, true},
});

absl::Status UnknownPolicy(std::string_view name) {
  const std::vector<std::string> names =
      text::NearestFirst({name.data(), name.size()}, ChainPolicyNames());
  return absl::NotFoundError(absl::StrCat("no chain policy '",
                                          absl::CHexEscape({name.data(), name.size()}),
                                          "', expected one of ", absl::StrJoin(names, ", ")));
}

// The sums of a chain's sizes in so many slots are exact numbers.
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

absl::Status CheckCopies(const NamedChainPolicy& policy, const ChainCopies& copies) {
  if (policy.takes_copies || copies == ChainCopies()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "policy '", policy.name,
      "' knows one transfer at a time, whole activations, no latency and no compressor, expected "
      "best for others"));
}

absl::Status NeedsMore(const char* operation, std::size_t i, std::int64_t bytes,
                       const Chain& chain) {
  return absl::ResourceExhaustedError(
      absl::StrCat(operation, i, " alone needs ", text::ExactSize(bytes), ", and the memory has ",
                   text::ExactSize(chain.memory_bytes), "; the chain runs in ",
                   text::ExactSize(LeastChainMemory(chain))));
}

// Policies that recompute may keep outputs alone.
Chain WithoutOutputs(const Chain& chain) {
  Chain plain = chain;
  plain.output.clear();
  plain.output_extra.clear();
  return plain;
}

absl::Status CheckOperationsFit(const Chain& chain) {
  const bool has_outputs = !chain.output.empty();
  for (std::size_t i = 0; i < chain.forward_seconds.size(); ++i) {
    const std::int64_t input = has_outputs ? chain.output[i] : chain.x[i];
    std::int64_t forward = chain.x[i + 1] + chain.forward_extra[i];
    if (has_outputs) {
      const std::int64_t extra =
          chain.output_extra.empty() ? chain.forward_extra[i] : chain.output_extra[i];
      forward = std::min(forward, chain.output[i + 1] + extra);
    }
    if (input + forward > chain.memory_bytes) return NeedsMore("F_", i, input + forward, chain);
    const std::int64_t backward =
        input + chain.x[i + 1] + chain.y[i] + chain.y[i + 1] + chain.backward_extra[i];
    if (backward > chain.memory_bytes) return NeedsMore("B_", i, backward, chain);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> ChainPolicyNames() {
  std::vector<std::string> names;
  names.reserve(kChainPolicies.size());
  for (const NamedChainPolicy& policy : kChainPolicies) names.emplace_back(policy.name);
  return names;
}

absl::StatusOr<ChainSchedule> MakeChainSchedule(std::string_view policy, const Chain& chain,
                                                const ChainPolicyOptions& options) {
  const auto* found = std::find_if(kChainPolicies.begin(), kChainPolicies.end(),
                                   [&](const NamedChainPolicy& one) { return one.name == policy; });
  if (found == kChainPolicies.end()) return UnknownPolicy(policy);
  if (absl::Status status = CheckPolicyOptions(options); !status.ok()) return status;
  if (absl::Status status = CheckCopies(*found, options.copies); !status.ok()) return status;
  if (absl::Status status = ValidateChain(chain); !status.ok()) return status;
  absl::Status fits = CheckOperationsFit(found->recomputes ? chain : WithoutOutputs(chain));
  if (!fits.ok()) return fits;
  const ChainPolicyOptions own = WithCompressorThatPays(chain, options);
  absl::StatusOr<ChainSchedule> schedule = found->make(chain, own);
  const bool is_stopped = options.stop.stop_requested();
  if (is_stopped && absl::IsResourceExhausted(schedule.status())) {
    return absl::CancelledError("the search was stopped before it had a schedule");
  }
  if (!schedule.ok()) return schedule;
  schedule->policy = found->name;
  schedule->copies = own.copies;
  schedule->stopped = is_stopped && !schedule->proved;
  return schedule;
}

}  // namespace tidepool
