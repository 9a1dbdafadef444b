// SPDX-License-Identifier: Apache-2.0
// Walks through the steps with the times of their operations: each byte range of each datum knows
// until when it is written and used.
#include "tests/support/check_times/check_times.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/training/schedule/steps/check_numbers.h"
#include "lib/training/schedule/steps/rounds.h"
#include "lib/training/schedule/steps/step_text.h"
#include "tests/support/check_times/held_memory.h"
#include "tidepool/training/program.h"

namespace tidepool {
namespace {

using schedule::HeldMemory;
using schedule::LinkCopy;

constexpr double kNotUsed = -1;

// Bytes of a datum with one history, from the key of a map on.
struct Bytes {
  std::int64_t end = 0;
  std::int64_t address = -1;    // of the first byte of the datum
  std::size_t step = 0;         // that took the memory
  double held_from = kNotUsed;  // the start of the first user
  double written_until = 0;     // the end of the last writer
  double used_until = 0;        // the latest end of all users
  double density = -1;          // of a compressed copy on the host
};
using ByteMap = std::map<std::int64_t, Bytes>;

// Cuts the range that covers `position`, if any, in two.
void CutAt(ByteMap& bytes, std::int64_t position) {
  auto after = bytes.lower_bound(position);
  if (after == bytes.begin()) return;
  Bytes& before = std::prev(after)->second;
  if (before.end <= position) return;
  bytes.emplace_hint(after, position, before);
  before.end = position;
}

struct LinkDirection {
  std::vector<LinkCopy> copies;
  std::vector<std::size_t> devices;  // that copy over it, in order of their first copies
};

class TimeCheck {
 public:
  TimeCheck(absl::Span<const TaskGraph> graphs, const Schedule& schedule, const Machine& machine,
            absl::Span<const OperationTimes> times, const TimeLimits& limits)
      : graphs_(graphs),
        schedule_(schedule),
        machine_(machine),
        times_(times),
        limits_(limits),
        held_(schedule.devices),
        on_device_(schedule.devices * graphs.front().data.size()),
        has_begun_(on_device_.size()),
        on_host_((schedule.devices + 1) * graphs.front().data.size()),
        links_(2 * machine.links.size()),
        peers_(schedule.devices) {
    const std::vector<GraphData>& data = graphs.front().data;
    for (std::size_t i = 0; i < on_host_.size(); ++i) {
      const GraphData& own = data[i % data.size()];
      const bool is_owner = (i / data.size() == schedule.devices) == IsShared(own);
      if (own.before == DataHome::kHost && is_owner) on_host_[i][0] = {.end = own.bytes};
    }
  }

  absl::Status Check() {
    if (absl::Status status = CheckCount(); !status.ok()) return status;
    for (const ScheduleRound& round : schedule::RoundsOf(schedule_)) {
      graph_ = schedule::GraphOf(graphs_, round);
      const std::int64_t times = round.steps == 0 ? 0 : round.times;
      for (std::int64_t time = 0; time < times; ++time) {
        for (std::size_t i = 0; i < round.steps; ++i) {
          at_ = round.first_step + i;
          if (absl::Status status = CheckStep(); !status.ok()) return status;
        }
      }
    }
    return CheckWhole();
  }

 private:
  enum class Use : std::uint8_t { kRead, kWrite };

  template <typename... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return schedule::WrongStep(*graph_, schedule_, at_, parts...);
  }

  const ScheduleStep& step() const { return schedule_.steps[at_]; }
  const OperationTimes& now() const { return times_[next_]; }
  double tolerance() const { return limits_.tolerance_seconds; }

  // Refuses another number of times before any work is done for the repetitions.
  absl::Status CheckCount() const {
    std::size_t steps = 0;
    std::size_t operations = 0;
    for (const ScheduleRound& round : schedule::RoundsOf(schedule_)) {
      const auto times = static_cast<std::size_t>(round.times);
      if (round.steps > (kMostOperations - steps) / times) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the rounds have more than ", kMostOperations, " steps, expected at most that many"));
      }
      steps += round.steps * times;
      for (std::size_t i = 0; i < round.steps; ++i) {
        const StepKind kind = schedule_.steps[round.first_step + i].kind;
        if (kind == StepKind::kRun || kind == StepKind::kOffload || kind == StepKind::kPrefetch ||
            kind == StepKind::kReceive || kind == StepKind::kAdd) {
          operations += times;
        }
      }
    }
    if (operations == times_.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(times_.size(),
                                                   " times, expected one for each "
                                                   "task and copy, ",
                                                   operations));
  }

  absl::Status CheckStep() {
    switch (step().kind) {
      case StepKind::kAllocate:
        Take(0, BytesOf(step().index));
        return absl::OkStatus();
      case StepKind::kFree:
        Give(0, BytesOf(step().index));
        return absl::OkStatus();
      case StepKind::kDrop:
        Give(step().begin, EndOfRange());
        return absl::OkStatus();
      case StepKind::kSynchronize:
        synchronized_ = latest_end_;
        return absl::OkStatus();
      case StepKind::kRun:
      case StepKind::kOffload:
      case StepKind::kPrefetch:
      case StepKind::kReceive:
      case StepKind::kAdd:
        return CheckOperation();
    }
    return Wrong("of a kind that is none");
  }

  // Checks an operation, and goes to the next.
  absl::Status CheckOperation() {
    if (!(now().start >= 0) || !(now().end >= now().start)) {
      return Wrong("from ", now().start, " to ", now().end, " seconds, expected ascending times");
    }
    const bool is_copy = step().kind != StepKind::kRun;
    const bool is_on_host = step().device == kHostDevice;
    absl::Status status = IsExchange() ? CheckExchange()
                          : is_copy    ? CheckCopy()
                          : is_on_host ? CheckHostTask()
                                       : CheckTask();
    if (status.ok()) status = CheckStart(synchronized_, "a synchronisation");
    double& tail = tails_[Stream()];
    if (status.ok()) status = CheckStart(tail, "its stream");
    if (!status.ok()) return status;
    tail = now().end;
    latest_end_ = std::max(latest_end_, now().end);
    if (now().end > limits_.most_seconds + tolerance()) {
      return absl::DeadlineExceededError(
          absl::StrCat(schedule::StepText(*graph_, schedule_, at_), ": ends at ", now().end,
                       " seconds, expected at most ", limits_.most_seconds));
    }
    ++next_;
    return absl::OkStatus();
  }

  absl::Status CheckStart(double earliest, const std::string& cause) const {
    if (now().start >= earliest - tolerance()) return absl::OkStatus();
    return Wrong("starts at ", now().start, " seconds, expected ", earliest,
                 " or later because of ", cause);
  }

  absl::Status CheckDuration(double seconds) const {
    if (std::abs(now().end - now().start - seconds) <= tolerance()) return absl::OkStatus();
    return Wrong("takes ", now().end - now().start, " seconds, expected ", seconds);
  }

  // Returns a number for the stream of the operation: device, kind and number.
  std::pair<std::size_t, std::size_t> Stream() const {
    if (step().kind == StepKind::kRun) return {step().device, 2 + step().stream};
    if (IsExchange()) return {step().device, kPeerStream};
    const bool is_out = step().kind == StepKind::kOffload;
    return {step().device, is_out || !LinkOf(step().device).full_duplex ? 0 : 1};
  }

  const MachineLink& LinkOf(std::size_t device) const {
    return machine_.links[machine_.devices[device].link];
  }

  absl::Status CheckTask() {
    const GraphTask& task = graph_->tasks[step().index];
    const TaskAlgorithm& algorithm = task.algorithms[step().algorithm];
    absl::Status status = CheckDuration(algorithm.seconds);
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (const std::size_t data : *uses) {
        if (!status.ok()) return status;
        status = CheckUse(OnDevice(data), 0, BytesOf(data),
                          uses == &task.reads ? Use::kRead : Use::kWrite, data);
      }
    }
    if (algorithm.workspace_bytes > 0) {
      held_[step().device].push_back(
          {now().start, now().end, Granules(0, algorithm.workspace_bytes), step().offset, at_});
    }
    return status;
  }

  absl::Status CheckHostTask() {
    const GraphTask& task = graph_->tasks[step().index];
    double seconds = 0;
    for (const std::size_t data : task.reads) {
      for (std::size_t i = data; i < on_host_.size(); i += graph_->data.size()) {
        for (const auto& [begin, bytes] : on_host_[i]) {
          seconds +=
              static_cast<double>(bytes.end - begin) / machine_.host.accumulation_bytes_per_second;
        }
        absl::Status status = CheckUse(on_host_[i], 0, BytesOf(data), Use::kRead, data);
        if (!status.ok()) return status;
      }
    }
    for (const auto* uses : {&task.writes, &task.updates}) {
      for (const std::size_t data : *uses) {
        seconds += static_cast<double>(BytesOf(data)) / machine_.host.update_bytes_per_second;
        absl::Status status = CheckHostUse(kHostDevice, data, 0, BytesOf(data), Use::kWrite);
        if (!status.ok()) return status;
      }
    }
    return CheckDuration(seconds);
  }

  bool IsExchange() const {
    return step().kind == StepKind::kReceive || step().kind == StepKind::kAdd;
  }

  absl::Status CheckExchange() {
    const PeerLinks& peers = machine_.peers;
    if (!peers.exist()) return Wrong("expected a machine with connections between its devices");
    const std::int64_t end = EndOfRange();
    const auto bytes = static_cast<double>(end - step().begin);
    double seconds = bytes / peers.bytes_per_second;
    absl::Status status = CheckUse(on_device_[step().source * graph_->data.size() + step().index],
                                   step().begin, end, Use::kRead, step().index);
    if (status.ok()) {
      status = CheckUse(OnDevice(step().index), step().begin, end, Use::kWrite, step().index);
    }
    if (step().kind == StepKind::kAdd) {
      seconds += bytes / peers.addition_bytes_per_second;
      held_[step().device].push_back(
          {now().start, now().end, Granules(0, end - step().begin), step().offset, at_});
    }
    LinkDirection& own = peers_[peers.is_bus ? 0 : step().device];
    own.copies.push_back({now().start, now().end, seconds, at_});
    NoteDevice(own);
    return status;
  }

  // Notes that the device copies over a link.
  void NoteDevice(LinkDirection& direction) const {
    const auto known = std::find(direction.devices.begin(), direction.devices.end(), step().device);
    if (known == direction.devices.end()) direction.devices.push_back(step().device);
  }

  static absl::Status CheckDirection(LinkDirection& direction, double latency, LinkSharing sharing,
                                     double tolerance) {
    const LinkSharing own =
        direction.devices.size() > 1 ? sharing : LinkSharing::kFirstComeFirstServed;
    return schedule::CheckLinkCopies(std::move(direction.copies), latency, own, tolerance);
  }

  absl::Status CheckCopy() {
    const bool is_out = step().kind == StepKind::kOffload;
    const std::int64_t end = EndOfRange();
    if (!is_out) Take(step().begin, end);
    absl::Status status = CheckUse(OnDevice(step().index), step().begin, end,
                                   is_out ? Use::kRead : Use::kWrite, step().index);
    if (!status.ok()) return status;
    status = is_out ? CheckHostUse(step().device, step().index, step().begin, end, Use::kWrite)
                    : CheckHostUse(step().device, step().index, step().begin, end, Use::kRead);
    const MachineLink& link = LinkOf(step().device);
    const absl::StatusOr<double> seconds = SecondsOfCopy(is_out, end);
    if (!seconds.ok()) return seconds.status();
    const bool is_second = link.full_duplex && !is_out;
    LinkDirection& direction =
        links_[2 * machine_.devices[step().device].link + (is_second ? 1 : 0)];
    direction.copies.push_back({now().start, now().end, *seconds, at_});
    NoteDevice(direction);
    return status;
  }

  // Returns the time of a copy without latency. Of each byte the link carries the share that the
  // host has, and the compressor takes all bytes of compressed copies.
  absl::StatusOr<double> SecondsOfCopy(bool is_out, std::int64_t end) {
    const MachineLink& link = LinkOf(step().device);
    const CopyCompressor& compressor = machine_.devices[step().device].compressor;
    ByteMap& map = OnHost(step().device, step().index);
    double carried = 0;
    double unpacked = 0;
    for (auto at = map.lower_bound(step().begin); at != map.end() && at->first < end; ++at) {
      if (is_out) at->second.density = step().density;
      const auto bytes = static_cast<double>(at->second.end - at->first);
      const double density = at->second.density;
      carried += density < 0 ? bytes : bytes * std::min(1.0, density + 0.03125);
      unpacked += density < 0 ? 0 : bytes;
    }
    const double on_link =
        carried / (is_out ? link.out_bytes_per_second : link.in_bytes_per_second);
    if (unpacked == 0) return on_link;
    const double rate = is_out ? compressor.out_bytes_per_second : compressor.in_bytes_per_second;
    if (rate == 0) return Wrong("compressed, expected a raw copy: the device has no compressor");
    return std::max(on_link, unpacked / rate);
  }

  // Checks that a use starts after those that it must follow, and remembers its end.
  absl::Status CheckUse(ByteMap& map, std::int64_t begin, std::int64_t end, Use use,
                        std::size_t data) {
    CutAt(map, begin);
    CutAt(map, end);
    for (auto at = map.lower_bound(begin); at != map.end() && at->first < end; ++at) {
      Bytes& bytes = at->second;
      const double earliest = use == Use::kRead ? bytes.written_until : bytes.used_until;
      if (now().start < earliest - tolerance()) {
        return CheckStart(earliest, "data " + schedule::DataName(*graph_, data));
      }
      if (bytes.held_from == kNotUsed) bytes.held_from = now().start;
      if (use == Use::kWrite) bytes.written_until = now().end;
      bytes.used_until = std::max(bytes.used_until, now().end);
    }
    return absl::OkStatus();
  }

  // Copies to the host have room of their own there, which may be new.
  absl::Status CheckHostUse(std::size_t device, std::size_t data, std::int64_t begin,
                            std::int64_t end, Use use) {
    ByteMap& map = OnHost(device, data);
    CutAt(map, begin);
    CutAt(map, end);
    std::int64_t known = begin;
    while (known < end) {
      const auto next = map.lower_bound(known);
      if (next != map.end() && next->first == known) {
        known = next->second.end;
        continue;
      }
      const std::int64_t until = next == map.end() ? end : std::min(end, next->first);
      map.emplace_hint(next, known, Bytes{.end = until});
      known = until;
    }
    return CheckUse(map, begin, end, use, data);
  }

  void Take(std::int64_t begin, std::int64_t end) {
    Bytes bytes = {.end = end, .address = step().offset, .step = at_};
    const std::size_t instance = step().device * graph_->data.size() + step().index;
    // An input that ends nowhere may come late.
    const GraphData& datum = graph_->data[step().index];
    const bool is_home = datum.before == DataHome::kDevice && datum.after != DataHome::kNowhere;
    if (step().kind == StepKind::kAllocate && is_home && !has_begun_[instance]) {
      bytes.held_from = 0;
      has_begun_[instance] = true;
    }
    OnDevice(step().index).emplace(begin, bytes);
  }

  void Give(std::int64_t begin, std::int64_t end) {
    ByteMap& map = OnDevice(step().index);
    CutAt(map, begin);
    CutAt(map, end);
    auto at = map.lower_bound(begin);
    while (at != map.end() && at->first < end) {
      Hold(step().device, at->first, at->second, at->second.used_until);
      at = map.erase(at);
    }
  }

  void Hold(std::size_t device, std::int64_t begin, const Bytes& bytes, double until) {
    if (bytes.held_from == kNotUsed) return;
    const std::int64_t address = bytes.address < 0 ? -1 : bytes.address + begin;
    held_[device].push_back(
        {bytes.held_from, until, Granules(begin, bytes.end), address, bytes.step});
  }

  // Checks memory and links, when all times are known.
  absl::Status CheckWhole() {
    const std::size_t data = graphs_.front().data.size();
    for (std::size_t i = 0; i < on_device_.size(); ++i) {
      for (const auto& [begin, bytes] : on_device_[i]) Hold(i / data, begin, bytes, kForever);
    }
    for (std::size_t device = 0; device < held_.size(); ++device) {
      absl::Status status = schedule::CheckHeldMemory(
          std::move(held_[device]), machine_.devices[device].memory_bytes, tolerance());
      if (!status.ok()) return status;
    }
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const MachineLink& link = machine_.links[i / 2];
      absl::Status status =
          CheckDirection(links_[i], link.latency_seconds, link.sharing, tolerance());
      if (!status.ok()) return status;
    }
    const PeerLinks& peers = machine_.peers;
    for (LinkDirection& direction : peers_) {
      absl::Status status =
          CheckDirection(direction, peers.latency_seconds, peers.sharing, tolerance());
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::int64_t BytesOf(std::size_t data) const { return graph_->data[data].bytes; }
  std::int64_t EndOfRange() const { return step().end < 0 ? BytesOf(step().index) : step().end; }
  // Addresses are exact; pages are whole granules.
  std::int64_t Granules(std::int64_t begin, std::int64_t end) const {
    if (schedule_.memory == ScheduleMemory::kFixed) return end - begin;
    const std::int64_t granule = schedule_.alignment;
    return (end + granule - 1) / granule * granule - begin;
  }

  ByteMap& OnDevice(std::size_t data) {
    return on_device_[step().device * graph_->data.size() + data];
  }
  // Weights and the state of their optimizer have one copy on the host for all devices.
  static bool IsShared(const GraphData& data) {
    return data.kind == DataKind::kWeight || data.kind == DataKind::kOptimizerState;
  }
  ByteMap& OnHost(std::size_t device, std::size_t data) {
    const bool is_of_host = device == kHostDevice || IsShared(graph_->data[data]);
    const std::size_t owner = is_of_host ? schedule_.devices : device;
    return on_host_[owner * graph_->data.size() + data];
  }

  static constexpr std::size_t kPeerStream = kMostComputeStreams + 2;  // after those of tasks
  static constexpr double kForever = std::numeric_limits<double>::infinity();

  const absl::Span<const TaskGraph> graphs_;
  const Schedule& schedule_;
  const Machine& machine_;
  const absl::Span<const OperationTimes> times_;
  const TimeLimits& limits_;
  const TaskGraph* graph_ = nullptr;
  std::size_t at_ = 0;    // the current step
  std::size_t next_ = 0;  // the current operation
  double synchronized_ = 0;
  double latest_end_ = 0;
  std::map<std::pair<std::size_t, std::size_t>, double> tails_;  // by stream
  std::vector<std::vector<HeldMemory>> held_;                    // by device
  std::vector<ByteMap> on_device_;                               // by device and data
  std::vector<bool> has_begun_;       // by device and data: has had the memory of its home
  std::vector<ByteMap> on_host_;      // by device and data, the host's own at the end
  std::vector<LinkDirection> links_;  // two for each link; one transfer at a time uses the first
  std::vector<LinkDirection> peers_;  // by receiving device; a bus uses the first
};

absl::Status CheckInputs(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                         const Machine& machine) {
  if (graphs.empty()) return absl::InvalidArgumentError("no graph, expected at least one");
  if (absl::Status status = ValidateMachine(machine); !status.ok()) return status;
  if (schedule.memory == ScheduleMemory::kPool || schedule.devices > machine.devices.size()) {
    return absl::InvalidArgumentError(
        "expected a schedule with fixed addresses or pages, and a machine with its devices");
  }
  return ValidateSchedule(graphs, schedule);
}

}  // namespace

absl::Status CheckTimes(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                        const Machine& machine, absl::Span<const OperationTimes> times,
                        const TimeLimits& limits) {
  if (absl::Status status = CheckInputs(graphs, schedule, machine); !status.ok()) return status;
  TimeLimits scaled = limits;
  double latest = 1;
  for (const OperationTimes& time : times) latest = std::max(latest, time.end);
  scaled.tolerance_seconds *= latest;
  return TimeCheck(graphs, schedule, machine, times, scaled).Check();
}

}  // namespace tidepool
