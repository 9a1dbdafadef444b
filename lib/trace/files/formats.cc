#include "lib/trace/format.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/trace/quote.h"

namespace tidepool {
namespace internal {
namespace {

constexpr auto kFormats = std::to_array<Format>({
    {TraceFormat::kOperationCsv, "operation-csv", WriteOperationCsv},
    {TraceFormat::kRmmCsv, "rmm-csv", WriteRmmCsv},
    {TraceFormat::kLifetimeCsv, "lifetime-csv", WriteLifetimeCsv},
    {TraceFormat::kNative, "native", WriteNative},
    {TraceFormat::kChromeTrace, "chrome-trace", WriteChromeTrace},
    {TraceFormat::kPyTorchSnapshot, "pytorch-snapshot", WritePyTorchSnapshot},
});

constexpr auto kByteFormats = std::to_array<ByteFormat>({
    {"a native trace", IsNative, ReadNative},
    {"a profiler's JSON", IsChromeTrace, ReadChromeTrace},
    {"a pickle (a PyTorch memory snapshot)", IsPickle, ReadPyTorchSnapshot},
});

constexpr auto kCsvFormats = std::to_array<CsvFormat>({
    {"op,id,size,hint", IsOperationCsv, ReadOperationCsv},
    {"Thread,Time,Action,Pointer,Size,Stream", IsRmmCsv, ReadRmmCsv},
    {"id,lower,upper,size", IsLifetimeCsv, ReadLifetimeCsv},
});

}  // namespace

absl::Span<const Format> Formats() { return kFormats; }
absl::Span<const ByteFormat> ByteFormats() { return kByteFormats; }
absl::Span<const CsvFormat> CsvFormats() { return kCsvFormats; }

}  // namespace internal

std::string_view TraceFormatName(TraceFormat format) {
  for (const internal::Format& known : internal::kFormats) {
    if (known.format == format) return known.name;
  }
  return "unknown";
}

absl::StatusOr<TraceFormat> TraceFormatFromName(std::string_view name) {
  std::string names;
  for (const internal::Format& known : internal::kFormats) {
    if (known.name == name) return known.format;
    absl::StrAppend(&names, names.empty() ? "" : ", ", known.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no trace format ", internal::Quoted(name), ", expected one of ", names));
}

}  // namespace tidepool
