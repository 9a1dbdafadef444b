// SPDX-License-Identifier: Apache-2.0
// PyTorch's allocator in `size` and `replay`.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/sizes.h"
#include "tests/trace_replay/command_line.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// In MiB: 8 and 8, of which the first is freed, then 12. One segment of 20 and one of 12;
// expandable, two granules of 20.
constexpr char kShared[] = "op,id,size,hint\na,1,8388608,\na,2,8388608,\nf,1,,\na,3,12582912,\n";

class PyTorchPolicies : public CommandLine {
 protected:
  // Returns the names of the policies that `size` lists for a file.
  std::vector<std::string> ListedBySize(const std::string& file) {
    std::vector<std::string> names;
    const nlohmann::json size = Json({"size", file});
    for (const auto& policy : size["policies"]) names.push_back(policy["policy"]);
    return names;
  }

  // Writes the requests of an operation CSV as a snapshot.
  std::string Snapshot(const std::string& csv) {
    const std::string snapshot = folder_ / "snapshot.pickle";
    EXPECT_EQ(Run({"convert", File("requests.csv", csv), snapshot}).status, 0);
    return snapshot;
  }
};

TEST_F(PyTorchPolicies, AreSizedByName) {
  const auto answer = Json({"size", File("t.csv", kShared), "--policy", "pytorch", "--policy",
                            "pytorch-expandable", "--policy", "best-fit"});
  const auto& pytorch = answer["policies"][0];
  EXPECT_EQ(pytorch["policy"], "pytorch");
  EXPECT_EQ(pytorch["pool_bytes"], 32 * kMiB);
  EXPECT_EQ(pytorch["exact_pool_bytes"], 32 * kMiB);
  EXPECT_EQ(pytorch["serves_all_larger"], true);
  EXPECT_EQ(pytorch["exact_limit"], nullptr);
  EXPECT_EQ(pytorch["overhead"], 1.6);
  EXPECT_EQ(answer["policies"][1]["policy"], "pytorch-expandable");
  EXPECT_EQ(answer["policies"][1]["pool_bytes"], 40 * kMiB);
  EXPECT_EQ(answer["policies"][2]["policy"], "best-fit");
}

TEST_F(PyTorchPolicies, AreListedForTracesFromPyTorch) {
  EXPECT_THAT(ListedBySize(File("t.csv", kShared)), Not(::testing::Contains("pytorch")));
  const std::vector<std::string> names = ListedBySize(Snapshot(kShared));
  ASSERT_GE(names.size(), 2);
  EXPECT_THAT(std::vector<std::string>(names.end() - 2, names.end()),
              ElementsAre("pytorch", "pytorch-expandable"));
}

TEST_F(PyTorchPolicies, ExplainTheirRows) {
  const Outcome plain = Run({"size", File("t.csv", kShared)});
  EXPECT_THAT(plain.out, Not(HasSubstr("PyTorch's own allocator")));
  const Outcome outcome = Run({"size", File("t.csv", kShared), "--policy", "pytorch",
                               "--pytorch-settings", "large_segment_size_mb:16"});
  EXPECT_THAT(outcome.out, HasSubstr("pytorch: PyTorch's own allocator"));
  EXPECT_THAT(outcome.out, HasSubstr("settings of pytorch: large_segment_size_mb:16"));
  EXPECT_THAT(outcome.out, HasSubstr("28.0 MiB"));
}

TEST_F(PyTorchPolicies, ServeOrRefuseLikePyTorch) {
  const std::string file = File("t.csv", kShared);
  const auto served = Json({"replay", file, "--policy", "pytorch", "--pool", "32MiB"});
  EXPECT_EQ(served["served"], true);
  EXPECT_EQ(served["high_water_bytes"], 32 * kMiB);
  EXPECT_EQ(served["peak_reserved_bytes"], 32 * kMiB);
  EXPECT_EQ(served["peak_live_bytes"], 20 * kMiB);
  EXPECT_EQ(served["retries"], 0);
  const auto refused = Json({"replay", file, "--policy", "pytorch", "--pool", "31MiB"}, 2);
  EXPECT_EQ(refused["refused"], 1);
  EXPECT_EQ(refused["retries"], 1);
  EXPECT_EQ(refused["first_refused"]["event"], 3);
  EXPECT_EQ(refused["first_refused"]["bytes"], 12 * kMiB);
  EXPECT_EQ(refused["first_refused"]["largest_free_bytes"], 8 * kMiB);
  EXPECT_EQ(refused["first_refused"]["free_reserved_bytes"], 12 * kMiB);
  const Outcome table = Run({"replay", file, "--policy", "pytorch", "--pool", "31MiB"});
  EXPECT_EQ(table.status, 2);
  EXPECT_THAT(table.out, HasSubstr("all but 1"));
  EXPECT_THAT(table.out, HasSubstr("reserved but free"));
}

// 950 MiB are more than the least memory, but not enough for all requests.
TEST_F(PyTorchPolicies, FitOnlyIfTheMemoryItselfServes) {
  const auto file = testing::SharedFile(
      "traces/pytorch/NiuHuangxiaozi__16edf3_forward_and_backward_memory_snapshot_150.pickle.gz");
  TIDEPOOL_SKIP_WITHOUT(file);
  const nlohmann::json size =
      Json({"size", file, "--policy", "pytorch-expandable", "--fits", "950MiB"});
  EXPECT_LT(size["policies"][0]["exact_pool_bytes"], 950 * kMiB);
  EXPECT_EQ(size["policies"][0]["serves_all_larger"], false);
  EXPECT_EQ(size["fits"]["policies"][0]["fits"], false);
}

TEST_F(PyTorchPolicies, AreInReportsOfTracesFromPyTorch) {
  const std::string output = folder_ / "report.html";
  const nlohmann::json report = Json({"report", Snapshot(kShared), "-o", output});
  ASSERT_EQ(report["allocators"].size(), 2);
  EXPECT_EQ(report["allocators"][0]["policy"], "pytorch");
  EXPECT_EQ(report["allocators"][0]["pool_bytes"], 32 * kMiB);
  EXPECT_THAT(std::string(report["headline"]),
              HasSubstr("In PyTorch: pytorch reserves 32.0 MiB; pytorch-expandable reserves 40.0 "
                        "MiB."));
  EXPECT_THAT(testing::Contents(output), HasSubstr("[\"pytorch-expandable\",\"40.0 MiB\""));
  const std::string csv = File("t.csv", kShared);
  EXPECT_FALSE(Json({"report", csv, "-o", output}).contains("allocators"));
  EXPECT_EQ(Json({"report", csv, "-o", output, "--policy", "best-fit", "--policy",
                  "pytorch"})["allocators"]
                .size(),
            1);
  EXPECT_THAT(ErrorOf({"report", csv, "-o", output, "--policy", "pytorch"}),
              HasSubstr("a report draws pools"));
}

TEST_F(PyTorchPolicies, AreNoPools) {
  const std::string file = File("t.csv", kShared);
  const auto replay_error = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"replay", file, "--policy", "pytorch"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ErrorOf(arguments);
  };
  EXPECT_THAT(replay_error({"--pool", "1GiB", "--device", "host"}), HasSubstr("--device: host"));
  EXPECT_THAT(replay_error({"--pool", "1GiB", "--offsets"}),
              HasSubstr("--offsets: policy pytorch"));
  EXPECT_THAT(replay_error({"--pool", "1GiB", "--align", "512"}), HasSubstr("--align: policy"));
  EXPECT_THAT(replay_error({"--pool", "1GiB", "--learn"}), HasSubstr("--learn"));
  EXPECT_THAT(replay_error({"--pool", "1GiB", "--plan", "p.csv"}), HasSubstr("--plan"));
  EXPECT_THAT(replay_error({}), HasSubstr("--pool is missing"));
  EXPECT_THAT(replay_error({"--pool", "100000TiB"}), HasSubstr("a memory of"));
}

TEST_F(PyTorchPolicies, RefuseSettingsThatAreWrongOrOfNoUse) {
  const std::string file = File("t.csv", kShared);
  EXPECT_THAT(ErrorOf({"size", file, "--policy", "pytorch", "--pytorch-settings", "max_split:1"}),
              HasSubstr("--pytorch-settings: unknown key 'max_split'"));
  EXPECT_THAT(ErrorOf({"size", file, "--pytorch-settings", "max_split_size_mb:20"}),
              HasSubstr("expected --policy pytorch or pytorch-expandable"));
  EXPECT_THAT(
      ErrorOf({"replay", file, "--pool", "1GiB", "--pytorch-settings", "max_split_size_mb:20"}),
      HasSubstr("policy best-fit has no such settings"));
  EXPECT_THAT(ErrorOf({"size", file, "--policy", "torch"}),
              HasSubstr("planned, pytorch, pytorch-expandable"));
}

}  // namespace
}  // namespace tidepool
