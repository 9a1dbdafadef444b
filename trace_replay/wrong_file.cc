// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/wrong_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/oom_text.h"

namespace tidepool::tool {
namespace {

enum class FileKind { kOther, kGraph, kSchedule, kOutOfMemoryText };

// Returns the kind of a file by its first key. Compressed files are of another kind.
FileKind FileKindOf(const std::string& path) {
  constexpr std::size_t kBegin = 256;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return FileKind::kOther;
  std::ifstream file(path, std::ios::binary);
  std::string begin(kBegin, '\0');
  file.read(begin.data(), kBegin);
  if (absl::StrContains(begin, "\"tidepool_graph\"")) return FileKind::kGraph;
  if (absl::StrContains(begin, "\"tidepool_schedule\"")) return FileKind::kSchedule;
  return OutOfMemoryIn(path).has_value() ? FileKind::kOutOfMemoryText : FileKind::kOther;
}

// Returns an error such as "a.json: a task graph, expected a trace; `tidepool schedule` takes it".
absl::Status Wrong(const std::string& path, const char* is, const char* expected,
                   const char* cure) {
  return absl::InvalidArgumentError(
      absl::StrCat(absl::CHexEscape(path), ": ", is, ", expected ", expected, "; ", cure));
}

constexpr char kGraph[] = "a task graph";
constexpr char kSchedule[] = "a schedule";
constexpr char kTakesGraph[] = "`tidepool schedule` takes task graphs";
constexpr char kTakesSchedule[] =
    "give it with --schedule, as in `tidepool simulate GRAPH --schedule FILE`";

}  // namespace

absl::Status NoTrace(const std::string& path, const absl::Status& error) {
  if (path == "-" && absl::IsNotFound(error)) {
    return absl::InvalidArgumentError(
        "standard input: a trace is given as a file, expected its name");
  }
  if (!absl::IsInvalidArgument(error)) return error;
  switch (FileKindOf(path)) {
    case FileKind::kGraph:
      return Wrong(path, kGraph, "a trace", kTakesGraph);
    case FileKind::kSchedule:
      return Wrong(path, kSchedule, "a trace", kTakesSchedule);
    case FileKind::kOutOfMemoryText:
      return Wrong(path, "a text of PyTorch's OutOfMemoryError", "a trace",
                   "`tidepool info` takes such texts, one at a time");
    case FileKind::kOther:
      return error;
  }
  return error;
}

absl::Status NoGraph(const std::string& path, const absl::Status& error) {
  const bool is_schedule =
      absl::IsInvalidArgument(error) && FileKindOf(path) == FileKind::kSchedule;
  return is_schedule ? Wrong(path, kSchedule, kGraph, kTakesSchedule) : error;
}

absl::Status NoSchedule(const std::string& path, const absl::Status& error) {
  const bool is_graph = absl::IsInvalidArgument(error) && FileKindOf(path) == FileKind::kGraph;
  return is_graph ? Wrong(path, kGraph, kSchedule, "`tidepool schedule GRAPH -o FILE` makes one")
                  : error;
}

absl::Status NoChain(const std::string& path, const absl::Status& error) {
  const bool is_graph = absl::IsInvalidArgument(error) && FileKindOf(path) == FileKind::kGraph;
  return is_graph ? Wrong(path, kGraph, "a chain", "give it with --from") : error;
}

}  // namespace tidepool::tool
