// SPDX-License-Identifier: Apache-2.0
// Checks of memory and links over time, for CheckTimes.
#ifndef TIDEPOOL_TESTS_SUPPORT_CHECK_TIMES_HELD_MEMORY_H_
#define TIDEPOOL_TESTS_SUPPORT_CHECK_TIMES_HELD_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tidepool/training/machine.h"

namespace tidepool::schedule {

// Memory of a device that data or a workspace holds.
struct HeldMemory {
  double start = 0;
  double end = 0;
  std::int64_t bytes = 0;
  std::int64_t address = -1;  // -1: in pages
  std::size_t step = 0;       // that takes it
};

// Returns OK when no more than `memory_bytes` are held at any time, and no address twice.
// ResourceExhausted otherwise. O(n log n).
absl::Status CheckHeldMemory(std::vector<HeldMemory> held, std::int64_t memory_bytes,
                             double tolerance);

// A copy over a link, or over one direction of it.
struct LinkCopy {
  double start = 0;
  double end = 0;
  double seconds = 0;  // alone on the link, without the latency
  std::size_t step = 0;
};

// Returns OK when the copies divide the link as `sharing` says. InvalidArgument otherwise.
// O(n log n).
absl::Status CheckLinkCopies(std::vector<LinkCopy> copies, double latency, LinkSharing sharing,
                             double tolerance);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_TESTS_SUPPORT_CHECK_TIMES_HELD_MEMORY_H_
