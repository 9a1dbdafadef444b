// SPDX-License-Identifier: Apache-2.0
// The composition of memory: the allocations live at an event of a trace, and the stacks that made
// them.
//
// Sizes are rounded up to an alignment, as in sizing.h. Functions are thread-safe.
#ifndef TIDEPOOL_TRACE_COMPOSITION_H_
#define TIDEPOOL_TRACE_COMPOSITION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// Returns the numbers of the allocations that are live right after event `event`, ascending.
// InvalidArgument when the trace has no such event. O(allocations + events).
TIDEPOOL_EXPORT absl::StatusOr<std::vector<std::uint32_t>> LiveAfter(const Trace& trace,
                                                                     std::int64_t event);

// A part of memory, and the bytes that it holds.
struct NamedBytes {
  std::string name;
  std::int64_t bytes = 0;
};

// Returns the bytes of `allocations` by the frames that name them (frames.h), the most bytes first.
// `alignment` is a power of two. O(frames + allocations log allocations).
TIDEPOOL_EXPORT std::vector<NamedBytes> BytesByFrame(const Trace& trace,
                                                     const std::vector<std::uint32_t>& allocations,
                                                     std::int64_t alignment);

// Returns the collapsed stacks of `allocations` in the format of flame graph tools. Each different
// stack is one line "a;b;c bytes", outermost frame first, and lines are sorted by the bytes of
// their text. A frame is "name (file:line)", or the known part of it. Characters that would end a
// frame or a line (';', control characters) and invalid UTF-8 are replaced. Machinery frames
// (frames.h) are left out. Allocations without a tag are "[no stack]", or "[allocated before
// recording began]". `alignment` is a power of two. O(allocations log allocations + text).
TIDEPOOL_EXPORT std::string CollapsedStacks(const Trace& trace,
                                            const std::vector<std::uint32_t>& allocations,
                                            std::int64_t alignment);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_COMPOSITION_H_
