// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/small_walk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lib/base/arithmetic.h"
#include "lib/training/graph/task_uses.h"

namespace tidepool::search {
namespace {

using Mask = std::uint32_t;  // of data

constexpr std::size_t kMostTasks = 12;
constexpr std::size_t kMostData = 24;
constexpr std::size_t kMostAlgorithms = 16;  // of a task
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::uint8_t kNone = 255;  // no task, and no data

constexpr Mask BitOf(std::size_t data) { return Mask{1} << data; }

template <typename Function>
void ForEach(Mask mask, Function function) {
  for (; mask != 0; mask &= mask - 1) function(static_cast<std::size_t>(std::countr_zero(mask)));
}

Mask MaskOf(const std::vector<std::size_t>& list) {
  Mask mask = 0;
  for (const std::size_t data : list) mask |= BitOf(data);
  return mask;
}

// A state without its times.
struct Places {
  Mask device = 0;            // data with memory there
  Mask host = 0;              // data with a copy of its present values there
  Mask late = 0;              // inputs that have no memory so far
  std::uint8_t next = 0;      // the first task that has not started
  std::uint8_t task = kNone;  // that runs
  std::uint8_t algorithm = 0;
  std::uint8_t out = kNone;  // data that is copied
  std::uint8_t in = kNone;

  friend bool operator==(const Places&, const Places&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const Places& places) {
    return H::combine(std::move(hash), places.device, places.host, places.late, places.next,
                      places.task, places.algorithm, places.out, places.in);
  }
};

// The moment, and the ends of the task and the copies that run, or that moment.
struct Times {
  double now = 0;
  double task = 0;
  double out = 0;
  double in = 0;

  bool IsNoLater(const Times& other) const {
    return now <= other.now && task <= other.task && out <= other.out && in <= other.in;
  }
};

struct Action {
  StepKind kind = StepKind::kRun;  // also kOffload, kPrefetch and kDrop
  std::uint8_t index = 0;
  std::uint8_t algorithm = 0;
};

struct State {
  Places places;
  Times times;
  std::uint32_t parent = 0;
  std::uint32_t first_action = 0;  // of those that made it of its parent
  std::uint32_t actions = 0;
  bool is_dominated = false;
};

struct WalkTask {
  Mask reads = 0;  // and updates
  Mask writes = 0;
  Mask updates = 0;
  bool may_rerun = false;
  double least_seconds = kNever;
};

// The graph in masks, and the sets that follow from the number of tasks that have started.
class WalkGraph {
 public:
  WalkGraph(const TaskGraph& graph, const WalkOptions& options);

  std::int64_t BytesOf(Mask data) const {
    std::int64_t bytes = 0;
    ForEach(data, [&](std::size_t one) { bytes += bytes_[one]; });
    return bytes;
  }
  std::int64_t WorkspaceOf(std::size_t task, std::size_t algorithm) const {
    return RoundUp(graph_.tasks[task].algorithms[algorithm].workspace_bytes, options_.granule);
  }
  const WalkTask& task(std::size_t number) const { return tasks_[number]; }
  std::size_t tasks() const { return tasks_.size(); }

  // Whether a task that has run makes the values again that tasks from `next` on read.
  bool CanRerun(std::size_t task, std::size_t next) const {
    return task < next && tasks_[task].may_rerun && (changed_[task] == 0 || next <= changed_[task]);
  }
  // Data that tasks from `next` on may use, also tasks that run again, and data that ends on the
  // device.
  Mask Used(std::size_t next) const { return used_[next]; }
  // Data that tasks from `next` on read before any of them writes it.
  Mask Read(std::size_t next) const { return read_[next]; }
  double SecondsFrom(std::size_t next) const { return seconds_from_[next]; }
  double OutSeconds(std::size_t data) const { return out_seconds_[data]; }
  double InSeconds(std::size_t data) const { return in_seconds_[data]; }
  // Whether the datum can be made again.
  bool CanMake(std::size_t data, std::size_t next) const {
    return writers_[data] < tasks() && CanRerun(writers_[data], next);
  }
  Mask may_send() const { return may_send_; }
  Mask begins_on_device() const { return begins_on_device_; }
  // Inputs that are on the device before the iteration and nowhere after it. They take memory from
  // their first use on, or from the copy to the host before that.
  Mask begins_late() const { return begins_late_; }
  Mask begins_on_host() const { return begins_on_host_; }
  Mask ends_on_device() const { return ends_on_device_; }
  Mask ends_on_host() const { return ends_on_host_; }

 private:
  void AddData();
  void AddTasks();
  void FindUses();
  Mask UsedWithReruns(Mask used, std::size_t next) const;

  const TaskGraph& graph_;
  const WalkOptions& options_;
  std::vector<std::int64_t> bytes_;
  std::vector<double> out_seconds_;
  std::vector<double> in_seconds_;
  std::vector<std::size_t> writers_;
  std::vector<WalkTask> tasks_;
  // By task: one more than the first later task that updates data which it reads or writes; 0: none
  // does.
  std::vector<std::size_t> changed_;
  std::vector<Mask> used_;
  std::vector<Mask> read_;
  std::vector<double> seconds_from_;
  Mask may_send_ = 0;
  Mask begins_on_device_ = 0;
  Mask begins_late_ = 0;
  Mask begins_on_host_ = 0;
  Mask ends_on_device_ = 0;
  Mask ends_on_host_ = 0;
};

WalkGraph::WalkGraph(const TaskGraph& graph, const WalkOptions& options)
    : graph_(graph), options_(options) {
  AddData();
  AddTasks();
  FindUses();
}

void WalkGraph::AddData() {
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    const GraphData& one = graph_.data[data];
    bytes_.push_back(RoundUp(one.bytes, options_.granule));
    out_seconds_.push_back(options_.rates.OutSeconds(one.bytes, -1));
    in_seconds_.push_back(options_.rates.InSeconds(one.bytes, -1));
    if (options_.offloads || one.after == DataHome::kHost) may_send_ |= BitOf(data);
    if (one.before == DataHome::kDevice) {
      (one.after == DataHome::kNowhere ? begins_late_ : begins_on_device_) |= BitOf(data);
    }
    if (one.before == DataHome::kHost) begins_on_host_ |= BitOf(data);
    if (one.after == DataHome::kDevice) ends_on_device_ |= BitOf(data);
    if (one.after == DataHome::kHost) ends_on_host_ |= BitOf(data);
  }
}

void WalkGraph::AddTasks() {
  writers_.assign(graph_.data.size(), graph_.tasks.size());
  for (std::size_t number = 0; number < graph_.tasks.size(); ++number) {
    const GraphTask& one = graph_.tasks[number];
    WalkTask task = {.reads = MaskOf(one.reads) | MaskOf(one.updates),
                     .writes = MaskOf(one.writes),
                     .updates = MaskOf(one.updates),
                     .may_rerun = one.may_rerun && options_.recomputes};
    for (const TaskAlgorithm& algorithm : one.algorithms) {
      task.least_seconds = std::min(task.least_seconds, algorithm.seconds);
    }
    for (const std::size_t data : one.writes) writers_[data] = number;
    tasks_.push_back(task);
  }
  changed_.assign(tasks_.size(), 0);
  for (std::size_t task = 0; task < tasks_.size(); ++task) {
    for (std::size_t later = tasks_.size(); later-- > task + 1;) {
      const Mask used = tasks_[task].reads | tasks_[task].writes;
      if ((tasks_[later].updates & used) != 0) changed_[task] = later;
    }
  }
}

void WalkGraph::FindUses() {
  const std::size_t count = tasks_.size();
  read_.assign(count + 1, 0);
  seconds_from_.assign(count + 1, 0);
  for (std::size_t task = count; task-- > 0;) {
    read_[task] = (read_[task + 1] & ~tasks_[task].writes) | tasks_[task].reads;
    seconds_from_[task] = seconds_from_[task + 1] + tasks_[task].least_seconds;
  }
  for (std::size_t next = 0; next <= count; ++next) {
    Mask used = ends_on_device_;
    for (std::size_t task = next; task < count; ++task) used |= tasks_[task].reads;
    used_.push_back(UsedWithReruns(used, next));
  }
}

Mask WalkGraph::UsedWithReruns(Mask used, std::size_t next) const {
  for (Mask before = 0; before != used;) {
    before = used;
    for (std::size_t task = 0; task < next; ++task) {
      if (CanRerun(task, next) && (tasks_[task].writes & used) != 0) used |= tasks_[task].reads;
    }
  }
  return used;
}

class Walk {
 public:
  Walk(const TaskGraph& graph, const WalkOptions& options)
      : graph_(graph), options_(options), walk_(graph, options) {}

  WalkAnswer Run();

 private:
  using Entry = std::tuple<double, double, std::uint32_t>;  // bound, -now, state
  static constexpr std::uint32_t kNoState = std::numeric_limits<std::uint32_t>::max();

  bool IsHalfDuplex() const { return !options_.rates.full_duplex; }
  bool IsTooLarge() const { return states_.size() > options_.most_states; }
  Mask InUse(const Places& places) const;
  Mask Ready(const Places& places) const;
  std::int64_t UsedBytes(const Places& places) const;
  double BoundOf(const Places& places, const Times& times) const;
  bool IsEnd(const Places& places) const;

  void Expand(std::uint32_t at);
  void TryTask(std::uint32_t at, std::size_t task);
  void TryOut(std::uint32_t at);
  void TryIn(std::uint32_t at);
  void Advance(std::uint32_t at);
  void Start(std::uint32_t at, const Places& places, const Times& times, const Action& action,
             Mask kept, Mask dropped);
  void DropAndStart(std::uint32_t at, Places places, const Times& times, const Action& action,
                    Mask droppable, Mask dropped);
  void Reach(Places places, const Times& times, std::uint32_t parent, Mask dropped,
             const Action* action);

  Schedule StepsOf(std::uint32_t at) const;

  const TaskGraph& graph_;
  const WalkOptions& options_;
  const WalkGraph walk_;
  std::vector<State> states_;
  std::vector<Action> actions_;
  absl::flat_hash_map<Places, std::vector<std::uint32_t>> reached_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

// Data that a task or a copy uses.
Mask Walk::InUse(const Places& places) const {
  Mask mask = 0;
  if (places.task != kNone) {
    mask |= walk_.task(places.task).reads | walk_.task(places.task).writes;
  }
  if (places.out != kNone) mask |= BitOf(places.out);
  if (places.in != kNone) mask |= BitOf(places.in);
  return mask;
}

// Data with its values on the device.
Mask Walk::Ready(const Places& places) const {
  Mask mask = places.device;
  if (places.task != kNone) {
    mask &= ~(walk_.task(places.task).writes | walk_.task(places.task).updates);
  }
  if (places.in != kNone) mask &= ~BitOf(places.in);
  return mask;
}

std::int64_t Walk::UsedBytes(const Places& places) const {
  const std::int64_t workspace =
      places.task == kNone ? 0 : walk_.WorkspaceOf(places.task, places.algorithm);
  return walk_.BytesOf(places.device) + workspace;
}

// The tasks that are left, and copies in of data that cannot be made again.
double Walk::BoundOf(const Places& places, const Times& times) const {
  const double tasks = times.task + walk_.SecondsFrom(places.next);
  double link = IsHalfDuplex() ? std::max(times.in, times.out) : times.in;
  ForEach(walk_.Read(places.next) & places.host & ~places.device, [&](std::size_t data) {
    if (!walk_.CanMake(data, places.next)) link += walk_.InSeconds(data);
  });
  return std::max({tasks, link, times.out});
}

bool Walk::IsEnd(const Places& places) const {
  return places.next == walk_.tasks() && places.task == kNone && places.out == kNone &&
         places.in == kNone && (walk_.ends_on_device() & ~places.device) == 0 &&
         (walk_.ends_on_host() & ~places.host) == 0;
}

// Data and copies on the host that nothing needs any more go at once.
void Walk::Reach(Places places, const Times& times, std::uint32_t parent, Mask dropped,
                 const Action* action) {
  const Mask used = walk_.Used(places.next);
  places.device &= used | (walk_.ends_on_host() & ~places.host) | InUse(places);
  places.host &= used | walk_.ends_on_host();
  const double bound = BoundOf(places, times);
  if (bound >= options_.below_seconds * (1 - kEqualSeconds)) return;
  std::vector<std::uint32_t>& others = reached_[places];
  for (const std::uint32_t other : others) {
    if (states_[other].times.IsNoLater(times)) return;
  }
  std::erase_if(others, [&](std::uint32_t other) {
    const bool is_dominated = times.IsNoLater(states_[other].times);
    states_[other].is_dominated |= is_dominated;
    return is_dominated;
  });
  State state = {.places = places,
                 .times = times,
                 .parent = parent,
                 .first_action = static_cast<std::uint32_t>(actions_.size())};
  ForEach(dropped, [&](std::size_t data) {
    actions_.push_back({.kind = StepKind::kDrop, .index = static_cast<std::uint8_t>(data)});
  });
  if (action != nullptr) actions_.push_back(*action);
  state.actions = static_cast<std::uint32_t>(actions_.size()) - state.first_action;
  const auto at = static_cast<std::uint32_t>(states_.size());
  states_.push_back(state);
  others.push_back(at);
  open_.emplace(bound, -times.now, at);
}

// Starts an action that leads to `places` and uses the data `kept`, after drops of `dropped`, and
// of data that can come back if there is no room.
void Walk::Start(std::uint32_t at, const Places& places, const Times& times, const Action& action,
                 Mask kept, Mask dropped) {
  const Places& before = states_[at].places;
  Mask droppable = before.device & before.host & ~kept & ~InUse(places);
  ForEach(before.device & ~before.host & ~kept & ~InUse(places), [&](std::size_t data) {
    if (walk_.CanMake(data, places.next)) droppable |= BitOf(data);
  });
  DropAndStart(at, places, times, action, droppable, dropped);
}

void Walk::DropAndStart(std::uint32_t at, Places places, const Times& times, const Action& action,
                        Mask droppable, Mask dropped) {
  if (IsTooLarge()) return;
  if (UsedBytes(places) <= options_.memory_bytes) {
    return Reach(places, times, at, dropped, &action);
  }
  while (droppable != 0) {
    const Mask first = droppable & (~droppable + 1);
    droppable &= ~first;
    Places next = places;
    next.device &= ~first;
    DropAndStart(at, next, times, action, droppable, dropped | first);
  }
}

void Walk::TryTask(std::uint32_t at, std::size_t task) {
  const State state = states_[at];
  const WalkTask& one = walk_.task(task);
  const bool runs_again = task < state.places.next;
  // Results that are there still are made again with the others.
  const Mask again = one.writes & state.places.device;
  const Mask comes = one.reads & state.places.late;
  if ((one.reads & ~Ready(state.places) & ~comes) != 0) return;
  if ((again & InUse(state.places)) != 0) return;
  if (state.places.out != kNone && (one.updates & BitOf(state.places.out)) != 0) return;
  if (runs_again && !walk_.CanRerun(task, state.places.next)) return;
  if (runs_again && (one.writes & ~again & walk_.Used(state.places.next)) == 0) return;
  Places places = state.places;
  places.device |= one.writes | comes;
  places.late &= ~comes;
  places.host &= ~one.updates;
  places.task = static_cast<std::uint8_t>(task);
  if (!runs_again) ++places.next;
  const std::vector<TaskAlgorithm>& algorithms = graph_.tasks[task].algorithms;
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    places.algorithm = static_cast<std::uint8_t>(i);
    Times times = state.times;
    times.task = times.now + algorithms[i].seconds;
    const Action action = {StepKind::kRun, places.task, places.algorithm};
    Start(at, places, times, action, one.reads | one.writes, again);
  }
}

void Walk::TryOut(std::uint32_t at) {
  const State state = states_[at];
  const Mask used = walk_.Used(state.places.next) | walk_.ends_on_host();
  // An input may come before its first use to be sent.
  const Mask there = Ready(state.places) | state.places.late;
  const Mask may_go = there & ~state.places.host & used & walk_.may_send();
  ForEach(may_go, [&](std::size_t data) {
    Places places = state.places;
    places.out = static_cast<std::uint8_t>(data);
    places.device |= BitOf(data);
    places.late &= ~BitOf(data);
    Times times = state.times;
    times.out = times.now + walk_.OutSeconds(data);
    Start(at, places, times, {StepKind::kOffload, places.out, 0}, BitOf(data), 0);
  });
}

void Walk::TryIn(std::uint32_t at) {
  const State state = states_[at];
  const Mask may_come = state.places.host & ~state.places.device & walk_.Used(state.places.next);
  ForEach(may_come, [&](std::size_t data) {
    Places places = state.places;
    places.in = static_cast<std::uint8_t>(data);
    places.device |= BitOf(data);
    Times times = state.times;
    times.in = times.now + walk_.InSeconds(data);
    Start(at, places, times, {StepKind::kPrefetch, places.in, 0}, BitOf(data), 0);
  });
}

// Goes on to the next end.
void Walk::Advance(std::uint32_t at) {
  Places places = states_[at].places;
  Times times = states_[at].times;
  double next = kNever;
  if (places.task != kNone) next = std::min(next, times.task);
  if (places.out != kNone) next = std::min(next, times.out);
  if (places.in != kNone) next = std::min(next, times.in);
  if (next == kNever) return;
  if (places.task != kNone && times.task <= next) places.task = kNone;
  if (places.task == kNone) places.algorithm = 0;
  if (places.out != kNone && times.out <= next) {
    places.host |= BitOf(places.out);
    places.out = kNone;
  }
  if (places.in != kNone && times.in <= next) places.in = kNone;
  times = {next, std::max(next, times.task), std::max(next, times.out), std::max(next, times.in)};
  Reach(places, times, at, 0, nullptr);
}

void Walk::Expand(std::uint32_t at) {
  const Places places = states_[at].places;
  if (places.task == kNone) {
    const std::size_t last = std::min<std::size_t>(places.next + 1U, walk_.tasks());
    for (std::size_t task = 0; task < last; ++task) TryTask(at, task);
  }
  const bool is_link_idle = places.out == kNone && places.in == kNone;
  if (places.out == kNone && (!IsHalfDuplex() || is_link_idle)) TryOut(at);
  if (places.in == kNone && (!IsHalfDuplex() || is_link_idle)) TryIn(at);
  Advance(at);
}

WalkAnswer Walk::Run() {
  Places begin;
  begin.device = walk_.begins_on_device();
  begin.host = walk_.begins_on_host();
  begin.late = walk_.begins_late();
  if (UsedBytes(begin) <= options_.memory_bytes) Reach(begin, {}, kNoState, 0, nullptr);
  while (!open_.empty()) {
    const std::uint32_t at = std::get<2>(open_.top());
    open_.pop();
    if (states_[at].is_dominated) continue;
    if (IsEnd(states_[at].places)) {
      return {.schedule = StepsOf(at), .seconds = states_[at].times.now, .is_complete = true};
    }
    if (IsTooLarge() || !options_.go_on()) return {.schedule = {}};
    Expand(at);
  }
  return {.schedule = {}, .is_complete = true};
}

// Writes steps in the order of times. Memory is given back as soon as its last use has ended.
class StepWriter {
 public:
  explicit StepWriter(const TaskGraph& graph)
      : graph_(graph), stay_(graph.data.size(), kNoStay), stays_of_(graph.data.size()) {
    for (std::size_t data = 0; data < graph.data.size(); ++data) {
      const GraphData& one = graph.data[data];
      const bool is_home = one.before == DataHome::kDevice && one.after != DataHome::kNowhere;
      if (is_home) Allocate(data, 0);
    }
  }

  void Add(const Action& action, double start, double seconds) {
    ++order_;
    if (action.kind == StepKind::kDrop) {
      stay_[action.index] = kNoStay;
      return;
    }
    if (action.kind == StepKind::kRun) {
      const GraphTask& task = graph_.tasks[action.index];
      for (const std::size_t data : task.writes) Allocate(data, start);
      for (const std::size_t data : graph::UsesOf(task)) {
        if (stay_[data] == kNoStay) Allocate(data, start);  // an input that comes late
        Use(data, start + seconds);
      }
    } else {
      if (action.kind == StepKind::kPrefetch) Begin(action.index);
      if (stay_[action.index] == kNoStay) Allocate(action.index, start);
      Use(action.index, start + seconds);
    }
    events_.push_back(
        {start,
         order_,
         false,
         {.kind = action.kind, .index = action.index, .algorithm = action.algorithm}});
  }

  Schedule Finish() {
    for (std::size_t number = 0; number < stays_.size(); ++number) End(number);
    std::ranges::stable_sort(events_, {}, [](const Event& event) {
      return std::tuple(event.seconds, event.order, event.is_release);
    });
    Schedule schedule;
    for (const Event& event : events_) schedule.steps.push_back(event.step);
    return schedule;
  }

 private:
  static constexpr std::size_t kNoStay = std::numeric_limits<std::size_t>::max();

  struct Stay {
    std::size_t data = 0;
    double end = 0;         // of its last use
    std::size_t order = 0;  // of its last use
  };
  struct Event {
    double seconds = 0;
    std::size_t order = 0;
    bool is_release = false;
    ScheduleStep step;
  };

  void Begin(std::size_t data) {
    stay_[data] = stays_.size();
    ++stays_of_[data];
    stays_.push_back({.data = data});
  }

  void Allocate(std::size_t data, double seconds) {
    Begin(data);
    events_.push_back({seconds, order_, false, {.kind = StepKind::kAllocate, .index = data}});
  }

  void Use(std::size_t data, double end) {
    Stay& stay = stays_[stay_[data]];
    if (end < stay.end) return;
    stay.end = end;
    stay.order = order_;
  }

  void End(std::size_t number) {
    const Stay& stay = stays_[number];
    const DataHome home = graph_.data[stay.data].after;
    const bool is_last = --stays_of_[stay.data] == 0;
    if (is_last && stay_[stay.data] == number && home == DataHome::kDevice) return;
    const bool ends = is_last && home == DataHome::kNowhere;
    const StepKind kind = ends ? StepKind::kFree : StepKind::kDrop;
    events_.push_back({stay.end, stay.order, true, {.kind = kind, .index = stay.data}});
  }

  const TaskGraph& graph_;
  std::vector<std::size_t> stay_;      // by data: the present one
  std::vector<std::size_t> stays_of_;  // by data: how many there are, or are left
  std::vector<Stay> stays_;
  std::vector<Event> events_;
  std::size_t order_ = 0;
};

Schedule Walk::StepsOf(std::uint32_t at) const {
  std::vector<std::uint32_t> path;
  for (; at != kNoState; at = states_[at].parent) path.push_back(at);
  std::ranges::reverse(path);
  StepWriter writer(graph_);
  for (const std::uint32_t one : path) {
    const State& state = states_[one];
    for (std::uint32_t i = 0; i < state.actions; ++i) {
      const Action& action = actions_[state.first_action + i];
      const Times& times = state.times;
      const double end = action.kind == StepKind::kRun       ? times.task
                         : action.kind == StepKind::kOffload ? times.out
                                                             : times.in;
      writer.Add(action, times.now, end - times.now);
    }
  }
  return writer.Finish();
}

}  // namespace

bool IsForWalk(const TaskGraph& graph) {
  if (graph.tasks.size() > kMostTasks || graph.data.size() > kMostData) return false;
  bool has_updates = false;
  for (const GraphTask& task : graph.tasks) {
    has_updates |= task.phase == TaskPhase::kUpdate;
    if (task.algorithms.size() > kMostAlgorithms) return false;
    // A gradient of the iteration before has memory of its own.
    for (const std::size_t data : task.writes) {
      if (ExistsBefore(graph.data[data])) return false;
    }
  }
  // Without updates it may be one of several rounds, in which data at home stays.
  return has_updates || std::ranges::none_of(graph.data, [](const GraphData& data) {
           return ExistsBefore(data) && data.after == DataHome::kDevice;
         });
}

WalkAnswer WalkSmallGraph(const TaskGraph& graph, const WalkOptions& options) {
  return Walk(graph, options).Run();
}

}  // namespace tidepool::search
