// SPDX-License-Identifier: Apache-2.0
// Random valid schedules with pages or fixed addresses, and randomly changed ones. The generator
// tries steps on the slow model, so that it knows no rules itself.
#ifndef TIDEPOOL_TESTS_TRAINING_SCHEDULE_RANDOM_DEVICE_SCHEDULE_H_
#define TIDEPOOL_TESTS_TRAINING_SCHEDULE_RANDOM_DEVICE_SCHEDULE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/training/graph/random_graph.h"
#include "tests/training/schedule/slow_device_schedule.h"

namespace tidepool::testing {

// A chain of layers with a forward, a backward and an update task each. Some activate in place,
// keep statistics, have momentum, or may run again; homes differ. Data has 1 to 4 bytes.
class RandomTraining {
 public:
  explicit RandomTraining(RandomGraphs& random) : random_(random) {}

  TaskGraph Make(std::size_t layers) {
    graph_.name = "training";
    graph_.batch = 1;
    weights_home_ = random_.Chance(0.7) ? DataHome::kDevice : DataHome::kHost;
    std::size_t x = Add("x", DataKind::kInput);
    graph_.data[x].before = random_.Chance(0.7) ? DataHome::kHost : DataHome::kDevice;
    std::vector<std::size_t> outputs = {x};
    std::vector<std::size_t> weights;
    for (std::size_t i = 0; i < layers; ++i) {
      weights.push_back(Add(Name("w", i), DataKind::kWeight));
      outputs.push_back(Add(Name("y", i), DataKind::kActivation));
      AddForward(i, outputs[i], weights[i], outputs[i + 1]);
    }
    std::size_t slope = outputs.back();
    for (std::size_t i = layers; i-- > 0;) slope = AddBackward(i, outputs[i], weights[i], slope);
    return std::move(graph_);
  }

 private:
  static std::string Name(const char* name, std::size_t i) { return name + std::to_string(i); }

  std::size_t Add(const std::string& name, DataKind kind) {
    GraphData data = {name, static_cast<std::int64_t>(1 + random_.Below(4)), kind};
    if (data.before == DataHome::kDevice) data.before = data.after = weights_home_;
    if (kind == DataKind::kInput) data.after = DataHome::kNowhere;
    graph_.data.push_back(data);
    return graph_.data.size() - 1;
  }

  void AddTask(GraphTask task) {
    task.algorithms = {{"a", 1, 0}};
    if (random_.Chance(0.3)) task.algorithms.push_back({"b", 0.5, 3});
    task.may_rerun =
        task.updates.empty() && task.phase != TaskPhase::kUpdate && random_.Chance(0.6);
    graph_.tasks.push_back(std::move(task));
  }

  void AddForward(std::size_t i, std::size_t x, std::size_t weight, std::size_t y) {
    GraphTask task = {.name = Name("forward", i), .reads = {x, weight}, .writes = {y}};
    if (random_.Chance(0.2)) {
      task.updates.push_back(Add(Name("statistics", i), DataKind::kWeight));
    }
    AddTask(task);
    if (random_.Chance(0.3)) AddTask({.name = Name("activate", i), .updates = {y}});
  }

  std::size_t AddBackward(std::size_t i, std::size_t x, std::size_t weight, std::size_t slope) {
    const std::size_t dx = Add(Name("dx", i), DataKind::kGradient);
    const std::size_t dw = Add(Name("dw", i), DataKind::kWeightGradient);
    AddTask({.name = Name("weights", i),
             .phase = TaskPhase::kBackward,
             .reads = {x, slope},
             .writes = {dw}});
    AddTask({.name = Name("data", i),
             .phase = TaskPhase::kBackward,
             .reads = {weight, slope},
             .writes = {dx}});
    if (random_.Chance(0.2)) {
      AddTask(
          {.name = Name("more", i), .phase = TaskPhase::kBackward, .reads = {x}, .updates = {dw}});
    }
    GraphTask update = {
        .name = Name("update", i), .phase = TaskPhase::kUpdate, .reads = {dw}, .updates = {weight}};
    if (random_.Chance(0.3)) {
      update.updates.push_back(Add(Name("momentum", i), DataKind::kOptimizerState));
    }
    if (random_.Chance(0.9)) AddTask(update);
    return dx;
  }

  RandomGraphs& random_;
  TaskGraph graph_;
  DataHome weights_home_ = DataHome::kDevice;
};

class RandomDeviceSchedules {
 public:
  RandomDeviceSchedules(const TaskGraph& graph, RandomGraphs& random, ScheduleMemory memory,
                        std::size_t devices)
      : graph_(graph), random_(random), model_(graph, EmptySchedule(graph, memory, devices)) {
    for (std::size_t device = 0; device < devices; ++device) devices_.push_back(device);
    model_.UseDevices(devices_);
  }

  // Returns a valid schedule, or nothing if the generator lost data that it needs. May be called
  // once.
  std::optional<Schedule> Valid(std::size_t rounds) {
    restlessness_ = static_cast<double>(random_.Below(4)) * 0.25;
    for (std::size_t round = 0; round < rounds; ++round) {
      is_last_ = round + 1 == rounds;
      const std::size_t first = schedule_.steps.size();
      model_.StartPass(round == 0);
      const auto before = model_.StateBetweenRounds();
      if (!RunRound() || !model_.EndPass(is_last_, is_last_)) return std::nullopt;
      ScheduleRound& added = schedule_.rounds.emplace_back();
      added = {first, schedule_.steps.size() - first};
      if (!is_last_ && model_.StateBetweenRounds() == before) {
        repeat_.push_back(round);
        added.times = 1 + static_cast<std::int64_t>(random_.Below(3));
        // The model has performed it once.
        for (std::int64_t i = 1; i < added.times; ++i) Repeat(added);
      }
    }
    if (rounds == 1 && random_.Chance(0.5)) schedule_.rounds.clear();
    return schedule_;
  }

  // Breaks something, as a rule.
  static void Change(const TaskGraph& graph, RandomGraphs& random, Schedule& schedule) {
    std::vector<ScheduleStep>& steps = schedule.steps;
    const auto at = static_cast<std::ptrdiff_t>(random.Below(steps.size()));
    ScheduleStep& step = steps[static_cast<std::size_t>(at)];
    switch (random.Below(8)) {
      case 0:
        steps.erase(steps.begin() + at);
        return Resize(schedule, at, -1);
      case 1:
        steps.insert(steps.begin() + at, steps[random.Below(steps.size())]);
        return Resize(schedule, at, 1);
      case 2:
        return std::swap(step, steps[random.Below(steps.size())]);
      case 3:
        step.index = random.Below(graph.data.size() + 1);
        return;
      case 4:
        step.kind = static_cast<StepKind>(random.Below(9));
        return;
      case 5:
        step.device = random.Chance(0.3) ? kHostDevice : random.Below(schedule.devices + 1);
        return;
      case 6:
        step.begin = static_cast<std::int64_t>(random.Below(4)) - 1;
        step.end = static_cast<std::int64_t>(random.Below(6)) - 1;
        return;
      default:
        if (!schedule.rounds.empty()) {
          schedule.rounds[random.Below(schedule.rounds.size())].times =
              1 + static_cast<std::int64_t>(random.Below(3));
        }
        return;
    }
  }

 private:
  const Schedule& EmptySchedule(const TaskGraph& graph, ScheduleMemory memory,
                                std::size_t devices) {
    schedule_.policy = "random";
    schedule_.fingerprint = GraphFingerprint(graph);
    schedule_.memory = memory;
    schedule_.alignment = 1;
    schedule_.devices = devices;
    return schedule_;
  }

  static void Resize(Schedule& schedule, std::ptrdiff_t at, int by) {
    for (ScheduleRound& round : schedule.rounds) {
      const auto first = static_cast<std::ptrdiff_t>(round.first_step);
      const auto end = first + static_cast<std::ptrdiff_t>(round.steps);
      if (first > at) round.first_step += static_cast<std::size_t>(by);
      if (first <= at && at < end) round.steps += static_cast<std::size_t>(by);
    }
  }

  bool IsFixed() const { return schedule_.memory == ScheduleMemory::kFixed; }
  bool Chance(double probability) { return random_.Chance(probability); }

  bool Try(ScheduleStep step) {
    if (!model_.Perform(step, is_last_, 1)) return false;
    schedule_.steps.push_back(step);
    return true;
  }

  void Repeat(const ScheduleRound& round) {
    model_.StartPass(false);
    for (std::size_t i = 0; i < round.steps; ++i) {
      model_.Perform(schedule_.steps[round.first_step + i], false, round.times);
    }
    model_.EndPass(false, false);
  }

  bool IsThere(std::size_t device, std::size_t data) {
    for (const auto& one : model_.At(device, data).device) {
      if (!one.has_value()) return false;
    }
    return true;
  }
  bool IsAway(std::size_t device, std::size_t data) {
    for (const auto& one : model_.At(device, data).device) {
      if (one.has_value()) return false;
    }
    return true;
  }

  bool Move(StepKind kind, std::size_t device, std::size_t data, std::int64_t begin = 0,
            std::int64_t end = -1) {
    ScheduleStep step = {.kind = kind, .index = data};
    step.device = device;
    step.begin = begin;
    step.end = end;
    const bool takes = kind == StepKind::kAllocate || kind == StepKind::kPrefetch;
    if (IsFixed() && takes) {
      const std::int64_t offset = model_.At(device, data).offset;
      // Weights come back to one offset, so that rounds may be repeated.
      step.offset = offset >= 0 ? offset : Chance(0.1) ? 7 : static_cast<std::int64_t>(data);
    }
    return Try(step);
  }

  bool DropAll(std::size_t device, std::size_t data) {
    for (std::int64_t i = 0; i < graph_.data[data].bytes; ++i) {
      if (!model_.At(device, data).device[static_cast<std::size_t>(i)].has_value()) continue;
      if (!Move(StepKind::kDrop, device, data, i, i + 1)) return false;
    }
    return true;
  }

  bool RunTask(std::size_t device, std::size_t task) {
    ScheduleStep step = {.kind = StepKind::kRun, .index = task};
    step.algorithm = random_.Below(graph_.tasks[task].algorithms.size());
    step.device = device;
    if (IsFixed() && device != kHostDevice &&
        graph_.tasks[task].algorithms[step.algorithm].workspace_bytes > 0) {
      step.offset = static_cast<std::int64_t>(random_.Below(100));
    }
    return Try(step);
  }

  std::optional<std::size_t> WriterOf(std::size_t data) const {
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      if (Holds(graph_.tasks[task].writes, data)) return task;
    }
    return std::nullopt;
  }

  // Copies in the missing bytes, as a whole or byte by byte.
  bool Fetch(std::size_t device, std::size_t data) {
    if (IsAway(device, data) && Chance(0.7)) return Move(StepKind::kPrefetch, device, data);
    for (std::int64_t i = 0; i < graph_.data[data].bytes; ++i) {
      if (model_.At(device, data).device[static_cast<std::size_t>(i)].has_value()) continue;
      if (!Move(StepKind::kPrefetch, device, data, i, i + 1)) return false;
    }
    return true;
  }

  bool Bring(std::size_t device, std::size_t data, int depth = 0) {
    const bool begins_there = graph_.data[data].before == DataHome::kDevice;
    if (begins_there && !model_.At(device, data).began && WriterOf(data) == std::nullopt) {
      return Move(StepKind::kAllocate, device, data) && Bring(device, data, depth + 1);
    }
    if (IsThere(device, data) || Fetch(device, data)) return true;
    if (!DropAll(device, data)) return false;
    if (Fetch(device, data)) return true;
    const std::optional<std::size_t> writer = WriterOf(data);
    if (!writer.has_value() || !model_.HasRun(device, *writer)) {
      return Move(StepKind::kAllocate, device, data);
    }
    return depth < 20 && Use(device, *writer, depth + 1) && RunTask(device, *writer);
  }

  // Brings all data of a task to the device.
  bool Use(std::size_t device, std::size_t task, int depth) {
    const GraphTask& one = graph_.tasks[task];
    for (const auto* uses : {&one.reads, &one.updates}) {
      for (const std::size_t data : *uses) {
        if (!Bring(device, data, depth)) return false;
      }
    }
    for (const std::size_t data : one.writes) {
      if (IsThere(device, data)) continue;
      const bool is_sum = graph_.data[data].kind == DataKind::kWeightGradient;
      if (is_sum && Fetch(device, data)) continue;
      if (!DropAll(device, data) || !Move(StepKind::kAllocate, device, data)) return false;
    }
    return true;
  }

  void MoveSomething(std::size_t device) {
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      if (Chance(0.3)) Move(StepKind::kFree, device, data);
      if (!Chance(restlessness_)) continue;
      const std::int64_t bytes = graph_.data[data].bytes;
      const auto begin = Chance(0.5) ? 0 : static_cast<std::int64_t>(random_.Below(bytes));
      if (Chance(0.7)) Move(StepKind::kOffload, device, data, begin);
      if (Chance(0.7)) Move(StepKind::kDrop, device, data, begin);
      if (Chance(0.2)) Bring(device, data);
    }
    if (Chance(0.05)) Try({.kind = StepKind::kSynchronize});
  }

  bool RunRound() {
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      if (!model_.IsUpdate(task)) {
        for (const std::size_t device : devices_) {
          MoveSomething(device);
          if (!Use(device, task, 0) || !RunTask(device, task)) return false;
        }
        continue;
      }
      if (is_last_ && !Update(task)) return false;
    }
    for (const std::size_t device : devices_) {
      for (std::size_t data = 0; data < graph_.data.size(); ++data) {
        if (!GoHome(device, data)) return false;
      }
    }
    return true;
  }

  bool Update(std::size_t task) {
    if (devices_.size() == 1 && Chance(0.7)) return Use(0, task, 0) && RunTask(0, task);
    for (const std::size_t device : devices_) {
      const GraphTask& one = graph_.tasks[task];
      for (const auto* uses : {&one.reads, &one.updates}) {
        for (const std::size_t data : *uses) {
          if (IsThere(device, data)) Move(StepKind::kOffload, device, data);
        }
      }
      for (const std::size_t data : one.writes) DropAll(device, data);
    }
    return RunTask(kHostDevice, task);
  }

  bool GoHome(std::size_t device, std::size_t data) {
    const bool stays = graph_.data[data].kind == DataKind::kWeight ||
                       graph_.data[data].kind == DataKind::kOptimizerState;
    if (is_last_ && graph_.data[data].after == DataHome::kHost) {
      if (IsThere(device, data)) Move(StepKind::kOffload, device, data);
      return DropAll(device, data);
    }
    if (stays && is_last_) {
      // The host may have updated it.
      if (!Bring(device, data)) return false;
      DropAll(device, data);
      return Bring(device, data);
    }
    if (stays) {
      if (Chance(0.8)) Bring(device, data);
      return true;
    }
    Move(StepKind::kFree, device, data);
    return true;
  }

  const TaskGraph& graph_;
  RandomGraphs& random_;
  Schedule schedule_;
  SlowDeviceSchedule model_;
  std::vector<std::size_t> devices_;
  std::vector<std::size_t> repeat_;
  double restlessness_ = 0;
  bool is_last_ = true;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_SCHEDULE_RANDOM_DEVICE_SCHEDULE_H_
