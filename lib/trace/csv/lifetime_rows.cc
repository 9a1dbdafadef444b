// SPDX-License-Identifier: Apache-2.0
// Lifetime rows: sorts the rows by time before it checks ids, because an id may be used again after
// its free.
#include "lib/trace/csv/lifetime_rows.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/text/quote.h"
#include "lib/trace/model/live_id.h"
#include "lib/trace/model/order_by_time.h"

namespace tidepool::csv {

namespace {

// Indices of the columns of a file.
struct RowColumns {
  int id;
  int lower;
  int upper;
  int size;
  int offset;  // -1 for a lifetime CSV
};

// Puts the values of a column into the order of `order`. Does nothing for an empty column.
template <typename Value>
void Permute(const std::vector<std::uint32_t>& order, std::vector<Value>& column) {
  if (column.empty()) return;
  std::vector<Value> sorted;
  sorted.reserve(column.size());
  for (const std::uint32_t row : order) sorted.push_back(column[row]);
  column = std::move(sorted);
}

void Permute(const std::vector<std::uint32_t>& order, StringTable& column) {
  StringTable sorted;
  sorted.Reserve(column.size(), column.bytes());
  for (const std::uint32_t row : order) sorted.Add(column[row]);
  column = std::move(sorted);
}

// Sorts one column after the other, which takes no second copy of all of them.
void SortByLower(LifetimeRows& rows) {
  if (std::is_sorted(rows.lower.begin(), rows.lower.end())) return;
  const std::vector<std::uint32_t> order = trace::OrderByTime(rows.lower);
  Permute(order, rows.ids);
  Permute(order, rows.allocations);
  Permute(order, rows.lower);
  Permute(order, rows.upper);
  Permute(order, rows.offsets);
  rows.positions.resize(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) rows.positions[order[i]] = i;
}

// Whether each id is longer than the previous id, or equally long and greater. Most files have such
// ids, and then no two ids are equal.
bool Ascend(const StringTable& ids) {
  for (std::size_t row = 1; row < ids.size(); ++row) {
    const std::string_view a = ids[row - 1];
    const std::string_view b = ids[row];
    if (a.size() > b.size() || (a.size() == b.size() && a >= b)) return false;
  }
  return true;
}

// Returns an error at the first row, in the order of time, with an id that is still live.
absl::Status CheckIds(const LifetimeRows& rows, const io::CsvReader& reader) {
  if (Ascend(rows.ids)) return absl::OkStatus();
  absl::flat_hash_map<absl::string_view, std::int64_t> live_until;
  for (std::size_t row = 0; row < rows.ids.size(); ++row) {
    const std::string_view id = rows.ids[row];
    std::int64_t& until = live_until.try_emplace({id.data(), id.size()}, INT64_MIN).first->second;
    if (until > rows.lower[row])
      return reader.ErrorAt(rows.allocations[row].line, trace::LiveIdError(id));
    until = rows.upper[row];
  }
  return absl::OkStatus();
}

absl::Status AddLifetime(const io::CsvReader& reader, const RowColumns& columns,
                         LifetimeRows& rows) {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  for (const auto& [column, value, name] :
       {std::tuple{columns.lower, &begin, "lower"}, {columns.upper, &end, "upper"}}) {
    if (io::ParseInteger(reader.field(column), value)) continue;
    return reader.Error(
        absl::StrCat(name, " ", text::Quoted(reader.field(column)), ", expected a whole number"));
  }
  if (end <= begin) {
    return reader.Error(absl::StrCat("upper ", end, " after lower ", begin, ", expected more than ",
                                     begin, ": a buffer lives in [lower, upper)"));
  }
  rows.lower.push_back(begin);
  rows.upper.push_back(end);
  return absl::OkStatus();
}

absl::Status AddOffset(const io::CsvReader& reader, int column, LifetimeRows& rows) {
  std::int64_t offset = 0;
  if (!io::ParseInteger(reader.field(column), &offset) || offset < 0 || offset > kMaxOffset) {
    return reader.Error(absl::StrCat("offset ", text::Quoted(reader.field(column)),
                                     ", expected 0 to ", kMaxOffset));
  }
  rows.offsets.push_back(offset);
  return absl::OkStatus();
}

// Adds the current row.
absl::Status AddRow(const io::CsvReader& reader, const RowColumns& columns, LifetimeRows& rows) {
  if (absl::Status status = AddLifetime(reader, columns, rows); !status.ok()) return status;
  std::int64_t bytes = 0;
  if (absl::Status status = io::ParseBytes(reader.field(columns.size), kMaxRequestBytes, &bytes);
      !status.ok()) {
    return reader.Error({status.message().data(), status.message().size()});
  }
  const std::string_view id = reader.field(columns.id);
  if (rows.ids.IsFullFor(id.size()) || rows.allocations.size() == UINT32_MAX - 1) {
    return reader.Error("ids of more than 4 GiB or more than 2^32 - 2 rows");
  }
  rows.ids.Add(id);
  rows.allocations.push_back({.bytes = bytes, .line = reader.line()});
  return columns.offset < 0 ? absl::OkStatus() : AddOffset(reader, columns.offset, rows);
}

}  // namespace

absl::StatusOr<LifetimeRows> ReadLifetimeRows(io::CsvReader& reader, RowKind kind) {
  std::vector<std::string_view> names = {"id", "lower", "upper", "size"};
  if (kind == RowKind::kPlanned) names.emplace_back("offset");
  if (absl::Status status = reader.RequireColumns(names); !status.ok()) return status;
  const RowColumns columns = {reader.Column("id"), reader.Column("lower"), reader.Column("upper"),
                              reader.Column("size"),
                              kind == RowKind::kPlanned ? reader.Column("offset") : -1};
  LifetimeRows rows;
  while (reader.Next()) {
    if (absl::Status status = AddRow(reader, columns, rows); !status.ok()) return status;
  }
  if (!reader.status().ok()) return reader.status();
  SortByLower(rows);
  if (absl::Status status = CheckIds(rows, reader); !status.ok()) return status;
  return rows;
}

}  // namespace tidepool::csv
