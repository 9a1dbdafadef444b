// SPDX-License-Identifier: Apache-2.0
// Pool: device memory in stream order, under a hard budget.
//
// One map of addresses serves all streams. Memory that was freed on a stream is free at once for
// that stream. Another stream can take it at once too: the pool then makes that stream wait, on the
// device and never on the host, for the work that may still use the memory. The pool's placement
// policy chooses a block; among blocks of about the same size, a block that needs no wait is
// preferred. With several streams each has a small cache of blocks that it freed, and a range of
// memory, a slab, for its small requests, unless the stream may end (Device::MayEnd). Caches and
// slabs end before the pool grows, trims or refuses, and a pool with a recorder has none of them.
//
// All functions are thread-safe. None waits for a device unless its comment says so. A call that
// waits for work of a stream delays only calls that give memory back to the device: Trim, and an
// allocation that makes room for a segment. One that pauses, resumes, limits or trims a region also
// delays these calls for the same region, and a resume delays AwaitContents for contents that have
// not come yet. So work may depend on any other call of the pool. A call that fails changes nothing
// but counters and, where the device failed half-way, how much memory the pool holds.
//
// A pool and its device belong to the process that created them. A forked child has none of their
// threads, and a lock may be held for ever there: the child must leave them alone and create its
// own.
#ifndef TIDEPOOL_POOL_H_
#define TIDEPOOL_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/contents_store.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/planned_placement.h"
#include "tidepool/pool_observer.h"

namespace tidepool {

// The kinds of memory that a pool can consist of.
enum class PoolMemory : std::uint8_t {
  kAutomatic,  // virtual memory where the device has it, or else segments
  // One range of addresses in which memory is mapped as the pool grows: new memory is a neighbour
  // of old, and unused memory goes back wherever it is.
  kVirtual,
  // Whole allocations of the device, which other processes, network cards or, with managed memory,
  // the host can share. No block reaches from one segment into another, and only a segment in which
  // nothing is live can go back.
  kSegments,
};

// A request that a pool is about to refuse for want of memory.
struct OutOfMemoryRequest {
  std::size_t bytes = 0;
  Stream stream;
  Hint hint = Hint::kResident;
  int attempt = 1;       // counts the calls for this request
  std::string_view tag;  // of the region that has no room; empty: none. Valid during the call.
};

struct PoolOptions {
  // Bytes that are taken from the device at once.
  std::int64_t initial_bytes = 0;
  // The budget: the pool never has more bytes live, and never holds more of the device. Virtual
  // memory is held up to the budget rounded up to the device's granularity, and with regions all of
  // that may be live together. 0 is all of the device's memory.
  std::int64_t max_bytes = 0;
  PoolMemory memory = PoolMemory::kAutomatic;
  // The path of a file by which pools of several processes, or of one, share the budget; empty: the
  // pool has it alone. All of them name the same max_bytes, and together hold at most that of the
  // device, in whole granules. Begin with no file, or one that no pool uses; name one for each
  // device. A pool takes memory as long as the others leave some, and gives it back in Trim, by
  // region too, and at its end, however its process ends. Requests that wait see that within some
  // 10 ms. The memory of a killed process counts until the system has closed all its files. A
  // process with other process numbers (a container) cannot see that: it may be refused, or wait
  // until another pool gives memory back, where the device has the memory back only later.
  std::string shared_budget = {};
  // Addresses are multiples of the alignment, and sizes are rounded up to it: a power of two up to
  // the device's granularity, or up to 512 where memory comes in segments.
  std::int64_t alignment = 512;
  // A placement policy's name. `planned` serves iterations as planned: by `plan`, and by plans that
  // the pool makes of the iterations that it sees.
  std::string placement = "best-fit";
  // With placement `planned`, a plan for the first iterations. Sizes and offsets are multiples of
  // the alignment. Its height is taken from the device at once.
  std::shared_ptr<const PlacementPlan> plan = nullptr;
  // With placement `planned`, how many plans the pool makes and keeps, each for a kind of
  // iteration. The plan that was not used for longest makes room. A thread of the pool makes the
  // plans. With 0 the pool makes no plan. If plans would serve less than two fifths of the
  // iterations, because too many kinds alternate, the pool drops all plans and places as best-fit
  // does, until iterations repeat.
  int most_plans = 16;
  // Seconds to search for a lower plan than the first, which usually takes milliseconds.
  double plan_seconds = 1;
  // When memory runs out the pool grows by the missing bytes and, when that happens often, at least
  // by this part of its size: so the calls of the device stay logarithmic in the final size.
  double growth = 1.0 / 32;
  // When no free block serves a request, free memory is moved instead of refusing the request.
  // Fragmentation then costs calls of the device. A request is refused only when live memory, each
  // size rounded up to the device's granularity, leaves no room for it. Requests of a granule and
  // more take whole granules, smaller requests never reach from one granule into the next, and
  // memory is mapped granule by granule; the budget is rounded down to whole granules. Needs
  // virtual memory, and more addresses than memory. A request that moves memory costs O(blocks),
  // and calls of the device in proportion to its granules. When unfinished work still uses all
  // other addresses, it waits on the host for that work. After GMLake (ASPLOS 2024), which stitches
  // granules too.
  bool remap = false;
  // With several streams, a request is placed exactly where the policy puts it, so `tidepool size`
  // predicts every offset and the bytes of the pool. Otherwise a block of about the same size that
  // needs no wait is preferred, and each stream has a cache and a slab (above): they save time, and
  // make offsets depend on how far the streams are. A pool with one stream, for which RecordWork
  // was never called, is always exact, as long as it does not remap and its memory is virtual and
  // taken at once.
  bool exact_placement = false;
  // How frees on streams that their owners may destroy at any time (Device::MayEnd) are ordered,
  // once several streams use the pool. False: the stream exists during Free, which records an event
  // in it. True: it may have been destroyed before Free is called. Free then records nothing, and
  // another stream that takes the memory waits for the work of all streams.
  bool late_frees = false;
  // Called when a request is about to be refused, or to wait, for want of memory; null for no call.
  // It may make room, and returns whether the pool tries again. When that fails too it is called
  // again, at most Pool::kMostOutOfMemoryCalls times for a request. Only then is the request
  // refused, counted and observed, or waits. A request that waits calls it again after 10 ms, each
  // time that its wait has doubled, and at its deadline: so memory that the function can free later
  // ends the wait. The thread of the request calls it without locks of the pool, so several threads
  // may be in it at a time. It may call any function of this pool and of others, such as Free and
  // Trim; a request of its own that finds no room calls it again, and it must not wait for memory.
  // It must not throw. Requests beyond the budget, requests that give way to a waiter, those that
  // wait for the end of a sleep, and those with a stop that was requested do not call it. After
  // failure_callback_resource_adaptor of RMM.
  std::function<bool(const OutOfMemoryRequest&)> on_out_of_memory = nullptr;
  // An observer that sees every request, or null; a Recorder (recorder.h) writes requests to a
  // file. The observer outlives the pool.
  PoolObserver* recorder = nullptr;
};

struct PoolStats {
  std::int64_t live_bytes = 0;  // rounded up to the alignment, like all sizes here
  std::int64_t live_count = 0;
  // With several streams it includes the bytes that their caches and slabs held.
  std::int64_t peak_live_bytes = 0;
  std::int64_t reserved_bytes = 0;  // held of the device
  std::int64_t peak_reserved_bytes = 0;
  // The most that the pool and its regions held at a time; of a region, that it held alone.
  std::int64_t peak_budget_bytes = 0;
  std::int64_t max_bytes = 0;
  std::int64_t high_water_bytes = 0;  // the highest end of any block so far, of its offsets
  std::int64_t free_bytes = 0;        // reserved and not live
  std::int64_t largest_hole_bytes = 0;
  double fragmentation = 0;  // 1 - largest hole / free bytes; 0 when nothing is free

  std::int64_t allocations = 0;
  std::int64_t frees = 0;
  std::int64_t failures = 0;       // allocations that were refused
  std::int64_t blocked = 0;        // allocations that had to wait for memory
  std::int64_t stream_waits = 0;   // of a stream for another one
  std::int64_t event_records = 0;  // events recorded for them
  std::int64_t growths = 0;        // times the pool took memory from the device
  std::int64_t remaps = 0;         // requests for which free memory was moved
  std::int64_t remapped_bytes = 0;
  // With placement `planned`: requests that were served at their planned offsets; requests that
  // were not, or that were planned and did not come; and plans that the pool made.
  std::int64_t planned = 0;
  std::int64_t deviations = 0;
  std::int64_t plans = 0;
  // With placement `planned`: iterations that the pool saw from their start to their end, marked or
  // found. Without marks: the most requests in a row that were the same as `repeat_distance`
  // requests earlier. Iterations are found once a whole one, of 64 requests or more, has repeated.
  std::int64_t iterations = 0;
  std::int64_t repeated_requests = 0;
  std::int64_t repeat_distance = 0;
};

// How a region that sleeps keeps its contents. One that shall keep its memory is not paused.
enum class PauseMode : std::uint8_t {
  kHost,     // page-locked host memory keeps them, and they come back
  kDiscard,  // they are lost
};

// A region that is to sleep, and the keeper of its contents.
struct RegionPause {
  std::string_view tag;
  PauseMode mode = PauseMode::kHost;
  // With kHost, contents go there; null: to page-locked memory. A pause takes it.
  std::unique_ptr<ContentsStore> store;
};

struct RegionStats {
  std::string_view tag;  // valid as long as the pool
  bool is_asleep = false;
  std::int64_t live_bytes = 0;
  std::int64_t live_count = 0;
  std::int64_t reserved_bytes = 0;  // held of the device; asleep, after a failed resume alone
  std::int64_t host_bytes = 0;      // of page-locked memory; kept for the next pause
  std::int64_t stored_bytes = 0;    // that its ContentsStore holds; 0 without one
  std::int64_t pauses = 0;
  std::int64_t resumes = 0;
  std::int64_t copied_out_bytes = 0;  // to the host, by all pauses
  std::int64_t copied_in_bytes = 0;   // by all resumes
  std::int64_t least_bytes = 0;       // the bounds of LimitRegion
  std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();
  std::int64_t blocked = 0;     // requests that had to wait for memory
  std::int64_t kept_bytes = 0;  // of contents, while it sleeps
};

// Returns the statistics as a few lines for people, which may change in any version.
TIDEPOOL_EXPORT std::string ToString(const PoolStats& stats);

struct PoolBlock {
  void* address = nullptr;
  std::int64_t bytes = 0;
  bool used = false;
  Stream stream;  // of a used block: the stream that it was allocated on
  // The streams with work that may still use a free block. Empty while the pool has one stream.
  std::vector<Stream> pending;
};

// A call in which the host has no memory left (std::bad_alloc) ends the process, with a message on
// stderr: a pool that is half-changed could hand out memory twice. Create throws.
class TIDEPOOL_EXPORT Pool {
 public:
  // `device` outlives the pool. InvalidArgument for options out of range, such as a budget larger
  // than the device; NotFound for an unknown policy; otherwise the device's error.
  static absl::StatusOr<std::unique_ptr<Pool>> Create(Device* device, const PoolOptions& options);

  // Waits for the work of all streams that used the pool and gives its memory back. Live
  // allocations are reported on stderr.
  virtual ~Pool() = default;

  // Returns at least `bytes` bytes, for work queued on `stream` from now on; null for zero bytes.
  // ResourceExhausted, with a remedy, when there is no room, or when free memory is kept for a
  // request of AllocateBlocking that others overtook kMostOvertakes times; NotFound for a stream
  // that the device does not know; FailedPrecondition for a region that sleeps; otherwise the
  // device's error. O(log blocks), and O(blocks) when the pool grows.
  //
  // Waits on the host, as Trim does, in three cases: segments without live memory are given back
  // for a new one, because of their size or because the device is full; with `remap`, unfinished
  // work uses all addresses to which memory could move; other regions give back or lend memory that
  // unfinished work still uses.
  virtual absl::StatusOr<void*> Allocate(std::size_t bytes, Stream stream,
                                         Hint hint = Hint::kResident) = 0;

  // Allocates likewise, and waits on the host until frees make room; DeadlineExceeded when the
  // deadline passes before. The time until then is that of the call, however the time of day is set
  // meanwhile. Waiting requests form a queue: the highest priority first, and requests of one
  // priority in the order in which they came. A later request of the queue for which there is room
  // may overtake earlier ones, each of them at most kMostOvertakes times; Allocate counts as the
  // last request of priority 0. ResourceExhausted at once when no free could ever make room.
  // Cancelled when `stop` is requested and no room is found: such a request counts as no failure,
  // and a stop that was requested before the call makes it a try that does not wait.
  virtual absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, Stream stream,
                                                 Hint hint = Hint::kResident,
                                                 absl::Time deadline = absl::InfiniteFuture(),
                                                 std::stop_token stop = {}, int priority = 0) = 0;
  static constexpr int kMostOvertakes = 16;
  // A function that always returns true would otherwise hang its thread.
  static constexpr int kMostOutOfMemoryCalls = 100;

  // Frees an allocation: work queued on `stream` from now on does not use its memory. Ignores null.
  // InvalidArgument when no live allocation begins at `address`; NotFound for a stream that the
  // device does not know. Another stream that gets the memory next waits for all work that `stream`
  // was given until it gets it. O(log blocks).
  virtual absl::Status Free(void* address, Stream stream) = 0;

  // Frees an allocation on the stream of the allocation. FailedPrecondition, and the allocation
  // stays live, when it was allocated on another stream.
  virtual absl::Status FreeOwn(void* address, Stream stream) = 0;

  // Returns the stream that a live allocation was allocated on; it may have been destroyed since.
  // InvalidArgument when no live allocation begins at `address`. O(1).
  virtual absl::StatusOr<Stream> AllocatedOn(const void* address) = 0;

  // Notes that work queued on `stream` before the free uses the allocation too: no request gets the
  // memory before that work has finished. Not needed for the stream of the free, nor for work that
  // the stream of the free was made to wait for. Errors as for Free.
  virtual absl::Status RecordUse(void* address, Stream stream) = 0;
  // Records the work of all streams of the pool so far, so that handing over memory that is free
  // now records nothing more. The device's error where it cannot. O(streams).
  virtual absl::Status RecordWork() = 0;

  // Gives unused memory, wherever it is, back to the device in the pieces in which it came, the
  // last pieces first, as long as the pool keeps `keep_bytes`. The memory of regions that sleep,
  // and page-locked memory that they do not need, go back too. Returns the bytes given back. Waits
  // on the host for the work that last used the memory. Memory that another call needs meanwhile
  // stays. After an error of that wait nothing was given back, but an error about the memory of
  // regions comes after that of the pool itself went back.
  virtual absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes = 0) = 0;

  // Returns the bytes of requests that other pools of the shared budget were refused since the last
  // call, or wait for, and did not get since, as far as is known: a program that asks now and then
  // can give memory back for them, by Trim. 0 without a shared budget. Reads a file.
  virtual std::int64_t TakeWantedByOthers() = 0;

  // Tells the placement policy and the observer that a phase begins.
  virtual void Mark(std::string_view name) = 0;

  // Says that an iteration begins that is similar to earlier ones: for placement `planned`, and for
  // the observer as a mark called kIterationMark. Without marks the pool finds iterations by itself
  // when they repeat exactly. It makes no plans while marked iterations seldom repeat
  // (PoolOptions::most_plans). O(plans), and O(requests of an iteration) when there are new plans
  // or a plan is ordered. New plans may need memory of the device, and at their first marks unused
  // memory that they do not need goes back to it, except initial_bytes: that waits, as Trim does.
  // So does a pool that holds more than its plans need and as much again as was ever live. Until a
  // plan serves, a mark plans the next iteration as if it repeated the last one: about 10 us for
  // each request.
  virtual void MarkIteration() = 0;
  static constexpr std::string_view kIterationMark = "iteration";

  // Waits on the host until all ordered plans are made. They are used from the next iteration on.
  // Only tests and measurements of planned iterations need it.
  virtual void AwaitPlans() = 0;

  // Returns the figures of the pool. O(1), and O(blocks) after long use of plans alone.
  virtual PoolStats Stats() const = 0;
  // Sets the peaks of PoolStats to the present figures. O(1).
  virtual void ResetPeaks() = 0;
  // Returns every block in the order of OffsetOf: with virtual memory, of addresses. O(blocks).
  virtual std::vector<PoolBlock> Snapshot() const = 0;
  // Returns the first address of the pool; null when its memory is in segments, which begin
  // anywhere.
  virtual void* base() const = 0;
  // Returns the offset of an address, as a trace or a plan counts offsets: from base(), or through
  // the segments as if each but the first followed another, with `alignment` bytes between them. -1
  // for an address that is not in the pool. O(log segments).
  virtual std::int64_t OffsetOf(const void* address) const = 0;

  // Regions. -------------------------------------------------------------------------------------
  //
  // A region is the pool of a tag, such as "weights". It has addresses of its own, and its memory
  // counts against the budget of the pool that it belongs to. A region can sleep: its memory is
  // then free for the pool and its other regions, and its addresses and allocations stay. When a
  // pool or region finds no room, unused memory of the others goes to it; AllocateBlocking waits
  // for their frees and pauses too, and the highest priority of all is served first. But memory
  // that is freed in a pool or region serves requests that wait in it before others. A region uses
  // the options of its pool; with placement `planned` it places as best-fit does. The observer is
  // told of its requests and pauses too. Regions need virtual memory.

  static constexpr std::size_t kMostTagBytes = 255;  // of the longest tag

  // Returns the region of a tag, which the first call makes, for as long as the pool exists. Free,
  // FreeOwn, AllocatedOn and RecordUse of the pool take addresses of its regions too. Unimplemented
  // when the memory is in segments; InvalidArgument for a tag that is empty or too long.
  virtual absl::StatusOr<Pool*> Region(std::string_view tag) = 0;
  // Puts a region to sleep after the work queued on `stream` so far; work of other streams that
  // writes to its memory comes before, as for Free. Copies of contents to the host are queued on
  // `stream`, and others take the memory when these and all other work queued so far have finished.
  // A taker waits on the host for that only where nothing else is left in the budget. The call
  // itself waits for a Trim of the region under way and, where the contents need more page-locked
  // memory than the last pause kept, for the last copies from that. No work may use the memory
  // until ResumeRegion. A sleeping region refuses requests with FailedPrecondition, and
  // AllocateBlocking waits on if it waited already. Allocations may be freed while it sleeps.
  // NotFound for an unknown tag or stream; FailedPrecondition when the region sleeps already, or
  // while `stream` captures a graph; ResourceExhausted when the host has no page-locked memory for
  // the contents. After an error the region does not sleep, and its contents are as they were.
  // O(blocks).
  absl::Status PauseRegion(std::string_view tag, PauseMode mode, Stream stream);
  // Puts a region to sleep likewise, with its contents in a store. Waits on the host until the
  // store has them. Also InvalidArgument for a null store, or one with blocks of 0 bytes, and the
  // error of the store, such as a full disk. ResumeRegion then waits on the host until the contents
  // have come back, and drops the store. O(bytes).
  absl::Status PauseRegionInto(std::string_view tag, std::unique_ptr<ContentsStore> store,
                               Stream stream);
  // Gives a region memory at its addresses again, and queues on `stream` the copies of the contents
  // that other takers displaced. Work that reads contents comes after `stream`. Takes memory that
  // is unused elsewhere, and waits on the host where work still uses it. NotFound for an unknown
  // tag or stream; FailedPrecondition when the region does not sleep, or while `stream` captures a
  // graph; ResourceExhausted, before anything is mapped, when its memory, or the least of
  // LimitRegion, does not fit. After an error the region sleeps on, and its contents are safe. If
  // another thread awaited contents meanwhile (AwaitContents), it then keeps its memory, so that
  // the work that reads them harms none, and the next call takes none. O(blocks).
  absl::Status ResumeRegion(std::string_view tag, Stream stream);
  // Pause and resume several regions likewise, all of them or, after an error, none. All tags are
  // looked up and all regions asked before the first changes, and the memory of all must fit
  // together before any is mapped. Contents are copied in the order of the list. Also
  // InvalidArgument for a tag that is in the list twice. An empty list changes nothing.
  virtual absl::Status PauseRegions(std::span<RegionPause> pauses, Stream stream) = 0;
  virtual absl::Status ResumeRegions(std::span<const std::string_view> tags, Stream stream) = 0;
  // Loses the contents that a sleeping region kept, as if it had been paused with
  // PauseMode::kDiscard: where they are not needed any more, or a store cannot read them. NotFound
  // for an unknown tag; FailedPrecondition when the region does not sleep.
  virtual absl::Status DiscardContents(std::string_view tag) = 0;
  // Makes work queued on `stream` from now on wait for the contents of `bytes` at `address`, which
  // the last resume of their region copies, but not for those at higher addresses: they come in the
  // order of addresses, in up to 256 pieces. The copies of the pause come before. During the resume
  // it waits on the host until the copies of these contents are queued, not for the rest. Memory of
  // no region needs no wait. NotFound for an unknown stream; InvalidArgument unless bytes >= 0;
  // FailedPrecondition when the region sleeps, or where a stream that captures a graph would have
  // to wait. O(log regions).
  virtual absl::Status AwaitContents(const void* address, std::int64_t bytes, Stream stream) = 0;
  // Bounds the memory of a region, which has none at first: others leave room in the budget for
  // `least_bytes` while the region does not sleep, and it holds at most `most_bytes`, in whole
  // pieces of the device's memory. It gives unused memory back for that. NotFound for an unknown
  // tag; InvalidArgument unless 0 <= least_bytes <= most_bytes; FailedPrecondition when the region
  // sleeps or uses more than `most_bytes`; ResourceExhausted, with the figures, when the others
  // hold so much that there is no room for `least_bytes`. An error changes no bound. O(blocks).
  virtual absl::Status LimitRegion(std::string_view tag, std::int64_t least_bytes,
                                   std::int64_t most_bytes) = 0;
  // Says that others registered `bytes` at `address`, such as NCCL, a network card or a process
  // that shares them: they reach the physical memory itself, which must stay in place. Until
  // EndRegistration the region refuses to be paused, and the allocation to be freed, with
  // FailedPrecondition. The same bytes may be registered several times. Memory of no region stays
  // in place until it is freed, and is not noted. InvalidArgument unless bytes > 0, and all of them
  // are in one live allocation; FailedPrecondition when the region sleeps. O(blocks).
  virtual absl::Status BeginRegistration(const void* address, std::int64_t bytes) = 0;
  // Ends one BeginRegistration of the same bytes; InvalidArgument without one.
  // O(registrations of the address + log registrations).
  virtual absl::Status EndRegistration(const void* address, std::int64_t bytes) = 0;
  // Returns the figures of each region, in the order in which they were made.
  virtual std::vector<RegionStats> RegionStatistics() const = 0;

  // Returns a line without a full stop that tells where an address is, as in "address 0x1080 is 128
  // bytes inside an allocation of 4.0 KiB (4096 bytes) at 0x1000, of region "weights", which
  // sleeps": for the address in an error of a kernel. For people: it may change in any version.
  // Memory that caches of streams keep counts as allocated. Does not ask the device, which may have
  // failed. O(blocks).
  virtual std::string Describe(const void* address) const = 0;
  // Internal, with the first violation, when the pool's data contradict each other: for tests.
  // O(blocks log blocks).
  virtual absl::Status CheckInvariants() const = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_POOL_H_
