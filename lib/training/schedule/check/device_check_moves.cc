// SPDX-License-Identifier: Apache-2.0
// Steps that move data: memory is taken and given back, and copies are made.
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/training/schedule/check/device_check.h"

namespace tidepool::schedule {
namespace {

std::string RangeText(ByteRange range) {
  return absl::StrCat("bytes [", range.begin, ", ", range.end, ")");
}

}  // namespace

ByteRange DeviceCheck::RangeOf(const ScheduleStep& step) const {
  return {step.begin, step.end == -1 ? graph_->data[step.index].bytes : step.end};
}

void DeviceCheck::NoteMove(DataPlace& place) {
  place.moved_at = at_;
  place.moved_by = schedule_.steps[at_].kind;
}

// Returns " was ... at step N", the last event of the data's life in this round.
std::string DeviceCheck::Past(std::size_t device, std::size_t data) {
  const DataPlace& place = places_.At(device, data);
  switch (place.moved_by) {
    case StepKind::kAllocate:
      return absl::StrCat(" was allocated at step ", place.moved_at);
    case StepKind::kFree:
      return absl::StrCat(" was freed at step ", place.moved_at);
    case StepKind::kOffload:
      return absl::StrCat(" was copied out at step ", place.moved_at);
    case StepKind::kPrefetch:
      return absl::StrCat(" was copied in at step ", place.moved_at);
    case StepKind::kDrop:
      return absl::StrCat(" was dropped at step ", place.moved_at);
    case StepKind::kReceive:
      return absl::StrCat(" was received at step ", place.moved_at);
    case StepKind::kAdd:
      return absl::StrCat(" was added to at step ", place.moved_at);
    default:
      return places_.HostOf(device, data).bytes.empty() ? " was not allocated"
                                                        : " begins on the host";
  }
}

absl::Status DeviceCheck::Allocate(const ScheduleStep& step) {
  DataPlace& place = places_.At(step.device, step.index);
  const GraphData& data = graph_->data[step.index];
  if (place.freed) {
    return Wrong("the data", Past(step.device, step.index),
                 ", expected a drop of data that is needed again");
  }
  if (!place.device.bytes.empty()) {
    return Wrong("the data", Past(step.device, step.index),
                 ", expected data without memory on the device");
  }
  const bool is_written = versions_[step.index].writer != DataVersions::kNoTask;
  if (!is_written && data.before == DataHome::kHost) {
    return Wrong("the data begins on the host, expected a prefetch");
  }
  place.device.bytes.Add(WholeOf(step.index));
  place.device.value = {};
  if (!is_written && !place.began) place.device.value.version = 0;
  place.began = true;
  place.offset = step.offset;
  NoteMove(place);
  return absl::OkStatus();
}

absl::Status DeviceCheck::Free(const ScheduleStep& step) {
  DataPlace& place = places_.At(step.device, step.index);
  const GraphData& data = graph_->data[step.index];
  if (place.freed || (place.is_nowhere() && place.moved_by != StepKind::kDrop)) {
    return Wrong("the data", Past(step.device, step.index), ", expected data that is somewhere");
  }
  if (data.after != DataHome::kNowhere) {
    return Wrong("the home of the data is the ", std::string(DataHomeName(data.after)),
                 ", expected it to stay");
  }
  const DataVersions::Datum& versions = versions_[step.index];
  const bool is_unwritten =
      versions.writer != DataVersions::kNoTask && RanAt(step.device, versions.writer) == kNotYet;
  const std::size_t done = place.done - place.updates_done + updates_begun_[step.index];
  if (is_unwritten || done < versions.uses) {
    return Wrong("task ", TaskName(NextUser(step.device, step.index)),
                 " needs the data later, expected it to stay");
  }
  place.device = place.host = {};
  place.offset = -1;
  place.freed = true;
  NoteMove(place);
  return absl::OkStatus();
}

absl::Status DeviceCheck::Offload(const ScheduleStep& step) {
  DataPlace& place = places_.At(step.device, step.index);
  const ByteRange range = RangeOf(step);
  if (!place.device.bytes.Covers(range)) {
    return Wrong(RangeText(range), " of the data, which", Past(step.device, step.index),
                 ", are not all there, expected them on the device");
  }
  if (!place.device.value.is_written()) {
    return Wrong("the data", Past(step.device, step.index), ", expected a task to write it before");
  }
  DataSide& host = places_.HostOf(step.device, step.index);
  if (host.value != place.device.value) host = {{}, place.device.value};
  host.bytes.Add(range);
  NoteMove(place);
  return absl::OkStatus();
}

// Checks that bytes that come back belong to the bytes that stayed.
absl::Status DeviceCheck::CheckStay(const ScheduleStep& step, const DataPlace& place) {
  if (place.device.bytes.empty()) return absl::OkStatus();
  if (place.device.value != places_.HostOf(step.device, step.index).value) {
    return Wrong(
        "the copy on the host is not of the version of the bytes on the device, expected "
        "all of the data to come back at once");
  }
  if (place.offset == step.offset) return absl::OkStatus();
  return Wrong("offset ", step.offset, " of data with bytes on the device, expected their offset ",
               place.offset);
}

absl::Status DeviceCheck::Prefetch(const ScheduleStep& step) {
  DataPlace& place = places_.At(step.device, step.index);
  const DataSide& host = places_.HostOf(step.device, step.index);
  const ByteRange range = RangeOf(step);
  if (!host.bytes.Covers(range)) {
    return Wrong(RangeText(range), " of the data, which", Past(step.device, step.index),
                 ", are not all on the host, expected a copy there");
  }
  if (place.device.bytes.Meets(range)) {
    return Wrong(RangeText(range), " of the data, which", Past(step.device, step.index),
                 ", are on the device in part, expected that part to leave first");
  }
  if (graph_->data[step.index].before == DataHome::kDevice && !place.began) {
    return Wrong("the data begins on the device, expected its allocation there before");
  }
  if (absl::Status status = CheckStay(step, place); !status.ok()) return status;
  place.device.bytes.Add(range);
  place.device.value = host.value;
  place.began = true;
  place.offset = step.offset;
  NoteMove(place);
  return absl::OkStatus();
}

// Returns whether nothing is lost: the device has no contents, the host has the bytes in this
// version or a later one, or the task that writes the data may run again.
bool DeviceCheck::MayDrop(const ScheduleStep& step, DataPlace& place) {
  const DataValue& value = place.device.value;
  const DataSide& host = places_.HostOf(step.device, step.index);
  if (!value.is_written()) return true;
  if (host.bytes.Covers(RangeOf(step)) &&
      (host.value == value || host.value.version > value.version)) {
    return true;
  }
  const std::size_t writer = versions_[step.index].writer;
  const bool has_sum = graph_->data[step.index].kind == DataKind::kWeightGradient &&
                       value.since < passes_[step.device];
  return writer != DataVersions::kNoTask && graph_->tasks[writer].may_rerun && value.version == 1 &&
         !has_sum;
}

absl::Status DeviceCheck::Drop(const ScheduleStep& step) {
  DataPlace& place = places_.At(step.device, step.index);
  const ByteRange range = RangeOf(step);
  if (!place.device.bytes.Covers(range)) {
    return Wrong(RangeText(range), " of the data, which", Past(step.device, step.index),
                 ", are not all there, expected them on the device");
  }
  if (!MayDrop(step, place)) {
    return Wrong("the last copy of ", RangeText(range),
                 ", expected a copy on the host, or a task that may run again and writes the data");
  }
  place.device.bytes.Remove(range);
  if (place.device.bytes.empty()) {
    place.device.value = {};
    place.offset = -1;
  }
  NoteMove(place);
  return absl::OkStatus();
}

}  // namespace tidepool::schedule
