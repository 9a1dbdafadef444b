// SPDX-License-Identifier: Apache-2.0
// The columns of varints in which a page holds a trace. trace_replay/report/decode.js reads them.
#ifndef TIDEPOOL_TRACE_REPLAY_REPORT_COLUMNS_H_
#define TIDEPOOL_TRACE_REPLAY_REPORT_COLUMNS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/trace.h"

namespace tidepool::tool {

// Times of events since the first event, in units of the greatest common divisor of all steps. They
// never fall: an event earlier than the previous one gets the time of the previous one.
struct EventTimes {
  std::int64_t first = 0;
  std::uint64_t unit = 0;            // 0: all times are equal; no steps
  std::vector<std::uint64_t> steps;  // one an event, in units
};
EventTimes MeasureTimes(const Trace& trace);

// Returns the columns of a trace. A column is its length in bytes as a varint (LEB128), and then
// one varint a row. In order:
//   1 the event of each allocation, as the step from the one before it
//   2 its lifetime in events; 0: never freed
//   3 its requested bytes
//   4 its tag                      5 twice its stream, plus 1 when it is offloadable
//   6 its thread                   7 the length of its id           8 the ids' text
//   9 the times' steps (empty when all are equal)
//  10 marks: the step of the event, twice the name's index plus 1 when it is an end
//  11 reservations: the step of the event, the bytes (zigzag)
//  12 failures: the step of the event, the bytes
//  13 frames: caller, name, file, line
//  14 the lengths of frame texts  15 the texts
std::string TraceColumns(const Trace& trace, const EventTimes& times);
// Returns one column: offsets in units of the alignment, plus 1; 0 for an allocation without
// offset.
std::string OffsetColumn(const std::vector<std::int64_t>& offsets, std::int64_t alignment);

// Compresses to the zlib format (RFC 1950), which browsers call deflate.
absl::StatusOr<std::string> Deflated(std::string_view bytes);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPORT_COLUMNS_H_
