// tidepool size: the pool that each policy needs for a trace.
#include <iostream>

#include "trace_replay/command.h"
#include "trace_replay/plan_answer.h"
#include "trace_replay/policy_sizes.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct SizeOptions {
  std::string trace;
  std::vector<std::string> policies;
  std::int64_t alignment = 0;
  ReadOptions read;
  bool plan = false;
  double time_limit_seconds = 10;
  bool json = false;
};

void PrintSizeJson(const MeasuredTrace& measured, const std::vector<PolicySize>& sizes,
                   const std::optional<Plan>& plan) {
  nlohmann::ordered_json json = {{"trace", TraceJson(measured)},
                                 {"recorded", ReservedJson(measured)},
                                 {"policies", nlohmann::ordered_json::array()}};
  for (const PolicySize& size : sizes) {
    json["policies"].push_back(PolicyJson(size, measured.load));
  }
  if (plan.has_value()) json["plan"] = PlanJson(*plan, measured.load);
  PrintJson(json);
}

absl::StatusOr<Answer> RunSize(SizeOptions& options) {
  const auto policies = MakePolicies(options.policies);
  if (!policies.ok()) return policies.status();
  const absl::StatusOr<MeasuredTrace> measured =
      ReadMeasured(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  std::vector<PolicySize> sizes;
  for (std::size_t i = 0; i < policies->size(); ++i) {
    absl::StatusOr<MinimumPoolResult> result =
        MinimumPool(measured->trace, *(*policies)[i], {.alignment = measured->alignment});
    if (!result.ok()) return AboutFile(options.trace, result.status());
    sizes.push_back({options.policies[i], *result});
  }
  std::optional<Plan> plan;
  if (options.plan) {
    absl::StatusOr<Plan> made = PlanTrace(*measured, std::nullopt, options.time_limit_seconds, 1);
    if (!made.ok()) return AboutFile(options.trace, made.status());
    plan = *std::move(made);
  }
  if (options.json) {
    PrintSizeJson(*measured, sizes, plan);
  } else {
    PrintTraceLine(options.trace, *measured);
    std::vector<std::vector<std::string>> rows = PolicyRows(sizes, measured->load);
    if (measured->reserved.has_value()) {
      const std::int64_t reserved = measured->reserved->peak_reserved_bytes;
      rows.insert(rows.begin() + 1, {"as recorded", SizeText(reserved),
                                     RatioText(Overhead(reserved, measured->load))});
    }
    if (plan.has_value()) {
      rows.push_back(
          {"a plan", SizeText(plan->height), RatioText(Overhead(plan->height, measured->load))});
    }
    std::cout << TableText(rows);
    if (plan.has_value()) std::cout << "\n  the plan is " << PlanText(*plan) << "\n";
  }
  return Answer::kYes;
}

}  // namespace

Command AddSize(CLI::App& app) {
  auto options = std::make_shared<SizeOptions>();
  CLI::App* size = app.add_subcommand("size", "The pool that each policy needs for a trace");
  size->add_option("trace", options->trace, "The trace")->required();
  size->add_option("--policy", options->policies,
                   "A placement policy; may be given several times (default: all)")
      ->allow_extra_args(false);
  size->add_flag("--plan", options->plan, "Plans the trace, too");
  AddTimeLimitOption(*size, options->time_limit_seconds);
  AddAlignOption(*size, options->alignment);
  AddTraceDeviceOption(*size, options->read);
  size->add_flag("--json", options->json, "One JSON object");
  return {size, [options] { return RunSize(*options); }};
}

}  // namespace tidepool::tool
