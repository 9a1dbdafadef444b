// What memory is made of: what is live at an event of a trace, and whose it is.
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

// The numbers of the allocations that are live right after event `event`, ascending.
// InvalidArgument when the trace has no such event. O(allocations + events).
TIDEPOOL_EXPORT absl::StatusOr<std::vector<std::uint32_t>> LiveAfter(const Trace& trace,
                                                                     std::int64_t event);

// Collapsed stacks of `allocations`, as flame graph tools read them: one line "a;b;c bytes" a
// stack, outermost frame first, sorted by bytes of text, each stack once. A frame is "name
// (file:line)", or what is known of it; what would end a frame or a line (';', control characters)
// and what is no UTF-8 is replaced. Allocations without a tag are "[no stack]". `alignment` is a
// power of two. O(allocations log allocations + text).
TIDEPOOL_EXPORT std::string CollapsedStacks(const Trace& trace,
                                            const std::vector<std::uint32_t>& allocations,
                                            std::int64_t alignment);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_COMPOSITION_H_
