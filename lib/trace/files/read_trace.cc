// SPDX-License-Identifier: Apache-2.0
// Reads a trace of any format. Decompresses the file and compares its first bytes with each binary
// format and JSON. If none matches, reads a CSV header and asks the CSV formats.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/csv.h"
#include "lib/base/text/quote.h"
#include "lib/trace/files/formats.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using io::ByteSource;
using io::CsvReader;
using text::AboutFile;
using trace_files::CsvFormat;

std::string ExpectedHeaders() {
  std::string headers;
  for (const CsvFormat& format : trace_files::CsvFormats()) {
    absl::StrAppend(&headers, headers.empty() ? "" : " or ", format.header);
  }
  return headers;
}

std::string ExpectedBeginnings() {
  return absl::StrJoin(trace_files::ByteFormats(), ", ",
                       [](std::string* text, const trace_files::ByteFormat& format) {
                         absl::StrAppend(text, format.what);
                       });
}

absl::StatusOr<Trace> ReadCsv(std::unique_ptr<io::ByteSource> source, const std::string& name) {
  io::CsvReader reader(std::move(source), name);
  if (!reader.Next()) {
    if (!reader.status().ok()) return reader.status();
    return reader.ErrorAt(1, absl::StrCat("an empty file, expected a header: ", ExpectedHeaders()));
  }
  reader.UseAsHeader();
  for (const CsvFormat& format : trace_files::CsvFormats()) {
    if (!format.recognises(reader)) continue;
    absl::StatusOr<Trace> trace = format.read(reader);
    if (trace.ok() && trace->events.empty()) {
      return reader.ErrorAt(reader.line() + 1,
                            "no events, expected at least one row after the header");
    }
    return trace;
  }
  return reader.Error(absl::StrCat("not a trace, expected ", ExpectedBeginnings(),
                                   " or a header: ", ExpectedHeaders()));
}

absl::StatusOr<Trace> ReadPlain(std::unique_ptr<io::ByteSource> plain, const std::string& name,
                                const ReadOptions& options) {
  absl::StatusOr<std::string> beginning = io::Peek(plain, trace_files::kBeginning);
  if (!beginning.ok()) return text::AboutFile(name, beginning.status());
  for (const trace_files::ByteFormat& format : trace_files::ByteFormats()) {
    if (format.recognises(*beginning)) return format.read(*plain, name, options);
  }
  return ReadCsv(std::move(plain), name);
}

std::string DevicesOf(const Trace& trace) {
  return trace.devices.empty() ? "0" : absl::StrJoin(trace.devices, ", ");
}

absl::StatusOr<Trace> ReadFrom(std::unique_ptr<io::ByteSource> source, const std::string& name,
                               const ReadOptions& options) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> plain = io::Uncompressed(std::move(source));
  if (!plain.ok()) return text::AboutFile(name, plain.status());
  absl::StatusOr<Trace> trace =
      ReadPlain(io::Stoppable(*std::move(plain), options.stop), name, options);
  // Without the name of the file, which is not at fault.
  if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
  if (!trace.ok() || !options.device || *options.device == trace->device) return trace;
  return text::AboutFile(name, absl::InvalidArgumentError(absl::StrCat(
                                   "device ", *options.device,
                                   " is not in the file, expected one of ", DevicesOf(*trace))));
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(const std::string& path, const ReadOptions& options) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file = io::OpenFile(path, "a trace");
  if (!file.ok()) return text::AboutFile(path, file.status());
  return ReadFrom(*std::move(file), path, options);
}

absl::StatusOr<Trace> ParseTrace(std::string_view contents, const std::string& name,
                                 const ReadOptions& options) {
  return ReadFrom(io::FromMemory(contents), name, options);
}

}  // namespace tidepool
