// SPDX-License-Identifier: Apache-2.0
// Compressed copies: handed to the pipeline, and their ends taken from its threads.
#include "lib/copies/offload/compressed_copies.h"

#include <latch>
#include <memory>
#include <utility>

#include "lib/copies/offload/copy_watch.h"

namespace tidepool::offload {
namespace {

// Returns a copy that shares no memory with a status of the pipeline's threads. ThreadSanitizer
// does not see how Abseil counts references to a status, and would report a race.
absl::Status Unshared(const absl::Status& status) { return {status.code(), status.message()}; }

}  // namespace

absl::Status CompressedCopies::Start() {
  for (device::OwnedStream* const gate : {&out_order_, &in_order_}) {
    absl::StatusOr<device::OwnedStream> created = device::OwnedStream::Create(device_);
    if (!created.ok()) return created.status();
    *gate = *std::move(created);
  }
  return absl::OkStatus();
}

absl::Status CompressedCopies::BeginOut(const Buffer& buffer, ZeroValueWord word,
                                        const CopyWatch& watch, const CopyPointer& copy) {
  RecordWatch(device_, watch.begins, out_order_.get());
  absl::Status status = pipeline_->Offload(
      buffer.device->address(), buffer.bytes, word, out_order_.get(),
      [this, copy,
       ended = watch.ended](absl::StatusOr<std::shared_ptr<const StoredBuffer>> stored) {
        if (ended != nullptr) ended();
        ended_.Add({copy, Unshared(stored.status()), stored.ok() ? *std::move(stored) : nullptr});
      });
  if (status.ok()) copy->held = buffer.device;
  return status;
}

absl::Status CompressedCopies::BeginIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                                       const CopyWatch& watch, const CopyPointer& copy) {
  copy->arrival = std::make_shared<std::latch>(1);
  RecordWatch(device_, watch.begins, stream);
  const auto before = device::OwnedEvent::Record(device_, stream);
  if (!before.ok()) return before.status();
  if (absl::Status status = device_.WaitEvent(in_order_.get(), before->get()); !status.ok()) {
    return status;
  }
  auto event = device::OwnedEvent::Record(device_, in_order_.get());
  if (!event.ok()) return event.status();
  copy->start = *std::move(event);
  return pipeline_->Prefetch(buffer.host->stored(), to.address(), in_order_.get(),
                             [this, copy, ended = watch.ended](const absl::Status& result) {
                               if (ended != nullptr) ended();
                               copy->arrival->count_down();
                               ended_.Add({copy, Unshared(result), nullptr});
                             });
}

// CUDA may run the host functions of all streams on one thread. So the stream first waits for the
// work that the copy itself waits for: otherwise the blocking host function could occupy the thread
// that this work needs (deadlock).
absl::Status CompressedCopies::MakeWait(Stream stream, const BufferCopy& copy) {
  if (copy.has_reported_end) return absl::OkStatus();
  absl::Status status = device_.WaitEvent(stream, copy.start.get());
  if (!status.ok()) return status;
  return device_.CallHost(stream, [arrival = copy.arrival] { arrival->wait(); });
}

}  // namespace tidepool::offload
