// SPDX-License-Identifier: Apache-2.0
// Finds the allocations live at an event, and sums them by their stacks.
#include "tidepool/trace/composition.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/utf8.h"
#include "tidepool/trace/frames.h"

namespace tidepool {
namespace {

// Returns whether a UTF-8 sequence is a control character, a bidirectional control or a line break.
bool IsControl(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (sequence.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (sequence.size() != 3) return false;
  const unsigned code = (byte(0) & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
  return code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

void AppendSafe(std::string_view text, std::string& line) {
  while (!text.empty()) {
    const std::size_t length = text::Utf8Length(text);
    const char first = text[0];
    if (length == 0) {
      line += '?';
    } else if (IsControl(text.substr(0, length))) {
      line += ' ';
    } else if (first == ';') {
      line += ',';
    } else {
      line += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

std::string FoldedFrameText(const Trace& trace, const TraceFrame& frame) {
  std::string text;
  const std::string_view name = trace.frame_texts[frame.name];
  const std::string_view file = trace.frame_texts[frame.file];
  AppendSafe(name.empty() ? "[unnamed]" : name, text);
  if (file.empty()) return text;
  absl::StrAppend(&text, " (");
  AppendSafe(file, text);
  if (frame.line > 0) absl::StrAppend(&text, ":", frame.line);
  absl::StrAppend(&text, ")");
  return text;
}

std::string StackText(const Trace& trace, TraceTag tag) {
  if (tag == 0) return "[no stack]";
  std::vector<TraceTag> stack;
  for (; tag != 0; tag = trace.frames[tag - 1].caller) stack.push_back(tag);
  std::string text;
  for (auto tags = stack.rbegin(); tags != stack.rend(); ++tags) {
    const TraceFrame& frame = trace.frames[*tags - 1];
    if (IsMachineryFrame(trace.frame_texts[frame.name], trace.frame_texts[frame.file])) continue;
    absl::StrAppend(&text, text.empty() ? "" : ";", FoldedFrameText(trace, frame));
  }
  return text.empty() ? "[no stack]" : text;
}

}  // namespace

absl::StatusOr<std::vector<std::uint32_t>> LiveAfter(const Trace& trace, std::int64_t event) {
  if (event < 0 || event >= static_cast<std::int64_t>(trace.events.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("event ", event, ", expected one of the trace's ", trace.events.size()));
  }
  std::vector<bool> live(trace.allocations.size());
  for (std::int64_t i = 0; i <= event; ++i) {
    const TraceEvent& change = trace.events[static_cast<std::size_t>(i)];
    if (change.TouchesMemory()) live[change.index] = change.kind == TraceEvent::Kind::kAllocate;
  }
  std::vector<std::uint32_t> allocations;
  for (std::uint32_t i = 0; i < live.size(); ++i) {
    if (live[i]) allocations.push_back(i);
  }
  return allocations;
}

std::vector<NamedBytes> BytesByFrame(const Trace& trace,
                                     const std::vector<std::uint32_t>& allocations,
                                     std::int64_t alignment) {
  const FrameNames names(trace);
  absl::flat_hash_map<std::string, std::int64_t> by_name;
  for (const std::uint32_t number : allocations) {
    by_name[names.NameOfAllocation(number)] += AlignUp(trace.allocations[number].bytes, alignment);
  }
  std::vector<NamedBytes> parts;
  for (auto& [name, bytes] : by_name) parts.push_back({name, bytes});
  absl::c_sort(parts, [](const NamedBytes& a, const NamedBytes& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  return parts;
}

std::string CollapsedStacks(const Trace& trace, const std::vector<std::uint32_t>& allocations,
                            std::int64_t alignment) {
  absl::flat_hash_map<TraceTag, std::int64_t> by_tag;
  // Stacks that differ only in replaced characters are merged.
  std::map<std::string, std::int64_t> by_text;
  for (const std::uint32_t number : allocations) {
    const TraceAllocation& allocation = trace.allocations[number];
    const std::int64_t bytes = AlignUp(allocation.bytes, alignment);
    const bool is_earlier = static_cast<std::int64_t>(number) < trace.earlier_allocations;
    if (allocation.tag == 0 && is_earlier && trace.has_history) {
      by_text["[allocated before recording began]"] += bytes;
    } else {
      by_tag[allocation.tag] += bytes;
    }
  }
  for (const auto& [tag, bytes] : by_tag) by_text[StackText(trace, tag)] += bytes;
  std::string lines;
  for (const auto& [text, bytes] : by_text) absl::StrAppend(&lines, text, " ", bytes, "\n");
  return lines;
}

}  // namespace tidepool
