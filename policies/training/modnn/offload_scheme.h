// SPDX-License-Identifier: Apache-2.0
// Offloading schemes (section 5.2.1): neighbouring blocks that make room for an allocation.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_OFFLOAD_SCHEME_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_OFFLOAD_SCHEME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "policies/training/modnn/iteration.h"

namespace tidepool::modnn {

// The data that may leave for an allocation.
enum class MayLeave : std::uint8_t {
  kByBothCriteria,  // data that was used, and that none of the next tasks uses
  kAnyOther,        // data that none of the next tasks uses
};

// The tasks from the next one on that keep their data: [first, last].
struct NextTasks {
  std::size_t first = 0;
  std::size_t last = 0;
};

struct OffloadScheme {
  std::vector<std::size_t> leaving;  // data, in the order of addresses
  double free_from = 0;              // the time from which on the room is free
  std::int64_t bytes_out = 0;        // copied to the host
};

// Returns the scheme for `bytes` with the room that is free first; nothing if no data makes room.
// Rooms that are free before the next task can begin count as equal; of these the one with the
// least bytes to copy, then the one with the data that is used last. O(blocks x blocks of a
// scheme).
std::optional<OffloadScheme> FindScheme(const Iteration& iteration, std::int64_t bytes,
                                        MayLeave may_leave, const NextTasks& next);

// Returns a block for the owner, after the data of a scheme has left if need be; nothing where no
// scheme is found.
std::optional<MemoryMap::Block> MakeRoom(Iteration& iteration, std::int64_t bytes,
                                         std::size_t owner, MayLeave may_leave,
                                         const NextTasks& next);

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_OFFLOAD_SCHEME_H_
