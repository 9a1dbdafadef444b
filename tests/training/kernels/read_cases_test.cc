// SPDX-License-Identifier: Apache-2.0
// Files of kernel tables: all keys, and an error with its line for each fault.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tidepool/training/kernel_table.h"

namespace tidepool {
namespace {

std::string ErrorOf(const std::string& json) {
  return std::string(ParseWorkspaceCases(json, "f").status().message());
}

// A case of kind wr with this table.
std::string Reuse(const std::string& table) {
  return absl::StrCat(R"({"kind": "wr", "B": 4, "M": 64, "table": )", table, "}");
}

TEST(ReadCases, ReadsAllKeysOfAReuse) {
  const auto cases = ParseWorkspaceCases(
      R"([{"name": "conv2", "kind": "wr", "policy": "powerOfTwo", "precision": "PSEUDO_HALF",
           "B": 4, "M": 64, "table": [[4, 0, 0.5, 0], [2, 7, 0.125, 64, "TRUE_HALF"]],
           "expect": {"time": [1, {"a": null}], "name": true}}])",
      "f");
  ASSERT_TRUE(cases.ok()) << cases.status();
  ASSERT_EQ(cases->size(), 1U);
  const WorkspaceCase expected = {
      .name = "conv2",
      .kind = WorkspaceKind::kReuse,
      .batch = 4,
      .limit_bytes = 64,
      .policy = "powerOfTwo",
      .precision = KernelPrecision::kPseudoHalf,
      .kernels = {{{4, 0, 0.5, 0}, {2, 7, 0.125, 64, KernelPrecision::kTrueHalf}}}};
  EXPECT_EQ(cases->front(), expected);
}

TEST(ReadCases, ReadsTheOtherKinds) {
  const auto cases = ParseWorkspaceCases(
      R"([{"kind": "wd", "B": 1, "M_total": 5, "tables": [[[1, 0, 1, 2]], [[1, 1, 2, 3]]]},
          {"kind": "shared", "B": 1, "M_total": 5, "tables": [[[1, 0, 1, 2]], [[1, 1, 2, 3]]],
           "groups": [[1], [0]]},
          {"kind": "hetero", "B": 3, "multiple": 2, "gpus": [[[1, 0.5], [2, 0.75]], [[2, 1]]]}])",
      "f");
  ASSERT_TRUE(cases.ok()) << cases.status();
  ASSERT_EQ(cases->size(), 3U);
  const std::vector<KernelTable> tables = {{{1, 0, 1, 2}}, {{1, 1, 2, 3}}};
  EXPECT_EQ(cases->at(0),
            (WorkspaceCase{.kind = WorkspaceKind::kDivision, .limit_bytes = 5, .kernels = tables}));
  EXPECT_EQ(cases->at(1), (WorkspaceCase{.kind = WorkspaceKind::kShared,
                                         .limit_bytes = 5,
                                         .kernels = tables,
                                         .groups = {{1}, {0}}}));
  EXPECT_EQ(cases->at(2), (WorkspaceCase{.kind = WorkspaceKind::kDevices,
                                         .batch = 3,
                                         .multiple_of = 2,
                                         .devices = {{{1, 0.5}, {2, 0.75}}, {{2, 1}}}}));
}

TEST(ReadCases, ReadsOneCaseWithoutAList) {
  const auto cases = ParseWorkspaceCases(Reuse("[[4, 0, 0.5, 0]]"), "f");
  ASSERT_TRUE(cases.ok()) << cases.status();
  EXPECT_EQ(cases->size(), 1U);
}

TEST(ReadCases, NamesTheLineOfAWrongRow) {
  EXPECT_EQ(ErrorOf(Reuse("[[4, 0, 0.5, 0],\n[4, 1, -1, 0]]")),
            "f:2: table has a time of -1 seconds, expected 0 to 1e9");
  EXPECT_EQ(ErrorOf(Reuse("[\n[0, 1, 1, 0]]")),
            "f:2: table has a micro-batch of 0 samples, expected 1 to 65536");
  EXPECT_EQ(ErrorOf(Reuse("[[4, -1, 1, 0]]")),
            "f:1: table has the algorithm -1, expected 0 or more");
  EXPECT_EQ(ErrorOf(Reuse("[[4, 1, 1, 4611686018427387905]]")),
            "f:1: table has a workspace of 4611686018427387905 bytes, expected 0 to 2^62");
  EXPECT_EQ(ErrorOf(Reuse("[[4, 1, 2e9, 0]]")),
            "f:1: table has a time of 2e+09 seconds, expected 0 to 1e9");
  EXPECT_NE(ErrorOf(Reuse("[[4, 1, 1e400, 0]]")), "");
}

TEST(ReadCases, RefusesRowsOfOtherShapes) {
  const std::string expected =
      ", expected micro-batch, algorithm, seconds, workspace and, if known, TRUE_HALF, PSEUDO_HALF "
      "or FLOAT";
  EXPECT_EQ(ErrorOf(Reuse("[[4, 1, 1]]")), "f:1: table has the row [4, 1, 1]" + expected);
  EXPECT_EQ(ErrorOf(Reuse("[[4, 1, 1, 9223372036854775808]]")),
            "f:1: table has the row [4, 1, 1, 9223372036854775808]" + expected);
  EXPECT_EQ(ErrorOf(Reuse("[[4, 1, 1, 0, \"HALF\"]]")),
            "f:1: table has the row [4, 1, 1, 0, HALF]" + expected);
  EXPECT_EQ(ErrorOf(Reuse("[[4, 1.5, 1, 0]]")), "f:1: table has the row [4, 1.5, 1, 0]" + expected);
  EXPECT_EQ(ErrorOf(Reuse("[[4, 1, \"nan\", 0]]")),
            "f:1: table has the row [4, 1, nan, 0]" + expected);
  EXPECT_EQ(ErrorOf(Reuse("[[[4, 1, 1, 0]]]")), "f:1: table has the row [an array]" + expected);
  EXPECT_EQ(ErrorOf(Reuse("[[4, 1, 1, 0],\n7]")),
            "f:2: table has 7, expected a table: a list of rows");
  EXPECT_EQ(ErrorOf(Reuse("7")), "f:1: table of a case is 7, expected a table: a list of rows");
  EXPECT_EQ(ErrorOf(Reuse("[]")), "f:1: kernel 0 has no rows, expected one or more");
  EXPECT_NE(ErrorOf(Reuse("[[4, 1, NaN, 0]]")), "");
}

TEST(ReadCases, RefusesWrongKeys) {
  EXPECT_EQ(ErrorOf(R"([{"kind": "wr", "M": 1, "table": [[1, 0, 1, 0]]}])"),
            "f:1: a case without B, expected it");
  EXPECT_EQ(ErrorOf(R"([{"kind": "wr", "B": 1, "table": [[1, 0, 1, 0]]}])"),
            "f:1: a case without M, expected it");
  EXPECT_EQ(ErrorOf(R"([{"kind": "wd", "B": 1, "M_total": 2}])"),
            "f:1: a case without tables, expected it");
  EXPECT_EQ(ErrorOf(R"([{"B": 1, "batch": 2}])"),
            "f:1: the unknown key 'batch' in a case, expected name, kind, policy, precision, B, M, "
            "M_total, multiple, table, tables, groups, gpus, expect");
  EXPECT_EQ(ErrorOf(R"([{"B": 1, "B": 2}])"),
            "f:1: the key 'B' is in a case twice, expected it once");
  EXPECT_EQ(ErrorOf(R"([{"kind": "ws"}])"),
            "f:1: kind of a case is the text 'ws', expected wr, wd, shared or hetero");
  EXPECT_EQ(ErrorOf(R"({"kind": "hetero", "B": 1, "gpus": [[[1, 1]]], "policy": "all"})"),
            "f:1: a case with policy, which its kind does not have: remove it");
  EXPECT_EQ(ErrorOf(R"({"B": 1.5})"), "f:1: B of a case is 1.5, expected a whole number");
  EXPECT_EQ(ErrorOf(R"({"B": 65537, "kind": "wr", "M": 1, "table": [[1, 0, 1, 0]]})"),
            "f:1: a batch of 65537, expected 1 to 65536");
  EXPECT_EQ(ErrorOf(R"({"B": 1, "kind": "wr", "M": -1, "table": [[1, 0, 1, 0]]})"),
            "f:1: a limit of -1 bytes, expected 0 to 2^62");
}

TEST(ReadCases, RefusesGroupsThatAreNoPartition) {
  const auto error = [](const std::string& groups) {
    return ErrorOf(absl::StrCat(
        R"({"kind": "shared", "B": 1, "M_total": 5, "tables": [[[1, 0, 1, 2]], [[1, 1, 2, 3]]],)",
        R"("groups": )", groups, "}"));
  };
  EXPECT_EQ(error("[[0]]"), "f:1: groups without the kernel 1, expected each kernel in one");
  EXPECT_EQ(error("[[0, 1], [1]]"), "f:1: groups with the kernel 1, expected each of 0 to 1 once");
  EXPECT_EQ(error("[[0, 2], [1]]"), "f:1: groups with the kernel 2, expected each of 0 to 1 once");
  EXPECT_EQ(error("[[0, -1], [1]]"),
            "f:1: groups has the row [0, -1], expected the numbers of kernels");
}

TEST(ReadCases, RefusesEveryTruncation) {
  const std::string whole =
      R"([{"name": "a", "kind": "wr", "B": 4, "M": 64, "table": [[4, 0, 0.5, 0]], "expect": {}}])";
  ASSERT_TRUE(ParseWorkspaceCases(whole, "f").ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseWorkspaceCases(whole.substr(0, size), "f").ok()) << size;
  }
  EXPECT_EQ(ErrorOf("[]"), "f: no cases, expected one or more");
  EXPECT_FALSE(ParseWorkspaceCases(whole + "]", "f").ok());
  EXPECT_FALSE(ParseWorkspaceCases("[" + whole + "]", "f").ok());
}

}  // namespace
}  // namespace tidepool
