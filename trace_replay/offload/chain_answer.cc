// SPDX-License-Identifier: Apache-2.0
// Prints schedules of chains as JSON and as a table.
#include "trace_replay/offload/chain_answer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <numeric>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/training/offload_policy.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/offload/timeline_answer.h"
#include "trace_replay/text.h"
#include "trace_replay/wrong_file.h"

namespace tidepool::tool {
namespace {

using Json = nlohmann::ordered_json;
using Indices = std::vector<std::size_t>;

// Names of actions, in the order of ChainAction. "Fo" keeps the output alone.
constexpr std::array<const char*, 6> kActionNames = {"F", "B", "offload", "prefetch", "drop", "Fo"};

// A schedule, and the time that it took to make it.
struct MadeChainSchedule {
  Chain chain;
  ChainSchedule schedule;
  double seconds = 0;
};

std::vector<double> StartsAt(const ChainSchedule& schedule, ChainAction action,
                             const Indices& indices, std::size_t operations) {
  const std::vector<double> all = FirstStarts(schedule, action, operations);
  std::vector<double> starts;
  starts.reserve(indices.size());
  for (const std::size_t i : indices) starts.push_back(all[i]);
  return starts;
}

Json StepsJson(const ChainSchedule& schedule) {
  Json steps = Json::array();
  for (const ChainStep& step : schedule.steps) {
    Json one = {kActionNames[static_cast<std::size_t>(step.action)], step.index,
                step.start_seconds};
    if (step.end >= 0) {
      one.push_back(step.begin);
      one.push_back(step.end);
    }
    steps.push_back(std::move(one));
  }
  return steps;
}

Json RatioJson(const ChainSchedule& schedule) {
  if (schedule.lower_bound_seconds > 0) return schedule.seconds / schedule.lower_bound_seconds;
  return schedule.seconds > 0 ? Json(nullptr) : Json(1);
}

// Returns the least memory of the policy, from a search of about half a second at most.
std::int64_t LeastMemoryOf(const ChainCommandOptions& options, const Chain& chain) {
  constexpr double kSearchSeconds = 0.5;
  ChainPolicyOptions choices = options.choices;
  choices.time_limit_seconds = std::min(choices.time_limit_seconds, kSearchSeconds);
  const absl::StatusOr<std::int64_t> least = LeastPolicyMemory(options.policy, chain, choices);
  return least.ok() ? *least : LeastChainMemory(chain);
}

EndedBy EndOf(const ChainSchedule& schedule) {
  return schedule.proved      ? EndedBy::kProof
         : schedule.stopped   ? EndedBy::kInterrupt
         : schedule.timed_out ? EndedBy::kClock
                              : EndedBy::kWork;
}

Json ChainAnswerJson(const ChainCommandOptions& options, const MadeChainSchedule& made) {
  const ChainSchedule& schedule = made.schedule;
  const std::size_t operations = made.chain.forward_seconds.size();
  const Indices offloaded = OffloadedIndices(schedule);
  return {
      {"policy", schedule.policy},
      {"fits", true},
      {"offloaded", offloaded},
      {"recomputed", RecomputedIndices(schedule)},
      {"makespan", schedule.seconds},
      {"lower_bound", schedule.lower_bound_seconds},
      {"ratio", RatioJson(schedule)},
      {"proved", schedule.proved},
      {"interrupted", schedule.stopped},
      {"ended_by", EndedByName(EndOf(schedule))},
      {"seconds", made.seconds},
      {"F_start", FirstStarts(schedule, ChainAction::kForward, operations)},
      {"B_start", FirstStarts(schedule, ChainAction::kBackward, operations)},
      {"offload_start", StartsAt(schedule, ChainAction::kOffload, offloaded, operations)},
      {"prefetch_start", StartsAt(schedule, ChainAction::kPrefetch, offloaded, operations)},
      {"steps", StepsJson(schedule)},
      {"duplex", schedule.copies.full_duplex},
      {"latency_seconds", schedule.copies.latency_seconds},
      {"compressed", schedule.copies.compressor.exists()},
      {"part_bytes", schedule.copies.part_bytes},
      {"memory_bytes", made.chain.memory_bytes},
      {"M_peak", ChainPeak(made.chain)},
      {"min_memory", LeastMemoryOf(options, made.chain)},
      {"paper_lower_bound", ChainLowerBound(made.chain)},
  };
}

// 0, 1, 2, 5 -> "0-2, 5".
std::string RangesText(const Indices& indices) {
  std::vector<std::string> ranges;
  for (std::size_t k = 0; k < indices.size();) {
    std::size_t last = k;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    ranges.push_back(last == k ? absl::StrCat(indices[k])
                               : absl::StrCat(indices[k], "-", indices[last]));
    k = last + 1;
  }
  return ranges.empty() ? "none" : absl::StrJoin(ranges, ", ");
}

// Returns the bytes of each activation that leave.
std::vector<std::int64_t> SentBytes(const MadeChainSchedule& made) {
  const std::vector<std::int64_t>& all = made.chain.x;
  std::vector<std::int64_t> sent(all.size());
  for (const ChainStep& step : made.schedule.steps) {
    if (step.action != ChainAction::kOffload) continue;
    const std::int64_t bytes = step.end < 0 ? all[step.index] : step.end - step.begin;
    sent[step.index] = std::min(sent[step.index] + bytes, all[step.index]);
  }
  return sent;
}

std::string BoundText(const ChainSchedule& schedule) {
  if (schedule.proved) return "the optimum of this policy's schedules";
  if (schedule.lower_bound_seconds <= 0) return "no bound above 0";
  return absl::StrCat(RatioText(schedule.seconds / schedule.lower_bound_seconds),
                      " the lower bound of ", MillisecondsText(schedule.lower_bound_seconds));
}

std::string CopiesText(const ChainCopies& copies) {
  return absl::StrCat(
      copies.full_duplex ? ", both directions at once" : ", one transfer at a time",
      copies.latency_seconds > 0
          ? absl::StrCat(", latency ", MillisecondsText(copies.latency_seconds))
          : "",
      copies.compressor.exists() ? ", compressed" : "",
      copies.part_bytes > 0 ? absl::StrCat(", parts of ", SizeText(copies.part_bytes)) : "");
}

void PrintTransfers(const MadeChainSchedule& made, const Indices& offloaded,
                    const std::vector<std::int64_t>& sent) {
  if (offloaded.empty()) return;
  const std::size_t operations = made.chain.forward_seconds.size();
  const auto out = FirstStarts(made.schedule, ChainAction::kOffload, operations);
  const auto in = FirstStarts(made.schedule, ChainAction::kPrefetch, operations);
  const auto text = [](double start) { return start < 0 ? "-" : MillisecondsText(start); };
  std::vector<std::vector<std::string>> rows = {{"  activation", "bytes", "leaves", "returns"}};
  for (const std::size_t i : offloaded) {
    rows.push_back({absl::StrCat("  x_", i), SizeText(sent[i]), text(out[i]), text(in[i])});
  }
  std::cout << '\n' << TableText(rows);
}

void PrintChainTable(const ChainCommandOptions& options, const MadeChainSchedule& made) {
  const Chain& chain = made.chain;
  const ChainSchedule& schedule = made.schedule;
  const Indices offloaded = OffloadedIndices(schedule);
  const Indices recomputed = RecomputedIndices(schedule);
  const std::vector<std::int64_t> sent = SentBytes(made);
  const std::int64_t all_sent = std::accumulate(sent.begin(), sent.end(), std::int64_t{0});
  const std::string early_end = EarlyEndText(EndOf(schedule));
  std::cout << absl::CHexEscape(options.path) << "\n  " << chain.forward_seconds.size()
            << " operations each way, " << schedule.policy << ", memory "
            << SizeText(chain.memory_bytes) << " of " << SizeText(ChainPeak(chain))
            << " for all data,\n  link " << RateText(chain.link_bytes_per_second)
            << CopiesText(schedule.copies) << "\n\n"
            << TableText({{"  iteration", MillisecondsText(schedule.seconds)},
                          {"    operations alone", MillisecondsText(ChainSeconds(chain))},
                          {"  offloaded", SizeText(all_sent)}})
            << "\n  " << BoundText(schedule)
            << (early_end.empty() ? "" : absl::StrCat("\n  ", early_end))
            << "\n  offloaded: " << RangesText(offloaded)
            << "\n  recomputed: " << RangesText(recomputed) << '\n';
  PrintTransfers(made, offloaded, sent);
}

Answer PrintPolicyDoesNotFit(const ChainCommandOptions& options, const Chain& chain,
                             const absl::Status& status) {
  const std::int64_t least = LeastMemoryOf(options, chain);
  return PrintChainDoesNotFit(options, chain.memory_bytes,
                              absl::StrCat(std::string(status.message()), "; ", options.policy,
                                           " runs the chain in ", ExactSizeText(least)),
                              {{"M_peak", ChainPeak(chain)}, {"min_memory", least}});
}

absl::Status SetCompressor(const OffloadCommandOptions& point, ChainCopies& copies) {
  if (point.machine.compressor.has_value() != point.density.has_value()) {
    return absl::InvalidArgumentError(
        "--compressor and --density: each compresses nothing without the other: give both or none");
  }
  const absl::StatusOr<CopyCompressor> compressor = CompressorOf(point.machine);
  if (!compressor.ok()) return compressor.status();
  copies.compressor = *compressor;
  copies.density = point.density.value_or(1);
  return absl::OkStatus();
}

absl::Status WriteOutput(const ChainCommandOptions& options, const Chain& chain) {
  if (options.output.empty()) return absl::OkStatus();
  if (!options.is_output_rotor) return WriteChain(chain, options.output);
  return WriteFile(options.output, [&](std::ostream& out) {
    out << RotorChainJson(chain);
    return absl::OkStatus();
  });
}

absl::StatusOr<Chain> ReadChainOf(const ChainCommandOptions& options) {
  if (options.chain.has_value()) return *options.chain;
  absl::StatusOr<Chain> chain = ReadChain(options.path);
  if (!chain.ok()) return NoChain(options.path, chain.status());
  if (!options.memory_bytes.has_value()) return chain;
  chain->memory_bytes = *options.memory_bytes;
  if (absl::Status status = ValidateChain(*chain); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--memory: ", std::string(status.message())));
  }
  return chain;
}

absl::Status WriteAnswer(const ChainCommandOptions& options, const MadeChainSchedule& made) {
  if (options.answer.empty()) return absl::OkStatus();
  return WriteFile(options.answer, [&](std::ostream& out) {
    out << ChainAnswerJson(options, made) << '\n';
    return absl::OkStatus();
  });
}

}  // namespace

Answer PrintChainDoesNotFit(const ChainCommandOptions& options, std::int64_t memory_bytes,
                            const std::string& why, const nlohmann::ordered_json& more) {
  if (options.json) {
    Json json = {{"policy", options.policy}, {"fits", false}, {"why", why}};
    for (const char* key : {"offloaded", "recomputed", "makespan", "lower_bound", "ratio"}) {
      json[key] = nullptr;
    }
    json["proved"] = json["interrupted"] = false;
    for (const char* key :
         {"ended_by", "seconds", "F_start", "B_start", "offload_start", "prefetch_start", "steps",
          "duplex", "latency_seconds", "compressed", "part_bytes"}) {
      json[key] = nullptr;
    }
    json["memory_bytes"] = memory_bytes;
    for (const char* key : {"M_peak", "min_memory", "paper_lower_bound"}) json[key] = nullptr;
    json.update(more);
    PrintJson(json);
  } else {
    std::cout << absl::CHexEscape(options.path) << "\n  does not fit in " << SizeText(memory_bytes)
              << ": " << why << '\n';
  }
  return Answer::kNo;
}

absl::Status CheckTakenByChains(const CLI::App& app, const std::string& path) {
  constexpr std::array<std::string_view, 14> kTaken = {
      "GRAPH",        "--output",       "--memory",    "--policy",  "--json",
      "--slots",      "--time-limit",   "--seed",      "--latency", "--density",
      "--compressor", "--decompressor", "--recompute", "--part"};
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || absl::c_linear_search(kTaken, name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": an option for graphs, and ", absl::CHexEscape(path),
                     " is a chain, expected an option of `tidepool chain --help`"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChainCommandOptions> ChainOptionsOf(const CLI::App& app,
                                                   const OffloadCommandOptions& point) {
  ChainCommandOptions chain = {
      .path = point.graph, .choices = point.choice.chain, .json = point.json};
  if (app.count("--policy") > 0) chain.policy = point.policy;
  if (app.count("--recompute") > 0 && chain.policy != "best") {
    return absl::InvalidArgumentError(absl::StrCat("--recompute: policy ",
                                                   absl::CHexEscape(chain.policy),
                                                   " has no such option, expected it with best"));
  }
  chain.choices.stop = StopAtInterrupt();
  if (absl::Status status = SetCompressor(point, chain.choices.copies); !status.ok()) {
    return status;
  }
  chain.choices.copies.part_bytes = point.choice.part_bytes;
  chain.choices.copies.latency_seconds = point.machine.latency_seconds.value_or(0);
  chain.choices.recomputes = point.choice.recompute == "on";
  chain.memory_bytes = point.machine.memory_bytes;
  return chain;
}

absl::StatusOr<Answer> PrintChainSchedule(const ChainCommandOptions& options) {
  const absl::StatusOr<Chain> chain = ReadChainOf(options);
  if (!chain.ok()) return chain.status();
  if (options.output == "/dev/stdout") {  // the chain is the answer
    const absl::Status status = WriteOutput(options, *chain);
    return status.ok() ? absl::StatusOr<Answer>(Answer::kYes) : status;
  }
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<ChainSchedule> schedule =
      MakeChainSchedule(options.policy, *chain, options.choices);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  if (absl::IsNotFound(schedule.status())) {
    return absl::NotFoundError(
        absl::StrCat("--policy: ", std::string(schedule.status().message())));
  }
  const bool fits = !absl::IsResourceExhausted(schedule.status());
  if (fits && !schedule.ok()) return AboutFile(options.path, schedule.status());
  // Not before: a command that fails writes nothing.
  if (absl::Status status = WriteOutput(options, *chain); !status.ok()) return status;
  if (!fits) return PrintPolicyDoesNotFit(options, *chain, schedule.status());
  if (absl::Status status = CheckChainSchedule(*chain, *schedule); !status.ok()) {
    return AboutFile(options.path, status);
  }
  const MadeChainSchedule made = {*chain, *schedule, passed.count()};
  if (absl::Status status = WriteAnswer(options, made); !status.ok()) return status;
  if (options.answer == "/dev/stdout") return Answer::kYes;
  if (options.json) {
    PrintJson(ChainAnswerJson(options, made));
  } else {
    PrintChainTable(options, made);
  }
  return Answer::kYes;
}

}  // namespace tidepool::tool
