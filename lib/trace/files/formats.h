// SPDX-License-Identifier: Apache-2.0
// Registry of trace formats: name, recognition, reader and writer. A new format is one folder and
// one line in the tables of formats.cc. CSV files are told apart by their header, all other files
// by their first bytes.
#ifndef TIDEPOOL_LIB_TRACE_FILES_FORMATS_H_
#define TIDEPOOL_LIB_TRACE_FILES_FORMATS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/csv.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::trace_files {

struct Format {
  TraceFormat format;
  const char* name;
  absl::Status (*write)(const Trace& trace, std::ostream& out);
};

absl::Span<const Format> Formats();

// Bytes at the beginning of a file that tell formats apart, except CSV.
inline constexpr std::size_t kBeginning = 8;

struct ByteFormat {
  const char* what;  // description for errors
  bool (*recognises)(std::string_view beginning);
  // Errors begin with "NAME:LINE: ".
  absl::StatusOr<Trace> (*read)(io::ByteSource& source, const std::string& name,
                                const ReadOptions& options);
};

absl::Span<const ByteFormat> ByteFormats();

struct CsvFormat {
  const char* header;                                    // description for errors
  bool (*recognises)(const io::CsvReader& reader);       // called after the header was read
  absl::StatusOr<Trace> (*read)(io::CsvReader& reader);  // reads the rows after the header
};

absl::Span<const CsvFormat> CsvFormats();

}  // namespace tidepool::trace_files

#endif  // TIDEPOOL_LIB_TRACE_FILES_FORMATS_H_
