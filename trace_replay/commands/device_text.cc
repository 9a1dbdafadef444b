// SPDX-License-Identifier: Apache-2.0
// Writes the answer for a device for people, in the words of PyTorch.
#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "absl/algorithm/container.h"
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
  if (answer.began_at_peak) {
    return absl::StrCat(name,
                        ": no request was refused; live memory was highest when the history began, "
                        "and an earlier peak is not known");
  }
  return absl::StrCat(name, ": no request was refused");
}

std::string LiveText(const DeviceAnswer& answer) {
  std::string live = SizeText(answer.live_bytes);
  if (!answer.is_peak_known && !answer.refusal.has_value()) return live;
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
         answer.forecast->unknown_bytes == 0 && answer.forecast->memory_bytes.has_value() &&
         answer.forecast->expandable_serves && !answer.forecast->serves;
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
  if (answer.contradicts) {
    return absl::StrCat(SizeText(answer.reserved_bytes.value_or(0)),
                        " at the end, less than was live: the history lacks the reservations, so "
                        "those at the peak are not known");
  }
  return absl::StrCat(SizeText(answer.memory->reserved_bytes), "    lost to fragmentation ",
                      SizeText(answer.lost_bytes.value_or(0)), ExpandableText(answer));
}

// "29.7 GiB models.py:174 update_nodes · 24.7 GiB models.py:181". Of frames, a function is named
// once in a row.
std::string PartsText(const std::vector<NamedBytes>& parts, bool are_frames = false) {
  std::string text;
  std::string_view last_function;
  for (std::size_t i = 0; i < std::min(kShownParts, parts.size()); ++i) {
    const std::string_view name = parts[i].name;
    const std::size_t space = name.find(' ');
    const std::string_view function =
        space == std::string_view::npos ? std::string_view() : name.substr(space);
    const bool is_same = are_frames && !function.empty() && function == last_function;
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

std::string PoolText(const std::string& pool) {
  return pool == "default" ? "default pool" : absl::StrCat("private pool ", pool);
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

// "545.2 MiB default pool, stream 0, large, in 120 segments"
std::string FreePartText(const FreeMemory& part) {
  return absl::StrCat(SizeText(part.bytes), " ", PoolText(part.pool), ", stream ",
                      absl::CHexEscape(part.stream), ", ", std::string(SegmentKindName(part.kind)),
                      ", in ", CountText(part.segments),
                      part.segments == 1 ? " segment" : " segments");
}

std::string FreeByText(const FreeParts& free) {
  constexpr std::size_t kShown = 6;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(kShown, free.parts.size()); ++i)
    texts.push_back(FreePartText(free.parts[i]));
  if (free.parts.size() > kShown) {
    std::int64_t rest = 0;
    for (std::size_t i = kShown; i < free.parts.size(); ++i) rest += free.parts[i].bytes;
    texts.push_back(absl::StrCat(SizeText(rest), " in ", free.parts.size() - kShown, " more"));
  }
  return absl::StrJoin(texts, " \xC2\xB7 ");
}

// Lists refused requests by stream and size: "3 of 1.7 MiB on stream 0x1".
std::string RefusedText(const DeviceAnswer& answer) {
  constexpr std::size_t kShown = 12;
  if (answer.demand.refused.size() < 2 && !answer.has_only_refusals) return "";
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> counts;
  for (std::size_t i = 0; i < answer.demand.refused.size(); ++i)
    ++counts[{answer.refused_streams[i], answer.demand.refused[i].bytes}];
  std::vector<std::string> texts;
  for (const auto& [what, count] : counts) {
    if (texts.size() == kShown) break;
    texts.push_back(absl::StrCat(count > 1 ? absl::StrCat(count, " of ") : "",
                                 SizeText(what.second), " on stream ",
                                 absl::CHexEscape(what.first)));
  }
  if (counts.size() > kShown) texts.push_back(absl::StrCat(counts.size() - kShown, " more"));
  return absl::StrJoin(texts, " \xC2\xB7 ");
}

std::string StrandedText(const DeviceAnswer& answer) {
  const FreeParts& free = *answer.free;
  if (free.stranded_bytes == 0) return "";
  return absl::StrCat(
      SizeText(free.stranded_bytes), " of ", SizeText(free.reserved_bytes),
      " reserved are free, but of other streams or pools than ",
      answer.refusal.has_value() ? "that of the refused request" : "that which holds the most",
      " (", PoolText(free.pool), ", stream ", absl::CHexEscape(free.stream),
      "): they serve no request there");
}

std::string WholeText(const FreeParts& free) {
  if (free.whole_segments == 0) return "";
  return absl::StrCat(SizeText(free.whole_bytes), " in ", CountText(free.whole_segments),
                      free.whole_segments == 1 ? " segment" : " segments",
                      " without a live block: torch.cuda.empty_cache() gives them back, those of a "
                      "private pool once its graphs are gone");
}

std::string PendingText(const FreeParts& free) {
  if (free.pending_bytes == 0) return "";
  return absl::StrCat(SizeText(free.pending_bytes),
                      " freed by the program, but other streams still use them (record_stream)");
}

// Tells the memory that expandable segments would keep reserved for the live blocks.
std::string SavesText(const DeviceAnswer& answer) {
  const FreeParts& free = *answer.free;
  const bool is_on = absl::c_any_of(free.parts, [](const FreeMemory& part) {
    return part.kind == TraceSegment::Kind::kExpandable;
  });
  if (answer.has_history || is_on || free.expandable_bytes >= free.reserved_bytes) return "";
  return absl::StrCat("at most ", SizeText(free.reserved_bytes - free.expandable_bytes),
                      " saved: the live blocks alone would keep ", SizeText(free.expandable_bytes),
                      " reserved with expandable_segments:True");
}

// Says how to record a history, for a snapshot without one.
std::string RecordText(const DeviceAnswer& answer) {
  if (!answer.is_snapshot || answer.is_peak_known || answer.refusal.has_value()) return "";
  return "torch.cuda.memory._record_memory_history() before the model is made, and "
         "torch.cuda.memory._dump_snapshot(\"oom.pickle\") after the peak or where it fails";
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
                                                            : answer.is_peak_known     ? "peak live"
                                                                                       : "live",
                                                            LiveText(answer)}};
  if (answer.memory.has_value()) {
    rows.emplace_back("reserved", ReservedText(answer));
    if (answer.memory->free_bytes() > 0 && !answer.memory->segments.empty() &&
        !answer.contradicts) {
      rows.emplace_back("  free", SegmentsText(*answer.memory));
    }
  }
  if (answer.free.has_value()) {
    rows.emplace_back(answer.refusal.has_value() || !answer.has_history ? "free by" : "free at end",
                      FreeByText(*answer.free));
    rows.emplace_back("stranded", StrandedText(answer));
    rows.emplace_back("pending", PendingText(*answer.free));
    rows.emplace_back("unused", WholeText(*answer.free));
    rows.emplace_back("expandable", SavesText(answer));
  }
  rows.emplace_back("where", PartsText(answer.by_frame, true));
  rows.emplace_back("purpose", PartsText(LargestFirst(answer.by_category)));
  rows.emplace_back("marks", PartsText(answer.by_mark));
  rows.emplace_back("settings", SettingsText(answer.settings));
  if (answer.forecast.has_value()) rows.emplace_back("PyTorch", ForecastText(*answer.forecast));
  rows.emplace_back("record", RecordText(answer));
  rows.emplace_back("try", Advice(answer));
  rows.emplace_back("refused", RefusedText(answer));
  if (answer.has_only_refusals) rows.erase(rows.begin());  // live memory is not known
  std::string text = Title(answer) + "\n";
  for (const auto& [name, value] : rows) {
    if (value.empty()) continue;
    absl::StrAppend(&text, "  ", name, std::string(12 - name.size(), ' '), value, "\n");
  }
  return text;
}

}  // namespace tidepool::tool
