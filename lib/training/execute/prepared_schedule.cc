// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/prepared_schedule.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool::execute {
namespace {

constexpr std::int64_t kNoMemory = -1;

// Returns, by device and data, the offset of data that stays on a device between iterations.
std::vector<std::int64_t> HomeOffsets(const TaskGraph& graph, const Schedule& schedule) {
  std::vector<std::int64_t> offsets(schedule.devices * graph.data.size(), kNoMemory);
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind != StepKind::kAllocate) continue;
    const GraphData& data = graph.data[step.index];
    if (data.before != DataHome::kDevice || data.kind == DataKind::kInput) continue;
    std::int64_t& offset = offsets[step.device * graph.data.size() + step.index];
    if (offset == kNoMemory) offset = step.offset;
  }
  return offsets;
}

}  // namespace

absl::Status CheckHomes(const TaskGraph& graph, const PreparedSchedule& before,
                        const PreparedSchedule& after) {
  if (before.schedule.devices != after.schedule.devices) {
    return absl::InvalidArgumentError(absl::StrCat("the schedule has ", after.schedule.devices,
                                                   " devices, expected ", before.schedule.devices,
                                                   ", as the schedule before has"));
  }
  const std::vector<std::int64_t> was = HomeOffsets(graph, before.schedule);
  const std::vector<std::int64_t> is = HomeOffsets(graph, after.schedule);
  for (std::size_t i = 0; i < was.size(); ++i) {
    if (was[i] == is[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data '", absl::CHexEscape(graph.data[i % graph.data.size()].name),
                     "' stays on device ", i / graph.data.size(),
                     " between iterations, and lies "
                     "at offset ",
                     is[i], ", expected ", was[i], ", as in the schedule before"));
  }
  if (after.copies.HasHomesOf(before.copies)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the schedule keeps other data on the host between iterations than the schedule before, "
      "expected the same copies there");
}

}  // namespace tidepool::execute
