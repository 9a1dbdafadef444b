// SPDX-License-Identifier: Apache-2.0
// The buffers of an offloader: added, found and removed.
#include "lib/copies/offload/buffer_table.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tidepool::offload {
namespace {

// Returns a number that no other buffer of the process has, so no offloader takes another
// offloader's buffer for its own.
BufferId NewBufferId() {
  static std::atomic<std::uint64_t> last_id{0};
  return {last_id.fetch_add(1, std::memory_order_relaxed) + 1};
}

}  // namespace

BufferId BufferTable::Add(std::string_view name, std::int64_t bytes,
                          std::shared_ptr<DeviceMemory> memory) {
  auto buffer = std::make_unique<Buffer>();
  const BufferId id = NewBufferId();
  buffer->id = id;
  buffer->name = std::string(name);
  buffer->bytes = bytes;
  buffer->device = std::move(memory);
  buffers_.emplace(id.id, std::move(buffer));
  return id;
}

Buffer* BufferTable::FindOrNull(BufferId id) const {
  const auto found = buffers_.find(id.id);
  return found == buffers_.end() ? nullptr : found->second.get();
}

absl::StatusOr<Buffer*> BufferTable::Find(BufferId id) const {
  if (Buffer* const buffer = FindOrNull(id)) return buffer;
  return absl::NotFoundError(
      absl::StrCat("buffer ", id.id, " is unknown, expected a buffer that was not freed"));
}

Buffer* BufferTable::FindFirstFailed() const {
  Buffer* first = nullptr;
  for (const auto& [id, buffer] : buffers_) {
    if (buffer->failed == nullptr) continue;
    if (first == nullptr || buffer->failed->sequence < first->failed->sequence) {
      first = buffer.get();
    }
  }
  return first;
}

std::vector<const Buffer*> BufferTable::OnDevice(std::size_t sorted) const {
  std::vector<const Buffer*> buffers;
  for (const auto& [id, buffer] : buffers_) {
    if (buffer->device != nullptr) buffers.push_back(buffer.get());
  }
  const auto end = static_cast<std::ptrdiff_t>(std::min(sorted, buffers.size()));
  std::partial_sort(buffers.begin(), buffers.begin() + end, buffers.end(),
                    [](const Buffer* left, const Buffer* right) {
                      if (left->bytes != right->bytes) return left->bytes > right->bytes;
                      return left->id.id < right->id.id;
                    });
  return buffers;
}

std::int64_t BufferTable::KeptBytes() const {
  std::int64_t bytes = 0;
  for (const auto& [id, buffer] : buffers_) {
    if (buffer->failed != nullptr && buffer->failed->kept_device != nullptr) {
      bytes += buffer->failed->bytes;
    }
  }
  return bytes;
}

}  // namespace tidepool::offload
