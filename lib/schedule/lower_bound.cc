// SPDX-License-Identifier: Apache-2.0
// Sums over the walk through the tasks of a schedule: seconds, live bytes, and bytes that must
// cross the link.
#include "tidepool/schedule/lower_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "lib/schedule/data_places.h"
#include "lib/schedule/schedule_choices.h"

namespace tidepool {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// The life of a datum: positions in the order of the tasks. Its length is the position after the
// last task.
struct DataLife {
  std::size_t begin = kNever;  // where it is written; 0 for data that exists before
  std::size_t end = 0;         // one after the last position where it must be somewhere
  std::size_t first_use = kNever;
  std::size_t last_use = 0;
  std::size_t first_change = kNever;
  std::size_t last_change = kNever;
  std::size_t clean_end = 0;  // until here the host has a copy since the begin
  bool is_used = false;
  bool is_counted = false;  // must be somewhere from begin to end, and not only where it is used
};

// Bytes at one position of the order.
struct BytesAt {
  std::int64_t live = 0;      // all data that must be somewhere, and the workspace
  std::int64_t own = 0;       // the part that the task itself uses
  std::int64_t clean = 0;     // the part with a copy on the host since the begin
  std::int64_t past = 0;      // the part that the device does not use later
  std::int64_t home_in = 0;   // has come from the host before the task
  std::int64_t home_out = 0;  // goes home to the host after the task
};

class BoundFinder {
 public:
  BoundFinder(absl::Span<const TaskGraph> graphs, const Schedule& schedule, const Machine& machine)
      : schedule_(schedule),
        device_(machine.devices.front()),
        link_(machine.links.front()),
        choices_(schedule::ChoicesOf(graphs, schedule)),
        graph_(choices_.order.empty() ? graphs.front() : *choices_.order.front().graph),
        lives_(graph_.data.size()),
        changes_(choices_.order.size() + 1) {
    if (choices_.device == kHostDevice) return;
    device_ = machine.devices[choices_.device];
    link_ = machine.links[device_.link];
    if (!choices_.has_compressed_copies) return;
    link_.in_bytes_per_second = link_.out_bytes_per_second =
        std::numeric_limits<double>::infinity();
  }

  double Find() {
    const std::vector<TaskBounds> tasks = BoundsOfTasks();
    if (choices_.has_streams) {
      return choices_.round_seconds / static_cast<double>(device_.compute_streams);
    }
    // The least time after each task, from the last one on.
    std::vector<double> after(tasks.size());
    for (std::size_t k = tasks.size(); k-- > 0;) {
      const double rest = k + 1 < tasks.size() ? tasks[k + 1].seconds + after[k + 1] : 0;
      after[k] = std::max(rest, tasks[k].copies_after);
    }
    double bound = choices_.round_seconds;
    double end = 0;
    for (std::size_t k = 0; k < tasks.size(); ++k) {
      end = std::max(end, tasks[k].copies_before) + tasks[k].seconds;
      bound = std::max(bound, end + after[k]);
    }
    return bound;
  }

 private:
  // The least time of a task, and of the copies that end before it or begin after it.
  struct TaskBounds {
    double seconds = 0;
    double copies_before = 0;
    double copies_after = 0;
  };

  std::vector<TaskBounds> BoundsOfTasks() {
    for (std::size_t k = 0; k < choices_.order.size(); ++k) NoteUses(k);
    for (std::size_t data = 0; data < lives_.size(); ++data) AddLife(data);
    std::vector<TaskBounds> bounds;
    bounds.reserve(choices_.order.size());
    BytesAt sums;
    for (std::size_t k = 0; k < choices_.order.size(); ++k) {
      AddTo(sums, changes_[k]);
      bounds.push_back(BoundsAt(k, WithTask(k, sums)));
    }
    return bounds;
  }

  const GraphTask& TaskAt(std::size_t k) const {
    return choices_.order[k].graph->tasks[choices_.order[k].task];
  }

  void NoteUses(std::size_t k) {
    const GraphTask& task = TaskAt(k);
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (const std::size_t data : *uses) {
        DataLife& life = lives_[data];
        life.first_use = std::min(life.first_use, k);
        life.last_use = k;
        life.is_used = true;
        if (uses == &task.reads) continue;
        life.first_change = std::min(life.first_change, k);
        life.last_change = k;
      }
    }
    for (const std::size_t data : task.writes) {
      lives_[data].begin = k;
      lives_[data].is_counted = !(choices_.has_reruns && task.may_rerun);
    }
  }

  static bool BeginsOnHost(const GraphData& data) { return data.before == DataHome::kHost; }
  static bool EndsOnHost(const GraphData& data) { return data.after == DataHome::kHost; }

  bool IsShared(const GraphData& data) const {
    return schedule_.devices > 1 && schedule::IsShared(data);
  }

  // Finds the positions where the datum must be somewhere, and adds its bytes to the sums there.
  void AddLife(std::size_t data) {
    const GraphData& datum = graph_.data[data];
    DataLife& life = lives_[data];
    if (!life.is_used) return;
    const bool is_given = life.begin == kNever && ExistsBefore(datum);
    if (is_given) {
      life.begin = 0;
      life.is_counted = true;
    }
    AddHome(data, is_given);
    if (choices_.changed_by_host[data]) life.is_counted = false;
    if (!life.is_counted) return;
    life.end = ExistsAfter(datum) ? choices_.order.size() : life.last_use + 1;
    const std::size_t stale =
        life.first_change == kNever ? life.end : std::min(life.end, life.first_change + 1);
    if (is_given && BeginsOnHost(datum)) life.clean_end = stale;
    if (IsShared(datum)) life.clean_end = life.end;
    Add(datum.bytes, life.begin, life.end, &BytesAt::live);
    Add(datum.bytes, life.begin, life.clean_end, &BytesAt::clean);
    if (EndsOnHost(datum)) Add(datum.bytes, life.last_use + 1, life.end, &BytesAt::past);
  }

  // Adds bytes to a sum at the positions [begin, end).
  void Add(std::int64_t bytes, std::size_t begin, std::size_t end, std::int64_t BytesAt::*sum) {
    if (begin >= end) return;
    changes_[begin].*sum += bytes;
    changes_[end].*sum -= bytes;
  }

  // Adds the copies between the device and a home on the host.
  void AddHome(std::size_t data, bool is_given) {
    const GraphData& datum = graph_.data[data];
    const DataLife& life = lives_[data];
    if (is_given && BeginsOnHost(datum)) {
      Add(datum.bytes, life.first_use, choices_.order.size(), &BytesAt::home_in);
    }
    if (!EndsOnHost(datum) || life.last_change == kNever || choices_.changed_by_host[data]) return;
    Add(datum.bytes, 0, life.last_change + 1, &BytesAt::home_out);
  }

  static void AddTo(BytesAt& sums, const BytesAt& change) {
    sums.live += change.live;
    sums.clean += change.clean;
    sums.past += change.past;
    sums.home_in += change.home_in;
    sums.home_out += change.home_out;
  }

  // Adds the workspace and the data of the task itself, which can be nowhere else.
  BytesAt WithTask(std::size_t k, BytesAt bytes) const {
    const GraphTask& task = TaskAt(k);
    bytes.own = task.algorithms.front().workspace_bytes;
    bytes.live += bytes.own;
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (const std::size_t data : *uses) AddOwn(k, data, bytes);
    }
    return bytes;
  }

  void AddOwn(std::size_t k, std::size_t data, BytesAt& bytes) const {
    const std::int64_t size = graph_.data[data].bytes;
    const DataLife& life = lives_[data];
    bytes.own += size;
    if (!life.is_counted) bytes.live += size;
    if (k < life.clean_end) bytes.clean -= size;
  }

  TaskBounds BoundsAt(std::size_t k, const BytesAt& bytes) const {
    const std::int64_t excess = bytes.live - device_.memory_bytes;
    const std::int64_t away = std::min(excess, bytes.live - bytes.own);
    return {schedule::LeastSeconds(TaskAt(k)), SecondsOf(away - bytes.clean, bytes.home_in),
            SecondsOf(bytes.home_out, away - bytes.past)};
  }

  // Returns the time of copies in both directions.
  double SecondsOf(std::int64_t out, std::int64_t in) const {
    const double out_seconds = CopySeconds(out, link_.out_bytes_per_second);
    const double in_seconds = CopySeconds(in, link_.in_bytes_per_second);
    return link_.full_duplex ? std::max(out_seconds, in_seconds) : out_seconds + in_seconds;
  }
  double CopySeconds(std::int64_t bytes, double rate) const {
    return bytes <= 0 ? 0 : link_.latency_seconds + static_cast<double>(bytes) / rate;
  }

  const Schedule& schedule_;
  MachineDevice device_;
  MachineLink link_;
  const schedule::ScheduleChoices choices_;
  const TaskGraph& graph_;       // of the round of the first task; later tasks use data of one size
  std::vector<DataLife> lives_;  // by data
  std::vector<BytesAt> changes_;  // by position
};

}  // namespace

double LowerBoundSeconds(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                         const Machine& machine) {
  return BoundFinder(graphs, schedule, machine).Find();
}

}  // namespace tidepool
