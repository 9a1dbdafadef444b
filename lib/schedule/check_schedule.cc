// SPDX-License-Identifier: Apache-2.0
// Checks schedules: that they are of the graph, and then their steps by the rules of their memory.
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "lib/io/quote.h"
#include "lib/schedule/check_pool.h"
#include "lib/schedule/check_steps.h"
#include "tidepool/schedule/schedule.h"

namespace tidepool {
namespace {

absl::Status CheckGraph(const TaskGraph& graph, const Schedule& schedule) {
  const std::uint64_t own = GraphFingerprint(graph);
  if (schedule.fingerprint == own) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the schedule is one of a graph with the fingerprint ", absl::Hex(schedule.fingerprint),
      ", expected one of ", io::Quoted(graph.name), ", ", absl::Hex(own)));
}

absl::Status CheckPoolHeader(const Schedule& schedule) {
  if (schedule.devices == 1 && schedule.rounds.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the schedule of a pool has ", schedule.devices,
                                                 " devices and ", schedule.rounds.size(),
                                                 " rounds, expected one device and no rounds"));
}

}  // namespace

absl::Status ValidateSchedule(const TaskGraph& graph, const Schedule& schedule) {
  absl::Status status = CheckGraph(graph, schedule);
  if (status.ok()) status = schedule::CheckIsForPool(schedule, "the checker of steps");
  if (status.ok()) status = CheckPoolHeader(schedule);
  return status.ok() ? schedule::CheckPoolSteps(graph, schedule) : status;
}

}  // namespace tidepool
