// SPDX-License-Identifier: Apache-2.0
// Writes the answer for a device for people, in the words of PyTorch.
#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trace_replay/commands/device_answer.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

constexpr std::size_t kShownParts = 4;

std::string DeviceName(const DeviceAnswer& answer) {
  if (answer.devices.empty()) return "The trace";
  std::string name = answer.device < 0 ? "Host" : absl::StrCat("GPU ", answer.device);
  if (answer.devices.size() > 1) {
    absl::StrAppend(&name, " (of ", absl::StrJoin(answer.devices, ", "), ")");
  }
  return name;
}

// "4.9 GiB refused at models.py:181 update_nodes, 91.0 MiB free on the device"
std::string RefusalText(const DeviceAnswer& answer) {
  const RefusedRequest& refused = answer.demand.refused[*answer.refusal];
  std::string text = absl::StrCat(SizeText(refused.bytes), " refused",
                                  AtFrameText(answer.refused_frames[*answer.refusal]));
  if (refused.device_free_bytes.has_value()) {
    absl::StrAppend(&text, ", ", SizeText(*refused.device_free_bytes), " free on the device");
  }
  if (answer.demand.refused.size() > 1) {
    absl::StrAppend(&text, " (of ", answer.demand.refused.size(),
                    " refused requests the one that needs the most)");
  }
  return text;
}

std::string Title(const DeviceAnswer& answer) {
  const std::string name = DeviceName(answer);
  if (answer.refusal.has_value()) {
    return absl::StrCat(name, ": out of memory.  ", RefusalText(answer));
  }
  if (!answer.has_history) return absl::StrCat(name, ": ", std::string(kNoHistory));
  return absl::StrCat(name, ": no request was refused");
}

std::string LiveText(const DeviceAnswer& answer) {
  std::string live = SizeText(answer.live_bytes);
  if (!answer.has_history && !answer.refusal.has_value()) return live;
  return absl::StrCat(live, "    needs at least ", SizeText(answer.demand.needs_bytes));
}

// Whether the refused request is no larger than the memory that was reserved and free.
bool FitsReserved(const DeviceAnswer& answer) {
  return answer.refusal.has_value() && answer.memory.has_value() &&
         answer.demand.refused[*answer.refusal].bytes <= answer.memory->free_bytes();
}

// Whether, by the model of PyTorch's allocator, only expandable segments serve all requests in the
// memory that the device had.
bool ModelAdvises(const DeviceAnswer& answer) {
  return !answer.is_expandable.value_or(false) && answer.forecast.has_value() &&
         answer.forecast->memory_bytes.has_value() && answer.forecast->expandable_serves &&
         !answer.forecast->serves;
}

// Says whether expandable segments help, where the file or the model tells.
std::string ExpandableText(const DeviceAnswer& answer) {
  if (!answer.refusal.has_value()) return "";
  const bool is_on = answer.is_expandable.value_or(false);
  if (ModelAdvises(answer)) return ": expandable_segments would have served the request, see below";
  if (FitsReserved(answer)) {
    return is_on ? ": enough for the request, although expandable_segments is on"
                 : ": enough for the request in one piece, see below";
  }
  return is_on ? ": expandable_segments (on) cannot help"
               : ": expandable_segments cannot help, the request is larger";
}

std::string ReservedText(const DeviceAnswer& answer) {
  return absl::StrCat(SizeText(answer.memory->reserved_bytes), "    lost to fragmentation ",
                      SizeText(answer.memory->free_bytes()), ExpandableText(answer));
}

// "29.7 GiB models.py:174 update_nodes · 24.7 GiB models.py:181". A function is named once in a
// row.
std::string PartsText(const std::vector<NamedBytes>& parts) {
  std::string text;
  std::string_view last_function;
  for (std::size_t i = 0; i < std::min(kShownParts, parts.size()); ++i) {
    const std::string_view name = parts[i].name;
    const std::size_t space = name.find(' ');
    const std::string_view function =
        space == std::string_view::npos ? std::string_view() : name.substr(space);
    const bool is_same = !function.empty() && function == last_function;
    const std::string shown(is_same ? name.substr(0, space) : name);
    absl::StrAppend(&text, i == 0 ? "" : " \xC2\xB7 ", SizeText(parts[i].bytes), " ",
                    absl::CHexEscape(shown));
    last_function = function;
  }
  if (parts.size() > kShownParts) {
    absl::StrAppend(&text, " \xC2\xB7 ",
                    CountText(static_cast<std::int64_t>(parts.size() - kShownParts)), " more");
  }
  return text;
}

std::vector<NamedBytes> LargestFirst(std::vector<NamedBytes> parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const NamedBytes& a, const NamedBytes& b) { return a.bytes > b.bytes; });
  return parts;
}

std::string SegmentsText(const ReservedMemory& memory) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, memory.segments.size()); ++i) {
    const SegmentUse& segment = memory.segments[i];
    texts.push_back(absl::StrCat(SizeText(segment.free_bytes), " of ", SizeText(segment.bytes),
                                 " at 0x", absl::Hex(segment.address)));
  }
  if (memory.segments.size() > texts.size()) {
    texts.push_back(absl::StrCat(memory.segments.size() - texts.size(), " more"));
  }
  return absl::StrJoin(texts, " \xC2\xB7 ");
}

// Returns the settings as the user wrote them, or else those that are not PyTorch's defaults.
std::string SettingsText(const std::vector<TraceSetting>& settings) {
  constexpr auto kWritten =
      std::to_array<std::string_view>({"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"});
  const std::array<TraceSetting, 3> defaults = {{{"expandable_segments", "False"},
                                                 {"max_split_size", "-1"},
                                                 {"garbage_collection_threshold", "0.0"}}};
  std::vector<std::string> shown;
  for (const TraceSetting& setting : settings) {
    const bool is_written =
        std::find(kWritten.begin(), kWritten.end(), setting.name) != kWritten.end();
    if (is_written && !setting.value.empty()) return absl::CHexEscape(setting.value);
    for (const TraceSetting& usual : defaults) {
      if (setting.name == usual.name && setting.value != usual.value)
        shown.push_back(absl::CHexEscape(absl::StrCat(setting.name, ":", setting.value)));
    }
  }
  return absl::StrJoin(shown, ",");
}

// Whether a part has the name of a line, and not of memory without a stack.
bool IsLineOfCode(const NamedBytes& part) {
  return part.name != "(no stack)" && part.name != "(unnamed)" &&
         part.name != "allocated before recording began";
}

// Returns advice that the file proves, or the model of PyTorch's allocator.
std::string Advice(const DeviceAnswer& answer) {
  if (!answer.refusal.has_value()) return "";
  if (ModelAdvises(answer)) {
    return absl::StrCat(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: with it, a model of PyTorch's allocator "
        "serves all requests in the ",
        SizeText(*answer.forecast->memory_bytes), " that the device had");
  }
  if (FitsReserved(answer) && !answer.is_expandable.value_or(false)) {
    return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: the refused request is smaller than "
           "the memory that is reserved and free";
  }
  const auto line = std::find_if(answer.by_frame.begin(), answer.by_frame.end(), IsLineOfCode);
  if (line == answer.by_frame.end()) return "";
  return absl::StrCat(absl::CHexEscape(line->name), " holds the most",
                      line == answer.by_frame.begin() ? ", " : " of all known lines, ",
                      SizeText(line->bytes),
                      ": a smaller batch or checkpointing there frees the most");
}

}  // namespace

std::string DeviceText(const DeviceAnswer& answer) {
  std::vector<std::pair<std::string, std::string>> rows = {{answer.refusal.has_value() ? "live then"
                                                            : answer.has_history       ? "peak live"
                                                                                       : "live",
                                                            LiveText(answer)}};
  if (answer.memory.has_value()) {
    rows.emplace_back("reserved", ReservedText(answer));
    if (answer.memory->free_bytes() > 0 && !answer.memory->segments.empty()) {
      rows.emplace_back("  free", SegmentsText(*answer.memory));
    }
  }
  rows.emplace_back("where", PartsText(answer.by_frame));
  rows.emplace_back("purpose", PartsText(LargestFirst(answer.by_category)));
  rows.emplace_back("marks", PartsText(answer.by_mark));
  rows.emplace_back("settings", SettingsText(answer.settings));
  if (answer.forecast.has_value()) rows.emplace_back("PyTorch", ForecastText(*answer.forecast));
  rows.emplace_back("try", Advice(answer));
  std::string text = Title(answer) + "\n";
  for (const auto& [name, value] : rows) {
    if (value.empty()) continue;
    absl::StrAppend(&text, "  ", name, std::string(12 - name.size(), ' '), value, "\n");
  }
  return text;
}

}  // namespace tidepool::tool
