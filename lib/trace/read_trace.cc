// Reads a trace of any format: uncompresses it, looks at its beginning, and if that is no native
// trace reads the header and lets each CSV format say whether it is its own.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/trace/byte_source.h"
#include "lib/trace/csv.h"
#include "lib/trace/format.h"
#include "lib/trace/quote.h"
#include "tidepool/trace.h"

namespace tidepool {
namespace {

using internal::ByteSource;
using internal::CsvFormat;
using internal::CsvReader;

std::string ExpectedHeaders() {
  std::string headers;
  for (const CsvFormat& format : internal::CsvFormats()) {
    absl::StrAppend(&headers, headers.empty() ? "" : " or ", format.header);
  }
  return headers;
}

absl::StatusOr<Trace> ReadCsv(std::unique_ptr<ByteSource> source, const std::string& name) {
  CsvReader reader(std::move(source), name);
  if (!reader.Next()) {
    if (!reader.status().ok()) return reader.status();
    return reader.ErrorAt(1, absl::StrCat("an empty file, expected a header: ", ExpectedHeaders()));
  }
  reader.UseAsHeader();
  for (const CsvFormat& format : internal::CsvFormats()) {
    if (!format.recognises(reader)) continue;
    absl::StatusOr<Trace> trace = format.read(reader);
    if (trace.ok() && trace->events.empty()) {
      return reader.ErrorAt(reader.line() + 1,
                            "no events, expected at least one row behind the header");
    }
    return trace;
  }
  return reader.Error(
      absl::StrCat("not a trace, expected a native one or a header: ", ExpectedHeaders()));
}

absl::Status AboutFile(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(internal::Escaped(name), ":0: ", status.message()));
}

absl::StatusOr<Trace> ReadFrom(std::unique_ptr<ByteSource> source, const std::string& name) {
  absl::StatusOr<std::unique_ptr<ByteSource>> plain = internal::Uncompressed(std::move(source));
  if (!plain.ok()) return AboutFile(name, plain.status());
  absl::StatusOr<std::string> beginning = internal::Peek(*plain, internal::kNativeBeginning);
  if (!beginning.ok()) return AboutFile(name, beginning.status());
  if (!internal::IsNative(*beginning)) return ReadCsv(*std::move(plain), name);
  absl::StatusOr<Trace> trace = internal::ReadNative(**plain);
  return trace.ok() ? std::move(trace) : AboutFile(name, trace.status());
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ByteSource>> file = internal::OpenFile(path);
  if (!file.ok()) return AboutFile(path, file.status());
  return ReadFrom(*std::move(file), path);
}

absl::StatusOr<Trace> ParseTrace(std::string_view contents, const std::string& name) {
  return ReadFrom(internal::FromMemory(contents), name);
}

}  // namespace tidepool
