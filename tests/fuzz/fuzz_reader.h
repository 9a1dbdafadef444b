// SPDX-License-Identifier: Apache-2.0
// Checks of every fuzz target for traces. An input is refused with one line, or it is a consistent
// trace that can be replayed, and that reads the same after it was written.
#ifndef TIDEPOOL_TESTS_FUZZ_FUZZ_READER_H_
#define TIDEPOOL_TESTS_FUZZ_FUZZ_READER_H_

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "lib/trace/csv/csv_traces.h"
#include "lib/trace/files/formats.h"
#include "lib/trace/native/native_trace.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::fuzz {

inline void Require(bool condition) {
  if (!condition) std::abort();
}

inline void CheckEvents(const Trace& trace) {
  std::uint32_t allocations = 0;
  std::uint32_t failures = 0;
  std::uint32_t reservations = 0;
  std::uint32_t pauses = 0;
  std::vector<bool> sleeps(trace.region_names.size() + 1);
  std::vector<bool> live(trace.allocations.size());
  for (const TraceEvent& event : trace.events) {
    switch (event.kind) {
      case TraceEvent::Kind::kAllocate:
        Require(event.index == allocations++);
        Require(trace.allocations[event.index].bytes >= 1);
        Require(!sleeps.at(trace.allocations[event.index].region));
        live[event.index] = true;
        break;
      case TraceEvent::Kind::kFree:
        Require(live.at(event.index));
        live[event.index] = false;
        break;
      case TraceEvent::Kind::kMark:
      case TraceEvent::Kind::kMarkEnd:
        Require(event.index < trace.mark_names.size());
        break;
      case TraceEvent::Kind::kFailure:
        Require(event.index == failures++ && trace.failures.at(event.index).bytes >= 0);
        break;
      case TraceEvent::Kind::kWait:
        Require(event.index < trace.stream_names.size());
        break;
      case TraceEvent::Kind::kReserve:
        Require(event.index == reservations++ && event.index < trace.reservations.size());
        break;
      case TraceEvent::Kind::kPause:
      case TraceEvent::Kind::kResume: {
        const bool is_pause = event.kind == TraceEvent::Kind::kPause;
        if (is_pause) Require(event.index == pauses++);
        const TraceRegion region = trace.pauses.at(event.index).region;
        Require(region > 0 && sleeps.at(region) != is_pause);
        sleeps[region] = is_pause;
        break;
      }
    }
    Require(event.stream == 0 || event.stream < trace.stream_names.size());
    Require(event.thread < trace.thread_names.size());
  }
  Require(allocations == trace.allocations.size() && trace.allocation_ids.size() == allocations);
}

// The native format holds all of a trace, so writing a trace that was read from it gives the same
// bytes.
inline void CheckNativeRoundTrip(const Trace& trace) {
  std::ostringstream once;
  std::ostringstream twice;
  Require(native::WriteNative(trace, once).ok());
  const auto again = ParseTrace(once.str(), "again");
  Require(again.ok() && again->events.size() == trace.events.size());
  Require(again->ended_early == trace.ended_early);
  Require(native::WriteNative(*again, twice).ok());
  Require(once.str() == twice.str());
}

// An operation CSV holds the events that touch memory, and the marks.
inline void CheckOperationRoundTrip(const Trace& trace, const std::string& text) {
  const auto again = ParseTrace(text, "again");
  std::size_t at = 0;
  for (const TraceEvent& event : trace.events) {
    const bool is_mark = event.kind == TraceEvent::Kind::kMark;
    if (!is_mark && !event.TouchesMemory()) continue;
    Require(again.ok() && at < again->events.size());
    const TraceEvent& same = again->events[at++];
    Require(same.kind == event.kind && (is_mark || same.index == event.index));
  }
  Require(at == 0 || at == again->events.size());
}

// A lifetime CSV is written in the order of rows in which it was read.
inline void CheckLifetimeRoundTrip(const Trace& trace, const std::string& text) {
  if (trace.format != TraceFormat::kLifetimeCsv) return;
  const auto again = ParseTrace(text, "again");
  Require(again.ok());
  std::ostringstream same;
  Require(csv::WriteLifetimeCsv(*again, same).ok() && same.str() == text);
}

// A Chrome trace holds the events that touch memory, with their ids or invented ones.
inline void CheckChromeRoundTrip(const Trace& trace, const std::string& text) {
  if (trace.allocations.empty() && trace.failures.empty()) return;
  const auto again = ParseTrace(text, "again");
  Require(again.ok() && again->failures.size() == trace.failures.size());
  auto same = again->events.begin();
  for (const TraceEvent& event : trace.events) {
    if (!event.TouchesMemory()) continue;
    while (same != again->events.end() && !same->TouchesMemory()) ++same;
    Require(same != again->events.end());
    Require(same->kind == event.kind && same->index == event.index);
    Require(again->allocations[same->index].bytes == trace.allocations[event.index].bytes);
    ++same;
  }
}

inline void CheckRoundTrips(const Trace& trace) {
  CheckNativeRoundTrip(trace);
  for (const trace_files::Format& format : trace_files::Formats()) {
    std::ostringstream text;
    if (!format.write(trace, text).ok()) continue;  // an id with a line break
    if (format.format == TraceFormat::kOperationCsv) CheckOperationRoundTrip(trace, text.str());
    if (format.format == TraceFormat::kLifetimeCsv) CheckLifetimeRoundTrip(trace, text.str());
    if (format.format == TraceFormat::kChromeTrace) CheckChromeRoundTrip(trace, text.str());
  }
}

inline void Read(std::string_view contents) {
  const auto trace = ParseTrace(contents, "input");
  if (!trace.ok()) {
    Require(trace.status().message().find('\n') == absl::string_view::npos);
    return;
  }
  CheckEvents(*trace);
  CheckRoundTrips(*trace);
  const auto load = MeasureLoad(*trace, trace->default_alignment);
  if (!load.ok()) return;
  const auto policy = MakePlacementPolicy("high-end-offload");
  const auto result =
      Replay(*trace, **policy,
             {.pool_bytes = load->peak_live_bytes, .alignment = trace->default_alignment});
  if (result.ok()) Require(result->high_water_bytes <= load->peak_live_bytes);
}

// Puts a header before the input, so that any input reaches the reader's rows.
inline void ReadWithHeader(std::string_view header, const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Read(input);
  Read(std::string(header) + std::string(input));
}

}  // namespace tidepool::fuzz

#endif  // TIDEPOOL_TESTS_FUZZ_FUZZ_READER_H_
