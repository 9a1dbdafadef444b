// Pool: device memory handed out in stream order, under a hard budget.
//
// One map of addresses serves all streams. Memory that was freed on a stream is free at once for
// that stream, and for another behind the work that may still use it: the pool makes the stream
// that gets it wait on the device, never the host. A block of the map is taken by the pool's
// placement policy; among blocks of about the same size, one that needs no wait is preferred. With
// several streams each has a small cache of blocks that it freed; the caches are emptied before the
// pool grows, trims or refuses, and a pool with a recorder has no caches.
//
// All functions are thread-safe. None waits for a device unless it says so. One that waits for work
// of a stream holds up no other call, but those that give memory back to the device: Trim, and an
// allocation that has to. So that work may depend on any other call of the pool. A call that fails
// changes nothing but counters and, where the device failed half-way, how much memory the pool
// holds.
//
// A pool and its device belong to the process that created them. A forked child has none of their
// threads, and a lock may be held for ever there: it leaves them alone and creates its own.
#ifndef TIDEPOOL_POOL_H_
#define TIDEPOOL_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/planned_placement.h"
#include "tidepool/pool_observer.h"

namespace tidepool {

// What a pool's memory is made of.
enum class PoolMemory : std::uint8_t {
  kAutomatic,  // virtual memory where the device has it, and segments elsewhere
  // One range of addresses in which memory is mapped as the pool grows: new memory is a neighbour
  // of old, and unused memory goes back wherever it is.
  kVirtual,
  // Whole allocations of the device, as anything may share that takes such: other processes,
  // network cards, the host where the device gives it managed memory. No block reaches from one
  // into another, and only one in which nothing is live can go back.
  kSegments,
};

struct PoolOptions {
  // Taken from the device at once.
  std::int64_t initial_bytes = 0;
  // The budget: the pool never hands out more, and never holds more; of virtual memory, more than
  // that rounded up to the device's granularity. 0 is all of the device's memory.
  std::int64_t max_bytes = 0;
  PoolMemory memory = PoolMemory::kAutomatic;
  // Sizes are rounded up to it: a power of two up to the device's granularity, or up to 512 where
  // memory comes in segments.
  std::int64_t alignment = 512;
  // A placement policy's name. `planned` serves iterations as planned: with `plan`, and with plans
  // that the pool makes of the iterations it sees.
  std::string placement = "best-fit";
  // Of the first iterations, for `planned`: sizes and offsets are multiples of the alignment. Its
  // height is taken from the device at once.
  std::shared_ptr<const PlacementPlan> plan = nullptr;
  // For `planned`: how many plans the pool makes and keeps, one for each kind of iteration. Those
  // that were not used for longest make room. They are made on a thread of the pool's own. 0: none
  // is made. Where there are so many kinds that plans would serve less than two fifths of the
  // iterations, the pool drops all plans and places as best-fit does, until iterations repeat.
  int most_plans = 16;
  // For each plan, to look for lower ones than the first, which takes milliseconds as a rule.
  double plan_seconds = 1;
  // When memory runs out the pool grows by what is missing and, when that happens often, at least
  // by this part of its size: so the calls of the device stay logarithmic in the final size.
  double growth = 1.0 / 32;
  // When no free block serves a request, free memory is moved to where it does instead of failing:
  // fragmentation then costs calls of the device, and a request is refused only when what is live,
  // each size rounded up to the device's granularity, leaves no room for it. Requests of a granule
  // and more take whole granules, smaller ones never reach from one into the next, and memory is
  // mapped granule by granule; the budget is rounded down to one. Needs virtual memory, and more
  // addresses than memory.
  // Such a request costs O(blocks) and calls of the device in proportion to its granules. After
  // GMLake (ASPLOS 2024), which stitches granules too. Should work under way still use all other
  // addresses, it waits on the host for that work.
  bool remap = false;
  // With several streams, a request is placed exactly where the policy puts it, so `tidepool size`
  // predicts every offset and the bytes of the pool. Otherwise a block of about the same size that
  // needs no wait is preferred, and each stream has a cache of blocks that it freed: both save
  // time, and make offsets depend on how far the streams are. A pool with one stream is always
  // exact, as long as it does not remap and its memory is virtual and taken at once.
  bool exact_placement = false;
  // Is told of every request; a Recorder (recorder.h) writes them to a file. None when null. It
  // outlives the pool.
  PoolObserver* recorder = nullptr;
};

struct PoolStats {
  std::int64_t live_bytes = 0;  // rounded up to the alignment, like all sizes here
  std::int64_t live_count = 0;
  // With several streams it includes the bytes that their caches held.
  std::int64_t peak_live_bytes = 0;
  std::int64_t reserved_bytes = 0;  // held of the device
  std::int64_t peak_reserved_bytes = 0;
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
  // Of the placement `planned`: requests that were served at their planned offsets, those that were
  // not or were planned and did not come, and the plans that the pool made.
  std::int64_t planned = 0;
  std::int64_t deviations = 0;
  std::int64_t plans = 0;
};

struct PoolBlock {
  void* address = nullptr;
  std::int64_t bytes = 0;
  bool used = false;
  Stream stream;  // of a used block: the one it was allocated on
  // Of a free block, once there were several streams: whose work may still use it.
  std::vector<Stream> pending;
};

class TIDEPOOL_EXPORT Pool {
 public:
  // `device` outlives the pool. InvalidArgument for options out of range, a budget larger than the
  // device among them; NotFound for a policy that there is not; otherwise the device's error.
  static absl::StatusOr<std::unique_ptr<Pool>> Create(Device* device, const PoolOptions& options);

  // Waits for the work of all streams that used the pool and gives its memory back. What is still
  // live is reported on stderr.
  virtual ~Pool() = default;

  // At least `bytes` bytes, for work queued on `stream` from here on. Null for zero bytes, of which
  // nothing more is known. ResourceExhausted, with what would help, when there is no room;
  // NotFound for a stream that the device does not know. O(log blocks), and O(blocks) when the pool
  // grows.
  //
  // Where nothing but segments without anything live stands in the way, for their size or because
  // the device is full, they are given back first, for a new one. That waits, as Trim does.
  virtual absl::StatusOr<void*> Allocate(std::size_t bytes, Stream stream,
                                         Hint hint = Hint::kResident) = 0;

  // The same, and waits on the host until frees make room or the deadline is past
  // (DeadlineExceeded). Requests wait in line: they are served in the order in which they came,
  // except that one for which there is room may overtake others, each of them kMostOvertakes times
  // at most. ResourceExhausted at once when no free could ever make room.
  virtual absl::StatusOr<void*> AllocateBlocking(std::size_t bytes, Stream stream,
                                                 Hint hint = Hint::kResident,
                                                 absl::Time deadline = absl::InfiniteFuture()) = 0;
  static constexpr int kMostOvertakes = 16;

  // Takes back an allocation: its memory is used no more by work queued on `stream` from here on.
  // Null is taken and ignored. InvalidArgument when no live allocation begins at `address`;
  // NotFound for a stream that the device does not know. Another stream that gets the memory next
  // waits for all that `stream` was given until then. O(log blocks).
  virtual absl::Status Free(void* address, Stream stream) = 0;

  // Free for the stream of the allocation, and for nobody else: FailedPrecondition, and the
  // allocation stays live, when it was allocated on another one.
  virtual absl::Status FreeOwn(void* address, Stream stream) = 0;

  // The stream that a live allocation was allocated on; it may have been destroyed since.
  // InvalidArgument when no live allocation begins at `address`. O(1).
  virtual absl::StatusOr<Stream> AllocatedOn(const void* address) = 0;

  // Says that work queued on `stream` uses the allocation too, as far as it is queued before the
  // free: the memory goes to nobody before that work is over. Not needed for the stream of the
  // free, nor for work that the stream of the free was made to wait for. Errors as for Free.
  virtual absl::Status RecordUse(void* address, Stream stream) = 0;

  // Gives unused memory, wherever it is, back to the device in the pieces in which it came, the
  // last ones first, as long as the pool keeps `keep_bytes`; says how much. Waits on the host for
  // the work that last used it. What another call needs meanwhile stays. After an error of that
  // wait nothing was given back.
  virtual absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes = 0) = 0;

  // Tells the placement policy and the recorder that a phase begins.
  virtual void Mark(std::string_view name) = 0;

  // Says that an iteration begins, one like others before: for the placement `planned`, and for the
  // recorder as a mark called kIterationMark. Without marks the pool finds iterations by itself
  // when they repeat exactly. It makes no plans while marked iterations seldom come again (see
  // PoolOptions::most_plans). O(plans), and O(requests of an iteration) when there are new plans or
  // one is to be made; new plans may need memory of the device.
  virtual void MarkIteration() = 0;
  static constexpr std::string_view kIterationMark = "iteration";

  // Waits on the host until all plans that are being made are there. They are used from the next
  // iteration on. Not needed, but for measuring what planned iterations cost, or testing them.
  virtual void AwaitPlans() = 0;

  // O(1), and O(blocks) where nothing but plans was followed for long.
  virtual PoolStats Stats() const = 0;
  // Every block in the order of OffsetOf: with virtual memory, that of addresses. O(blocks).
  virtual std::vector<PoolBlock> Snapshot() const = 0;
  // Where the pool's addresses begin; null when its memory is in segments, which begin anywhere.
  virtual void* base() const = 0;
  // Where an address lies in the pool, as offsets of a trace or a plan count: from base(), or
  // through the segments as if each but the first followed another, with `alignment` bytes between
  // them. -1 for an address that is none of the pool's. O(log segments).
  virtual std::int64_t OffsetOf(const void* address) const = 0;
  // Internal, with the first violation, when the pool's books contradict each other: for tests. O(n
  // log n).
  virtual absl::Status CheckInvariants() const = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_POOL_H_
