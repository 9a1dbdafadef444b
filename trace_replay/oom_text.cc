// SPDX-License-Identifier: Apache-2.0
// Finds sizes beside the words of the error: PyTorch 1.x writes "1.00 GiB free", 2.x "of which
// 1.00 GiB is free".
#include "trace_replay/oom_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

constexpr std::string_view kRequest = "Tried to allocate ";

// Parses the size at the beginning of `text`, such as "9.35 GiB".
std::optional<std::int64_t> SizeAtBeginning(std::string_view text) {
  constexpr auto kUnits = std::to_array<std::pair<std::string_view, double>>(
      {{" bytes", 1}, {" KiB", 0x1p10}, {" MiB", 0x1p20}, {" GiB", 0x1p30}, {" TiB", 0x1p40}});
  const std::size_t end = text.find_first_not_of("0123456789.");
  if (end == std::string_view::npos) return std::nullopt;
  double number = 0;
  if (!absl::SimpleAtod({text.data(), end}, &number) || number > 1e9) return std::nullopt;
  for (const auto& [unit, bytes] : kUnits) {
    if (text.substr(end).starts_with(unit))
      return static_cast<std::int64_t>(std::llround(number * bytes));
  }
  return std::nullopt;
}

std::optional<std::int64_t> SizeAfter(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  return SizeAtBeginning(text.substr(at + words.size()));
}

std::optional<std::int64_t> SizeBefore(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t unit = text.substr(0, at).rfind(' ');
  if (unit == std::string_view::npos || unit == 0) return std::nullopt;
  const std::size_t before = text.substr(0, unit).find_last_not_of("0123456789.");
  const std::size_t number = before == std::string_view::npos ? 0 : before + 1;
  return SizeAtBeginning(text.substr(number));
}

std::optional<std::int64_t> Either(std::optional<std::int64_t> first,
                                   std::optional<std::int64_t> second) {
  return first.has_value() ? first : second;
}

std::int64_t DeviceIn(std::string_view text) {
  const std::size_t at = text.find("GPU ");
  if (at == std::string_view::npos) return -1;
  const std::string_view rest = text.substr(at + 4);
  const std::size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  std::int64_t device = -1;
  return absl::SimpleAtoi(absl::string_view(rest.data(), end), &device) ? device : -1;
}

// The most that a request could get if all cached memory were of use to it.
std::int64_t Reachable(const OutOfMemoryNumbers& numbers) {
  return numbers.cached_bytes.value_or(0) + numbers.free_bytes.value_or(0);
}

// Whether expandable segments may serve the request; no value when the text does not tell.
std::optional<bool> ExpandableMayHelp(const OutOfMemoryNumbers& numbers) {
  if (!numbers.cached_bytes.has_value()) return std::nullopt;
  return numbers.requested_bytes <= Reachable(numbers);
}

// Memory of this process that is not PyTorch's: the context, NCCL, other libraries.
std::optional<std::int64_t> OutsidePyTorch(const OutOfMemoryNumbers& numbers) {
  if (!numbers.process_bytes || !numbers.allocated_bytes || !numbers.cached_bytes)
    return std::nullopt;
  return std::max<std::int64_t>(
      0, *numbers.process_bytes - *numbers.allocated_bytes - *numbers.cached_bytes);
}

std::optional<std::int64_t> OtherProcesses(const OutOfMemoryNumbers& numbers) {
  if (!numbers.total_bytes || !numbers.free_bytes || !numbers.process_bytes) return std::nullopt;
  return std::max<std::int64_t>(
      0, *numbers.total_bytes - *numbers.free_bytes - *numbers.process_bytes);
}

std::optional<std::int64_t> NeedsBytes(const OutOfMemoryNumbers& numbers) {
  if (!numbers.allocated_bytes) return std::nullopt;
  return *numbers.allocated_bytes + numbers.requested_bytes + OutsidePyTorch(numbers).value_or(0);
}

std::string ExpandableText(const OutOfMemoryNumbers& numbers) {
  const std::optional<bool> may_help = ExpandableMayHelp(numbers);
  if (!may_help.has_value()) return "the text does not tell how much is reserved but unallocated";
  const std::string cached = SizeText(*numbers.cached_bytes) + " reserved but unallocated";
  const std::string free = numbers.free_bytes.has_value()
                               ? " and " + SizeText(*numbers.free_bytes) + " free on the GPU"
                               : "";
  const std::string asked = SizeText(numbers.requested_bytes) + " asked";
  if (!*may_help)
    return absl::StrCat("expandable segments cannot help: ", cached, free, " < ", asked);
  if (numbers.requested_bytes <= numbers.free_bytes.value_or(0)) {
    return absl::StrCat(asked, " < ", SizeText(*numbers.free_bytes),
                        " free on the GPU: a limit refused it "
                        "(set_per_process_memory_fraction), or another process took memory");
  }
  return absl::StrCat("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True may help: ", cached, free,
                      ", ", asked);
}

std::string FitsText(const OutOfMemoryNumbers& numbers) {
  const std::optional<std::int64_t> needs = NeedsBytes(numbers);
  if (!needs.has_value()) return "";
  std::string text = absl::StrCat("at least ", SizeText(*needs), " for this process");
  if (!numbers.total_bytes.has_value()) return text;
  const std::int64_t more = *needs - *numbers.total_bytes;
  if (more > 0) {
    return absl::StrCat(text, ", ", SizeText(more),
                        " more than the GPU has: no setting serves the request");
  }
  return absl::StrCat(text, ", of ", SizeText(*numbers.total_bytes));
}

constexpr std::size_t kMostText = std::size_t{1} << 24;

// Returns the end of a text: the error of a job stands at the end of its log.
std::string ReadEnd(std::istream& in) {
  std::string text;
  std::string part(kMostText, '\0');
  while (in.read(part.data(), static_cast<std::streamsize>(part.size())) || in.gcount() > 0) {
    text.append(part, 0, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostText) text.erase(0, text.size() - kMostText);
  }
  return text;
}

}  // namespace

std::optional<OutOfMemoryNumbers> ParseOutOfMemoryText(std::string_view text) {
  constexpr std::size_t kLongest = 3000;
  const std::size_t at = text.rfind(kRequest);
  if (at == std::string_view::npos) return std::nullopt;
  // A line break in the middle of a pasted text is a space.
  std::string error;
  for (const char c : text.substr(at, kLongest)) {
    const bool is_space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!is_space || (!error.empty() && error.back() != ' ')) error += is_space ? ' ' : c;
  }
  OutOfMemoryNumbers numbers;
  const std::optional<std::int64_t> requested = SizeAfter(error, kRequest);
  if (!requested.has_value()) return std::nullopt;
  numbers.requested_bytes = *requested;
  numbers.device = DeviceIn(error);
  numbers.total_bytes =
      Either(Either(SizeAfter(error, "total capacity of "), SizeAfter(error, "total capacty of ")),
             SizeBefore(error, " total capacity"));
  numbers.free_bytes = Either(SizeBefore(error, " is free"), SizeBefore(error, " free;"));
  numbers.process_bytes = SizeAfter(error, "this process has ");
  numbers.allocated_bytes = Either(SizeBefore(error, " is allocated by PyTorch"),
                                   SizeBefore(error, " already allocated"));
  numbers.private_bytes = SizeBefore(error, " allocated in private pools");
  numbers.cached_bytes = SizeBefore(error, " is reserved by PyTorch but unallocated");
  const std::optional<std::int64_t> reserved =
      Either(SizeBefore(error, " reserved in total by PyTorch"), SizeBefore(error, " cached)"));
  if (!numbers.cached_bytes && reserved && numbers.allocated_bytes)
    numbers.cached_bytes = std::max<std::int64_t>(0, *reserved - *numbers.allocated_bytes);
  return numbers;
}

bool IsStandardInput(const std::string& path) { return path == "-" || path == "/dev/stdin"; }

std::optional<OutOfMemoryNumbers> OutOfMemoryIn(const std::string& path) {
  if (IsStandardInput(path)) return ParseOutOfMemoryText(ReadEnd(std::cin));
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMostText) file.seekg(static_cast<std::streamoff>(bytes - kMostText));
  return ParseOutOfMemoryText(ReadEnd(file));
}

std::string OutOfMemoryText(const OutOfMemoryNumbers& numbers) {
  std::vector<std::pair<std::string, std::string>> rows = {{"settings", ExpandableText(numbers)},
                                                           {"needs", FitsText(numbers)}};
  const auto add = [&](const char* name, const std::optional<std::int64_t>& bytes,
                       const char* more) {
    if (bytes.has_value()) rows.emplace_back(name, SizeText(*bytes) + more);
  };
  add("allocated", numbers.allocated_bytes, " by PyTorch");
  add("private", numbers.private_bytes, " of these in private pools (CUDA graphs)");
  add("unallocated", numbers.cached_bytes, " reserved by PyTorch but not allocated");
  add("outside", OutsidePyTorch(numbers), " of this process: the context, NCCL, other libraries");
  add("others", OtherProcesses(numbers), " of other processes on this GPU");
  rows.emplace_back(
      "record",
      "a snapshot tells the lines that hold the memory: "
      "torch.cuda.memory._record_memory_history(), and _dump_snapshot(\"oom.pickle\") "
      "where it fails");
  std::string text = absl::StrCat(
      numbers.device >= 0 ? absl::StrCat("GPU ", numbers.device) : "GPU", ": out of memory.  ",
      SizeText(numbers.requested_bytes), " refused",
      numbers.free_bytes.has_value() ? ", " + SizeText(*numbers.free_bytes) + " free on the device"
                                     : "",
      "\n");
  for (const auto& [name, value] : rows) {
    if (value.empty()) continue;
    absl::StrAppend(&text, "  ", name, std::string(13 - name.size(), ' '), value, "\n");
  }
  return text;
}

nlohmann::ordered_json OutOfMemoryJson(const OutOfMemoryNumbers& numbers) {
  nlohmann::ordered_json json = {{"device", nullptr}, {"requested_bytes", numbers.requested_bytes}};
  if (numbers.device >= 0) json["device"] = numbers.device;
  const auto add = [&](const char* name, const std::optional<std::int64_t>& bytes) {
    json[name] = nullptr;
    if (bytes.has_value()) json[name] = *bytes;
  };
  add("total_bytes", numbers.total_bytes);
  add("free_bytes", numbers.free_bytes);
  add("process_bytes", numbers.process_bytes);
  add("allocated_bytes", numbers.allocated_bytes);
  add("reserved_unallocated_bytes", numbers.cached_bytes);
  add("private_pool_bytes", numbers.private_bytes);
  add("outside_pytorch_bytes", OutsidePyTorch(numbers));
  add("other_processes_bytes", OtherProcesses(numbers));
  add("needs_bytes", NeedsBytes(numbers));
  json["expandable_segments_may_help"] = nullptr;
  if (const std::optional<bool> may_help = ExpandableMayHelp(numbers); may_help.has_value())
    json["expandable_segments_may_help"] = *may_help;
  return json;
}

}  // namespace tidepool::tool
