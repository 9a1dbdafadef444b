// SPDX-License-Identifier: Apache-2.0
// Errors of copies, each returned to one caller.
#include "lib/copies/offload/unreported_errors.h"

#include <algorithm>
#include <utility>

#include "lib/copies/offload/buffer_records.h"

namespace tidepool::offload {

void UnreportedErrors::Add(const CopyPointer& copy) {
  if (!copy->is_out && copy->waiting_streams.empty()) return;
  const auto next = std::ranges::upper_bound(copies_, copy->sequence, {}, &BufferCopy::sequence);
  const bool is_first = next == copies_.begin();
  if (is_first && !copies_.empty() && copies_.front()->kept_device == nullptr) copies_.pop_front();
  if (is_first) {
    copies_.push_front(copy);
  } else if (copy->kept_device != nullptr) {
    copies_.insert(next, copy);
  }
}

void UnreportedErrors::Detach(Buffer& buffer) {
  const CopyPointer failed = std::exchange(buffer.failed, nullptr);
  if (failed != nullptr) Add(failed);
}

absl::Status UnreportedErrors::Take(Buffer& buffer) {
  const CopyPointer failed = std::exchange(buffer.failed, nullptr);
  ReleaseMemory(*failed);
  return ResultOf(*failed);
}

absl::Status UnreportedErrors::TakeEarliest(Buffer* first_failed) {
  if (copies_.empty()) return first_failed == nullptr ? absl::OkStatus() : Take(*first_failed);
  if (first_failed != nullptr && first_failed->failed->sequence < copies_.front()->sequence) {
    return Take(*first_failed);
  }
  const CopyPointer first = copies_.front();
  copies_.pop_front();
  ReleaseMemory(*first);
  return ResultOf(*first);
}

void UnreportedErrors::ReleaseMemory(const Buffer& buffer) {
  if (buffer.failed != nullptr) ReleaseMemory(*buffer.failed);
  for (const CopyPointer& copy : copies_) {
    if (copy->buffer == buffer.id) ReleaseMemory(*copy);
  }
  // Without kept memory only the earliest copy is needed (Add).
  for (auto it = copies_.begin(); it != copies_.end();) {
    const bool is_needed = it == copies_.begin() || (*it)->kept_device != nullptr;
    it = is_needed ? std::next(it) : copies_.erase(it);
  }
}

void UnreportedErrors::ReleaseMemory(BufferCopy& copy) {
  if (std::exchange(copy.kept_device, nullptr) != nullptr) changes_.Note();
}

std::int64_t UnreportedErrors::KeptBytes() const {
  std::int64_t bytes = 0;
  for (const CopyPointer& copy : copies_) {
    if (copy->kept_device != nullptr) bytes += copy->bytes;
  }
  return bytes;
}

}  // namespace tidepool::offload
