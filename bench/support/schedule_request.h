// SPDX-License-Identifier: Apache-2.0
// The request of a schedule for one device with a link.
#ifndef TIDEPOOL_BENCH_SUPPORT_SCHEDULE_REQUEST_H_
#define TIDEPOOL_BENCH_SUPPORT_SCHEDULE_REQUEST_H_

#include <cstdint>

#include "tidepool/training/offload_policy.h"

namespace tidepool::bench {

// The link copies `link_rate` bytes a second in each direction.
inline ScheduleRequest RequestFor(std::int64_t memory_bytes, double link_rate) {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = memory_bytes;
  MachineLink& link = request.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second = link_rate;
  return request;
}

}  // namespace tidepool::bench

#endif  // TIDEPOOL_BENCH_SUPPORT_SCHEDULE_REQUEST_H_
