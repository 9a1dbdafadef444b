// SPDX-License-Identifier: Apache-2.0
// Copies of both kinds: each operation is handed to the kind of the copy.
#include "lib/copies/offload/copies.h"

#include <algorithm>
#include <memory>

namespace tidepool::offload {

absl::Status Copies::Start(bool is_one_stream) {
  absl::Status status = raw_.Start(is_one_stream);
  return status.ok() && compressed_.has_pipeline() ? compressed_.Start() : status;
}

absl::Status Copies::BeginOut(const Buffer& buffer, Event after, std::optional<ZeroValueWord> word,
                              const CopyWatch& watch, const CopyPointer& copy) {
  copy->is_compressed = word.has_value();
  if (copy->is_compressed) {
    absl::Status status = WaitFirst(compressed_.out_order(), after, copy->predecessor);
    return status.ok() ? compressed_.BeginOut(buffer, *word, watch, copy) : status;
  }
  absl::Status status = raw_.TakeEvent(*copy);
  if (status.ok()) status = WaitFirst(raw_.out(), after, copy->predecessor);
  return status.ok() ? raw_.QueueOut(buffer, watch, *copy) : status;
}

absl::Status Copies::BeginIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                             const CopyWatch& watch, const CopyPointer& copy) {
  copy->is_compressed = buffer.host->stored() != nullptr;
  if (copy->is_compressed) return compressed_.BeginIn(buffer, to, stream, watch, copy);
  absl::Status status = raw_.TakeEvent(*copy);
  return status.ok() ? raw_.QueueIn(buffer, to, stream, watch, *copy) : status;
}

absl::Status Copies::WaitFirst(Stream stream, Event after, const CopyPointer& predecessor) {
  if (after != Event()) {
    if (absl::Status status = device_.WaitEvent(stream, after); !status.ok()) return status;
  }
  return predecessor == nullptr ? absl::OkStatus() : MakeWait(stream, *predecessor);
}

absl::Status Copies::MakeWait(Stream stream, BufferCopy& copy) {
  const auto end = copy.waiting_streams.end();
  if (std::find(copy.waiting_streams.begin(), end, stream) != end) return absl::OkStatus();
  absl::Status status =
      copy.is_compressed ? compressed_.MakeWait(stream, copy) : raw_.MakeWait(stream, copy);
  if (!status.ok()) return status;
  copy.waiting_streams.push_back(stream);
  const std::shared_ptr<DeviceMemory> device = copy.device.lock();
  // A free at home now comes after the copy by itself.
  if (device != nullptr && device->home() == stream) {
    device->NoteOrderedIn();
    copy.held = nullptr;
  }
  return absl::OkStatus();
}

bool Copies::HasFinished(BufferCopy& copy) {
  return copy.is_compressed ? copy.has_reported_end : raw_.HasFinished(copy);
}

}  // namespace tidepool::offload
