// Lifetime CSV, `id,lower,upper,size`: a buffer lives in [lower, upper), the form in which
// placement problems are published (MiniMalloc). It becomes events by time: frees before
// allocations at equal times, and allocations in row order.
#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/trace/format.h"
#include "lib/trace/order_by_time.h"
#include "lib/trace/quote.h"

namespace tidepool::internal {

namespace {

// The rows of a file, by column.
struct Lifetimes {
  StringTable ids;
  std::vector<TraceAllocation> allocations;
  std::vector<std::int64_t> lower;
  std::vector<std::int64_t> upper;
  std::vector<std::int64_t> lines;

  bool IsFullFor(std::size_t id_bytes) const {
    return ids.IsFullFor(id_bytes) || lines.size() == UINT32_MAX - 1;
  }
  void Add(std::string_view id, const TraceAllocation& allocation, std::int64_t from,
           std::int64_t to, std::int64_t line) {
    ids.Add(id);
    allocations.push_back(allocation);
    lower.push_back(from);
    upper.push_back(to);
    lines.push_back(line);
  }
};

// Sorts the rows and returns where each of them went: nothing when they were in order.
std::vector<std::uint32_t> SortByLower(Lifetimes& rows) {
  if (std::is_sorted(rows.lower.begin(), rows.lower.end())) return {};
  std::vector<std::uint32_t> places(rows.lower.size());
  Lifetimes sorted;
  for (const std::uint32_t row : OrderByTime(rows.lower)) {
    places[row] = static_cast<std::uint32_t>(sorted.lower.size());
    sorted.Add(rows.ids[row], rows.allocations[row], rows.lower[row], rows.upper[row],
               rows.lines[row]);
  }
  rows = std::move(sorted);
  return places;
}

// Whether each id is longer than the one before or greater in the order of text. Such ids, the
// usual ones, are all different.
bool Ascend(const StringTable& ids) {
  for (std::size_t row = 1; row < ids.size(); ++row) {
    const std::string_view a = ids[row - 1];
    const std::string_view b = ids[row];
    if (a.size() > b.size() || (a.size() == b.size() && a >= b)) return false;
  }
  return true;
}

// Error at the first of `rows`, which are in the order of time, whose id is live already.
absl::Status CheckIds(const Lifetimes& rows, const CsvReader& reader) {
  if (Ascend(rows.ids)) return absl::OkStatus();
  absl::flat_hash_map<absl::string_view, std::int64_t> live_until;
  for (std::size_t row = 0; row < rows.ids.size(); ++row) {
    const std::string_view id = rows.ids[row];
    std::int64_t& until = live_until.try_emplace({id.data(), id.size()}, INT64_MIN).first->second;
    if (until > rows.lower[row]) return reader.ErrorAt(rows.lines[row], AllocatedLive(id));
    until = rows.upper[row];
  }
  return absl::OkStatus();
}

// The events of `rows`, which are in the order of time.
std::vector<TraceEvent> ToEvents(const Lifetimes& rows) {
  using Kind = TraceEvent::Kind;
  std::vector<TraceEvent> events;
  events.reserve(2 * rows.lower.size());
  const auto add = [&](std::int64_t time, std::uint32_t row, Kind kind) {
    events.push_back({.time = time, .index = row, .kind = kind});
  };
  std::uint32_t next = 0;
  for (const std::uint32_t ended : OrderByTime(rows.upper)) {
    for (; next < rows.lower.size() && rows.lower[next] < rows.upper[ended]; ++next) {
      add(rows.lower[next], next, Kind::kAllocate);
    }
    add(rows.upper[ended], ended, Kind::kFree);
  }
  return events;
}

}  // namespace

bool IsLifetimeCsv(const CsvReader& reader) {
  return reader.HasColumn("lower") || reader.HasColumn("upper");
}

absl::StatusOr<Trace> ReadLifetimeCsv(CsvReader& reader) {
  absl::Status columns = reader.RequireColumns({"id", "lower", "upper", "size"});
  if (!columns.ok()) return columns;
  const int id = reader.Column("id");
  const int lower = reader.Column("lower");
  const int upper = reader.Column("upper");
  const int size = reader.Column("size");
  Lifetimes rows;
  while (reader.Next()) {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t bytes = 0;
    for (const auto& [column, value, name] :
         {std::tuple{lower, &begin, "lower"}, {upper, &end, "upper"}}) {
      if (ParseInteger(reader.field(column), value)) continue;
      return reader.Error(
          absl::StrCat(name, " ", Quoted(reader.field(column)), ", expected a whole number"));
    }
    if (end <= begin) {
      return reader.Error(
          absl::StrCat("upper ", end, " after lower ", begin,
                       ", expected a greater one: a buffer lives in [lower, upper)"));
    }
    if (absl::Status status = ParseBytes(reader.field(size), &bytes); !status.ok()) {
      return reader.Error({status.message().data(), status.message().size()});
    }
    if (rows.IsFullFor(reader.field(id).size()))
      return reader.Error("ids of more than 4 GiB, expected fewer rows");
    rows.Add(reader.field(id), {bytes, Hint::kResident}, begin, end, reader.line());
  }
  if (!reader.status().ok()) return reader.status();
  std::vector<std::uint32_t> row_order = SortByLower(rows);
  if (absl::Status status = CheckIds(rows, reader); !status.ok()) return status;
  Trace trace;
  trace.format = TraceFormat::kLifetimeCsv;
  trace.original_format = TraceFormat::kLifetimeCsv;
  trace.default_alignment = 1;
  trace.events = ToEvents(rows);
  trace.allocations = std::move(rows.allocations);
  trace.allocation_ids = std::move(rows.ids);
  trace.stream_names.Add("");
  trace.thread_names.Add("");
  trace.row_order = std::move(row_order);
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
        "a lifetime of ", Quoted(trace.allocation_ids[i]), " from ", lifetimes.lower[i], " to ",
        lifetimes.upper[i], ", expected its end to be later than its beginning"));
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
    absl::StatusOr<std::string> id = CsvField(trace.allocation_ids[i]);
    if (!id.ok()) return id.status();
    out << *id << ',' << lifetimes->lower[i] << ',' << lifetimes->upper[i] << ','
        << trace.allocations[i].bytes;
    if (offsets != nullptr) out << ',' << (*offsets)[i];
    out << '\n';
  }
  return absl::OkStatus();
}

}  // namespace tidepool::internal
