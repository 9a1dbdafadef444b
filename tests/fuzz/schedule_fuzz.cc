// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a schedule is refused with one line, or it reads the same after it was written. Its
// steps are then checked against a small graph.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "tests/training/schedule/small_schedule.h"
#include "tidepool/training/schedule_file.h"

namespace tidepool::fuzz {
namespace {

void RequireOfSchedule(bool condition) {
  if (!condition) std::abort();
}

void CheckLine(const absl::Status& status) {
  RequireOfSchedule(status.code() == absl::StatusCode::kInvalidArgument);
  RequireOfSchedule(!status.message().empty());
  RequireOfSchedule(!absl::StrContains(status.message(), "\n"));
}

// The small graph, with data of the host and a task that may run again.
TaskGraph GraphOfSteps() {
  TaskGraph graph = testing::SmallGraph();
  graph.tasks[testing::kConv].may_rerun = true;
  graph.data[testing::kBatch].before = DataHome::kHost;
  return graph;
}

void ReadAsSchedule(std::string_view contents) {
  absl::StatusOr<ScheduleFile> file = ParseSchedule(contents, "input");
  if (!file.ok()) return CheckLine(file.status());
  RequireOfSchedule(file->step_lines.size() == file->schedule.steps.size());
  const std::string json = ScheduleJson(*file);
  const absl::StatusOr<ScheduleFile> again = ParseSchedule(json, "again");
  RequireOfSchedule(again.ok() && ScheduleJson(*again) == json);
  RequireOfSchedule(again->schedule.steps.size() == file->schedule.steps.size());
  const TaskGraph graph = GraphOfSteps();
  file->schedule.fingerprint = GraphFingerprint(graph);
  const absl::Status status = ValidateScheduleFile({&graph, 1}, *file);
  if (!status.ok()) CheckLine(status);
}

}  // namespace
}  // namespace tidepool::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tidepool::fuzz::ReadAsSchedule({reinterpret_cast<const char*>(data), size});
  return 0;
}
