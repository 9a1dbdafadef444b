// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/steps/schedule_choices.h"

#include <algorithm>
#include <utility>

#include "lib/training/graph/least_seconds.h"
#include "lib/training/schedule/steps/rounds.h"

namespace tidepool::schedule {
namespace {

class ChoiceReader {
 public:
  ChoiceReader(absl::Span<const TaskGraph> graphs, const Schedule& schedule)
      : graphs_(graphs), schedule_(schedule), round_of_run_(graphs.front().tasks.size()) {
    choices_.changed_by_host.resize(graphs.front().data.size());
    choices_.is_received.resize(graphs.front().data.size());
  }

  ScheduleChoices Read() {
    for (const ScheduleRound& round : RoundsOf(schedule_)) {
      ++round_;
      times_ = static_cast<double>(round.times);
      graph_ = GraphOf(graphs_, round);
      for (std::size_t i = 0; i < round.steps; ++i) {
        const ScheduleStep& step = schedule_.steps[round.first_step + i];
        if (step.kind == StepKind::kRun) NoteRun(step);
        if (step.kind == StepKind::kReceive) choices_.is_received[step.index] = true;
        if (step.density < 0) continue;
        choices_.has_compressed_copies = true;
        choices_.least_density = std::min(choices_.least_density, step.density);
      }
    }
    return std::move(choices_);
  }

 private:
  void NoteRun(const ScheduleStep& step) {
    if (step.device == kHostDevice) {
      const GraphTask& task = graph_->tasks[step.index];
      for (const auto* changes : {&task.writes, &task.updates}) {
        for (const std::size_t data : *changes) choices_.changed_by_host[data] = true;
      }
      return;
    }
    if (choices_.device == kHostDevice) choices_.device = step.device;
    if (step.device != choices_.device) return;
    if (step.stream != 0) choices_.has_streams = true;
    std::size_t& ran_in = round_of_run_[step.index];
    if (ran_in == 0) choices_.order.push_back({step.index, graph_});
    if (ran_in == round_) {
      choices_.has_reruns = true;
    } else {
      choices_.round_seconds += times_ * graph::LeastSeconds(graph_->tasks[step.index]);
    }
    ran_in = round_;
  }

  const absl::Span<const TaskGraph> graphs_;
  const Schedule& schedule_;
  const TaskGraph* graph_ = nullptr;  // of the current round
  double times_ = 1;
  std::vector<std::size_t> round_of_run_;  // by task, the last one; rounds count from 1
  std::size_t round_ = 0;
  ScheduleChoices choices_;
};

}  // namespace

ScheduleChoices ChoicesOf(absl::Span<const TaskGraph> graphs, const Schedule& schedule) {
  return ChoiceReader(graphs, schedule).Read();
}

}  // namespace tidepool::schedule
