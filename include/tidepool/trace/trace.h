// SPDX-License-Identifier: Apache-2.0
// Traces: the requests that a program made to its allocator, in order.
//
// A trace is a list of events. Allocations are numbered 0, 1, 2, ... in the order of their events.
// A free names the allocation that it ends; an allocation without a free stays live at the end. All
// other events touch no memory: refused requests, waits of streams, marks that the program set.
#ifndef TIDEPOOL_TRACE_TRACE_H_
#define TIDEPOOL_TRACE_TRACE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/sleep_mode.h"

namespace tidepool {

// File formats of traces; trace_files.h has their names.
enum class TraceFormat : std::uint8_t {
  kOperationCsv,  // op,id,size,hint[,stream,time_ns]: op a(llocate), f(ree) or m(ark)
  kRmmCsv,        // Thread,Time,Action,Pointer,Size,Stream: a log of RMM's logging adaptor
  kLifetimeCsv,   // id,lower,upper,size: a buffer lives in [lower, upper)
  kNative,        // written by the recorder (docs/formats/native_trace.md); holds all but segments
  kPyTorchSnapshot,  // the pickle of torch.cuda.memory._snapshot()
  kChromeTrace,      // JSON with the [memory] events of PyTorch's profiler; for Perfetto
  kMemoryTimeline,   // JSON of export_memory_timeline of PyTorch's profiler; only read
  kHeapProfile,      // pprof with live bytes by stack, such as JAX's; only read
  kRmmDebugLog,      // text of RMM's own debug log, which has refused requests; only read
};

struct TraceEvent {
  enum class Kind : std::uint8_t {
    kAllocate,
    kFree,
    kMark,
    kFailure,  // a refused allocation
    kWait,     // the event's stream had to wait for another stream
    kMarkEnd,  // the end of the span that the last kMark of that name began
    kReserve,  // the recorded allocator took memory from the device or gave it back
    kPause,    // a region began to sleep: its memory is free, its allocations stay live
    kResume,   // the region of a pause woke
  };

  std::int64_t time = 0;  // nanoseconds; in a lifetime CSV the file's own unit
  // Index of the allocation, the failure, the mark's name, the awaited stream, the reservation or
  // the pause; a resume has that of the pause that it ends.
  std::uint32_t index = 0;
  std::uint32_t stream = 0;  // index into the stream names; 0 for marks and their ends
  std::uint32_t thread = 0;  // index into the thread names
  Kind kind = Kind::kAllocate;

  bool TouchesMemory() const { return kind == Kind::kAllocate || kind == Kind::kFree; }
};

// The events of a trace, in order. Stored by columns; times, streams and threads take no memory
// while all of them are 0, so an event takes 5 to 21 bytes. Calls that only read may run at once.
class TIDEPOOL_EXPORT TraceEvents {
 public:
  class const_iterator;

  TraceEvents() = default;
  TraceEvents(std::initializer_list<TraceEvent> events) {
    for (const TraceEvent& event : events) push_back(event);
  }

  void push_back(const TraceEvent& event) {
    times_.push_back(event.time, indices_);
    streams_.push_back(event.stream, indices_);
    threads_.push_back(event.thread, indices_);
    kinds_.push_back(event.kind);
    indices_.push_back(event.index);
  }
  void reserve(std::size_t capacity);
  void clear() { *this = TraceEvents(); }

  [[gnu::always_inline]] TraceEvent operator[](std::size_t at) const {
    return {times_[at], indices_[at], streams_[at], threads_[at], kinds_[at]};
  }
  TraceEvent front() const { return (*this)[0]; }
  TraceEvent back() const { return (*this)[size() - 1]; }
  const_iterator begin() const;
  const_iterator end() const;
  std::size_t size() const { return indices_.size(); }
  std::size_t capacity() const { return indices_.capacity(); }
  bool empty() const { return indices_.empty(); }

 private:
  // Values of which all may be 0; then it has no elements.
  template <typename Value>
  class Column {
   public:
    // `earlier` has as many elements and as much capacity as this column needs before the value.
    void push_back(Value value, const std::vector<std::uint32_t>& earlier) {
      if (values_.empty()) {
        if (value == 0) return;
        values_.reserve(earlier.capacity());
        values_.resize(earlier.size());
      }
      values_.push_back(value);
    }
    void reserve(std::size_t capacity) {
      if (!values_.empty()) values_.reserve(capacity);
    }
    Value operator[](std::size_t at) const { return values_.empty() ? 0 : values_[at]; }

   private:
    std::vector<Value> values_;
  };

  std::vector<std::uint32_t> indices_;
  std::vector<TraceEvent::Kind> kinds_;
  Column<std::int64_t> times_;
  Column<std::uint32_t> streams_;
  Column<std::uint32_t> threads_;
};

// Reads events by value, since a trace stores no whole events.
class TraceEvents::const_iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = TraceEvent;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = TraceEvent;

  const_iterator() = default;
  const_iterator(const TraceEvents* events, std::size_t at) : events_(events), at_(at) {}

  [[gnu::always_inline]] TraceEvent operator*() const { return (*events_)[at_]; }
  TraceEvent operator[](difference_type n) const { return *(*this + n); }
  const_iterator& operator+=(difference_type n) {
    at_ += static_cast<std::size_t>(n);
    return *this;
  }
  const_iterator& operator-=(difference_type n) { return *this += -n; }
  const_iterator& operator++() { return *this += 1; }
  const_iterator& operator--() { return *this -= 1; }
  const_iterator operator++(int) { return std::exchange(*this, *this + 1); }
  const_iterator operator--(int) { return std::exchange(*this, *this - 1); }
  friend const_iterator operator+(const_iterator a, difference_type n) { return a += n; }
  friend const_iterator operator+(difference_type n, const_iterator a) { return a += n; }
  friend const_iterator operator-(const_iterator a, difference_type n) { return a -= n; }
  friend difference_type operator-(const_iterator a, const_iterator b) {
    return static_cast<difference_type>(a.at_ - b.at_);
  }
  friend bool operator==(const_iterator a, const_iterator b) { return a.at_ == b.at_; }
  friend auto operator<=>(const_iterator a, const_iterator b) { return a.at_ <=> b.at_; }

 private:
  const TraceEvents* events_ = nullptr;
  std::size_t at_ = 0;
};

inline TraceEvents::const_iterator TraceEvents::begin() const { return {this, 0}; }
inline TraceEvents::const_iterator TraceEvents::end() const { return {this, size()}; }

// Number of a stack frame, which stands for the whole stack that ends in this frame. 0 is no tag;
// tag t is `Trace::frames[t - 1]`. Tags attribute allocations to code. A category is a stack of one
// frame.
using TraceTag = std::uint32_t;
struct TraceFrame {
  TraceTag caller = 0;     // smaller than the frame's own tag; 0 for the outermost frame
  std::uint32_t name = 0;  // index into the frame texts
  std::uint32_t file = 0;  // index into the frame texts; "" when unknown
  std::uint32_t line = 0;  // 0 when unknown
};

// Number of a region, the part of a pool that has a name and can sleep. 0 is no region; region r
// is named `Trace::region_names[r - 1]`.
using TraceRegion = std::uint16_t;
inline constexpr std::size_t kMostTraceRegions = UINT16_MAX;
inline constexpr std::size_t kMostRegionNameBytes = 255;

struct TraceAllocation {
  std::int64_t bytes = 0;  // requested size: positive, not rounded
  Hint hint = Hint::kResident;
  TraceRegion region = 0;
  TraceTag tag = 0;
  std::int64_t line = 0;  // of the file; 0 for files without lines
};

// A refused request; its size may be 0.
struct TraceFailure : TraceAllocation {
  // Bytes that the device had free then; no value when unknown.
  std::optional<std::int64_t> device_free_bytes;
};

struct TraceReservation {
  std::uint64_t address = 0;  // 0 when unknown
  std::int64_t bytes = 0;     // taken from the device; negative when given back
};

struct TracePause {
  TraceRegion region = 0;  // never 0
  SleepMode mode = SleepMode::kHost;
};

// The file of a frame that names the purpose of an allocation, as the recording tells it.
inline constexpr std::string_view kPurposeFile = "purpose";

// Setting of the recorded allocator, as its file names it: "expandable_segments" is "True".
struct TraceSetting {
  std::string name;
  std::string value;
  friend bool operator==(const TraceSetting&, const TraceSetting&) = default;
};

// Range of memory that the recorded allocator held when its snapshot was taken.
struct TraceSegment {
  enum class Kind : std::uint8_t { kSmall, kLarge, kExpandable };

  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::int64_t free_bytes = 0;     // in no block that is live or waits
  std::int64_t pending_bytes = 0;  // of blocks that the program freed and other streams still use
  std::string stream;              // its name, as in the stream names
  std::string pool;                // "default", or the id of a private pool, such as "(0, 1)"
  Kind kind = Kind::kLarge;
};

// Strings by index, stored one after the other in one buffer.
class TIDEPOOL_EXPORT StringTable {
 public:
  void Add(std::string_view text);
  void RemoveLast();
  // Reserves capacity for a number of texts and for the bytes of all of them.
  void Reserve(std::size_t texts, std::size_t bytes);
  std::string_view operator[](std::size_t index) const {
    const std::uint32_t begin = index == 0 ? 0 : ends_[index - 1];
    return {text_.data() + begin, ends_[index] - begin};
  }
  std::size_t size() const { return ends_.size(); }
  std::size_t bytes() const { return text_.size(); }
  // Whether the table cannot take `bytes` more: it holds less than 4 GiB.
  bool IsFullFor(std::size_t bytes) const { return text_.size() + bytes >= UINT32_MAX; }

 private:
  std::string text_;
  std::vector<std::uint32_t> ends_;
};

struct Trace {
  TraceFormat format = TraceFormat::kOperationCsv;  // format of the file that was read
  // Format of the file that the events were first written to. A native trace may have been
  // converted from another format.
  TraceFormat original_format = TraceFormat::kOperationCsv;
  // Sizes are rounded up to this unless the user chooses another alignment.
  std::int64_t default_alignment = 512;
  TraceEvents events;
  std::vector<TraceAllocation> allocations;
  std::vector<TraceFailure> failures;
  std::vector<TraceReservation> reservations;
  std::vector<TracePause> pauses;  // a region that sleeps has neither pauses nor new allocations
  std::vector<TraceFrame> frames;  // each caller before the frames that it calls
  StringTable allocation_ids;
  StringTable mark_names;  // without duplicates
  StringTable stream_names;
  StringTable thread_names;
  StringTable frame_texts;  // without duplicates
  // Without duplicates, each of 1 to kMostRegionNameBytes bytes, at most kMostTraceRegions.
  StringTable region_names;
  // Device that owns the memory, and all devices in the file, ascending. -1 is the host. `devices`
  // is empty for formats without devices.
  std::int32_t device = 0;
  std::vector<std::int32_t> devices;
  // Whether the events tell the peak. False for a snapshot of an allocator that recorded no
  // history, or a few events after most of its work: the allocations are those that were live when
  // the snapshot was taken, and the true peak is unknown.
  bool has_history = true;
  // Number of allocations that were made before the recording began. They are the first ones of the
  // trace; their order and times are unknown. One of them may stand for many: the memory of which
  // only the sum is known.
  std::int64_t earlier_allocations = 0;
  std::vector<TraceSetting> allocator_settings;  // empty when unknown
  // The memory of the recorded allocator after the last event, by address. Only PyTorch snapshots
  // have it.
  std::vector<TraceSegment> segments;
  std::int64_t unmatched_frees = 0;  // skipped frees of allocations from before the log began
  std::int64_t skipped_rows = 0;     // requests of zero bytes in a log
  bool ended_early = false;          // the recording was cut off, so events may be missing
  // For a lifetime CSV, the allocation of each row, so that rows can be written in their old order.
  // A permutation, or empty when rows are in the order of allocations.
  std::vector<std::uint32_t> row_order;
};

// Builds a trace event by event and tracks the live allocations. Not thread-safe.
class TIDEPOOL_EXPORT TraceBuilder {
 public:
  explicit TraceBuilder(TraceFormat format);
  ~TraceBuilder();
  TraceBuilder(const TraceBuilder&) = delete;
  TraceBuilder& operator=(const TraceBuilder&) = delete;

  // Sets the fraction of the trace that was added so far, in [0, 1]; 0 is unknown. The builder
  // reserves capacity for the rest at once, instead of doubling its arrays. A fraction that is too
  // small costs addresses without memory, at most 1,024 times the bytes of the events so far.
  void SetPart(double part) {
    if (part != part_) ExpectRest(part);
  }
  // Sets the thread of all later events; "" before the first call.
  void SetThread(std::string_view thread);
  // Sets the tag of all later allocations and failures; 0 before the first call. `tag` must come
  // from Frame().
  void SetTag(TraceTag tag) { tag_ = tag; }
  // Sets the region of all later allocations and failures; "", no region, before the first call.
  // Returns InvalidArgument for a name of more than kMostRegionNameBytes bytes, and
  // ResourceExhausted beyond kMostTraceRegions regions. O(1).
  absl::Status SetRegion(std::string_view region);
  // Sets the line of all later allocations and failures; 0 before the first call.
  void SetLine(std::int64_t line) { line_ = line; }
  // Returns the tag of the stack of `caller` with this frame on top. Equal frames get equal tags.
  // Returns ResourceExhausted beyond 2^32 - 2 frames or 4 GiB of texts. O(1).
  absl::StatusOr<TraceTag> Frame(TraceTag caller, std::string_view name, std::string_view file,
                                 std::uint32_t line);
  // Adds an allocation. Returns InvalidArgument when `id` is live, `bytes` is not in [1,
  // kMaxRequestBytes] or the region sleeps, and ResourceExhausted beyond 2^32 - 2 allocations or 4
  // GiB of ids. O(1).
  absl::Status Allocate(std::string_view id, std::int64_t bytes, Hint hint, std::string_view stream,
                        std::int64_t time);
  // Adds a free. Returns false, and adds nothing, when `id` is not live.
  bool Free(std::string_view id, std::string_view stream, std::int64_t time);
  // Add an allocation and a free in the same way; the id is the text of the address, in lower case
  // and without leading zeros, such as "0x7f2a00000200". These two calls and those above do not
  // know the live ids of one another. Faster than ids as texts.
  absl::Status AllocateAt(std::uint64_t address, std::int64_t bytes, Hint hint,
                          std::string_view stream, std::int64_t time);
  bool FreeAt(std::uint64_t address, std::string_view stream, std::int64_t time);
  void Mark(std::string_view name, std::int64_t time);
  void MarkEnd(std::string_view name, std::int64_t time);
  // Adds a refused request. Returns InvalidArgument for negative `bytes`, and ResourceExhausted
  // beyond 2^32 - 1 failures.
  absl::Status Failure(std::int64_t bytes, Hint hint, std::string_view stream, std::int64_t time,
                       std::optional<std::int64_t> device_free_bytes = std::nullopt);
  void Wait(std::string_view stream, std::string_view awaited, std::int64_t time);
  // Adds a reservation. Returns ResourceExhausted beyond 2^32 - 1 reservations.
  absl::Status Reserve(const TraceReservation& reservation, std::string_view stream,
                       std::int64_t time);
  // Add a pause of a region, and its end. Errors for the name are those of SetRegion. Return
  // InvalidArgument for "", for a pause of a region that sleeps and for the end of none, and
  // ResourceExhausted beyond 2^32 - 1 pauses.
  absl::Status Pause(std::string_view region, SleepMode mode, std::string_view stream,
                     std::int64_t time);
  absl::Status Resume(std::string_view region, std::string_view stream, std::int64_t time);
  // Sets the device of the trace. `devices` is ascending and contains `device`.
  void SetDevices(std::int32_t device, std::vector<std::int32_t> devices);
  // Declares that all allocations so far were made before the recording began.
  void BeginRecording() {
    trace_.earlier_allocations = static_cast<std::int64_t>(trace_.allocations.size());
  }
  void SetHistory(bool has_history) { trace_.has_history = has_history; }
  void SetAllocatorSettings(std::vector<TraceSetting> settings);
  void SetSegments(std::vector<TraceSegment> segments);
  void CountUnmatchedFree() { ++trace_.unmatched_frees; }
  void CountSkippedRow() { ++trace_.skipped_rows; }

  // Returns the trace so far and leaves the builder empty.
  Trace Build();

 private:
  class Lookup;

  void ExpectRest(double part);
  void ReserveAllocations();
  absl::Status CheckAllocation(std::int64_t bytes, std::size_t id_bytes) const;
  void AddId(std::string_view id);
  void AddAllocation(std::int64_t bytes, Hint hint, std::string_view stream, std::int64_t time);
  void AddEvent(TraceEvent::Kind kind, std::uint32_t index, std::uint32_t stream,
                std::int64_t time);
  absl::StatusOr<TraceRegion> RegionOf(std::string_view name);

  Trace trace_;
  std::unique_ptr<Lookup> lookup_;
  std::string thread_;
  double part_ = 0;
  double expected_events_ = 0;  // from the part and the events at that time; 0 when unknown
  double expected_allocations_ = 0;
  TraceTag tag_ = 0;
  TraceRegion region_ = 0;
  std::int64_t line_ = 0;
};

// Options for readers of trace files.
struct ReadOptions {
  // Device to read; -1 is the host. By default the first GPU with a refused request in the file,
  // else the GPU that holds the most memory, or the host if the file has no GPU.
  std::optional<std::int32_t> device;
  // Reading ends soon after this stop was requested, with Cancelled.
  std::stop_token stop = {};
};

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_TRACE_H_
