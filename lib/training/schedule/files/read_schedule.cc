// SPDX-License-Identifier: Apache-2.0
// Reads schedules, and gives faults of their steps the line of the step.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/quote.h"
#include "lib/training/schedule/check/check_steps.h"
#include "lib/training/schedule/files/schedule_json_reader.h"
#include "tidepool/training/schedule_file.h"

namespace tidepool {
namespace {

void NumberRounds(Schedule& schedule) {
  std::size_t next = 0;
  for (ScheduleRound& round : schedule.rounds) {
    round.first_step = next;
    next += round.steps;
  }
}

absl::StatusOr<ScheduleFile> ReadScheduleFrom(std::unique_ptr<io::ByteSource> source,
                                              const std::string& name) {
  absl::StatusOr<ScheduleFile> file = schedule::ReadScheduleFile(std::move(source), name);
  if (!file.ok()) return file;
  NumberRounds(file->schedule);
  file->source = name;
  if (!file->machine.has_value()) return file;
  const absl::Status status = ValidateMachine(*file->machine);
  if (!status.ok()) return io::AboutFile(name, status);
  return file;
}

}  // namespace

absl::StatusOr<ScheduleFile> ReadSchedule(const std::filesystem::path& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file = io::OpenFile(path.string(), "a schedule");
  if (!file.ok()) return io::AboutFile(path.string(), file.status());
  return ReadScheduleFrom(*std::move(file), path.string());
}

absl::StatusOr<ScheduleFile> ParseSchedule(std::string_view json, std::string_view name) {
  return ReadScheduleFrom(io::FromMemory(json), std::string(name));
}

absl::Status ValidateScheduleFile(absl::Span<const TaskGraph> graphs, const ScheduleFile& file) {
  std::size_t at = 0;
  absl::Status status = schedule::CheckSchedule(graphs, file.schedule, &at);
  if (!status.ok()) {
    return io::AboutLine(file.source, at < file.step_lines.size() ? file.step_lines[at] : 0,
                         status);
  }
  if (!file.machine.has_value() || file.schedule.devices <= file.machine->devices.size()) {
    return status;
  }
  return io::AboutFile(file.source, absl::InvalidArgumentError(absl::StrCat(
                                        file.schedule.devices, " devices, expected at most the ",
                                        file.machine->devices.size(), " of the machine")));
}

}  // namespace tidepool
