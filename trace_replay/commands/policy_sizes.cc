// SPDX-License-Identifier: Apache-2.0
// The table of policies: rows, JSON, and notes about searches that stopped.
#include "trace_replay/commands/policy_sizes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/or_null.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

std::string LargerText(const std::optional<bool>& serves_all_larger) {
  if (!serves_all_larger.has_value()) return "unknown";
  return *serves_all_larger ? "all work" : "some fail";
}

// Returns the limit that ended the exact search, as JSON names it.
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

// Returns the value of the limit that ended the exact search: pieces, events or seconds.
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

// Returns the reason why the exact search has no answer; empty if it has one.
std::string LimitText(const PolicySize& size) {
  switch (size.result.exact_limit) {
    case ExactLimit::kNone:
      break;
    case ExactLimit::kUnsearchable:
      return "the exact search does not cover this policy";
    case ExactLimit::kSteps:
      return absl::StrCat("more than ", CountText(size.options.most_steps),
                          " events to simulate, over all pool sizes");
    case ExactLimit::kPieces:
      return absl::StrCat("more than ", CountText(size.result.most_exact_pieces),
                          " sets of pool sizes with different placements to keep: ",
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
    if (IsPyTorchPolicy(name)) continue;
    if (absl::Status status = MakePlacementPolicy(name).status(); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), ", ",
                                                      absl::StrJoin(PyTorchPolicyNames(), ", ")));
    }
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
          {"exact_pieces", size.result.exact_pieces},
          {"pool_bytes_without_waits", OrNull(size.bytes_without_waits)}};
}

std::vector<std::vector<std::string>> PolicyRows(const std::vector<PolicySize>& sizes,
                                                 const TraceLoad& load) {
  std::vector<std::vector<std::string>> rows = {{"policy", "first found", "/ peak live", "attempts",
                                                 "smallest", "/ peak live", "larger pools"}};
  const bool has_streams = std::any_of(sizes.begin(), sizes.end(), [](const PolicySize& size) {
    return size.bytes_without_waits.has_value();
  });
  if (has_streams) rows.front().insert(rows.front().end(), {"without waits", "/ peak live"});
  for (const PolicySize& size : sizes) {
    const std::optional<std::int64_t>& exact = size.result.exact_pool_bytes;
    rows.push_back({size.policy,
                    absl::StrCat(size.result.gave_up_restarts ? "at most " : "",
                                 PoolSizeText(size.result.pool_bytes)),
                    RatioText(Overhead(size.result.pool_bytes, load)),
                    CountText(size.result.attempts),
                    exact.has_value() ? PoolSizeText(*exact) : "not found",
                    exact.has_value() ? RatioText(Overhead(*exact, load)) : "",
                    LargerText(size.result.serves_all_larger)});
    if (!size.bytes_without_waits.has_value()) continue;
    rows.back().insert(rows.back().end(), {PoolSizeText(*size.bytes_without_waits),
                                           RatioText(Overhead(*size.bytes_without_waits, load))});
  }
  return rows;
}

std::vector<std::string> LimitNotes(const std::vector<PolicySize>& sizes) {
  // An unknown answer with its reason, and the policies that lack it.
  struct Note {
    std::string answer;
    std::string reason;
    std::vector<std::string> policies;
  };
  std::vector<Note> known;
  for (const PolicySize& size : sizes) {
    const std::string reason = LimitText(size);
    if (reason.empty()) continue;
    const std::string answer = size.result.exact_pool_bytes.has_value()
                                   ? "whether larger pools work is not known for "
                                   : "the smallest pool was not found for ";
    auto found = std::find_if(known.begin(), known.end(), [&](const Note& note) {
      return note.answer == answer && note.reason == reason;
    });
    if (found == known.end()) found = known.insert(found, {answer, reason, {}});
    found->policies.push_back(size.policy);
  }
  std::vector<std::string> notes;
  notes.reserve(known.size());
  for (const auto& [answer, reason, policies] : known) {
    notes.push_back(absl::StrCat(answer, absl::StrJoin(policies, ", "), ": ", reason));
  }
  return notes;
}

}  // namespace tidepool::tool
