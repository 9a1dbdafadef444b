// SPDX-License-Identifier: Apache-2.0
// The writing half of the columns.
#include "trace_replay/report/columns.h"

#include <zlib.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace tidepool::tool {
namespace {

class Column {
 public:
  explicit Column(std::size_t expected_bytes = 0) { bytes_.reserve(expected_bytes); }

  void Add(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void AddSigned(std::int64_t value) {
    Add(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
  }
  void AddText(std::string_view text) { bytes_ += text; }

  void AppendTo(std::string& columns) const {
    Column length;
    length.Add(bytes_.size());
    columns += length.bytes_;
    columns += bytes_;
  }

 private:
  std::string bytes_;
};

void AppendTexts(const StringTable& texts, std::string& columns) {
  Column lengths(texts.size());
  Column text;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    lengths.Add(texts[i].size());
    text.AddText(texts[i]);
  }
  lengths.AppendTo(columns);
  text.AppendTo(columns);
}

void AppendAllocations(const Trace& trace, std::string& columns) {
  const std::size_t count = trace.allocations.size();
  Column starts(count);
  Column bytes(3 * count);
  Column tags(count);
  Column streams(count);
  Column threads(count);
  std::vector<std::uint64_t> begun(count);
  std::vector<std::uint64_t> lifetime(count);
  std::uint64_t previous = 0;
  for (std::uint64_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind == TraceEvent::Kind::kFree) lifetime[event.index] = i - begun[event.index];
    if (event.kind != TraceEvent::Kind::kAllocate) continue;
    const TraceAllocation& allocation = trace.allocations[event.index];
    begun[event.index] = i;
    starts.Add(i - std::exchange(previous, i));
    bytes.Add(static_cast<std::uint64_t>(allocation.bytes));
    tags.Add(allocation.tag);
    streams.Add(std::uint64_t{event.stream} * 2 + (allocation.hint == Hint::kOffloadable ? 1 : 0));
    threads.Add(event.thread);
  }
  Column lifetimes(2 * count);
  for (const std::uint64_t events : lifetime) lifetimes.Add(events);
  for (const Column* column : {&starts, &lifetimes, &bytes, &tags, &streams, &threads}) {
    column->AppendTo(columns);
  }
  AppendTexts(trace.allocation_ids, columns);
}

void AppendMoments(const Trace& trace, std::string& columns) {
  Column marks;
  Column reservations;
  Column failures;
  std::uint64_t mark = 0;
  std::uint64_t reservation = 0;
  std::uint64_t failure = 0;
  for (std::uint64_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    switch (event.kind) {
      case TraceEvent::Kind::kMark:
      case TraceEvent::Kind::kMarkEnd:
        marks.Add(i - std::exchange(mark, i));
        marks.Add(std::uint64_t{event.index} * 2 + (event.kind == TraceEvent::Kind::kMarkEnd));
        break;
      case TraceEvent::Kind::kReserve:
        reservations.Add(i - std::exchange(reservation, i));
        reservations.AddSigned(trace.reservations[event.index].bytes);
        break;
      case TraceEvent::Kind::kFailure:
        failures.Add(i - std::exchange(failure, i));
        failures.Add(static_cast<std::uint64_t>(trace.failures[event.index].bytes));
        break;
      default:
        break;
    }
  }
  marks.AppendTo(columns);
  reservations.AppendTo(columns);
  failures.AppendTo(columns);
}

void AppendFrames(const Trace& trace, std::string& columns) {
  Column frames(8 * trace.frames.size());
  for (const TraceFrame& frame : trace.frames) {
    frames.Add(frame.caller);
    frames.Add(frame.name);
    frames.Add(frame.file);
    frames.Add(frame.line);
  }
  frames.AppendTo(columns);
  AppendTexts(trace.frame_texts, columns);
}

}  // namespace

EventTimes MeasureTimes(const Trace& trace) {
  EventTimes times;
  if (trace.events.empty()) return times;
  times.first = trace.events[0].time;
  std::int64_t latest = times.first;
  times.steps.reserve(trace.events.size());
  for (const TraceEvent& event : trace.events) {
    const std::int64_t time = std::max(latest, event.time);
    const std::uint64_t step =
        static_cast<std::uint64_t>(time) - static_cast<std::uint64_t>(latest);
    times.steps.push_back(step);
    if (times.unit != 1) times.unit = std::gcd(times.unit, step);
    latest = time;
  }
  if (times.unit == 0) {
    times.steps.clear();
  } else if (times.unit > 1) {
    for (std::uint64_t& step : times.steps) step /= times.unit;
  }
  return times;
}

std::string TraceColumns(const Trace& trace, const EventTimes& times) {
  std::string columns;
  AppendAllocations(trace, columns);
  Column steps(2 * times.steps.size());
  for (const std::uint64_t step : times.steps) steps.Add(step);
  steps.AppendTo(columns);
  AppendMoments(trace, columns);
  AppendFrames(trace, columns);
  return columns;
}

std::string OffsetColumn(const std::vector<std::int64_t>& offsets, std::int64_t alignment) {
  Column column(3 * offsets.size());
  for (const std::int64_t offset : offsets) {
    column.Add(offset < 0 ? 0 : static_cast<std::uint64_t>(offset / alignment + 1));
  }
  std::string columns;
  column.AppendTo(columns);
  return columns;
}

absl::StatusOr<std::string> Deflated(std::string_view bytes) {
  constexpr int kLevel = 3;  // varints are dense: higher levels gain next to nothing
  uLongf size = compressBound(bytes.size());
  std::string deflated(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(deflated.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), kLevel) != Z_OK) {
    return absl::ResourceExhaustedError("no memory to compress the trace, expected more");
  }
  deflated.resize(size);
  return deflated;
}

}  // namespace tidepool::tool
