// SPDX-License-Identifier: Apache-2.0
// The memory that the host has left.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_AVAILABLE_MEMORY_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <optional>

namespace tidepool::tool {

// Returns the bytes that the host can still give to programs; nothing if the system does not report
// them.
std::optional<std::int64_t> AvailableMemory();

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_AVAILABLE_MEMORY_H_
