// SPDX-License-Identifier: Apache-2.0
// Optional values in JSON.
#ifndef TIDEPOOL_TRACE_REPLAY_OR_NULL_H_
#define TIDEPOOL_TRACE_REPLAY_OR_NULL_H_

#include <nlohmann/json.hpp>
#include <optional>

namespace tidepool::tool {

// Returns the value, or null without one.
template <typename Value>
nlohmann::ordered_json OrNull(const std::optional<Value>& value) {
  return value.has_value() ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OR_NULL_H_
