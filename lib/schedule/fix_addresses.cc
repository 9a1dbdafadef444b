// SPDX-License-Identifier: Apache-2.0
// Gives a paged schedule fixed addresses: finds the times at which data is on a device, and plans
// them as buffers.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/schedule/byte_ranges.h"
#include "lib/schedule/rounds.h"
#include "lib/schedule/schedule_planning.h"
#include "tidepool/schedule/schedule.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

using schedule::ByteRange;

constexpr std::size_t kNoBuffer = std::numeric_limits<std::size_t>::max();

// The buffers of one device. A buffer is one stay of data: the steps from its first byte that comes
// to its last byte that goes. Stays that must have one offset become one buffer, which lives from
// the first to the last of them.
class DeviceBuffers {
 public:
  DeviceBuffers(absl::Span<const TaskGraph> graphs, Schedule& schedule, std::size_t device)
      : graphs_(graphs),
        schedule_(schedule),
        device_(device),
        graph_(&graphs.front()),
        data_(graphs.front().data.size()),
        buffer_at_(schedule.steps.size(), kNoBuffer) {}

  // Finds the buffers of a valid schedule.
  void Find() {
    const auto end = static_cast<std::int64_t>(schedule_.steps.size());
    for (const ScheduleRound& round : schedule::RoundsOf(schedule_)) FindOf(round);
    for (std::size_t data = 0; data < data_.size(); ++data) {
      const std::size_t buffer = data_[data].buffer;
      if (buffer == kNoBuffer) continue;
      buffers_[buffer].upper = end;
      if (data_[data].first != kNoBuffer) Join(data_[data].first, buffer);
    }
    JoinLifetimes();
  }

  // Plans the buffers and writes their offsets into the steps.
  absl::Status Plan(std::int64_t alignment, std::int64_t memory_bytes) {
    PlanProblem problem;
    std::vector<std::size_t> numbers(buffers_.size(), kNoBuffer);
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (RootOf(i) != i) continue;
      numbers[i] = problem.buffers.size();
      problem.buffers.push_back(buffers_[i]);
      problem.buffers.back().alignment = alignment;
    }
    if (problem.buffers.empty()) return absl::OkStatus();
    const absl::StatusOr<tidepool::Plan> plan = schedule::PlanFor(problem, memory_bytes);
    if (!plan.ok()) return plan.status();
    if (plan->height > memory_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("the plan of device ", device_, " needs ",
                                                       plan->height, " bytes, expected at most ",
                                                       memory_bytes));
    }
    for (std::size_t i = 0; i < buffer_at_.size(); ++i) {
      if (buffer_at_[i] == kNoBuffer) continue;
      schedule_.steps[i].offset = plan->offsets[numbers[RootOf(buffer_at_[i])]];
    }
    return absl::OkStatus();
  }

 private:
  struct Datum {
    schedule::ByteRanges bytes;
    std::size_t buffer = kNoBuffer;  // of the current stay
    std::size_t first = kNoBuffer;   // of the first stay of data that is resident
  };

  std::size_t Begin(std::int64_t step, std::int64_t bytes) {
    buffers_.push_back({.lower = step, .upper = step + 1, .bytes = bytes});
    parents_.push_back(parents_.size());
    return buffers_.size() - 1;
  }

  void FindOf(const ScheduleRound& round) {
    graph_ = schedule::GraphOf(graphs_, round);
    const std::vector<std::size_t> before = Stays();
    for (std::size_t i = 0; i < round.steps; ++i) Perform(round.first_step + i);
    if (round.times == 1) return;
    // The end of one repetition is the begin of the next.
    for (std::size_t data = 0; data < data_.size(); ++data) {
      if (before[data] != kNoBuffer) Join(before[data], data_[data].buffer);
    }
  }

  std::vector<std::size_t> Stays() const {
    std::vector<std::size_t> stays;
    stays.reserve(data_.size());
    for (const Datum& datum : data_) stays.push_back(datum.buffer);
    return stays;
  }

  void Perform(std::size_t at) {
    const ScheduleStep& step = schedule_.steps[at];
    if (step.device != device_) return;
    switch (step.kind) {
      case StepKind::kAllocate:
      case StepKind::kPrefetch:
        return Take(at);
      case StepKind::kFree:
        return GiveBack(at, {0, graph_->data[step.index].bytes});
      case StepKind::kDrop:
        return GiveBack(at, RangeOf(step));
      case StepKind::kRun: {
        const std::int64_t bytes =
            graph_->tasks[step.index].algorithms[step.algorithm].workspace_bytes;
        if (bytes > 0) buffer_at_[at] = Begin(static_cast<std::int64_t>(at), bytes);
        return;
      }
      default:
        return;
    }
  }

  ByteRange RangeOf(const ScheduleStep& step) const {
    return {step.begin, step.end == -1 ? graph_->data[step.index].bytes : step.end};
  }

  void Take(std::size_t at) {
    const ScheduleStep& step = schedule_.steps[at];
    const GraphData& data = graph_->data[step.index];
    Datum& datum = data_[step.index];
    if (datum.buffer == kNoBuffer) datum.buffer = Begin(static_cast<std::int64_t>(at), data.bytes);
    datum.bytes.Add(RangeOf(step));
    buffer_at_[at] = datum.buffer;
    const bool is_resident = data.before == DataHome::kDevice && data.after == DataHome::kDevice;
    if (!is_resident || datum.first != kNoBuffer) return;
    // It is there from the iteration before.
    datum.first = datum.buffer;
    buffers_[datum.buffer].lower = -1;
  }

  void GiveBack(std::size_t at, ByteRange range) {
    Datum& datum = data_[schedule_.steps[at].index];
    if (datum.buffer == kNoBuffer) return;
    datum.bytes.Add(range);
    datum.bytes.Remove(range);
    if (!datum.bytes.empty()) return;
    buffers_[datum.buffer].upper =
        std::max(buffers_[datum.buffer].upper, static_cast<std::int64_t>(at));
    datum.buffer = kNoBuffer;
  }

  std::size_t RootOf(std::size_t buffer) {
    while (parents_[buffer] != buffer) buffer = parents_[buffer] = parents_[parents_[buffer]];
    return buffer;
  }
  void Join(std::size_t a, std::size_t b) { parents_[RootOf(b)] = RootOf(a); }

  void JoinLifetimes() {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      PlanBuffer& root = buffers_[RootOf(i)];
      root.lower = std::min(root.lower, buffers_[i].lower);
      root.upper = std::max(root.upper, buffers_[i].upper);
    }
  }

  const absl::Span<const TaskGraph> graphs_;
  Schedule& schedule_;
  const std::size_t device_;
  const TaskGraph* graph_;  // of the current round
  std::vector<Datum> data_;
  std::vector<PlanBuffer> buffers_;
  std::vector<std::size_t> parents_;    // union-find (Tarjan 1975), by buffer
  std::vector<std::size_t> buffer_at_;  // by step that takes memory
};

absl::Status CheckFixArguments(const Schedule& schedule, std::int64_t alignment,
                               absl::Span<const std::int64_t> memory_bytes) {
  if (schedule.memory != ScheduleMemory::kPaged) {
    return absl::InvalidArgumentError(absl::StrCat("a schedule with ",
                                                   std::string(ScheduleMemoryName(schedule.memory)),
                                                   " memory, expected paged memory"));
  }
  if (alignment < 1 || alignment > kMostAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment ", alignment, ", expected a power of two up to 1 GiB"));
  }
  if (memory_bytes.size() >= schedule.devices) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the memory of ", memory_bytes.size(), " devices, expected that of all ", schedule.devices));
}

}  // namespace

absl::StatusOr<Schedule> FixAddresses(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                                      std::int64_t alignment,
                                      absl::Span<const std::int64_t> memory_bytes) {
  absl::Status status = CheckFixArguments(schedule, alignment, memory_bytes);
  if (status.ok()) status = ValidateSchedule(graphs, schedule);
  if (!status.ok()) return status;
  Schedule fixed = schedule;
  for (std::size_t device = 0; device < schedule.devices; ++device) {
    DeviceBuffers buffers(graphs, fixed, device);
    buffers.Find();
    if (status = buffers.Plan(alignment, memory_bytes[device]); !status.ok()) return status;
  }
  fixed.memory = ScheduleMemory::kFixed;
  fixed.alignment = alignment;
  return fixed;
}

}  // namespace tidepool
