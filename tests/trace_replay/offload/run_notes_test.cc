// SPDX-License-Identifier: Apache-2.0
// Tests the notes of `tidepool run`: the cost of a run, a busy machine, and memory that lacks.
#include "trace_replay/offload/run_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "tests/support/sizes.h"
#include "tests/trace_replay/command_line.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(RunNotes, TellMemoryAndTime) {
  Timeline simulated;
  simulated.seconds = 2;
  simulated.pool_bytes = 8 * kGiB;
  simulated.peak_host_bytes = kGiB;
  simulated.bytes_out = simulated.bytes_in = 2'000'000'000;
  const tool::RunCost cost = tool::CostOfRun(simulated, 3);
  EXPECT_EQ(cost.pool_bytes, 8 * kGiB);
  EXPECT_EQ(cost.offload_bytes, kGiB);
  EXPECT_NEAR(cost.seconds, 9 * 0x1p30 / 4e9 + 3 * (2 + 1), 1e-9);
  EXPECT_EQ(tool::RunCostText(cost),
            "8.0 GiB of memory for the pool, 1.0 GiB for offloaded data, about 11 s");
}

TEST(RunNotes, LongRunsAreToldInMinutesAndHours) {
  EXPECT_THAT(tool::RunCostText({.seconds = 270}), ::testing::EndsWith("about 4.5 min"));
  EXPECT_THAT(tool::RunCostText({.seconds = 3636}), ::testing::EndsWith("about 1 h"));
}

TEST(RunNotes, TooLittleMemoryIsRefused) {
  const tool::RunCost cost = {.pool_bytes = 8 * kGiB, .offload_bytes = kGiB};
  EXPECT_TRUE(tool::CheckRunMemory(cost, 9 * kGiB).ok());
  EXPECT_TRUE(tool::CheckRunMemory(cost, std::nullopt).ok());
  EXPECT_EQ(tool::CheckRunMemory(cost, 9 * kGiB - 1).message(),
            "--memory: the run takes 8.0 GiB of this machine's memory for the pool and 1.0 GiB for "
            "offloaded data, expected at most the 9.0 GiB that are available");
  EXPECT_FALSE(
      tool::CheckRunMemory(
          {.pool_bytes = 1, .offload_bytes = std::numeric_limits<std::int64_t>::max()}, kGiB)
          .ok());
}

TEST(RunNotes, ABusyMachineIsToldOf) {
  EXPECT_EQ(tool::BusyText(2.0, 2), "");
  EXPECT_EQ(tool::BusyText(10.25, 2),
            "the machine is busy: 10.2 programs want its 2 processors; times will be longer than "
            "predicted");
}

class RunNotesCommand : public CommandLine {};

TEST_F(RunNotesCommand, TheCostIsToldBeforehandOnStandardError) {
  const std::string path = folder_ / "graph.json";
  ASSERT_EQ(WriteGraph(*MakeModel("googlenet", {.batch = 1}), path), absl::OkStatus());
  const Outcome outcome = Run({"run", path, "--memory", "1GiB", "--iterations", "1", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("{"));
  EXPECT_THAT(outcome.err,
              ::testing::ContainsRegex("^run: [0-9.]+ MiB of memory for the pool, [0-9.]+ MiB for "
                                       "offloaded data, about [0-9.e-]+ s\n"));
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("\r"))) << "progress is for terminals";
}

TEST_F(RunNotesCommand, MoreThanTheMachineHasIsRefused) {
  TaskGraph graph;
  graph.data = {{"x", std::int64_t{1} << 45, DataKind::kInput}, {"y", 1, DataKind::kActivation}};
  graph.tasks = {{.name = "f", .reads = {0}, .writes = {1}, .algorithms = {{"a", 0, 0}}}};
  const std::string path = folder_ / "graph.json";
  ASSERT_EQ(WriteGraph(graph, path), absl::OkStatus());
  EXPECT_THAT(ErrorOf({"run", path, "--memory", "33TiB"}),
              AllOf(StartsWith("tidepool: --memory: the run takes 32.0 TiB of this machine's "
                               "memory for the pool and 0 B for offloaded data, expected at most"),
                    HasSubstr("that are available")));
}

}  // namespace
}  // namespace tidepool
