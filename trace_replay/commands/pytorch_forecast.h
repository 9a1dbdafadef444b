// SPDX-License-Identifier: Apache-2.0
// Forecast: the memory that PyTorch's allocator would take with expandable segments, by the model.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_PYTORCH_FORECAST_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_PYTORCH_FORECAST_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tidepool/trace/trace.h"

namespace tidepool::tool {

struct PyTorchForecast {
  std::int64_t reserved_bytes = 0;             // at the peak, without expandable segments
  std::int64_t falling_reserved_bytes = 0;     // the same on a device with falling addresses
  std::int64_t expandable_reserved_bytes = 0;  // at the peak, with them
  // Memory of the device: that reserved at a refusal and that free then; no value when unknown.
  std::optional<std::int64_t> memory_bytes;
  // Whether a device of that memory serves all requests, also those that were refused.
  bool serves = false;
  bool expandable_serves = false;
  // Bytes from before the recording, in unknown blocks, so the other figures are guesses; 0 where
  // they do not matter.
  std::int64_t unknown_bytes = 0;
  // Bytes that were reserved and free when the recording began, which the model does not have.
  std::int64_t cached_bytes = 0;
};

// Returns no value for a trace that PyTorch did not make, or without history. Refused requests are
// requests like any other. O(events log blocks), as a rule.
std::optional<PyTorchForecast> ForecastPyTorch(const Trace& trace);

// Returns a remark about the figures of PyTorch's allocator, which reserves `reserved_bytes` by the
// model: the memory from before the recording that the model does not have. Empty without it.
std::string UnknownBeginningText(const Trace& trace, std::int64_t reserved_bytes);

// Returns a sentence for people.
std::string ForecastText(const PyTorchForecast& forecast);
// Null without a forecast; null fields where the memory of the device is unknown, or the blocks
// from before the recording.
nlohmann::ordered_json ForecastJson(const std::optional<PyTorchForecast>& forecast);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_PYTORCH_FORECAST_H_
