// SPDX-License-Identifier: Apache-2.0
#include "tests/support/exact_search/exact_training.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace tidepool::testing {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

// A value of a datum: its version in a round. The value of a gradient that devices exchange is the
// sum of those of several devices, for each of its parts.
struct Value {
  std::size_t data = 0;
  std::int64_t round = 0;  // 0 for data that lives across rounds
  std::int64_t version = 0;
  std::size_t part = 0;
  unsigned sum = 0;  // bits of devices; 0: not part of an exchange

  friend auto operator<=>(const Value&, const Value&) = default;
};

// The memory of a gradient that devices exchange. Its parts have no memory of their own.
constexpr std::int64_t kMemory = -1;  // as version

// kLate: an input of the device that has no memory so far.
enum class Side : std::uint8_t { kDevice, kHostRaw, kHostCompressed, kLate };

struct PlaceName {
  Value value;
  std::size_t device = 0;
  Side side = Side::kDevice;

  friend auto operator<=>(const PlaceName&, const PlaceName&) = default;
};

class Maker {
 public:
  explicit Maker(const ExactTraining& training) : training_(training), graph_(training.graph) {
    for (std::size_t device = 0; device < training.devices; ++device) {
      const MachineDevice& one = training.machine.devices[device];
      problem_.memory_units.push_back(static_cast<int>(one.memory_bytes / training.unit));
      compute_.push_back(AddActors(one.compute_streams));
      AddLink(device);
      if (Exchanges()) {
        AddPeer(training.machine.peers);
      }
    }
    if (training.host_updates) cores_ = AddActors(training.machine.host.cores);
  }

  const ExactProblem& Make() {
    for (std::size_t device = 0; device < training_.devices; ++device) {
      version_.assign(graph_.data.size(), 0);
      Begin(device);
      for (std::int64_t round = 0; round < training_.rounds; ++round) AddRound(device, round);
      if (!Exchanges() && !training_.host_updates) AddUpdates(device);
      End(device);
    }
    if (training_.host_updates) AddHostUpdates();
    if (Exchanges()) AddExchange();
    AddCopies();
    return problem_;
  }

  const std::vector<PlaceName>& names() const { return names_; }
  const std::vector<ScheduleStep>& steps() const { return steps_; }
  const std::vector<std::int64_t>& rounds() const { return rounds_; }
  // Whether the datum lives across rounds.
  bool Lasts(std::size_t data) const {
    const DataKind kind = graph_.data[data].kind;
    return kind == DataKind::kWeight || kind == DataKind::kOptimizerState || IsGradient(data);
  }

 private:
  bool Exchanges() const { return training_.devices > 1 && !training_.host_updates; }
  const MachineLink& LinkOf(std::size_t device) const {
    return training_.machine.links[training_.machine.devices[device].link];
  }
  // The devices of a link divide it. Otherwise it has one copy at a time in each direction, or one
  // in all.
  void AddLink(std::size_t device) {
    const std::vector<MachineDevice>& devices = training_.machine.devices;
    const MachineLink& link = LinkOf(device);
    for (std::size_t other = 0; other < device; ++other) {
      if (devices[other].link != devices[device].link) continue;
      out_.push_back(AddBeside(out_[other], link.sharing));
      in_.push_back(link.full_duplex ? AddBeside(in_[other], link.sharing) : out_.back());
      return;
    }
    out_.push_back(AddActors(1));
    in_.push_back(link.full_duplex ? AddActors(1) : out_.back());
  }
  void AddPeer(const PeerLinks& peers) {
    const bool is_new = receive_.empty() || !peers.is_bus;
    receive_.push_back(is_new ? AddActors(1) : AddBeside(receive_.front(), peers.sharing));
  }
  // Returns the actor of one more device on a link that has an actor.
  std::size_t AddBeside(std::size_t actor, LinkSharing sharing) {
    if (sharing == LinkSharing::kFirstComeFirstServed) return actor;
    const std::size_t added = AddActors(1);
    for (std::vector<std::size_t>& dividers : problem_.dividers) {
      if (dividers.front() != actor) continue;
      dividers.push_back(added);
      return added;
    }
    problem_.dividers.push_back({actor, added});
    return added;
  }
  std::size_t AddActors(std::size_t count) {
    problem_.actors += count;
    return problem_.actors - count;
  }

  bool IsGradient(std::size_t data) const {
    return graph_.data[data].kind == DataKind::kWeightGradient;
  }
  // Whether the host has one copy for all devices.
  bool IsShared(std::size_t data) const { return Lasts(data) && !IsGradient(data); }
  bool IsExchanged(std::size_t data) const { return Exchanges() && IsGradient(data); }
  int UnitsOf(std::int64_t bytes) const {
    return static_cast<int>((bytes + training_.unit - 1) / training_.unit);
  }

  std::size_t PlaceOf(const Value& value, std::size_t device, Side side = Side::kDevice) {
    const bool is_shared = side == Side::kHostRaw && IsShared(value.data);
    const PlaceName name = {value, is_shared ? 0 : device, side};
    const auto [entry, is_new] = numbers_.try_emplace(name, names_.size());
    if (is_new) {
      names_.push_back(name);
      const bool has_memory = !IsExchanged(value.data) || value.version == kMemory;
      problem_.places.push_back({.device = side == Side::kDevice ? device : kNoDevice,
                                 .units = has_memory ? UnitsOf(graph_.data[value.data].bytes) : 0});
    }
    return entry->second;
  }

  Value ValueOf(std::size_t data, std::int64_t round, std::int64_t version) const {
    return {.data = data, .round = Lasts(data) ? 0 : round, .version = version};
  }
  std::vector<Value> PartsOf(std::size_t data, unsigned sum) const {
    std::vector<Value> parts;
    for (std::size_t part = 0; part < training_.devices; ++part) {
      parts.push_back({.data = data, .part = part, .sum = sum});
    }
    return parts;
  }

  void Begin(std::size_t device) {
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      const std::int64_t rounds = Lasts(data) ? 1 : training_.rounds;
      for (std::int64_t round = 0; round < rounds; ++round) {
        const Value value = ValueOf(data, round, 0);
        const DataHome before = graph_.data[data].before;
        const bool is_late =
            before == DataHome::kDevice && graph_.data[data].after == DataHome::kNowhere;
        if (is_late) {
          AddLateInput(value, device);
        } else if (before == DataHome::kDevice) {
          problem_.begin.set(PlaceOf(value, device));
        }
        if (before == DataHome::kHost) problem_.begin.set(PlaceOf(value, device, Side::kHostRaw));
      }
    }
  }

  // The input takes its memory, once, at the start of any task.
  void AddLateInput(const Value& value, std::size_t device) {
    const std::size_t late = PlaceOf(value, device, Side::kLate);
    problem_.begin.set(late);
    ExactOperation operation = {.actor = compute_[device],
                                .actors = training_.machine.devices[device].compute_streams,
                                .device = device,
                                .is_due = false};
    operation.reads.set(late);
    operation.clears.set(late);
    operation.takes.set(PlaceOf(value, device));
    Add(operation, {.kind = StepKind::kAllocate, .index = value.data, .device = device},
        value.round);
  }

  // Returns how often the tasks of a round change the gradient.
  std::int64_t ChangesInRound(std::size_t data) const {
    std::int64_t changes = 0;
    for (const GraphTask& task : graph_.tasks) {
      if (task.phase == TaskPhase::kUpdate) continue;
      changes += std::ranges::count(task.writes, data) + std::ranges::count(task.updates, data);
    }
    return changes;
  }

  void SetMemory(std::size_t data, std::size_t device, ExactSet& set) {
    set.set(PlaceOf({.data = data, .version = kMemory}, device));
  }

  // The values of the present version.
  void SetPresent(std::size_t data, std::size_t device, std::int64_t round, ExactSet& set) {
    if (IsExchanged(data)) SetMemory(data, device, set);
    if (IsExchanged(data) && version_[data] == training_.rounds * ChangesInRound(data)) {
      for (const Value& part : PartsOf(data, 1U << device)) set.set(PlaceOf(part, device));
    } else {
      set.set(PlaceOf(ValueOf(data, round, version_[data]), device));
    }
  }

  void Change(std::size_t data, std::size_t device, std::int64_t round, ExactOperation& operation) {
    SetPresent(data, device, round, operation.reads);
    const Value old = ValueOf(data, round, version_[data]);
    operation.clears.set(PlaceOf(old, device));
    operation.clears.set(PlaceOf(old, device, Side::kHostRaw));
    if (!training_.densities.empty()) {
      operation.clears.set(PlaceOf(old, device, Side::kHostCompressed));
    }
    ++version_[data];
    SetPresent(data, device, round, operation.takes);
    if (IsExchanged(data))
      operation.takes.reset(PlaceOf({.data = data, .version = kMemory}, device));
  }

  void Write(std::size_t data, std::size_t device, std::int64_t round, ExactOperation& operation) {
    const bool adds = IsGradient(data) && round > 0;
    if (adds) return Change(data, device, round, operation);
    version_[data] = 1;
    SetPresent(data, device, round, operation.takes);
  }

  ExactOperation OperationOf(std::size_t task, std::size_t device, std::int64_t round) {
    const GraphTask& one = graph_.tasks[task];
    const TaskAlgorithm& algorithm = one.algorithms.front();
    ExactOperation operation = {.actor = compute_[device],
                                .actors = training_.machine.devices[device].compute_streams,
                                .seconds = static_cast<int>(std::lround(algorithm.seconds)),
                                .device = device,
                                .units = UnitsOf(algorithm.workspace_bytes)};
    for (const std::size_t data : one.reads) SetPresent(data, device, round, operation.reads);
    for (const std::size_t data : one.updates) Change(data, device, round, operation);
    for (const std::size_t data : one.writes) Write(data, device, round, operation);
    return operation;
  }

  std::size_t Add(const ExactOperation& operation, const ScheduleStep& step, std::int64_t round) {
    problem_.operations.push_back(operation);
    problem_.operations.back().seconds *= training_.ticks_of_a_second;
    steps_.push_back(step);
    rounds_.push_back(round);
    return problem_.operations.size() - 1;
  }

  void AddTask(std::size_t task, std::size_t device, std::int64_t round) {
    ExactOperation operation = OperationOf(task, device, round);
    if (before_ != kNone) operation.after.set(before_);
    const ScheduleStep step = {.kind = StepKind::kRun, .index = task, .device = device};
    const std::size_t number = Add(operation, step, round);
    if (training_.keeps_order) before_ = number;
    last_of_round_.push_back(number);
    if (!graph_.tasks[task].may_rerun || !training_.recomputes) return;
    operation.is_due = false;
    operation.after.set(number);
    Add(operation, step, round);
  }

  // Data of a round has no values of the rounds before, but a round follows the one before it.
  void AddRound(std::size_t device, std::int64_t round) {
    if (round == 0) before_ = kNone;
    const std::vector<std::size_t> round_before = std::exchange(last_of_round_, {});
    const std::size_t first = problem_.operations.size();
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      for (const std::size_t data : graph_.tasks[task].writes) {
        if (!Lasts(data)) version_[data] = 0;
      }
      if (graph_.tasks[task].phase != TaskPhase::kUpdate) AddTask(task, device, round);
    }
    if (round == 0) return;
    for (std::size_t i = first; i < problem_.operations.size(); ++i) {
      for (const std::size_t number : round_before) problem_.operations[i].after.set(number);
    }
  }

  void AddUpdates(std::size_t device) {
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      if (graph_.tasks[task].phase == TaskPhase::kUpdate) {
        AddTask(task, device, training_.rounds - 1);
      }
    }
  }

  void End(std::size_t device) {
    const bool has_other_updates = Exchanges() || training_.host_updates;
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      const DataHome after = graph_.data[data].after;
      if (has_other_updates && after == DataHome::kDevice) {
        problem_.end.set(PlaceOf(ValueOf(data, 0, IsUpdated(data) ? 1 : 0), device));
      } else if (after != DataHome::kNowhere) {
        const Side side = after == DataHome::kHost ? Side::kHostRaw : Side::kDevice;
        problem_.end.set(
            PlaceOf(ValueOf(data, training_.rounds - 1, version_[data]), device, side));
      }
    }
  }

  bool IsUpdated(std::size_t data) const {
    return std::ranges::any_of(graph_.tasks, [&](const GraphTask& task) {
      return task.phase == TaskPhase::kUpdate && std::ranges::count(task.updates, data) > 0;
    });
  }

  // Cores of the host add up the gradients of all devices, and change the host's copies of weights.
  void AddHostUpdates() {
    const MachineHost& host = training_.machine.host;
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      const GraphTask& one = graph_.tasks[task];
      if (one.phase != TaskPhase::kUpdate) continue;
      ExactOperation operation = {.actor = cores_, .actors = host.cores};
      double seconds = 0;
      for (const std::size_t data : one.reads) {
        for (std::size_t device = 0; device < training_.devices; ++device) {
          operation.reads.set(PlaceOf(ValueOf(data, 0, version_[data]), device, Side::kHostRaw));
          seconds +=
              static_cast<double>(graph_.data[data].bytes) / host.accumulation_bytes_per_second;
        }
      }
      for (const std::size_t data : one.updates) {
        const std::size_t old = PlaceOf(ValueOf(data, 0, 0), 0, Side::kHostRaw);
        operation.reads.set(old);
        operation.clears.set(old);
        operation.takes.set(PlaceOf(ValueOf(data, 0, 1), 0, Side::kHostRaw));
        for (std::size_t device = 0; device < training_.devices; ++device) {
          PlaceOf(ValueOf(data, 0, 1), device);
        }
        seconds += static_cast<double>(graph_.data[data].bytes) / host.update_bytes_per_second;
      }
      operation.seconds = static_cast<int>(std::lround(seconds));
      Add(operation, {.kind = StepKind::kRun, .index = task, .device = kHostDevice},
          training_.rounds - 1);
    }
  }

  // Copies between devices and updates of weights.
  void AddExchange() {
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      if (!IsGradient(data)) continue;
      for (std::size_t device = 0; device < training_.devices; ++device) {
        ExactSet memory;
        SetMemory(data, device, memory);
        problem_.may_vanish |= memory;
        for (std::size_t source = 0; source < training_.devices; ++source) {
          if (source != device) AddSums(data, device, source);
        }
      }
    }
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
      if (graph_.tasks[task].phase != TaskPhase::kUpdate) continue;
      for (std::size_t device = 0; device < training_.devices; ++device) AddUpdate(task, device);
    }
  }

  int SecondsToReceive(std::int64_t bytes, bool adds) const {
    const PeerLinks& peers = training_.machine.peers;
    const auto count = static_cast<double>(bytes);
    const double addition = adds ? count / peers.addition_bytes_per_second : 0;
    return static_cast<int>(std::lround(count / peers.bytes_per_second + addition));
  }

  // A sum on the source is added to one of other devices, or takes the place of one of fewer.
  void AddSums(std::size_t data, std::size_t device, std::size_t source) {
    const unsigned all = 1U << training_.devices;
    for (unsigned own = 1; own < all; ++own) {
      for (unsigned other = 1; other < all; ++other) {
        const bool adds = (own & other) == 0;
        const bool replaces = own != other && (own | other) == other;
        if (!adds && !replaces) continue;
        for (std::size_t part = 0; part < training_.devices; ++part) {
          AddSum({.data = data, .part = part, .sum = own}, device, other, source, adds);
        }
      }
    }
  }

  void AddSum(const Value& own, std::size_t device, unsigned other, std::size_t source, bool adds) {
    const auto count = static_cast<std::int64_t>(training_.devices);
    const std::int64_t bytes = graph_.data[own.data].bytes / count;
    Value theirs = own;
    theirs.sum = other;
    Value sum = own;
    sum.sum |= other;
    ExactOperation operation = {.actor = receive_[device],
                                .seconds = SecondsToReceive(bytes, adds),
                                .device = device,
                                .units = adds ? UnitsOf(bytes) : 0,
                                .is_due = false};
    SetMemory(own.data, device, operation.reads);
    SetMemory(own.data, source, operation.reads);
    operation.reads.set(PlaceOf(theirs, source));
    operation.reads.set(PlaceOf(own, device));
    operation.clears.set(PlaceOf(own, device));
    operation.takes.set(PlaceOf(sum, device));
    const auto begin = static_cast<std::int64_t>(own.part) * bytes;
    Add(operation,
        {.kind = adds ? StepKind::kAdd : StepKind::kReceive,
         .index = own.data,
         .device = device,
         .begin = begin,
         .end = begin + bytes,
         .source = source},
        training_.rounds - 1);
  }

  void AddUpdate(std::size_t task, std::size_t device) {
    const GraphTask& one = graph_.tasks[task];
    const TaskAlgorithm& algorithm = one.algorithms.front();
    ExactOperation operation = {.actor = compute_[device],
                                .actors = training_.machine.devices[device].compute_streams,
                                .seconds = static_cast<int>(std::lround(algorithm.seconds)),
                                .device = device,
                                .units = UnitsOf(algorithm.workspace_bytes),
                                .is_due = false};
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      const bool is_of_device = problem_.operations[i].device == device;
      if (problem_.operations[i].is_due && is_of_device) operation.after.set(i);
    }
    for (const std::size_t data : one.reads) {
      SetMemory(data, device, operation.reads);
      const unsigned all = (1U << training_.devices) - 1;
      for (const Value& part : PartsOf(data, all)) operation.reads.set(PlaceOf(part, device));
    }
    for (const std::size_t data : one.updates) {
      NewWeight(data, device, operation);
      ReceiveWeight(data, device, operation.after);
    }
    Add(operation, {.kind = StepKind::kRun, .index = task, .device = device}, training_.rounds - 1);
  }

  void NewWeight(std::size_t data, std::size_t device, ExactOperation& operation) {
    const Value old = ValueOf(data, 0, 0);
    operation.reads.set(PlaceOf(old, device));
    operation.clears.set(PlaceOf(old, device));
    operation.takes.set(PlaceOf(ValueOf(data, 0, 1), device));
  }

  void ReceiveWeight(std::size_t data, std::size_t device, const ExactSet& after) {
    for (std::size_t source = 0; source < training_.devices; ++source) {
      if (source == device) continue;
      ExactOperation operation = {.actor = receive_[device],
                                  .seconds = SecondsToReceive(graph_.data[data].bytes, false),
                                  .device = device,
                                  .after = after,
                                  .is_due = false};
      NewWeight(data, device, operation);
      operation.reads.set(PlaceOf(ValueOf(data, 0, 1), source));
      Add(operation,
          {.kind = StepKind::kReceive, .index = data, .device = device, .source = source},
          training_.rounds - 1);
    }
  }

  // Copies to the host and back of all values but those that devices exchange.
  void AddCopies() {
    const std::vector<PlaceName> names = names_;
    for (const PlaceName& name : names) {
      const bool stays = Exchanges() && Lasts(name.value.data);
      if (name.side != Side::kDevice || stays) continue;
      AddCopy(name, -1);
      const bool has_engine = training_.machine.devices[name.device].compressor.exists();
      if (!has_engine || training_.densities.empty()) continue;
      const double density = training_.densities[name.value.data];
      if (SentShare(density) < 1) AddCopy(name, density);
    }
  }

  // Returns the time of a copy: the slower of the link and the compressor.
  int SecondsOf(std::size_t data, std::size_t device, double density, bool is_out) const {
    const auto bytes = static_cast<double>(graph_.data[data].bytes);
    const MachineLink& link = LinkOf(device);
    const CopyCompressor& engine = training_.machine.devices[device].compressor;
    const double rate = is_out ? link.out_bytes_per_second : link.in_bytes_per_second;
    if (density < 0) return static_cast<int>(std::lround(bytes / rate + link.latency_seconds));
    const double sent = bytes * SentShare(density);
    const double engine_rate = is_out ? engine.out_bytes_per_second : engine.in_bytes_per_second;
    return static_cast<int>(
        std::lround(std::max(sent / rate, bytes / engine_rate) + link.latency_seconds));
  }

  void AddCopy(const PlaceName& name, double density) {
    const std::size_t data = name.value.data;
    const Side side = density < 0 ? Side::kHostRaw : Side::kHostCompressed;
    const std::size_t there = PlaceOf(name.value, name.device);
    const std::size_t here = PlaceOf(name.value, name.device, side);
    ExactOperation out = {.actor = out_[name.device],
                          .seconds = SecondsOf(data, name.device, density, true),
                          .device = name.device,
                          .is_due = false};
    out.reads.set(there);
    out.takes.set(here);
    const Side other_side = density < 0 ? Side::kHostCompressed : Side::kHostRaw;
    if (!training_.densities.empty()) {
      out.absent.set(PlaceOf(name.value, name.device, other_side));
    }
    Add(out, {.kind = StepKind::kOffload, .index = data, .density = density, .device = name.device},
        name.value.round);
    ExactOperation in = {.actor = in_[name.device],
                         .seconds = SecondsOf(data, name.device, density, false),
                         .device = name.device,
                         .is_due = false};
    in.reads.set(here);
    in.takes.set(there);
    Add(in, {.kind = StepKind::kPrefetch, .index = data, .device = name.device}, name.value.round);
  }

  const ExactTraining& training_;
  const TaskGraph& graph_;
  ExactProblem problem_;
  std::vector<std::size_t> compute_;  // the first actor, by device
  std::vector<std::size_t> out_;
  std::vector<std::size_t> in_;
  std::vector<std::size_t> receive_;
  std::size_t cores_ = kNone;
  std::map<PlaceName, std::size_t> numbers_;
  std::vector<PlaceName> names_;       // by place
  std::vector<ScheduleStep> steps_;    // by operation
  std::vector<std::int64_t> rounds_;   // by operation
  std::vector<std::int64_t> version_;  // by data, so far
  std::size_t before_ = kNone;         // the operation that the next task follows
  std::vector<std::size_t> last_of_round_;
};

// Writes the steps of an answer in the order of rounds and of times. Memory is given back as soon
// as its last use has ended.
class StepWriter {
 public:
  StepWriter(const ExactTraining& training, const ExactProblem& problem, const Maker& maker)
      : training_(training),
        problem_(problem),
        maker_(maker),
        stay_(problem.places.size(), kNone) {}

  Schedule Write(const std::vector<ExactAction>& actions) {
    Begin();
    for (const ExactAction& action : actions) {
      ++order_;
      if (action.is_drop) {
        stay_[action.index] = kNone;
      } else {
        Start(action);
      }
    }
    for (std::size_t i = 0; i < stays_.size(); ++i) AddEnd(i);
    std::ranges::stable_sort(events_, {}, [](const Event& event) {
      return std::tuple(event.round, event.seconds, event.order, event.is_release);
    });
    return Finish();
  }

 private:
  struct Stay {
    std::size_t place = 0;
    std::int64_t round = 0;  // of the last use
    int end = 0;             // of the last use
    std::int64_t order = 0;  // of the last use
    bool is_last = true;     // of the datum on this device, in its round
  };
  struct Event {
    std::int64_t round = 0;
    int seconds = 0;
    std::int64_t order = 0;
    bool is_release = false;
    ScheduleStep step;
  };

  bool HasMemory(std::size_t place) const {
    return problem_.places[place].device != kNoDevice && problem_.places[place].units > 0;
  }
  bool IsSameDatum(std::size_t a, std::size_t b) const {
    const PlaceName& one = maker_.names()[a];
    const PlaceName& other = maker_.names()[b];
    return std::tie(one.value.data, one.value.round, one.device) ==
           std::tie(other.value.data, other.value.round, other.device);
  }

  void Take(std::size_t place) {
    for (Stay& stay : stays_) stay.is_last &= !IsSameDatum(stay.place, place);
    stay_[place] = stays_.size();
    stays_.push_back({.place = place});
  }

  void Allocate(std::size_t place, std::int64_t round, int seconds) {
    const PlaceName& name = maker_.names()[place];
    events_.push_back(
        {round,
         seconds,
         order_,
         false,
         {.kind = StepKind::kAllocate, .index = name.value.data, .device = name.device}});
  }

  void Begin() {
    for (std::size_t place = 0; place < problem_.places.size(); ++place) {
      if (!problem_.begin[place] || !HasMemory(place)) continue;
      Take(place);
      Allocate(place, 0, 0);
    }
  }

  void Start(const ExactAction& action) {
    const ExactOperation& operation = problem_.operations[action.index];
    ScheduleStep step = maker_.steps()[action.index];
    const bool is_task = step.kind == StepKind::kRun;
    // Copies of data that lives across rounds belong to the round that runs.
    const std::int64_t own_round = maker_.rounds()[action.index];
    if (is_task) round_ = std::max(round_, own_round);
    const std::int64_t round = maker_.Lasts(step.index) && !is_task ? round_ : own_round;
    if (is_task) step.stream = action.actor - operation.actor;
    ExactSet uses = operation.reads | operation.takes;
    for (std::size_t place = 0; place < problem_.places.size(); ++place) {
      if (!HasMemory(place) || !uses[place]) continue;
      if (operation.clears[place]) continue;
      if (operation.takes[place]) {
        const std::size_t changed = ChangedBy(operation, place);
        if (changed != kNone) {
          stay_[place] = std::exchange(stay_[changed], kNone);
          stays_[stay_[place]].place = place;
        } else {
          Take(place);
          if (is_task) Allocate(place, round, action.seconds);
        }
      }
      Use(stays_[stay_[place]], round, action.seconds + operation.seconds);
    }
    events_.push_back({round, action.seconds, order_, false, step});
  }

  // Returns the place with the old values of a datum that an operation changes in place.
  std::size_t ChangedBy(const ExactOperation& operation, std::size_t place) const {
    for (std::size_t old = 0; old < problem_.places.size(); ++old) {
      const bool is_there = operation.clears[old] && HasMemory(old);
      if (is_there && IsSameDatum(old, place)) return old;
    }
    return kNone;
  }

  void Use(Stay& stay, std::int64_t round, int end) const {
    stay.round = std::max(stay.round, round);
    if (end < stay.end) return;
    stay.end = end;
    stay.order = order_;
  }

  void AddEnd(std::size_t number) {
    const Stay& stay = stays_[number];
    if (problem_.end[stay.place] && stay_[stay.place] == number) return;
    const PlaceName& name = maker_.names()[stay.place];
    const bool ends =
        stay.is_last && training_.graph.data[name.value.data].after == DataHome::kNowhere;
    events_.push_back({stay.round,
                       stay.end,
                       stay.order,
                       true,
                       {.kind = ends ? StepKind::kFree : StepKind::kDrop,
                        .index = name.value.data,
                        .device = name.device}});
  }

  Schedule Finish() const {
    Schedule schedule;
    schedule.policy = "exact";
    schedule.fingerprint = GraphFingerprint(training_.graph);
    schedule.memory = ScheduleMemory::kPaged;
    schedule.alignment = training_.unit;
    schedule.devices = training_.devices;
    for (const Event& event : events_) schedule.steps.push_back(event.step);
    if (training_.rounds == 1) return schedule;
    for (std::int64_t round = 0; round < training_.rounds; ++round) {
      const auto count = std::ranges::count(events_, round, &Event::round);
      const std::size_t first = schedule.rounds.empty() ? 0
                                                        : schedule.rounds.back().first_step +
                                                              schedule.rounds.back().steps;
      schedule.rounds.push_back({.first_step = first,
                                 .steps = static_cast<std::size_t>(count),
                                 .batch = training_.round_batch});
    }
    return schedule;
  }

  const ExactTraining& training_;
  const ExactProblem& problem_;
  const Maker& maker_;
  std::vector<std::size_t> stay_;  // by place: the present one
  std::vector<Stay> stays_;
  std::vector<Event> events_;
  std::int64_t order_ = 0;
  std::int64_t round_ = 0;  // of the last task
};

}  // namespace

ExactTrainingAnswer SearchTrainingExactly(const ExactTraining& training, std::size_t most_states) {
  Maker maker(training);
  const ExactProblem& problem = maker.Make();
  const ExactAnswer answer = SearchExactly(problem, most_states);
  ExactTrainingAnswer made = {
      .kind = answer.kind,
      .seconds = static_cast<double>(answer.seconds) / training.ticks_of_a_second,
      .states = answer.states};
  if (answer.kind != ExactAnswer::Kind::kOptimum) return made;
  made.schedule = StepWriter(training, problem, maker).Write(answer.actions);
  return made;
}

}  // namespace tidepool::testing
