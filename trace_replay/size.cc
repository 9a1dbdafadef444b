// tidepool size: the pool that each policy needs for a trace.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "trace_replay/command.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct SizeOptions {
  std::string trace;
  std::vector<std::string> policies;
  std::int64_t alignment = 0;
  ReadOptions read;
  bool json = false;
};

struct PolicySize {
  std::string policy;
  MinimumPoolResult result;
};

template <typename Value>
nlohmann::ordered_json OrNull(const std::optional<Value>& value) {
  return value.has_value() ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

void PrintSizeJson(const MeasuredTrace& measured, const std::vector<PolicySize>& sizes) {
  nlohmann::ordered_json json = {{"trace", TraceJson(measured)},
                                 {"recorded", ReservedJson(measured)},
                                 {"policies", nlohmann::ordered_json::array()}};
  for (const PolicySize& size : sizes) {
    json["policies"].push_back({{"policy", size.policy},
                                {"pool_bytes", size.result.pool_bytes},
                                {"overhead", Overhead(size.result.pool_bytes, measured.load)},
                                {"attempts", size.result.attempts},
                                {"exact_pool_bytes", OrNull(size.result.exact_pool_bytes)},
                                {"serves_all_larger", OrNull(size.result.serves_all_larger)}});
  }
  PrintJson(json);
}

std::string LargerText(const std::optional<bool>& serves_all_larger) {
  if (!serves_all_larger.has_value()) return "not determined";
  return *serves_all_larger ? "every larger one too" : "not every larger one";
}

void PrintSizeTable(const SizeOptions& options, const MeasuredTrace& measured,
                    const std::vector<PolicySize>& sizes) {
  PrintTraceLine(options.trace, measured);
  std::vector<std::vector<std::string>> rows = {
      {"policy", "pool", "/ peak live", "attempts", "smallest", "/ peak live", "serves"}};
  if (measured.reserved.has_value()) {
    const std::int64_t reserved = measured.reserved->peak_reserved_bytes;
    rows.push_back(
        {"as recorded", SizeText(reserved), RatioText(Overhead(reserved, measured.load))});
  }
  for (const PolicySize& size : sizes) {
    const std::optional<std::int64_t>& exact = size.result.exact_pool_bytes;
    rows.push_back({size.policy, SizeText(size.result.pool_bytes),
                    RatioText(Overhead(size.result.pool_bytes, measured.load)),
                    CountText(size.result.attempts),
                    exact.has_value() ? SizeText(*exact) : "not determined",
                    exact.has_value() ? RatioText(Overhead(*exact, measured.load)) : "",
                    LargerText(size.result.serves_all_larger)});
  }
  std::cout << TableText(rows);
}

absl::StatusOr<Answer> RunSize(const SizeOptions& options) {
  std::vector<std::unique_ptr<PlacementPolicy>> policies;
  for (const std::string& name : options.policies) {
    absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy(name);
    if (!policy.ok()) return policy.status();
    policies.push_back(*std::move(policy));
  }
  const absl::StatusOr<MeasuredTrace> measured =
      ReadMeasured(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  std::vector<PolicySize> sizes;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    absl::StatusOr<MinimumPoolResult> result =
        MinimumPool(measured->trace, *policies[i], {.alignment = measured->alignment});
    if (!result.ok()) return AboutFile(options.trace, result.status());
    sizes.push_back({options.policies[i], *result});
  }
  if (options.json) {
    PrintSizeJson(*measured, sizes);
  } else {
    PrintSizeTable(options, *measured, sizes);
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
  AddAlignOption(*size, options->alignment);
  AddTraceDeviceOption(*size, options->read);
  size->add_flag("--json", options->json, "One JSON object");
  return {size, [options] {
            if (options->policies.empty()) options->policies = PlacementPolicyNames();
            return RunSize(*options);
          }};
}

}  // namespace tidepool::tool
