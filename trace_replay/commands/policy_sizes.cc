#include "trace_replay/commands/policy_sizes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// The limit that struck, as JSON names it.
nlohmann::ordered_json LimitName(ExactLimit limit) {
  switch (limit) {
    case ExactLimit::kNone:
      break;
    case ExactLimit::kUnsearchable:
      return "unsearchable";
    case ExactLimit::kSteps:
      return "steps";
    case ExactLimit::kPieces:
      return "pieces";
    case ExactLimit::kTime:
      return "time";
  }
  return nullptr;
}

// How far the search may go by the limit that struck: pieces, events or seconds.
nlohmann::ordered_json LimitValue(const PolicySize& size) {
  switch (size.result.exact_limit) {
    case ExactLimit::kNone:
    case ExactLimit::kUnsearchable:
      break;
    case ExactLimit::kSteps:
      return size.options.most_steps;
    case ExactLimit::kPieces:
      return size.result.most_exact_pieces;
    case ExactLimit::kTime:
      return size.options.time_limit_seconds;
  }
  return nullptr;
}

// Empty where all is determined.
std::string LimitText(const PolicySize& size) {
  switch (size.result.exact_limit) {
    case ExactLimit::kNone:
      break;
    case ExactLimit::kUnsearchable:
      return "the exact search cannot follow the policy";
    case ExactLimit::kSteps:
      return absl::StrCat("more than ", CountText(size.options.most_steps),
                          " events to simulate, over all pool sizes that differ");
    case ExactLimit::kPieces:
      return absl::StrCat("more than ", CountText(size.result.most_exact_pieces),
                          " pieces to keep (sets of pool sizes that differ in a placement): ",
                          CountText(size.result.exact_pieces));
    case ExactLimit::kTime:
      return absl::StrCat("more than ", size.options.time_limit_seconds,
                          " s of exact search (--time-limit)");
  }
  return "";
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
          {"serves_all_larger", OrNull(size.result.serves_all_larger)},
          {"exact_limit", LimitName(size.result.exact_limit)},
          {"exact_limit_value", LimitValue(size)},
          {"exact_pieces", size.result.exact_pieces}};
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

std::vector<std::string> LimitNotes(const std::vector<PolicySize>& sizes) {
  std::vector<std::pair<std::string, std::vector<std::string>>> policies_by_text;
  for (const PolicySize& size : sizes) {
    const std::string text = LimitText(size);
    if (text.empty()) continue;
    auto found = std::find_if(policies_by_text.begin(), policies_by_text.end(),
                              [&](const auto& entry) { return entry.first == text; });
    if (found == policies_by_text.end()) {
      found = policies_by_text.insert(found, {text, {}});
    }
    found->second.push_back(size.policy);
  }
  std::vector<std::string> notes;
  notes.reserve(policies_by_text.size());
  for (const auto& [text, policies] : policies_by_text) {
    notes.push_back(absl::StrCat("not determined for ", absl::StrJoin(policies, ", "), ": ", text));
  }
  return notes;
}

}  // namespace tidepool::tool
