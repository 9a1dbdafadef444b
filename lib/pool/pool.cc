// The pool: an arena over growing memory, the order of streams, and a line of those who wait.
#include "tidepool/pool.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "lib/blocks/arena.h"
#include "lib/pool/backing.h"
#include "lib/pool/backoff_mutex.h"
#include "lib/pool/front_caches.h"
#include "lib/pool/out_of_memory.h"
#include "lib/pool/stream_order.h"
#include "lib/pool/ticket_lists.h"
#include "lib/pool/wait_avoiding_blocks.h"
#include "lib/pool/waiting_line.h"
#include "tidepool/trace.h"

namespace tidepool {
namespace {

using blocks::BlockMap;
using pool::Ticket;
using pool::Tickets;
using pool::Timeline;
using pool::Waiter;

// Memory is taken from the device in pieces of this part of the pool, so that some of it can be
// given back and the calls are few.
constexpr std::int64_t kPieces = 16;

// A front cache holds at most this part of the pool.
constexpr std::int64_t kFrontPart = 128;

class PoolImpl final : public Pool {
 public:
  PoolImpl(Device& device, const PoolOptions& options, std::unique_ptr<PlacementPolicy> policy)
      : device_(device),
        options_(options),
        policy_(std::move(policy)),
        order_(device),
        backing_(device),
        arena_(0, options.alignment, *policy_, options.max_bytes) {}
  ~PoolImpl() override;

  absl::Status Start();

  absl::StatusOr<void*> Allocate(std::size_t bytes, Stream stream, Hint hint) override;
  absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                         absl::Time deadline) override;
  absl::Status Free(void* address, Stream stream) override;
  absl::Status RecordUse(void* address, Stream stream) override;
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes) override;
  void Mark(std::string_view name) override;
  PoolStats Stats() const override;
  std::vector<PoolBlock> Snapshot() const override;
  void* base() const override { return backing_.base(); }
  absl::Status CheckInvariants() const override;

 private:
  // What can be asked for at all.
  std::size_t MostBytes() const {
    return static_cast<std::size_t>(std::min(options_.max_bytes, kMaxRequestBytes));
  }

  // Two that need no lock. Null, or false: it is for the pool.
  void* AllocateFromFront(std::size_t bytes, Stream stream);
  bool FreeToFront(void* address, Stream stream);

  // Functions below hold the lock. Where one returns a null address there is no room.

  absl::StatusOr<void*> TryAllocate(std::int64_t bytes, Hint hint, Timeline& timeline);
  absl::StatusOr<Placement> PlaceOrGrow(const Request& request, Timeline& timeline);
  Placement Place(const Request& request, Timeline& timeline);
  absl::StatusOr<bool> Grow(std::int64_t bytes);
  absl::Status GrowBacking(std::int64_t missing);
  std::int64_t GrowthStep() const;
  absl::StatusOr<bool> AwaitTickets(BlockId block, std::int64_t begin, std::int64_t end,
                                    Timeline& timeline);
  void CountWait(const Timeline& timeline, const Ticket& ticket);
  absl::Status Refuse(std::size_t bytes, Hint hint, Stream stream);
  absl::Status WaitInLine(Waiter& waiter, absl::Time deadline,
                          std::unique_lock<pool::BackoffMutex>& lock);
  void ServeWaiting();
  void Serve(Waiter& waiter);

  // Frees what the front caches hold; they begin anew. Whether they held anything.
  bool EmptyFronts();
  bool EmptyFront(pool::FrontCache& front);
  // Lets the front cache of its stream forget a used block. False when it is free, there.
  bool TakeFromFront(BlockId block);
  bool IsInFront(BlockId block) const;

  absl::StatusOr<Timeline*> FindStream(Stream stream);
  void BeginCrossing(Stream newest);
  std::int64_t OffsetOf(const void* address) const {
    return static_cast<const char*>(address) - backing_.base();
  }
  absl::Status NotLive(const void* address) const;
  bool TakeBack(const void* address, Timeline& timeline);
  Tickets TakeTickets(BlockId block, Timeline& timeline);
  void FreeWithTickets(BlockId block, const Tickets& tickets);
  // The block when it is a free one, or kNoBlock.
  BlockId FreeOrNone(BlockId block) const;
  absl::Status SynchronizeTickets(BlockId block, std::int64_t begin, std::int64_t end);

  PoolStats StatsLocked() const;
  std::int64_t WildernessBytes() const;
  void ReportLive() const;

  Device& device_;
  const PoolOptions options_;
  std::unique_ptr<PlacementPolicy> policy_;

  mutable pool::BackoffMutex mutex_;  // of all that follows
  pool::StreamOrder order_;
  pool::Backing backing_;
  blocks::Arena arena_;
  // By name of a used block: the stream that it was allocated on.
  std::vector<Stream> allocated_on_;
  // And whether that stream got it behind work of others, which may still run.
  std::vector<bool> behind_others_;
  // Streams that use a live block beside the one that will free it.
  absl::flat_hash_map<BlockId, absl::InlinedVector<Stream, 2>> uses_;
  // Whether there was ever more than one stream: as long as there is not, nobody needs tickets.
  bool crossing_ = false;
  pool::TicketLists tickets_;
  pool::WaitingLine line_;
  std::int64_t allocations_at_growth_ = 0;
  std::string growth_error_;
  PoolStats stats_;  // what is counted; the rest is asked for
  std::uint64_t fronts_epoch_ = 0;
  std::unique_ptr<pool::FrontCaches> own_fronts_;

  // Not guarded: null until there are several streams, and then what own_fronts_ is.
  std::atomic<pool::FrontCaches*> fronts_ = nullptr;
};

PoolImpl::~PoolImpl() {
  const std::lock_guard lock(mutex_);
  EmptyFronts();
  if (stats_.live_count > 0) ReportLive();
  if (absl::Status status = order_.SynchronizeAll(); !status.ok()) {
    std::fprintf(
        stderr,
        "tidepool: a pool cannot wait for the streams that used it and leaves its memory to "
        "the device: %s\n",
        status.ToString().c_str());
    backing_.Abandon();
  }
}

absl::Status PoolImpl::Start() {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = backing_.Reserve(options_.max_bytes); !status.ok()) return status;
  if (options_.initial_bytes == 0) return absl::OkStatus();
  absl::Status status = backing_.GrowTo(options_.initial_bytes, options_.initial_bytes / kPieces);
  if (!status.ok()) return status;
  arena_.blocks().Resize(std::min(backing_.end(), options_.max_bytes));
  stats_.peak_reserved_bytes = backing_.held_bytes();
  return absl::OkStatus();
}

absl::StatusOr<void*> PoolImpl::Allocate(std::size_t bytes, Stream stream, Hint hint) {
  if (bytes == 0) return nullptr;
  if (void* const address = AllocateFromFront(bytes, stream)) return address;
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  if (bytes > MostBytes()) return Refuse(bytes, hint, stream);
  if (line_.IsClosed()) {
    Refuse(bytes, hint, stream).IgnoreError();
    return absl::ResourceExhaustedError(
        "out of memory: what is free is kept for an allocation that has waited long; wait too "
        "(AllocateBlocking), or free more");
  }
  absl::StatusOr<void*> address = TryAllocate(static_cast<std::int64_t>(bytes), hint, **timeline);
  if (!address.ok()) return address;
  if (*address == nullptr) return Refuse(bytes, hint, stream);
  if (!line_.empty()) {
    line_.CountOvertake();
    ServeWaiting();  // the pool may have grown
  }
  return address;
}

void* PoolImpl::AllocateFromFront(std::size_t bytes, Stream stream) {
  pool::FrontCaches* fronts = fronts_.load(std::memory_order_acquire);
  if (fronts == nullptr || bytes > MostBytes()) return nullptr;
  return fronts->Of(stream).Allocate(stream, device_.stream_epoch(),
                                     arena_.Rounded(static_cast<std::int64_t>(bytes)));
}

bool PoolImpl::FreeToFront(void* address, Stream stream) {
  pool::FrontCaches* fronts = fronts_.load(std::memory_order_acquire);
  return fronts != nullptr && fronts->Of(stream).Free(stream, device_.stream_epoch(), address);
}

bool PoolImpl::EmptyFronts() {
  if (own_fronts_ == nullptr) return false;
  bool held_any = false;
  for (pool::FrontCache& front : *own_fronts_) held_any |= EmptyFront(front);
  return held_any;
}

bool PoolImpl::EmptyFront(pool::FrontCache& front) {
  Stream stream;
  const std::vector<pool::FrontCache::Block> held = front.Close(stream);
  for (const pool::FrontCache::Block& block : held) {
    Tickets tickets;
    if (Timeline* timeline = order_.Known(stream)) {
      tickets.push_back(pool::StreamOrder::NextTicket(*timeline));
    }
    FreeWithTickets(arena_.blocks().Find(OffsetOf(block.address)), tickets);
    --stats_.live_count;
  }
  return !held.empty();
}

bool PoolImpl::TakeFromFront(BlockId block) {
  if (own_fronts_ == nullptr) return true;
  const Stream stream = allocated_on_[block];
  const BlockMap& blocks = arena_.blocks();
  return own_fronts_->Of(stream).Forget(stream, backing_.base() + blocks.offset(block),
                                        blocks.bytes(block));
}

bool PoolImpl::IsInFront(BlockId block) const {
  const BlockMap& blocks = arena_.blocks();
  return own_fronts_ != nullptr &&
         own_fronts_->Of(allocated_on_[block])
             .Holds(allocated_on_[block], backing_.base() + blocks.offset(block),
                    blocks.bytes(block));
}

absl::StatusOr<void*> PoolImpl::AllocateBlocking(std::size_t bytes, Stream stream, Hint hint,
                                                 absl::Time deadline) {
  if (bytes == 0) return nullptr;
  if (void* const address = AllocateFromFront(bytes, stream)) return address;
  std::unique_lock lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  if (bytes > MostBytes()) return Refuse(bytes, hint, stream);
  Waiter waiter(static_cast<std::int64_t>(bytes), hint, stream);
  if (!line_.IsClosed()) Serve(waiter);
  if (!waiter.result.has_value()) {
    if (absl::Status status = WaitInLine(waiter, deadline, lock); !status.ok()) return status;
  } else if (waiter.result->ok() && !line_.empty()) {
    line_.CountOvertake();
  }
  return *std::move(waiter.result);
}

absl::Status PoolImpl::WaitInLine(Waiter& waiter, absl::Time deadline,
                                  std::unique_lock<pool::BackoffMutex>& lock) {
  ++stats_.blocked;
  line_.Join(waiter);
  const auto has_result = [&] { return waiter.result.has_value(); };
  if (deadline == absl::InfiniteFuture()) {
    waiter.served.wait(lock, has_result);
    return absl::OkStatus();
  }
  if (waiter.served.wait_until(lock, absl::ToChronoTime(deadline), has_result)) {
    return absl::OkStatus();
  }
  line_.Leave(waiter);
  ServeWaiting();  // who was behind may go now
  Refuse(waiter.bytes, waiter.hint, waiter.stream).IgnoreError();
  return absl::DeadlineExceededError(
      absl::StrCat("no room for ", waiter.bytes, " bytes until the deadline, ",
                   arena_.blocks().live_bytes(), " live, the budget is ", options_.max_bytes));
}

void PoolImpl::ServeWaiting() {
  if (line_.empty()) return;
  line_.ServeAll([this](Waiter& waiter) { Serve(waiter); });
}

// Leaves the result empty when there is no room yet.
void PoolImpl::Serve(Waiter& waiter) {
  const absl::StatusOr<Timeline*> timeline = FindStream(waiter.stream);
  if (!timeline.ok()) {
    waiter.result = timeline.status();
    return;
  }
  absl::StatusOr<void*> address = TryAllocate(waiter.bytes, waiter.hint, **timeline);
  if (address.ok() && *address == nullptr) {
    // When nothing is live no free will come.
    if (stats_.live_count == 0) waiter.result = Refuse(waiter.bytes, waiter.hint, waiter.stream);
    return;
  }
  waiter.result = std::move(address);
}

absl::StatusOr<void*> PoolImpl::TryAllocate(std::int64_t bytes, Hint hint, Timeline& timeline) {
  BlockMap& blocks = arena_.blocks();
  const Request request{arena_.Rounded(bytes), hint};
  const absl::StatusOr<Placement> placement = PlaceOrGrow(request, timeline);
  if (!placement.ok()) return placement.status();
  if (placement->block == kNoBlock) return nullptr;
  bool behind_others = false;
  if (crossing_) {
    const std::int64_t begin = blocks.OffsetOf(*placement, request.bytes);
    const absl::StatusOr<bool> awaited =
        AwaitTickets(placement->block, begin, begin + request.bytes, timeline);
    if (!awaited.ok()) return awaited.status();
    behind_others = *awaited;
  }
  const BlockId block = arena_.Take(*placement, request.bytes);
  if (crossing_) {
    const std::int64_t begin = blocks.offset(block);
    tickets_.Take(placement->block, begin, begin + request.bytes,
                  FreeOrNone(blocks.Previous(block)), FreeOrNone(blocks.Next(block)));
  }
  if (block >= allocated_on_.size()) {
    allocated_on_.resize(2 * std::size_t{block} + 1);
    behind_others_.resize(allocated_on_.size());
  }
  allocated_on_[block] = timeline.stream;
  if (crossing_) behind_others_[block] = behind_others;
  ++stats_.allocations;
  ++stats_.live_count;
  void* const address = backing_.base() + blocks.offset(block);
  if (options_.recorder != nullptr) {
    options_.recorder->Allocate(address, bytes, hint, timeline.stream);
  }
  // Who waits in line must see every free: as long as somebody does, no cache begins.
  if (own_fronts_ != nullptr && line_.empty()) {
    pool::FrontCache& front = own_fronts_->Of(timeline.stream);
    const std::int64_t most_bytes = blocks.capacity() / kFrontPart;
    if (!front.Know({timeline.stream, fronts_epoch_, most_bytes}, address, request.bytes)) {
      EmptyFront(front);
    }
  }
  return address;
}

absl::StatusOr<Placement> PoolImpl::PlaceOrGrow(const Request& request, Timeline& timeline) {
  if (!arena_.blocks().HasNames()) [[unlikely]] {
    growth_error_ = absl::StrCat("an arena has at most ", arena_.blocks().max_blocks(), " blocks");
    return Placement::None();
  }
  Placement placement = Place(request, timeline);
  if (placement.block != kNoBlock) [[likely]]
    return placement;
  if (EmptyFronts()) {
    placement = Place(request, timeline);
    if (placement.block != kNoBlock) return placement;
  }
  const absl::StatusOr<bool> grown = Grow(request.bytes);
  if (!grown.ok()) return grown.status();
  return *grown ? Place(request, timeline) : placement;
}

Placement PoolImpl::Place(const Request& request, Timeline& timeline) {
  if (!crossing_) return arena_.Place(request, arena_.blocks());
  pool::WaitAvoidingBlocks preferred(arena_.blocks(), tickets_, order_, timeline);
  return arena_.Place(request, preferred);
}

// Makes room for `bytes` at the end. False when the budget or the device does not allow it.
absl::StatusOr<bool> PoolImpl::Grow(std::int64_t bytes) {
  growth_error_.clear();
  BlockMap& blocks = arena_.blocks();
  const std::int64_t missing = bytes - WildernessBytes();
  if (missing <= 0 || missing > options_.max_bytes - blocks.capacity()) return false;
  absl::Status status = GrowBacking(missing);
  // After an error too: the device may not have taken everything back.
  blocks.Resize(std::min(backing_.end(), options_.max_bytes));
  stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, backing_.held_bytes());
  if (absl::IsResourceExhausted(status)) {
    growth_error_ = std::string(status.message());
    return false;
  }
  if (!status.ok()) return status;
  ++stats_.growths;
  allocations_at_growth_ = stats_.allocations;
  return true;
}

absl::Status PoolImpl::GrowBacking(std::int64_t missing) {
  const std::int64_t capacity = arena_.blocks().capacity();
  const std::int64_t bytes =
      std::min(std::max(missing, GrowthStep()), options_.max_bytes - capacity);
  absl::Status status = backing_.GrowTo(capacity + bytes, (capacity + bytes) / kPieces);
  if (absl::IsResourceExhausted(status) && bytes > missing) {
    status = backing_.GrowTo(capacity + missing, (capacity + missing) / kPieces);
  }
  return status;
}

// While a pool fills, steps keep the calls of the device few; later, when it grows seldom,
// exactness is cheap. Their number stays logarithmic in the size of the pool.
std::int64_t PoolImpl::GrowthStep() const {
  constexpr std::int64_t kSeldom = 16;           // allocations from growth to growth
  constexpr std::int64_t kMostPerDoubling = 16;  // growths, for the next to be exact
  const std::int64_t capacity = arena_.blocks().capacity();
  const int doublings =
      std::bit_width(static_cast<std::uint64_t>(capacity / device_.granularity()));
  if (stats_.allocations - allocations_at_growth_ >= kSeldom &&
      stats_.growths < kMostPerDoubling * doublings) {
    return 0;
  }
  return static_cast<std::int64_t>(static_cast<double>(capacity) * options_.growth);
}

std::int64_t PoolImpl::WildernessBytes() const {
  const BlockMap& blocks = arena_.blocks();
  const BlockId last = blocks.Last();
  return last == kNoBlock || blocks.used(last) ? 0 : blocks.bytes(last);
}

// Whether work of others may still run, before whatever the stream is given from here on.
absl::StatusOr<bool> PoolImpl::AwaitTickets(BlockId block, std::int64_t begin, std::int64_t end,
                                            Timeline& timeline) {
  absl::Status status;
  bool behind_others = false;
  tickets_.ForEach(block, begin, end, [&](const Ticket& ticket) {
    if (order_.MustWait(timeline, ticket)) {
      const absl::StatusOr<bool> waits = order_.Await(timeline, ticket);
      status = waits.status();
      if (!waits.ok()) return false;
      if (*waits) CountWait(timeline, ticket);
    }
    behind_others |= ticket.timeline != timeline.index && order_.MayRun(ticket);
    return true;
  });
  if (!status.ok()) return status;
  return behind_others;
}

void PoolImpl::CountWait(const Timeline& timeline, const Ticket& ticket) {
  ++stats_.stream_waits;
  if (options_.recorder != nullptr) {
    options_.recorder->Wait(timeline.stream, order_.StreamOf(ticket));
  }
}

absl::Status PoolImpl::Refuse(std::size_t bytes, Hint hint, Stream stream) {
  ++stats_.failures;
  const auto recorded = std::min(bytes, static_cast<std::size_t>(kMaxRequestBytes));
  if (options_.recorder != nullptr) {
    options_.recorder->Failure(static_cast<std::int64_t>(recorded), hint, stream);
  }
  return pool::OutOfMemory(bytes, StatsLocked(), growth_error_);
}

absl::Status PoolImpl::Free(void* address, Stream stream) {
  if (address == nullptr || FreeToFront(address, stream)) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  if (!TakeBack(address, **timeline)) return NotLive(address);
  if (options_.recorder != nullptr) options_.recorder->Free(address, stream);
  ++stats_.frees;
  --stats_.live_count;
  ServeWaiting();
  return absl::OkStatus();
}

// False, and nothing changes, when no live allocation begins at `address`.
bool PoolImpl::TakeBack(const void* address, Timeline& timeline) {
  if (!crossing_) return arena_.Free(OffsetOf(address));
  const BlockId block = arena_.blocks().Find(OffsetOf(address));
  if (block == kNoBlock || !TakeFromFront(block)) return false;
  FreeWithTickets(block, TakeTickets(block, timeline));
  return true;
}

absl::Status PoolImpl::RecordUse(void* address, Stream stream) {
  if (address == nullptr) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  const absl::StatusOr<Timeline*> timeline = FindStream(stream);
  if (!timeline.ok()) return timeline.status();
  const BlockId block = arena_.blocks().Find(OffsetOf(address));
  if (block == kNoBlock || !TakeFromFront(block)) return NotLive(address);
  if (!crossing_) BeginCrossing({});  // the free may come from another stream
  auto& uses = uses_[block];
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) uses.push_back(stream);
  return absl::OkStatus();
}

// What the memory of `block`, which `timeline` frees, must be kept for.
Tickets PoolImpl::TakeTickets(BlockId block, Timeline& timeline) {
  Tickets tickets = {pool::StreamOrder::NextTicket(timeline)};
  const auto add = [&](Stream user) {
    Timeline* known = order_.Known(user);
    if (known != nullptr && known != &timeline) {
      tickets.push_back(pool::StreamOrder::NextTicket(*known));
    }
  };
  // Who frees need not have waited for what the stream of the allocation was made to wait for.
  if (behind_others_[block]) add(allocated_on_[block]);
  if (uses_.empty()) return tickets;
  const auto uses = uses_.find(block);
  if (uses == uses_.end()) return tickets;
  for (const Stream user : uses->second) add(user);
  uses_.erase(uses);
  return tickets;
}

void PoolImpl::FreeWithTickets(BlockId block, const Tickets& tickets) {
  const BlockMap& blocks = arena_.blocks();
  const BlockId before = FreeOrNone(blocks.Previous(block));
  const BlockId after = FreeOrNone(blocks.Next(block));
  const std::int64_t begin = blocks.offset(block);
  const std::int64_t end = begin + blocks.bytes(block);
  const BlockId merged = arena_.FreeBlock(block);
  tickets_.Merge(before, begin, end, tickets, after, merged,
                 tickets.empty() ? 0 : order_.Recorded(tickets.front()));
}

BlockId PoolImpl::FreeOrNone(BlockId block) const {
  return block == kNoBlock || arena_.blocks().used(block) ? kNoBlock : block;
}

absl::StatusOr<Timeline*> PoolImpl::FindStream(Stream stream) {
  absl::StatusOr<Timeline*> timeline = order_.Find(stream);
  if (order_.size() > 1 && !crossing_) [[unlikely]]
    BeginCrossing(stream);
  if (own_fronts_ != nullptr && fronts_epoch_ != device_.stream_epoch()) [[unlikely]] {
    fronts_epoch_ = device_.stream_epoch();
    EmptyFronts();
  }
  return timeline;
}

// From now on memory crosses between streams: what is free so far may be in use by the work so far.
void PoolImpl::BeginCrossing(Stream newest) {
  crossing_ = true;
  if (options_.recorder == nullptr && !policy_->HasMemory()) {
    own_fronts_ = std::make_unique<pool::FrontCaches>();
    fronts_epoch_ = device_.stream_epoch();
    fronts_.store(own_fronts_.get(), std::memory_order_release);
  }
  const Tickets tickets = order_.TicketsOfAllBut(newest);
  const BlockMap& blocks = arena_.blocks();
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.used(id)) continue;
    tickets_.Merge(kNoBlock, blocks.offset(id), blocks.offset(id) + blocks.bytes(id), tickets,
                   kNoBlock, id, UINT64_MAX);
  }
}

absl::Status PoolImpl::NotLive(const void* address) const {
  const auto where = absl::Hex(reinterpret_cast<std::uintptr_t>(address));
  const std::int64_t offset = OffsetOf(address);
  const BlockMap& blocks = arena_.blocks();
  if (offset < 0 || offset >= blocks.capacity()) {
    return absl::InvalidArgumentError(
        absl::StrCat("address 0x", where, " is none of this pool, expected a live allocation"));
  }
  BlockId id = blocks.First();
  while (offset >= blocks.offset(id) + blocks.bytes(id)) id = blocks.Next(id);
  if (!blocks.used(id) || blocks.offset(id) == offset) {  // in a front cache
    return absl::InvalidArgumentError(absl::StrCat(
        "address 0x", where, " is free already, expected a live allocation: a double free?"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("address 0x", where, " is ", offset - blocks.offset(id),
                   " bytes inside a live allocation, expected its beginning"));
}

absl::StatusOr<std::int64_t> PoolImpl::Trim(std::int64_t keep_bytes) {
  const std::lock_guard lock(mutex_);
  BlockMap& blocks = arena_.blocks();
  EmptyFronts();
  const std::int64_t held = backing_.held_bytes();
  const std::int64_t live_end = blocks.capacity() - WildernessBytes();
  const std::int64_t end = backing_.EndAfterShrinkTo(std::max(live_end, keep_bytes));
  if (end < blocks.capacity()) {
    absl::Status status = SynchronizeTickets(blocks.Last(), end, blocks.capacity());
    if (!status.ok()) return status;
  }
  absl::Status status = backing_.ShrinkTo(end);
  const BlockId last = FreeOrNone(blocks.Last());
  if (crossing_ && last != kNoBlock) {
    const BlockId kept = blocks.offset(last) < backing_.end() ? last : kNoBlock;
    tickets_.Take(last, backing_.end(), blocks.capacity(), kept, kNoBlock);
  }
  blocks.Resize(std::min(backing_.end(), options_.max_bytes));
  if (!status.ok()) return status;
  return held - backing_.held_bytes();
}

absl::Status PoolImpl::SynchronizeTickets(BlockId block, std::int64_t begin, std::int64_t end) {
  if (!crossing_) return order_.SynchronizeAll();
  absl::Status status;
  tickets_.ForEach(block, begin, end, [&](const Ticket& ticket) {
    status = order_.Synchronize(ticket);
    return status.ok();
  });
  return status;
}

void PoolImpl::Mark(std::string_view name) {
  const std::lock_guard lock(mutex_);
  arena_.Mark(name);
  if (options_.recorder != nullptr) options_.recorder->Mark(name);
}

PoolStats PoolImpl::Stats() const {
  const std::lock_guard lock(mutex_);
  return StatsLocked();
}

PoolStats PoolImpl::StatsLocked() const {
  const BlockMap& blocks = arena_.blocks();
  PoolStats stats = stats_;
  stats.live_bytes = blocks.live_bytes();
  stats.peak_live_bytes = arena_.peak_live_bytes();
  stats.reserved_bytes = backing_.held_bytes();
  stats.max_bytes = options_.max_bytes;
  stats.high_water_bytes = arena_.high_water();
  stats.free_bytes = blocks.capacity() - blocks.live_bytes();
  stats.largest_hole_bytes = blocks.LargestBytes();
  if (stats.free_bytes > 0) {
    stats.fragmentation =
        1 - static_cast<double>(stats.largest_hole_bytes) / static_cast<double>(stats.free_bytes);
  }
  stats.event_records = order_.event_records();
  if (own_fronts_ != nullptr) {
    const pool::FrontCache::Counts fronts = own_fronts_->Sum();
    stats.allocations += fronts.allocations;
    stats.frees += fronts.frees;
    stats.live_bytes -= fronts.held_bytes;
    stats.live_count -= fronts.held_count;
    stats.free_bytes += fronts.held_bytes;
  }
  return stats;
}

std::vector<PoolBlock> PoolImpl::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<PoolBlock> snapshot;
  const BlockMap& blocks = arena_.blocks();
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    const std::int64_t begin = blocks.offset(id);
    PoolBlock block;
    block.address = backing_.base() + begin;
    block.bytes = blocks.bytes(id);
    block.used = blocks.used(id);
    if (block.used) block.stream = allocated_on_[id];
    if (block.used && IsInFront(id)) {
      block.used = false;
      block.pending = {std::exchange(block.stream, {})};
    }
    tickets_.ForEach(id, begin, begin + block.bytes, [&](const Ticket& ticket) {
      const Stream stream = order_.StreamOf(ticket);
      const bool is_new =
          std::find(block.pending.begin(), block.pending.end(), stream) == block.pending.end();
      if (is_new && order_.MayRun(ticket)) block.pending.push_back(stream);
      return true;
    });
    snapshot.push_back(std::move(block));
  }
  return snapshot;
}

absl::Status PoolImpl::CheckInvariants() const {
  const std::lock_guard lock(mutex_);
  const BlockMap& blocks = arena_.blocks();
  if (absl::Status status = blocks.CheckInvariants(); !status.ok()) return status;
  if (blocks.capacity() != std::min(backing_.end(), options_.max_bytes)) {
    return absl::InternalError("the arena does not end where its memory ends");
  }
  std::int64_t live_count = 0;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (!blocks.used(id)) continue;
    ++live_count;
    const std::int64_t begin = blocks.offset(id);
    if (!tickets_.ForEach(id, begin, begin + blocks.bytes(id),
                          [](const Ticket&) { return false; })) {
      return absl::InternalError(absl::StrCat("the live block at ", begin, " has a ticket"));
    }
  }
  const PoolStats stats = StatsLocked();
  if (live_count != stats_.live_count || stats.live_count != stats.allocations - stats.frees) {
    return absl::InternalError("the counts differ from the blocks");
  }
  return absl::OkStatus();
}

void PoolImpl::ReportLive() const {
  constexpr int kListed = 10;
  std::fprintf(stderr, "tidepool: a pool is destroyed with %lld bytes live in %lld allocations\n",
               static_cast<long long>(arena_.blocks().live_bytes()),
               static_cast<long long>(stats_.live_count));
  const BlockMap& blocks = arena_.blocks();
  int listed = 0;
  for (BlockId id = blocks.First(); id != kNoBlock && listed < kListed; id = blocks.Next(id)) {
    if (!blocks.used(id)) continue;
    ++listed;
    std::fprintf(stderr, "  %p: %lld bytes, allocated on stream %llu\n",
                 static_cast<void*>(backing_.base() + blocks.offset(id)),
                 static_cast<long long>(blocks.bytes(id)),
                 static_cast<unsigned long long>(allocated_on_[id].id));
  }
}

absl::Status CheckOptions(const Device& device, const PoolOptions& options) {
  const auto expect = [](const char* name, auto value, auto... expected) {
    return absl::InvalidArgumentError(absl::StrCat(name, " ", value, ", expected ", expected...));
  };
  const std::int64_t alignment = options.alignment;
  if (alignment < 1 || (alignment & (alignment - 1)) != 0 || alignment > device.granularity()) {
    return expect("alignment", alignment, "a power of two up to ", device.granularity(),
                  ", the granularity of ", device.name());
  }
  if (options.max_bytes < alignment || options.max_bytes > device.memory_bytes()) {
    return expect("max_bytes", options.max_bytes, alignment, " to ", device.memory_bytes(),
                  ", the memory of ", device.name());
  }
  if (options.max_bytes > blocks::MaxArenaBytes(alignment)) {
    return expect("max_bytes", options.max_bytes, "at most ", blocks::MaxArenaBytes(alignment),
                  " at alignment ", alignment);
  }
  if (options.initial_bytes < 0 || options.initial_bytes > options.max_bytes) {
    return expect("initial_bytes", options.initial_bytes, "0 to max_bytes, ", options.max_bytes);
  }
  if (!(options.growth >= 0 && options.growth <= 1)) {
    return expect("growth", options.growth, "0 to 1");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(Device* device, const PoolOptions& options) {
  if (device == nullptr) return absl::InvalidArgumentError("no device, expected one");
  PoolOptions resolved = options;
  if (resolved.max_bytes == 0) resolved.max_bytes = device->memory_bytes();
  if (absl::Status status = CheckOptions(*device, resolved); !status.ok()) return status;
  resolved.max_bytes &= -resolved.alignment;
  resolved.initial_bytes = std::min(resolved.initial_bytes, resolved.max_bytes);
  absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy(resolved.placement);
  if (!policy.ok()) return policy.status();
  auto pool = std::make_unique<PoolImpl>(*device, resolved, *std::move(policy));
  if (absl::Status status = pool->Start(); !status.ok()) return status;
  return pool;
}

}  // namespace tidepool
