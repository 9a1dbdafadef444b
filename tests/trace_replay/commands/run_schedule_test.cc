// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool run --schedule`: schedules with fixed addresses and with pages from a file, and
// errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/training/schedule/steps/in_pages.h"
#include "tests/trace_replay/command_line.h"
#include "tests/training/execute/first_fit_addresses.h"
#include "tests/training/execute/offload_everything.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/schedule_file.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class RunSchedule : public CommandLine {
 protected:
  RunSchedule() : graph_(MakeModel("alexnet", {.batch = 1, .inputs = DataHome::kDevice}).value()) {
    for (GraphData& data : graph_.data) data.bytes = data.bytes / 1024 + 1;
    for (GraphTask& task : graph_.tasks) task.algorithms.resize(1);
    graph_path_ = folder_ / "graph.json";
    schedule_path_ = folder_ / "schedule.json";
    EXPECT_EQ(WriteGraph(graph_, graph_path_), absl::OkStatus());
    testing::FirstFitAddresses addresses(graph_);
    file_.schedule = addresses.Fix(testing::OffloadEverything(graph_, {}).Make());
    file_.machine = Machine();
    file_.machine->devices[0].memory_bytes = addresses.top();
    Write();
  }

  void Write() { ASSERT_EQ(WriteSchedule(file_, schedule_path_), absl::OkStatus()); }
  std::vector<std::string> Arguments(std::vector<std::string> more) const {
    more.insert(more.begin(), {"run", graph_path_, "--schedule", schedule_path_});
    return more;
  }

  TaskGraph graph_;
  ScheduleFile file_;
  std::string graph_path_;
  std::string schedule_path_;
};

TEST_F(RunSchedule, MovesTheBytesOfTheSchedule) {
  const Outcome outcome = Run(Arguments({"--json", "--iterations", "2"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json answer = json::parse(outcome.out);
  const Program program = LowerSchedule({&graph_, 1}, file_.schedule, *file_.machine).value();
  const Timeline predicted = SimulateProgram(graph_, program);
  EXPECT_EQ(answer["device"], "host");
  EXPECT_EQ(answer["schedule"], "offload everything");
  EXPECT_EQ(answer["iteration_seconds"].size(), 2);
  EXPECT_EQ(answer["iteration_seconds"].back(), answer["seconds"]);
  EXPECT_EQ(answer["predicted_seconds"], predicted.seconds);
  EXPECT_EQ(answer["bytes_out"], predicted.bytes_out);
  EXPECT_EQ(answer["bytes_in"], predicted.bytes_in);
  EXPECT_EQ(answer["pool_bytes"], program.pool_bytes.front());
  EXPECT_EQ(answer["peak_host_bytes"], program.host_bytes);
  EXPECT_EQ(answer["fits"], true);
}

TEST_F(RunSchedule, PrintsATable) {
  const Outcome outcome = Run(Arguments({"--scale", "0.5"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("offload everything"));
  EXPECT_THAT(outcome.out, HasSubstr("last of 3 iterations"));
}

TEST_F(RunSchedule, WritesATimeline) {
  const std::string path = folder_ / "timeline.json";
  ASSERT_EQ(Run(Arguments({"--timeline", path})).status, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
}

class RunPages : public RunSchedule {
 protected:
  RunPages() {
    file_.schedule = schedule::InPages(file_.schedule);
    file_.schedule.alignment = 1;
    file_.machine->devices.front().memory_bytes *= 2;
    Write();
  }

  // The schedule with pages as large as those of this machine.
  Schedule InPagesOfThisMachine() const {
    Schedule own = file_.schedule;
    own.alignment = sysconf(_SC_PAGESIZE);
    return own;
  }
  double PredictedSeconds(const Schedule& schedule) const {
    const Program program = LowerSchedule({&graph_, 1}, schedule, *file_.machine).value();
    return SimulateProgram(graph_, program).seconds;
  }
};

TEST_F(RunPages, RunAsTheyAre) {
  const json answer = Json(Arguments({"--iterations", "2"}));
  EXPECT_EQ(answer["memory_kind"], "paged");
  EXPECT_EQ(answer["predicted_seconds"], PredictedSeconds(InPagesOfThisMachine()));
  EXPECT_LE(answer["pool_bytes"], file_.machine->devices.front().memory_bytes);
  const Outcome outcome = Run(Arguments({"--iterations", "1"}));
  EXPECT_THAT(outcome.out, HasSubstr(" in pages of "));
}

TEST_F(RunPages, GetAddressesWhereTheUserAsksForThem) {
  const json answer = Json(Arguments({"--iterations", "1", "--memory-kind", "fixed"}));
  const Schedule fixed =
      FixAddresses({&graph_, 1}, file_.schedule, 512, {file_.machine->devices.front().memory_bytes})
          .value();
  EXPECT_EQ(answer["memory_kind"], "fixed");
  EXPECT_EQ(answer["predicted_seconds"], PredictedSeconds(fixed));
  EXPECT_THAT(Json(Arguments({"--memory-kind", "fixed", "--memory", "1KiB"}), 2)["why"],
              HasSubstr("the plan of device 0 needs"));
}

// The error names the pages of both.
TEST_F(RunPages, WithoutRoomForThePagesOfTheDeviceAreANo) {
  const json answer = Json(Arguments({"--memory", "16KiB"}), 2);
  EXPECT_EQ(answer["fits"], false);
  const std::string page = absl::StrCat(sysconf(_SC_PAGESIZE));
  EXPECT_THAT(answer["why"],
              HasSubstr("the schedule has pages of 1 bytes, and those of the device have " + page +
                        ": make it with --align " + page));
}

TEST_F(RunPages, MadeByAPolicyHaveThoseOfTheDevice) {
  const json answer = Json({"run", graph_path_, "--policy", "none", "--memory", "16MiB",
                            "--memory-kind", "paged", "--iterations", "1", "--scale", "0"});
  EXPECT_EQ(answer["memory_kind"], "paged");
  EXPECT_EQ(answer["pool_bytes"].get<std::int64_t>() % sysconf(_SC_PAGESIZE), 0);
  EXPECT_THAT(ErrorOf({"run", graph_path_, "--policy", "none", "--memory", "16MiB", "--memory-kind",
                       "paged", "--probe-every", "1"}),
              HasSubstr("--probe-every: the schedule has pages, expected one of a pool"));
}

// Two devices run the same two tasks.
class RunTwoDevices : public RunSchedule {
 protected:
  RunTwoDevices() {
    graph_ = {.name = "two tasks",
              .data = {{"batch", 1024, DataKind::kInput}, {"map", 4096}, {"score", 512}},
              .tasks = {{.name = "first",
                         .reads = {0},
                         .writes = {1},
                         .algorithms = {{.name = "only", .seconds = 1e-3}}},
                        {.name = "second",
                         .reads = {1},
                         .writes = {2},
                         .algorithms = {{.name = "only", .seconds = 2e-3}}}}};
    EXPECT_EQ(WriteGraph(graph_, graph_path_), absl::OkStatus());
    file_.schedule = Schedule();
    file_.schedule.fingerprint = GraphFingerprint(graph_);
    file_.schedule.memory = ScheduleMemory::kFixed;
    file_.schedule.devices = 2;
    file_.machine->devices.resize(2, {.memory_bytes = 1 << 20});
    for (std::size_t device = 0; device < 2; ++device) AddSteps(device);
    Write();
  }

  void AddSteps(std::size_t device) {
    const auto add = [&](StepKind kind, std::size_t index, std::int64_t offset = -1) {
      file_.schedule.steps.push_back(
          {.kind = kind, .index = index, .device = device, .offset = offset});
    };
    add(StepKind::kAllocate, 0, 0);
    add(StepKind::kAllocate, 1, 1024);
    add(StepKind::kAllocate, 2, 5120);
    add(StepKind::kRun, 0);
    add(StepKind::kRun, 1);
    for (std::size_t data = 0; data < 3; ++data) add(StepKind::kFree, data);
  }
};

TEST_F(RunTwoDevices, HaveAHostDeviceEach) {
  const std::string path = folder_ / "timeline.json";
  const json answer = Json(Arguments({"--iterations", "1", "--timeline", path}));
  EXPECT_DOUBLE_EQ(answer["predicted_seconds"], 3e-3);
  EXPECT_GE(answer["compute_seconds"], 6e-3 * (1 - 1e-12));  // a sum
  const std::string timeline = testing::Contents(path);
  EXPECT_THAT(timeline, HasSubstr("device 1"));
}

TEST_F(RunTwoDevices, AreTooManyForCuda) {
  EXPECT_THAT(ErrorOf(Arguments({"--device", "cuda"})), HasSubstr("cuda has one GPU"));
}

}  // namespace
}  // namespace tidepool
