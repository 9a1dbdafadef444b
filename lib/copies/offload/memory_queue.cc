// SPDX-License-Identifier: Apache-2.0
// The waits of requests for device memory, and the errors of those that cannot be served.
#include "lib/copies/offload/memory_queue.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "lib/copies/offload/buffer_records.h"

namespace tidepool::offload {
namespace {

constexpr std::size_t kMostNamed = 5;

std::string Shortage(const MemoryRequest& request) {
  return absl::StrCat(
      "too little device memory for ", text::ExactSize(request.bytes),
      request.name.empty()
          ? ""
          : absl::StrCat(" of '", absl::CHexEscape({request.name.data(), request.name.size()}),
                         "'"));
}

// Returns "; the largest of 7 buffers on the device: buffer 'x' (10.0 MiB, going out), ...".
std::string DescribeLargest(const BufferTable& table) {
  const std::vector<const Buffer*> buffers = table.OnDevice(kMostNamed);
  std::string list;
  for (std::size_t i = 0; i < std::min(buffers.size(), kMostNamed); ++i) {
    const Buffer& buffer = *buffers[i];
    absl::StrAppend(&list, i > 0 ? ", " : "; the largest of ",
                    i > 0 ? "" : absl::StrCat(buffers.size(), " buffers on the device: "),
                    DescribeBuffer(buffer), " (", text::Size(buffer.bytes), ", ",
                    std::string(BufferStateName(buffer.state)), ")");
  }
  return list;
}

absl::Status CannotFit(Books& books, const MemoryRequest& request, const absl::Status& refusal) {
  std::string message = absl::StrCat(Shortage(request), ", and only ",
                                     text::ExactSize(books.holdings().leaving_bytes),
                                     " are going out; ", std::string(refusal.message()));
  const std::int64_t kept = books.errors().KeptBytes() + books.buffers().KeptBytes();
  if (kept > 0) {
    absl::StrAppend(&message, "; ", text::ExactSize(kept),
                    " are kept because copies back failed after Use gave their addresses: "
                    "call Synchronize until it returns no error");
  }
  absl::StrAppend(&message, DescribeLargest(books.buffers()));
  return absl::ResourceExhaustedError(message);
}

absl::Status TooLate(Books& books, const MemoryRequest& request) {
  return absl::DeadlineExceededError(absl::StrCat(
      Shortage(request), " until the deadline; ", text::ExactSize(books.holdings().leaving_bytes),
      " are still going out: wait longer, or free buffers"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceMemory>> MemoryQueue::Take(OffloaderState& state,
                                                                const MemoryRequest& request) {
  const std::uint64_t waiter = ++last_waiter_;
  const auto position = waiters_.insert(waiters_.end(), waiter);
  bool has_waited = waiters_.front() != waiter;
  const bool is_first = WaitForTurn(state, waiter, request.deadline);
  const absl::StatusOr<void*> address =
      is_first ? TakeFirst(state, request, has_waited) : TooLate(state.books, request);
  if (has_waited) ++state.books.counts().blocked;
  waiters_.erase(position);
  if (!waiters_.empty()) state.changes.Note();
  if (!address.ok()) return address.status();
  const DeviceSource source = {device_, pool_, state.books.holdings(), state.copies.raw().out(),
                               state.copies.raw().in()};
  return std::make_shared<DeviceMemory>(source, *address, static_cast<std::int64_t>(request.bytes),
                                        request.stream);
}

bool MemoryQueue::WaitForTurn(OffloaderState& state, std::uint64_t waiter,
                              locks::SteadyTime deadline) {
  while (waiters_.front() != waiter) {
    if (!state.AwaitChange(state.changes.count(), deadline)) return waiters_.front() == waiter;
  }
  return true;
}

// Only the first request in the queue calls this, so no other request asks the pool at that time.
absl::StatusOr<void*> MemoryQueue::AskPool(OffloaderState& state, const MemoryRequest& request) {
  state.mutex.Unlock();
  absl::StatusOr<void*> address = pool_.Allocate(request.bytes, request.stream, request.hint);
  state.mutex.Lock();
  state.books.CollectEnded();
  return address;
}

// Memory that stays is certain to be taken. Memory that leaves may not suffice either: the pool has
// other users and rounds sizes up.
bool MemoryQueue::MayFit(Books& books, std::size_t bytes) const {
  const std::int64_t staying = books.holdings().device_bytes - books.holdings().leaving_bytes;
  const std::int64_t most = pool_.Stats().max_bytes - staying;
  return bytes <= static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
}

absl::StatusOr<void*> MemoryQueue::TakeFirst(OffloaderState& state, const MemoryRequest& request,
                                             bool& has_waited) {
  const locks::SteadyTime deadline = request.deadline;
  // The last try comes after the deadline.
  for (bool is_late = false;;) {
    const std::uint64_t seen = state.changes.count();
    absl::StatusOr<void*> address = AskPool(state, request);
    if (address.ok() || !absl::IsResourceExhausted(address.status())) return address;
    state.books.SettleUnawaited();
    if (state.changes.count() != seen && !is_late) {
      is_late = locks::SteadyNow() >= deadline;
      continue;
    }
    const CopyPointer leaving = state.books.in_flight().FirstLeaving();
    if (leaving == nullptr || !MayFit(state.books, request.bytes)) {
      return CannotFit(state.books, request, address.status());
    }
    if (is_late) return TooLate(state.books, request);
    has_waited = true;
    is_late = release_ == OffloaderOptions::Release::kWhenOut
                  ? !state.AwaitChange(seen, deadline)
                  : !state.AwaitAndSettleBy(leaving, deadline);
  }
}

}  // namespace tidepool::offload
