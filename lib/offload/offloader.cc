// What is asked of a buffer: whether its state allows it, and what becomes of it.
#include "tidepool/schedule/offloader.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/offload/buffer_states.h"
#include "lib/offload/offloader_impl.h"

namespace tidepool {
namespace offload {
namespace {

// Of all offloaders, so that none takes another's buffer for its own.
BufferId NewName() {
  static std::atomic<std::uint64_t> last_id{0};
  return {last_id.fetch_add(1, std::memory_order_relaxed) + 1};
}

}  // namespace

absl::Status OffloaderImpl::Start() {
  const auto create = [&](Stream& stream) {
    const absl::StatusOr<Stream> created = device_.CreateStream();
    if (created.ok()) stream = *created;
    return created.status();
  };
  if (absl::Status status = create(out_); !status.ok()) return status;
  in_ = out_;
  if (!options_.one_transfer_at_a_time) {
    in_ = {};
    if (absl::Status status = create(in_); !status.ok()) return status;
  }
  if (options_.pipeline != nullptr) {
    if (absl::Status status = create(gate_); !status.ok()) return status;
    if (absl::Status status = create(in_gate_); !status.ok()) return status;
  }
  if (options_.release != OffloaderOptions::Release::kWhenOut) return absl::OkStatus();
  absl::Status status = StartThread(false);
  if (status.ok() && options_.pipeline != nullptr) status = StartThread(true);
  return status;
}

absl::Status OffloaderImpl::StartThread(bool is_compressed) {
  try {
    (is_compressed ? compressed_thread_ : raw_thread_) =
        std::thread([this, is_compressed] { GiveBackWhenOut(is_compressed); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread can be started (", error.what(), "), expected one for copies"));
  }
  return absl::OkStatus();
}

OffloaderImpl::~OffloaderImpl() {
  // Each error is told once, and with it ends the promise of its memory.
  while (!Synchronize().ok()) continue;
  {
    const Lock lock(mutex_);
    is_ending_ = true;
    Changed();
  }
  if (raw_thread_.joinable()) raw_thread_.join();
  if (compressed_thread_.joinable()) compressed_thread_.join();
  buffers_.clear();
  // What the device does not take back is its own loss.
  if (in_gate_ != Stream()) device_.DestroyStream(in_gate_).IgnoreError();
  if (gate_ != Stream()) device_.DestroyStream(gate_).IgnoreError();
  if (in_ != Stream() && in_ != out_) device_.DestroyStream(in_).IgnoreError();
  if (out_ != Stream()) device_.DestroyStream(out_).IgnoreError();
}

// Takes the mutex, and up what the pipeline's threads have left.
OffloaderImpl::Lock OffloaderImpl::Enter() const {
  Lock lock(mutex_);
  CollectEnded();
  return lock;
}

absl::StatusOr<Buffer*> OffloaderImpl::Find(BufferId id) const {
  const auto found = buffers_.find(id.id);
  if (found != buffers_.end()) return found->second.get();
  return absl::NotFoundError(
      absl::StrCat("buffer ", id.id, " is unknown, expected one that was not freed"));
}

absl::StatusOr<BufferId> OffloaderImpl::Allocate(std::size_t bytes, Stream stream, Hint hint,
                                                 std::string_view name, absl::Time deadline) {
  if (bytes == 0) {
    return absl::InvalidArgumentError("a buffer of no bytes, expected at least one");
  }
  Lock lock = Enter();
  auto memory = TakeMemory(lock, bytes, stream, hint, name, deadline);
  if (!memory.ok()) return memory.status();
  auto buffer = std::make_unique<Buffer>();
  const BufferId id = NewName();
  buffer->id = id;
  buffer->name = std::string(name);
  buffer->bytes = static_cast<std::int64_t>(bytes);
  buffer->device = *std::move(memory);
  buffers_.emplace(id.id, std::move(buffer));
  return id;
}

absl::StatusOr<void*> OffloaderImpl::Use(BufferId id, Stream stream) {
  const Lock lock = Enter();
  const absl::StatusOr<Buffer*> found = Find(id);
  if (!found.ok()) return found.status();
  Buffer& buffer = **found;
  if (absl::Status status = CheckIsOnDevice(buffer); !status.ok()) return status;
  if (buffer.state == BufferState::kComingBack) {
    if (absl::Status status = WaitForArrival(*buffer.copy, stream); !status.ok()) return status;
  }
  if (absl::Status status = buffer.device->AddUser(stream); !status.ok()) return status;
  if (buffer.state == BufferState::kComingBack) buffer.copy->is_promised = true;
  return buffer.device->address();
}

// Or coming back. Tells the error of a copy back that failed, once.
absl::Status OffloaderImpl::CheckIsOnDevice(Buffer& buffer) {
  if (buffer.state == BufferState::kOut && buffer.failed != nullptr && !buffer.failed->is_out) {
    return TellFailure(buffer);
  }
  if (buffer.state == BufferState::kOut || buffer.state == BufferState::kGoingOut) {
    return WrongState(buffer, "on the device or coming back");
  }
  return absl::OkStatus();
}

// Tells the error of the last copy, once. From here on no work is queued with an address that Use
// gave before.
absl::Status OffloaderImpl::TellFailure(Buffer& buffer) {
  const CopyPointer failed = std::exchange(buffer.failed, nullptr);
  EndPromise(*failed);
  return EndOf(*failed);
}

absl::Status OffloaderImpl::Offload(BufferId id, Event after, std::optional<ZeroValueWord> word,
                                    CopyWatch watch) {
  Lock lock = Enter();
  SettleArrivals();
  absl::StatusOr<Buffer*> found = FindToOffload(id);
  if (!found.ok()) return found.status();
  const bool is_compressed = word.has_value() && options_.pipeline != nullptr;
  std::shared_ptr<HostMemory> host;
  if (!is_compressed) {
    auto taken = TakeHostMemory(lock, (*found)->bytes);
    // Other threads may have been here meanwhile.
    found = FindToOffload(id);
    if (!found.ok()) return found.status();
    if (!taken.ok()) return CannotLeave(**found, taken.status());
    host = *std::move(taken);
  }
  Buffer& buffer = **found;
  const CopyPointer copy = NewCopy(buffer, true);
  copy->host = std::move(host);
  if (buffer.state == BufferState::kComingBack) copy->behind = buffer.copy;
  const absl::Status status = is_compressed ? CompressOut(buffer, after, *word, watch, copy)
                                            : CopyRawOut(buffer, after, watch, *copy);
  if (!status.ok()) return CannotLeave(buffer, status);
  buffer.host = nullptr;  // the copy in still has it
  buffer.copy = copy;
  buffer.device->SetLeaving(true);
  Move(buffer, BufferState::kGoingOut);
  outs_.push_back(copy);
  Changed();
  return absl::OkStatus();
}

absl::StatusOr<Buffer*> OffloaderImpl::FindToOffload(BufferId id) {
  absl::StatusOr<Buffer*> found = Find(id);
  if (!found.ok()) return found;
  Buffer& buffer = **found;
  EndPromises(buffer);
  if (absl::Status status = CheckIsOnDevice(buffer); !status.ok()) return status;
  return found;
}

// From here on no work may be queued with an address that Use gave for the buffer.
void OffloaderImpl::EndPromises(const Buffer& buffer) {
  if (buffer.failed != nullptr) EndPromise(*buffer.failed);
  for (const CopyPointer& lost : lost_) {
    if (lost->buffer == buffer.id) EndPromise(*lost);
  }
  // Of copies that keep no memory the first is enough: see NoteLost.
  for (auto it = lost_.begin(); it != lost_.end();) {
    it = it != lost_.begin() && (*it)->promised == nullptr ? lost_.erase(it) : std::next(it);
  }
}

// A request may wait for the memory.
void OffloaderImpl::EndPromise(BufferCopy& copy) const {
  if (std::exchange(copy.promised, nullptr) != nullptr) Changed();
}

absl::Status OffloaderImpl::CannotLeave(const Buffer& buffer, const absl::Status& error) {
  ++(absl::IsResourceExhausted(error) ? stats_.refused : stats_.failures);
  return absl::Status(error.code(),
                      absl::StrCat(DescribeBuffer(buffer), " cannot leave: ", error.message()));
}

absl::Status OffloaderImpl::Await(BufferId id) {
  Lock lock = Enter();
  const absl::StatusOr<Buffer*> found = Find(id);
  if (!found.ok()) return found.status();
  Buffer& buffer = **found;
  if (buffer.state == BufferState::kOut) return absl::OkStatus();
  if (buffer.state == BufferState::kGoingOut) {
    // Others may do what they like with the buffer meanwhile: the copy is what is asked about.
    const CopyPointer copy = buffer.copy;
    Finish(lock, copy);
    const auto again = buffers_.find(id.id);
    if (again != buffers_.end() && again->second->failed == copy) again->second->failed = nullptr;
    return EndOf(*copy);
  }
  if (buffer.failed != nullptr && buffer.failed->is_out) return TellFailure(buffer);
  return WrongState(buffer, "going out");
}

absl::Status OffloaderImpl::Prefetch(BufferId id, Stream stream, Hint hint, absl::Time deadline,
                                     CopyWatch watch) {
  Lock lock = Enter();
  SettleArrivals();
  absl::StatusOr<Buffer*> found = Find(id);
  if (!found.ok()) return found.status();
  std::shared_ptr<DeviceMemory> memory;
  if ((*found)->state == BufferState::kOut) {
    const std::string name = (*found)->name;
    auto taken =
        TakeMemory(lock, static_cast<std::size_t>((*found)->bytes), stream, hint, name, deadline);
    if (!taken.ok()) return taken.status();
    memory = *std::move(taken);
    // Others may have been here meanwhile.
    found = Find(id);
    if (!found.ok()) return found.status();
  }
  Buffer& buffer = **found;
  if (buffer.state == BufferState::kGoingOut) Stay(buffer);
  if (buffer.state != BufferState::kOut) return absl::OkStatus();

  const CopyPointer copy = NewCopy(buffer, false);
  copy->device = memory;
  copy->host = buffer.host;
  const absl::Status status = buffer.host->address() == nullptr
                                  ? DecompressIn(buffer, *memory, stream, watch, copy)
                                  : CopyRawIn(buffer, *memory, stream, watch, *copy);
  if (!status.ok()) {
    ++stats_.failures;
    return absl::Status(status.code(), absl::StrCat(DescribeBuffer(buffer),
                                                    " cannot come back: ", status.message()));
  }
  if (copy->is_compressed) copy->held = memory;
  buffer.device = std::move(memory);
  buffer.copy = copy;
  Forget(buffer);
  Move(buffer, BufferState::kComingBack);
  ins_.push_back(copy);
  return absl::OkStatus();
}

absl::Status OffloaderImpl::Free(BufferId id) {
  const Lock lock = Enter();
  const absl::StatusOr<Buffer*> found = Find(id);
  if (!found.ok()) return found.status();
  for (const CopyPointer& copy : {(*found)->copy, (*found)->given_up}) {
    if (copy != nullptr) PutHomeBehind(*copy);
  }
  // What a compressed copy holds comes back with its end.
  if ((*found)->device != nullptr && (*found)->device.use_count() > 1) {
    (*found)->device->SetLeaving(true);
  }
  if ((*found)->state == BufferState::kGoingOut) GiveUp((*found)->copy);
  EndPromises(**found);
  Forget(**found);
  buffers_.erase(id.id);
  Changed();
  return absl::OkStatus();
}

absl::Status OffloaderImpl::Synchronize() {
  Lock lock = Enter();
  std::vector<CopyPointer> copies(outs_.begin(), outs_.end());
  copies.insert(copies.end(), ins_.begin(), ins_.end());
  std::sort(copies.begin(), copies.end(), [](const CopyPointer& one, const CopyPointer& other) {
    return one->sequence < other->sequence;
  });
  for (const CopyPointer& copy : copies) Finish(lock, copy);

  Buffer* first = nullptr;
  for (const auto& [name, buffer] : buffers_) {
    if (buffer->failed == nullptr) continue;
    if (first == nullptr || buffer->failed->sequence < first->failed->sequence)
      first = buffer.get();
  }
  if (lost_.empty()) return first == nullptr ? absl::OkStatus() : TellFailure(*first);
  if (first != nullptr && first->failed->sequence < lost_.front()->sequence) {
    return TellFailure(*first);
  }
  const CopyPointer lost = lost_.front();
  lost_.pop_front();
  EndPromise(*lost);
  return EndOf(*lost);
}

absl::StatusOr<BufferState> OffloaderImpl::State(BufferId id) const {
  const Lock lock = Enter();
  SettleArrivals();
  const absl::StatusOr<Buffer*> buffer = Find(id);
  if (!buffer.ok()) return buffer.status();
  return (*buffer)->state;
}

OffloaderStats OffloaderImpl::Stats() const {
  const Lock lock = Enter();
  SettleArrivals();
  OffloaderStats stats = stats_;
  stats.buffers = static_cast<std::int64_t>(buffers_.size());
  stats.device_bytes = holdings_.device_bytes;
  stats.host_bytes = holdings_.host_bytes;
  stats.peak_host_bytes = holdings_.peak_host_bytes;
  return stats;
}

}  // namespace offload

absl::StatusOr<std::unique_ptr<Offloader>> Offloader::Create(Device* device, Pool* pool,
                                                             PinnedPool* host,
                                                             const OffloaderOptions& options) {
  if (device == nullptr || pool == nullptr || host == nullptr) {
    return absl::InvalidArgumentError(
        "null, expected a device, a pool of its memory, and one of pinned memory");
  }
  auto offloader = std::make_unique<offload::OffloaderImpl>(*device, *pool, *host, options);
  if (absl::Status status = offloader->Start(); !status.ok()) return status;
  return offloader;
}

}  // namespace tidepool
