// What a profiler's Chrome trace says about memory, as its JSON comes by: what touches memory and
// what it was done for. All else is dropped at once.
#ifndef TIDEPOOL_LIB_TRACE_CHROME_PROFILER_EVENTS_H_
#define TIDEPOOL_LIB_TRACE_CHROME_PROFILER_EVENTS_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "lib/io/byte_source.h"
#include "lib/io/text_numbers.h"
#include "lib/trace/chrome/enclosing_spans.h"
#include "tidepool/trace/trace.h"

namespace tidepool::chrome {

// An event that becomes one of the trace.
struct ProfilerEvent {
  enum class Kind : std::uint8_t { kMemory, kFailure, kMark, kMarkEnd };
  static constexpr std::int64_t kNotSaid = -1;

  std::int64_t time = 0;             // nanoseconds
  std::int64_t bytes = 0;            // negative: given back
  std::uint64_t subject = 0;         // an address, or the number of an id's or a mark's text
  std::int64_t reserved = kNotSaid;  // by the allocator, all in all
  std::uint32_t thread = 0;
  std::uint32_t stack = 0;   // the number of a frame's id and one, 0: not said
  std::uint32_t stream = 0;  // the number of its name's text
  std::int32_t device = 0;   // -1: the host
  Kind kind = Kind::kMemory;
  Hint hint = Hint::kResident;
  bool has_text_id = false;

  bool IsOfDevice() const { return kind == Kind::kMemory || kind == Kind::kFailure; }
};
static_assert(sizeof(ProfilerEvent) == 56);

// A frame of the file's own table of stacks.
struct ProfilerFrame {
  std::string name;
  std::string file;
  std::string caller;  // its id; "" for none
  std::uint32_t line = 0;
};

struct ProfilerThread {
  std::uint32_t process = 0;  // the number of its text
  std::string name;           // its number, unless the file gives it a name
};

struct ProfilerEvents {
  std::vector<ProfilerEvent> events;  // in the order of the file
  EnclosingSpans spans;               // names are texts; not sorted yet
  std::vector<ProfilerThread> threads;
  std::set<std::int32_t> devices;  // of the events
  io::TextNumbers texts;
  io::TextNumbers stack_ids;
  absl::flat_hash_map<std::string, ProfilerFrame> frames;  // by id
};

// Errors are with the place, `name` in front.
absl::StatusOr<ProfilerEvents> ReadProfilerEvents(io::ByteSource& source, const std::string& name);

}  // namespace tidepool::chrome

#endif  // TIDEPOOL_LIB_TRACE_CHROME_PROFILER_EVENTS_H_
