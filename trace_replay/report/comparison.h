// SPDX-License-Identifier: Apache-2.0
// The section of a page that compares its trace with another.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_COMPARISON_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_COMPARISON_H_

#include <string>

#include "trace_replay/commands/trace_diff.h"

namespace tidepool::tool {

// Returns an HTML section with the largest changes by line, category and size. `before` is the name
// of the other trace.
std::string ComparisonMarkup(const TraceDiff& diff, const std::string& before);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_COMPARISON_H_
