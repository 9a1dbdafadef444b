// SPDX-License-Identifier: Apache-2.0
// Every call locks the books, works in the parts, and serves waiters whenever it may have made
// room.
#include "lib/memory/pool/pool_impl.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/pool/out_of_memory.h"
#include "lib/memory/pool/segment_blocks.h"

namespace tidepool::pool {

namespace {

Range RangeOf(const blocks::BlockMap& blocks, BlockId block) {
  return {blocks.offset(block), blocks.offset(block) + blocks.bytes(block)};
}

std::string BytesAt(const void* address, std::int64_t bytes) {
  return absl::StrCat(text::ExactSize(bytes), " at 0x",
                      absl::Hex(reinterpret_cast<std::uintptr_t>(address)));
}

absl::Status NotFreed(const absl::Status& cause) {
  return absl::Status(cause.code(),
                      absl::StrCat("the allocation was not freed: ", cause.message()));
}

std::size_t MostBytesOf(const PoolOptions& options) {
  return static_cast<std::size_t>(std::min(options.max_bytes, kMaxRequestBytes));
}

PoolOptions WithObserver(PoolOptions options, PoolObserver* observer) {
  options.recorder = observer;
  return options;
}

}  // namespace

PoolImpl::PoolImpl(Device& device, const PoolOptions& options, PoolPolicy policy)
    : observer_(options.recorder == nullptr ? nullptr
                                            : std::make_unique<SharedObserver>(*options.recorder)),
      options_(WithObserver(options, observer_.get())),
      own_store_(std::make_unique<PhysicalStore>(device)),
      most_bytes_(MostBytesOf(options_)),
      arena_(device, options_, std::move(policy.policy),
             MemorySource::AddressBytes(options_, device)),
      observers_(options_, policy.planned),
      memory_(MemorySource::Create(device, options_, arena_, *own_store_)),
      own_room_(std::make_unique<SharedRoom>(*own_store_, options_.max_bytes, *this)),
      own_regions_(std::make_unique<PoolRegions>(device, options_, *own_store_, *own_room_, *this)),
      room_(*own_room_) {}

PoolImpl::PoolImpl(Device& device, const PoolOptions& options, PoolPolicy policy,
                   const Place& place)
    : options_(options),
      tag_(place.tag),
      most_bytes_(MostBytesOf(options_)),
      arena_(device, options_, std::move(policy.policy),
             MemorySource::AddressBytes(options_, device)),
      observers_(options_, policy.planned),
      memory_(MemorySource::Create(device, options_, arena_, place.store)),
      room_(place.untagged.room_) {}

// No other thread calls the pool any more.
PoolImpl::~PoolImpl() {
  if (arena_.live_count() > 0) ReportLiveOf(arena_);
  if (absl::Status status = arena_.hand_over().order().SynchronizeAll(); !status.ok()) {
    ReportAbandoned(status);
    memory_->Abandon();
  }
}

absl::Status PoolImpl::Start() {
  if (own_store_ != nullptr && !options_.shared_budget.empty()) {
    absl::Status status = own_store_->Share(options_.shared_budget, options_.max_bytes);
    if (!status.ok()) return status;
  }
  const BackoffLock lock(locks_.books);
  return memory_->Start(locks_);
}

inline void* PoolImpl::Observe(BlockId block, const Request& request, std::int64_t asked_bytes,
                               const StreamClock& clock) {
  void* const address = arena_.AddressOf(block);
  const std::int64_t live_bytes = arena_.blocks().live_bytes() - request.bytes;
  observers_.OnAllocate({address, asked_bytes, request, block, live_bytes}, clock);
  return address;
}

inline absl::StatusOr<void*> PoolImpl::TryAllocate(const WantedMemory& wanted, Placement grown) {
  const absl::StatusOr<StreamClock*> clock = arena_.hand_over().FindClock(wanted.stream);
  if (!clock.ok()) return clock.status();
  const Request request{arena_.Rounded(wanted.bytes), wanted.hint};
  const Placement placement = grown.block != kNoBlock ? grown : arena_.Choose(request, **clock);
  if (placement.block == kNoBlock) return nullptr;
  const absl::StatusOr<bool> is_after_others =
      arena_.Order(placement, request.bytes, **clock, observers_);
  if (!is_after_others.ok()) return is_after_others.status();
  const BlockId block = arena_.Take(placement, request.bytes, **clock, *is_after_others);
  return Observe(block, request, wanted.bytes, **clock);
}

inline void PoolImpl::AlertWaiters() {
  if (!room_.HasWaiters() || !room_.HasRegions()) [[likely]]
    return;
  CountRoomChange();
  locks_.WithoutBooks([this] { room_.AlertWaiters(); });
}

inline void PoolImpl::ServeWaiting() {
  ServeFromFree();
  AlertWaiters();
}

inline absl::Status PoolImpl::FreeLive(void* address, StreamClock& clock) {
  if (const BlockId block = registrations_.empty() ? kNoBlock : arena_.Find(address);
      block != kNoBlock) [[unlikely]] {
    absl::Status status = CheckUnregistered(RangeOf(arena_.blocks(), block));
    if (!status.ok()) return NotFreed(status);
  }
  if (!arena_.Free(address, clock, observers_)) [[unlikely]] {
    Pool* const region = RegionOf(address);
    if (region == nullptr) return NotLive(address);
    const Stream stream = clock.stream;
    return locks_.WithoutBooks([&] { return region->Free(address, stream); });
  }
  observers_.OnFreed(address, clock);
  ServeWaiting();
  return absl::OkStatus();
}

absl::StatusOr<void*> PoolImpl::Allocate(std::size_t bytes, Stream stream, Hint hint) {
  if (bytes == 0) return nullptr;
  const BackoffLock lock(locks_.books);
  if (bytes > MostBytes() || queue_.IsClosed()) [[unlikely]]
    return RefuseAtOnce(bytes, hint, stream);
  const WantedMemory wanted{static_cast<std::int64_t>(bytes), hint, stream};
  absl::StatusOr<void*> address = AllocateOrGrow(wanted, nullptr);
  if (address.ok() && *address == nullptr) [[unlikely]]
    address = AllocateOrRefuse(wanted);
  if (!address.ok()) [[unlikely]]
    return address;
  if (!queue_.empty()) [[unlikely]] {
    queue_.CountOvertake();
    ServeWaiting();  // the pool may have grown
  }
  return address;
}

// All waiters of a pool with regions look for memory in such calls, one at a time. None can miss
// memory that another one holds for a moment. So this alerts no waiters, as AllocateOrGrow has to.
absl::StatusOr<void*> PoolImpl::AllocateAgain(const WantedMemory& wanted, const Waiter* waiter) {
  if (memory_->is_asleep() && waiter == nullptr) return Asleep();
  if (memory_->is_asleep()) return nullptr;
  const std::int64_t held = memory_->held_bytes();
  absl::StatusOr<void*> address = GrowAndAllocate(wanted, waiter);
  const bool is_served = address.ok() && *address != nullptr;
  if (!is_served && memory_->held_bytes() != held) ServeFromFree();  // others may have room now
  return address;
}

absl::StatusOr<void*> PoolImpl::AllocateFromOthers(const WantedMemory& wanted, Waiter* waiter) {
  absl::StatusOr<void*> address = nullptr;
  if (!room_.HasRegions()) return address;
  const auto take = [&] {
    const BackoffLock lock(locks_.books);
    if (waiter != nullptr && Defers(*waiter)) return true;
    address = AllocateAgain(wanted, waiter);
    return !address.ok() || *address != nullptr;
  };
  const absl::Status waited = locks_.WithoutBooks([&] { return room_.TakeRoom(*this, take); });
  if (!waited.ok() && address.ok()) return waited;
  return address;
}

absl::StatusOr<void*> PoolImpl::AllocateOrRefuse(const WantedMemory& wanted) {
  absl::StatusOr<void*> address = AllocateFromOthers(wanted, nullptr);
  OutOfMemoryRequest request{static_cast<std::size_t>(wanted.bytes), wanted.stream, wanted.hint, 0,
                             tag_};
  while (address.ok() && *address == nullptr && CallOutOfMemoryFunction(request)) {
    if (memory_->is_asleep()) return Asleep();
    address = AllocateOrGrow(wanted, nullptr);
    // The function may have made room in another pool of the budget.
    if (address.ok() && *address == nullptr) address = AllocateFromOthers(wanted, nullptr);
  }
  if (!address.ok() || *address != nullptr) return address;
  TellWanted(wanted.bytes, false);
  return Refuse(request.bytes, wanted.hint, wanted.stream);
}

bool PoolImpl::CallOutOfMemoryFunction(OutOfMemoryRequest& request) {
  if (!options_.on_out_of_memory || request.attempt == kMostOutOfMemoryCalls) return false;
  ++request.attempt;
  return locks_.WithoutBooks([&] { return options_.on_out_of_memory(request); });
}

absl::StatusOr<void*> PoolImpl::AllocateFromFree(std::int64_t bytes, Stream stream, Hint hint) {
  const BackoffLock lock(locks_.books);
  if (queue_.IsClosed() || observers_.BeginsIteration()) return nullptr;
  absl::StatusOr<void*> address = TryAllocate({bytes, hint, stream});
  if (!queue_.empty() && address.ok() && *address != nullptr) [[unlikely]]
    queue_.CountOvertake();
  return address;
}

absl::StatusOr<void*> PoolImpl::AllocateWithoutWait(std::size_t bytes, Stream stream, Hint hint) {
  const BackoffLock lock(locks_.books);
  absl::Status known = arena_.hand_over().FindClock(stream).status();
  if (!known.ok()) return known;
  if (bytes > MostBytes()) return RefuseAtOnce(bytes, hint, stream);
  if (!queue_.empty() || observers_.BeginsIteration()) return nullptr;
  return TryAllocate({static_cast<std::int64_t>(bytes), hint, stream});
}

absl::StatusOr<void*> PoolImpl::AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                                 absl::Time deadline, std::stop_token stop,
                                                 int priority) {
  if (bytes == 0) return nullptr;
  absl::StatusOr<void*> served = AllocateWithoutWait(bytes, stream, hint);
  if (!served.ok() || *served != nullptr) return served;
  const SharedRoom::Wait wait(room_);
  const BackoffLock lock(locks_.books);
  Waiter waiter({static_cast<std::int64_t>(bytes), hint, stream}, priority);
  Others others;
  const auto look = [&] { return locks_.books.AssertHeld(), Look(waiter, others); };
  const auto asks = [&] { return locks_.books.AssertHeld(), AskOthers(others); };
  WaitingCalls calls = {.request = {bytes, stream, hint, 0, tag_}};
  std::uint64_t told = 0;
  const auto make_room = [&](bool is_last) {
    locks_.books.AssertHeld();
    if (told == 0 && !is_last) told = TellWanted(waiter.wanted.bytes, true);
    AlertDeferred(priority);
    WakeNext();
    return !stop.stop_requested() && CallOutOfMemoryFunctionFor(waiter, calls, is_last);
  };
  const auto sleeps = [&, has_slept = false]() mutable {
    locks_.books.AssertHeld();
    blocked_ += std::exchange(has_slept, true) ? 0 : 1;
    return LacksRoom(waiter) ? calls.next : locks::SteadyTime::max();
  };
  waiters_.fetch_add(1);
  auto address = queue_.Wait(waiter, {locks::ToSteady(deadline), stop}, locks_.books, look,
                             make_room, sleeps, asks);
  waiters_.fetch_sub(1);
  if (told != 0) EndWanted(told);
  if (!address.has_value() && waiter.IsRefused()) address = Refuse(bytes, hint, stream);
  EndDeferral(waiter);
  AlertDeferred(priority);
  ServeFromFree();  // the pool may have grown, or the queue be open again
  if (waiter.IsExhausted()) AlertWaiters();
  WakeNext();
  if (address.has_value()) return *std::move(address);
  if (stop.stop_requested()) return WaitStopped(waiter.wanted.bytes);
  TellWanted(waiter.wanted.bytes, false);
  Refuse(bytes, hint, stream).IgnoreError();
  return DeadlinePassed(waiter.wanted.bytes, StatsLocked(),
                        room_.IsShared() ? memory_->growth_error() : std::string_view());
}

absl::StatusOr<void*> PoolImpl::AllocateOrGrow(const WantedMemory& wanted, const Waiter* waiter) {
  if (!observers_.BeginsIteration() && queue_.MayServe(waiter)) [[likely]] {
    absl::StatusOr<void*> address = TryAllocate(wanted);
    if (!address.ok() || *address != nullptr) [[likely]]
      return address;
  }
  const std::int64_t held = memory_->held_bytes();
  room_.BeginGrowth();
  absl::StatusOr<void*> address = GrowAndAllocate(wanted, waiter);
  const bool is_served = address.ok() && *address != nullptr;
  if (!is_served) CountRoomChange();
  room_.EndGrowth();
  if (is_served) return address;
  if (memory_->held_bytes() != held) ServeFromFree();  // others may have room now
  AlertWaiters();
  return address;
}

absl::StatusOr<void*> PoolImpl::GrowAndAllocate(const WantedMemory& wanted, const Waiter* waiter) {
  if (observers_.BeginsIteration()) BeginIteration();
  if (!queue_.MayServe(waiter)) return nullptr;
  absl::StatusOr<void*> address = TryAllocate(wanted);
  if (!address.ok() || *address != nullptr) return address;
  const Request request{arena_.Rounded(wanted.bytes), wanted.hint};
  const absl::StatusOr<Placement> grown = memory_->Grow(request, wanted.stream, locks_);
  if (!grown.ok()) return grown.status();
  // The region may have been paused without the books. A request that waits goes on to wait.
  if (memory_->is_asleep() && waiter == nullptr) return Asleep();
  if (memory_->is_asleep() || grown->block == kNoBlock || !queue_.MayServe(waiter)) return nullptr;
  return TryAllocate(wanted, *grown);
}

absl::Status PoolImpl::Free(void* address, Stream stream) {
  if (address == nullptr) return absl::OkStatus();
  const BackoffLock lock(locks_.books);
  const absl::StatusOr<StreamClock*> clock = arena_.hand_over().FindClock(stream);
  if (!clock.ok()) [[unlikely]]
    return clock.status();
  return FreeLive(address, **clock);
}

absl::Status PoolImpl::FreeOwn(void* address, Stream stream) {
  if (address == nullptr) return absl::OkStatus();
  const BackoffLock lock(locks_.books);
  const absl::StatusOr<StreamClock*> clock = arena_.hand_over().FindClock(stream);
  if (!clock.ok()) return clock.status();
  const BlockId block = arena_.Find(address);
  if (Pool* const region = block == kNoBlock ? RegionOf(address) : nullptr; region != nullptr) {
    return locks_.WithoutBooks([&] { return region->FreeOwn(address, stream); });
  }
  absl::Status status = arena_.hand_over().CheckOwner(block, stream);
  if (!status.ok()) return status;
  return FreeLive(address, **clock);
}

void PoolImpl::FreeCached(absl::Span<void* const> addresses, Stream stream) {
  const BackoffLock lock(locks_.books);
  StreamClock* const clock = arena_.hand_over().order().Known(stream);
  for (const void* address : addresses) arena_.FreeCached(address, clock);
  ServeWaiting();
}

void PoolImpl::ReserveSplits(std::int64_t splits) {
  const BackoffLock lock(locks_.books);
  arena_.blocks().ReserveNames(splits);
}

void PoolImpl::Split(const void* address, std::int64_t bytes) {
  const BackoffLock lock(locks_.books);
  arena_.Split(address, bytes);
}

absl::StatusOr<Stream> PoolImpl::AllocatedOn(const void* address) {
  const BackoffLock lock(locks_.books);
  const BlockId block = arena_.Find(address);
  if (block == kNoBlock) {
    Pool* const region = RegionOf(address);
    if (region == nullptr) return NotLive(address);
    return locks_.WithoutBooks([&] { return region->AllocatedOn(address); });
  }
  return arena_.hand_over().AllocatedOn(block);
}

absl::Status PoolImpl::RecordWork() {
  const BackoffLock lock(locks_.books);
  return arena_.hand_over().RecordWork();
}

absl::Status PoolImpl::RecordUse(void* address, Stream stream) {
  if (address == nullptr) return absl::OkStatus();
  const BackoffLock lock(locks_.books);
  absl::Status known = arena_.hand_over().FindClock(stream).status();
  if (!known.ok()) return known;
  const BlockId block = arena_.Find(address);
  if (block == kNoBlock) {
    Pool* const region = RegionOf(address);
    if (region == nullptr) return NotLive(address);
    return locks_.WithoutBooks([&] { return region->RecordUse(address, stream); });
  }
  arena_.hand_over().AddUse(block, stream);
  return absl::OkStatus();
}

absl::Status PoolImpl::NotLive(const void* address) const {
  return NotLiveError(address, arena_.addresses(), arena_.blocks(), kPoolWords);
}

absl::StatusOr<std::int64_t> PoolImpl::Trim(std::int64_t keep_bytes) {
  const BackoffLock lock(locks_.books);
  absl::StatusOr<std::int64_t> given_back =
      memory_->Trim(keep_bytes, {}, Receiver::kDevice, locks_);
  ServeWaiting();  // growth can have the memory that the device has again
  if (!given_back.ok() || own_regions_ == nullptr) return given_back;
  const absl::StatusOr<std::int64_t> lent =
      locks_.WithoutBooks([this] { return own_regions_->GiveBack(); });
  if (!lent.ok()) return lent.status();
  return *given_back + *lent;
}

std::int64_t PoolImpl::TakeWantedByOthers() {
  sharing::SharedBudget* const budget = own_store_ == nullptr ? nullptr : own_store_->shared();
  return budget == nullptr ? 0 : budget->TakeWanted();
}

absl::StatusOr<std::int64_t> PoolImpl::LendUnused(std::int64_t keep_bytes) {
  const BackoffLock lock(locks_.books);
  return memory_->Trim(keep_bytes, {}, Receiver::kTakers, locks_);
}

void PoolImpl::Mark(std::string_view name) {
  const BackoffLock lock(locks_.books);
  arena_.arena().Mark(name);
  observers_.OnMark(name);
}

void PoolImpl::MarkIteration() {
  const BackoffLock lock(locks_.books);
  if (observers_.MarkIteration()) BeginIteration();
  ServeWaiting();  // there may be more memory
}

void PoolImpl::BeginIteration() {
  const PlanNeeds needs = observers_.BeginIteration(arena_.blocks(), memory_->exclusions_stay());
  // Without an answer of the device the memory stays.
  if (memory_->held_bytes() > needs.most_bytes) {
    memory_->Trim(options_.initial_bytes, needs.range, Receiver::kDevice, locks_).IgnoreError();
  }
  memory_->Provide(needs.range, locks_);
}

// Waits without the lock.
void PoolImpl::AwaitPlans() ABSL_NO_THREAD_SAFETY_ANALYSIS { observers_.AwaitPlans(); }

// The function may come to have room without a call of the pool. So it is called again, after as
// long as the request has waited: few times in any case.
bool PoolImpl::CallOutOfMemoryFunctionFor(const Waiter& waiter, WaitingCalls& calls, bool is_last) {
  constexpr std::chrono::milliseconds kFirst(10);
  if (!LacksRoom(waiter) || (!is_last && locks::SteadyNow() < calls.next)) return false;
  if (CallOutOfMemoryFunction(calls.request)) return true;
  const locks::SteadyTime now = locks::SteadyNow();
  const bool may_call = calls.request.attempt < kMostOutOfMemoryCalls;
  const locks::SteadyTime::duration pause =
      std::max<locks::SteadyTime::duration>(kFirst, now - calls.begin);
  calls.next = may_call ? now + pause : locks::SteadyTime::max();
  return false;
}

// Called by the waiter's own thread. The request is hopeless when there was nothing to be freed
// before it looked, and nothing was freed meanwhile: each free alerts the waiter in the end.
absl::StatusOr<void*> PoolImpl::Look(Waiter& waiter, Others& others) {
  if (memory_->is_asleep()) return nullptr;
  const std::uint64_t frees = OtherRoomChanges();
  others = ReadOthers();
  const bool had_live = MayFindRoom(waiter.wanted, others);
  absl::StatusOr<void*> address = nullptr;
  if (!room_.HasRegions()) address = AllocateOrGrow(waiter.wanted, &waiter);
  if (address.ok() && *address == nullptr) address = AllocateFromOthers(waiter.wanted, &waiter);
  const bool has_room = !address.ok() || *address != nullptr;
  if (has_room || had_live || waiter.is_deferred) return address;
  const Others now = ReadOthers();
  const bool has_live = MayFindRoom(waiter.wanted, now) || OtherRoomChanges() != frees ||
                        now.changes != others.changes;
  waiter.is_hopeless = queue_.IsHopeless(waiter, has_live);
  return address;
}

// It counts as deferred before it asks, so the other one sees it or has looked.
bool PoolImpl::Defers(Waiter& waiter) {
  if (!std::exchange(waiter.is_deferred, true)) room_.BeginDeferral();
  const bool defers =
      locks_.WithoutBooks([&] { return room_.HasAlertedWaiterAbove(waiter.priority); });
  if (!defers) EndDeferral(waiter);
  return defers;
}

void PoolImpl::EndDeferral(Waiter& waiter) {
  if (std::exchange(waiter.is_deferred, false)) room_.EndDeferral();
}

void PoolImpl::AlertDeferred(int priority) {
  if (!room_.HasDeferred()) return;
  locks_.WithoutBooks([&] { room_.AlertWaitersBelow(priority); });
}

void PoolImpl::WakeNext() {
  if (!room_.HasRegions() || !room_.HasSeveralWaiters()) return;
  locks_.WithoutBooks([&] { room_.WakeNext(); });
}

bool PoolImpl::MayFindRoom(const WantedMemory& wanted, const Others& others) {
  if (arena_.live_count() > 0) return true;
  if (!room_.HasRegions()) return others.hold_memory;
  if (wanted.bytes > taker().most_bytes()) return false;
  return others.hold_memory || locks_.WithoutBooks([this] { return room_.MayFree(*this); });
}

PoolImpl::Others PoolImpl::ReadOthers() {
  if (!room_.IsShared()) return {};
  return locks_.WithoutBooks([this] { return room_.shared()->ReadOthers(); });
}

std::uint64_t PoolImpl::TellWanted(std::int64_t bytes, bool is_waiting) {
  if (!room_.IsShared() || (room_.HasRegions() && taker().is_full())) return 0;
  return locks_.WithoutBooks([&] { return room_.shared()->TellWanted(bytes, is_waiting); });
}

void PoolImpl::EndWanted(std::uint64_t number) {
  locks_.WithoutBooks([&] { room_.shared()->EndWanted(number); });
}

// No thread waits for a change of the file: the file lock of a process that died ends without one.
locks::SteadyTime PoolImpl::AskOthers(Others& others) {
  constexpr std::chrono::milliseconds kPause(10);
  const Others now = ReadOthers();
  if (std::exchange(others, now).changes != now.changes) ServeWaiting();
  return now.hold_memory ? locks::SteadyNow() + kPause : locks::SteadyTime::max();
}

// Called whenever a waiter may find room that it did not find before.
void PoolImpl::ServeFromFree() {
  if (queue_.empty()) [[likely]]
    return;
  constexpr std::int64_t kNoSize = std::numeric_limits<std::int64_t>::max();
  std::array too_large = {kNoSize, kNoSize};  // by hint
  queue_.ServeAll([&](Waiter& waiter) {
    locks_.books.AssertHeld();
    Serve(waiter, too_large[waiter.wanted.hint == Hint::kResident ? 0 : 1]);
  });
}

// Serves a waiter from free blocks. Growth may wait for the device, and is left to the waiter's own
// thread. With regions AlertWaiters alerts it; here that is done for a waiter alone that no free of
// its region can serve any more, and that may have no more memory (LimitRegion).
void PoolImpl::Serve(Waiter& waiter, std::int64_t& too_large) {
  if (memory_->is_asleep()) return;
  if (observers_.BeginsIteration()) return waiter.AlertAndWake();
  const std::int64_t bytes = arena_.Rounded(waiter.wanted.bytes);
  absl::StatusOr<void*> address = nullptr;
  if (bytes < too_large) address = TryAllocate(waiter.wanted);
  if (!address.ok() || *address != nullptr) {
    waiter.result = std::move(address);
    return;
  }
  too_large = std::min(too_large, bytes);
  const bool has_live = arena_.live_count() > 0;
  const bool must_look = room_.HasRegions()
                             ? !has_live && waiter.wanted.bytes > taker().most_bytes()
                             : !has_live || memory_->MayGrow(bytes);
  if (must_look) waiter.AlertAndWake();
}

absl::Status PoolImpl::Refuse(std::size_t bytes, Hint hint, Stream stream) {
  ++failures_;
  observers_.OnRefusal(bytes, hint, stream);
  return OutOfMemory(bytes, StatsLocked(), memory_->growth_error(), kPoolWords);
}

// Refuses a request that is too large, or that comes while the queue is closed.
absl::Status PoolImpl::RefuseAtOnce(std::size_t bytes, Hint hint, Stream stream) {
  absl::Status known = arena_.hand_over().FindClock(stream).status();
  if (!known.ok()) return known;
  if (memory_->is_asleep()) return Asleep();
  absl::Status refusal = Refuse(bytes, hint, stream);
  return bytes > MostBytes() ? refusal : QueueClosed(kPoolWords);
}

PoolStats PoolImpl::Stats() const {
  const BackoffLock lock(locks_.books);
  return StatsLocked();
}

void PoolImpl::ResetPeaks() {
  const BackoffLock lock(locks_.books);
  arena_.arena().ResetPeak();
  memory_->ResetPeak();
  if (has_virtual_budget()) own_store_->ResetPeak();
}

PoolStats PoolImpl::StatsLocked() const {
  PoolStats stats = StatsOf(arena_);
  stats.max_bytes = options_.max_bytes;
  stats.failures = failures_;
  stats.blocked = blocked_;
  memory_->AddCounts(stats);
  if (has_virtual_budget()) stats.peak_budget_bytes = own_store_->peak_bytes();
  observers_.AddCounts(stats);
  return stats;
}

std::vector<PoolBlock> PoolImpl::Snapshot() const {
  const BackoffLock lock(locks_.books);
  return BlocksOf(arena_);
}

absl::StatusOr<Pool*> PoolImpl::Region(std::string_view tag) {
  return own_regions_ == nullptr ? HasNoRegions() : own_regions_->Get(tag);
}

absl::Status PoolImpl::PauseRegions(std::span<RegionPause> pauses, Stream stream) {
  return own_regions_ == nullptr ? HasNoRegions() : own_regions_->Pause(pauses, stream);
}

absl::Status PoolImpl::ResumeRegions(std::span<const std::string_view> tags, Stream stream) {
  return own_regions_ == nullptr ? HasNoRegions() : own_regions_->Resume(tags, stream);
}

absl::Status PoolImpl::DiscardContents(std::string_view tag) {
  return own_regions_ == nullptr ? HasNoRegions() : own_regions_->Discard(tag);
}

absl::Status PoolImpl::AwaitContents(const void* address, std::int64_t bytes, Stream stream) {
  return own_regions_ == nullptr ? HasNoRegions()
                                 : own_regions_->AwaitContents(address, bytes, stream);
}

absl::Status PoolImpl::LimitRegion(std::string_view tag, std::int64_t least_bytes,
                                   std::int64_t most_bytes) {
  return own_regions_ == nullptr ? HasNoRegions()
                                 : own_regions_->Limit(tag, least_bytes, most_bytes);
}

absl::Status PoolImpl::BeginRegistration(const void* address, std::int64_t bytes) {
  return own_regions_ == nullptr ? HasNoRegions() : own_regions_->Register(address, bytes);
}

absl::Status PoolImpl::EndRegistration(const void* address, std::int64_t bytes) {
  return own_regions_ == nullptr ? HasNoRegions() : own_regions_->Unregister(address, bytes);
}

std::vector<RegionStats> PoolImpl::RegionStatistics() const {
  return own_regions_ == nullptr ? std::vector<RegionStats>() : own_regions_->Stats();
}

absl::Status PoolImpl::HasNoRegions() const {
  return absl::InvalidArgumentError(absl::StrCat(
      "the pool is the region \"", absl::CHexEscape(tag_), "\", expected the pool that made it"));
}

absl::Status PoolImpl::Asleep() const {
  return absl::FailedPreconditionError(absl::StrCat(
      "region \"", absl::CHexEscape(tag_), "\" sleeps: resume it before you allocate in it"));
}

absl::Status PoolImpl::Register(const void* address, std::int64_t bytes) {
  const BackoffLock lock(locks_.books);
  if (memory_->is_asleep()) {
    return absl::FailedPreconditionError(
        absl::StrCat("region \"", absl::CHexEscape(tag_),
                     "\" sleeps: resume it before you register its memory"));
  }
  const blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = arena_.addresses().OffsetOf(address);
  const BlockId block = begin < 0 || begin >= blocks.capacity() ? kNoBlock : BlockAt(blocks, begin);
  if (block == kNoBlock || !blocks.used(block) || blocks.excluded(block) ||
      bytes > RangeOf(blocks, block).end - begin) {
    return absl::InvalidArgumentError(absl::StrCat(BytesAt(address, bytes),
                                                   " are not in one live allocation, expected "
                                                   "memory of an allocation that was not freed"));
  }
  registrations_.Begin(begin, bytes);
  return absl::OkStatus();
}

absl::Status PoolImpl::Unregister(const void* address, std::int64_t bytes) {
  const BackoffLock lock(locks_.books);
  const std::int64_t begin = arena_.addresses().OffsetOf(address);
  if (registrations_.End(begin, bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      BytesAt(address, bytes), " are not registered, expected bytes of BeginRegistration"));
}

absl::Status PoolImpl::CheckUnregistered(const Range& range) const {
  const std::optional<Range> registered = registrations_.FirstIn(range);
  if (!registered.has_value()) return absl::OkStatus();
  const char* const address = arena_.addresses().AddressOf(registered->begin);
  return absl::FailedPreconditionError(absl::StrCat(
      BytesAt(address, registered->bytes()), " of region \"", absl::CHexEscape(tag_),
      "\" are registered by others (NCCL, RDMA, IPC), which reach the memory itself: deregister "
      "them there, and end the registration here"));
}

absl::StatusOr<std::int64_t> PoolImpl::BeginSleep() {
  const BackoffLock lock(locks_.books);
  const GiveBackLock giving_back(locks_);
  const MemoryLock memory(locks_);
  if (absl::Status status = CheckUnregistered({0, arena_.blocks().capacity()}); !status.ok()) {
    return status;
  }
  memory_->SetAsleep(true);
  most_bytes_.store(0, std::memory_order_relaxed);
  if (absl::Status status = memory_->AwaitMoves(locks_); !status.ok()) {
    memory_->SetAsleep(false);
    most_bytes_.store(MostBytesOf(options_), std::memory_order_relaxed);
    ServeWaiting();
    return status;
  }
  return arena_.blocks().live_bytes();
}

void PoolImpl::EndSleep() {
  const BackoffLock lock(locks_.books);
  const MemoryLock memory(locks_);
  memory_->backing()->ForgetLost();
  memory_->SetAsleep(false);
  most_bytes_.store(MostBytesOf(options_), std::memory_order_relaxed);
  ServeWaiting();
}

PhysicalStore::Taking PoolImpl::BeginTakingBack() {
  const BackoffLock lock(locks_.books);
  const MemoryLock memory(locks_);
  memory_->ExcludeGone(locks_);
  return locks_.WithoutBooks([backing = memory_->backing()] { return backing->BeginTakingBack(); });
}

std::vector<Range> PoolImpl::LostPieces() const {
  const locks::MutexLock memory(&locks_.memory);
  const BackoffLock lock(locks_.books);
  return memory_->backing()->LostPieces();
}

absl::Status PoolImpl::CopyLive(const std::vector<Range>& parts, Stream stream,
                                const std::function<absl::Status(const Range&)>& copy) {
  const BackoffLock lock(locks_.books);
  absl::Status known = arena_.hand_over().FindClock(stream).status();
  if (!known.ok()) return known;
  for (const Range& range : TakeLiveIn(parts, stream)) {
    if (absl::Status status = copy(range); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Live neighbours are one range.
std::vector<Range> PoolImpl::TakeLiveIn(const std::vector<Range>& parts, Stream user) {
  const blocks::BlockMap& blocks = arena_.blocks();
  std::vector<Range> live;
  auto part = parts.begin();
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (!blocks.used(id) || blocks.excluded(id)) continue;
    const Range block = RangeOf(blocks, id);
    while (part != parts.end() && part->end <= block.begin) ++part;
    bool is_used = false;
    for (auto over = part; over != parts.end() && over->begin < block.end; ++over) {
      const Range common = {std::max(block.begin, over->begin), std::min(block.end, over->end)};
      if (!live.empty() && live.back().end == common.begin) {
        live.back().end = common.end;
      } else {
        live.push_back(common);
      }
      is_used = true;
    }
    if (is_used) arena_.hand_over().AddUse(id, user);
  }
  return live;
}

void PoolImpl::AlertOwnWaiters(std::int64_t below) {
  if (waiters_.load() == 0) return;
  const BackoffLock lock(locks_.books);
  if (!memory_->is_asleep()) queue_.Alert(below);  // they are alerted when it wakes
}

void PoolImpl::AlertOwnWaitersByFree(std::int64_t room) {
  if (waiters_.load() == 0) return;
  const BackoffLock lock(locks_.books);
  if (!memory_->is_asleep()) queue_.AlertByFree(room);  // they are alerted when it wakes
}

std::optional<int> PoolImpl::FirstAlertedWaiter(std::int64_t room, std::uint64_t alerts) {
  if (waiters_.load() == 0) return std::nullopt;
  const BackoffLock lock(locks_.books);
  return queue_.FirstAlerted(room_.alerts() == alerts ? room
                                                      : std::numeric_limits<std::int64_t>::max());
}

void PoolImpl::WakeFirstWaiter() {
  const BackoffLock lock(locks_.books);
  queue_.WakeFirst();
}

bool PoolImpl::HasAlertedWaiterAbove(int priority) const {
  if (waiters_.load() == 0) return false;
  const BackoffLock lock(locks_.books);
  return queue_.HasAlertedAbove(priority);
}

std::int64_t PoolImpl::AwakeLiveBytes() const {
  const BackoffLock lock(locks_.books);
  return memory_->is_asleep() ? 0 : arena_.blocks().live_bytes();
}

std::string PoolImpl::Describe(const void* address) const {
  if (const Pool* const region = RegionOf(address); region != nullptr) {
    return region->Describe(address);
  }
  const BackoffLock lock(locks_.books);
  const std::string place = DescribeAddress(address, arena_.addresses(), arena_.blocks());
  if (tag_.empty()) return place;
  return absl::StrCat(place, ", of region \"", absl::CHexEscape(tag_), "\"",
                      memory_->is_asleep() ? ", which sleeps: resume it before work uses it" : "");
}

absl::Status PoolImpl::CheckInvariants() const {
  {
    const locks::MutexLock memory(&locks_.memory);
    const BackoffLock lock(locks_.books);
    absl::Status status = CheckArena(arena_, *memory_, options_.max_bytes);
    if (!status.ok() || own_regions_ == nullptr) return status;
  }
  return own_regions_->CheckInvariants();
}

// The first address never changes.
void* PoolImpl::base() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return memory_->base(); }

std::int64_t PoolImpl::OffsetOf(const void* address) const {
  const BackoffLock lock(locks_.books);
  return arena_.addresses().OffsetOf(address);
}

std::int64_t PoolImpl::CountAsleep() const {
  const BackoffLock lock(locks_.books);
  return queue_.CountAsleep();
}

std::int64_t PoolImpl::CountLooks() const {
  const BackoffLock lock(locks_.books);
  return queue_.looks();
}

}  // namespace tidepool::pool
