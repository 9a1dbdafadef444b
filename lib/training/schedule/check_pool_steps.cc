// SPDX-License-Identifier: Apache-2.0
// Checks the schedules of a pool: walks through the steps in order and keeps the state of all data.
// The validity of a schedule does not depend on times.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/graph/task_uses.h"
#include "lib/training/schedule/begin_on_host.h"
#include "lib/training/schedule/check_numbers.h"
#include "lib/training/schedule/check_steps.h"
#include "lib/training/schedule/step_text.h"
#include "lib/training/schedule/visit_step.h"

namespace tidepool::schedule {
namespace {

constexpr std::size_t kNotYet = std::numeric_limits<std::size_t>::max();

class PoolCheck {
 public:
  PoolCheck(const TaskGraph& graph, const Schedule& schedule)
      : graph_(graph),
        schedule_(schedule),
        steps_(schedule.steps),
        data_(graph.data.size()),
        ran_at_(graph.tasks.size(), kNotYet) {
    for (const GraphTask& task : graph.tasks) CountUses(task);
    for (std::size_t i = 0; i < data_.size(); ++i) {
      data_[i].is_written = ExistsBefore(graph.data[i]);
    }
    // The gradient of a weight may have memory before, but has no value of this iteration.
    for (const GraphTask& task : graph.tasks) {
      for (const std::size_t data : task.writes) data_[data].is_written = false;
    }
    const std::vector<bool> are_on_host = BeginOnHost(graph);
    for (std::size_t i = 0; i < data_.size(); ++i) {
      if (!are_on_host[i]) continue;
      data_[i].location = Location::kSentOut;
      data_[i].since = kNotYet;
    }
  }

  absl::Status Check() {
    for (at_ = 0; at_ < steps_.size(); ++at_) {
      absl::Status status = CheckNumbers(graph_, schedule_, at_);
      if (status.ok()) status = VisitStep(steps_[at_], *this);
      if (!status.ok()) return status;
    }
    return CheckEnd();
  }

  // Number of the step with the fault, or of all steps.
  std::size_t at() const { return at_; }

  // The steps, for VisitStep.
  absl::Status Allocate(const ScheduleStep& step) {
    const std::size_t data = step.index;
    const Datum& datum = data_[data];
    if (datum.location == Location::kSentOut && datum.since == kNotYet) {
      return Wrong("the data begins on the host, expected a prefetch");
    }
    if (datum.location != Location::kNowhere) {
      return Wrong("the data", Past(datum), ", expected one allocation of all data");
    }
    Move(data, Location::kDevice);
    return absl::OkStatus();
  }

  absl::Status Free(const ScheduleStep& step) {
    const std::size_t data = step.index;
    if (absl::Status status = CheckIsAlive(data); !status.ok()) return status;
    if (ExistsAfter(graph_.data[data])) {
      return Wrong("of the kind ", std::string(DataKindName(graph_.data[data].kind)),
                   ", which exists after the iteration, expected it to stay");
    }
    const Datum& datum = data_[data];
    if (!datum.is_written || datum.done < datum.uses) {
      return Wrong("task ", TaskName(NextUser(data)), " needs the data later, expected it to stay");
    }
    Move(data, Location::kFreed);
    return absl::OkStatus();
  }

  absl::Status Run(const ScheduleStep& step) {
    const std::size_t index = step.index;
    const GraphTask& task = graph_.tasks[index];
    if (ran_at_[index] != kNotYet) {
      return Wrong("the task ran at step ", ran_at_[index], ", expected each task once");
    }
    std::size_t need = first_need_[index];
    for (const std::size_t data : graph::InputsOf(task)) {
      if (absl::Status status = CheckUse(data, needs_[need++]); !status.ok()) {
        return status;
      }
    }
    for (const std::size_t data : task.writes) {
      if (absl::Status status = CheckIsOnDevice(data, "writes"); !status.ok()) return status;
    }
    for (const std::size_t data : task.reads) ++data_[data].done;
    for (const std::size_t data : task.updates) ++data_[data].done;
    for (const std::size_t data : task.writes) data_[data].is_written = true;
    ran_at_[index] = at_;
    return absl::OkStatus();
  }

  absl::Status Offload(const ScheduleStep& step) {
    const std::size_t data = step.index;
    const Datum& datum = data_[data];
    if (datum.location != Location::kDevice) {
      return Wrong("the data", Past(datum), ", expected data on the device");
    }
    if (!datum.is_written) {
      return Wrong("task ", TaskName(NextUser(data)),
                   " writes the data later, expected data that is written");
    }
    Move(data, Location::kSentOut);
    return absl::OkStatus();
  }

  absl::Status Await(const ScheduleStep& step) const { return CheckIsAlive(step.index); }

  absl::Status Prefetch(const ScheduleStep& step) {
    const std::size_t data = step.index;
    if (absl::Status status = CheckIsAlive(data); !status.ok()) return status;
    if (data_[data].location == Location::kSentOut) Move(data, Location::kDevice);
    return absl::OkStatus();
  }

  static absl::Status Synchronize() { return absl::OkStatus(); }

 private:
  enum class Location : std::uint8_t { kNowhere, kDevice, kSentOut, kFreed };

  struct Datum {
    Location location = Location::kNowhere;
    bool is_written = false;
    std::size_t since = 0;   // the step that brought it into its state
    std::size_t uses = 0;    // tasks that read or update it
    std::size_t done = 0;    // tasks among these that ran
    std::size_t update = 0;  // uses up to the last update, while uses are counted
  };

  // Counts the uses that must come before each task's own. A reader comes after the updates before
  // it, and an update after all uses before it. If each task that ran kept to that, a task may run
  // exactly when as many uses have run.
  void CountUses(const GraphTask& task) {
    first_need_.push_back(needs_.size());
    for (const std::size_t data : task.reads) {
      needs_.push_back(data_[data].update);
      ++data_[data].uses;
    }
    for (const std::size_t data : task.updates) {
      needs_.push_back(data_[data].uses);
      data_[data].update = ++data_[data].uses;
    }
  }

  template <typename... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return WrongStep(graph_, schedule_, at_, parts...);
  }

  std::string TaskName(std::size_t task) const { return schedule::TaskName(graph_, task); }
  std::string DataName(std::size_t data) const { return schedule::DataName(graph_, data); }

  // Returns " was ... at step N".
  std::string Past(const Datum& datum) const {
    switch (datum.location) {
      case Location::kNowhere:
        return " was not allocated";
      case Location::kDevice:
        return absl::StrCat(" is on the device since step ", datum.since);
      case Location::kSentOut:
        if (datum.since == kNotYet) return " begins on the host";
        return absl::StrCat(" was sent out at step ", datum.since);
      case Location::kFreed:
        break;
    }
    return absl::StrCat(" was freed at step ", datum.since);
  }

  void Move(std::size_t data, Location location) {
    data_[data].location = location;
    data_[data].since = at_;
  }

  absl::Status CheckIsAlive(std::size_t data) const {
    const Datum& datum = data_[data];
    if (datum.location == Location::kDevice || datum.location == Location::kSentOut)
      return absl::OkStatus();
    return Wrong("the data", Past(datum), ", expected data that is allocated");
  }

  absl::Status CheckIsOnDevice(std::size_t data, const char* verb) const {
    const Datum& datum = data_[data];
    if (datum.location == Location::kDevice) return absl::OkStatus();
    return Wrong("data ", DataName(data), ", which the task ", verb, ",", Past(datum),
                 ", expected it on the device or being fetched");
  }

  absl::Status CheckUse(std::size_t data, std::size_t need) const {
    if (absl::Status status = CheckIsOnDevice(data, "uses"); !status.ok()) return status;
    const Datum& datum = data_[data];
    if (!datum.is_written || datum.done < need) {
      return Wrong("data ", DataName(data), " is not ready, expected task ",
                   TaskName(NextUser(data)), " before");
    }
    return absl::OkStatus();
  }

  // Returns the first task that has not run and that uses `data`; there is such a task. All tasks
  // that it depends on come before it in the graph.
  std::size_t NextUser(std::size_t data) const {
    std::size_t task = 0;
    while (ran_at_[task] != kNotYet || !Uses(graph_.tasks[task], data)) ++task;
    return task;
  }

  static bool Uses(const GraphTask& task, std::size_t data) {
    for (const auto* uses : {&task.writes, &task.updates, &task.reads}) {
      if (std::find(uses->begin(), uses->end(), data) != uses->end()) return true;
    }
    return false;
  }

  absl::Status CheckEnd() const {
    for (std::size_t i = 0; i < ran_at_.size(); ++i) {
      if (ran_at_[i] == kNotYet) return WrongAtEnd("task ", TaskName(i), " did not run");
    }
    for (std::size_t i = 0; i < data_.size(); ++i) {
      const Location location = data_[i].location;
      if (ExistsAfter(graph_.data[i])) {
        const bool ends_on_host = graph_.data[i].after == DataHome::kHost;
        if (location == (ends_on_host ? Location::kSentOut : Location::kDevice)) continue;
        return WrongAtEnd(std::string(DataKindName(graph_.data[i].kind)), " ", DataName(i),
                          Past(data_[i]));
      }
      if (location != Location::kFreed) {
        return WrongAtEnd("data ", DataName(i),
                          location == Location::kNowhere ? Past(data_[i]) : " is not freed");
      }
    }
    return absl::OkStatus();
  }

  template <typename... Parts>
  absl::Status WrongAtEnd(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "after the last step, ", steps_.size() - (steps_.empty() ? 0 : 1), ": ", parts...,
        ", expected all tasks to have run, weights and other data that stays on the device, or "
        "sent out if its home is the host, and the rest freed"));
  }

  const TaskGraph& graph_;
  const Schedule& schedule_;
  const std::vector<ScheduleStep>& steps_;
  std::vector<Datum> data_;
  std::vector<std::size_t> ran_at_;  // steps, by task
  // By task, in the order of its reads and updates: the number of earlier uses of the data.
  std::vector<std::size_t> first_need_;
  std::vector<std::size_t> needs_;
  std::size_t at_ = 0;
};

}  // namespace

absl::Status CheckPoolSteps(const TaskGraph& graph, const Schedule& schedule, std::size_t* at) {
  PoolCheck check(graph, schedule);
  absl::Status status = check.Check();
  *at = check.at();
  return status;
}

}  // namespace tidepool::schedule
