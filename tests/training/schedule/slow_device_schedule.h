// SPDX-License-Identifier: Apache-2.0
// A plain model of schedules with fixed addresses or pages. It performs every repetition of every
// round and keeps the contents of each byte on each device and on the host: the number of writes
// and updates that made it, counted over all rounds, and the passes that a sum has.
#ifndef TIDEPOOL_TESTS_TRAINING_SCHEDULE_SLOW_DEVICE_SCHEDULE_H_
#define TIDEPOOL_TESTS_TRAINING_SCHEDULE_SLOW_DEVICE_SCHEDULE_H_

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "tests/training/graph/slow_graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::testing {

class SlowDeviceSchedule {
 public:
  struct Contents {
    std::int64_t made_by = -1;  // -1: undefined
    std::set<std::int64_t> passes = {};

    friend bool operator==(const Contents&, const Contents&) = default;
  };
  using Bytes = std::vector<std::optional<Contents>>;  // no contents: no memory
  struct Place {
    Bytes device;
    Bytes host;
    std::int64_t offset = -1;
    bool began = false;
    bool freed = false;
    bool was_there = false;
  };

  SlowDeviceSchedule(const TaskGraph& graph, const Schedule& schedule)
      : graph_(graph), schedule_(schedule) {
    std::set<std::size_t> devices;
    for (const ScheduleStep& step : schedule.steps) {
      if (step.device != kHostDevice && step.kind != StepKind::kSynchronize) {
        devices.insert(step.device);
      }
    }
    if (devices.empty()) devices.insert(0);
    devices_.assign(devices.begin(), devices.end());
    const std::size_t count = std::max<std::size_t>(devices_.back() + 1, schedule.devices);
    places_.assign(count, std::vector<Place>(graph.data.size()));
    ran_.assign(count, std::vector<bool>(graph.tasks.size()));
    passes_.assign(count, 0);
  }

  // Uses these devices, although no step names them yet.
  void UseDevices(const std::vector<std::size_t>& devices) { devices_ = devices; }

  bool IsValid() {
    if (!NumbersAreValid()) return false;
    std::vector<ScheduleRound> rounds = schedule_.rounds;
    if (rounds.empty()) rounds = {{0, schedule_.steps.size()}};
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const bool is_last = i + 1 == rounds.size();
      for (std::int64_t time = 0; time < rounds[i].times; ++time) {
        StartPass(i == 0 && time == 0);
        const auto before = StateBetweenRounds();
        for (std::size_t j = 0; j < rounds[i].steps; ++j) {
          if (!Perform(schedule_.steps[rounds[i].first_step + j], is_last, rounds[i].times)) {
            return false;
          }
        }
        const bool is_end = is_last && time + 1 == rounds[i].times;
        if (!EndPass(is_last, is_last && rounds[i].times == 1)) return false;
        if (rounds[i].times > 1 && StateBetweenRounds() != before) return false;
        if (is_end) return true;
      }
    }
    return true;
  }

  // The pieces of IsValid, for a generator that tries steps.
  void StartPass(bool is_first) {
    for (const std::size_t device : devices_) {
      ran_[device].assign(graph_.tasks.size(), false);
      for (std::size_t data = 0; data < graph_.data.size(); ++data) {
        StartData(device, data, is_first);
      }
    }
  }

  bool Perform(const ScheduleStep& step, bool is_last, std::int64_t times) {
    switch (step.kind) {
      case StepKind::kAllocate:
        return Allocate(step);
      case StepKind::kFree:
        return Free(step);
      case StepKind::kRun:
        return Run(step, is_last && times == 1);
      case StepKind::kOffload:
        return Offload(step);
      case StepKind::kPrefetch:
        return Prefetch(step);
      case StepKind::kDrop:
        return Drop(step);
      case StepKind::kSynchronize:
        return true;
      default:
        return false;
    }
  }

  bool EndPass(bool is_last, bool is_end) {
    for (const std::size_t device : devices_) {
      const bool ran = RanAny(device);
      const bool must_run = ran || (is_last && passes_[device] == 0);
      for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
        const bool wanted = IsUpdate(task) ? is_last : must_run;
        if (wanted && !HasRun(device, task)) return false;
      }
    }
    for (const std::size_t device : devices_) {
      for (std::size_t data = 0; data < graph_.data.size(); ++data) {
        if (!RanAny(device) && !Stays(data)) {
          if (!IsEmpty(places_[device][data].device)) return false;
          continue;
        }
        if (!is_end && !Stays(data) && graph_.data[data].after != DataHome::kHost &&
            !IsNowhere(device, data)) {
          return false;
        }
        const bool must_be_home =
            is_last || (!Stays(data) && graph_.data[data].after == DataHome::kHost);
        if (must_be_home && !IsHome(device, data)) return false;
      }
    }
    for (const std::size_t device : devices_) passes_[device] += RanAny(device) ? 1 : 0;
    return true;
  }

  // Returns for data that stays: which bytes are where, whether they are the latest, and from which
  // pass on they have a sum; and the offsets.
  std::vector<std::int64_t> StateBetweenRounds() {
    std::vector<std::int64_t> state;
    for (const std::size_t device : devices_) {
      for (std::size_t data = 0; data < graph_.data.size(); ++data) {
        if (!Stays(data)) continue;
        const Place& place = places_[device][data];
        const std::int64_t latest = MadeBefore(device, data);
        const Bytes& host = Host(device, data);
        for (const Bytes* bytes : {&place.device, &host}) {
          const bool is_host = bytes != &place.device;
          for (const std::optional<Contents>& one : *bytes) {
            const bool is_latest = one.has_value() && one->made_by == latest;
            if (!one.has_value() || (is_host && !is_latest)) {
              state.push_back(-2);
            } else if (!is_latest) {
              state.push_back(-1);
            } else {
              state.push_back(one->passes.empty() ? 0 : *one->passes.begin() + 1);
            }
          }
        }
        state.push_back(place.offset);
      }
    }
    return state;
  }

  const Place& At(std::size_t device, std::size_t data) const { return places_[device][data]; }
  Bytes& Host(std::size_t device, std::size_t data) {
    return places_[IsShared(data) ? 0 : device][data].host;
  }
  bool HasRun(std::size_t device, std::size_t task) const {
    return ran_[IsUpdate(task) ? devices_.front() : device][task];
  }
  bool IsUpdate(std::size_t task) const { return graph_.tasks[task].phase == TaskPhase::kUpdate; }

 private:
  bool NumbersAreValid() const {
    for (const ScheduleStep& step : schedule_.steps) {
      if (step.kind > StepKind::kDrop) return false;
      const bool is_task = step.kind == StepKind::kRun;
      if (step.device >= schedule_.devices && !(is_task && step.device == kHostDevice)) {
        return false;
      }
      const bool has_index = step.kind != StepKind::kSynchronize;
      if (has_index && step.index >= (is_task ? graph_.tasks.size() : graph_.data.size()))
        return false;
      if (is_task && step.algorithm >= graph_.tasks[step.index].algorithms.size()) return false;
      const bool has_range = step.kind == StepKind::kOffload || step.kind == StepKind::kPrefetch ||
                             step.kind == StepKind::kDrop;
      if (!has_range) {
        if (step.begin != 0 || step.end != -1) return false;
        continue;
      }
      const std::int64_t bytes = graph_.data[step.index].bytes;
      const std::int64_t end = step.end == -1 ? bytes : step.end;
      if (step.begin < 0 || step.begin >= end || end > bytes) return false;
    }
    return true;
  }

  bool IsShared(std::size_t data) const {
    const DataKind kind = graph_.data[data].kind;
    return kind == DataKind::kWeight || kind == DataKind::kOptimizerState;
  }
  bool IsSum(std::size_t data) const { return graph_.data[data].kind == DataKind::kWeightGradient; }
  bool Stays(std::size_t data) const { return IsShared(data) || IsSum(data); }
  std::optional<std::size_t> WriterOf(std::size_t data) const {
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      if (Holds(graph_.tasks[task].writes, data)) return task;
    }
    return std::nullopt;
  }

  // Returns the writes and updates of `data` by the first `tasks` tasks.
  std::int64_t Changes(std::size_t data, std::size_t tasks, bool with_updates) const {
    std::int64_t changes = 0;
    for (std::size_t task = 0; task < tasks; ++task) {
      if (!with_updates && IsUpdate(task)) continue;
      if (Holds(graph_.tasks[task].writes, data)) ++changes;
      if (Holds(graph_.tasks[task].updates, data)) ++changes;
    }
    return changes;
  }
  std::int64_t MadeBefore(std::size_t device, std::size_t data) const {
    if (graph_.data[data].kind == DataKind::kInput) return passes_[device] * 1000;
    return passes_[device] * Changes(data, graph_.tasks.size(), false);
  }
  std::int64_t NeedOf(std::size_t device, std::size_t data, std::size_t task) const {
    return MadeBefore(device, data) + Changes(data, task, true);
  }

  Bytes BytesOf(std::size_t data, const Contents& contents) const {
    return Bytes(static_cast<std::size_t>(graph_.data[data].bytes), contents);
  }
  Bytes NoBytes(std::size_t data) const {
    return Bytes(static_cast<std::size_t>(graph_.data[data].bytes));
  }
  static bool IsEmpty(const Bytes& bytes) {
    return std::none_of(bytes.begin(), bytes.end(),
                        [](const auto& one) { return one.has_value(); });
  }
  static bool AreAll(const Bytes& bytes, std::int64_t made_by) {
    return std::all_of(bytes.begin(), bytes.end(),
                       [&](const auto& one) { return one.has_value() && one->made_by == made_by; });
  }
  bool IsNowhere(std::size_t device, std::size_t data) const {
    const Place& place = places_[device][data];
    return IsEmpty(place.device) && IsEmpty(place.host);
  }

  void StartData(std::size_t device, std::size_t data, bool is_first) {
    Place& place = places_[device][data];
    const bool is_new = is_first || !Stays(data);
    if (is_new) {
      place = {NoBytes(data), NoBytes(data)};
    }
    place.freed = false;
    if (!is_new || WriterOf(data).has_value()) return;
    if (graph_.data[data].before == DataHome::kHost) {
      Host(device, data) = BytesOf(data, {MadeBefore(device, data)});
    }
  }

  bool Allocate(const ScheduleStep& step) {
    Place& place = places_[step.device][step.index];
    if (place.freed || !IsEmpty(place.device)) return false;
    const bool is_written = WriterOf(step.index).has_value();
    if (!is_written && graph_.data[step.index].before == DataHome::kHost) return false;
    const bool gets_value = !is_written && !place.began;
    place.device = BytesOf(step.index, {gets_value ? MadeBefore(step.device, step.index) : -1});
    place.began = place.was_there = true;
    place.offset = step.offset;
    return true;
  }

  bool Free(const ScheduleStep& step) {
    Place& place = places_[step.device][step.index];
    if (place.freed || (IsNowhere(step.device, step.index) && !place.was_there)) return false;
    if (graph_.data[step.index].after != DataHome::kNowhere) return false;
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      const GraphTask& one = graph_.tasks[task];
      const bool uses = UsesThere(one, step.index) || Holds(one.writes, step.index);
      if (uses && !HasRun(step.device, task)) return false;
    }
    place.device = place.host = NoBytes(step.index);
    place.offset = -1;
    place.freed = true;
    return true;
  }

  std::pair<std::size_t, std::size_t> RangeOf(const ScheduleStep& step) const {
    const std::int64_t bytes = graph_.data[step.index].bytes;
    return {step.begin, step.end == -1 ? bytes : step.end};
  }

  bool Offload(const ScheduleStep& step) {
    Place& place = places_[step.device][step.index];
    Bytes& host = Host(step.device, step.index);
    const auto [begin, end] = RangeOf(step);
    for (std::size_t i = begin; i < end; ++i) {
      if (!place.device[i].has_value() || place.device[i]->made_by == -1) return false;
    }
    for (auto& one : host) {
      if (one.has_value() && *one != *place.device[begin]) one.reset();
    }
    for (std::size_t i = begin; i < end; ++i) host[i] = place.device[i];
    return true;
  }

  bool Prefetch(const ScheduleStep& step) {
    Place& place = places_[step.device][step.index];
    const Bytes& host = Host(step.device, step.index);
    const auto [begin, end] = RangeOf(step);
    for (std::size_t i = begin; i < end; ++i) {
      if (!host[i].has_value() || place.device[i].has_value()) return false;
    }
    if (graph_.data[step.index].before == DataHome::kDevice && !place.began) return false;
    for (const auto& one : place.device) {
      if (one.has_value() && (*one != *host[begin] || place.offset != step.offset)) return false;
    }
    for (std::size_t i = begin; i < end; ++i) place.device[i] = host[i];
    place.began = place.was_there = true;
    place.offset = step.offset;
    return true;
  }

  bool Drop(const ScheduleStep& step) {
    Place& place = places_[step.device][step.index];
    const Bytes& host = Host(step.device, step.index);
    const auto [begin, end] = RangeOf(step);
    const std::optional<std::size_t> writer = WriterOf(step.index);
    for (std::size_t i = begin; i < end; ++i) {
      const auto& one = place.device[i];
      if (!one.has_value()) return false;
      if (one->made_by == -1) continue;
      const bool is_on_host =
          host[i].has_value() && (host[i] == one || host[i]->made_by > one->made_by);
      const bool has_earlier_sum = IsSum(step.index) && *one->passes.begin() < passes_[step.device];
      const bool is_first = one->made_by == MadeBefore(step.device, step.index) + 1;
      const bool can_be_made =
          writer.has_value() && graph_.tasks[*writer].may_rerun && is_first && !has_earlier_sum;
      if (!is_on_host && !can_be_made) return false;
    }
    for (std::size_t i = begin; i < end; ++i) place.device[i].reset();
    if (IsEmpty(place.device)) place.offset = -1;
    return true;
  }

  bool Run(const ScheduleStep& step, bool may_update) {
    const GraphTask& task = graph_.tasks[step.index];
    const bool is_on_host = step.device == kHostDevice;
    if (is_on_host && devices_.size() > 1 && !IsUpdate(step.index)) return false;
    if (IsUpdate(step.index)) {
      if (!may_update || (devices_.size() > 1 && !is_on_host)) return false;
    }
    const std::vector<std::size_t> devices =
        is_on_host ? devices_ : std::vector<std::size_t>{step.device};
    if (HasRun(devices.front(), step.index) && !task.may_rerun) return false;
    for (const std::size_t device : devices) {
      if (!MayRun(step, device)) return false;
    }
    std::set<Bytes*> changed;
    for (const std::size_t device : devices) Change(step, device, changed);
    ran_[IsUpdate(step.index) ? devices_.front() : devices.front()][step.index] = true;
    return true;
  }

  Bytes& SideOf(const ScheduleStep& step, std::size_t device, std::size_t data) {
    return step.device == kHostDevice ? Host(device, data) : places_[device][data].device;
  }

  bool MayRun(const ScheduleStep& step, std::size_t device) {
    const GraphTask& task = graph_.tasks[step.index];
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      const Bytes& bytes = SideOf(step, device, data);
      if (Holds(task.writes, data)) {
        const bool has_memory = std::all_of(bytes.begin(), bytes.end(),
                                            [](const auto& one) { return one.has_value(); });
        if (step.device != kHostDevice && !has_memory) return false;
        if (IsSum(data) && bytes.front().has_value() &&
            bytes.front()->passes.contains(passes_[device]) &&
            *bytes.front()->passes.begin() < passes_[device]) {
          return false;
        }
      }
      if (!UsesThere(task, data)) continue;
      if (!AreAll(bytes, NeedOf(device, data, step.index))) return false;
      if (IsUpdate(step.index) && IsSum(data) && !HasAllPasses(device, data, *bytes.front())) {
        return false;
      }
      if (!Holds(task.updates, data) || HasRun(device, step.index)) continue;
      for (std::size_t earlier = 0; earlier < step.index; ++earlier) {
        if (UsesThere(graph_.tasks[earlier], data) && !HasRun(device, earlier)) return false;
      }
    }
    return true;
  }

  // A gradient that no task writes is a sum from the beginning on.
  bool HasAllPasses(std::size_t device, std::size_t data, const Contents& contents) const {
    if (!WriterOf(data).has_value()) return true;
    const std::int64_t passes = passes_[device] + (RanAny(device) ? 1 : 0);
    return static_cast<std::int64_t>(contents.passes.size()) == std::max<std::int64_t>(passes, 1);
  }

  void Change(const ScheduleStep& step, std::size_t device, std::set<Bytes*>& changed) {
    const GraphTask& task = graph_.tasks[step.index];
    for (const std::size_t data : task.updates) {
      Bytes& bytes = SideOf(step, device, data);
      if (!changed.insert(&bytes).second) continue;
      for (auto& one : bytes) ++one->made_by;
    }
    for (const std::size_t data : task.writes) {
      Bytes& bytes = SideOf(step, device, data);
      Contents contents = {MadeBefore(device, data) + 1};
      if (IsSum(data)) {
        const bool adds = passes_[device] > 0 && AreAll(bytes, MadeBefore(device, data));
        if (adds) contents.passes = bytes.front()->passes;
        contents.passes.insert(passes_[device]);
      }
      bytes = BytesOf(data, contents);
    }
  }

  bool IsHome(std::size_t device, std::size_t data) {
    const Place& place = places_[device][data];
    const std::int64_t last =
        MadeBefore(device, data) + (RanAny(device) ? Changes(data, graph_.tasks.size(), true) : 0);
    const auto is_last = [&](const Bytes& bytes) {
      if (!AreAll(bytes, last)) return false;
      return !IsSum(data) || HasAllPasses(device, data, *bytes.front());
    };
    switch (graph_.data[data].after) {
      case DataHome::kDevice:
        return is_last(place.device);
      case DataHome::kHost:
        return is_last(Host(device, data)) && IsEmpty(place.device);
      case DataHome::kNowhere:
        break;
    }
    return IsNowhere(device, data);
  }

  bool RanAny(std::size_t device) const {
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      if (!IsUpdate(task) && ran_[device][task]) return true;
    }
    return false;
  }

  const TaskGraph& graph_;
  const Schedule& schedule_;
  std::vector<std::size_t> devices_;
  std::vector<std::vector<Place>> places_;  // by device and data
  std::vector<std::vector<bool>> ran_;
  std::vector<std::int64_t> passes_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_SCHEDULE_SLOW_DEVICE_SCHEDULE_H_
