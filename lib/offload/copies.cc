// Copies: what each waits for, where it runs, and what marks its end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/offload/buffer_states.h"
#include "lib/offload/offloader_impl.h"

namespace tidepool::offload {
namespace {

// One that shares nothing with a status of the pipeline's threads: ThreadSanitizer does not see how
// Abseil counts who shares it.
absl::Status Own(const absl::Status& status) { return {status.code(), status.message()}; }

}  // namespace

OffloaderImpl::CopyPointer OffloaderImpl::NewCopy(const Buffer& buffer, bool is_out) {
  auto copy = std::make_shared<BufferCopy>();
  copy->sequence = ++last_sequence_;
  copy->buffer = buffer.id;
  copy->name = DescribeBuffer(buffer);
  copy->bytes = buffer.bytes;
  copy->is_out = is_out;
  copy->device = buffer.device;
  return copy;
}

// Who watches misses a copy rather than to make it fail.
void OffloaderImpl::Tell(Stream stream, const std::function<void()>& function) {
  if (function != nullptr) device_.CallHost(stream, function).IgnoreError();
}

// Again where it failed before: then it stands for more than the copy, and is as true.
absl::Status OffloaderImpl::Mark(BufferCopy& copy) const {
  if (copy.is_marked) return absl::OkStatus();
  absl::Status status = device_.RecordEvent(copy.event.get(), copy.is_out ? out_ : in_);
  copy.is_marked = status.ok();
  return status;
}

absl::Status OffloaderImpl::WaitBehind(Stream stream, Event after, const CopyPointer& arrival) {
  if (after != Event()) {
    if (absl::Status status = device_.WaitEvent(stream, after); !status.ok()) return status;
  }
  return arrival == nullptr ? absl::OkStatus() : WaitForArrival(*arrival, stream);
}

// Lets `stream` wait for a copy in that is its buffer's.
absl::Status OffloaderImpl::WaitForArrival(BufferCopy& copy, Stream stream) {
  const auto end = copy.awaited_on.end();
  if (std::find(copy.awaited_on.begin(), end, stream) != end) return absl::OkStatus();
  absl::Status status;
  if (!copy.is_compressed) {
    status = Mark(copy);
    if (status.ok()) status = device_.WaitEvent(stream, copy.event.get());
  } else if (!copy.is_over) {
    // Where all streams' host functions run on one thread, those that the copy comes behind would
    // wait behind ours if it did not come behind them too.
    status = device_.WaitEvent(stream, copy.event.get());
    if (status.ok()) {
      status = device_.CallHost(stream, [arrival = copy.arrival] { arrival->wait(); });
    }
  }
  if (!status.ok()) return status;
  copy.awaited_on.push_back(stream);
  const std::shared_ptr<DeviceMemory> device = copy.device.lock();
  if (device != nullptr && device->home() == stream) {
    // What is given back there comes behind the copy from now on.
    device->EndIn();
    copy.held = nullptr;
  }
  return absl::OkStatus();
}

// Before memory is given back: so who gets it next, on the same stream, asks for no other, and
// where it lies does not depend on copies. Where that fails the pool is told of the copy's stream.
void OffloaderImpl::PutHomeBehind(BufferCopy& copy) {
  const std::shared_ptr<DeviceMemory> device = copy.device.lock();
  if (copy.is_settled || copy.is_compressed || device == nullptr || !Mark(copy).ok()) return;
  if (!device_.WaitEvent(device->home(), copy.event.get()).ok()) return;
  copy.is_out ? device->EndOut(copy.sequence) : device->EndIn();
  copy.device.reset();
}

// Releases the mutex meanwhile: the pool may pin memory, which takes long.
absl::StatusOr<std::shared_ptr<HostMemory>> OffloaderImpl::TakeHostMemory(Lock& lock,
                                                                          std::int64_t bytes) {
  lock.unlock();
  const absl::StatusOr<void*> address = host_.Allocate(static_cast<std::size_t>(bytes));
  lock.lock();
  CollectEnded();
  if (!address.ok()) return address.status();
  return std::make_shared<HostMemory>(holdings_, host_, *address, bytes);
}

absl::Status OffloaderImpl::CopyRawOut(const Buffer& buffer, Event after, const CopyWatch& watch,
                                       BufferCopy& copy) {
  absl::StatusOr<PooledEvent> event = events_.Take();
  if (!event.ok()) return event.status();
  copy.event = *std::move(event);
  if (absl::Status status = WaitBehind(out_, after, copy.behind); !status.ok()) return status;
  Tell(out_, watch.begins);
  absl::Status status = device_.Copy(copy.host->address(), buffer.device->address(), buffer.bytes,
                                     CopyDirection::kFromDevice, out_);
  if (!status.ok()) return status;
  Tell(out_, watch.ends);
  buffer.device->BeginOut(copy.sequence);
  Mark(copy).IgnoreError();  // it is tried again
  return absl::OkStatus();
}

absl::Status OffloaderImpl::CompressOut(const Buffer& buffer, Event after, ZeroValueWord word,
                                        const CopyWatch& watch, const CopyPointer& copy) {
  if (absl::Status status = WaitBehind(gate_, after, copy->behind); !status.ok()) return status;
  Tell(gate_, watch.begins);
  copy->is_compressed = true;
  absl::Status status = options_.pipeline->Offload(
      buffer.device->address(), buffer.bytes, word, gate_,
      [this, copy, ends = watch.ends](absl::StatusOr<std::shared_ptr<const StoredBuffer>> stored) {
        if (ends != nullptr) ends();
        ended_.Add({copy, Own(stored.status()), stored.ok() ? *std::move(stored) : nullptr});
      });
  if (status.ok()) copy->held = buffer.device;
  return status;
}

absl::Status OffloaderImpl::CopyRawIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                                      const CopyWatch& watch, BufferCopy& copy) {
  absl::StatusOr<PooledEvent> event = events_.Take();
  if (!event.ok()) return event.status();
  copy.event = *std::move(event);
  const absl::StatusOr<PooledEvent> before = events_.Record(stream);
  if (!before.ok()) return before.status();
  absl::Status status = device_.WaitEvent(in_, before->get());
  if (!status.ok()) return status;
  Tell(in_, watch.begins);
  status = device_.Copy(to.address(), buffer.host->address(), buffer.bytes,
                        CopyDirection::kToDevice, in_);
  if (!status.ok()) return status;
  Tell(in_, watch.ends);
  to.BeginIn();
  Mark(copy).IgnoreError();  // it is tried again
  return absl::OkStatus();
}

absl::Status OffloaderImpl::DecompressIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                                         const CopyWatch& watch, const CopyPointer& copy) {
  copy->is_compressed = true;
  copy->arrival = std::make_shared<std::latch>(1);
  Tell(stream, watch.begins);
  const absl::StatusOr<PooledEvent> before = events_.Record(stream);
  if (!before.ok()) return before.status();
  if (absl::Status status = device_.WaitEvent(in_gate_, before->get()); !status.ok()) {
    return status;
  }
  absl::StatusOr<PooledEvent> event = events_.Record(in_gate_);
  if (!event.ok()) return event.status();
  copy->event = *std::move(event);
  return options_.pipeline->Prefetch(buffer.host->stored(), to.address(), in_gate_,
                                     [this, copy, ends = watch.ends](const absl::Status& result) {
                                       if (ends != nullptr) ends();
                                       copy->arrival->count_down();
                                       ended_.Add({copy, Own(result), nullptr});
                                     });
}

// Nothing leaves by a copy out any more. With a thread, that sees to its end.
void OffloaderImpl::GiveUp(const CopyPointer& copy) const {
  if (options_.release == OffloaderOptions::Release::kWhenAwaited) unwanted_.push_back(copy);
}

// It is going out, and is not to.
void OffloaderImpl::Stay(Buffer& buffer) {
  const CopyPointer copy = std::exchange(buffer.copy, nullptr);
  buffer.given_up = copy;
  GiveUp(copy);
  ++stats_.stayed;
  buffer.device->SetLeaving(false);
  const CopyPointer& arrival = copy->behind;
  const bool is_coming = arrival != nullptr && !arrival->is_settled;
  if (is_coming) {
    buffer.copy = arrival;
    buffer.host = arrival->host;
  }
  Move(buffer, is_coming ? BufferState::kComingBack : BufferState::kOnDevice);
  Changed();
}

}  // namespace tidepool::offload
