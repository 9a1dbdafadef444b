// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/earlier_steps.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace tidepool::schedule {
namespace {

class EarlierSteps {
 public:
  explicit EarlierSteps(ScheduleFile& file) : file_(file) {}

  void Take(const ScheduleStep& step, std::int64_t line, bool is_await);
  void DropAll();

 private:
  enum class Place : std::uint8_t { kAway, kHere, kSent };

  void Add(const ScheduleStep& step) {
    file_.schedule.steps.push_back(step);
    file_.step_lines.push_back(line_);
  }
  void Drop(std::size_t data) {
    if (places_[data] != Place::kSent) return;
    Add({.kind = StepKind::kDrop, .index = data});
    places_[data] = Place::kAway;
  }

  ScheduleFile& file_;
  absl::flat_hash_map<std::size_t, Place> places_;  // by data
  std::vector<std::size_t> sent_;                   // in order; some came back since
  std::int64_t line_ = 0;                           // of the current step
};

void EarlierSteps::DropAll() {
  for (const std::size_t data : std::exchange(sent_, {})) Drop(data);
}

void EarlierSteps::Take(const ScheduleStep& step, std::int64_t line, bool is_await) {
  line_ = line;
  if (is_await) return Drop(step.index);
  if (step.kind == StepKind::kPrefetch) {
    Drop(step.index);
    if (std::exchange(places_[step.index], Place::kHere) == Place::kHere) return;
  }
  Add(step);
  if (step.kind == StepKind::kSynchronize) DropAll();
  if (step.kind == StepKind::kAllocate) places_[step.index] = Place::kHere;
  if (step.kind == StepKind::kFree) places_[step.index] = Place::kAway;
  if (step.kind != StepKind::kOffload) return;
  places_[step.index] = Place::kSent;
  sent_.push_back(step.index);
}

}  // namespace

ScheduleFile WithDrops(ScheduleFile file, const std::vector<std::size_t>& awaits) {
  const std::vector<ScheduleStep> steps = std::exchange(file.schedule.steps, {});
  const std::vector<std::int64_t> lines = std::exchange(file.step_lines, {});
  EarlierSteps earlier(file);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    earlier.Take(steps[i], lines[i], std::binary_search(awaits.begin(), awaits.end(), i));
  }
  earlier.DropAll();
  return file;
}

}  // namespace tidepool::schedule
