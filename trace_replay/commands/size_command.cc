// SPDX-License-Identifier: Apache-2.0
// The command `size`: the pool that each placement policy needs for a trace.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/plan_answer.h"
#include "trace_replay/commands/planned.h"
#include "trace_replay/commands/policy_sizes.h"
#include "trace_replay/commands/pytorch_forecast.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/commands/ranks.h"
#include "trace_replay/commands/size_search.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

class JobSizes {
 public:
  void Add(Rank rank) { ranks_.push_back(std::move(rank)); }
  // Adds a pool that the last rank needs.
  void AddPool(const std::string& policy, std::int64_t pool_bytes);

  // Whether the memory is enough for each rank; true for negative bytes, which ask nothing.
  bool Fits(std::int64_t memory_bytes) const;
  // Returns JobJson, the largest pool of each policy and, unless `memory_bytes` is negative,
  // whether the job fits: null if the live memory of ranks without history does.
  nlohmann::ordered_json Json(std::int64_t memory_bytes) const;
  // Returns these figures for people.
  std::string Text(std::int64_t memory_bytes) const;

 private:
  struct Pool {
    std::string policy;
    std::int64_t bytes = 0;
    std::size_t rank = 0;
  };

  bool LacksHistory() const;
  std::int64_t needs_bytes() const { return ranks_[WorstRank(ranks_)].needs_bytes; }

  std::vector<Rank> ranks_;
  std::vector<Pool> pools_;
};

void JobSizes::AddPool(const std::string& policy, std::int64_t pool_bytes) {
  const std::size_t rank = ranks_.size() - 1;
  const auto known = std::find_if(pools_.begin(), pools_.end(),
                                  [&](const Pool& pool) { return pool.policy == policy; });
  if (known == pools_.end()) {
    pools_.push_back({policy, pool_bytes, rank});
  } else if (pool_bytes > known->bytes) {
    *known = {policy, pool_bytes, rank};
  }
}

bool JobSizes::LacksHistory() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return !rank.has_history; });
}

bool JobSizes::Fits(std::int64_t memory_bytes) const {
  return memory_bytes < 0 || needs_bytes() <= memory_bytes;
}

nlohmann::ordered_json JobSizes::Json(std::int64_t memory_bytes) const {
  nlohmann::ordered_json json = JobJson(ranks_);
  json["policies"] = nlohmann::ordered_json::array();
  for (const Pool& pool : pools_) {
    json["policies"].push_back(
        {{"policy", pool.policy}, {"pool_bytes", pool.bytes}, {"rank", pool.rank}});
  }
  if (memory_bytes < 0) return json;
  json["fits"] = {{"bytes", memory_bytes},
                  {"fits", Fits(memory_bytes)},
                  {"missing_bytes", needs_bytes() - memory_bytes}};
  if (Fits(memory_bytes) && LacksHistory()) {
    json["fits"]["fits"] = json["fits"]["missing_bytes"] = nullptr;
  }
  return json;
}

std::string JobSizes::Text(std::int64_t memory_bytes) const {
  std::vector<std::vector<std::string>> rows = {{"policy", "largest pool", "rank"}};
  for (const Pool& pool : pools_) {
    rows.push_back(
        {pool.policy, PoolSizeText(pool.bytes), absl::CHexEscape(ranks_[pool.rank].file)});
  }
  std::string text = JobText(ranks_);
  if (!pools_.empty()) absl::StrAppend(&text, "\n", TableText(rows));
  if (memory_bytes < 0) return text;
  absl::StrAppend(&text, "\n");
  for (const Rank& rank : ranks_) {
    const std::int64_t missing = rank.needs_bytes - memory_bytes;
    if (missing <= 0) continue;
    absl::StrAppend(&text, "  ", absl::CHexEscape(rank.file), " does not fit in ",
                    SizeText(memory_bytes), ": ", SizeText(missing), " missing\n");
  }
  if (!Fits(memory_bytes)) return text;
  if (LacksHistory()) {
    return absl::StrCat(text, "  the known needs fit in ", SizeText(memory_bytes),
                        "; whether the ranks of unknown peak do is not known\n");
  }
  return absl::StrCat(text, "  all ranks fit in ", SizeText(memory_bytes), ": ",
                      SizeText(memory_bytes - needs_bytes()), " to spare\n");
}

struct SizeOptions {
  std::vector<std::string> traces;  // one, or the ranks of a job
  std::vector<std::string> policies;
  std::string pytorch_settings;
  std::int64_t alignment = 0;
  ReadOptions read;
  std::int64_t fits_bytes = -1;  // of --fits; -1: not asked
  bool plan = false;
  double time_limit_seconds = 10;
  bool json = false;
};

// The smallest pool of a policy that is known to serve the trace. If PyTorch's allocator fails in
// the memory of --fits, it is the memory in which it never releases anything.
std::int64_t KnownPool(const PolicySize& size) {
  if (size.fails_in_asked_memory) return size.result.pool_bytes;
  return size.result.exact_pool_bytes.value_or(size.result.pool_bytes);
}

bool Fits(const SizeOptions& options, const MeasuredTrace& measured) {
  return options.fits_bytes < 0 || measured.demand.needs_bytes <= options.fits_bytes;
}

// Returns whether only the live memory of a snapshot is known to fit: the job may need more.
bool IsFitUnknown(const SizeOptions& options, const MeasuredTrace& measured) {
  return !measured.trace->has_history && Fits(options, measured);
}

// `missing_bytes` is negative where memory is left over.
nlohmann::ordered_json FitsJson(const SizeOptions& options, const MeasuredTrace& measured,
                                const std::vector<PolicySize>& sizes) {
  nlohmann::ordered_json json = {
      {"bytes", options.fits_bytes},
      {"fits", Fits(options, measured)},
      {"missing_bytes", measured.demand.needs_bytes - options.fits_bytes},
      {"policies", nlohmann::ordered_json::array()}};
  if (IsFitUnknown(options, measured)) json["fits"] = json["missing_bytes"] = nullptr;
  for (const PolicySize& size : sizes) {
    json["policies"].push_back({{"policy", size.policy},
                                {"fits", KnownPool(size) <= options.fits_bytes},
                                {"missing_bytes", KnownPool(size) - options.fits_bytes}});
  }
  return json;
}

nlohmann::ordered_json SizeJson(const SizeOptions& options, const MeasuredTrace& measured,
                                const std::vector<PolicySize>& sizes,
                                const std::optional<Plan>& plan) {
  nlohmann::ordered_json json = {{"trace", TraceJson(measured)},
                                 {"recorded", ReservedJson(measured)},
                                 {"history", measured.trace->has_history},
                                 {"needs_bytes", measured.demand.needs_bytes},
                                 {"policies", nlohmann::ordered_json::array()}};
  for (const PolicySize& size : sizes) {
    json["policies"].push_back(PolicyJson(size, measured.load));
  }
  if (options.fits_bytes >= 0) json["fits"] = FitsJson(options, measured, sizes);
  if (options.plan) json["plan"] = nullptr;
  if (plan.has_value()) json["plan"] = PlanJson(*plan, measured);
  return json;
}

std::vector<std::vector<std::string>> SizeRows(const MeasuredTrace& measured,
                                               const std::vector<PolicySize>& sizes,
                                               const std::optional<Plan>& extra_plan) {
  std::vector<std::vector<std::string>> rows = PolicyRows(sizes, measured.load);
  if (measured.reserved.has_value() && !measured.contradicts) {
    const std::int64_t reserved = measured.reserved->peak_reserved_bytes;
    rows.insert(rows.begin() + 1,
                {"as recorded", SizeText(reserved), RatioText(Overhead(reserved, measured.load))});
  }
  if (extra_plan.has_value()) {
    rows.push_back({"a plan", PoolSizeText(extra_plan->height),
                    RatioText(Overhead(extra_plan->height, measured.load))});
  }
  return rows;
}

// "fits: 1.7 GiB to spare" or "does not fit: 3.2 GiB missing".
std::string FitText(std::int64_t pool_bytes, std::int64_t bytes) {
  return pool_bytes <= bytes
             ? absl::StrCat("fits: ", SizeText(bytes - pool_bytes), " to spare")
             : absl::StrCat("does not fit: ", PoolSizeText(pool_bytes - bytes), " missing");
}

void PrintFits(const SizeOptions& options, const MeasuredTrace& measured,
               const std::vector<PolicySize>& sizes) {
  std::vector<std::vector<std::string>> rows = {
      {absl::StrCat("in ", SizeText(options.fits_bytes)), "needs", ""},
      {"the trace", SizeText(measured.demand.needs_bytes),
       FitText(measured.demand.needs_bytes, options.fits_bytes)}};
  for (const PolicySize& size : sizes) {
    rows.push_back(
        {size.policy, PoolSizeText(KnownPool(size)), FitText(KnownPool(size), options.fits_bytes)});
  }
  std::cout << "\n" << TableText(rows);
}

void PrintWithoutHistory(const SizeOptions& options, const MeasuredTrace& measured) {
  std::vector<std::vector<std::string>> rows;
  if (measured.demand.refused.empty()) {
    rows.push_back({"live when it was taken", SizeText(measured.load.unfreed_bytes)});
  }
  if (measured.reserved.has_value()) {
    rows.push_back({"reserved then", SizeText(measured.reserved->reserved_bytes)});
  }
  std::cout << TableText(rows);
  if (options.fits_bytes < 0) return;
  std::cout << "\n  " << SizeText(options.fits_bytes) << ": "
            << (Fits(options, measured)
                    ? absl::StrCat(HeldText(measured), " fits; whether the job fits is not known")
                    : absl::StrCat("does not fit: ",
                                   SizeText(measured.demand.needs_bytes - options.fits_bytes),
                                   " missing for ", HeldText(measured), " alone"))
            << "\n";
}

std::vector<std::string> PoliciesOf(const std::vector<PolicySize>& sizes) {
  std::vector<std::string> names;
  names.reserve(sizes.size());
  for (const PolicySize& size : sizes) names.push_back(size.policy);
  return names;
}

void PrintSizeTable(const SizeOptions& options, const std::string& path,
                    const MeasuredTrace& measured, const SizeAnswer& answer, bool lists_planned) {
  const auto& [sizes, plan, streams] = answer;
  PrintTraceLine(path, measured);
  if (!measured.trace->has_history) {
    PrintWithoutHistory(options, measured);
    return;
  }
  std::cout << TableText(SizeRows(measured, sizes, lists_planned ? std::nullopt : plan));
  std::vector<std::string> notes = LimitNotes(sizes);
  absl::c_move(PyTorchNotes(PoliciesOf(sizes), *measured.trace, options.pytorch_settings),
               std::back_inserter(notes));
  for (const PolicySize& size : sizes) {
    if (size.policy != PyTorchPolicyNames().front()) continue;
    const std::string unknown = UnknownBeginningText(*measured.trace, size.result.pool_bytes);
    if (!unknown.empty()) notes.push_back(unknown);
  }
  if (!notes.empty()) std::cout << "\n  " << absl::StrJoin(notes, "\n  ") << "\n";
  if (plan.has_value()) std::cout << "\n  the plan is " << PlanText(*plan, measured) << "\n";
  if (!streams.empty()) {
    std::cout << "\n  " << streams
              << ": streams wait for memory of each other in these pools, but not in those without "
                 "waits\n";
  }
  if (options.fits_bytes >= 0) PrintFits(options, measured, sizes);
}

// Returns the policies to size: those that the user named, or all; PyTorch's allocator is one of
// them for its own traces.
std::vector<std::string> NamesFor(const SizeOptions& options, std::vector<std::string> policies,
                                  const Trace& trace) {
  if (!options.policies.empty() || !IsFromPyTorch(trace)) return policies;
  absl::c_move(PyTorchPolicyNames(), std::back_inserter(policies));
  return policies;
}

// A trace that was read, and the pools that it needs.
struct SizedTrace {
  MeasuredTrace measured;
  SizeAnswer answer;
  bool lists_planned = false;
};

absl::StatusOr<SizedTrace> SizeTrace(const SizeOptions& options, const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> policies = PolicyNames(options.policies);
  if (!policies.ok()) return policies.status();
  absl::StatusOr<MeasuredTrace> measured = ReadRequests(path, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  const std::vector<std::string> names = NamesFor(options, *policies, *measured->trace);
  if (absl::Status status = CheckPyTorchSettings(options.pytorch_settings, names); !status.ok()) {
    return status;
  }
  // The pools of policies would say nothing about a job with an unknown peak.
  if (!measured->trace->has_history) return SizedTrace{*std::move(measured), {}, false};
  absl::StatusOr<SizeAnswer> answer = FindSizes({.policies = names,
                                                 .are_asked_for = !options.policies.empty(),
                                                 .pytorch_settings = options.pytorch_settings,
                                                 .fits_bytes = options.fits_bytes,
                                                 .plan = options.plan,
                                                 .time_limit_seconds = options.time_limit_seconds},
                                                *measured);
  if (!answer.ok()) return AboutFile(path, answer.status());
  return SizedTrace{*std::move(measured), *std::move(answer), absl::c_any_of(names, NeedsPlan)};
}

absl::StatusOr<Answer> RunJob(const SizeOptions& options) {
  JobSizes job;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::string& path : options.traces) {
    const absl::StatusOr<SizedTrace> sized = SizeTrace(options, path);
    if (!sized.ok()) return sized.status();
    const auto& [measured, answer, lists_planned] = *sized;
    job.Add(RankOf(path, measured));
    for (const PolicySize& size : answer.sizes) job.AddPool(size.policy, KnownPool(size));
    if (answer.plan.has_value() && !lists_planned) job.AddPool("a plan", answer.plan->height);
    nlohmann::ordered_json json = {{"file", path}};
    json.update(SizeJson(options, measured, answer.sizes, answer.plan));
    list.push_back(std::move(json));
  }
  if (options.json) {
    nlohmann::ordered_json json = job.Json(options.fits_bytes);
    json["ranks"] = std::move(list);
    PrintJson(json);
  } else {
    std::cout << job.Text(options.fits_bytes);
  }
  return job.Fits(options.fits_bytes) ? Answer::kYes : Answer::kNo;
}

absl::StatusOr<Answer> RunSize(const SizeOptions& options) {
  if (options.traces.size() > 1) return RunJob(options);
  const std::string& path = options.traces.front();
  const absl::StatusOr<SizedTrace> sized = SizeTrace(options, path);
  if (!sized.ok()) return sized.status();
  const auto& [measured, answer, lists_planned] = *sized;
  if (options.json) {
    PrintJson(SizeJson(options, measured, answer.sizes, answer.plan));
  } else {
    PrintSizeTable(options, path, measured, answer, lists_planned);
  }
  return Fits(options, measured) ? Answer::kYes : Answer::kNo;
}

}  // namespace

Command AddSize(CLI::App& app) {
  auto options = std::make_shared<SizeOptions>();
  CLI::App* size =
      app.add_subcommand("size",
                         "Finds the smallest pool that each placement policy needs, for "
                         "a trace or for each rank of a job");
  size->group("Traces");
  AddRanksArgument(*size, options->traces);
  AddPoliciesOption(*size, options->policies);
  AddPyTorchSettingsOption(*size, options->pytorch_settings);
  size->add_flag("--plan", options->plan,
                 "Also plan the trace, and print how near the plan is to the lower bound");
  AddSizeOption(*size, "--fits", options->fits_bytes,
                "Does the trace fit into this memory? Exit status 2 if it needs more; also prints "
                "the difference for each policy");
  AddTimeLimitOption(*size, options->time_limit_seconds,
                     "Stop the search for a plan after this time with the best plan so far, and "
                     "the exact search of each policy without an answer");
  AddAlignOption(*size, options->alignment);
  AddTraceDeviceOption(*size, options->read);
  AddJsonOption(*size, options->json);
  AddExamples(*size, {"tidepool size examples/traces/vgg16-b4-sgd.rmm.csv.gz",
                      "tidepool size snapshot.pickle --fits 80GiB",
                      "tidepool size rank0.pickle rank1.pickle --fits 80GiB",
                      "tidepool size step.tide --policy best-fit --plan --time-limit 60s"});
  return {size, [options] { return RunSize(*options); }};
}

}  // namespace tidepool::tool
