// SPDX-License-Identifier: Apache-2.0
// Lifetime CSV, `id,lower,upper,size`: a buffer lives in [lower, upper). Placement problems are
// published in this form (MiniMalloc). Reading turns rows into events in the order of time. At
// equal times frees come before allocations, and allocations keep the order of rows.
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/trace/csv/csv_traces.h"
#include "lib/trace/csv/lifetime_rows.h"
#include "lib/trace/model/order_by_time.h"

namespace tidepool::csv {

namespace {

// Returns the events of `rows` in the order of time.
TraceEvents ToEvents(const LifetimeRows& rows) {
  using Kind = TraceEvent::Kind;
  TraceEvents events;
  events.reserve(2 * rows.lower.size());
  const auto add = [&](std::int64_t time, std::uint32_t row, Kind kind) {
    events.push_back({.time = time, .index = row, .kind = kind});
  };
  std::uint32_t next = 0;
  for (const std::uint32_t ended : trace::OrderByTime(rows.upper)) {
    for (; next < rows.lower.size() && rows.lower[next] < rows.upper[ended]; ++next) {
      add(rows.lower[next], next, Kind::kAllocate);
    }
    add(rows.upper[ended], ended, Kind::kFree);
  }
  return events;
}

}  // namespace

bool IsLifetimeCsv(const io::CsvReader& reader) {
  return reader.HasColumn("lower") || reader.HasColumn("upper");
}

absl::StatusOr<Trace> ReadLifetimeCsv(io::CsvReader& reader) {
  absl::StatusOr<LifetimeRows> rows = ReadLifetimeRows(reader, RowKind::kLifetime);
  if (!rows.ok()) return rows.status();
  Trace trace;
  trace.format = TraceFormat::kLifetimeCsv;
  trace.original_format = TraceFormat::kLifetimeCsv;
  trace.default_alignment = 1;
  trace.events = ToEvents(*rows);
  trace.allocations = std::move(rows->allocations);
  trace.allocation_ids = std::move(rows->ids);
  trace.stream_names.Add("");
  trace.thread_names.Add("");
  trace.row_order = std::move(rows->positions);
  return trace;
}

absl::Status WriteLifetimeCsv(const Trace& trace, std::ostream& out) {
  return WriteLifetimes(trace, nullptr, out);
}

absl::StatusOr<TraceLifetimes> LifetimesOf(const Trace& trace) {
  const bool keeps_times = trace.original_format == TraceFormat::kLifetimeCsv;
  auto never = static_cast<std::int64_t>(trace.events.size());
  if (keeps_times && !trace.events.empty()) {
    const std::int64_t last = trace.events.back().time;
    never = last == INT64_MAX ? last : last + 1;
  }
  TraceLifetimes lifetimes;
  lifetimes.lower.resize(trace.allocations.size());
  lifetimes.upper.resize(trace.allocations.size(), never);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    const std::int64_t time = keeps_times ? event.time : static_cast<std::int64_t>(i);
    if (event.kind == TraceEvent::Kind::kAllocate) lifetimes.lower[event.index] = time;
    if (event.kind == TraceEvent::Kind::kFree) lifetimes.upper[event.index] = time;
  }
  for (std::size_t i = 0; i < trace.allocations.size(); ++i) {
    if (lifetimes.lower[i] < lifetimes.upper[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a lifetime of ", text::Quoted(trace.allocation_ids[i]), " from ", lifetimes.lower[i],
        " to ", lifetimes.upper[i], ", expected an end after ", lifetimes.lower[i]));
  }
  return lifetimes;
}

absl::Status WriteLifetimes(const Trace& trace, const std::vector<std::int64_t>* offsets,
                            std::ostream& out) {
  const absl::StatusOr<TraceLifetimes> lifetimes = LifetimesOf(trace);
  if (!lifetimes.ok()) return lifetimes.status();
  out << "id,lower,upper,size" << (offsets == nullptr ? "\n" : ",offset\n");
  for (std::size_t row = 0; row < trace.allocations.size(); ++row) {
    const std::size_t i = trace.row_order.empty() ? row : trace.row_order[row];
    absl::StatusOr<std::string> id = io::CsvField(trace.allocation_ids[i]);
    if (!id.ok()) return id.status();
    out << *id << ',' << lifetimes->lower[i] << ',' << lifetimes->upper[i] << ','
        << trace.allocations[i].bytes;
    if (offsets != nullptr) out << ',' << (*offsets)[i];
    out << '\n';
  }
  return absl::OkStatus();
}

}  // namespace tidepool::csv
