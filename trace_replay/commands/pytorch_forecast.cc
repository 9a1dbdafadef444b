// SPDX-License-Identifier: Apache-2.0
// Forecast: replays of a trace by the model of PyTorch's allocator.
#include "trace_replay/commands/pytorch_forecast.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tidepool/trace/caching_allocator.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

// Returns the memory that was reserved at the first refusal with a known rest, plus that rest.
std::optional<std::int64_t> MemoryAtRefusal(const Trace& trace) {
  std::int64_t reserved = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kReserve) {
      const std::int64_t bytes = trace.reservations[event.index].bytes;
      if (__builtin_add_overflow(reserved, bytes, &reserved)) return std::nullopt;
    } else if (event.kind == TraceEvent::Kind::kFailure) {
      const std::int64_t free = trace.failures[event.index].device_free_bytes.value_or(-1);
      std::int64_t memory = 0;
      if (free < 0 || __builtin_add_overflow(reserved, free, &memory)) continue;
      if (memory >= 0 && memory <= kMostCachingMemory) return memory;
    }
  }
  return std::nullopt;
}

// The outcome for one setting of expandable segments.
struct ModelOutcome {
  std::int64_t reserved_bytes = 0;
  bool serves = false;
};

std::int64_t ReservedOnFallingAddresses(const Trace& trace) {
  CachingAllocatorSettings settings = RecordedCachingSettings(trace);
  settings.expandable_segments = false;
  const auto replayed =
      ReplayCaching(trace, {.settings = settings, .order = SegmentOrder::kFalling});
  return replayed.ok() ? replayed->peak_reserved_bytes : 0;
}

std::optional<ModelOutcome> OutcomeOf(const Trace& trace, bool is_expandable,
                                      const std::optional<std::int64_t>& memory) {
  CachingAllocatorSettings settings = RecordedCachingSettings(trace);
  settings.expandable_segments = is_expandable;
  const auto unlimited = ReplayCaching(trace, {.settings = settings});
  if (!unlimited.ok()) return std::nullopt;
  ModelOutcome outcome = {.reserved_bytes = unlimited->peak_reserved_bytes};
  if (!memory.has_value()) return outcome;
  const auto limited = ReplayCaching(
      trace, {.settings = settings, .memory_bytes = *memory, .stop_at_refusal = true});
  outcome.serves = limited.ok() && limited->refused == 0;
  return outcome;
}

}  // namespace

std::optional<PyTorchForecast> ForecastPyTorch(const Trace& trace) {
  if (!IsFromPyTorch(trace) || !trace.has_history) return std::nullopt;
  const std::optional<std::int64_t> memory = MemoryAtRefusal(trace);
  const std::optional<ModelOutcome> plain = OutcomeOf(trace, false, memory);
  const std::optional<ModelOutcome> expandable = OutcomeOf(trace, true, memory);
  if (!plain.has_value() || !expandable.has_value()) return std::nullopt;
  return PyTorchForecast{.reserved_bytes = plain->reserved_bytes,
                         .falling_reserved_bytes = ReservedOnFallingAddresses(trace),
                         .expandable_reserved_bytes = expandable->reserved_bytes,
                         .memory_bytes = memory,
                         .serves = plain->serves,
                         .expandable_serves = expandable->serves};
}

std::string ForecastText(const PyTorchForecast& forecast) {
  std::string text =
      absl::StrCat("a model of PyTorch's allocator reserves ", SizeText(forecast.reserved_bytes),
                   " for all requests, ", SizeText(forecast.expandable_reserved_bytes),
                   " with expandable_segments:True");
  if (!forecast.memory_bytes.has_value()) return text;
  const std::string memory = SizeText(*forecast.memory_bytes);
  if (forecast.expandable_serves && !forecast.serves) {
    absl::StrAppend(&text, ", which would have served them in ", memory);
  } else if (!forecast.expandable_serves) {
    absl::StrAppend(&text, ", which fails in ", memory, " too");
  }
  return text;
}

nlohmann::ordered_json ForecastJson(const std::optional<PyTorchForecast>& forecast) {
  if (!forecast.has_value()) return nullptr;
  nlohmann::ordered_json json = {{"reserved_bytes", forecast->reserved_bytes},
                                 {"falling_reserved_bytes", forecast->falling_reserved_bytes},
                                 {"expandable_reserved_bytes", forecast->expandable_reserved_bytes},
                                 {"memory_bytes", nullptr},
                                 {"serves", nullptr},
                                 {"expandable_serves", nullptr}};
  if (forecast->memory_bytes.has_value()) {
    json["memory_bytes"] = *forecast->memory_bytes;
    json["serves"] = forecast->serves;
    json["expandable_serves"] = forecast->expandable_serves;
  }
  return json;
}

}  // namespace tidepool::tool
