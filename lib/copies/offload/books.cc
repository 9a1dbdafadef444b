// SPDX-License-Identifier: Apache-2.0
// The books of an offloader: how buffers change when copies begin and end.
#include "lib/copies/offload/books.h"

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "lib/copies/offload/buffer_records.h"

namespace tidepool::offload {

std::vector<CopyPointer> CopiesInFlight::All() const {
  std::vector<CopyPointer> all;
  std::ranges::merge(outs_, ins_, std::back_inserter(all), {}, &BufferCopy::sequence,
                     &BufferCopy::sequence);
  return all;
}

CopyPointer CopiesInFlight::FirstLeaving() const {
  const auto out = std::ranges::find_if(outs_, [](const CopyPointer& copy) {
    const std::shared_ptr<DeviceMemory> device = copy->device.lock();
    return device != nullptr && device->is_leaving();
  });
  const auto in = std::ranges::find_if(ins_, [](const CopyPointer& copy) {
    return copy->held != nullptr && copy->held->is_leaving();
  });
  if (in == ins_.end()) return out == outs_.end() ? nullptr : *out;
  return out != outs_.end() && (*out)->sequence < (*in)->sequence ? *out : *in;
}

CopyPointer CopiesInFlight::FirstOut(bool is_compressed) const {
  const auto found = std::ranges::find_if(outs_, [&](const CopyPointer& copy) {
    return copy->is_compressed == is_compressed && (!is_compressed || copy->has_reported_end);
  });
  return found == outs_.end() ? nullptr : *found;
}

OffloaderStats Books::Stats() const {
  OffloaderStats stats = counts_;
  stats.buffers = buffers_.size();
  stats.device_bytes = holdings_.device_bytes;
  stats.host_bytes = holdings_.host_bytes;
  stats.peak_host_bytes = holdings_.peak_host_bytes;
  return stats;
}

absl::StatusOr<Buffer*> Books::FindToOffload(BufferId id) {
  absl::StatusOr<Buffer*> found = buffers_.Find(id);
  if (!found.ok()) return found;
  errors_.ReleaseMemory(**found);
  if (absl::Status status = CheckIsOnDevice(**found); !status.ok()) return status;
  return found;
}

absl::Status Books::TakeOffloadError(Buffer& buffer) {
  const bool has_stayed = buffer.state == BufferState::kOnDevice && buffer.failed != nullptr;
  return has_stayed && buffer.failed->is_out ? errors_.Take(buffer) : absl::OkStatus();
}

absl::Status Books::CheckIsOnDevice(Buffer& buffer) {
  SettleFailedArrival(buffer);
  if (buffer.state == BufferState::kOut && buffer.failed != nullptr && !buffer.failed->is_out) {
    return errors_.Take(buffer);
  }
  if (buffer.state == BufferState::kOut || buffer.state == BufferState::kGoingOut) {
    return WrongState(buffer, "on the device or coming back");
  }
  return absl::OkStatus();
}

// Beginnings. -------------------------------------------------------------------------------------

CopyPointer Books::NewCopy(const Buffer& buffer, bool is_out) {
  auto copy = std::make_shared<BufferCopy>();
  copy->sequence = ++last_sequence_;
  copy->buffer = buffer.id;
  copy->buffer_name = DescribeBuffer(buffer);
  copy->bytes = buffer.bytes;
  copy->is_out = is_out;
  copy->device = buffer.device;
  return copy;
}

void Books::BeginOffload(Buffer& buffer, const CopyPointer& copy) {
  buffer.host = nullptr;  // the predecessor keeps its own pointer
  buffer.copy = copy;
  buffer.device->SetLeaving(true);
  SetState(buffer, BufferState::kGoingOut);
  in_flight_.Add(copy);
  changes_.Note();
}

void Books::BeginPrefetch(Buffer& buffer, const CopyPointer& copy,
                          std::shared_ptr<DeviceMemory> memory) {
  if (copy->is_compressed) copy->held = memory;
  buffer.device = std::move(memory);
  buffer.copy = copy;
  errors_.Detach(buffer);
  SetState(buffer, BufferState::kComingBack);
  in_flight_.Add(copy);
}

void Books::CancelOffload(Buffer& buffer) {
  const CopyPointer copy = std::exchange(buffer.copy, nullptr);
  buffer.cancelled = copy;
  NoteCancelled(copy);
  ++counts_.stayed;
  buffer.device->SetLeaving(false);
  const CopyPointer& arrival = copy->predecessor;
  const bool is_coming = arrival != nullptr && !arrival->is_settled;
  if (is_coming) {
    buffer.copy = arrival;
    buffer.host = arrival->host;
  }
  SetState(buffer, is_coming ? BufferState::kComingBack : BufferState::kOnDevice);
  changes_.Note();
}

// With Release::kWhenOut, a thread settles the copy after its end.
void Books::NoteCancelled(const CopyPointer& copy) {
  if (release_ == OffloaderOptions::Release::kWhenAwaited) cancelled_.push_back(copy);
}

void Books::Free(Buffer& buffer) {
  for (const CopyPointer& copy : {buffer.copy, buffer.cancelled}) {
    if (copy != nullptr) copies_.OrderHomeAfter(*copy);
  }
  // A compressed copy holds the memory until its end.
  if (buffer.device != nullptr && buffer.device.use_count() > 1) buffer.device->SetLeaving(true);
  if (buffer.state == BufferState::kGoingOut) NoteCancelled(buffer.copy);
  errors_.ReleaseMemory(buffer);
  errors_.Detach(buffer);
  buffers_.Remove(buffer.id);
  changes_.Note();
}

// Ends. -------------------------------------------------------------------------------------------

void Books::CollectEnded() {
  for (EndedCopy& ended : ended_.TakeAll()) {
    BufferCopy& copy = *ended.copy;
    copy.has_reported_end = true;
    copy.result = std::move(ended.result);
    if (ended.stored != nullptr) {
      copy.host = std::make_shared<HostMemory>(holdings_, std::move(ended.stored));
    }
  }
}

void Books::Settle(const CopyPointer& copy, const absl::Status& result) {
  if (copy->is_settled) return;
  copy->is_settled = true;
  copy->result = result;
  CountEnd(*copy);
  if (const std::shared_ptr<DeviceMemory> device = copy->device.lock();
      device != nullptr && !copy->is_compressed) {
    copy->is_out ? device->NoteOrderedOut(copy->sequence) : device->NoteOrderedIn();
  }
  copy->predecessor = nullptr;
  copy->held = nullptr;
  if (Buffer* const buffer = buffers_.FindOrNull(copy->buffer)) {
    copy->is_out ? SettleOut(*buffer, copy) : SettleIn(*buffer, copy);
  } else if (!copy->is_out && !copy->result.ok()) {
    errors_.Add(copy);
  }
  copy->host = nullptr;
  // The pipeline's callback may own the copy for longer than the device exists.
  if (copy->is_compressed) copy->start = device::OwnedEvent();
  changes_.Note();
  in_flight_.Remove(copy);
}

void Books::CountEnd(const BufferCopy& copy) {
  if (!copy.result.ok()) {
    const bool is_refused = copy.is_out && absl::IsResourceExhausted(copy.result);
    ++(is_refused ? counts_.refused : counts_.failures);
    return;
  }
  ++(copy.is_out ? counts_.offloads : counts_.prefetches);
  (copy.is_out ? counts_.bytes_out : counts_.bytes_in) += copy.bytes;
}

void Books::SettleOut(Buffer& buffer, const CopyPointer& copy) {
  const bool is_cancelled = buffer.copy != copy;
  if (is_cancelled) return;
  buffer.copy = nullptr;
  if (copy->result.ok()) {
    buffer.host = copy->host;
    buffer.device = nullptr;
    return SetState(buffer, BufferState::kOut);
  }
  errors_.Detach(buffer);  // an earlier error that no call has returned
  buffer.failed = copy;
  buffer.device->SetLeaving(false);
  SetState(buffer, BufferState::kOnDevice);
}

void Books::SettleIn(Buffer& buffer, const CopyPointer& copy) {
  const bool is_coming = buffer.copy == copy;
  // The buffer leaves again after this copy.
  const bool is_predecessor = buffer.copy != nullptr && buffer.copy->predecessor == copy;
  if (copy->result.ok() && is_coming) {
    buffer.copy = nullptr;
    buffer.host = nullptr;
    return SetState(buffer, BufferState::kOnDevice);
  }
  if (copy->result.ok() || (!is_coming && !is_predecessor)) return;
  errors_.Detach(buffer);
  if (is_predecessor) NoteCancelled(buffer.copy);
  buffer.copy = nullptr;
  buffer.failed = copy;
  buffer.host = copy->host;
  if (is_coming && copy->has_given_address) copy->kept_device = std::move(buffer.device);
  buffer.device = nullptr;
  SetState(buffer, BufferState::kOut);
}

// The ends of raw copies are not known before a call has waited for them.
void Books::SettleFailedArrival(Buffer& buffer) {
  if (buffer.state != BufferState::kComingBack) return;
  const CopyPointer copy = buffer.copy;
  if (copy->has_reported_end && !copy->result.ok()) Settle(copy, copy->result);
}

void Books::SettleUnawaited() {
  bool is_raw_in_flight = false;  // then so are all later raw copies: they share a stream
  const std::list<CopyPointer>& ins = in_flight_.ins();
  for (auto it = ins.begin(); it != ins.end();) {
    const CopyPointer copy = *it++;
    if (!copy->is_compressed && is_raw_in_flight) continue;
    if (!copies_.HasFinished(*copy)) {
      is_raw_in_flight |= !copy->is_compressed;
      continue;
    }
    // The end of a compressed copy in of a buffer that was freed gives device memory back.
    const bool is_released_on_request = release_ == OffloaderOptions::Release::kWhenAwaited &&
                                        copy->held != nullptr && copy->held->is_leaving();
    if (!is_released_on_request) Settle(copy, copy->result);
  }
  SettleCancelled();
}

// Frees the host memory of cancelled copies. Compressed copies keep their device memory until a
// caller asks for it, so placement does not depend on the speed of copies. Looks at a copy only if
// all earlier copies have finished, as later copies rarely finish first: a scan of all copies with
// every call would take quadratic time.
void Books::SettleCancelled() {
  while (!cancelled_.empty()) {
    const CopyPointer copy = cancelled_.front();
    const bool may_settle = copy->predecessor == nullptr || copy->predecessor->is_settled;
    if (!copy->is_settled && (!may_settle || !copies_.HasFinished(*copy))) return;
    cancelled_.pop_front();
    if (copy->is_compressed) {
      copy->host = nullptr;
    } else {
      Settle(copy, copy->result);
    }
  }
}

}  // namespace tidepool::offload
