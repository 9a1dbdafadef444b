// SPDX-License-Identifier: Apache-2.0
// A model of program.h and of its simulation in the slowest and plainest way. Each operation has
// the list of the bytes that it reads and writes: bytes of device memory and of copies on the host.
// It waits for every earlier operation that touches one of them, unless both only read.
#ifndef TIDEPOOL_TESTS_TRAINING_SCHEDULE_SLOW_PROGRAM_H_
#define TIDEPOOL_TESTS_TRAINING_SCHEDULE_SLOW_PROGRAM_H_

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "tidepool/training/program.h"

namespace tidepool::testing {

class SlowProgram {
 public:
  struct Operation {
    std::string stream;
    std::string channel;  // empty for tasks
    double latency = 0;
    double seconds = 0;  // after the latency
    bool is_first_come = false;
    std::set<std::size_t> after;  // operations that end before this one starts
    std::vector<std::pair<std::string, bool>> touches;  // bytes, and whether they are written
    double start = -1;
    double end = -1;
  };
  // A byte of device memory in use by one allocation. `users` are empty for memory never used.
  struct Held {
    std::size_t device = 0;
    bool is_from_start = false;
    bool is_given_back = false;
    std::vector<std::size_t> users;
  };

  SlowProgram(absl::Span<const TaskGraph> graphs, const Schedule& schedule, const Machine& machine,
              int iterations = 1)
      : graphs_(graphs), schedule_(schedule), machine_(machine) {
    for (std::size_t device = 0; device < schedule.devices; ++device) {
      const std::int64_t pages = machine.devices[device].memory_bytes / schedule.alignment;
      for (std::int64_t i = 0; i < pages; ++i) free_pages_[device].push_back(i);
    }
    for (int i = 0; i < iterations; ++i) AddIteration(i);
    FindDependencies();
    FindTimes();
  }

  const std::vector<Operation>& operations() const { return operations_; }
  std::size_t second_iteration() const { return second_iteration_; }

  // Returns the bytes of a device in use just after a time.
  std::int64_t MemoryAt(std::size_t device, double seconds) const {
    std::int64_t bytes = 0;
    for (const Held& held : held_) {
      if (held.device != device || (held.users.empty() && !IsKept(held))) continue;
      double start = 0;
      if (!held.is_from_start) start = operations_[held.users.front()].start;
      double end = kForever;
      if (held.is_given_back) {
        end = 0;
        for (const std::size_t user : held.users) end = std::max(end, operations_[user].end);
      }
      if (start <= seconds && seconds < end) bytes += schedule_.alignment;
    }
    return bytes;
  }

 private:
  static constexpr double kForever = 1e300;

  static bool IsKept(const Held& held) { return held.is_from_start && !held.is_given_back; }

  // Bytes of data on a device. Every granule has an owner in held_.
  struct Granule {
    std::int64_t address = 0;  // of its first byte, or the number of the page
    std::size_t held = 0;
    bool is_touched = false;
  };
  using Place = std::tuple<std::size_t, std::size_t, std::int64_t>;  // device, data, granule

  bool IsFixed() const { return schedule_.memory == ScheduleMemory::kFixed; }
  std::int64_t Granules(std::int64_t bytes) const {
    return (bytes + schedule_.alignment - 1) / schedule_.alignment;
  }

  void AddIteration(int iteration) {
    iteration_ = iteration;
    if (iteration == 1) second_iteration_ = operations_.size();
    if (iteration > 0) ReleaseWhatIsMadeAgain();
    std::vector<ScheduleRound> rounds = schedule_.rounds;
    if (rounds.empty()) rounds.push_back({.steps = schedule_.steps.size()});
    for (const ScheduleRound& round : rounds) {
      graph_ = &graphs_[0];
      for (const TaskGraph& graph : graphs_) {
        if (round.batch != 0 && graph.batch == round.batch) graph_ = &graph;
      }
      for (std::int64_t time = 0; time < round.times; ++time) {
        for (std::size_t i = 0; i < round.steps; ++i) Add(schedule_.steps[round.first_step + i]);
      }
    }
  }

  void ReleaseWhatIsMadeAgain() {
    std::vector<Place> places;
    for (const auto& [place, granule] : on_device_) {
      if (graph_->data[std::get<1>(place)].before != DataHome::kDevice) places.push_back(place);
    }
    for (const Place& place : places) Give(place);
  }

  void Add(const ScheduleStep& step) {
    const bool has_data = step.kind != StepKind::kRun && step.kind != StepKind::kSynchronize;
    const std::int64_t bytes = has_data ? graph_->data[step.index].bytes : 0;
    const std::int64_t end = step.end < 0 ? bytes : step.end;
    switch (step.kind) {
      case StepKind::kAllocate:
        return Take(step, 0, bytes);
      case StepKind::kFree:
        return GiveRange(step, 0, bytes);
      case StepKind::kDrop:
        return GiveRange(step, step.begin, end);
      case StepKind::kSynchronize:
        barrier_ = operations_.size();
        return;
      case StepKind::kRun:
        return Run(step);
      case StepKind::kOffload:
      case StepKind::kPrefetch:
        return Copy(step, step.begin, end);
      case StepKind::kReceive:  // not in random programs, and so is the next
      case StepKind::kAdd:
        return;
    }
  }

  void Take(const ScheduleStep& step, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin / schedule_.alignment; i < Granules(end); ++i) {
      const Place place = {step.device, step.index, i};
      if (on_device_.contains(place)) continue;  // kept since the last iteration
      Granule granule;
      granule.address = NextAddress(step, i);
      granule.held = held_.size();
      const bool is_home = step.kind == StepKind::kAllocate && iteration_ == 0 &&
                           graph_->data[step.index].before == DataHome::kDevice;
      granule.is_touched = is_home;
      held_.push_back({step.device, is_home, false, {}});
      on_device_[place] = granule;
    }
  }

  std::int64_t NextAddress(const ScheduleStep& step, std::int64_t granule) {
    if (IsFixed()) return step.offset + granule * schedule_.alignment;
    std::deque<std::int64_t>& pages = free_pages_[step.device];
    auto page = pages.begin();
    if (step.kind == StepKind::kPrefetch) {
      page = std::find_if(pages.begin(), pages.end(), [&](std::int64_t free) {
        return !IsOfLastTask(AddressName(step.device, free));
      });
      if (page == pages.end()) page = pages.begin();
    }
    const std::int64_t taken = *page;
    pages.erase(page);
    return taken;
  }

  // Whether one of the last users of a byte is the last task of its stream.
  bool IsOfLastTask(const std::string& bytes) const {
    const auto users = last_users_.find(bytes);
    if (users == last_users_.end()) return false;
    for (const std::size_t user : users->second) {
      bool is_last = operations_[user].stream.starts_with("compute ");
      for (std::size_t later = user + 1; later < operations_.size(); ++later) {
        is_last &= operations_[later].stream != operations_[user].stream;
      }
      if (is_last) return true;
    }
    return false;
  }

  void GiveRange(const ScheduleStep& step, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin / schedule_.alignment; i < Granules(end); ++i) {
      const Place place = {step.device, step.index, i};
      if (on_device_.contains(place)) Give(place);
    }
  }

  void Give(const Place& place) {
    const Granule granule = on_device_.at(place);
    held_[granule.held].is_given_back = true;
    if (!IsFixed()) free_pages_[std::get<0>(place)].push_back(granule.address);
    on_device_.erase(place);
  }

  Operation& Begin(const std::string& stream) {
    Operation& operation = operations_.emplace_back();
    operation.stream = stream;
    for (std::size_t i = 0; i < barrier_; ++i) operation.after.insert(i);
    return operation;
  }

  void Touch(const std::string& bytes, bool writes) {
    operations_.back().touches.emplace_back(bytes, writes);
    std::set<std::size_t>& users = last_users_[bytes];
    if (writes) users.clear();
    users.insert(operations_.size() - 1);
  }

  // The first use of memory counts as a write: its old contents are gone.
  void TouchData(std::size_t device, std::size_t data, std::int64_t begin, std::int64_t end,
                 bool writes) {
    for (std::int64_t i = begin / schedule_.alignment; i < Granules(end); ++i) {
      Granule& granule = on_device_.at({device, data, i});
      Touch(AddressName(device, granule.address), writes || !granule.is_touched);
      granule.is_touched = true;
      held_[granule.held].users.push_back(operations_.size() - 1);
    }
  }

  static std::string AddressName(std::size_t device, std::int64_t address) {
    return "device " + std::to_string(device) + " address " + std::to_string(address);
  }

  void TouchHost(std::size_t device, std::size_t data, std::int64_t begin, std::int64_t end,
                 bool writes) {
    for (std::int64_t i = begin / schedule_.alignment; i < Granules(end); ++i) {
      const std::string owner = HostOwner(device, data);
      Touch("host " + owner + " " + std::to_string(data) + " " + std::to_string(i), writes);
      on_host_.insert({owner, data});
    }
  }

  std::string HostOwner(std::size_t device, std::size_t data) const {
    const DataKind kind = graph_->data[data].kind;
    if (kind == DataKind::kWeight || kind == DataKind::kOptimizerState) return "all";
    return device == kHostDevice ? "host" : std::to_string(device);
  }

  void Run(const ScheduleStep& step) {
    const GraphTask& task = graph_->tasks[step.index];
    Operation& operation = Begin((step.device == kHostDevice ? "core " : "compute ") +
                                 std::to_string(step.device) + " " + std::to_string(step.stream));
    operation.seconds = task.algorithms[step.algorithm].seconds;
    if (step.device == kHostDevice) return RunOnHost(task);
    for (const std::size_t data : task.reads) UseAll(step.device, data, false);
    for (const std::size_t data : task.writes) UseAll(step.device, data, true);
    for (const std::size_t data : task.updates) UseAll(step.device, data, true);
    const std::int64_t workspace = task.algorithms[step.algorithm].workspace_bytes;
    std::vector<std::int64_t> addresses;
    for (std::int64_t i = 0; i < Granules(workspace); ++i) {
      addresses.push_back(NextAddress(step, i));
      Touch(AddressName(step.device, addresses.back()), true);
      held_.push_back({step.device, false, true, {operations_.size() - 1}});
    }
    if (IsFixed()) return;
    for (const std::int64_t page : addresses) free_pages_[step.device].push_back(page);
  }

  void RunOnHost(const GraphTask& task) {
    double seconds = 0;
    for (const std::size_t data : task.reads) {
      const auto bytes = static_cast<double>(graph_->data[data].bytes);
      std::set<std::size_t> devices = {kHostDevice};
      for (std::size_t device = 0; device < schedule_.devices; ++device) devices.insert(device);
      std::set<std::string> read;
      for (const std::size_t device : devices) {
        const std::string owner = HostOwner(device, data);
        const bool is_there = on_host_.contains({owner, data}) ||
                              (graph_->data[data].before == DataHome::kHost && owner != "host");
        if (!is_there || !read.insert(owner).second) continue;
        TouchHost(device, data, 0, graph_->data[data].bytes, false);
        seconds += bytes / machine_.host.accumulation_bytes_per_second;
      }
    }
    for (const auto* uses : {&task.writes, &task.updates}) {
      for (const std::size_t data : *uses) {
        TouchHost(kHostDevice, data, 0, graph_->data[data].bytes, true);
        seconds +=
            static_cast<double>(graph_->data[data].bytes) / machine_.host.update_bytes_per_second;
      }
    }
    operations_.back().seconds = seconds;
  }

  void UseAll(std::size_t device, std::size_t data, bool writes) {
    TouchData(device, data, 0, graph_->data[data].bytes, writes);
  }

  void Copy(const ScheduleStep& step, std::int64_t begin, std::int64_t end) {
    const bool is_out = step.kind == StepKind::kOffload;
    const std::size_t link_number = machine_.devices[step.device].link;
    const MachineLink& link = machine_.links[link_number];
    const std::string way = !link.full_duplex ? "both" : is_out ? "out" : "in";
    if (!is_out) Take(step, begin, end);
    Operation& operation = Begin(way + " " + std::to_string(step.device));
    operation.channel = way + " of link " + std::to_string(link_number);
    operation.latency = link.latency_seconds;
    operation.seconds = SecondsOfCopy(step, begin, end);
    operation.is_first_come = link.sharing == LinkSharing::kFirstComeFirstServed;
    TouchData(step.device, step.index, begin, end, !is_out);
    TouchHost(step.device, step.index, begin, end, is_out);
  }

  // The host remembers the density of each granule.
  double SecondsOfCopy(const ScheduleStep& step, std::int64_t begin, std::int64_t end) {
    const MachineDevice& device = machine_.devices[step.device];
    const bool is_out = step.kind == StepKind::kOffload;
    double sent = 0;
    double worked_on = 0;
    for (std::int64_t byte = begin; byte < end; ++byte) {
      const std::int64_t granule = byte / schedule_.alignment;
      const auto place = std::make_tuple(HostOwner(step.device, step.index), step.index, granule);
      if (is_out) densities_[place] = step.density;
      const auto found = densities_.find(place);
      const bool is_raw = found == densities_.end() || found->second < 0;
      sent += is_raw ? 1 : std::min(1.0, found->second + 1.0 / 32);
      worked_on += is_raw ? 0 : 1;
    }
    const MachineLink& link = machine_.links[device.link];
    const double on_link = sent / (is_out ? link.out_bytes_per_second : link.in_bytes_per_second);
    if (worked_on == 0) return on_link;
    const CopyCompressor& engine = device.compressor;
    return std::max(
        on_link, worked_on / (is_out ? engine.out_bytes_per_second : engine.in_bytes_per_second));
  }

  void FindDependencies() {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      std::map<std::string, bool> own;
      for (const auto& [bytes, writes] : operations_[i].touches) own[bytes] |= writes;
      for (std::size_t before = 0; before < i; ++before) {
        if (operations_[before].stream == operations_[i].stream)
          operations_[i].after.insert(before);
        for (const auto& [bytes, writes] : operations_[before].touches) {
          const auto found = own.find(bytes);
          if (found != own.end() && (writes || found->second)) operations_[i].after.insert(before);
        }
      }
    }
  }

  bool IsReady(const Operation& operation, double now) const {
    return operation.start < 0 &&
           std::all_of(operation.after.begin(), operation.after.end(), [&](std::size_t before) {
             return operations_[before].end >= 0 && operations_[before].end <= now;
           });
  }

  // Advances from one event to the next, with all rates worked out again each time.
  void FindTimes() {
    std::vector<double> latencies;
    std::vector<double> work;
    std::vector<double> ready_since(operations_.size(), -1);
    for (const Operation& operation : operations_) {
      latencies.push_back(operation.latency);
      work.push_back(operation.seconds);
    }
    double now = 0;
    for (std::size_t done = 0; done < operations_.size();) {
      for (std::size_t i = 0; i < operations_.size(); ++i) {
        Operation& operation = operations_[i];
        if (!IsReady(operation, now)) continue;
        if (ready_since[i] < 0) ready_since[i] = now;
        if (!operation.channel.empty() && operation.is_first_come) continue;
        operation.start = now;
      }
      BeginFirstComers(now, ready_since);
      double step = kForever;
      for (std::size_t i = 0; i < operations_.size(); ++i) {
        if (IsRunning(i))
          step = std::min(step, latencies[i] > 0 ? latencies[i] : work[i] * Share(i, latencies));
      }
      std::vector<double> shares;
      for (std::size_t i = 0; i < operations_.size(); ++i) {
        shares.push_back(IsRunning(i) ? Share(i, latencies) : 1);
      }
      now += step;
      for (std::size_t i = 0; i < operations_.size(); ++i) {
        if (!IsRunning(i)) continue;
        if (latencies[i] > 0) {
          latencies[i] = latencies[i] - step < kTiny ? 0 : latencies[i] - step;
          if (latencies[i] > 0 || work[i] > 0) continue;
        } else {
          work[i] -= step / shares[i];
        }
        if (work[i] < kTiny) {
          operations_[i].end = now;
          ++done;
        }
      }
    }
  }

  static constexpr double kTiny = 1e-12;

  bool IsRunning(std::size_t i) const {
    return operations_[i].start >= 0 && operations_[i].end < 0;
  }

  // Returns the number of copies that divide the channel of operation i.
  double Share(std::size_t i, const std::vector<double>& latencies) const {
    const std::string& channel = operations_[i].channel;
    if (channel.empty()) return 1;
    double share = 0;
    for (std::size_t other = 0; other < operations_.size(); ++other) {
      if (IsRunning(other) && operations_[other].channel == channel && latencies[other] <= 0)
        ++share;
    }
    return share;
  }

  void BeginFirstComers(double now, const std::vector<double>& ready_since) {
    std::set<std::string> busy;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (IsRunning(i)) busy.insert(operations_[i].channel);
    }
    std::set<std::tuple<double, std::size_t>> waiting;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (operations_[i].start < 0 && ready_since[i] >= 0) waiting.insert({ready_since[i], i});
    }
    for (const auto& [since, i] : waiting) {
      if (busy.insert(operations_[i].channel).second) operations_[i].start = now;
    }
  }

  absl::Span<const TaskGraph> graphs_;
  const Schedule& schedule_;
  const Machine& machine_;
  const TaskGraph* graph_ = nullptr;
  int iteration_ = 0;
  std::size_t second_iteration_ = 0;
  std::size_t barrier_ = 0;  // later operations wait for all of these
  std::vector<Operation> operations_;
  std::vector<Held> held_;
  std::map<std::string, std::set<std::size_t>> last_users_;  // of bytes, since the last write
  std::map<Place, Granule> on_device_;
  std::set<std::pair<std::string, std::size_t>> on_host_;
  std::map<std::tuple<std::string, std::size_t, std::int64_t>, double> densities_;  // of copies
  std::map<std::size_t, std::deque<std::int64_t>> free_pages_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_SCHEDULE_SLOW_PROGRAM_H_
