// SPDX-License-Identifier: Apache-2.0
// The table of trace formats.
#include "lib/trace/files/formats.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text/quote.h"
#include "lib/trace/chrome/chrome_trace.h"
#include "lib/trace/csv/csv_traces.h"
#include "lib/trace/native/native_trace.h"
#include "lib/trace/profiles/profiles.h"
#include "lib/trace/pytorch/pytorch_snapshot.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace trace_files {
namespace {

constexpr auto kFormats = std::to_array<Format>({
    {TraceFormat::kOperationCsv, "operation-csv", csv::WriteOperationCsv},
    {TraceFormat::kRmmCsv, "rmm-csv", csv::WriteRmmCsv},
    {TraceFormat::kLifetimeCsv, "lifetime-csv", csv::WriteLifetimeCsv},
    {TraceFormat::kNative, "native", native::WriteNative},
    {TraceFormat::kChromeTrace, "chrome-trace", chrome::WriteChromeTrace},
    {TraceFormat::kPyTorchSnapshot, "pytorch-snapshot", pytorch::WritePyTorchSnapshot},
});

// Formats without a writer.
constexpr auto kOnlyRead = std::to_array<std::pair<TraceFormat, std::string_view>>({
    {TraceFormat::kMemoryTimeline, "memory-timeline"},
    {TraceFormat::kHeapProfile, "heap-profile"},
    {TraceFormat::kRmmDebugLog, "rmm-debug-log"},
});

// A memory timeline and RMM's debug log begin with '[' too, so they are asked before JSON.
constexpr auto kByteFormats = std::to_array<ByteFormat>({
    {"a native trace", native::IsNative, native::ReadNative},
    {"a memory timeline", profiles::IsMemoryTimeline, profiles::ReadMemoryTimeline},
    {"a heap profile of pprof", profiles::IsHeapProfile, profiles::ReadHeapProfile},
    {"RMM's debug log", profiles::IsRmmDebugLog, profiles::ReadRmmDebugLog},
    {"a profiler's JSON", chrome::IsChromeTrace, chrome::ReadChromeTrace},
    {"a pickle (a PyTorch memory snapshot)", pytorch::IsPickle, pytorch::ReadPyTorchSnapshot},
});

constexpr auto kCsvFormats = std::to_array<CsvFormat>({
    {"op,id,size,hint", csv::IsOperationCsv, csv::ReadOperationCsv},
    {"Thread,Time,Action,Pointer,Size,Stream", csv::IsRmmCsv, csv::ReadRmmCsv},
    {"id,lower,upper,size", csv::IsLifetimeCsv, csv::ReadLifetimeCsv},
});

}  // namespace

absl::Span<const Format> Formats() { return kFormats; }
absl::Span<const ByteFormat> ByteFormats() { return kByteFormats; }
absl::Span<const CsvFormat> CsvFormats() { return kCsvFormats; }

}  // namespace trace_files

std::string_view TraceFormatName(TraceFormat format) {
  for (const trace_files::Format& known : trace_files::kFormats) {
    if (known.format == format) return known.name;
  }
  for (const auto& [known, name] : trace_files::kOnlyRead) {
    if (known == format) return name;
  }
  return "unknown";
}

absl::StatusOr<TraceFormat> TraceFormatFromName(std::string_view name) {
  std::string names;
  for (const trace_files::Format& known : trace_files::kFormats) {
    if (known.name == name) return known.format;
    absl::StrAppend(&names, names.empty() ? "" : ", ", known.name);
  }
  for (const auto& [known, known_name] : trace_files::kOnlyRead) {
    if (known_name != name) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(name), " is only read, expected one of ", names));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown trace format ", text::Quoted(name), ", expected one of ", names));
}

}  // namespace tidepool
