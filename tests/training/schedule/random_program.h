// SPDX-License-Identifier: Apache-2.0
// Random schedules with fixed addresses or pages, and machines on which they run: drops, tasks that
// run again, ranges, several devices and streams, tasks of the host, rounds.
#ifndef TIDEPOOL_TESTS_TRAINING_SCHEDULE_RANDOM_PROGRAM_H_
#define TIDEPOOL_TESTS_TRAINING_SCHEDULE_RANDOM_PROGRAM_H_

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool::testing {

// A few layers with weights and their updates. Task i < layers is forward, then backward from the
// last layer on, then updates.
class RandomPrograms {
 public:
  explicit RandomPrograms(std::uint64_t seed) : random_(seed) { MakeAll(); }

  // The graphs of all batches; the first is that of batch 1.
  std::vector<TaskGraph> graphs;
  Schedule schedule;
  Machine machine;

  std::size_t Below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }
  // Changes a step, as a rule to a wrong one.
  void Change() {
    std::vector<ScheduleStep>& steps = schedule.steps;
    ScheduleStep& step = steps[Below(steps.size())];
    switch (Below(9)) {
      case 0:
        return std::swap(step, steps[Below(steps.size())]);
      case 1:
        step = steps[Below(steps.size())];
        return;
      case 2:
        step.kind = static_cast<StepKind>(Below(9));
        if (step.kind > StepKind::kDrop) step.kind = static_cast<StepKind>(10);  // unknown
        return;
      case 3:
        step.index = Below(graphs[0].data.size() + 1);
        return;
      case 4:
        step.offset = static_cast<std::int64_t>(Below(40)) * granule_;
        return;
      case 5:
        step.begin = static_cast<std::int64_t>(Below(24));
        return;
      case 6:
        step.end = static_cast<std::int64_t>(Below(24)) - 1;
        return;
      case 7:
        step.device = Chance(0.3) ? kHostDevice : Below(3);
        return;
      default:
        step.stream = Below(3);
        return;
    }
  }
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

 private:
  // Data on a device.
  struct Place {
    std::vector<bool> is_there;  // by granule
    std::vector<bool> is_clean;  // on the host, too
    std::int64_t offset = -1;
    bool is_made = false;
  };

  // Numbers of data, by layer.
  std::size_t X(std::size_t layer) const { return layer; }
  std::size_t W(std::size_t layer) const { return layers_ + 1 + layer; }
  std::size_t Y(std::size_t layer) const { return 2 * layers_ + 1 + layer; }
  std::size_t D(std::size_t layer) const { return 3 * layers_ + 1 + layer; }

  // Rates without a common divisor: with equal times rounding would decide which copy came first.
  double AnyRate() { return std::uniform_real_distribution<double>(1, 16)(random_); }
  double AnySeconds() { return static_cast<double>(1 + Below(4000)) / 1024; }
  std::int64_t AnyBytes() { return static_cast<std::int64_t>(1 + Below(24)); }

  TaskGraph MakeGraph(bool is_input_on_host, bool are_weights_on_host) {
    TaskGraph graph;
    graph.name = "random";
    graph.batch = 1;
    const auto add = [&](const std::string& name, std::size_t layer, DataKind kind) {
      graph.data.push_back({name + std::to_string(layer), AnyBytes(), kind});
    };
    add("x", 0, DataKind::kInput);
    if (is_input_on_host) graph.data[0].before = DataHome::kHost;
    for (std::size_t i = 0; i < layers_; ++i) add("x", i + 1, DataKind::kActivation);
    for (std::size_t i = 0; i < layers_; ++i) {
      add("w", i, DataKind::kWeight);
      if (are_weights_on_host) graph.data.back().before = graph.data.back().after = DataHome::kHost;
    }
    for (std::size_t i = 0; i < layers_; ++i) add("y", i, DataKind::kGradient);
    for (std::size_t i = 0; i < layers_; ++i) add("d", i, DataKind::kWeightGradient);
    for (std::size_t i = 0; i < layers_; ++i) {
      AddTask(graph, "forward", {X(i), W(i)}, {X(i + 1)}, {});
      graph.tasks.back().may_rerun = true;
    }
    for (std::size_t i = layers_; i-- > 0;) {
      std::vector<std::size_t> reads = {X(i), X(i + 1), W(i)};
      if (i + 1 < layers_) reads.push_back(Y(i + 1));
      AddTask(graph, "backward", reads, {Y(i), D(i)}, {});
      graph.tasks.back().phase = TaskPhase::kBackward;
    }
    for (std::size_t i = 0; i < layers_; ++i) {
      AddTask(graph, "update", {D(i)}, {}, {W(i)});
      graph.tasks.back().phase = TaskPhase::kUpdate;
    }
    return graph;
  }

  void AddTask(TaskGraph& graph, const std::string& name, std::vector<std::size_t> reads,
               std::vector<std::size_t> writes, std::vector<std::size_t> updates) {
    GraphTask task;
    task.name = name + std::to_string(graph.tasks.size());
    task.reads = std::move(reads);
    task.writes = std::move(writes);
    task.updates = std::move(updates);
    task.algorithms = {{"small", AnySeconds(), 0},
                       {"large", AnySeconds(), static_cast<std::int64_t>(1 + Below(20))}};
    graph.tasks.push_back(std::move(task));
  }

  void MakeMachine() {
    machine.devices.clear();
    machine.links.clear();
    const std::size_t links = 1 + Below(2);
    for (std::size_t i = 0; i < links; ++i) {
      MachineLink link;
      link.out_bytes_per_second = AnyRate();
      link.in_bytes_per_second = AnyRate();
      if (Chance(0.3)) link.latency_seconds = AnySeconds();
      link.full_duplex = Chance(0.6);
      if (Chance(0.4)) link.sharing = LinkSharing::kFirstComeFirstServed;
      machine.links.push_back(link);
    }
    for (std::size_t i = 0; i < schedule.devices; ++i) {
      machine.devices.push_back({0, Below(links), 1 + Below(2)});
      if (Chance(0.5)) machine.devices.back().compressor = {AnyRate(), AnyRate()};
    }
    machine.host.cores = 1 + Below(2);
    machine.host.accumulation_bytes_per_second = AnyRate();
    machine.host.update_bytes_per_second = AnyRate();
  }

  void MakeAll() {
    layers_ = 1 + Below(4);
    schedule.policy = "random";
    schedule.devices = 1 + Below(3) / 2;
    schedule.memory = Chance(0.5) ? ScheduleMemory::kFixed : ScheduleMemory::kPaged;
    granule_ = schedule.alignment = Chance(0.5) ? 4 : 1;
    MakeMachine();
    const bool has_rounds = Chance(0.5);
    const bool are_weights_on_host = schedule.devices > 1 || Chance(0.5);
    graphs.push_back(MakeGraph(has_rounds || Chance(0.5), are_weights_on_host));
    schedule.fingerprint = GraphFingerprint(graphs[0]);
    places_.assign(schedule.devices, std::vector<Place>(graphs[0].data.size()));
    tops_.assign(schedule.devices, 0);
    pages_.assign(schedule.devices, 0);
    graph_ = &graphs[0];
    for (std::size_t device = 0; device < schedule.devices; ++device) Reserve(device);
    for (std::size_t device = 0; device < schedule.devices; ++device) AllocateHomes(device);
    if (has_rounds) {
      // A repeated round leaves everything as it was, on the host too.
      moves_reserved_ = false;
      if (!are_weights_on_host && Chance(0.5)) {
        for (std::size_t i = 0; i < layers_; ++i) OffloadAll(0, W(i));
      }
      MakePass();
      EndRound(1, 0);
      MakeOtherBatch();
      graph_ = &graphs.back();
      MakePass();
      EndRound(static_cast<std::int64_t>(1 + Below(3)), graph_->batch);
      graph_ = &graphs[0];
      moves_reserved_ = true;
    }
    MakePass();
    if (are_weights_on_host && (schedule.devices > 1 || Chance(0.7))) {
      UpdateOnHost();
    } else {
      UpdateOnDevice();
    }
    Leave(are_weights_on_host);
    EndRound(1, 0);
    if (!has_rounds) schedule.rounds.clear();
    for (std::size_t device = 0; device < schedule.devices; ++device) {
      machine.devices[device].memory_bytes =
          schedule.memory == ScheduleMemory::kFixed ? tops_[device] : pages_[device] * granule_;
    }
  }

  // Activations of the other batch have other sizes.
  void MakeOtherBatch() {
    TaskGraph other = graphs[0];
    other.batch = 2;
    for (GraphData& data : other.data) {
      const bool scales = data.kind == DataKind::kActivation || data.kind == DataKind::kGradient ||
                          data.kind == DataKind::kInput;
      if (scales) data.bytes = AnyBytes();
    }
    for (GraphTask& task : other.tasks) {
      for (TaskAlgorithm& algorithm : task.algorithms) algorithm.seconds = AnySeconds();
    }
    // A home on the host has the room for either.
    other.data[0].bytes = graphs[0].data[0].bytes;
    graphs.push_back(other);
  }

  std::int64_t GranulesOf(std::size_t data) const {
    return (graph_->data[data].bytes + granule_ - 1) / granule_;
  }

  // Weights and their gradients have addresses of their own, so that rounds end as they begin.
  void Reserve(std::size_t device) {
    for (std::size_t i = 0; i < layers_; ++i) {
      for (const std::size_t data : {W(i), D(i)}) {
        places_[device][data].offset = tops_[device];
        tops_[device] += GranulesOf(data) * granule_;
      }
    }
    reserved_ = tops_[device];
  }

  bool IsReserved(std::size_t data) const {
    const DataKind kind = graph_->data[data].kind;
    return kind == DataKind::kWeight || kind == DataKind::kWeightGradient;
  }

  void AllocateHomes(std::size_t device) {
    for (std::size_t data = 0; data < graph_->data.size(); ++data) {
      if (graph_->data[data].before == DataHome::kDevice) {
        Allocate(device, data);
        // An input is not moved before its first use: each iteration brings another one.
        places_[device][data].is_made = graph_->data[data].kind != DataKind::kInput;
      } else if (graph_->data[data].before == DataHome::kHost) {
        ComeFromHost(device, data);
      }
    }
  }

  void ComeFromHost(std::size_t device, std::size_t data) {
    Place& place = places_[device][data];
    place.is_made = true;
    place.is_there.assign(static_cast<std::size_t>(GranulesOf(data)), false);
    place.is_clean.assign(static_cast<std::size_t>(GranulesOf(data)), true);
  }

  // Returns an offset of free memory: the lowest, or one above all data.
  std::int64_t FindOffset(std::size_t device, std::int64_t granules) {
    std::vector<std::pair<std::int64_t, std::int64_t>> live;
    for (std::size_t data = 0; data < places_[device].size(); ++data) {
      const Place& place = places_[device][data];
      const bool is_there =
          std::find(place.is_there.begin(), place.is_there.end(), true) != place.is_there.end();
      if (is_there && !IsReserved(data)) {
        live.emplace_back(
            place.offset,
            place.offset + static_cast<std::int64_t>(place.is_there.size()) * granule_);
      }
    }
    std::sort(live.begin(), live.end());
    std::int64_t offset = reserved_ + static_cast<std::int64_t>(Below(3)) * granule_;
    for (const auto& [begin, end] : live) {
      if (offset + granules * granule_ > begin) offset = std::max(offset, end);
    }
    tops_[device] = std::max(tops_[device], offset + granules * granule_);
    return offset;
  }

  ScheduleStep& AddStep(StepKind kind, std::size_t index, std::size_t device) {
    schedule.steps.push_back({.kind = kind, .index = index, .device = device});
    return schedule.steps.back();
  }

  void CountPages(std::size_t device, std::int64_t workspace = 0) {
    std::int64_t pages = workspace;
    for (const Place& place : places_[device]) {
      pages += std::count(place.is_there.begin(), place.is_there.end(), true);
    }
    pages_[device] = std::max(pages_[device], pages);
  }

  void SetOffset(ScheduleStep& step, std::int64_t offset) const {
    if (schedule.memory == ScheduleMemory::kFixed) step.offset = offset;
  }

  void Allocate(std::size_t device, std::size_t data) {
    Place& place = places_[device][data];
    if (!IsReserved(data)) place.offset = FindOffset(device, GranulesOf(data));
    place.is_there.assign(static_cast<std::size_t>(GranulesOf(data)), true);
    if (place.is_clean.size() != place.is_there.size()) {
      place.is_clean.assign(place.is_there.size(), false);
    }
    SetOffset(AddStep(StepKind::kAllocate, data, device), place.offset);
    CountPages(device);
  }

  void SetRange(ScheduleStep& step, std::size_t begin, std::size_t end) {
    step.begin = static_cast<std::int64_t>(begin) * granule_;
    const std::int64_t bytes = graph_->data[step.index].bytes;
    const std::int64_t last = static_cast<std::int64_t>(end) * granule_;
    if (last < bytes) {
      step.end = last;
    } else {
      step.end = Chance(0.5) ? bytes : -1;
    }
  }

  void Prefetch(std::size_t device, std::size_t data, std::size_t begin, std::size_t end) {
    Place& place = places_[device][data];
    const bool is_there =
        std::find(place.is_there.begin(), place.is_there.end(), true) != place.is_there.end();
    if (!is_there && !IsReserved(data)) place.offset = FindOffset(device, GranulesOf(data));
    ScheduleStep& step = AddStep(StepKind::kPrefetch, data, device);
    SetOffset(step, place.offset);
    SetRange(step, begin, end);
    std::fill(place.is_there.begin() + static_cast<std::ptrdiff_t>(begin),
              place.is_there.begin() + static_cast<std::ptrdiff_t>(end), true);
    CountPages(device);
  }

  void Offload(std::size_t device, std::size_t data, std::size_t begin, std::size_t end) {
    Place& place = places_[device][data];
    ScheduleStep& step = AddStep(StepKind::kOffload, data, device);
    SetRange(step, begin, end);
    const DataKind kind = graph_->data[data].kind;
    const bool is_made = kind == DataKind::kActivation || kind == DataKind::kGradient;
    const bool has_compressor = machine.devices[device].compressor.exists();
    if (is_made && has_compressor && !ExistsAfter(graph_->data[data]) && Chance(0.5)) {
      step.density = static_cast<double>(Below(9)) / 8;
    }
    std::fill(place.is_clean.begin() + static_cast<std::ptrdiff_t>(begin),
              place.is_clean.begin() + static_cast<std::ptrdiff_t>(end), true);
  }

  void Drop(std::size_t device, std::size_t data, std::size_t begin, std::size_t end) {
    Place& place = places_[device][data];
    SetRange(AddStep(StepKind::kDrop, data, device), begin, end);
    std::fill(place.is_there.begin() + static_cast<std::ptrdiff_t>(begin),
              place.is_there.begin() + static_cast<std::ptrdiff_t>(end), false);
  }

  // Drops the parts of data that are there.
  void DropRest(std::size_t device, std::size_t data) {
    for (std::size_t i = 0; i < places_[device][data].is_there.size(); ++i) {
      if (places_[device][data].is_there[i]) Drop(device, data, i, i + 1);
    }
  }

  void FreeData(std::size_t device, std::size_t data) {
    AddStep(StepKind::kFree, data, device);
    const std::int64_t offset = places_[device][data].offset;
    places_[device][data] = {};
    places_[device][data].offset = offset;
  }

  // Brings data back, by copies or by running its task again.
  void Ensure(std::size_t device, std::size_t data) {
    Place& place = places_[device][data];
    for (std::size_t i = 0; i < place.is_there.size(); ++i) {
      if (place.is_there[i]) continue;
      if (!place.is_clean[i]) return RunTask(device, data - 1, Whole::kOnly);
      std::size_t end = i + 1;
      while (end < place.is_there.size() && !place.is_there[end] && place.is_clean[end]) ++end;
      if (Chance(0.3)) end = i + 1;
      Prefetch(device, data, i, end);
    }
  }

  enum class Whole { kAny, kOnly };

  void RunTask(std::size_t device, std::size_t index, Whole outputs = Whole::kAny) {
    const GraphTask& task = graph_->tasks[index];
    for (const auto* uses : {&task.reads, &task.updates}) {
      for (const std::size_t data : *uses) Ensure(device, data);
    }
    for (const std::size_t data : task.writes) {
      if (outputs == Whole::kOnly) {
        DropRest(device, data);
      } else if (places_[device][data].is_made) {
        Ensure(device, data);  // a gradient of an earlier round
        continue;
      }
      Allocate(device, data);
    }
    const std::size_t algorithm = Below(2);
    const std::int64_t workspace = task.algorithms[algorithm].workspace_bytes;
    const std::int64_t granules = (workspace + granule_ - 1) / granule_;
    const std::int64_t offset = workspace > 0 ? FindOffset(device, granules) : -1;
    ScheduleStep& step = AddStep(StepKind::kRun, index, device);
    step.algorithm = algorithm;
    step.stream = Below(machine.devices[device].compute_streams);
    SetOffset(step, offset);
    CountPages(device, granules);
    for (const std::size_t data : task.reads) places_[device][data].is_made = true;
    for (const std::size_t data : task.writes) {
      places_[device][data].is_made = true;
      if (outputs == Whole::kAny) SetDirty(device, data);
    }
    for (const std::size_t data : task.updates) SetDirty(device, data);
  }

  void SetDirty(std::size_t device, std::size_t data) {
    std::vector<bool>& clean = places_[device][data].is_clean;
    clean.assign(clean.size(), false);
  }

  // Moves something that no task needs right now.
  void Restless(std::size_t device) {
    if (Chance(0.05)) AddStep(StepKind::kSynchronize, 0, 0);
    for (std::size_t data = 0; data < places_[device].size(); ++data) {
      Place& place = places_[device][data];
      if (!place.is_made || !Chance(0.3)) continue;
      const std::size_t begin = Chance(0.5) ? 0 : Below(place.is_there.size());
      const std::size_t end =
          Chance(0.5) ? place.is_there.size() : begin + 1 + Below(place.is_there.size() - begin);
      const auto all = [&](const std::vector<bool>& which, bool value) {
        return std::all_of(which.begin() + static_cast<std::ptrdiff_t>(begin),
                           which.begin() + static_cast<std::ptrdiff_t>(end),
                           [&](bool is) { return is == value; });
      };
      const bool is_whole = begin == 0 && end == place.is_there.size();
      const bool can_rerun = graph_->data[data].kind == DataKind::kActivation && is_whole;
      if (all(place.is_there, true)) {
        const bool is_shared = graph_->data[data].kind == DataKind::kWeight;
        const bool may_leave =
            !(is_shared && schedule.devices > 1) && (moves_reserved_ || !IsReserved(data));
        if (may_leave && Chance(0.5)) Offload(device, data, begin, end);
        if ((all(place.is_clean, true) || can_rerun) && Chance(0.6)) Drop(device, data, begin, end);
      } else if (all(place.is_there, false) && all(place.is_clean, true)) {
        Prefetch(device, data, begin, end);
      }
    }
  }

  // One pass of forward and backward tasks on all devices, in any order among devices.
  void MakePass() {
    const std::size_t tasks = 2 * layers_;
    std::vector<std::size_t> next(schedule.devices);
    for (std::size_t device = 0; device < schedule.devices; ++device) {
      if (graph_->data[X(0)].before == DataHome::kHost) ComeFromHost(device, X(0));
    }
    for (std::size_t left = tasks * schedule.devices; left > 0; --left) {
      std::size_t device = Below(schedule.devices);
      while (next[device] == tasks) device = (device + 1) % schedule.devices;
      Restless(device);
      const std::size_t task = next[device]++;
      RunTask(device, task);
      if (task >= layers_) FreeAfter(device, tasks - 1 - task);
    }
    for (std::size_t device = 0; device < schedule.devices; ++device) {
      FreeData(device, X(0));
      FreeData(device, Y(0));
      for (std::size_t i = 0; i < layers_; ++i) {
        for (const std::size_t data : {W(i), D(i)}) Ensure(device, data);
      }
    }
  }

  void FreeAfter(std::size_t device, std::size_t layer) {
    FreeData(device, X(layer + 1));
    if (layer + 1 < layers_) FreeData(device, Y(layer + 1));
  }

  void EndRound(std::int64_t times, std::int64_t batch) {
    schedule.rounds.push_back({first_step_, schedule.steps.size() - first_step_, times, batch});
    first_step_ = schedule.steps.size();
  }

  void OffloadAll(std::size_t device, std::size_t data) {
    Ensure(device, data);
    Offload(device, data, 0, places_[device][data].is_there.size());
  }

  void UpdateOnHost() {
    for (std::size_t i = 0; i < layers_; ++i) {
      for (std::size_t device = 0; device < schedule.devices; ++device) OffloadAll(device, D(i));
      ScheduleStep& step = AddStep(StepKind::kRun, 2 * layers_ + i, kHostDevice);
      step.stream = Below(machine.host.cores);
    }
  }

  void UpdateOnDevice() {
    for (std::size_t i = 0; i < layers_; ++i) {
      Restless(0);
      RunTask(0, 2 * layers_ + i);
    }
  }

  void Leave(bool are_weights_on_host) {
    for (std::size_t device = 0; device < schedule.devices; ++device) {
      for (std::size_t i = 0; i < layers_; ++i) {
        FreeData(device, D(i));
        Place& place = places_[device][W(i)];
        Ensure(device, W(i));
        if (!are_weights_on_host) continue;
        const bool is_dirty =
            std::find(place.is_clean.begin(), place.is_clean.end(), false) != place.is_clean.end();
        if (is_dirty && device == 0) Offload(device, W(i), 0, place.is_there.size());
        Drop(device, W(i), 0, place.is_there.size());
      }
    }
  }

  std::mt19937_64 random_;
  std::int64_t granule_ = 1;
  std::size_t layers_ = 0;
  const TaskGraph* graph_ = nullptr;
  std::vector<std::vector<Place>> places_;  // by device and data
  std::vector<std::int64_t> tops_;          // by device
  std::vector<std::int64_t> pages_;         // by device
  std::int64_t reserved_ = 0;
  std::size_t first_step_ = 0;
  bool moves_reserved_ = true;  // weights and their gradients may be copied to the host
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_SCHEDULE_RANDOM_PROGRAM_H_
