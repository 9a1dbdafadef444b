// Lifetime CSV, `id,lower,upper,size`: a buffer lives in [lower, upper), the form in which
// placement problems are published (MiniMalloc). It becomes events by time: frees before
// allocations at equal times, and allocations in row order.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/trace/format.h"
#include "lib/trace/quote.h"

namespace tidepool::internal {

namespace {

struct Lifetime {
  std::int64_t lower;
  std::int64_t upper;
  std::int64_t bytes;
  std::int64_t line;
};

// The rows in the order of `time`, equal ones in row order.
std::vector<std::uint32_t> RowsByTime(const std::vector<Lifetime>& rows,
                                      std::int64_t Lifetime::*time) {
  std::vector<std::uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
    return rows[a].*time < rows[b].*time;
  };
  if (!std::is_sorted(order.begin(), order.end(), earlier)) {
    // The times beside the row numbers: looking each up in its row would be most of the work.
    std::vector<std::pair<std::int64_t, std::uint32_t>> keys;
    keys.reserve(rows.size());
    for (const std::uint32_t row : order) keys.emplace_back(rows[row].*time, row);
    std::sort(keys.begin(), keys.end());
    std::transform(keys.begin(), keys.end(), order.begin(),
                   [](const auto& key) { return key.second; });
  }
  return order;
}

absl::StatusOr<Trace> ToTrace(const std::vector<Lifetime>& rows, const StringTable& ids,
                              const CsvReader& reader) {
  const auto by_lower = RowsByTime(rows, &Lifetime::lower);
  const auto by_upper = RowsByTime(rows, &Lifetime::upper);
  TraceBuilder builder(TraceFormat::kLifetimeCsv);
  auto next_free = by_upper.begin();
  const auto free_until = [&](std::int64_t time) {
    for (; next_free != by_upper.end() && rows[*next_free].upper <= time; ++next_free) {
      builder.Free(ids[*next_free], "", rows[*next_free].upper);
    }
  };
  for (const std::uint32_t row : by_lower) {
    free_until(rows[row].lower);
    absl::Status status =
        builder.Allocate(ids[row], rows[row].bytes, Hint::kResident, "", rows[row].lower);
    if (!status.ok()) {
      return reader.ErrorAt(rows[row].line, {status.message().data(), status.message().size()});
    }
  }
  free_until(INT64_MAX);
  return builder.Build();
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
  std::vector<Lifetime> rows;
  StringTable ids;
  while (reader.Next()) {
    Lifetime row{};
    row.line = reader.line();
    for (const auto& [column, value, name] :
         {std::tuple{lower, &row.lower, "lower"}, {upper, &row.upper, "upper"}}) {
      if (ParseInteger(reader.field(column), value)) continue;
      return reader.Error(
          absl::StrCat(name, " ", Quoted(reader.field(column)), ", expected a whole number"));
    }
    if (row.upper <= row.lower) {
      return reader.Error(
          absl::StrCat("upper ", row.upper, " after lower ", row.lower,
                       ", expected a greater one: a buffer lives in [lower, upper)"));
    }
    if (absl::Status status = ParseBytes(reader.field(size), &row.bytes); !status.ok()) {
      return reader.Error({status.message().data(), status.message().size()});
    }
    if (ids.IsFullFor(reader.field(id).size()))
      return reader.Error("ids of more than 4 GiB, expected fewer rows");
    ids.Add(reader.field(id));
    rows.push_back(row);
  }
  if (!reader.status().ok()) return reader.status();
  return ToTrace(rows, ids, reader);
}

absl::Status WriteLifetimeCsv(const Trace& trace, std::ostream& out) {
  const bool keeps_times = trace.format == TraceFormat::kLifetimeCsv;
  const auto never = static_cast<std::int64_t>(trace.events.size());
  std::vector<std::int64_t> lower(trace.allocations.size());
  std::vector<std::int64_t> upper(trace.allocations.size(), never);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    const std::int64_t time = keeps_times ? event.time : static_cast<std::int64_t>(i);
    if (event.kind() == TraceEvent::Kind::kAllocate) lower[event.index] = time;
    if (event.kind() == TraceEvent::Kind::kFree) upper[event.index] = time;
  }
  out << "id,lower,upper,size\n";
  for (std::size_t i = 0; i < trace.allocations.size(); ++i) {
    absl::StatusOr<std::string> id = CsvField(trace.allocation_ids[i]);
    if (!id.ok()) return id.status();
    out << *id << ',' << lower[i] << ',' << upper[i] << ',' << trace.allocations[i].bytes << '\n';
  }
  return absl::OkStatus();
}

}  // namespace tidepool::internal
