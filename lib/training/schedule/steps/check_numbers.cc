// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/steps/check_numbers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "lib/training/schedule/steps/begin_on_host.h"
#include "lib/training/schedule/steps/step_text.h"

namespace tidepool::schedule {
namespace {

bool IsDensity(double density) { return density == -1 || (density >= 0 && density <= 1); }

bool Exchanges(StepKind kind) { return kind == StepKind::kReceive || kind == StepKind::kAdd; }

bool IsElement(std::int64_t bytes) { return bytes % kElementBytes == 0; }

class StepNumbers {
 public:
  StepNumbers(const TaskGraph& graph, const Schedule& schedule, std::size_t at)
      : graph_(graph), schedule_(schedule), at_(at), step_(schedule.steps[at]) {}

  absl::Status Check() const {
    if (step_.kind > StepKind::kAdd) {
      return Wrong("of kind ", static_cast<int>(step_.kind), ", expected one of nine");
    }
    absl::Status status = step_.kind == StepKind::kRun ? CheckTask() : CheckData();
    if (status.ok()) status = CheckStream();
    if (status.ok()) status = CheckCompression();
    if (!status.ok()) return status;
    if (schedule_.memory == ScheduleMemory::kPool) return CheckPool();
    status = CheckRange();
    return status.ok() ? CheckOffset() : status;
  }

  absl::Status CheckSource() const {
    if (!Exchanges(step_.kind)) {
      if (step_.source == 0) return absl::OkStatus();
      return Wrong("source ", step_.source, ", expected 0 for all steps but receive and add");
    }
    if (step_.source < schedule_.devices && step_.source != step_.device) return absl::OkStatus();
    return Wrong("source ", step_.source, " of device ", step_.device,
                 ", expected another device, with a number below ", schedule_.devices);
  }

  absl::Status CheckDevice() const {
    const bool is_task = step_.kind == StepKind::kRun;
    if (step_.device < schedule_.devices || (is_task && step_.device == kHostDevice)) {
      return CheckSource();
    }
    if (step_.device == kHostDevice) return Wrong("on the host, expected a device");
    return Wrong("device ", step_.device, ", expected a number below ", schedule_.devices);
  }

 private:
  template <typename... Parts>
  absl::Status Wrong(const Parts&... parts) const {
    return WrongStep(graph_, schedule_, at_, parts...);
  }

  absl::Status CheckTask() const {
    if (step_.index >= graph_.tasks.size()) {
      return Wrong("no such task, expected a number below ", graph_.tasks.size());
    }
    const std::size_t count = graph_.tasks[step_.index].algorithms.size();
    if (step_.algorithm < count) return absl::OkStatus();
    return Wrong("algorithm ", step_.algorithm, ", expected a number below ", count);
  }

  absl::Status CheckData() const {
    if (step_.kind != StepKind::kSynchronize && step_.index >= graph_.data.size()) {
      return Wrong("no such data, expected a number below ", graph_.data.size());
    }
    if (step_.hint != Hint::kResident && step_.hint != Hint::kOffloadable) {
      return Wrong("hint ", static_cast<int>(step_.hint), ", expected resident or offloadable");
    }
    if (step_.kind == StepKind::kOffload && !IsDensity(step_.density)) {
      return Wrong("density ", step_.density, ", expected 0 to 1, or -1");
    }
    return absl::OkStatus();
  }

  absl::Status CheckStream() const {
    const bool may_have_one =
        step_.kind == StepKind::kRun && schedule_.memory != ScheduleMemory::kPool;
    if (step_.stream == 0 || may_have_one) return absl::OkStatus();
    return Wrong("stream ", step_.stream, ", expected 0 for all steps but tasks without a pool");
  }

  absl::Status CheckPool() const {
    const ScheduleStep plain;
    const bool is_plain = step_.device == plain.device && step_.offset == plain.offset &&
                          step_.begin == plain.begin && step_.end == plain.end;
    if (is_plain) return absl::OkStatus();
    return Wrong("device ", step_.device == kHostDevice ? "host" : absl::StrCat(step_.device),
                 ", offset ", step_.offset, ", bytes [", step_.begin, ", ", step_.end,
                 "), expected 0, -1 and [0, -1) in the schedule of a pool");
  }

  // Whether `bytes` is a place where pages may be divided.
  bool IsPaged(std::int64_t bytes) const {
    return schedule_.memory != ScheduleMemory::kPaged || bytes % schedule_.alignment == 0;
  }

  absl::Status CheckRange() const {
    const bool has_range = step_.kind == StepKind::kOffload || step_.kind == StepKind::kPrefetch ||
                           step_.kind == StepKind::kDrop || Exchanges(step_.kind);
    if (!has_range && step_.begin == 0 && step_.end == -1) return absl::OkStatus();
    const std::int64_t bytes = has_range ? graph_.data[step_.index].bytes : 0;
    const std::int64_t end = step_.end == -1 ? bytes : step_.end;
    if (!has_range || step_.begin < 0 || step_.begin >= end || end > bytes) {
      return Wrong("bytes [", step_.begin, ", ", step_.end, "), expected ",
                   has_range ? absl::StrCat("a range in [0, ", bytes, ")") : "[0, -1)");
    }
    if (Exchanges(step_.kind)) {
      if (IsElement(step_.begin) && (end == bytes || IsElement(end))) return absl::OkStatus();
      return Wrong("bytes [", step_.begin, ", ", end, "), expected multiples of ", kElementBytes);
    }
    if (IsPaged(step_.begin) && (end == bytes || IsPaged(end))) return absl::OkStatus();
    return Wrong("bytes [", step_.begin, ", ", end, "), expected whole granules of ",
                 schedule_.alignment);
  }

  // The host does not decompress.
  absl::Status CheckCompression() const {
    if (step_.kind != StepKind::kOffload || step_.density < 0) return absl::OkStatus();
    if (!HostMayRead(graph_.data[step_.index])) return absl::OkStatus();
    return Wrong(
        "compressed, expected a raw copy of data that the host may read: at home there, "
        "there after the iteration, or a weight gradient");
  }

  bool NeedsOffset() const {
    if (schedule_.memory != ScheduleMemory::kFixed || step_.device == kHostDevice) return false;
    if (step_.kind != StepKind::kRun) {
      return step_.kind == StepKind::kAllocate || step_.kind == StepKind::kPrefetch ||
             step_.kind == StepKind::kAdd;
    }
    return graph_.tasks[step_.index].algorithms[step_.algorithm].workspace_bytes > 0;
  }

  absl::Status CheckOffset() const {
    if (!NeedsOffset()) {
      if (step_.offset == -1) return absl::OkStatus();
      return Wrong("offset ", step_.offset, " of a step that takes no memory at an address, ",
                   "expected -1");
    }
    const bool is_offset = step_.offset >= 0 && step_.offset <= kMostGraphBytes &&
                           step_.offset % schedule_.alignment == 0;
    if (is_offset) return absl::OkStatus();
    return Wrong("offset ", step_.offset, ", expected a multiple of ", schedule_.alignment,
                 " from 0 to 2^60");
  }

  const TaskGraph& graph_;
  const Schedule& schedule_;
  const std::size_t at_;
  const ScheduleStep& step_;
};

}  // namespace

absl::Status CheckNumbers(const TaskGraph& graph, const Schedule& schedule, std::size_t at) {
  return StepNumbers(graph, schedule, at).Check();
}

absl::Status CheckDeviceNumber(const TaskGraph& graph, const Schedule& schedule, std::size_t at) {
  return StepNumbers(graph, schedule, at).CheckDevice();
}

}  // namespace tidepool::schedule
