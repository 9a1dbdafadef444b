// SPDX-License-Identifier: Apache-2.0
// The simulated process of Algorithm 1: the memory, the places of all data, the queues of copies,
// the time, and the steps of the schedule so far.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_ITERATION_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_ITERATION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/training/graph/data_users.h"
#include "lib/training/graph/task_uses.h"
#include "policies/training/modnn/memory_map.h"
#include "policies/training/modnn/modnn.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool::modnn {

// The estimated times of copies: one queue for both directions, or one for each. Its copies run one
// after the other, in the order in which they were added (Strm_D of the paper).
class CopyQueues {
 public:
  CopyQueues(const MachineLink& link, bool has_one_queue)
      : link_(link), has_one_queue_(has_one_queue) {}

  double SecondsOut(std::int64_t bytes) const { return Seconds(bytes, link_.out_bytes_per_second); }
  double SecondsIn(std::int64_t bytes) const { return Seconds(bytes, link_.in_bytes_per_second); }

  // Return the end of the last copy.
  double EndOut() const { return out_; }
  double EndIn() const { return has_one_queue_ ? out_ : in_; }

  // Add a copy that begins at `ready` at the earliest, and return its end.
  double AddOut(std::int64_t bytes, double ready) {
    return out_ = std::max(out_, ready) + SecondsOut(bytes);
  }
  double AddIn(std::int64_t bytes, double ready) {
    double& end = has_one_queue_ ? out_ : in_;
    return end = std::max(end, ready) + SecondsIn(bytes);
  }

 private:
  double Seconds(std::int64_t bytes, double rate) const {
    return link_.latency_seconds + static_cast<double>(bytes) / rate;
  }

  MachineLink link_;
  bool has_one_queue_;
  double out_ = 0;
  double in_ = 0;
};

// Not thread-safe. The graph outlives it.
class Iteration {
 public:
  Iteration(const TaskGraph& graph, const Settings& settings);

  const TaskGraph& graph() const { return graph_; }
  const Settings& settings() const { return settings_; }
  const graph::DataUsers& users() const { return users_; }
  // Returns the data of a task; the data that it needs to begin comes first.
  graph::DataLists<3> DataOf(std::size_t task) const {
    const GraphTask& one = graph_.tasks[task];
    return graph::DataLists<3>({&one.reads, &one.updates, &one.writes});
  }
  MemoryMap& memory() { return memory_; }
  const MemoryMap& memory() const { return memory_; }
  const CopyQueues& copies() const { return copies_; }

  // Gives inputs at home on the device their memory, which they have from the start. Returns the
  // first one without room, if any.
  std::optional<std::size_t> PlaceInputs();

  // The time at which the next task can begin, as far as it is known.
  double now() const { return now_; }
  void WaitUntil(double time) { now_ = std::max(now_, time); }
  // Returns the time at which a later task begins if none before it is delayed: EST. `end` is that
  // of the task that runs next, `task`.
  double ExpectedStart(std::size_t later, std::size_t task, double end) const {
    return end + fastest_before_[later] - fastest_before_[task + 1];
  }

  // Places of data.
  std::int64_t Rounded(std::int64_t bytes) const { return memory_.Rounded(bytes); }
  std::int64_t Bytes(std::size_t data) const { return Rounded(graph_.data[data].bytes); }
  bool Stays(std::size_t data) const { return state_[data].stays; }
  bool IsThere(std::size_t data) const { return Stays(data) || state_[data].block.has_value(); }
  // Whether the datum has values, so that a task needs it to be copied in.
  bool HasValues(std::size_t data) const { return state_[data].has_values; }
  bool HasCopy(std::size_t data) const { return state_[data].has_copy; }
  // Whether a task has used the datum since it was made or came back (the first criterion).
  bool WasUsed(std::size_t data) const { return state_[data].was_used; }
  // Whether a task needs the datum to be copied in before it runs.
  bool IsMissing(std::size_t data) const { return HasValues(data) && !IsThere(data); }
  // Returns the time from which on the datum can be copied out, and from which on tasks and copies
  // no longer use its memory.
  double WrittenAt(std::size_t data) const { return state_[data].written; }
  double UsedUntil(std::size_t data) const;

  // Gives the datum a block that was allocated for it, and copies it in, if it has values. Returns
  // the time at which tasks can use it.
  double Place(std::size_t data, MemoryMap::Block block);
  // Gives the memory of the datum back, after a copy out if the host has no clean one.
  void Leave(std::size_t data);
  // Runs the task from now on, and ends the data that no later task uses.
  void Run(std::size_t task, std::size_t algorithm, std::optional<MemoryMap::Block> workspace);

  Schedule TakeSchedule();

 private:
  struct State {
    bool stays = false;
    bool has_values = false;
    bool has_copy = false;  // on the host, clean
    bool was_used = false;
    std::optional<MemoryMap::Block> block = std::nullopt;
    double written = 0;  // the end of the last task that wrote or updated it
    double used = 0;     // the end of the last operation on its memory
    double copied = 0;   // the end of the copy out
  };

  void Begin(std::size_t data, bool is_written, std::int64_t& offset);
  void End(std::size_t data);
  void Add(StepKind kind, std::size_t index, std::int64_t offset = -1);

  const TaskGraph& graph_;
  const Settings settings_;
  const graph::DataUsers users_;
  const std::int64_t staying_bytes_;
  MemoryMap memory_;
  CopyQueues copies_;
  std::vector<State> state_;                  // by datum
  std::vector<std::int64_t> staying_offset_;  // by datum
  std::vector<double> fastest_before_;        // seconds of all earlier tasks, by task
  double now_ = 0;
  Schedule schedule_;
};

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_ITERATION_H_
