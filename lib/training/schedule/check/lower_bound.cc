// SPDX-License-Identifier: Apache-2.0
// Finds, in the order of the tasks, the absences in which data is unused.
#include "tidepool/training/lower_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lib/training/graph/least_seconds.h"
#include "lib/training/graph/task_uses.h"
#include "lib/training/schedule/check/link_windows.h"
#include "lib/training/schedule/steps/data_places.h"
#include "lib/training/schedule/steps/rounds.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool {
namespace {

using schedule::Absence;
using schedule::TaskInOrder;

struct ScheduleChoices {
  // The first run of a task, with the graph of its round.
  struct FirstRun {
    std::size_t task = 0;
    const TaskGraph* graph = nullptr;
  };

  std::size_t device = kHostDevice;   // the first one that runs a task
  std::vector<FirstRun> order;        // on that device
  double round_seconds = 0;           // of the first runs in all rounds, by the fastest algorithms
  std::vector<bool> changed_by_host;  // by data
  std::vector<bool> is_received;      // by data: a device has it from another one
  bool has_streams = false;           // runs tasks beside each other
  bool has_reruns = false;            // runs a task again in its round
  bool has_compressed_copies = false;
  double least_density = 1;  // of the compressed copies
};

class ChoiceReader {
 public:
  ChoiceReader(absl::Span<const TaskGraph> graphs, const Schedule& schedule)
      : graphs_(graphs), schedule_(schedule), round_of_run_(graphs.front().tasks.size()) {
    choices_.changed_by_host.resize(graphs.front().data.size());
    choices_.is_received.resize(graphs.front().data.size());
  }

  ScheduleChoices Read() {
    for (const ScheduleRound& round : schedule::RoundsOf(schedule_)) {
      ++round_;
      times_ = static_cast<double>(round.times);
      graph_ = schedule::GraphOf(graphs_, round);
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
      for (const std::size_t data : graph::ChangesOf(task)) choices_.changed_by_host[data] = true;
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

// Returns the choices of a schedule that is valid for these graphs. O(steps + uses).
ScheduleChoices ChoicesOf(absl::Span<const TaskGraph> graphs, const Schedule& schedule) {
  return ChoiceReader(graphs, schedule).Read();
}

// A use of a datum by the task at a position.
struct UseAt {
  std::size_t position = 0;
  bool changes = false;
};

class BoundFinder {
 public:
  BoundFinder(absl::Span<const TaskGraph> graphs, const Schedule& schedule, const Machine& machine)
      : schedule_(schedule),
        device_(machine.devices.front()),
        link_(machine.links.front()),
        choices_(ChoicesOf(graphs, schedule)),
        graph_(choices_.order.empty() ? graphs.front() : *choices_.order.front().graph),
        uses_(graph_.data.size()),
        is_written_(graph_.data.size()),
        is_made_again_(graph_.data.size()) {
    if (choices_.device == kHostDevice) return;
    device_ = machine.devices[choices_.device];
    link_ = machine.links[device_.link];
    if (choices_.has_compressed_copies) CompressCopies();
  }

  double Find() {
    if (choices_.has_streams || device_.compute_streams > 1) {
      return std::max(choices_.round_seconds / static_cast<double>(device_.compute_streams),
                      LongestPath());
    }
    for (std::size_t k = 0; k < end(); ++k) AddTask(k);
    for (std::size_t data = 0; data < uses_.size(); ++data) {
      if (!uses_[data].empty()) AddData(data);
    }
    const double seconds =
        schedule::LeastSecondsOfTasks(tasks_, absences_, device_.memory_bytes, link_);
    return std::max(choices_.round_seconds, seconds);
  }

 private:
  // Lets the link carry all data as if it had the least density of the schedule's copies. The host,
  // which compresses those of a pool, may do so at any rate.
  void CompressCopies() {
    if (schedule_.memory == ScheduleMemory::kPool) {
      link_.out_bytes_per_second = link_.in_bytes_per_second =
          std::numeric_limits<double>::infinity();
      return;
    }
    const double share = SentShare(choices_.least_density);
    const auto raise = [share](double& rate, double engine) {
      rate = std::max(rate, std::min(rate / share, engine));
    };
    raise(link_.out_bytes_per_second, device_.compressor.out_bytes_per_second);
    raise(link_.in_bytes_per_second, device_.compressor.in_bytes_per_second);
  }

  std::size_t end() const { return choices_.order.size(); }
  static bool BeginsOnHost(const GraphData& data) { return data.before == DataHome::kHost; }
  static bool EndsOnHost(const GraphData& data) { return data.after == DataHome::kHost; }

  // Returns the time of the longest path of tasks of which each uses data of the one before.
  double LongestPath() const {
    std::vector<double> changed(graph_.data.size());  // by data: the end of its last change
    double longest = 0;
    for (const auto& [index, graph] : choices_.order) {
      const GraphTask& task = graph->tasks[index];
      double end = 0;
      for (const std::size_t data : graph::UsesOf(task)) end = std::max(end, changed[data]);
      end += graph::LeastSeconds(task);
      for (const std::size_t data : graph::ChangesOf(task)) changed[data] = end;
      longest = std::max(longest, end);
    }
    return longest;
  }

  void AddTask(std::size_t k) {
    const GraphTask& task = choices_.order[k].graph->tasks[choices_.order[k].task];
    tasks_.push_back({.seconds = graph::LeastSeconds(task),
                      .own_bytes = task.algorithms.front().workspace_bytes});
    for (const std::size_t data : graph::UsesOf(task)) {
      tasks_[k].own_bytes += graph_.data[data].bytes;
    }
    for (const std::size_t data : task.reads) uses_[data].push_back({k, false});
    for (const std::size_t data : graph::ChangesOf(task)) uses_[data].push_back({k, true});
    for (const std::size_t data : task.writes) {
      is_written_[data] = true;
      is_made_again_[data] = choices_.has_reruns && task.may_rerun;
    }
  }

  // Adds the absences of a datum that must be somewhere while no task uses it.
  void AddData(std::size_t data) {
    if (choices_.is_received[data]) return;  // without the link
    const GraphData& datum = graph_.data[data];
    const bool is_given = !is_written_[data] && ExistsBefore(datum);
    if (is_given && BeginsOnHost(datum)) {
      tasks_[uses_[data].front().position].arriving_bytes += datum.bytes;
    }
    if (choices_.changed_by_host[data]) return;
    if (!is_made_again_[data]) AddGaps(data, is_given);
    if (EndsOnHost(datum)) AddLastGap(data, is_given && BeginsOnHost(datum));
  }

  // Adds the absences before and between the uses, and the last one of data that ends on the
  // device.
  void AddGaps(std::size_t data, bool is_given) {
    const GraphData& datum = graph_.data[data];
    Absence absence = {.bytes = datum.bytes, .is_clean = is_given && BeginsOnHost(datum)};
    const bool is_shared = schedule_.devices > 1 && schedule::IsShared(datum);
    if (is_shared) absence.is_clean = true;
    // A schedule may allocate an input that begins on the device just before its first use.
    const bool may_come_late = !BeginsOnHost(datum) && datum.after == DataHome::kNowhere;
    absence.begin = is_given && !may_come_late ? 0 : uses_[data].front().position;
    for (const UseAt& use : uses_[data]) {
      AddAbsence(absence, use.position);
      absence.begin = use.position + 1;
      if (!use.changes) continue;
      absence.written = use.position + 1;
      absence.is_clean = is_shared;
    }
    if (datum.after == DataHome::kDevice) AddAbsence(absence, end());
  }

  // Adds the absence after the last use of data that ends on the host.
  void AddLastGap(std::size_t data, bool was_on_host) {
    const auto& uses = uses_[data];
    Absence absence = {.begin = is_made_again_[data] ? end() : uses.back().position + 1,
                       .bytes = graph_.data[data].bytes,
                       .is_clean = was_on_host};
    for (const UseAt& use : uses) {
      if (use.changes) absence = {absence.begin, 0, use.position + 1, absence.bytes, false};
    }
    AddAbsence(absence, end() + 1);
  }

  void AddAbsence(Absence absence, std::size_t absence_end) {
    absence.end = absence_end;
    if (absence.begin < absence.end) absences_.push_back(absence);
  }

  const Schedule& schedule_;
  MachineDevice device_;
  MachineLink link_;
  const ScheduleChoices choices_;
  const TaskGraph& graph_;  // of the round of the first task; later tasks use data of one size
  std::vector<std::vector<UseAt>> uses_;  // by data
  std::vector<bool> is_written_;
  std::vector<bool> is_made_again_;
  std::vector<TaskInOrder> tasks_;
  std::vector<Absence> absences_;
};

}  // namespace

double LowerBoundSeconds(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                         const Machine& machine) {
  return BoundFinder(graphs, schedule, machine).Find();
}

}  // namespace tidepool
