// When a free on one stream is known to all others, so that any of them may take the memory over.
#ifndef TIDEPOOL_LIB_PLAN_STREAM_KNOWLEDGE_H_
#define TIDEPOOL_LIB_PLAN_STREAM_KNOWLEDGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/plan/memory_log.h"

namespace tidepool::plan {

// Of each allocation the event from which on its memory may serve any stream: that of its free, or
// the first one by which every other stream that allocates after it has waited for it; the number
// of events where it is never freed. ResourceExhausted for more than 1,024 streams. O(events x
// streams).
absl::StatusOr<std::vector<std::int64_t>> ReusableFrom(const MemoryLog& log);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_STREAM_KNOWLEDGE_H_
