// SPDX-License-Identifier: Apache-2.0
// Earlier memory: one pass for the sum, one for the frees.
#include "lib/trace/chrome/earlier_memory.h"

#include <utility>

#include "absl/container/flat_hash_set.h"

namespace tidepool::chrome {
namespace {

// The change of live bytes that an event records.
std::int64_t Change(const ProfilerEvent& event) {
  return event.kind == ProfilerEvent::Kind::kMemory ? event.bytes : 0;
}

// Returns the bytes that were live before the first event; 0 when no total is known.
std::int64_t BytesBefore(const ProfilerEvents& file, std::int32_t device,
                         const std::vector<std::uint32_t>& order) {
  std::int64_t change = 0;
  for (const std::uint32_t index : order) {
    const ProfilerEvent& event = file.events[index];
    if (!event.IsOfDevice() || event.device != device) continue;
    if (__builtin_add_overflow(change, Change(event), &change)) return 0;
    if (event.allocated == ProfilerEvent::kUnknownBytes) continue;
    std::int64_t before = 0;
    return __builtin_sub_overflow(event.allocated, change, &before) || before < 0 ? 0 : before;
  }
  return 0;
}

}  // namespace

EarlierMemory FindEarlierMemory(const ProfilerEvents& file, std::int32_t device,
                                const std::vector<std::uint32_t>& order) {
  EarlierMemory earlier;
  earlier.other_bytes = BytesBefore(file, device, order);
  absl::flat_hash_set<std::pair<std::uint64_t, bool>> touched;  // ids: subject, whether a text
  for (const std::uint32_t index : order) {
    if (earlier.other_bytes == 0) break;
    const ProfilerEvent& event = file.events[index];
    if (event.kind != ProfilerEvent::Kind::kMemory || event.device != device || event.bytes == 0)
      continue;
    const bool is_first = touched.emplace(event.subject, event.has_text_id).second;
    if (!is_first || event.bytes > 0 || -event.bytes > earlier.other_bytes) continue;
    earlier.other_bytes += event.bytes;
    earlier.frees.push_back(index);
  }
  return earlier;
}

}  // namespace tidepool::chrome
