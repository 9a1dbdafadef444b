// SPDX-License-Identifier: Apache-2.0
// The command `plan`: an offset for every allocation of a trace.
#include <algorithm>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/arithmetic.h"
#include "tidepool/trace/phases.h"
#include "tidepool/trace/region_needs.h"
#include "tidepool/trace/trace_plan.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/plan_answer.h"
#include "trace_replay/interrupt.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct PlanCommandOptions {
  std::string trace;
  std::string output;
  std::int64_t capacity = -1;  // -1: no limit
  std::int64_t alignment = 0;
  double time_limit_seconds = 10;
  bool regions = false;
  std::vector<std::string> without;
  std::int64_t block = -1;  // -1: none
  ReadOptions read;
  bool json = false;
};

// Returns the first of the largest allocations.
std::size_t Largest(const Trace& trace) {
  const auto smaller = [](const TraceAllocation& a, const TraceAllocation& b) {
    return a.bytes < b.bytes;
  };
  return static_cast<std::size_t>(
      std::max_element(trace.allocations.begin(), trace.allocations.end(), smaller) -
      trace.allocations.begin());
}

// Answers without a search: one allocation alone is larger than the capacity.
Answer PrintTooLarge(const PlanCommandOptions& options, const MeasuredTrace& measured,
                     std::size_t largest, std::int64_t bytes) {
  const std::string id(measured.trace->allocation_ids[largest]);
  if (options.json) {
    PrintJson({{"pool_bytes", nullptr},
               {"overhead", nullptr},
               {"lower_bound_bytes", std::max(measured.load.peak_live_bytes, bytes)},
               {"optimal", false},
               {"seconds", 0},
               {"timed_out", false},
               {"interrupted", false},
               {"history", measured.trace->has_history},
               {"buffers", measured.trace->allocations.size()},
               {"fits", false},
               {"too_large", {{"id", id}, {"bytes", bytes}}}});
  } else {
    PrintTraceLine(options.trace, measured);
    std::cout << "  does not fit: allocation " << absl::CHexEscape(id) << " alone needs "
              << SizeText(bytes) << ", the capacity is " << SizeText(options.capacity) << "\n";
  }
  return Answer::kNo;
}

void PrintPlan(const PlanCommandOptions& options, const MeasuredTrace& measured, const Plan& plan,
               bool fits) {
  const bool has_capacity = options.capacity >= 0;
  if (options.json) {
    nlohmann::ordered_json json = PlanJson(plan, measured);
    json["history"] = measured.trace->has_history;
    json["buffers"] = measured.trace->allocations.size();
    json["fits"] = nullptr;
    if (has_capacity) json["fits"] = fits;
    PrintJson(json);
    return;
  }
  PrintTraceLine(options.trace, measured);
  std::cout << "  plan: " << PoolSizeText(plan.height);
  if (measured.trace->has_history) {
    std::cout << ", " << RatioText(Overhead(plan.height, measured.load))
              << " of peak live: " << PlanText(plan, measured) << "\n";
  } else {
    std::cout << " for " << HeldText(measured) << "; the job may need more\n";
  }
  if (has_capacity) {
    std::cout << (fits ? "  fits into " : "  does not fit into ") << SizeText(options.capacity)
              << "\n";
  }
}

// The needed bytes, and the most that are needed at any time, also where there is no room for
// blocks beside them.
struct Needed {
  std::int64_t bytes = 0;
  std::int64_t most = 0;
};

// Returns how many blocks fit beside the needed bytes, if their size and the capacity were given.
std::optional<std::int64_t> BlocksBeside(const PlanCommandOptions& options, const Needed& needed) {
  if (options.block < 0) return std::nullopt;
  if (needed.most > options.capacity) return 0;
  return (options.capacity - needed.bytes) / options.block;
}

// Adds whether the needed bytes fit.
void AddFit(const PlanCommandOptions& options, const Needed& needed, nlohmann::ordered_json& json) {
  json["fits"] = nullptr;
  json["blocks"] = nullptr;
  if (options.capacity >= 0) json["fits"] = needed.most <= options.capacity;
  if (const auto blocks = BlocksBeside(options, needed); blocks.has_value())
    json["blocks"] = *blocks;
}

void PrintFit(const PlanCommandOptions& options, const Needed& needed) {
  if (options.capacity < 0) return;
  std::cout << (needed.most <= options.capacity ? "  fits into " : "  does not fit into ")
            << SizeText(options.capacity);
  if (const auto blocks = BlocksBeside(options, needed); blocks.has_value()) {
    std::cout << ", beside " << CountText(*blocks) << " blocks of " << SizeText(options.block);
  }
  std::cout << "\n";
}

// The phases need memory beside the ones that are left out, and before them.
Needed NeededOf(const PhaseNeeds& needs) {
  return {needs.needed, std::max(needs.needed, needs.before)};
}

void PrintPhasesJson(const PlanCommandOptions& options, const PhaseNeeds& needs) {
  nlohmann::ordered_json json = {{"phases", nlohmann::ordered_json::array()},
                                 {"kept_bytes", needs.kept},
                                 {"handed_bytes", needs.handed},
                                 {"areas", needs.areas},
                                 {"work_bytes", needs.work},
                                 {"needed_bytes", needs.needed},
                                 {"before_bytes", needs.before}};
  for (const PhaseNeed& phase : needs.phases) {
    json["phases"].push_back({{"name", phase.name},
                              {"times", phase.times},
                              {"kept_bytes", phase.kept},
                              {"handed_bytes", phase.handed},
                              {"work_bytes", phase.work},
                              {"beside_bytes", phase.beside}});
  }
  AddFit(options, NeededOf(needs), json);
  PrintJson(json);
}

// Prints a row for each phase that keeps memory beside a full cache, and one for the phases before.
void PrintBesideLeftOut(const PlanCommandOptions& options, const PhaseNeeds& needs) {
  const std::string left_out = absl::CHexEscape(absl::StrJoin(options.without, ", "));
  for (const PhaseNeed& phase : needs.phases) {
    if (phase.beside == 0) continue;
    std::cout << "  " << absl::CHexEscape(phase.name) << " beside a full " << left_out << " needs "
              << SizeText(phase.beside) << " of it\n";
  }
  std::cout << "  the phases before " << left_out << " need " << SizeText(needs.before) << "\n";
}

std::string NameOfPhase(const std::string& name) {
  return name.empty() ? "(outside)" : absl::CHexEscape(name);
}

void PrintPhases(const PlanCommandOptions& options, const MeasuredTrace& measured,
                 const PhaseNeeds& needs) {
  PrintTraceLine(options.trace, measured);
  std::vector<std::vector<std::string>> rows = {
      {"phase", "times", "keeps", "hands on", "works in"}};
  for (const PhaseNeed& phase : needs.phases) {
    rows.push_back({NameOfPhase(phase.name), CountText(phase.times), SizeText(phase.kept),
                    SizeText(phase.handed), SizeText(phase.work)});
  }
  std::cout << TableText(rows);
  std::cout << "\n  any order needs " << SizeText(needs.needed) << ": " << SizeText(needs.kept)
            << " kept, " << needs.areas << " x " << SizeText(needs.handed) << " handed on, "
            << SizeText(needs.work) << " to work in\n";
  if (!options.without.empty()) PrintBesideLeftOut(options, needs);
  PrintFit(options, NeededOf(needs));
}

Answer FitAnswer(const PlanCommandOptions& options, std::int64_t needed) {
  return options.capacity < 0 || needed <= options.capacity ? Answer::kYes : Answer::kNo;
}

NeedsOptions NeedsOptionsOf(const PlanCommandOptions& options, const MeasuredTrace& measured) {
  return {.alignment = measured.alignment,
          .without = options.without,
          .time_limit_seconds = options.time_limit_seconds,
          .stop = StopAtInterrupt()};
}

absl::StatusOr<Answer> RunPhases(const PlanCommandOptions& options, const MeasuredTrace& measured) {
  const absl::StatusOr<PhaseNeeds> needs =
      FindPhaseNeeds(*measured.trace, NeedsOptionsOf(options, measured));
  if (!needs.ok()) return AboutFile(options.trace, needs.status());
  if (options.json) {
    PrintPhasesJson(options, *needs);
  } else {
    PrintPhases(options, measured, *needs);
  }
  return FitAnswer(options, NeededOf(*needs).most);
}

void PrintRegionNeedsJson(const PlanCommandOptions& options, const MeasuredTrace& measured,
                          const RegionNeeds& needs) {
  nlohmann::ordered_json json = {{"regions", nlohmann::ordered_json::array()},
                                 {"peak_awake_bytes", needs.peak_awake_bytes},
                                 {"sleepless_bytes", needs.sleepless_bytes},
                                 {"needed_event", RecordedEvent(measured, needs.needed_event)},
                                 {"needed_bytes", needs.needed_bytes}};
  for (const RegionNeed& region : needs.regions) {
    json["regions"].push_back({{"name", region.name},
                               {"pauses", region.pauses},
                               {"peak_live_bytes", region.peak_bytes},
                               {"plan_bytes", region.plan_bytes}});
  }
  json["phases"] = nlohmann::ordered_json::array();
  for (const RegionPhase& phase : needs.phases) {
    json["phases"].push_back(
        {{"name", phase.name}, {"times", phase.times}, {"needed_bytes", phase.needed_bytes}});
  }
  AddFit(options, {needs.needed_bytes, needs.needed_bytes}, json);
  PrintJson(json);
}

void PrintRegionPhases(const RegionNeeds& needs) {
  if (needs.phases.empty()) return;
  std::vector<std::vector<std::string>> rows = {{"phase, in the recorded order", "times", "needs"}};
  for (const RegionPhase& phase : needs.phases) {
    rows.push_back({NameOfPhase(phase.name), CountText(phase.times), SizeText(phase.needed_bytes)});
  }
  std::cout << "\n" << TableText(rows);
}

void PrintRegionNeeds(const PlanCommandOptions& options, const MeasuredTrace& measured,
                      const RegionNeeds& needs) {
  PrintTraceLine(options.trace, measured);
  std::vector<std::vector<std::string>> rows = {{"region", "pauses", "peak live", "plan"}};
  for (const RegionNeed& region : needs.regions) {
    rows.push_back({region.name.empty() ? "(none)" : absl::CHexEscape(region.name),
                    CountText(region.pauses), SizeText(region.peak_bytes),
                    SizeText(region.plan_bytes)});
  }
  std::cout << TableText(rows);
  PrintRegionPhases(needs);
  std::cout << "\n  regions that are awake together need up to " << SizeText(needs.needed_bytes)
            << ", at event " << CountText(RecordedEvent(measured, needs.needed_event)) << "; "
            << SizeText(needs.sleepless_bytes) << " if none ever slept\n";
  PrintFit(options, {needs.needed_bytes, needs.needed_bytes});
}

absl::StatusOr<Answer> RunRecordedRegions(const PlanCommandOptions& options,
                                          const MeasuredTrace& measured) {
  const absl::StatusOr<RegionNeeds> needs =
      FindRegionNeeds(*measured.trace, NeedsOptionsOf(options, measured));
  if (!needs.ok()) return AboutFile(options.trace, needs.status());
  if (options.json) {
    PrintRegionNeedsJson(options, measured, *needs);
  } else {
    PrintRegionNeeds(options, measured, *needs);
  }
  return FitAnswer(options, needs->needed_bytes);
}

absl::StatusOr<Answer> RunRegions(const PlanCommandOptions& options) {
  if (!options.output.empty()) {
    return absl::InvalidArgumentError(
        "--output: --regions writes no plan: remove one of the two options");
  }
  if (options.block == 0) {
    return absl::InvalidArgumentError("--block: 0 bytes, expected at least 1");
  }
  const absl::StatusOr<MeasuredTrace> measured =
      ReadRequests(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  return measured->trace->region_names.size() > 0 ? RunRecordedRegions(options, *measured)
                                                  : RunPhases(options, *measured);
}

absl::StatusOr<Answer> RunPlan(const PlanCommandOptions& options) {
  if (options.regions) return RunRegions(options);
  if (absl::Status status = CheckJsonOutput(options.json, options.output, "plan"); !status.ok()) {
    return status;
  }
  const absl::StatusOr<MeasuredTrace> measured =
      ReadRequests(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  const Trace& trace = *measured->trace;
  std::optional<std::int64_t> capacity;
  if (options.capacity >= 0) {
    capacity = options.capacity;
    if (!trace.allocations.empty()) {
      const std::size_t largest = Largest(trace);
      const std::int64_t bytes = AlignUp(trace.allocations[largest].bytes, measured->alignment);
      if (bytes > *capacity) return PrintTooLarge(options, *measured, largest, bytes);
    }
  }
  const absl::StatusOr<Plan> plan =
      PlanTrace(*measured, StreamWaits::kNone, capacity, options.time_limit_seconds);
  if (!plan.ok()) return AboutFile(options.trace, plan.status());
  const bool fits = plan->height <= capacity.value_or(plan->height);
  if (fits && !options.output.empty()) {
    absl::Status status = WritePlan(trace, plan->offsets, options.output);
    if (!status.ok()) return status;
  }
  PrintPlan(options, *measured, *plan, fits);
  return fits ? Answer::kYes : Answer::kNo;
}

}  // namespace

Command AddPlan(CLI::App& app) {
  auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* plan = app.add_subcommand(
      "plan", "Finds an offset for every allocation, so that the pool is as small as possible");
  plan->group("Traces");
  AddTraceArgument(*plan, options->trace);
  plan->add_option("-o,--output", options->output,
                   "Write the plan to this CSV file, id,lower,upper,size,offset; compressed if the "
                   "name ends in .gz; not written if the plan does not fit")
      ->type_name("FILE");
  CLI::Option* const capacity = AddSizeOption(
      *plan, "--capacity", options->capacity,
      "Stop at the first plan that fits into a pool of this size; exit status 2 if no "
      "plan was found that does");
  AddTimeLimitOption(*plan, options->time_limit_seconds,
                     "Stop the search after this time with the best plan so far; the first plan is "
                     "always made");
  CLI::Option* const regions = plan->add_flag("--regions", options->regions,
                                              "Find the memory of the recorded regions, which "
                                              "give it up while they sleep, and of each phase in "
                                              "the recorded order; of a trace without regions, the "
                                              "memory for all orders of its phases, which marks "
                                              "name: for memory that they keep, hand to the next "
                                              "ones, and work in");
  plan->add_option(
          "--without", options->without,
          "Leave out this region or phase, such as one that fills the rest of the memory with a "
          "cache; may be given several times")
      ->type_name("NAME")
      ->check([](const std::string& name) {
        return name.empty() ? "'', expected the name of a region or of a phase" : "";
      })
      ->needs(regions);
  AddSizeOption(*plan, "--block", options->block,
                "Tell how many blocks of this size, such as of a KV cache, fit beside them into "
                "the capacity")
      ->needs(regions)
      ->needs(capacity);
  AddAlignOption(*plan, options->alignment);
  AddTraceDeviceOption(*plan, options->read);
  AddJsonOption(*plan, options->json);
  AddExamples(
      *plan,
      {"tidepool plan examples/traces/vgg16-b4-sgd.rmm.csv.gz -o plan.csv",
       "tidepool plan step.tide --capacity 16GiB --time-limit 60s",
       "tidepool plan examples/traces/serving.csv --regions --without cache --capacity 80GiB"});
  return {plan, [options] { return RunPlan(*options); }};
}

}  // namespace tidepool::tool
