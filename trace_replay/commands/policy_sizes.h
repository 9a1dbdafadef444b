// What each policy needs for a trace, computed and told.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_POLICY_SIZES_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_POLICY_SIZES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
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
};

// `names`, or those of all policies when there are none. NotFound for one that there is not.
absl::StatusOr<std::vector<std::string>> PolicyNames(std::vector<std::string> names);

nlohmann::ordered_json PolicyJson(const PolicySize& size, const TraceLoad& load);

// A heading and one row a policy: name, pool, / peak live, attempts, smallest, / peak live, serves.
std::vector<std::vector<std::string>> PolicyRows(const std::vector<PolicySize>& sizes,
                                                 const TraceLoad& load);
// Below the rows: one line for each reason why something was not determined, and for which
// policies.
std::vector<std::string> LimitNotes(const std::vector<PolicySize>& sizes);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_POLICY_SIZES_H_
