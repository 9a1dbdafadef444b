// The trace formats: how each is recognised by its header, read and written. A format is one file,
// declared here, and one line of the table in format.cc.
#ifndef TIDEPOOL_LIB_TRACE_FORMAT_H_
#define TIDEPOOL_LIB_TRACE_FORMAT_H_

#include <ostream>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/trace/csv.h"
#include "tidepool/trace.h"

namespace tidepool::internal {

struct CsvFormat {
  TraceFormat format;
  const char* name;
  const char* header;                                // as errors show it
  bool (*recognises)(const CsvReader& reader);       // after the header was read
  absl::StatusOr<Trace> (*read)(CsvReader& reader);  // from behind the header
  absl::Status (*write)(const Trace& trace, std::ostream& out);
};

absl::Span<const CsvFormat> CsvFormats();

bool IsOperationCsv(const CsvReader& reader);
absl::StatusOr<Trace> ReadOperationCsv(CsvReader& reader);
absl::Status WriteOperationCsv(const Trace& trace, std::ostream& out);

bool IsRmmCsv(const CsvReader& reader);
absl::StatusOr<Trace> ReadRmmCsv(CsvReader& reader);
absl::Status WriteRmmCsv(const Trace& trace, std::ostream& out);

bool IsLifetimeCsv(const CsvReader& reader);
absl::StatusOr<Trace> ReadLifetimeCsv(CsvReader& reader);
absl::Status WriteLifetimeCsv(const Trace& trace, std::ostream& out);

}  // namespace tidepool::internal

#endif  // TIDEPOOL_LIB_TRACE_FORMAT_H_
