// What every fuzz target checks of an input: it is refused in one line, or it is a trace that holds
// together, that can be replayed, and that reads the same after it was written.
#ifndef TIDEPOOL_TESTS_FUZZ_FUZZ_READER_H_
#define TIDEPOOL_TESTS_FUZZ_FUZZ_READER_H_

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "lib/trace/format.h"
#include "tidepool/sizing.h"
#include "tidepool/trace.h"

namespace tidepool::fuzz {

inline void Require(bool condition) {
  if (!condition) std::abort();
}

inline void CheckEvents(const Trace& trace) {
  std::uint32_t allocations = 0;
  std::vector<bool> live(trace.allocations.size());
  for (const TraceEvent& event : trace.events) {
    switch (event.kind()) {
      case TraceEvent::Kind::kAllocate:
        Require(event.index == allocations++);
        Require(trace.allocations[event.index].bytes >= 1);
        live[event.index] = true;
        break;
      case TraceEvent::Kind::kFree:
        Require(live.at(event.index));
        live[event.index] = false;
        break;
      case TraceEvent::Kind::kMark:
        Require(event.index < trace.mark_names.size());
        break;
    }
  }
  Require(allocations == trace.allocations.size() && trace.allocation_ids.size() == allocations);
}

// Written and read again, a trace has the same events.
inline void CheckRoundTrip(const Trace& trace) {
  for (const internal::CsvFormat& format : internal::CsvFormats()) {
    std::ostringstream text;
    if (!format.write(trace, text).ok()) continue;  // an id with a line break
    const auto again = ParseTrace(text.str(), "again");
    if (format.format != TraceFormat::kOperationCsv) continue;
    Require(again.ok() && again->events.size() == trace.events.size());
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
      Require(again->events[i].index == trace.events[i].index);
      Require(again->events[i].kind() == trace.events[i].kind());
    }
  }
}

inline void Read(std::string_view contents) {
  const auto trace = ParseTrace(contents, "input");
  if (!trace.ok()) {
    Require(trace.status().message().find('\n') == absl::string_view::npos);
    return;
  }
  CheckEvents(*trace);
  CheckRoundTrip(*trace);
  const auto load = MeasureLoad(*trace, trace->default_alignment());
  if (!load.ok()) return;
  const auto policy = MakePlacementPolicy("high-end-offload");
  const auto result =
      Replay(*trace, **policy,
             {.pool_bytes = load->peak_live_bytes, .alignment = trace->default_alignment()});
  if (result.ok()) Require(result->high_water_bytes <= load->peak_live_bytes);
}

// Lets any input reach the reader with this header.
inline void ReadWithHeader(std::string_view header, const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Read(input);
  Read(std::string(header) + std::string(input));
}

}  // namespace tidepool::fuzz

#endif  // TIDEPOOL_TESTS_FUZZ_FUZZ_READER_H_
