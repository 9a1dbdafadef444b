// SPDX-License-Identifier: Apache-2.0
// The functions of the offloader: each checks the buffer's state before it begins or awaits copies.
#include "tidepool/copies/offloader.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "lib/copies/offload/buffer_memory.h"
#include "lib/copies/offload/buffer_records.h"
#include "lib/copies/offload/memory_queue.h"
#include "lib/copies/offload/release_threads.h"
#include "lib/copies/offload/state.h"
#include "lib/copies/pipeline/counted_density.h"
#include "tidepool/copies/density_probe.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool {
namespace offload {
namespace {

// Probes a raw copy of `bytes` bytes, or tells the count of a compressed one. The memory must not
// change meanwhile; the caller need not hold the mutex. Errors are Offloader::ProbeDensity's.
absl::StatusOr<DensityEstimate> ProbeHostMemory(const HostMemory& host, std::int64_t bytes,
                                                const DensityProbeOptions& options) {
  if (host.stored() == nullptr) {
    return ProbeDensity(absl::MakeSpan(static_cast<const std::byte*>(host.address()),
                                       static_cast<std::size_t>(bytes)),
                        options);
  }
  if (host.stored()->word() == options.word) return pipeline::CountedDensity(*host.stored());
  return absl::InvalidArgumentError(
      absl::StrCat("words of ", static_cast<int>(options.word), " bytes, expected ",
                   static_cast<int>(host.stored()->word()), ", those of the compressed copy"));
}

class OffloaderImpl final : public Offloader {
 public:
  OffloaderImpl(Device& device, Pool& pool, PinnedPool& host, const OffloaderOptions& options);
  ~OffloaderImpl() override;

  // Creates the streams and starts the threads.
  absl::Status Start();

  absl::StatusOr<BufferId> Allocate(std::size_t bytes, Stream stream, Hint hint,
                                    std::string_view name, absl::Time deadline) override;
  absl::StatusOr<void*> Use(BufferId id, Stream stream) override;
  absl::Status Offload(BufferId id, Event after, std::optional<ZeroValueWord> word,
                       CopyWatch watch) override;
  absl::Status Await(BufferId id) override;
  absl::Status Prefetch(BufferId id, Stream stream, Hint hint, absl::Time deadline,
                        CopyWatch watch) override;
  absl::Status Free(BufferId id) override;
  absl::Status Synchronize() override;
  absl::StatusOr<BufferState> State(BufferId id) const override;
  absl::StatusOr<DensityEstimate> ProbeDensity(BufferId id,
                                               const DensityProbeOptions& options) const override;
  OffloaderStats Stats() const override;
  Stream out_stream() const override { return state_->copies.raw().out(); }
  Stream in_stream() const override { return state_->copies.raw().in(); }

 private:
  // Releases the mutex meanwhile: the pool may pin memory, which takes long.
  absl::StatusOr<std::shared_ptr<HostMemory>> TakeHostMemory(std::int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  absl::Status RefuseOffload(const Buffer& buffer, const absl::Status& error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  absl::Status AwaitOffload(BufferId id, CopyPointer copy)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  absl::Status BeginPrefetch(Buffer& buffer, std::shared_ptr<DeviceMemory> memory, Stream stream,
                             const CopyWatch& watch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);

  PinnedPool& host_;
  const OffloaderOptions options_;
  // A pointer, so const queries can settle copies that have finished.
  const std::unique_ptr<OffloaderState> state_;
  MemoryQueue queue_ ABSL_GUARDED_BY(state_->mutex);
  ReleaseThreads threads_;
};

OffloaderImpl::OffloaderImpl(Device& device, Pool& pool, PinnedPool& host,
                             const OffloaderOptions& options)
    : host_(host),
      options_(options),
      state_(std::make_unique<OffloaderState>(device, options)),
      queue_(device, pool, options.release),
      threads_(*state_) {}

absl::Status OffloaderImpl::Start() {
  absl::Status status = state_->copies.Start(options_.one_transfer_at_a_time);
  if (!status.ok() || options_.release != OffloaderOptions::Release::kWhenOut) return status;
  return threads_.Start(state_->copies.can_compress());
}

OffloaderImpl::~OffloaderImpl() {
  // Synchronize returns each error once, and with it releases the memory that is kept for it.
  while (!Synchronize().ok()) continue;
}

absl::StatusOr<BufferId> OffloaderImpl::Allocate(std::size_t bytes, Stream stream, Hint hint,
                                                 std::string_view name, absl::Time deadline) {
  if (bytes == 0) return absl::InvalidArgumentError("a buffer of 0 bytes, expected at least 1");
  const StateLock lock(*state_);
  auto memory = queue_.Take(*state_, {bytes, stream, hint, name, locks::ToSteady(deadline)});
  if (!memory.ok()) return memory.status();
  return state_->books.buffers().Add(name, static_cast<std::int64_t>(bytes), *std::move(memory));
}

absl::StatusOr<void*> OffloaderImpl::Use(BufferId id, Stream stream) {
  const StateLock lock(*state_);
  const absl::StatusOr<Buffer*> found = state_->books.buffers().Find(id);
  if (!found.ok()) return found.status();
  Buffer& buffer = **found;
  absl::Status status = state_->books.TakeOffloadError(buffer);
  if (status.ok()) status = state_->books.CheckIsOnDevice(buffer);
  if (!status.ok()) return status;
  const bool is_coming = buffer.state == BufferState::kComingBack;
  if (is_coming) status = state_->copies.MakeWait(stream, *buffer.copy);
  if (status.ok()) status = buffer.device->AddUser(stream);
  if (!status.ok()) return status;
  if (is_coming) buffer.copy->has_given_address = true;
  return buffer.device->address();
}

absl::Status OffloaderImpl::Offload(BufferId id, Event after, std::optional<ZeroValueWord> word,
                                    CopyWatch watch) {
  if (!state_->copies.can_compress()) word = std::nullopt;
  const StateLock lock(*state_);
  state_->books.SettleUnawaited();
  absl::StatusOr<Buffer*> found = state_->books.FindToOffload(id);
  if (!found.ok()) return found.status();
  std::shared_ptr<HostMemory> host;
  if (!word.has_value()) {
    auto taken = TakeHostMemory((*found)->bytes);
    // Other threads may have changed the buffer meanwhile.
    found = state_->books.FindToOffload(id);
    if (!found.ok()) return found.status();
    if (!taken.ok()) return RefuseOffload(**found, taken.status());
    host = *std::move(taken);
  }
  Buffer& buffer = **found;
  const CopyPointer copy = state_->books.NewCopy(buffer, true);
  copy->host = std::move(host);
  if (buffer.state == BufferState::kComingBack) copy->predecessor = buffer.copy;
  const absl::Status status = state_->copies.BeginOut(buffer, after, word, watch, copy);
  if (!status.ok()) return RefuseOffload(buffer, status);
  state_->books.BeginOffload(buffer, copy);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<HostMemory>> OffloaderImpl::TakeHostMemory(std::int64_t bytes) {
  state_->mutex.Unlock();
  const absl::StatusOr<void*> address = host_.Allocate(static_cast<std::size_t>(bytes));
  state_->mutex.Lock();
  state_->books.CollectEnded();
  if (!address.ok()) return address.status();
  return std::make_shared<HostMemory>(state_->books.holdings(), host_, *address, bytes);
}

absl::Status OffloaderImpl::RefuseOffload(const Buffer& buffer, const absl::Status& error) {
  OffloaderStats& counts = state_->books.counts();
  ++(absl::IsResourceExhausted(error) ? counts.refused : counts.failures);
  return absl::Status(error.code(),
                      absl::StrCat(DescribeBuffer(buffer), " cannot leave: ", error.message()));
}

absl::Status OffloaderImpl::Await(BufferId id) {
  const StateLock lock(*state_);
  const absl::StatusOr<Buffer*> found = state_->books.buffers().Find(id);
  if (!found.ok()) return found.status();
  Buffer& buffer = **found;
  if (buffer.state == BufferState::kOut) return absl::OkStatus();
  if (buffer.state == BufferState::kGoingOut) return AwaitOffload(id, buffer.copy);
  if (buffer.failed != nullptr && buffer.failed->is_out) return state_->books.errors().Take(buffer);
  return WrongState(buffer, "going out");
}

// Returns the result of this copy: other threads may offload or free the buffer meanwhile.
// NOLINTNEXTLINE(performance-unnecessary-value-param): the buffer drops its pointer meanwhile.
absl::Status OffloaderImpl::AwaitOffload(BufferId id, CopyPointer copy) {
  state_->AwaitAndSettle(copy);
  Buffer* const buffer = state_->books.buffers().FindOrNull(id);
  if (buffer != nullptr && buffer->failed == copy) buffer->failed = nullptr;
  return ResultOf(*copy);
}

absl::Status OffloaderImpl::Prefetch(BufferId id, Stream stream, Hint hint, absl::Time deadline,
                                     CopyWatch watch) {
  const StateLock lock(*state_);
  state_->books.SettleUnawaited();
  absl::StatusOr<Buffer*> found = state_->books.buffers().Find(id);
  if (!found.ok()) return found.status();
  if (absl::Status status = state_->books.TakeOffloadError(**found); !status.ok()) return status;
  std::shared_ptr<DeviceMemory> memory;
  if ((*found)->state == BufferState::kOut) {
    const std::string name = (*found)->name;
    const auto bytes = static_cast<std::size_t>((*found)->bytes);
    auto taken = queue_.Take(*state_, {bytes, stream, hint, name, locks::ToSteady(deadline)});
    if (!taken.ok()) return taken.status();
    memory = *std::move(taken);
    // Other threads may have changed the buffer meanwhile.
    found = state_->books.buffers().Find(id);
    if (!found.ok()) return found.status();
  }
  Buffer& buffer = **found;
  if (buffer.state == BufferState::kGoingOut) state_->books.CancelOffload(buffer);
  if (buffer.state != BufferState::kOut) return absl::OkStatus();
  return BeginPrefetch(buffer, std::move(memory), stream, watch);
}

absl::Status OffloaderImpl::BeginPrefetch(Buffer& buffer, std::shared_ptr<DeviceMemory> memory,
                                          Stream stream, const CopyWatch& watch) {
  const CopyPointer copy = state_->books.NewCopy(buffer, false);
  copy->device = memory;
  copy->host = buffer.host;
  const absl::Status status = state_->copies.BeginIn(buffer, *memory, stream, watch, copy);
  if (!status.ok()) {
    ++state_->books.counts().failures;
    return absl::Status(status.code(), absl::StrCat(DescribeBuffer(buffer),
                                                    " cannot come back: ", status.message()));
  }
  state_->books.BeginPrefetch(buffer, copy, std::move(memory));
  return absl::OkStatus();
}

absl::Status OffloaderImpl::Free(BufferId id) {
  const StateLock lock(*state_);
  const absl::StatusOr<Buffer*> found = state_->books.buffers().Find(id);
  if (!found.ok()) return found.status();
  state_->books.Free(**found);
  return absl::OkStatus();
}

absl::Status OffloaderImpl::Synchronize() {
  const StateLock lock(*state_);
  for (const CopyPointer& copy : state_->books.in_flight().All()) state_->AwaitAndSettle(copy);
  return state_->books.errors().TakeEarliest(state_->books.buffers().FindFirstFailed());
}

absl::StatusOr<BufferState> OffloaderImpl::State(BufferId id) const {
  const StateLock lock(*state_);
  state_->books.SettleUnawaited();
  const absl::StatusOr<Buffer*> buffer = state_->books.buffers().Find(id);
  if (!buffer.ok()) return buffer.status();
  return (*buffer)->state;
}

absl::StatusOr<DensityEstimate> OffloaderImpl::ProbeDensity(
    BufferId id, const DensityProbeOptions& options) const {
  std::shared_ptr<HostMemory> host;
  std::int64_t bytes = 0;
  {
    const StateLock lock(*state_);
    state_->books.SettleUnawaited();
    const absl::StatusOr<Buffer*> buffer = state_->books.buffers().Find(id);
    if (!buffer.ok()) return buffer.status();
    if ((*buffer)->state != BufferState::kOut) return WrongState(**buffer, "out");
    host = (*buffer)->host;
    bytes = (*buffer)->bytes;
  }
  absl::StatusOr<DensityEstimate> estimate = ProbeHostMemory(*host, bytes, options);
  // The last owner's destructor changes counters that the mutex guards.
  const StateLock lock(*state_);
  host.reset();
  return estimate;
}

OffloaderStats OffloaderImpl::Stats() const {
  const StateLock lock(*state_);
  state_->books.SettleUnawaited();
  return state_->books.Stats();
}

}  // namespace
}  // namespace offload

absl::StatusOr<std::unique_ptr<Offloader>> Offloader::Create(Device* device, Pool* pool,
                                                             PinnedPool* host,
                                                             const OffloaderOptions& options) {
  if (device == nullptr || pool == nullptr || host == nullptr) {
    return absl::InvalidArgumentError(
        "a null pointer, expected a device, a pool of its memory, and a pool of pinned memory");
  }
  auto offloader = std::make_unique<offload::OffloaderImpl>(*device, *pool, *host, options);
  if (absl::Status status = offloader->Start(); !status.ok()) return status;
  return offloader;
}

}  // namespace tidepool
