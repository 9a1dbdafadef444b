// SPDX-License-Identifier: Apache-2.0
// The steps with which devices add up a weight gradient that each of them has.
#ifndef TIDEPOOL_POLICIES_TRAINING_ROUNDS_EXCHANGE_GRADIENTS_H_
#define TIDEPOOL_POLICIES_TRAINING_ROUNDS_EXCHANGE_GRADIENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidepool/training/schedule.h"

namespace tidepool::rounds {

// Returns the bytes of the largest part of a gradient that a device of a ring adds at a time.
std::int64_t RingPartBytes(std::int64_t bytes, std::size_t devices);

// Returns the steps of a ring: each device receives from the one before. In devices - 1 steps, part
// after part goes around and is added to, until each device has the sum of one part. In as many
// steps again the sums go around. Each device sends and receives 2 (devices - 1) / devices of the
// gradient. A gradient too short for a part for each device has fewer parts.
//
// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", Journal of Parallel and Distributed Computing 69(2), 2009. O(devices^2).
std::vector<ScheduleStep> RingSteps(std::size_t data, std::int64_t bytes, std::size_t devices,
                                    std::int64_t buffer_offset);

// Returns the steps with which the first device adds the gradients of all others. O(devices).
std::vector<ScheduleStep> StepsToFirst(std::size_t data, std::size_t devices,
                                       std::int64_t buffer_offset);

}  // namespace tidepool::rounds

#endif  // TIDEPOOL_POLICIES_TRAINING_ROUNDS_EXCHANGE_GRADIENTS_H_
