// Operation CSV, `op,id,size,hint` and optionally `stream,time_ns`. Op `a` allocates, `f` frees,
// `m` is a mark with its name in `id`. The hint is empty or `high` (kOffloadable). A file is a
// whole run, so a free without its allocation is an error.
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/io/quote.h"
#include "lib/trace/csv/csv_traces.h"

namespace tidepool::csv {

bool IsOperationCsv(const io::CsvReader& reader) { return reader.HasColumn("op"); }

absl::StatusOr<Trace> ReadOperationCsv(io::CsvReader& reader) {
  if (absl::Status status = reader.RequireColumns({"op", "id", "size", "hint"}); !status.ok())
    return status;
  const int op = reader.Column("op");
  const int id = reader.Column("id");
  const int size = reader.Column("size");
  const int hint = reader.Column("hint");
  const int stream = reader.Column("stream");
  const int time_column = reader.Column("time_ns");
  TraceBuilder builder(TraceFormat::kOperationCsv);
  while (reader.Next()) {
    std::int64_t time = 0;
    const std::string_view time_text = reader.field(time_column);
    if (!time_text.empty() && !io::ParseInteger(time_text, &time)) {
      return reader.Error(
          absl::StrCat("time_ns ", io::Quoted(time_text), ", expected whole nanoseconds"));
    }
    const std::string_view op_text = reader.field(op);
    const std::string_view id_text = reader.field(id);
    if (op_text == "a") {
      std::int64_t bytes = 0;
      absl::Status status = io::ParseBytes(reader.field(size), kMaxRequestBytes, &bytes);
      const std::string_view hint_text = reader.field(hint);
      if (status.ok() && !hint_text.empty() && hint_text != "high") {
        return reader.Error(
            absl::StrCat("hint ", io::Quoted(hint_text), ", expected nothing or high"));
      }
      const Hint parsed_hint = hint_text.empty() ? Hint::kResident : Hint::kOffloadable;
      if (status.ok())
        status = builder.Allocate(id_text, bytes, parsed_hint, reader.field(stream), time);
      if (!status.ok()) return reader.Error({status.message().data(), status.message().size()});
    } else if (op_text == "f") {
      if (!builder.Free(id_text, reader.field(stream), time)) {
        return reader.Error(absl::StrCat("id ", io::Quoted(id_text),
                                         " is freed but not live, expected its allocation before"));
      }
    } else if (op_text == "m") {
      builder.Mark(id_text, time);
    } else {
      return reader.Error(absl::StrCat("op ", io::Quoted(op_text), ", expected a, f or m"));
    }
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
