// SPDX-License-Identifier: Apache-2.0
// Real work for schedules with fixed addresses, and the same work in the order of the steps, with
// memory for all data at once. The bytes that a task reads determine the bytes that it writes. So a
// hash for each run of a task shows whether it read the right bytes.
#ifndef TIDEPOOL_TESTS_TRAINING_EXECUTE_PROGRAM_WORK_H_
#define TIDEPOOL_TESTS_TRAINING_EXECUTE_PROGRAM_WORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/training/execute/task_work.h"
#include "tests/training/schedule/random_program.h"
#include "tidepool/training/executor.h"

namespace tidepool::testing {

inline std::uint8_t DenseByte(std::uint64_t seed, std::int64_t at) {
  return static_cast<std::uint8_t>(Mix(seed, static_cast<std::uint64_t>(at)) >> 32U);
}

// Returns the seed of the bytes of data before an iteration: inputs are new in each repetition and
// iteration.
inline std::uint64_t SeedOf(const HomeFill& fill, const TaskGraph& graph, int iteration) {
  std::uint64_t seed = Mix(fill.data, fill.owner);
  if (graph.data[fill.data].kind != DataKind::kInput) return seed;
  seed = Mix(seed, static_cast<std::uint64_t>(fill.repetition));
  return Mix(seed, static_cast<std::uint64_t>(iteration));
}
inline void FillDense(void* to, std::int64_t bytes, std::uint64_t seed) {
  auto* const memory = static_cast<std::uint8_t*>(to);
  for (std::int64_t i = 0; i < bytes; ++i) memory[i] = DenseByte(seed, i);
}

// Performs the work of a task, and returns the hash of all that it reads.
inline std::uint64_t DoProgramTask(const TaskGraph& graph, const TaskLaunch& launch) {
  const GraphTask& task = graph.tasks[launch.task];
  std::uint64_t hash = launch.task;
  std::size_t next = 0;
  for (std::size_t i = 0; i < task.reads.size(); ++i) {
    const std::size_t copies = launch.read_copies.empty() ? 1 : launch.read_copies[i];
    for (std::size_t copy = 0; copy < copies; ++copy) {
      hash = HashOf(hash, launch.reads[next++], graph.data[task.reads[i]].bytes);
    }
  }
  for (std::size_t i = 0; i < task.updates.size(); ++i) {
    hash = HashOf(hash, launch.updates[i], graph.data[task.updates[i]].bytes);
  }
  const auto change = [&](void* address, std::size_t data, bool adds, std::uint64_t seed) {
    auto* const memory = static_cast<std::uint8_t*>(address);
    for (std::int64_t i = 0; i < graph.data[data].bytes; ++i) {
      memory[i] = static_cast<std::uint8_t>((adds ? memory[i] : 0) + DenseByte(seed, i));
    }
  };
  for (std::size_t i = 0; i < task.writes.size(); ++i) {
    change(launch.writes[i], task.writes[i], launch.adds[i] != 0, Mix(hash, i));
  }
  for (std::size_t i = 0; i < task.updates.size(); ++i) {
    change(launch.updates[i], task.updates[i], true, Mix(hash, 100 + i));
  }
  const std::int64_t bytes = task.algorithms[launch.algorithm].workspace_bytes;
  if (bytes > 0 && launch.device != kHostDevice) {
    std::memset(launch.workspace, 0xee, static_cast<std::size_t>(bytes));
  }
  return hash;
}

// Carries a schedule out in the order of its steps. Each device has memory for all data.
class PlainProgram {
 public:
  PlainProgram(const std::vector<TaskGraph>& graphs, const Schedule& schedule)
      : graphs_(graphs), schedule_(schedule) {
    for (std::size_t device = 0; device < schedule.devices; ++device) {
      devices_.push_back(NewMemory());
      host_.push_back(NewMemory());
    }
    host_.push_back(NewMemory());
  }

  // Returns the hash of each run of a task.
  std::vector<std::uint64_t> Run(int iterations) {
    for (iteration_ = 0; iteration_ < iterations; ++iteration_) RunIteration();
    return hashes_;
  }

 private:
  struct Instance {
    std::vector<std::uint8_t> bytes;
    bool exists = false;
  };
  using Memory = std::vector<Instance>;  // by data

  Memory NewMemory() const {
    Memory memory;
    for (std::size_t data = 0; data < graphs_[0].data.size(); ++data) {
      std::int64_t bytes = 0;
      for (const TaskGraph& graph : graphs_) bytes = std::max(bytes, graph.data[data].bytes);
      memory.push_back({std::vector<std::uint8_t>(static_cast<std::size_t>(bytes)), false});
    }
    return memory;
  }

  bool IsShared(std::size_t data) const {
    const DataKind kind = graphs_[0].data[data].kind;
    return kind == DataKind::kWeight || kind == DataKind::kOptimizerState;
  }
  Instance& HostOf(std::size_t device, std::size_t data) {
    return host_[IsShared(data) || device == kHostDevice ? schedule_.devices : device][data];
  }

  void RunIteration() {
    repetition_ = 0;
    std::vector<ScheduleRound> rounds = schedule_.rounds;
    if (rounds.empty()) rounds.push_back({0, schedule_.steps.size(), 1, 0});
    for (const ScheduleRound& round : rounds) {
      number_ = 0;
      while (round.batch != 0 && graphs_[number_].batch != round.batch) ++number_;
      graph_ = &graphs_[number_];
      for (std::int64_t i = 0; i < round.times; ++i, ++repetition_) {
        FillHost();
        for (std::size_t at = 0; at < round.steps; ++at) {
          Perform(schedule_.steps[round.first_step + at]);
        }
      }
    }
  }

  void Fill(Instance& instance, std::size_t data, std::size_t device) {
    HomeFill fill;
    fill.data = data;
    fill.owner = device;
    fill.repetition = repetition_;
    FillDense(instance.bytes.data(), graph_->data[data].bytes, SeedOf(fill, *graph_, iteration_));
  }

  void FillHost() {
    for (std::size_t data = 0; data < graph_->data.size(); ++data) {
      if (graph_->data[data].before != DataHome::kHost) continue;
      const bool is_input = graph_->data[data].kind == DataKind::kInput;
      if (!is_input && (iteration_ > 0 || repetition_ > 0)) continue;
      for (std::size_t device = 0; device < schedule_.devices; ++device) {
        Fill(HostOf(device, data), data, IsShared(data) ? kHostDevice : device);
        HostOf(device, data).exists = true;
      }
    }
  }

  void Perform(const ScheduleStep& step) {
    if (step.kind == StepKind::kRun) return RunTask(step);
    if (step.kind == StepKind::kSynchronize || step.kind == StepKind::kDrop) return;
    Instance& on_device = devices_[step.device][step.index];
    Instance& on_host = HostOf(step.device, step.index);
    const std::int64_t end = step.end < 0 ? graph_->data[step.index].bytes : step.end;
    const auto copy = [&](const Instance& from, Instance& to) {
      std::copy(from.bytes.begin() + step.begin, from.bytes.begin() + end,
                to.bytes.begin() + step.begin);
      to.exists = true;
    };
    if (step.kind == StepKind::kOffload) copy(on_device, on_host);
    if (step.kind == StepKind::kPrefetch) copy(on_host, on_device);
    if (step.kind == StepKind::kFree) {
      on_device.exists = false;
      if (graph_->data[step.index].before != DataHome::kHost) on_host.exists = false;
    }
    if (step.kind == StepKind::kAllocate) {
      const bool begins = !on_device.exists && graph_->data[step.index].before == DataHome::kDevice;
      const bool is_input = graph_->data[step.index].kind == DataKind::kInput;
      if (begins && (is_input || iteration_ == 0)) Fill(on_device, step.index, step.device);
      on_device.exists = true;
    }
  }

  void RunTask(const ScheduleStep& step) {
    const GraphTask& task = graph_->tasks[step.index];
    TaskLaunch launch;
    launch.task = step.index;
    launch.algorithm = step.algorithm;
    launch.device = step.device;
    const bool is_on_host = step.device == kHostDevice;
    const auto own = [&](std::size_t data) -> void* {
      Instance& instance = is_on_host ? HostOf(kHostDevice, data) : devices_[step.device][data];
      return instance.bytes.data();
    };
    for (const std::size_t data : task.reads) {
      if (!is_on_host) {
        launch.reads.push_back(own(data));
        continue;
      }
      std::size_t copies = 0;
      for (Memory& memory : host_) {
        if (!memory[data].exists) continue;
        launch.reads.push_back(memory[data].bytes.data());
        ++copies;
      }
      launch.read_copies.push_back(copies);
    }
    for (const std::size_t data : task.writes) {
      launch.writes.push_back(own(data));
      const bool is_sum = graph_->data[data].kind == DataKind::kWeightGradient;
      launch.adds.push_back(is_sum && repetition_ > 0 ? 1 : 0);
    }
    for (const std::size_t data : task.updates) launch.updates.push_back(own(data));
    const std::int64_t bytes = task.algorithms[step.algorithm].workspace_bytes;
    std::vector<std::uint8_t> workspace(static_cast<std::size_t>(bytes));
    launch.workspace = workspace.data();
    hashes_.push_back(DoProgramTask(*graph_, launch));
  }

  const std::vector<TaskGraph>& graphs_;
  const Schedule& schedule_;
  std::vector<Memory> devices_;
  std::vector<Memory> host_;  // by device, and that of all devices and the host's tasks
  std::vector<std::uint64_t> hashes_;
  const TaskGraph* graph_ = nullptr;
  std::size_t number_ = 0;
  std::int64_t repetition_ = 0;
  int iteration_ = 0;
};

// Makes data larger by a power of two, so that work on it takes time.
inline void Enlarge(RandomPrograms& random, std::int64_t factor) {
  for (TaskGraph& graph : random.graphs) {
    for (GraphData& data : graph.data) data.bytes *= factor;
    for (GraphTask& task : graph.tasks) {
      for (TaskAlgorithm& algorithm : task.algorithms) algorithm.workspace_bytes *= factor;
    }
  }
  random.schedule.alignment *= factor;
  for (ScheduleStep& step : random.schedule.steps) {
    if (step.offset > 0) step.offset *= factor;
    if (step.begin > 0) step.begin *= factor;
    if (step.end > 0) step.end *= factor;
  }
  for (MachineDevice& device : random.machine.devices) device.memory_bytes *= factor;
  random.schedule.fingerprint = GraphFingerprint(random.graphs[0]);
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_EXECUTE_PROGRAM_WORK_H_
