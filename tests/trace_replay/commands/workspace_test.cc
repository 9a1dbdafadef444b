// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool workspace`: its answers and its refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/trace_replay/command_line.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr char kCases[] = R"([
{"name": "one", "kind": "wr", "B": 4, "M": 20, "policy": "all",
 "table": [[4, 0, 8, 0], [4, 1, 2, 40], [2, 1, 1.5, 20]]},
{"name": "two", "kind": "wd", "B": 1, "M_total": 5,
 "tables": [[[1, 0, 3, 0], [1, 1, 1, 5]], [[1, 0, 2, 0], [1, 2, 1, 4, "TRUE_HALF"]]]},
{"name": "devices", "kind": "hetero", "B": 3, "gpus": [[[1, 2], [3, 9]], [[2, 3]], [[3, 8]]]}
])";

class WorkspaceCommand : public CommandLine {
 protected:
  json Answer(std::vector<std::string> more, int status = 0) {
    more.insert(more.begin(), {"workspace", File("cases.json", kCases)});
    return Json(more, status);
  }
  std::string Refusal(std::vector<std::string> more) {
    more.insert(more.begin(), {"workspace", File("cases.json", kCases)});
    return ErrorOf(more);
  }
};

TEST_F(WorkspaceCommand, ReusesTheWorkspaceOfAKernel) {
  const json answer = Answer({"--case", "one"});
  EXPECT_EQ(answer["time"], 3);
  EXPECT_EQ(answer["workspace"], 20);
  EXPECT_EQ(answer["front"], json::parse("[[8, 0], [3, 20]]"));
  EXPECT_EQ(answer["kernels"],
            json::parse(R"([{"time": 3, "workspace": 20, "parts": [[1, 2], [1, 2]]}])"));
}

TEST_F(WorkspaceCommand, TakesAPolicyAndALimit) {
  EXPECT_EQ(Answer({"--case", "one", "--limit", "40"})["time"], 2);
  EXPECT_EQ(Answer({"--case", "one", "--policy", "undivided"})["time"], 8);
  EXPECT_EQ(Answer({"--case", "one", "--policy", "2"})["time"], 3);
}

TEST_F(WorkspaceCommand, DividesAWorkspace) {
  const json answer = Answer({"--case", "two"});
  EXPECT_EQ(answer["time"], 3);
  EXPECT_EQ(answer["workspace"], 5);
  EXPECT_EQ(answer["proved"], true);
  EXPECT_EQ(answer["kernels"][1]["parts"], json::parse("[[0, 1]]"));
  EXPECT_EQ(Answer({"--case", "two", "--limit", "4"})["kernels"][1]["parts"],
            json::parse(R"([[2, 1, "TRUE_HALF"]])"));
}

TEST_F(WorkspaceCommand, SplitsABatchOverDevices) {
  const json answer = Answer({"--case", "devices"});
  EXPECT_EQ(answer["time"], 3);
  EXPECT_EQ(answer["gpus"], json::parse(R"([{"time": 2, "batch": 1}, {"time": 3, "batch": 2},
                                            {"time": 0, "batch": 0}])"));
}

TEST_F(WorkspaceCommand, AnswersAllCases) {
  const json answers = Answer({})["cases"];
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0], Answer({"--case", "one"}));
  const std::string text = Text({"workspace", File("cases.json", kCases)});
  EXPECT_THAT(text, HasSubstr("2 x 2 by 1"));
  EXPECT_THAT(text, HasSubstr("stays out"));
}

TEST_F(WorkspaceCommand, SaysNoWhenNothingFits) {
  const std::vector<std::string> arguments = {"--case", "one", "--policy", "2", "--limit", "19"};
  const json answer = Answer(arguments, 2);
  EXPECT_EQ(answer["time"], nullptr);
  EXPECT_EQ(answer["fits"], false);
  EXPECT_EQ(answer["why"],
            "kernel 0 needs at least 20 bytes of workspace, and the limit is 19 bytes");
}

TEST_F(WorkspaceCommand, RefusesWrongArguments) {
  EXPECT_THAT(Refusal({"--case", "tow"}), EndsWith(", expected one of two, one, devices\n"));
  EXPECT_THAT(Refusal({"--case", "one", "--policy", "pow"}),
              HasSubstr("cases.json: one: the unknown policy 'pow', expected undivided"));
  EXPECT_THAT(Refusal({"--case", "devices", "--limit", "1"}),
              HasSubstr("devices: --limit: an option for kernels"));
  EXPECT_THAT(ErrorOf({"workspace", File("broken.json", "[\n{\"B\": x}]")}),
              HasSubstr("broken.json:2: broken JSON"));
}

}  // namespace
}  // namespace tidepool
