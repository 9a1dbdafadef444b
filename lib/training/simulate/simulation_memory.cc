// SPDX-License-Identifier: Apache-2.0
// The device memory of a simulation: allocations wait for data that leaves.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/io/quote.h"
#include "lib/base/text/sizes.h"
#include "lib/training/simulate/simulation.h"

namespace tidepool::simulate {

absl::Status Simulation::TakeDeviceMemory(std::size_t data, Hint hint) {
  absl::StatusOr<BlockId> block = TakeBlock(graph_.data[data].bytes, hint);
  if (!block.ok()) return block.status();
  memory_.SetBlock(data, *block);
  data_[data].held_since = Position();
  return absl::OkStatus();
}

absl::StatusOr<BlockId> Simulation::TakeBlock(std::int64_t bytes, Hint hint) {
  if (options_.plan != nullptr) return TakePlannedBlock(bytes);
  if (options_.releases_early) ReturnArrivedData();
  BlockId block = memory_.Take(bytes, hint);
  while (block == kNoBlock && !leaving_.empty()) {
    AwaitUnscheduled(leaving_.first());
    block = memory_.Take(bytes, hint);
  }
  if (block == kNoBlock) return NoRoomError(bytes);
  return block;
}

absl::StatusOr<BlockId> Simulation::TakePlannedBlock(std::int64_t bytes) {
  const std::vector<PlannedRequest>& requests = options_.plan->requests();
  const std::size_t request = requests_++;
  if (request >= requests.size() || requests[request].bytes != memory_.Rounded(bytes)) {
    return NotPlannedError(request, bytes);
  }
  const std::int64_t offset = requests[request].offset;
  while (true) {
    const BlockId block = memory_.TakeAt(offset, bytes);
    if (block != kNoBlock) return block;
    const std::size_t in_the_way =
        leaving_.FirstThat([&](std::size_t data) { return memory_.IsWithin(data, offset, bytes); });
    if (in_the_way == leaving_.end()) return NoRoomError(bytes);
    AwaitUnscheduled(in_the_way);
  }
}

// Gives back the device memory of data that has arrived on the host by now.
void Simulation::ReturnArrivedData() {
  const double now = Position();
  while (!leaving_.empty() && data_[leaving_.first()].copied <= now) {
    AwaitUnscheduled(leaving_.first());
  }
}

// Awaits data without a step of the schedule, and adds that step to the resolved schedule.
void Simulation::AwaitUnscheduled(std::size_t data) {
  timeline_.resolved.steps.push_back({.kind = StepKind::kAwait, .index = data});
  AwaitData(data);
}

void Simulation::AwaitData(std::size_t data) {
  leaving_.Leave(data);
  Datum& datum = data_[data];
  datum.is_out = true;
  host_.Await({datum.copied, Reason::kMemory, data});
  GiveDeviceMemory(data, std::max(datum.copied, datum.used));
}

void Simulation::GiveDeviceMemory(std::size_t data, double seconds) {
  memory_.GiveData(data);
  device_.AddBetween(data_[data].held_since, seconds, memory_.Rounded(graph_.data[data].bytes));
}

absl::Status Simulation::NoRoomError(std::int64_t bytes) const {
  const ScheduleStep& step = schedule_.steps[at_];
  const std::string purpose = step.kind == StepKind::kRun
                                  ? "its workspace"
                                  : absl::StrCat("data ", io::Quoted(graph_.data[step.index].name));
  std::size_t next = at_;
  while (next < schedule_.steps.size() && schedule_.steps[next].kind != StepKind::kRun) ++next;
  const std::string task =
      next == schedule_.steps.size()
          ? "after the last task"
          : absl::StrCat("at task ", io::Quoted(graph_.tasks[schedule_.steps[next].index].name));
  const std::string where =
      options_.plan == nullptr
          ? ""
          : absl::StrCat(", at offset ", options_.plan->requests()[requests_ - 1].offset,
                         " as planned");
  return absl::ResourceExhaustedError(
      absl::StrCat(task, ", step ", at_, ", ", text::ExactSize(memory_.Rounded(bytes)),
                   " more are needed for ", purpose, where, "; ", memory_.Account()));
}

absl::Status Simulation::NoHomeError(std::size_t data) const {
  return absl::ResourceExhaustedError(
      absl::StrCat("the host's memory of ", text::ExactSize(host_bytes_), " has no room for data ",
                   io::Quoted(graph_.data[data].name), " at home there"));
}

absl::Status Simulation::NotPlannedError(std::size_t request, std::int64_t bytes) const {
  const std::vector<PlannedRequest>& requests = options_.plan->requests();
  const std::string expected = request >= requests.size()
                                   ? absl::StrCat("no more than ", requests.size(), " requests")
                                   : absl::StrCat(requests[request].bytes);
  return absl::InvalidArgumentError(absl::StrCat("step ", at_, ", request ", request, " is for ",
                                                 memory_.Rounded(bytes), " bytes, expected ",
                                                 expected, " as planned"));
}

}  // namespace tidepool::simulate
