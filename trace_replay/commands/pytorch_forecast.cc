// SPDX-License-Identifier: Apache-2.0
// Forecast: replays of a trace by the model of PyTorch's allocator.
#include "trace_replay/commands/pytorch_forecast.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tidepool/trace/caching_allocator.h"
#include "trace_replay/commands/pytorch_policies.h"
#include "trace_replay/side_by_side.h"
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

std::int64_t ReservedOnFallingAddresses(const Trace& trace, CachingAllocatorSettings settings) {
  settings.expandable_segments = false;
  const auto replayed =
      ReplayCaching(trace, {.settings = settings, .order = SegmentOrder::kFalling});
  return replayed.ok() ? replayed->peak_reserved_bytes : 0;
}

std::optional<ModelOutcome> OutcomeOf(const Trace& trace, CachingAllocatorSettings settings,
                                      bool is_expandable,
                                      const std::optional<std::int64_t>& memory) {
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

// Memory at the beginning of a recording.
struct Beginning {
  std::int64_t live_bytes = 0;
  std::int64_t reserved_bytes = 0;
};

// Takes the reservations and allocations that stand before the recording. If it begins with cached
// memory alone, there is no such allocation: then the reservations before the first request are the
// cache, without the one that this request may need.
Beginning BeginningOf(const Trace& trace) {
  constexpr std::int64_t kMostForFirst = std::int64_t{20} << 20;
  Beginning beginning;
  std::int64_t earlier = trace.earlier_allocations;
  const bool is_profile = trace.original_format == TraceFormat::kChromeTrace;
  std::int64_t last_reserved = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kReserve) {
      const std::int64_t bytes = trace.reservations[event.index].bytes;
      if (__builtin_add_overflow(beginning.reserved_bytes, bytes, &beginning.reserved_bytes))
        return {};
      last_reserved = bytes;
    } else if (event.kind == TraceEvent::Kind::kAllocate) {
      const std::int64_t bytes = trace.allocations[event.index].bytes;
      if (earlier == 0) {
        beginning.reserved_bytes -= is_profile ? std::max(kMostForFirst, 2 * bytes) : last_reserved;
        break;
      }
      beginning.live_bytes += bytes;
      if (--earlier == 0 && !is_profile) break;
    } else if (event.TouchesMemory() || event.kind == TraceEvent::Kind::kFailure) {
      break;
    }
  }
  return beginning;
}

// The memory that the model does not have: that of which a profile tells only the sum, and memory
// that was cached when the recording began.
struct UnknownMemory {
  std::int64_t bytes = 0;
  std::int64_t cached_bytes = 0;
};

// Less than 2 % of `reserved_bytes`, by the model, do not count.
UnknownMemory UnknownMemoryOf(const Trace& trace, std::int64_t reserved_bytes) {
  const Beginning beginning = BeginningOf(trace);
  const std::int64_t least = reserved_bytes / 50;
  if (trace.original_format == TraceFormat::kChromeTrace) {
    const std::int64_t bytes = std::max(beginning.live_bytes, beginning.reserved_bytes);
    return {.bytes = bytes > least ? bytes : 0};
  }
  const std::int64_t cached = beginning.reserved_bytes - beginning.live_bytes;
  return {.cached_bytes = cached > least ? cached : 0};
}

std::string UnknownText(std::int64_t bytes) {
  return absl::StrCat("the recording begins in the middle, and the blocks and the cache in the ",
                      SizeText(bytes), " from before are not known");
}

std::string CachedText(std::int64_t bytes) {
  return absl::StrCat("without the ", SizeText(bytes),
                      " that were cached when the recording began");
}

}  // namespace

std::optional<PyTorchForecast> ForecastPyTorch(const Trace& trace) {
  if (!IsFromPyTorch(trace) || !trace.has_history) return std::nullopt;
  const std::optional<std::int64_t> memory = MemoryAtRefusal(trace);
  const CachingAllocatorSettings settings = RecordedCachingSettings(trace);
  std::optional<ModelOutcome> plain;
  std::optional<ModelOutcome> expandable;
  std::int64_t falling_bytes = 0;
  SideBySide({[&] { plain = OutcomeOf(trace, settings, false, memory); },
              [&] { expandable = OutcomeOf(trace, settings, true, memory); },
              [&] { falling_bytes = ReservedOnFallingAddresses(trace, settings); }});
  if (!plain.has_value() || !expandable.has_value()) return std::nullopt;
  const UnknownMemory unknown = UnknownMemoryOf(trace, plain->reserved_bytes);
  return PyTorchForecast{.reserved_bytes = plain->reserved_bytes,
                         .falling_reserved_bytes = falling_bytes,
                         .expandable_reserved_bytes = expandable->reserved_bytes,
                         .memory_bytes = memory,
                         .serves = plain->serves,
                         .expandable_serves = expandable->serves,
                         .unknown_bytes = unknown.bytes,
                         .cached_bytes = unknown.cached_bytes};
}

std::string UnknownBeginningText(const Trace& trace, std::int64_t reserved_bytes) {
  if (!IsFromPyTorch(trace)) return "";
  const UnknownMemory unknown = UnknownMemoryOf(trace, reserved_bytes);
  if (unknown.bytes > 0) return absl::StrCat("pytorch is a guess: ", UnknownText(unknown.bytes));
  if (unknown.cached_bytes > 0) return absl::StrCat("pytorch: ", CachedText(unknown.cached_bytes));
  return "";
}

std::string ForecastText(const PyTorchForecast& forecast) {
  if (forecast.unknown_bytes > 0) {
    return absl::StrCat("a model of PyTorch's allocator cannot tell: ",
                        UnknownText(forecast.unknown_bytes));
  }
  std::string text =
      absl::StrCat("a model of PyTorch's allocator reserves ", SizeText(forecast.reserved_bytes),
                   " for all requests, ", SizeText(forecast.expandable_reserved_bytes),
                   " with expandable_segments:True");
  if (forecast.cached_bytes > 0) {
    absl::StrAppend(&text, " (", CachedText(forecast.cached_bytes), ")");
  }
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
                                 {"unknown_bytes", forecast->unknown_bytes},
                                 {"cached_bytes", forecast->cached_bytes},
                                 {"serves", nullptr},
                                 {"expandable_serves", nullptr}};
  if (forecast->memory_bytes.has_value()) {
    json["memory_bytes"] = *forecast->memory_bytes;
    json["serves"] = forecast->serves;
    json["expandable_serves"] = forecast->expandable_serves;
  }
  if (forecast->unknown_bytes > 0) {
    for (const char* name : {"reserved_bytes", "falling_reserved_bytes",
                             "expandable_reserved_bytes", "serves", "expandable_serves"})
      json[name] = nullptr;
  }
  return json;
}

}  // namespace tidepool::tool
