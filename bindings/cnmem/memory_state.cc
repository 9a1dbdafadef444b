// SPDX-License-Identifier: Apache-2.0
#include "bindings/cnmem/memory_state.h"

#include "absl/strings/str_cat.h"

namespace tidepool::cnmem {
namespace {

std::string Address(const void* address) {
  return absl::StrCat("0x", absl::Hex(reinterpret_cast<std::uintptr_t>(address), absl::kZeroPad12));
}

std::string Name(cudaStream_t stream) {
  return stream == nullptr ? "the default stream" : absl::StrCat("stream ", Address(stream));
}

void AddBlock(const MemoryBlock& block, std::string& text) {
  absl::StrAppend(&text, "  ", Address(block.address), "  ",
                  absl::Dec(static_cast<std::uint64_t>(block.bytes), absl::kSpacePad14),
                  block.is_used ? "  used by " : "  free");
  if (block.is_used) absl::StrAppend(&text, Name(block.stream));
  if (!block.is_used && block.is_reserved) {
    absl::StrAppend(&text, ", reserved for ", Name(block.stream));
  }
  absl::StrAppend(&text, "\n");
}

}  // namespace

std::string ToText(const MemoryState& state) {
  std::string text;
  if (state.stream != nullptr) {
    absl::StrAppend(&text, "cnmem: ", Name(state.stream), " of device ", state.device, ": ",
                    state.total_bytes, " bytes, ", state.total_bytes - state.free_bytes, " used, ",
                    state.free_bytes, " free\n");
    for (const MemoryBlock& block : state.blocks) {
      if (block.stream == state.stream && (block.is_used || block.is_reserved)) {
        AddBlock(block, text);
      }
    }
  }
  std::int64_t used = 0;
  for (const MemoryBlock& block : state.blocks) used += block.is_used ? block.bytes : 0;
  absl::StrAppend(&text, "cnmem: device ", state.device, ": ", state.device_total_bytes, " bytes, ",
                  used, " used, ", state.device_free_bytes, " free for all streams, ",
                  state.device_total_bytes - used - state.device_free_bytes,
                  " free for the streams that reserved it\n");
  for (const MemoryBlock& block : state.blocks) AddBlock(block, text);
  absl::StrAppend(&text, "\n");
  return text;
}

}  // namespace tidepool::cnmem
