// The registry of trace formats: names, and how each is recognised, read and written. A format is
// one folder and one line in the tables of formats.cc. Files in CSV are told apart by their header,
// all others by their first bytes.
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
#include "lib/io/byte_source.h"
#include "lib/io/csv.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::trace_files {

struct Format {
  TraceFormat format;
  const char* name;
  absl::Status (*write)(const Trace& trace, std::ostream& out);
};

absl::Span<const Format> Formats();

// How a file of no other format begins, as long as the file is.
inline constexpr std::size_t kBeginning = 8;

struct ByteFormat {
  const char* what;  // as errors show it
  bool (*recognises)(std::string_view beginning);
  // Errors are with the place, `name` in front.
  absl::StatusOr<Trace> (*read)(io::ByteSource& source, const std::string& name,
                                const ReadOptions& options);
};

absl::Span<const ByteFormat> ByteFormats();

struct CsvFormat {
  const char* header;                                    // as errors show it
  bool (*recognises)(const io::CsvReader& reader);       // after the header was read
  absl::StatusOr<Trace> (*read)(io::CsvReader& reader);  // from behind the header
};

absl::Span<const CsvFormat> CsvFormats();

}  // namespace tidepool::trace_files

#endif  // TIDEPOOL_LIB_TRACE_FILES_FORMATS_H_
