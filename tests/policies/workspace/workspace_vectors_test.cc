// SPDX-License-Identifier: Apache-2.0
// Questions with exact answers of an independent oracle, on machines that have them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/shared_files.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace {

using testing::Json;
using testing::SharedFile;

void ExpectClose(double got, double expected, const std::string& name) {
  EXPECT_LE(std::abs(got - expected), 1e-9 * expected) << name << ": " << got;
}

void ExpectFront(const WorkspaceAnswer& answer, const nlohmann::json& expect,
                 const std::string& name) {
  if (!expect.contains("front")) return;
  ASSERT_EQ(answer.front.size(), expect["front"].size()) << name;
  for (std::size_t i = 0; i < answer.front.size(); ++i) {
    ExpectClose(answer.front[i].seconds, expect["front"][i][0], name);
    EXPECT_EQ(answer.front[i].workspace_bytes, expect["front"][i][1]) << name;
  }
}

// The limit of the fronts that are counted, unless it is the question's.
constexpr std::int64_t kQuestions = -1;

void ExpectFrontSizes(const WorkspaceCase& question, const nlohmann::json& expect,
                      std::int64_t limit) {
  if (!expect.contains("front_sizes")) return;
  const auto sizes = MicroBatchSizes(question.policy, question.batch);
  ASSERT_TRUE(sizes.ok());
  for (std::size_t i = 0; i < question.kernels.size(); ++i) {
    const auto front = ConfigurationFront(question.kernels[i], *sizes, question.batch,
                                          limit == kQuestions ? question.limit_bytes : limit);
    EXPECT_EQ(front.size(), expect["front_sizes"][i]) << question.name << ", kernel " << i;
  }
}

void ExpectKernelAnswer(const WorkspaceCase& question, const nlohmann::json& expect,
                        std::int64_t front_limit) {
  ExpectFrontSizes(question, expect, front_limit);
  const auto answer = ChooseWorkspaces(question);
  if (expect["time"].is_null()) {
    EXPECT_TRUE(absl::IsResourceExhausted(answer.status())) << question.name;
    return;
  }
  ASSERT_TRUE(answer.ok()) << question.name << answer.status();
  EXPECT_TRUE(answer->proved);
  ExpectClose(answer->seconds, expect["time"], question.name);
  EXPECT_EQ(answer->workspace_bytes, expect["min_workspace_at_optimum"]) << question.name;
  ExpectFront(*answer, expect, question.name);
}

void ExpectAnswersOf(const char* file, std::int64_t front_limit) {
  const std::filesystem::path path = SharedFile(file);
  TIDEPOOL_SKIP_WITHOUT(path);
  const auto cases = ReadWorkspaceCases(path);
  ASSERT_TRUE(cases.ok()) << cases.status();
  const nlohmann::json json = Json(path);
  ASSERT_EQ(cases->size(), json.size());
  for (std::size_t i = 0; i < cases->size(); ++i) {
    const nlohmann::json& expect = json[i]["expect"];
    const WorkspaceCase& question = cases->at(i);
    if (question.kind != WorkspaceKind::kDevices) {
      ExpectKernelAnswer(question, expect, front_limit);
      continue;
    }
    const auto split = SplitBatch(question);
    ASSERT_EQ(split.ok(), !expect["time"].is_null()) << question.name;
    if (split.ok()) ExpectClose(split->seconds, expect["time"], question.name);
  }
}

TEST(WorkspaceVectors, SmallTablesAndDevices) {
  ExpectAnswersOf("vectors/microcudnn.json", kQuestions);
}

TEST(WorkspaceVectors, DivisionsOfTheSizeOfRealNetworks) {
  ExpectAnswersOf("vectors/wd_large.json", kMostWorkspaceBytes);
}

}  // namespace
}  // namespace tidepool
