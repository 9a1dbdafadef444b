// SPDX-License-Identifier: Apache-2.0
// Follows the live bytes of a pool's schedule, and drops data that was sent where room is needed.
#include "policies/training/search/paged_from_pool.h"

#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"

namespace tidepool::search {
namespace {

class PagedSteps {
 public:
  PagedSteps(const TaskGraph& graph, std::int64_t memory_bytes, std::int64_t granule)
      : graph_(graph),
        memory_bytes_(memory_bytes),
        granule_(granule),
        places_(graph.data.size(), Place::kGone) {}

  absl::StatusOr<Schedule> Make(const Schedule& pool);

 private:
  enum class Place : std::uint8_t { kGone, kHere, kLeaving };  // kLeaving: here, and sent

  std::int64_t Granules(std::int64_t bytes) const { return RoundUp(bytes, granule_); }
  std::int64_t BytesOf(std::size_t data) const { return Granules(graph_.data[data].bytes); }
  bool HasRoom(std::int64_t bytes);
  void Drop(std::size_t data);
  bool Perform(const ScheduleStep& step);
  bool Enter(const ScheduleStep& step);
  void Free(const ScheduleStep& step);

  const TaskGraph& graph_;
  const std::int64_t memory_bytes_;
  const std::int64_t granule_;
  std::vector<Place> places_;      // by data
  std::deque<std::size_t> queue_;  // data that was sent, the first first; some has come back since
  std::int64_t live_ = 0;
  Schedule paged_;
};

void PagedSteps::Drop(std::size_t data) {
  paged_.steps.push_back({.kind = StepKind::kDrop, .index = data});
  places_[data] = Place::kGone;
  live_ -= BytesOf(data);
}

bool PagedSteps::HasRoom(std::int64_t bytes) {
  for (; live_ + bytes > memory_bytes_ && !queue_.empty(); queue_.pop_front()) {
    if (places_[queue_.front()] == Place::kLeaving) Drop(queue_.front());
  }
  return live_ + bytes <= memory_bytes_;
}

bool PagedSteps::Enter(const ScheduleStep& step) {
  if (places_[step.index] != Place::kGone) {
    places_[step.index] = Place::kHere;
    return true;
  }
  const std::int64_t bytes = BytesOf(step.index);
  if (!HasRoom(bytes)) return false;
  places_[step.index] = Place::kHere;
  live_ += bytes;
  paged_.steps.push_back(step);
  return true;
}

void PagedSteps::Free(const ScheduleStep& step) {
  if (places_[step.index] != Place::kGone) live_ -= BytesOf(step.index);
  places_[step.index] = Place::kGone;
  paged_.steps.push_back(step);
}

// Returns false where the step finds no room.
bool PagedSteps::Perform(const ScheduleStep& step) {
  switch (step.kind) {
    case StepKind::kAllocate:
    case StepKind::kPrefetch:
      return Enter(step);
    case StepKind::kFree:
      Free(step);
      return true;
    case StepKind::kRun: {
      // A run takes its workspace at its step, so drops for it come before.
      const TaskAlgorithm& algorithm = graph_.tasks[step.index].algorithms[step.algorithm];
      const bool has_room = HasRoom(Granules(algorithm.workspace_bytes));
      paged_.steps.push_back(step);
      return has_room;
    }
    case StepKind::kOffload:
      paged_.steps.push_back(step);
      places_[step.index] = Place::kLeaving;
      queue_.push_back(step.index);
      return true;
    case StepKind::kDrop:
    case StepKind::kSynchronize:
    case StepKind::kReceive:  // not in a pool's schedule, and so is the next
    case StepKind::kAdd:
      return true;
  }
  return true;
}

absl::StatusOr<Schedule> PagedSteps::Make(const Schedule& pool) {
  paged_ = {.policy = pool.policy,
            .fingerprint = pool.fingerprint,
            .steps = {},
            .memory = ScheduleMemory::kPaged,
            .alignment = granule_};
  for (const ScheduleStep& step : pool.steps) {
    if (Perform(step)) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("a step of ", pool.policy, " finds no room in ", memory_bytes_, " bytes"));
  }
  for (const std::size_t data : queue_) {
    const bool ends_here = graph_.data[data].after == DataHome::kDevice;
    if (places_[data] == Place::kLeaving && !ends_here) Drop(data);
  }
  return std::move(paged_);
}

}  // namespace

absl::StatusOr<Schedule> PagedFromPool(const TaskGraph& graph, const Schedule& schedule,
                                       std::int64_t memory_bytes, std::int64_t granule) {
  return PagedSteps(graph, memory_bytes, granule).Make(schedule);
}

}  // namespace tidepool::search
