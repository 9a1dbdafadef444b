// SPDX-License-Identifier: Apache-2.0
// Serves CNMeM's calls from a pool, and translates streams and errors.
#include "bindings/cnmem/device_manager.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bindings/cnmem/include/cnmem.h"
#include "bindings/cnmem/state_of_device.h"
#include "bindings/support/cuda_end.h"
#include "bindings/support/out_of_memory.h"
#include "bindings/support/statistics_text.h"
#include "lib/base/arithmetic.h"
#include "tidepool/log.h"
#include "tidepool/nvtx_observer.h"
#include "tidepool/recorder.h"

namespace tidepool::cnmem {
namespace {

constexpr std::int64_t kUnit = 512;

// Adds up sizes, each of which has to be less than the device's memory.
absl::StatusOr<std::int64_t> SumOfSizes(const std::vector<std::size_t>& sizes,
                                        std::int64_t device_bytes) {
  std::int64_t sum = 0;
  for (const std::size_t size : sizes) {
    if (size >= static_cast<std::size_t>(device_bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the size is ", size, " bytes, expected less than the device's ", device_bytes));
    }
    sum += RoundUp(size == 0 ? device_bytes / 2 : static_cast<std::int64_t>(size), kUnit);
  }
  return sum;
}

absl::Status UnknownStream(cudaStream_t native) {
  return absl::InvalidArgumentError(
      absl::StrCat("stream 0x", absl::Hex(reinterpret_cast<std::uintptr_t>(native)),
                   " is not registered on the current device: call cnmemRegisterStream first"));
}

// Returns how to raise a limit. Empty for the device's own memory.
std::string Raise(Limit limit) {
  switch (limit) {
    case Limit::kDevice:
      return "";
    case Limit::kBudget:
      return "raise TIDEPOOL_CNMEM_BUDGET";
    case Limit::kSize:
      break;
  }
  return "give cnmemDevice_t a larger size, or leave CNMEM_FLAGS_CANNOT_GROW out";
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceManager>> DeviceManager::Create(const DeviceRequest& request,
                                                                     const Settings& settings) {
  const bool is_managed = (request.flags & CNMEM_FLAGS_MANAGED) != 0;
  absl::StatusOr<std::unique_ptr<CudaDevice>> device =
      CudaDevice::Create({.ordinal = request.ordinal,
                          .memory = is_managed ? CudaMemory::kManaged : CudaMemory::kDevice});
  if (!device.ok()) return device.status();
  std::unique_ptr<DeviceManager> manager(new DeviceManager(settings, *std::move(device)));
  manager->is_managed_ = is_managed;
  if (absl::Status status = manager->Start(request); !status.ok()) return status;
  return manager;
}

DeviceManager::~DeviceManager() {
  // Close was called, unless Start failed.
  if (!is_closed_) Close().IgnoreError();
}

absl::Status DeviceManager::Start(const DeviceRequest& request) {
  const absl::StatusOr<std::int64_t> sum = SumOfSizes(request.sizes, device_->memory_bytes());
  if (!sum.ok()) return sum.status();
  const absl::StatusOr<Stream> name = device_->WrapStream(nullptr);
  if (!name.ok()) return name.status();
  default_ = std::make_unique<StreamManager>(nullptr, *name);

  const bool can_grow = (request.flags & CNMEM_FLAGS_CANNOT_GROW) == 0;
  const std::int64_t most = can_grow ? device_->memory_bytes() : *sum;
  const std::int64_t budget = BudgetOf(most);
  if (budget < (most & -kUnit)) {
    limit_ = Limit::kBudget;
  } else {
    limit_ = can_grow ? Limit::kDevice : Limit::kSize;
  }
  const bool can_steal = (request.flags & CNMEM_FLAGS_CANNOT_STEAL) == 0;
  std::int64_t reserved = 0;
  for (const auto& [native, bytes] : request.streams) {
    if (native == nullptr) continue;
    const absl::StatusOr<StreamManager*> manager = Add(native);
    if (!manager.ok()) return manager.status();
    if (bytes > static_cast<std::size_t>(budget - reserved)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("streamSizes reserve ", bytes, " bytes after ", reserved,
                       " bytes, expected at most ", budget, " bytes together"));
    }
    (*manager)->reserved_bytes += RoundUp(static_cast<std::int64_t>(bytes), kUnit);
    reserved += RoundUp(static_cast<std::int64_t>(bytes), kUnit);
  }
  const std::int64_t initial = std::min(std::max(*sum, reserved), budget);
  if (can_steal) return StartPool(initial, budget);
  for (StreamManager* const manager : Managers()) {
    const std::int64_t bytes = manager->reserved_bytes;
    if (bytes == 0) continue;
    absl::StatusOr<std::unique_ptr<Reserve>> reserve =
        Reserve::Create(device_.get(), InSegments(bytes, bytes), MakeToolObserver(nullptr));
    if (!reserve.ok()) return reserve.status();
    manager->reserve = *std::move(reserve);
    reserves_.push_back(manager->reserve.get());
  }
  return StartPool(initial - reserved, budget - reserved);
}

absl::Status DeviceManager::StartPool(std::int64_t initial_bytes, std::int64_t max_bytes) {
  if (max_bytes == 0) return absl::OkStatus();
  StartRecorder();
  PoolOptions options = Options(initial_bytes, max_bytes);
  tool_observer_ = MakeToolObserver(recorder_.get());
  options.recorder = tool_observer_ != nullptr ? tool_observer_.get() : recorder_.get();
  initial_bytes_ = options.initial_bytes;
  max_bytes_ = options.max_bytes;
  absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(device_.get(), options);
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  const PoolStats stats = pool_->Stats();
  initially_held_bytes_ = stats.live_bytes + stats.free_bytes;
  return absl::OkStatus();
}

// Starts the recorder. A trace that cannot be written must not keep the program from running.
void DeviceManager::StartRecorder() {
  if (settings_.trace.empty()) return;
  absl::StatusOr<std::unique_ptr<Recorder>> recorder =
      Recorder::Create({.path = absl::StrCat(settings_.trace, ".", device_->ordinal(), ".tide")});
  if (recorder.ok()) {
    recorder_ = *std::move(recorder);
  } else {
    Log(LogLevel::kError, absl::StrCat("nothing is recorded: ", recorder.status().message()));
  }
}

std::unique_ptr<PoolObserver> DeviceManager::MakeToolObserver(PoolObserver* next) const {
  return settings_.uses_nvtx ? MakeNvtxObserver(*device_, next) : nullptr;
}

PoolOptions DeviceManager::InSegments(std::int64_t initial_bytes, std::int64_t max_bytes) const {
  PoolOptions options;
  options.initial_bytes = initial_bytes;
  options.max_bytes = max_bytes;
  options.alignment = kUnit;
  options.placement = settings_.placement;
  options.growth = settings_.growth.value_or(options.growth);
  options.memory = PoolMemory::kSegments;
  options.late_frees = true;  // CNMeM frees memory of a destroyed stream without using it
  return options;
}

// Chooses virtual memory if it is enabled. It comes in whole granules, so the limit is rounded down
// to granules: rounding up would exceed `max_bytes`. A limit below one granule falls back to
// segments, so that small programs get the memory that they request.
PoolOptions DeviceManager::Options(std::int64_t initial_bytes, std::int64_t max_bytes) const {
  PoolOptions options = InSegments(initial_bytes, max_bytes);
  const std::int64_t granule = device_->granularity();
  const bool is_virtual =
      settings_.has_virtual_memory.value_or(settings_.remaps) && !is_managed_ && granule > 0;
  if (!is_virtual || max_bytes < granule) return options;
  options.memory = PoolMemory::kVirtual;
  options.remap = settings_.remaps;
  options.max_bytes = max_bytes & -granule;
  options.initial_bytes = std::min(initial_bytes, options.max_bytes);
  return options;
}

std::int64_t DeviceManager::BudgetOf(std::int64_t bytes) const {
  const std::int64_t budget = bindings::BudgetOf(settings_, device_->memory_bytes(), bytes);
  return std::max(budget & -kUnit, kUnit);
}

absl::Status DeviceManager::Register(cudaStream_t native) {
  if (native == nullptr) {
    return absl::InvalidArgumentError("stream is null, expected a stream that was created");
  }
  return Add(native).status();
}

// Registers a stream. The legacy default stream has a second handle besides null.
absl::StatusOr<StreamManager*> DeviceManager::Add(cudaStream_t native) {
  const absl::StatusOr<Stream> name = device_->WrapStream(native, StreamPromise::kNone);
  if (!name.ok()) return name.status();
  const locks::MutexLock lock(&mutex_);
  StreamManager* manager = streams_.Find(native);
  if (manager != nullptr) {
    manager->Rename(*name);
    return manager;
  }
  if (*name == default_->name()) {
    manager = default_.get();
  } else {
    managers_.push_back(std::make_unique<StreamManager>(native, *name));
    manager = managers_.back().get();
  }
  streams_.Add(native, manager);
  return manager;
}

absl::StatusOr<Stream> DeviceManager::NameOf(StreamManager& manager) {
  if (manager.native() != cudaStreamPerThread) [[likely]]
    return manager.name();
  absl::StatusOr<Stream> name = device_->WrapStream(manager.native());
  if (name.ok()) manager.Rename(*name);
  return name;
}

absl::StatusOr<void*> DeviceManager::Allocate(std::size_t bytes, cudaStream_t native) {
  StreamManager* const manager = Find(native);
  if (manager == nullptr) return UnknownStream(native);
  return TryAllocate(bytes, *manager);
}

absl::StatusOr<void*> DeviceManager::TryAllocate(std::size_t bytes, StreamManager& manager) {
  const absl::StatusOr<Stream> stream = NameOf(manager);
  if (!stream.ok()) return stream.status();
  if (manager.reserve != nullptr && bytes <= static_cast<std::size_t>(manager.reserve->bytes())) {
    absl::StatusOr<void*> address = manager.reserve->pool().Allocate(bytes, *stream);
    if (!absl::IsResourceExhausted(address.status())) return address;
  }
  if (pool_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes,
        " bytes asked for, and all memory is reserved for streams: give cnmemDevice_t a "
        "larger size or smaller streamSizes"));
  }
  absl::StatusOr<void*> address = AllocateFromPool(bytes, *stream);
  if (!address.ok()) [[unlikely]]
    return WithHelp(address.status(), bytes);
  return address;
}

absl::StatusOr<void*> DeviceManager::AllocateFromPool(std::size_t bytes, Stream stream) {
  if (settings_.wait == absl::ZeroDuration()) return pool_->Allocate(bytes, stream);
  return pool_->AllocateBlocking(bytes, stream, Hint::kResident, absl::Now() + settings_.wait);
}

// Replaces the pool's out-of-memory text, which uses terms of the pool, by CNMeM's terms.
absl::Status DeviceManager::WithHelp(const absl::Status& status, std::size_t bytes) const {
  const bool has_waited = absl::IsDeadlineExceeded(status);
  if (!settings_.errors || (!has_waited && !absl::IsResourceExhausted(status))) return status;
  bindings::Shortage shortage;
  shortage.bytes = bytes;
  shortage.device = absl::StrCat("device ", device_->ordinal());
  shortage.raise = Raise(limit_);
  if (!settings_.remaps) shortage.remap = "set TIDEPOOL_CNMEM_REMAP=1";
  shortage.wait = "TIDEPOOL_CNMEM_WAIT";
  shortage.owner = "CUDA";
  if (has_waited) shortage.waited = settings_.wait;
  shortage.device_free_bytes = device_->FreeBytes().value_or(0);
  shortage.stats = pool_->Stats();
  return absl::Status(status.code(), bindings::OutOfMemoryText(shortage));
}

absl::Status DeviceManager::Free(void* address, cudaStream_t native) {
  StreamManager* const manager = Find(native);
  if (manager == nullptr) return UnknownStream(native);
  const absl::StatusOr<Stream> stream = NameOf(*manager);
  if (!stream.ok()) return stream.status();
  Pool* const pool = PoolOf(address, *manager);
  if (pool == nullptr)
    return absl::InvalidArgumentError("the address was not allocated, expected a live allocation");
  absl::Status status = pool->FreeOwn(address, *stream);
  if (status.ok()) [[likely]]
    return status;
  if (!absl::IsFailedPrecondition(status) && !absl::IsNotFound(status)) return status;
  return FreeForOther(*pool, address, *manager);
}

// Returns the pool that may hold an address which the stream may free, or null.
Pool* DeviceManager::PoolOf(const void* address, StreamManager& manager) {
  if (manager.reserve != nullptr && manager.reserve->Contains(address)) {
    return &manager.reserve->pool();
  }
  if (&manager != default_.get()) return pool_.get();
  for (Reserve* const reserve : reserves_) {
    if (reserve->Contains(address)) return &reserve->pool();
  }
  return pool_.get();
}

// Frees memory that was not allocated on the stream's current name. The default stream may free
// memory of every stream. A handle may free memory of the destroyed stream, or of the other thread,
// that had the same handle. The memory is kept until the work of both streams is done.
absl::Status DeviceManager::FreeForOther(Pool& pool, void* address, StreamManager& manager) {
  const absl::StatusOr<Stream> owner = pool.AllocatedOn(address);
  if (!owner.ok()) return owner.status();
  if (&manager != default_.get() && !manager.WasNamed(*owner)) {
    return absl::InvalidArgumentError(
        "the allocation belongs to another stream: free it on that stream or on NULL");
  }
  absl::Status status = pool.RecordUse(address, *owner);
  // NotFound: the device was synchronized when it found that the stream is gone.
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  const absl::StatusOr<Stream> stream = NameOf(manager);
  if (stream.ok() && device_->HasStream(*stream)) return pool.Free(address, *stream);
  return pool.Free(address, default_->name());
}

std::vector<StreamManager*> DeviceManager::Managers() const {
  const locks::MutexLock lock(&mutex_);
  std::vector<StreamManager*> managers;
  for (const auto& manager : managers_) managers.push_back(manager.get());
  return managers;
}

absl::StatusOr<MemoryState> DeviceManager::State(cudaStream_t native) const {
  const StreamManager* const asked = Find(native);
  if (asked == nullptr) return UnknownStream(native);
  StateOfDevice state(device_->ordinal(), Managers());
  if (pool_ != nullptr) state.AddPool(pool_->Snapshot());
  for (StreamManager* const manager : Managers()) {
    if (manager->reserve != nullptr)
      state.AddReserve(*manager, manager->reserve->pool().Snapshot());
  }
  // Granules taken beyond the requested size are an internal matter and do not count.
  const std::int64_t grown = state.pool_bytes() - initially_held_bytes_;
  return state.StateFor(*asked, std::max<std::int64_t>(0, initial_bytes_ + grown), max_bytes_);
}

absl::Status DeviceManager::FreeAll(Pool& pool, Stream stream) {
  absl::Status first;
  for (const PoolBlock& block : pool.Snapshot()) {
    if (block.used) first.Update(pool.Free(block.address, stream));
  }
  return first;
}

bool DeviceManager::WasReset() const {
  return bindings::WasDeviceReset(pool_ != nullptr ? *pool_ : reserves_.front()->pool());
}

absl::Status DeviceManager::Close() {
  is_closed_ = true;
  Report();
  // CNMeM's programs may end with live memory; the pool would print a warning about it.
  if (pool_ != nullptr) FreeAll(*pool_, default_->name()).IgnoreError();
  for (StreamManager* const manager : Managers()) {
    if (manager->reserve != nullptr) {
      FreeAll(manager->reserve->pool(), default_->name()).IgnoreError();
    }
  }
  // The program may have destroyed the streams already.
  absl::Status status = device_->ForgetWrappedStreams();
  if (!status.ok()) status = device_->ForgetWrappedStreams();
  pool_.reset();
  for (StreamManager* const manager : Managers()) manager->reserve.reset();
  if (status.ok() && device_->used_bytes() > 0) {
    status =
        absl::InternalError(absl::StrCat("CUDA failed to free ", device_->used_bytes(), " bytes"));
  }
  recorder_.reset();
  device_.reset();
  return status;
}

void DeviceManager::Report() const {
  if (recorder_ != nullptr) {
    if (absl::Status status = recorder_->Flush(); !status.ok()) {
      Log(LogLevel::kError, absl::StrCat("the trace is incomplete: ", status.message()));
    }
  }
  if (!settings_.statistics) return;
  if (pool_ != nullptr)
    Log(LogLevel::kInfo, bindings::StatisticsText(
                             absl::StrCat("cnmem on device ", device_->ordinal()), pool_->Stats()));
  for (const StreamManager* manager : Managers()) {
    if (manager->reserve == nullptr) continue;
    const std::string of =
        absl::StrCat("cnmem on device ", device_->ordinal(), ", reserved for stream 0x",
                     absl::Hex(reinterpret_cast<std::uintptr_t>(manager->native())));
    Log(LogLevel::kInfo, bindings::StatisticsText(of, manager->reserve->pool().Stats()));
  }
}

}  // namespace tidepool::cnmem
