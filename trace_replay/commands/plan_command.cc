// SPDX-License-Identifier: Apache-2.0
// The command `plan`: an offset for every allocation of a trace.
#include <algorithm>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/trace/trace_plan.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/plan_answer.h"
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
  std::cout << "  plan: " << SizeText(plan.height);
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

absl::StatusOr<Answer> RunPlan(const PlanCommandOptions& options) {
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
      const std::int64_t bytes =
          (trace.allocations[largest].bytes + measured->alignment - 1) & -measured->alignment;
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
  AddSizeOption(*plan, "--capacity", options->capacity,
                "Stop at the first plan that fits into a pool of this size; exit status 2 if no "
                "plan was found that does");
  AddTimeLimitOption(*plan, options->time_limit_seconds,
                     "Stop the search after this time with the best plan so far; the first plan is "
                     "always made");
  AddAlignOption(*plan, options->alignment);
  AddTraceDeviceOption(*plan, options->read);
  AddJsonOption(*plan, options->json);
  AddExamples(*plan, {"tidepool plan examples/traces/vgg16-b4-sgd.rmm.csv.gz -o plan.csv",
                      "tidepool plan step.tide --capacity 16GiB --time-limit 60s"});
  return {plan, [options] { return RunPlan(*options); }};
}

}  // namespace tidepool::tool
