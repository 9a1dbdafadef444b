// SPDX-License-Identifier: Apache-2.0
// The answer of `info` for one device: its needs, the places of its memory, and advice.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMANDS_DEVICE_ANSWER_H_
#define TIDEPOOL_TRACE_REPLAY_COMMANDS_DEVICE_ANSWER_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/categories.h"
#include "tidepool/trace/composition.h"
#include "tidepool/trace/moments.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/pytorch_forecast.h"

namespace tidepool::tool {

// The memory of a device at its refusal that needs the most, or else at its peak.
struct DeviceAnswer {
  std::int32_t device = 0;
  std::vector<std::int32_t> devices;  // of the file
  bool has_history = true;
  bool is_peak_known = true;
  bool began_at_peak = false;      // a higher peak may have been before the history
  bool contradicts = false;        // more bytes are live than reserved
  bool is_snapshot = false;        // of PyTorch
  bool has_only_refusals = false;  // the file has no other requests
  TraceLoad load;
  TraceDemand demand;
  std::optional<std::int64_t> reserved_bytes;  // at the end of the recording
  std::vector<std::string> refused_frames;     // one for each refused request
  std::vector<std::string> refused_streams;    // likewise
  std::optional<std::size_t> refusal;          // the request that needs the most
  std::int64_t event = 0;                      // the moment; -1 for a trace without allocations
  std::int64_t live_bytes = 0;                 // then
  std::optional<ReservedMemory> memory;        // then
  std::optional<std::int64_t> lost_bytes;      // reserved and free then; no value when unknown
  std::optional<FreeParts> free;            // at the refusal, or else at the end of the recording
  std::vector<NamedBytes> by_frame;         // then
  std::vector<NamedBytes> by_category;      // then
  std::vector<NamedBytes> by_mark;          // peaks
  std::vector<TraceSetting> settings;       // of the recorded allocator
  std::optional<bool> is_expandable;        // its segments; no value when unknown
  std::optional<PyTorchForecast> forecast;  // by the model; no value for other allocators
};

absl::StatusOr<DeviceAnswer> AnswerFor(const MeasuredTrace& measured,
                                       const std::vector<CategoryRule>& rules);

// Returns an element of `per_device` of `info --json`.
nlohmann::ordered_json DeviceJson(const DeviceAnswer& answer);

// Returns the answer as lines for people.
std::string DeviceText(const DeviceAnswer& answer);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMANDS_DEVICE_ANSWER_H_
