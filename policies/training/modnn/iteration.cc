// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/iteration.h"

#include <algorithm>
#include <utility>

#include "lib/memory/blocks/geometry.h"
#include "policies/training/sub_batch/task_memory.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool::modnn {
namespace {

std::int64_t StayingBytes(const TaskGraph& graph, const Settings& settings) {
  return LeastMemory(graph, settings.alignment, StayingData::kAtHome).staying_bytes;
}

// Returns the memory for data that may leave, cut to the limit of a block map.
std::int64_t MovingBytes(const TaskGraph& graph, const Settings& settings) {
  const std::int64_t bytes = std::min(settings.memory_bytes - StayingBytes(graph, settings),
                                      blocks::MaxArenaBytes(settings.alignment));
  return bytes & -settings.alignment;
}

}  // namespace

Iteration::Iteration(const TaskGraph& graph, const Settings& settings)
    : graph_(graph),
      settings_(settings),
      users_(graph),
      staying_bytes_(StayingBytes(graph, settings)),
      memory_(MovingBytes(graph, settings), settings.alignment),
      copies_(settings.link, settings.HasOneQueue()),
      state_(graph.data.size()),
      staying_offset_(graph.data.size(), -1),
      fastest_before_(graph.tasks.size() + 1) {
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    fastest_before_[task + 1] =
        fastest_before_[task] + sub_batch::FastestOf(graph.tasks[task]).seconds;
  }
  const std::vector<std::size_t> writers = graph::WritersOf(graph);
  std::int64_t offset = 0;
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    Begin(data, writers[data] != graph::kNoTask, offset);
  }
}

// Data that stays lies at the low end of the memory. A weight gradient at home on the host is
// written over, so it has no values before its task.
void Iteration::Begin(std::size_t data, bool is_written, std::int64_t& offset) {
  const GraphData& one = graph_.data[data];
  State& state = state_[data];
  if (one.after == DataHome::kDevice) {
    state.stays = true;
    staying_offset_[data] = std::exchange(offset, offset + Bytes(data));
    if (one.before == DataHome::kDevice) Add(StepKind::kAllocate, data, staying_offset_[data]);
    return;
  }
  state.has_values = one.before == DataHome::kHost && !is_written;
  state.has_copy = state.has_values;
}

// An input may leave before its first use, as if a task had used it.
std::optional<std::size_t> Iteration::PlaceInputs() {
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    if (Stays(data) || graph_.data[data].before != DataHome::kDevice) continue;
    const std::optional<MemoryMap::Block> block = memory_.Allocate(Bytes(data), data);
    if (!block.has_value()) return data;
    Place(data, *block);
    state_[data].has_values = state_[data].was_used = true;
  }
  return std::nullopt;
}

double Iteration::UsedUntil(std::size_t data) const {
  const State& state = state_[data];
  return std::max(state.used, state.copied);
}

double Iteration::Place(std::size_t data, MemoryMap::Block block) {
  State& state = state_[data];
  const std::int64_t offset = staying_bytes_ + memory_.Offset(block);
  double ready = memory_.FreeFrom(block);
  state.block = block;
  state.was_used = false;
  if (state.has_values) {
    // In the paper a copy in begins no earlier than the task before the next one ends.
    ready = std::max({ready, state.copied, settings_.as_printed ? now_ : 0});
    ready = copies_.AddIn(graph_.data[data].bytes, ready);
    Add(StepKind::kPrefetch, data, offset);
  } else {
    Add(StepKind::kAllocate, data, offset);
  }
  state.used = ready;
  return ready;
}

void Iteration::Leave(std::size_t data) {
  State& state = state_[data];
  if (!state.has_copy) {
    Add(StepKind::kOffload, data);
    state.copied = copies_.AddOut(graph_.data[data].bytes, state.written);
    state.has_copy = true;
  }
  Add(StepKind::kDrop, data);
  memory_.Free(*state.block, UsedUntil(data));
  state.block.reset();
}

void Iteration::Run(std::size_t task, std::size_t algorithm,
                    std::optional<MemoryMap::Block> workspace) {
  const GraphTask& one = graph_.tasks[task];
  for (const std::size_t data : one.writes) {
    if (Stays(data) && graph_.data[data].before != DataHome::kDevice) {
      Add(StepKind::kAllocate, data, staying_offset_[data]);
    }
  }
  schedule_.steps.push_back(
      {.kind = StepKind::kRun,
       .index = task,
       .algorithm = algorithm,
       .offset = workspace.has_value() ? staying_bytes_ + memory_.Offset(*workspace) : -1});
  now_ += one.algorithms[algorithm].seconds;
  if (workspace.has_value()) memory_.Free(*workspace, now_);
  for (const std::size_t data : DataOf(task)) {
    state_[data].used = now_;
    state_[data].was_used = true;
    state_[data].has_values = true;
  }
  for (const std::size_t data : graph::ChangesOf(one)) {
    state_[data].written = now_;
    state_[data].has_copy = false;
  }
  for (const std::size_t data : one.writes) state_[data].was_used = false;
  for (const std::size_t data : DataOf(task)) {
    if (users_.Last(data) == task) End(data);
  }
  memory_.Forget(std::min(now_, copies_.EndIn()));
}

void Iteration::End(std::size_t data) {
  if (Stays(data)) return;
  state_[data].has_values = false;  // no later task needs them
  if (graph_.data[data].after == DataHome::kHost) return Leave(data);
  Add(StepKind::kFree, data);
  memory_.Free(*state_[data].block, UsedUntil(data));
  state_[data].block.reset();
}

void Iteration::Add(StepKind kind, std::size_t index, std::int64_t offset) {
  schedule_.steps.push_back({.kind = kind, .index = index, .offset = offset});
}

Schedule Iteration::TakeSchedule() {
  schedule_.policy = "modnn";
  schedule_.fingerprint = GraphFingerprint(graph_);
  schedule_.memory = ScheduleMemory::kFixed;
  schedule_.alignment = settings_.alignment;
  return std::move(schedule_);
}

}  // namespace tidepool::modnn
