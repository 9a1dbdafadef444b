// SPDX-License-Identifier: Apache-2.0
// Reads times in files.
#ifndef TIDEPOOL_LIB_GRAPH_PARSE_SECONDS_H_
#define TIDEPOOL_LIB_GRAPH_PARSE_SECONDS_H_

#include <string_view>

#include "absl/strings/numbers.h"
#include "tidepool/schedule/graph.h"

namespace tidepool::graph {

// Parses a decimal number from 0 to kMostTaskSeconds. Returns false for other text.
inline bool ParseSeconds(std::string_view text, double* seconds) {
  return absl::SimpleAtod({text.data(), text.size()}, seconds) && *seconds >= 0 &&
         *seconds <= kMostTaskSeconds;
}

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_GRAPH_PARSE_SECONDS_H_
