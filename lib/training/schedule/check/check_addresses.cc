// SPDX-License-Identifier: Apache-2.0
// Checks the addresses of a schedule: keeps the live ranges of each device in the order of steps.
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "lib/training/schedule/steps/byte_ranges.h"
#include "lib/training/schedule/steps/rounds.h"
#include "lib/training/schedule/steps/step_text.h"
#include "tidepool/training/schedule.h"

namespace tidepool {
namespace {

using schedule::ByteRange;

std::string Text(ByteRange range) { return absl::StrCat("[", range.begin, ", ", range.end, ")"); }

// Whether the data lies at one address from iteration to iteration.
bool IsResident(const GraphData& data) {
  return data.before == DataHome::kDevice && data.after == DataHome::kDevice;
}

class AddressCheck {
 public:
  AddressCheck(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
               absl::Span<const std::int64_t> memory_bytes)
      : graphs_(graphs),
        schedule_(schedule),
        memory_bytes_(memory_bytes),
        graph_(&graphs.front()),
        live_(schedule.devices),
        data_(schedule.devices) {}

  absl::Status Check() {
    const std::vector<ScheduleRound> rounds = schedule::RoundsOf(schedule_);
    graph_ = schedule::GraphOf(graphs_, rounds.front());
    if (absl::Status status = TakeResident(); !status.ok()) return status;
    for (const ScheduleRound& round : rounds) {
      graph_ = schedule::GraphOf(graphs_, round);
      for (std::size_t i = 0; i < round.steps; ++i) {
        at_ = round.first_step + i;
        if (absl::Status status = CheckStep(schedule_.steps[at_]); !status.ok()) return status;
      }
    }
    return CheckResident();
  }

 private:
  struct Live {
    std::int64_t end = 0;
    std::size_t data = 0;
  };
  struct Datum {
    std::int64_t offset = -1;
    std::int64_t first_offset = -1;  // of resident data
    bool is_given = false;           // has its memory from the last iteration still
    schedule::ByteRanges bytes;      // on the device
  };

  template <typename... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return schedule::WrongStep(*graph_, schedule_, at_, parts...);
  }

  Datum& DatumOf(const ScheduleStep& step) {
    std::vector<Datum>& data = data_[step.device];
    if (data.empty()) data.resize(graph_->data.size());
    return data[step.index];
  }

  ByteRange RangeOf(const ScheduleStep& step) const {
    return {step.begin, step.end == -1 ? graph_->data[step.index].bytes : step.end};
  }

  static std::int64_t SizeOf(ByteRange range) { return range.end - range.begin; }

  // The memory of resident data is in use before the step that allocates it, except in the first
  // iteration.
  absl::Status TakeResident() {
    for (at_ = 0; at_ < schedule_.steps.size(); ++at_) {
      const ScheduleStep& step = schedule_.steps[at_];
      if (step.kind != StepKind::kAllocate || !IsResident(graph_->data[step.index])) continue;
      Datum& datum = DatumOf(step);
      if (datum.first_offset != -1) continue;
      if (absl::Status status = Take(step, datum, RangeOf(step)); !status.ok()) return status;
      datum.first_offset = step.offset;
      datum.is_given = true;
    }
    return absl::OkStatus();
  }

  absl::Status CheckStep(const ScheduleStep& step) {
    switch (step.kind) {
      case StepKind::kAllocate:
      case StepKind::kPrefetch: {
        Datum& datum = DatumOf(step);
        if (!datum.is_given) return Take(step, datum, RangeOf(step));
        datum.is_given = false;
        return absl::OkStatus();
      }
      case StepKind::kFree:
        GiveBack(step, DatumOf(step), {0, graph_->data[step.index].bytes});
        return absl::OkStatus();
      case StepKind::kDrop:
        GiveBack(step, DatumOf(step), RangeOf(step));
        return absl::OkStatus();
      case StepKind::kRun:
        return CheckWorkspace(step);
      case StepKind::kAdd:
        return CheckRange(step.device, {step.offset, step.offset + SizeOf(RangeOf(step))});
      default:
        return absl::OkStatus();
    }
  }

  absl::Status CheckRange(std::size_t device, ByteRange range) const {
    const std::int64_t memory = memory_bytes_[device];
    if (range.end > memory) {
      return Wrong("addresses ", Text(range), ", expected addresses in [0, ", memory,
                   ") of device ", device);
    }
    const absl::btree_map<std::int64_t, Live>& live = live_[device];
    const auto after = live.lower_bound(range.end);
    if (after == live.begin() || std::prev(after)->second.end <= range.begin) {
      return absl::OkStatus();
    }
    const auto& [begin, other] = *std::prev(after);
    return Wrong("addresses ", Text(range), " overlap ", Text({begin, other.end}), " of data ",
                 schedule::DataName(*graph_, other.data), ", expected addresses that are free");
  }

  absl::Status Take(const ScheduleStep& step, Datum& datum, ByteRange range) {
    const ByteRange addresses = {step.offset + range.begin, step.offset + range.end};
    if (absl::Status status = CheckRange(step.device, addresses); !status.ok()) return status;
    datum.offset = step.offset;
    datum.bytes.Add(range);
    live_[step.device].emplace(addresses.begin, Live{addresses.end, step.index});
    return absl::OkStatus();
  }

  // Ends the life of the bytes of `range` that are on the device.
  void GiveBack(const ScheduleStep& step, Datum& datum, ByteRange range) {
    absl::btree_map<std::int64_t, Live>& live = live_[step.device];
    const ByteRange addresses = {datum.offset + range.begin, datum.offset + range.end};
    if (datum.bytes.empty()) return;
    auto at = live.upper_bound(addresses.begin);
    if (at != live.begin() && std::prev(at)->second.end > addresses.begin) --at;
    while (at != live.end() && at->first < addresses.end) {
      if (at->second.data != step.index) {
        ++at;  // in memory that this data gave back before
        continue;
      }
      const ByteRange whole = {at->first, at->second.end};
      at = live.erase(at);
      if (whole.begin < addresses.begin) {
        live.emplace(whole.begin, Live{addresses.begin, step.index});
      }
      if (addresses.end < whole.end) {
        at = live.emplace(addresses.end, Live{whole.end, step.index}).first;
      } else {
        at = live.lower_bound(whole.end);
      }
    }
    datum.bytes = Rest(datum.bytes, range);
  }

  // Returns the bytes that are not in `range`.
  static schedule::ByteRanges Rest(schedule::ByteRanges bytes, ByteRange range) {
    bytes.Add(range);
    bytes.Remove(range);
    return bytes;
  }

  absl::Status CheckWorkspace(const ScheduleStep& step) const {
    const TaskAlgorithm& algorithm = graph_->tasks[step.index].algorithms[step.algorithm];
    const std::int64_t bytes = algorithm.workspace_bytes;
    if (bytes == 0 || step.device == kHostDevice) return absl::OkStatus();
    return CheckRange(step.device, {step.offset, step.offset + bytes});
  }

  absl::Status CheckResident() const {
    for (std::size_t device = 0; device < data_.size(); ++device) {
      for (std::size_t data = 0; data < data_[device].size(); ++data) {
        const Datum& datum = data_[device][data];
        if (datum.first_offset == -1 || datum.offset == datum.first_offset) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            "after the last step: data ", schedule::DataName(*graph_, data), " of device ", device,
            " is at offset ", datum.offset, ", expected offset ", datum.first_offset,
            ", where the next iteration looks for it"));
      }
    }
    return absl::OkStatus();
  }

  const absl::Span<const TaskGraph> graphs_;
  const Schedule& schedule_;
  const absl::Span<const std::int64_t> memory_bytes_;
  const TaskGraph* graph_;                                 // of the current round
  std::vector<absl::btree_map<std::int64_t, Live>> live_;  // by device and begin
  std::vector<std::vector<Datum>> data_;                   // by device; empty before its first step
  std::size_t at_ = 0;
};

}  // namespace

absl::Status ValidateAddresses(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                               absl::Span<const std::int64_t> memory_bytes) {
  if (absl::Status status = ValidateSchedule(graphs, schedule); !status.ok()) return status;
  if (schedule.memory != ScheduleMemory::kFixed) {
    return absl::InvalidArgumentError(
        absl::StrCat("a schedule with ", std::string(ScheduleMemoryName(schedule.memory)),
                     " memory has no addresses, expected fixed memory"));
  }
  if (memory_bytes.size() < schedule.devices) {
    return absl::InvalidArgumentError(absl::StrCat("the memory of ", memory_bytes.size(),
                                                   " devices, expected that of all ",
                                                   schedule.devices));
  }
  return AddressCheck(graphs, schedule, memory_bytes).Check();
}

}  // namespace tidepool
