// SPDX-License-Identifier: Apache-2.0
// The pools that placement policies need for a trace: computed, and printed.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_POLICY_SIZES_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_POLICY_SIZES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/placement.h"
#include "tidepool/trace/sizing.h"
#include "trace_replay/command.h"

namespace tidepool::tool {

struct PolicySize {
  std::string policy;
  MinimumPoolResult result;
  MinimumPoolOptions options;  // the limits of the search
  // Whether PyTorch's allocator fails in the memory that the user asked about, though it serves
  // the trace in less.
  bool fails_in_asked_memory = false;
  // The pool if no stream waits for memory of another. Empty where the trace has one stream or does
  // not tell their order; otherwise streams may wait in the pools of `result`.
  std::optional<std::int64_t> bytes_without_waits = std::nullopt;
};

// Returns `names`, or the names of all placement policies if `names` is empty. NotFound for a name
// that is neither that of a placement policy nor of PyTorch's allocator.
absl::StatusOr<std::vector<std::string>> PolicyNames(std::vector<std::string> names);

nlohmann::ordered_json PolicyJson(const PolicySize& size, const TraceLoad& load);

// Returns a heading and one row a policy: name, first pool that the restart search finds, over peak
// live, attempts, smallest pool, over peak live, whether all larger pools work. Where streams
// matter also the pool without waits.
std::vector<std::vector<std::string>> PolicyRows(const std::vector<PolicySize>& sizes,
                                                 const TraceLoad& load);
// Returns one line for each reason why a search stopped without an answer, with its policies.
std::vector<std::string> LimitNotes(const std::vector<PolicySize>& sizes);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_POLICY_SIZES_H_
