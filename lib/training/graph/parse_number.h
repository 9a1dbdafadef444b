// SPDX-License-Identifier: Apache-2.0
// Reads times and rates in files.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_PARSE_NUMBER_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_PARSE_NUMBER_H_

#include <string_view>

#include "absl/strings/numbers.h"
#include "tidepool/training/graph.h"

namespace tidepool::graph {

// Parses a decimal number from 0 to `most`. Returns false for other text.
inline bool ParseNumber(std::string_view text, double most, double* number) {
  return absl::SimpleAtod({text.data(), text.size()}, number) && *number >= 0 && *number <= most;
}

inline bool ParseSeconds(std::string_view text, double* seconds) {
  return ParseNumber(text, kMostTaskSeconds, seconds);
}

inline bool ParseLink(std::string_view text, double* bytes_per_second) {
  return ParseNumber(text, kMostLinkBytesPerSecond, bytes_per_second);
}

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_PARSE_NUMBER_H_
