// SPDX-License-Identifier: Apache-2.0
// Operation CSV, `op,id,size,hint` and optionally `stream,time_ns`. Op `a` allocates, `f` frees,
// `m` is a mark with its name in `id`. The hint is empty or `high` (kOffloadable). A file is a
// whole run, so a free without its allocation is an error.
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/trace/csv/csv_traces.h"

namespace tidepool::csv {

namespace {

// Indices of the columns of a file.
struct OperationColumns {
  explicit OperationColumns(const io::CsvReader& reader)
      : op(reader.Column("op")),
        id(reader.Column("id")),
        size(reader.Column("size")),
        hint(reader.Column("hint")),
        stream(reader.Column("stream")),
        time(reader.Column("time_ns")) {}

  int op;
  int id;
  int size;
  int hint;
  int stream;
  int time;
};

absl::Status TakeTime(const io::CsvReader& reader, int column, std::int64_t* time) {
  const std::string_view text = reader.field(column);
  if (text.empty() || io::ParseInteger(text, time)) return absl::OkStatus();
  return reader.Error(absl::StrCat("time_ns ", text::Quoted(text), ", expected whole nanoseconds"));
}

absl::Status AddAllocation(const io::CsvReader& reader, const OperationColumns& columns,
                           std::int64_t time, TraceBuilder& builder) {
  std::int64_t bytes = 0;
  absl::Status status = io::ParseBytes(reader.field(columns.size), kMaxRequestBytes, &bytes);
  const std::string_view hint_text = reader.field(columns.hint);
  if (status.ok() && !hint_text.empty() && hint_text != "high") {
    return reader.Error(
        absl::StrCat("hint ", text::Quoted(hint_text), ", expected an empty hint or high"));
  }
  const Hint hint = hint_text.empty() ? Hint::kResident : Hint::kOffloadable;
  if (status.ok()) {
    status =
        builder.Allocate(reader.field(columns.id), bytes, hint, reader.field(columns.stream), time);
  }
  if (status.ok()) return status;
  return reader.Error({status.message().data(), status.message().size()});
}

// Adds the current row.
absl::Status AddRow(const io::CsvReader& reader, const OperationColumns& columns,
                    TraceBuilder& builder) {
  builder.SetLine(reader.line());
  std::int64_t time = 0;
  if (absl::Status status = TakeTime(reader, columns.time, &time); !status.ok()) return status;
  const std::string_view op = reader.field(columns.op);
  const std::string_view id = reader.field(columns.id);
  if (op == "a") return AddAllocation(reader, columns, time, builder);
  if (op == "f") {
    if (!builder.Free(id, reader.field(columns.stream), time)) builder.CountUnmatchedFree();
    return absl::OkStatus();
  }
  if (op == "m") {
    builder.Mark(id, time);
    return absl::OkStatus();
  }
  return reader.Error(absl::StrCat("op ", text::Quoted(op), ", expected a, f or m"));
}

}  // namespace

bool IsOperationCsv(const io::CsvReader& reader) { return reader.HasColumn("op"); }

absl::StatusOr<Trace> ReadOperationCsv(io::CsvReader& reader) {
  if (absl::Status status = reader.RequireColumns({"op", "id", "size", "hint"}); !status.ok())
    return status;
  const OperationColumns columns(reader);
  TraceBuilder builder(TraceFormat::kOperationCsv);
  while (reader.Next()) {
    builder.SetPart(reader.part_read());
    if (absl::Status status = AddRow(reader, columns, builder); !status.ok()) return status;
  }
  if (!reader.status().ok()) return reader.status();
  return builder.Build();
}

absl::Status WriteOperationCsv(const Trace& trace, std::ostream& out) {
  using Kind = TraceEvent::Kind;
  bool has_details = false;
  for (std::size_t i = 0; i < trace.stream_names.size(); ++i)
    has_details |= !trace.stream_names[i].empty();
  for (const TraceEvent& event : trace.events) has_details |= event.time != 0;
  out << (has_details ? "op,id,size,hint,stream,time_ns\n" : "op,id,size,hint\n");
  for (const TraceEvent& event : trace.events) {
    const bool is_mark = event.kind == Kind::kMark;
    if (!is_mark && !event.TouchesMemory()) continue;
    absl::StatusOr<std::string> id =
        io::CsvField(is_mark ? trace.mark_names[event.index] : trace.allocation_ids[event.index]);
    if (!id.ok()) return id.status();
    out << (is_mark ? "m," : event.kind == Kind::kFree ? "f," : "a,") << *id << ',';
    if (event.kind == Kind::kAllocate) out << trace.allocations[event.index].bytes;
    out << ',';
    if (event.kind == Kind::kAllocate &&
        trace.allocations[event.index].hint == Hint::kOffloadable) {
      out << "high";
    }
    if (has_details) {
      absl::StatusOr<std::string> stream =
          io::CsvField(is_mark ? std::string_view() : trace.stream_names[event.stream]);
      if (!stream.ok()) return stream.status();
      out << ',' << *stream << ',' << event.time;
    }
    out << '\n';
  }
  return absl::OkStatus();
}

}  // namespace tidepool::csv
