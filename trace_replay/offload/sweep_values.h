// SPDX-License-Identifier: Apache-2.0
// Lists and ranges of values: "1,2,4", "4GiB..40GiB/1GiB", "none,vdnn".
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_VALUES_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trace_replay/options.h"

namespace tidepool::tool {

inline constexpr std::size_t kMostSweepPoints = 10'000;

// Several values of an option. A single value is no sweep; a list or range of one value is.
template <typename Value>
struct SweepValues {
  std::vector<Value> values;
  bool is_sweep = false;
};

// Parse values that are separated by commas. A range FIRST..LAST/STEP has FIRST, FIRST + STEP, ...
// up to LAST. InvalidArgument for wrong values, a range without end or step, and more than
// kMostSweepPoints values.
absl::StatusOr<SweepValues<std::int64_t>> ParseSizes(const std::string& text);
// The step of a range of whole numbers may be left out; then it is 1.
absl::StatusOr<SweepValues<std::int64_t>> ParseWholes(const std::string& text,
                                                      const Range<std::int64_t>& range);
absl::StatusOr<SweepValues<std::string>> ParseNames(const std::string& text);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_VALUES_H_
