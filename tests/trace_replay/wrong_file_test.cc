// SPDX-License-Identifier: Apache-2.0
// Tests the errors of files that another command takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trace_replay/command_line.h"
#include "tests/training/schedule/small_schedule.h"
#include "tidepool/training/schedule_file.h"

namespace tidepool {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr char kOutOfMemory[] =
    "step 3\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
    "total capacity of 39.39 GiB of which 1.20 GiB is free.\n";

class WrongFile : public CommandLine {
 protected:
  WrongFile() {
    const TaskGraph graph = testing::SmallGraph();
    EXPECT_EQ(WriteGraph(graph, graph_), absl::OkStatus());
    EXPECT_EQ(Run({"schedule", graph_, "--memory", "1MiB", "-o", schedule_}).status, 0);
  }

  const std::string graph_ = folder_ / "graph.json";
  const std::string schedule_ = folder_ / "schedule.json";
  const std::string text_ = File("job.log", kOutOfMemory);
};

TEST_F(WrongFile, AGraphOrAScheduleIsNoTrace) {
  for (const char* command : {"info", "size", "plan", "report"}) {
    EXPECT_THAT(ErrorOf({command, graph_}),
                EndsWith("graph.json: a task graph, expected a trace; `tidepool schedule` takes "
                         "task graphs\n"));
    EXPECT_THAT(ErrorOf({command, schedule_}),
                HasSubstr("schedule.json: a schedule, expected a trace; give it with --schedule"));
  }
  EXPECT_THAT(ErrorOf({"diff", graph_, graph_}), HasSubstr("a task graph, expected a trace"));
}

TEST_F(WrongFile, ATextOfAnErrorIsForInfoAlone) {
  EXPECT_EQ(Run({"info", text_}).status, 0);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"info", text_, text_}, {"size", text_}}) {
    EXPECT_THAT(ErrorOf(command),
                EndsWith("job.log: a text of PyTorch's OutOfMemoryError, expected a trace; "
                         "`tidepool info` takes such texts, one at a time\n"));
  }
}

TEST_F(WrongFile, AScheduleIsNoGraphAndAGraphIsNoScheduleOrChain) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"simulate", schedule_},
                                                  {"simulate", schedule_, "--memory", "1GiB"},
                                                  {"schedule", schedule_, "--memory", "1GiB"},
                                                  {"front", schedule_},
                                                  {"emit", schedule_}}) {
    EXPECT_THAT(ErrorOf(command), HasSubstr("schedule.json: a schedule, expected a task graph; "
                                            "give it with --schedule"));
  }
  EXPECT_THAT(ErrorOf({"simulate", graph_, "--schedule", graph_}),
              HasSubstr("graph.json: a task graph, expected a schedule; `tidepool schedule GRAPH "
                        "-o FILE` makes one"));
  EXPECT_THAT(ErrorOf({"chain", graph_}),
              EndsWith("graph.json: a task graph, expected a chain; give it with --from\n"));
}

TEST_F(WrongFile, StandardInputIsNoTrace) {
  EXPECT_THAT(ErrorOf({"size", "-"}),
              EndsWith("standard input: a trace is given as a file, expected its name\n"));
}

TEST_F(WrongFile, ADashIsNoFileToWrite) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"schedule", graph_, "--memory", "1MiB", "-o", "-"},
        {"model", "alexnet", "--batch", "1", "-o", "-"}}) {
    EXPECT_THAT(ErrorOf(command),
                HasSubstr("--output: '-' names no file, expected a file, or /dev/stdout"));
  }
}

}  // namespace
}  // namespace tidepool
