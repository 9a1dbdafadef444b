// SPDX-License-Identifier: Apache-2.0
// Profiler events: reads from a profiler's Chrome trace the events that touch memory, and the spans
// and stacks that explain them. Drops all other events at once.
#ifndef TIDEPOOL_LIB_TRACE_CHROME_PROFILER_EVENTS_H_
#define TIDEPOOL_LIB_TRACE_CHROME_PROFILER_EVENTS_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/text_numbers.h"
#include "lib/trace/chrome/enclosing_spans.h"
#include "tidepool/trace/trace.h"

namespace tidepool::chrome {

// Event of the file that becomes an event of the trace.
struct ProfilerEvent {
  enum class Kind : std::uint8_t { kMemory, kFailure, kMark, kMarkEnd };
  static constexpr std::int64_t kUnknownBytes = -1;

  std::int64_t time = 0;                   // nanoseconds
  std::int64_t bytes = 0;                  // negative for a free
  std::uint64_t subject = 0;               // an address, or the number of an id's or a mark's text
  std::int64_t allocated = kUnknownBytes;  // running total of the allocator's live bytes
  std::int64_t reserved = kUnknownBytes;   // running total of the allocator's reserved bytes
  std::uint32_t thread = 0;
  std::uint32_t stack = 0;   // number of a frame's id plus one; 0 when unknown
  std::uint32_t stream = 0;  // number of the text of its name
  std::int32_t device = 0;   // -1 for the host
  Kind kind = Kind::kMemory;
  Hint hint = Hint::kResident;
  bool has_text_id = false;

  bool IsOfDevice() const { return kind == Kind::kMemory || kind == Kind::kFailure; }
};
static_assert(sizeof(ProfilerEvent) == 64);

// Frame of the file's own table of stacks.
struct ProfilerFrame {
  std::string name;
  std::string file;
  std::string caller;  // id of the calling frame; "" for an outermost frame
  std::uint32_t line = 0;
};

struct ProfilerThread {
  std::uint32_t process = 0;  // number of the text of its id
  std::string name;           // id of the thread, unless the file names it
};

struct ProfilerEvents {
  std::vector<ProfilerEvent> events;  // in the order of the file
  EnclosingSpans spans;               // names are numbers of texts; unsorted
  std::vector<ProfilerThread> threads;
  std::set<std::int32_t> devices;           // all devices with events
  std::set<std::int32_t> refusing_devices;  // devices that refused a request
  io::TextNumbers texts;
  io::TextNumbers stack_ids;
  absl::flat_hash_map<std::string, ProfilerFrame> frames;  // by id
};

// Reads all events. Errors begin with "NAME:LINE: ".
absl::StatusOr<ProfilerEvents> ReadProfilerEvents(io::ByteSource& source, const std::string& name);

}  // namespace tidepool::chrome

#endif  // TIDEPOOL_LIB_TRACE_CHROME_PROFILER_EVENTS_H_
