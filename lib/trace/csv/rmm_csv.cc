// SPDX-License-Identifier: Apache-2.0
// RMM log: the CSV of RMM's logging adaptor, `Thread,Time,Action,Pointer,Size,Stream` in any order
// of columns. A log may begin in the middle of a run, so frees of unknown memory are counted and
// skipped. Requests of zero bytes are skipped too: RMM returns the null pointer for them.
#include <cstdio>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/trace/csv/csv_traces.h"

namespace tidepool::csv {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMostHours = 1'000'000;

// Takes a number from the front of `text` up to one of `separators` or the end of `text`.
bool TakeNumber(std::string_view* text, std::string_view separators, std::int64_t limit,
                std::int64_t* value) {
  const std::size_t end = text->find_first_of(separators);
  if (!io::ParseInteger(text->substr(0, end), value) || *value < 0 || *value >= limit) return false;
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return true;
}

// Parses "HH:MM:SS:micros". Some versions of RMM write a point before the microseconds.
bool ParseTime(std::string_view text, std::int64_t* nanoseconds) {
  std::int64_t hours = 0;
  std::int64_t minutes = 0;
  std::int64_t seconds = 0;
  std::int64_t micros = 0;
  if (!TakeNumber(&text, ":", kMostHours, &hours) || !TakeNumber(&text, ":", 60, &minutes) ||
      !TakeNumber(&text, ":.", 61, &seconds) || !TakeNumber(&text, "", 1'000'000, &micros)) {
    return false;
  }
  *nanoseconds = ((hours * 60 + minutes) * 60 + seconds) * kSecond + micros * 1000;
  return true;
}

std::string TimeText(std::int64_t nanoseconds) {
  char text[48];
  const std::int64_t seconds = nanoseconds / kSecond;
  std::snprintf(text, sizeof(text), "%02lld:%02lld:%02lld:%06lld",
                static_cast<long long>(seconds / 3600), static_cast<long long>(seconds / 60 % 60),
                static_cast<long long>(seconds % 60),
                static_cast<long long>(nanoseconds % kSecond / 1000));
  return text;
}

bool IsHexadecimal(std::string_view text) {
  return text.size() > 2 && text.substr(0, 2) == "0x" &&
         text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos;
}

absl::StatusOr<std::string> FieldOr(std::string_view name, std::string_view unnamed) {
  return io::CsvField(name.empty() ? unnamed : name);
}

// Indices of the columns of a log.
struct RmmColumns {
  explicit RmmColumns(const io::CsvReader& reader)
      : thread(reader.Column("Thread")),
        time(reader.Column("Time")),
        action(reader.Column("Action")),
        pointer(reader.Column("Pointer")),
        size(reader.Column("Size")),
        stream(reader.Column("Stream")) {}

  int thread;
  int time;
  int action;
  int pointer;
  int size;
  int stream;
};

absl::Status AddAllocation(const io::CsvReader& reader, const RmmColumns& columns,
                           std::int64_t time, TraceBuilder& builder) {
  if (reader.field(columns.size) == "0") {
    builder.CountSkippedRow();
    return absl::OkStatus();
  }
  std::int64_t bytes = 0;
  absl::Status status = io::ParseBytes(reader.field(columns.size), kMaxRequestBytes, &bytes);
  if (status.ok()) {
    status = builder.Allocate(reader.field(columns.pointer), bytes, Hint::kResident,
                              reader.field(columns.stream), time);
  }
  if (status.ok()) return status;
  return reader.Error({status.message().data(), status.message().size()});
}

absl::Status AddFailure(const io::CsvReader& reader, const RmmColumns& columns, std::int64_t time,
                        TraceBuilder& builder) {
  if (reader.field(columns.size) == "0") {
    builder.CountSkippedRow();
    return absl::OkStatus();
  }
  std::int64_t bytes = 0;
  absl::Status status = io::ParseBytes(reader.field(columns.size), INT64_MAX, &bytes);
  if (status.ok()) {
    status = builder.Failure(bytes, Hint::kResident, reader.field(columns.stream), time);
  }
  if (status.ok()) return status;
  return reader.Error({status.message().data(), status.message().size()});
}

// Adds the current row.
absl::Status AddRow(const io::CsvReader& reader, const RmmColumns& columns, TraceBuilder& builder) {
  builder.SetLine(reader.line());
  std::int64_t time = 0;
  if (!ParseTime(reader.field(columns.time), &time)) {
    return reader.Error(absl::StrCat("Time ", text::Quoted(reader.field(columns.time)),
                                     ", expected HH:MM:SS:microseconds"));
  }
  builder.SetThread(reader.field(columns.thread));
  const std::string_view action = reader.field(columns.action);
  if (action == "allocate") return AddAllocation(reader, columns, time, builder);
  if (action == "free") {
    const bool is_live =
        builder.Free(reader.field(columns.pointer), reader.field(columns.stream), time);
    if (!is_live) builder.CountUnmatchedFree();
    return absl::OkStatus();
  }
  if (action == "allocate failure") return AddFailure(reader, columns, time, builder);
  return reader.Error(absl::StrCat("Action ", text::Quoted(action),
                                   ", expected allocate, free or allocate failure"));
}

}  // namespace

bool IsRmmCsv(const io::CsvReader& reader) { return reader.HasColumn("Action"); }

absl::StatusOr<Trace> ReadRmmCsv(io::CsvReader& reader) {
  absl::Status status =
      reader.RequireColumns({"Thread", "Time", "Action", "Pointer", "Size", "Stream"});
  if (!status.ok()) return status;
  const RmmColumns columns(reader);
  TraceBuilder builder(TraceFormat::kRmmCsv);
  while (reader.Next()) {
    builder.SetPart(reader.part_read());
    if (status = AddRow(reader, columns, builder); !status.ok()) return status;
  }
  if (!reader.status().ok()) return reader.status();
  return builder.Build();
}

absl::Status WriteRmmCsv(const Trace& trace, std::ostream& out) {
  using Kind = TraceEvent::Kind;
  // If any id is not an address, all ids become invented addresses, so that no two collide.
  bool ids_are_pointers = true;
  for (std::size_t i = 0; i < trace.allocations.size(); ++i) {
    ids_are_pointers &= IsHexadecimal(trace.allocation_ids[i]);
  }
  out << "Thread,Time,Action,Pointer,Size,Stream\n";
  for (const TraceEvent& event : trace.events) {
    if (!event.TouchesMemory() && event.kind != Kind::kFailure) continue;
    if (event.time < 0 || event.time / kSecond / 3600 >= kMostHours) {
      return absl::InvalidArgumentError(absl::StrCat("time ", event.time, " ns, expected 0 to ",
                                                     kMostHours, " hours in an RMM log"));
    }
    absl::StatusOr<std::string> thread = FieldOr(trace.thread_names[event.thread], "0");
    if (!thread.ok()) return thread.status();
    absl::StatusOr<std::string> stream = FieldOr(trace.stream_names[event.stream], "0x0");
    if (!stream.ok()) return stream.status();
    out << *thread << ',' << TimeText(event.time) << ',';
    if (event.kind == Kind::kFailure) {
      out << "allocate failure,0x0," << trace.failures[event.index].bytes;
    } else {
      out << (event.kind == Kind::kAllocate ? "allocate," : "free,");
      if (ids_are_pointers) {
        out << trace.allocation_ids[event.index];
      } else {
        out << absl::StrCat("0x", absl::Hex((std::uint64_t{event.index} + 1) * 512));
      }
      out << ',' << trace.allocations[event.index].bytes;
    }
    out << ',' << *stream << '\n';
  }
  return absl::OkStatus();
}

}  // namespace tidepool::csv
