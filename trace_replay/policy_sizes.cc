#include "trace_replay/policy_sizes.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

template <typename Value>
nlohmann::ordered_json OrNull(const std::optional<Value>& value) {
  return value.has_value() ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

std::string LargerText(const std::optional<bool>& serves_all_larger) {
  if (!serves_all_larger.has_value()) return "not determined";
  return *serves_all_larger ? "every larger one too" : "not every larger one";
}

}  // namespace

absl::StatusOr<std::vector<std::string>> PolicyNames(std::vector<std::string> names) {
  if (names.empty()) return PlacementPolicyNames();
  for (const std::string& name : names) {
    if (absl::Status status = MakePlacementPolicy(name).status(); !status.ok()) return status;
  }
  return names;
}

nlohmann::ordered_json PolicyJson(const PolicySize& size, const TraceLoad& load) {
  return {{"policy", size.policy},
          {"pool_bytes", size.result.pool_bytes},
          {"overhead", Overhead(size.result.pool_bytes, load)},
          {"attempts", size.result.attempts},
          {"exact_pool_bytes", OrNull(size.result.exact_pool_bytes)},
          {"serves_all_larger", OrNull(size.result.serves_all_larger)}};
}

std::vector<std::vector<std::string>> PolicyRows(const std::vector<PolicySize>& sizes,
                                                 const TraceLoad& load) {
  std::vector<std::vector<std::string>> rows = {
      {"policy", "pool", "/ peak live", "attempts", "smallest", "/ peak live", "serves"}};
  for (const PolicySize& size : sizes) {
    const std::optional<std::int64_t>& exact = size.result.exact_pool_bytes;
    rows.push_back({size.policy,
                    absl::StrCat(size.result.gave_up_restarts ? "at most " : "",
                                 SizeText(size.result.pool_bytes)),
                    RatioText(Overhead(size.result.pool_bytes, load)),
                    CountText(size.result.attempts),
                    exact.has_value() ? SizeText(*exact) : "not determined",
                    exact.has_value() ? RatioText(Overhead(*exact, load)) : "",
                    LargerText(size.result.serves_all_larger)});
  }
  return rows;
}

}  // namespace tidepool::tool
