// Reads a trace of any format: uncompresses it, reads the header, lets each format say whether it
// is its own.
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

absl::StatusOr<Trace> ReadFrom(std::unique_ptr<ByteSource> source, const std::string& name) {
  absl::StatusOr<std::unique_ptr<ByteSource>> plain = internal::Uncompressed(std::move(source));
  if (!plain.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(internal::Escaped(name), ":0: ", plain.status().message()));
  }
  CsvReader reader(*std::move(plain), name);
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
  return reader.Error(absl::StrCat("not a trace, expected a header: ", ExpectedHeaders()));
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ByteSource>> file = internal::OpenFile(path);
  if (!file.ok()) {
    return absl::Status(file.status().code(),
                        absl::StrCat(internal::Escaped(path), ":0: ", file.status().message()));
  }
  return ReadFrom(*std::move(file), path);
}

absl::StatusOr<Trace> ParseTrace(std::string_view contents, const std::string& name) {
  return ReadFrom(internal::FromMemory(contents), name);
}

}  // namespace tidepool
