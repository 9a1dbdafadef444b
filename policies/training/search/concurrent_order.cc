// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/concurrent_order.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>

#include "lib/training/graph/least_seconds.h"
#include "lib/training/graph/task_uses.h"
#include "policies/training/transfers/copy_rates.h"

namespace tidepool::search {
namespace {

// The tasks that follow each task: those that use the data that it changes, and those that change
// the data that it reads. A task may follow another one several times.
std::vector<std::vector<std::size_t>> FollowersIn(const TaskGraph& graph) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::vector<std::size_t>> followers(graph.tasks.size());
  std::vector<std::size_t> changer(graph.data.size(), kNone);
  std::vector<std::vector<std::size_t>> readers(graph.data.size());  // since the last change
  for (std::size_t at = 0; at < graph.tasks.size(); ++at) {
    const GraphTask& task = graph.tasks[at];
    for (const std::size_t data : graph::UsesOf(task)) {
      if (changer[data] != kNone) followers[changer[data]].push_back(at);
    }
    for (const std::size_t data : task.reads) readers[data].push_back(at);
    for (const std::size_t data : graph::ChangesOf(task)) {
      for (const std::size_t reader : readers[data]) followers[reader].push_back(at);
      readers[data].clear();
      changer[data] = at;
    }
  }
  return followers;
}

// The starts of tasks on streams, in the order in which they happen.
class ListScheduling {
 public:
  ListScheduling(const TaskGraph& graph, std::size_t streams)
      : graph_(graph),
        free_streams_(streams),
        followers_(FollowersIn(graph)),
        missing_(graph.tasks.size()),
        path_(graph.tasks.size()) {
    for (std::size_t at = graph.tasks.size(); at-- > 0;) {
      for (const std::size_t follower : followers_[at]) {
        ++missing_[follower];
        path_[at] = std::max(path_[at], path_[follower]);
      }
      path_[at] += graph::LeastSeconds(graph.tasks[at]);
    }
  }

  void Run() {
    for (std::size_t at = 0; at < missing_.size(); ++at) {
      if (missing_[at] == 0) MakeReady(at);
    }
    while (!ready_.empty() || !running_.empty()) {
      if (!ready_.empty() && free_streams_ > 0) {
        Start(ready_.top().second);
      } else {
        EndFirst();
      }
    }
  }

  const std::vector<std::size_t>& order() const { return order_; }
  // Returns the time from the start of each task of the order to that of the next, or to the end.
  std::vector<double> Slots() const {
    std::vector<double> slots;
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      slots.push_back((i + 1 < starts_.size() ? starts_[i + 1] : now_) - starts_[i]);
    }
    return slots;
  }
  double seconds() const { return now_; }

 private:
  using Ready = std::pair<double, std::size_t>;    // the longest path, and the task from the end on
  using Running = std::pair<double, std::size_t>;  // the end, and the task

  void MakeReady(std::size_t at) { ready_.emplace(path_[at], missing_.size() - 1 - at); }

  void Start(std::size_t from_end) {
    ready_.pop();
    const std::size_t at = missing_.size() - 1 - from_end;
    order_.push_back(at);
    starts_.push_back(now_);
    running_.emplace(now_ + graph::LeastSeconds(graph_.tasks[at]), at);
    --free_streams_;
  }

  void EndFirst() {
    const auto [end, at] = running_.top();
    running_.pop();
    now_ = end;
    ++free_streams_;
    for (const std::size_t follower : followers_[at]) {
      if (--missing_[follower] == 0) MakeReady(follower);
    }
  }

  const TaskGraph& graph_;
  std::size_t free_streams_;
  const std::vector<std::vector<std::size_t>> followers_;
  std::vector<std::size_t> missing_;  // by task: entries of followers that have not ended
  std::vector<double> path_;          // by task: the longest one from its start to the end
  std::priority_queue<Ready> ready_;
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running_;
  double now_ = 0;
  std::vector<std::size_t> order_;
  std::vector<double> starts_;
};

// Walks through the steps with the times of tasks and copies.
class StreamAssignment {
 public:
  StreamAssignment(const TaskGraph& graph, const Machine& machine)
      : graph_(graph),
        rates_(transfers::RatesOfDevice(machine, 0)),
        tails_(machine.devices.front().compute_streams),
        data_(graph.data.size()) {}

  void Take(ScheduleStep& step) {
    if (step.kind == StepKind::kRun) return Run(step);
    if (step.kind == StepKind::kOffload) return Offload(step);
    if (step.kind == StepKind::kPrefetch) return Prefetch(step);
  }

 private:
  struct Datum {
    double changed = 0;  // the end of its last change
    double used = 0;     // the latest end of its users
    double sent = 0;     // the end of its last copy out
    double density = -1;
  };

  void Run(ScheduleStep& step) {
    const GraphTask& task = graph_.tasks[step.index];
    double start = 0;
    for (const std::size_t data : task.reads) start = std::max(start, data_[data].changed);
    for (const std::size_t data : graph::ChangesOf(task)) start = std::max(start, data_[data].used);
    step.stream = FirstFree(start);
    double& tail = tails_[step.stream];
    last_start_ = start = std::max(start, tail);
    tail = start + task.algorithms[step.algorithm].seconds;
    for (const std::size_t data : task.reads) data_[data].used = std::max(data_[data].used, tail);
    for (const std::size_t data : graph::ChangesOf(task))
      data_[data].changed = data_[data].used = tail;
  }

  std::size_t FirstFree(double ready) const {
    std::size_t best = 0;
    for (std::size_t stream = 1; stream < tails_.size(); ++stream) {
      const double start = std::max(ready, tails_[stream]);
      const double best_start = std::max(ready, tails_[best]);
      const bool is_later_busy = start == best_start && tails_[stream] > tails_[best];
      if (start < best_start || is_later_busy) best = stream;
    }
    return best;
  }

  std::int64_t BytesOf(const ScheduleStep& step) const {
    return (step.end < 0 ? graph_.data[step.index].bytes : step.end) - step.begin;
  }

  void Offload(const ScheduleStep& step) {
    Datum& datum = data_[step.index];
    datum.density = step.density;
    out_ = std::max(out_, datum.changed) + rates_.OutSeconds(BytesOf(step), step.density);
    if (!rates_.full_duplex) in_ = out_;
    datum.sent = out_;
    datum.used = std::max(datum.used, out_);
  }

  // A copy in begins no earlier than the task before it: it waits for memory as a rule.
  void Prefetch(const ScheduleStep& step) {
    Datum& datum = data_[step.index];
    in_ = std::max({in_, datum.sent, last_start_}) + rates_.InSeconds(BytesOf(step), datum.density);
    if (!rates_.full_duplex) out_ = in_;
    datum.changed = std::max(datum.changed, in_);
    datum.used = std::max(datum.used, in_);
  }

  const TaskGraph& graph_;
  const transfers::CopyRates rates_;
  std::vector<double> tails_;  // by stream
  std::vector<Datum> data_;
  double last_start_ = 0;
  double out_ = 0;
  double in_ = 0;
};

}  // namespace

ConcurrentOrder InConcurrentOrder(const TaskGraph& graph, std::size_t streams) {
  constexpr double kFaster = 0.9999;
  ListScheduling list(graph, streams);
  list.Run();
  ConcurrentOrder order = {.graph = graph, .tasks = list.order()};
  order.graph.tasks.clear();
  const std::vector<double> slots = list.Slots();
  double one_stream = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    GraphTask task = graph.tasks[order.tasks[i]];
    const double least = graph::LeastSeconds(task);
    one_stream += least;
    for (TaskAlgorithm& algorithm : task.algorithms) algorithm.seconds += slots[i] - least;
    order.graph.tasks.push_back(std::move(task));
  }
  order.is_faster = list.seconds() < one_stream * kFaster;
  return order;
}

void RestoreTasks(const TaskGraph& graph, const ConcurrentOrder& order, Schedule& schedule) {
  schedule.fingerprint = GraphFingerprint(graph);
  for (ScheduleStep& step : schedule.steps) {
    if (step.kind == StepKind::kRun) step.index = order.tasks[step.index];
  }
}

void AssignStreams(const TaskGraph& graph, const Machine& machine, Schedule& schedule) {
  StreamAssignment assignment(graph, machine);
  for (ScheduleStep& step : schedule.steps) assignment.Take(step);
}

}  // namespace tidepool::search
