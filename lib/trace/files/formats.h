// The trace formats: their names, how each is recognised, read and written. A format is declared
// here and has a line in the tables of format.cc: all in one; those that their first bytes tell
// apart, and those in CSV, which their header tells apart, in one more.
#ifndef TIDEPOOL_LIB_TRACE_FORMAT_H_
#define TIDEPOOL_LIB_TRACE_FORMAT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/trace/byte_source.h"
#include "lib/trace/csv.h"
#include "tidepool/trace.h"

namespace tidepool::internal {

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
  absl::StatusOr<Trace> (*read)(ByteSource& source, const std::string& name,
                                const ReadOptions& options);
};

absl::Span<const ByteFormat> ByteFormats();

struct CsvFormat {
  const char* header;                                // as errors show it
  bool (*recognises)(const CsvReader& reader);       // after the header was read
  absl::StatusOr<Trace> (*read)(CsvReader& reader);  // from behind the header
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
// The same with a column more, an offset for each allocation, unless there are none.
absl::Status WriteLifetimes(const Trace& trace, const std::vector<std::int64_t>* offsets,
                            std::ostream& out);
// From when to when each allocation lives, in the times of a lifetime CSV: the trace's own if it
// came from one, otherwise indices of events. InvalidArgument when one would end before it begins.
struct TraceLifetimes {
  std::vector<std::int64_t> lower;
  std::vector<std::int64_t> upper;
};
absl::StatusOr<TraceLifetimes> LifetimesOf(const Trace& trace);

bool IsNative(std::string_view beginning);
absl::StatusOr<Trace> ReadNative(ByteSource& source, const std::string& name,
                                 const ReadOptions& options);
absl::Status WriteNative(const Trace& trace, std::ostream& out);

bool IsChromeTrace(std::string_view beginning);
absl::StatusOr<Trace> ReadChromeTrace(ByteSource& source, const std::string& name,
                                      const ReadOptions& options);
absl::Status WriteChromeTrace(const Trace& trace, std::ostream& out);
bool IsPickle(std::string_view beginning);
absl::StatusOr<Trace> ReadPyTorchSnapshot(ByteSource& source, const std::string& name,
                                          const ReadOptions& options);
absl::Status WritePyTorchSnapshot(const Trace& trace, std::ostream& out);

}  // namespace tidepool::internal

#endif  // TIDEPOOL_LIB_TRACE_FORMAT_H_
