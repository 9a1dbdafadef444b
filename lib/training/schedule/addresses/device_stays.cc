// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/addresses/device_stays.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "lib/training/schedule/steps/rounds.h"

namespace tidepool::schedule {
namespace {

class StayFinder {
 public:
  StayFinder(absl::Span<const TaskGraph> graphs, const Schedule& schedule, std::size_t device,
             WorkspaceLife workspaces)
      : graphs_(graphs),
        schedule_(schedule),
        device_(device),
        workspaces_(workspaces),
        graph_(&graphs.front()),
        data_(graphs.front().data.size()) {
    stays_.stay_at.assign(schedule.steps.size(), DeviceStays::kNone);
  }

  DeviceStays Find() {
    for (const ScheduleRound& round : RoundsOf(schedule_)) FindOf(round);
    for (Datum& datum : data_) {
      if (datum.stay == DeviceStays::kNone) continue;
      for (const auto& [begin, part] : datum.parts) {
        AddPart(datum, begin, part, static_cast<std::int64_t>(schedule_.steps.size()));
      }
      if (datum.first != DeviceStays::kNone) Join(datum.first, datum.stay);
    }
    NumberAsOne();
    return std::move(stays_);
  }

 private:
  // Bytes that are on the device.
  struct Part {
    std::int64_t end = 0;
    std::int64_t lower = 0;
  };
  struct Datum {
    absl::btree_map<std::int64_t, Part> parts;  // by begin
    std::size_t stay = DeviceStays::kNone;      // the current one
    std::size_t first = DeviceStays::kNone;     // of data that is resident
  };

  std::size_t Begin(std::int64_t bytes) {
    stays_.bytes.push_back(bytes);
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }

  void FindOf(const ScheduleRound& round) {
    graph_ = GraphOf(graphs_, round);
    const std::vector<std::size_t> before = CurrentStays();
    for (std::size_t i = 0; i < round.steps; ++i) Perform(round.first_step + i);
    if (round.times == 1) return;
    // The end of one repetition is the start of the next.
    for (std::size_t data = 0; data < data_.size(); ++data) {
      if (before[data] != DeviceStays::kNone) Join(before[data], data_[data].stay);
    }
  }

  std::vector<std::size_t> CurrentStays() const {
    std::vector<std::size_t> stays;
    stays.reserve(data_.size());
    for (const Datum& datum : data_) stays.push_back(datum.stay);
    return stays;
  }

  void Perform(std::size_t at) {
    const ScheduleStep& step = schedule_.steps[at];
    if (step.device != device_) return;
    switch (step.kind) {
      case StepKind::kAllocate:
      case StepKind::kPrefetch:
        return Take(at);
      case StepKind::kFree:
        return GiveBack(at, {0, graph_->data[step.index].bytes});
      case StepKind::kDrop:
        return GiveBack(at, RangeOf(step));
      case StepKind::kRun:
        return TakeWorkspace(at);
      case StepKind::kAdd:
        return TakeBuffer(at);
      default:
        return;
    }
  }

  ByteRange RangeOf(const ScheduleStep& step) const {
    return {step.begin, step.end == -1 ? graph_->data[step.index].bytes : step.end};
  }

  void TakeWorkspace(std::size_t at) {
    const ScheduleStep& step = schedule_.steps[at];
    const std::int64_t bytes = graph_->tasks[step.index].algorithms[step.algorithm].workspace_bytes;
    if (bytes == 0) return;
    const auto lower = static_cast<std::int64_t>(at);
    stays_.stay_at[at] = Begin(bytes);
    stays_.parts.push_back({stays_.stay_at[at], {0, bytes}, lower, EndOfRun(at)});
  }

  // The buffer of an addition lives up to the next one, so that no other operation soon waits for
  // the copy.
  void TakeBuffer(std::size_t at) {
    const ByteRange range = RangeOf(schedule_.steps[at]);
    const auto is_next = [&](const ScheduleStep& step) {
      return step.kind == StepKind::kAdd && step.device == device_;
    };
    const auto from = schedule_.steps.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    const auto next = std::find_if(from, schedule_.steps.end(), is_next);
    const auto end = next == schedule_.steps.end() ? from : next;
    stays_.stay_at[at] = Begin(range.end - range.begin);
    stays_.parts.push_back({stays_.stay_at[at],
                            {0, range.end - range.begin},
                            static_cast<std::int64_t>(at),
                            end - schedule_.steps.begin()});
  }

  // Returns the step at which a task has ended.
  std::int64_t EndOfRun(std::size_t at) const {
    if (workspaces_ == WorkspaceLife::kOneStep) return static_cast<std::int64_t>(at) + 1;
    const ScheduleStep& run = schedule_.steps[at];
    const GraphTask& task = graph_->tasks[run.index];
    const auto uses = [&](std::size_t data) {
      return absl::c_linear_search(task.reads, data) || absl::c_linear_search(task.updates, data) ||
             absl::c_linear_search(task.writes, data);
    };
    const auto is_later = [&](const ScheduleStep& step) {
      const bool gives_back = step.kind == StepKind::kFree || step.kind == StepKind::kDrop;
      if (gives_back && step.device == device_ && uses(step.index)) return true;
      return step.kind == StepKind::kAllocate || step.kind == StepKind::kSynchronize ||
             (step.kind == StepKind::kRun && step.device == device_ && step.stream == run.stream);
    };
    const auto first = schedule_.steps.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    return std::find_if(first, schedule_.steps.end(), is_later) - schedule_.steps.begin();
  }

  void Take(std::size_t at) {
    const ScheduleStep& step = schedule_.steps[at];
    const GraphData& data = graph_->data[step.index];
    Datum& datum = data_[step.index];
    if (datum.stay == DeviceStays::kNone) datum.stay = Begin(data.bytes);
    stays_.stay_at[at] = datum.stay;
    const bool is_resident = data.before == DataHome::kDevice && data.after == DataHome::kDevice;
    const bool is_there = is_resident && datum.first == DeviceStays::kNone;
    // The iteration before left it there.
    if (is_there) datum.first = datum.stay;
    const ByteRange range = RangeOf(step);
    datum.parts.emplace(range.begin,
                        Part{range.end, is_there ? -1 : static_cast<std::int64_t>(at)});
  }

  void GiveBack(std::size_t at, ByteRange range) {
    Datum& datum = data_[schedule_.steps[at].index];
    auto next = datum.parts.upper_bound(range.begin);
    if (next != datum.parts.begin() && std::prev(next)->second.end > range.begin) --next;
    while (next != datum.parts.end() && next->first < range.end) {
      const auto [begin, part] = *next;
      next = datum.parts.erase(next);
      AddPart(datum, std::max(begin, range.begin), {std::min(part.end, range.end), part.lower},
              static_cast<std::int64_t>(at));
      if (begin < range.begin) datum.parts.emplace(begin, Part{range.begin, part.lower});
      if (range.end < part.end) datum.parts.emplace(range.end, Part{part.end, part.lower});
      next = datum.parts.lower_bound(std::min(part.end, range.end));
    }
    if (datum.parts.empty()) datum.stay = DeviceStays::kNone;
  }

  void AddPart(const Datum& datum, std::int64_t begin, const Part& part, std::int64_t upper) {
    stays_.parts.push_back({datum.stay, {begin, part.end}, part.lower, upper});
  }

  std::size_t RootOf(std::size_t stay) {
    while (parents_[stay] != stay) stay = parents_[stay] = parents_[parents_[stay]];
    return stay;
  }
  void Join(std::size_t a, std::size_t b) { parents_[RootOf(b)] = RootOf(a); }

  // Gives joined stays one number.
  void NumberAsOne() {
    std::vector<std::size_t> numbers(parents_.size(), DeviceStays::kNone);
    std::vector<std::int64_t> bytes;
    const auto number_of = [&](std::size_t stay) {
      std::size_t& number = numbers[RootOf(stay)];
      if (number == DeviceStays::kNone) {
        number = bytes.size();
        bytes.push_back(stays_.bytes[RootOf(stay)]);
      }
      return number;
    };
    for (std::size_t& stay : stays_.stay_at) {
      if (stay != DeviceStays::kNone) stay = number_of(stay);
    }
    for (StayPart& part : stays_.parts) part.stay = number_of(part.stay);
    stays_.bytes = std::move(bytes);
  }

  const absl::Span<const TaskGraph> graphs_;
  const Schedule& schedule_;
  const std::size_t device_;
  const WorkspaceLife workspaces_;
  const TaskGraph* graph_;  // of the current round
  std::vector<Datum> data_;
  std::vector<std::size_t> parents_;  // union-find (Tarjan 1975), by stay
  DeviceStays stays_;
};

}  // namespace

DeviceStays FindStays(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                      std::size_t device, WorkspaceLife workspaces) {
  return StayFinder(graphs, schedule, device, workspaces).Find();
}

}  // namespace tidepool::schedule
