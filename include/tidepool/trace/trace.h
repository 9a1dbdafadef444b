// Traces: what a program asked its allocator for, in order.
//
// A trace is a list of events. Allocations are numbered 0, 1, 2, ... in the order in which they
// happen; a free names the allocation that it ends. What was never freed stays live at the end.
// Other events say what happened beside: a request that was refused, a stream that was made to wait
// for another, a mark that the program set. They touch no memory.
#ifndef TIDEPOOL_TRACE_TRACE_H_
#define TIDEPOOL_TRACE_TRACE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"

namespace tidepool {

// The file formats; trace_files.h has their names.
enum class TraceFormat : std::uint8_t {
  kOperationCsv,  // op,id,size,hint[,stream,time_ns]: op a(llocate), f(ree) or m(ark)
  kRmmCsv,        // Thread,Time,Action,Pointer,Size,Stream: a log of RMM's logging adaptor
  kLifetimeCsv,   // id,lower,upper,size: a buffer lives in [lower, upper)
  kNative,  // what the recorder writes (docs/formats/native_trace.md); holds all that a trace can
            // say
  kPyTorchSnapshot,  // the pickle of torch.cuda.memory._snapshot()
  kChromeTrace,      // JSON with the [memory] events of PyTorch's profiler; for Perfetto
};

struct TraceEvent {
  enum class Kind : std::uint8_t {
    kAllocate,
    kFree,
    kMark,
    kFailure,  // an allocation that was refused
    kWait,     // the event's stream was made to wait for another
    kMarkEnd,  // what a mark of that name began is over
    kReserve,  // the recorded allocator took memory from the device, or gave it back
  };

  std::int64_t time = 0;  // nanoseconds; in a lifetime CSV the file's own unit
  // Of the allocation, the failure, the mark's name, the awaited stream or the reservation.
  std::uint32_t index = 0;
  std::uint32_t stream = 0;  // index into the stream names; marks and their ends have none
  std::uint32_t thread = 0;  // index into the thread names
  Kind kind = Kind::kAllocate;

  bool TouchesMemory() const { return kind == Kind::kAllocate || kind == Kind::kFree; }
};
static_assert(sizeof(TraceEvent) == 24);

// Whose memory an allocation is: the frame of a program, called by others. A tag is the number of
// such a frame and stands for the stack that ends there; 0 is no tag, and tag t is
// `Trace::frames[t - 1]`. A category is a stack of one frame.
using TraceTag = std::uint32_t;
struct TraceFrame {
  TraceTag caller = 0;     // smaller than the frame's own tag; 0 for the outermost frame
  std::uint32_t name = 0;  // index into the frame texts
  std::uint32_t file = 0;  // the same; "" when it is not known
  std::uint32_t line = 0;  // 0 when it is not known
};

struct TraceAllocation {
  std::int64_t bytes = 0;  // as asked for: positive, not rounded
  Hint hint = Hint::kResident;
  TraceTag tag = 0;
};

struct TraceReservation {
  std::uint64_t address = 0;  // 0 when it is not known
  std::int64_t bytes = 0;     // taken from the device; negative when given back
};

// Strings by index, in one piece of memory.
class TIDEPOOL_EXPORT StringTable {
 public:
  void Add(std::string_view text);
  void RemoveLast();
  std::string_view operator[](std::size_t index) const {
    const std::uint32_t begin = index == 0 ? 0 : ends_[index - 1];
    return {text_.data() + begin, ends_[index] - begin};
  }
  std::size_t size() const { return ends_.size(); }
  // Whether `bytes` more would be too many: a table holds less than 4 GiB.
  bool IsFullFor(std::size_t bytes) const { return text_.size() + bytes >= UINT32_MAX; }

 private:
  std::string text_;
  std::vector<std::uint32_t> ends_;
};

struct Trace {
  TraceFormat format = TraceFormat::kOperationCsv;  // of the file that it came from
  // Of the file that the events were first written to: a native trace may hold what was another
  // format's.
  TraceFormat original_format = TraceFormat::kOperationCsv;
  // What sizes are rounded up to unless the user says otherwise.
  std::int64_t default_alignment = 512;
  std::vector<TraceEvent> events;
  std::vector<TraceAllocation> allocations;
  std::vector<TraceAllocation> failures;  // what was asked for; 0 bytes and more
  std::vector<TraceReservation> reservations;
  std::vector<TraceFrame> frames;  // callers come before those whom they call
  StringTable allocation_ids;
  StringTable mark_names;  // each once
  StringTable stream_names;
  StringTable thread_names;
  StringTable frame_texts;  // each once
  // The device whose memory this is, and those that the file tells of, ascending; -1 is the host.
  // Formats that know of no devices have none.
  std::int32_t device = 0;
  std::vector<std::int32_t> devices;
  std::int64_t unmatched_frees = 0;  // frees, skipped, of what was allocated before a log began
  std::int64_t skipped_rows = 0;     // failures and requests of zero bytes in a log
  bool ended_early = false;          // the recording was cut off: there may have been more events
  // Of a lifetime CSV: the allocation of each row, in the order of the rows, as it is written again
  // to lifetime CSV. Empty when that is the order of the allocations, and otherwise a permutation.
  std::vector<std::uint32_t> row_order;
};

// Builds a trace event by event and keeps track of what is live. Not thread-safe.
class TIDEPOOL_EXPORT TraceBuilder {
 public:
  explicit TraceBuilder(TraceFormat format);
  ~TraceBuilder();
  TraceBuilder(const TraceBuilder&) = delete;
  TraceBuilder& operator=(const TraceBuilder&) = delete;

  // The thread of the events that follow; "" until it is called.
  void SetThread(std::string_view thread);
  // The tag of the allocations and failures that follow; 0 until it is called. One that Frame()
  // returned.
  void SetTag(TraceTag tag) { tag_ = tag; }
  // The tag of the stack that has this frame on top of that of `caller`: always the same for the
  // same frame. ResourceExhausted beyond 2^32 - 2 frames or 4 GiB of texts. O(1).
  absl::StatusOr<TraceTag> Frame(TraceTag caller, std::string_view name, std::string_view file,
                                 std::uint32_t line);
  // InvalidArgument when `id` is live or `bytes` is not in [1, kMaxRequestBytes]; ResourceExhausted
  // beyond 2^32 - 2 allocations or 4 GiB of ids. O(1).
  absl::Status Allocate(std::string_view id, std::int64_t bytes, Hint hint, std::string_view stream,
                        std::int64_t time);
  // False, and nothing is added, when `id` is not live.
  bool Free(std::string_view id, std::string_view stream, std::int64_t time);
  void Mark(std::string_view name, std::int64_t time);
  void MarkEnd(std::string_view name, std::int64_t time);
  // InvalidArgument for negative `bytes`; ResourceExhausted beyond 2^32 - 1 failures.
  absl::Status Failure(std::int64_t bytes, Hint hint, std::string_view stream, std::int64_t time);
  void Wait(std::string_view stream, std::string_view awaited, std::int64_t time);
  // ResourceExhausted beyond 2^32 - 1 of them.
  absl::Status Reserve(const TraceReservation& reservation, std::string_view stream,
                       std::int64_t time);
  // `devices` is ascending and holds `device`.
  void SetDevices(std::int32_t device, std::vector<std::int32_t> devices);
  void CountUnmatchedFree() { ++trace_.unmatched_frees; }
  void CountSkippedRow() { ++trace_.skipped_rows; }

  // The trace so far. The builder is empty afterwards.
  Trace Build();

 private:
  class Lookup;

  void AddEvent(TraceEvent::Kind kind, std::uint32_t index, std::uint32_t stream,
                std::int64_t time);

  Trace trace_;
  std::unique_ptr<Lookup> lookup_;
  std::string thread_;
  TraceTag tag_ = 0;
};

// How a reader of trace files chooses.
struct ReadOptions {
  // Of the devices that a file tells of; -1 is the host. Nothing: the first GPU that it has events
  // of, or else the host.
  std::optional<std::int32_t> device;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_TRACE_H_
