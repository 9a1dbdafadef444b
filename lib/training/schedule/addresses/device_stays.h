// SPDX-License-Identifier: Apache-2.0
// The stays of data on one device of a schedule, and the times at which each of their bytes is
// there.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_ADDRESSES_DEVICE_STAYS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_ADDRESSES_DEVICE_STAYS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "lib/training/schedule/steps/byte_ranges.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// Bytes of a stay that come and go together: in use at the steps [lower, upper). -1: from before
// the first step.
struct StayPart {
  std::size_t stay = 0;
  ByteRange range;
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};

struct DeviceStays {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // A stay lasts from the first byte of data that comes to the last byte that goes; a workspace is
  // one too. Stays that must have one offset are numbered as one.
  std::vector<std::int64_t> bytes;  // by stay: of the whole data
  std::vector<StayPart> parts;
  std::vector<std::size_t> stay_at;  // by step that takes memory; kNone otherwise
};

enum class WorkspaceLife : std::uint8_t {
  kOneStep,   // copies in of the steps after a task may have its workspace, and wait for it
  kWholeRun,  // until the next step that comes after the end of the task, where steps are in the
              // order of their times
};

// Returns the stays on a device of a valid schedule. A repeated round, and the iteration, find data
// where they left it, so the stays at both ends have one offset. O(steps log ranges + data x
// rounds).
DeviceStays FindStays(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                      std::size_t device, WorkspaceLife workspaces = WorkspaceLife::kOneStep);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_ADDRESSES_DEVICE_STAYS_H_
