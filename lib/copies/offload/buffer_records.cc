// SPDX-License-Identifier: Apache-2.0
// Buffers: the order of their states, their words in errors, and the table of all.
#include "lib/copies/offload/buffer_records.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool {

std::string_view BufferStateName(BufferState state) {
  switch (state) {
    case BufferState::kOnDevice:
      return "on the device";
    case BufferState::kGoingOut:
      return "going out";
    case BufferState::kOut:
      return "out";
    case BufferState::kComingBack:
      return "coming back";
  }
  return "in an unknown state";
}

namespace offload {
namespace {

[[maybe_unused]] bool MayFollow(BufferState from, BufferState to) {
  switch (from) {
    case BufferState::kOnDevice:
      return to == BufferState::kGoingOut;
    case BufferState::kGoingOut:
      // kOut: it left. kOnDevice: a prefetch cancelled the copy, or the copy failed. kComingBack: a
      // prefetch cancelled the copy before the buffer had arrived.
      return to != BufferState::kGoingOut;
    case BufferState::kOut:
      return to == BufferState::kComingBack;
    case BufferState::kComingBack:
      // kOnDevice: it arrived. kGoingOut: it leaves again after its arrival. kOut: the copy failed.
      return to != BufferState::kComingBack;
  }
  return false;
}

// Returns a number that no other buffer of the process has, so no offloader takes another
// offloader's buffer for its own.
BufferId NewBufferId() {
  static std::atomic<std::uint64_t> last_id{0};
  return {last_id.fetch_add(1, std::memory_order_relaxed) + 1};
}

}  // namespace

std::string DescribeBuffer(const Buffer& buffer) {
  return buffer.name.empty() ? absl::StrCat("buffer ", buffer.id.id)
                             : absl::StrCat("buffer '", absl::CHexEscape(buffer.name), "'");
}

absl::Status WrongState(const Buffer& buffer, std::string_view expected) {
  return absl::FailedPreconditionError(
      absl::StrCat(DescribeBuffer(buffer), " is ", std::string(BufferStateName(buffer.state)),
                   ", expected a buffer that is ", std::string(expected)));
}

absl::Status ResultOf(const BufferCopy& copy) {
  if (copy.result.ok()) return absl::OkStatus();
  return absl::Status(
      copy.result.code(),
      absl::StrCat(copy.buffer_name, copy.is_out ? " did not leave" : " did not come back",
                   ", its copy failed: ", copy.result.message()));
}

void SetState(Buffer& buffer, BufferState to) {
  assert(MayFollow(buffer.state, to));
  buffer.state = to;
}

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

}  // namespace offload
}  // namespace tidepool
