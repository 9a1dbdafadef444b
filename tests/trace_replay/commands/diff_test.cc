// SPDX-License-Identifier: Apache-2.0
// Several files: the change from one recording to another, and the ranks of a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/pickled.h"
#include "tests/support/sizes.h"
#include "tests/trace_replay/command_line.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class SeveralFiles : public CommandLine {
 protected:
  // A snapshot of a job that allocates for each (line, MiB) and keeps it all.
  std::string Job(const std::string& name,
                  const std::vector<std::pair<int, std::int64_t>>& allocations,
                  std::int64_t refused_mib = 0) {
    json events = json::array();
    json blocks = json::array();
    std::int64_t address = 0;
    for (const auto& [line, mib] : allocations) {
      const json frame = {{"name", "forward"}, {"filename", "/home/u/net.py"}, {"line", line}};
      events.push_back({{"action", "alloc"},
                        {"addr", address},
                        {"size", mib * kMiB},
                        {"stream", 0},
                        {"frames", json::array({frame})}});
      blocks.push_back({{"size", mib * kMiB},
                        {"requested_size", mib * kMiB},
                        {"address", address},
                        {"state", "active_allocated"}});
      address += mib * kMiB;
    }
    events.insert(events.begin(),
                  json{{"action", "segment_alloc"}, {"addr", 0}, {"size", address}, {"stream", 0}});
    if (refused_mib > 0) {
      events.push_back({{"action", "oom"}, {"device_free", kMiB}, {"size", refused_mib * kMiB}});
    }
    const json segment = {
        {"device", 0}, {"address", 0}, {"total_size", address}, {"stream", 0}, {"blocks", blocks}};
    return File(name, testing::Pickled({{"segments", json::array({segment})},
                                        {"device_traces", json::array({events})}}));
  }

  const std::string small_ = Job("small", {{7, 10}, {8, 4}, {9, 2}});
  const std::string large_ = Job("large", {{7, 30}, {8, 4}, {5, 6}}, 8);
};

TEST_F(SeveralFiles, DiffJoinsPartsByTheirNames) {
  const json diff = Json({"diff", small_, large_});
  EXPECT_EQ(diff["peak_live_bytes"], json({16 * kMiB, 40 * kMiB}));
  EXPECT_EQ(diff["needs_bytes"], json({16 * kMiB, 48 * kMiB}));
  EXPECT_EQ(diff["refused"], json({0, 1}));
  const auto part = [](int line, std::int64_t before, std::int64_t after) {
    return json{{"frame", absl::StrCat("net.py:", line, " forward")},
                {"before", before * kMiB},
                {"after", after * kMiB}};
  };
  EXPECT_EQ(diff["by_frame"], json({part(7, 10, 30), part(5, 0, 6), part(9, 2, 0), part(8, 4, 4)}));
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (const json& category : diff["by_category"]) {
    before += category["before"].get<std::int64_t>();
    after += category["after"].get<std::int64_t>();
  }
  EXPECT_EQ(before, 16 * kMiB);
  EXPECT_EQ(after, 40 * kMiB);
  const auto size = [](std::int64_t mib, int first, int second) {
    return json{{"bytes", mib * kMiB}, {"before", first}, {"after", second}};
  };
  EXPECT_EQ(diff["by_size"],
            json({size(30, 0, 1), size(10, 1, 0), size(6, 0, 1), size(2, 1, 0), size(4, 1, 1)}));
}

TEST_F(SeveralFiles, DiffShowsTheLargestChangesFirst) {
  const std::string text = Text({"diff", small_, large_});
  EXPECT_THAT(text, HasSubstr(absl::StrCat("before  ", small_, "\n        peak live 16.0 MiB\n")));
  EXPECT_THAT(text, HasSubstr("peak live 40.0 MiB, out of memory with 40.0 MiB live: needs at "
                              "least 48.0 MiB"));
  EXPECT_THAT(text, HasSubstr("  by line              before      after      change\n"
                              "  net.py:7 forward   10.0 MiB   30.0 MiB   +20.0 MiB\n"
                              "  net.py:5 forward        0 B    6.0 MiB    +6.0 MiB\n"
                              "  net.py:9 forward    2.0 MiB        0 B    -2.0 MiB\n"
                              "  and 1 more, with --json\n"));
  const std::string same = Text({"diff", small_, small_});
  EXPECT_THAT(same, Not(HasSubstr("net.py")));
}

TEST_F(SeveralFiles, DiffCountsTheUsersCategories) {
  const json diff = Json({"diff", small_, large_, "--category", "first=net.py:7 "});
  const json expected = {{"category", "first"}, {"before", 10 * kMiB}, {"after", 30 * kMiB}};
  EXPECT_THAT(diff["by_category"], ::testing::Contains(expected));
}

TEST_F(SeveralFiles, DiffFindsTheLargestBatch) {
  // 16 MiB at batch 4, and 48 at batch 12: 4 MiB a sample.
  const std::vector<std::string> command = {"diff", small_, large_, "--batch", "4,12"};
  const auto with = [&](const std::string& memory) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--memory", memory});
    return arguments;
  };
  EXPECT_EQ(Json(command)["batch"]["bytes_per_sample"], 4.0 * kMiB);
  EXPECT_EQ(Json(with("64MiB"))["batch"]["largest_batch"], 16);
  EXPECT_EQ(Json(with("63MiB"))["batch"]["largest_batch"], 15);
  EXPECT_THAT(Text(with("64MiB")), EndsWith("in 64.0 MiB the largest batch is 16\n"));
  EXPECT_EQ(Json(with("3MiB"), 2)["batch"]["largest_batch"], 0);
  EXPECT_THAT(Text(with("3MiB"), 2), EndsWith("in 3.0 MiB no batch fits\n"));
}

// Also where the bytes of a sample have no exact quotient.
TEST_F(SeveralFiles, ABatchFitsInTheBytesThatItNeeded) {
  const auto trace = [&](int bytes) {
    return File(absl::StrCat(bytes, ".lifetime.csv"),
                absl::StrCat("id,lower,upper,size\na,0,2,", bytes, "\n"));
  };
  const auto largest = [&](int least, int most, const std::string& batches, int memory) {
    return Json({"diff", trace(least), trace(most), "--batch", batches, "--memory",
                 absl::StrCat(memory)})["batch"]["largest_batch"];
  };
  EXPECT_EQ(largest(1024, 5632, "1,8", 5632), 8);
  EXPECT_EQ(largest(1024, 5632, "1,8", 5631), 7);
  EXPECT_EQ(largest(18, 1, "8,1", 1), 1);
}

TEST_F(SeveralFiles, DiffRefusesBatchesThatTellNothing) {
  EXPECT_THAT(ErrorOf({"diff", small_, large_, "--batch", "4,4"}),
              HasSubstr("--batch: 4,4, expected two different sizes from 1 on"));
  EXPECT_THAT(ErrorOf({"diff", small_, large_, "--batch", "0,4"}), HasSubstr("0,4, expected"));
  const Outcome outcome = Run({"diff", large_, small_, "--batch", "4,12"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the larger batch does not need more"));
  EXPECT_THAT(ErrorOf({"diff", small_, large_, "--memory", "1GiB"}), HasSubstr("--batch"));
  EXPECT_THAT(ErrorOf({"diff", small_}), HasSubstr("AFTER is missing"));
  EXPECT_THAT(ErrorOf({"diff", small_, "missing"}), HasSubstr("missing"));
}

TEST_F(SeveralFiles, ReportHasTheTablesOfDiff) {
  const std::string page = folder_ / "page.html";
  Text({"report", large_, "--before", small_, "-o", page});
  const std::string html = testing::Contents(page);
  EXPECT_THAT(html, HasSubstr("Compared with small</h2>"));
  EXPECT_THAT(html, HasSubstr("<tr><td>net.py:7 forward</td><td>10.0 MiB</td><td>30.0 MiB</td>"
                              "<td>+20.0 MiB</td></tr>"));
  Text({"report", large_, "-o", page});
  EXPECT_THAT(testing::Contents(page), Not(HasSubstr("Compared with")));
  EXPECT_THAT(ErrorOf({"report", large_, "--before", small_, "-o", folder_ / "x.svg"}),
              HasSubstr("--before: only a page has a comparison"));
}

TEST_F(SeveralFiles, ReportEscapesTheOtherTrace) {
  const std::string page = folder_ / "page.html";
  Text({"report", large_, "--before", Job("<b>x", {{1, 1}}), "-o", page});
  EXPECT_THAT(testing::Contents(page), HasSubstr("Compared with &#x3c;b&#x3e;x</h2>"));
}

TEST_F(SeveralFiles, InfoOfRanksNamesTheWorst) {
  const std::string text = Text({"info", small_, large_});
  EXPECT_THAT(text, HasSubstr("a job of 2 ranks\n"));
  EXPECT_THAT(text, HasSubstr("16.0 MiB   16.0 MiB"));
  EXPECT_THAT(text, HasSubstr("40.0 MiB   48.0 MiB"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat(large_,
                                           " needs the most, 48.0 MiB: 1.500x of the "
                                           "mean")));
  EXPECT_THAT(text, HasSubstr("GPU 0: out of memory.  8.0 MiB refused"));
  const json info = Json({"info", small_, large_});
  EXPECT_EQ(info["worst"], 1);
  EXPECT_EQ(info["needs_bytes"], 48 * kMiB);
  EXPECT_EQ(info["imbalance"], 1.5);
  ASSERT_EQ(info["ranks"].size(), 2U);
  json first = Json({"info", small_});
  first["file"] = small_;
  EXPECT_EQ(info["ranks"][0], first);
}

TEST_F(SeveralFiles, SizeOfRanksIsTheLargest) {
  const std::vector<std::string> command = {"size", small_, large_, "--policy", "best-fit"};
  const json size = Json(command);
  EXPECT_EQ(size["needs_bytes"], 48 * kMiB);
  EXPECT_EQ(size["worst"], 1);
  EXPECT_EQ(size["policies"], json::parse(absl::StrCat(R"([{"policy": "best-fit", "pool_bytes": )",
                                                       48 * kMiB, R"(, "rank": 1}])")));
  ASSERT_EQ(size["ranks"].size(), 2U);
  EXPECT_EQ(size["ranks"][0]["file"], small_);
  EXPECT_EQ(size["ranks"][0]["needs_bytes"], 16 * kMiB);
  EXPECT_THAT(Text(command), HasSubstr(absl::StrCat("best-fit       48.0 MiB   ", large_)));
}

TEST_F(SeveralFiles, SizeOfRanksTellsWhichDoNotFit) {
  const auto with = [&](const std::string& memory) {
    return std::vector<std::string>{"size", small_, large_, "--fits", memory};
  };
  EXPECT_THAT(Text(with("40MiB"), 2),
              EndsWith(absl::StrCat(large_, " does not fit in 40.0 MiB: 8.0 MiB missing\n")));
  EXPECT_THAT(Text(with("50MiB")), EndsWith("all ranks fit in 50.0 MiB: 2.0 MiB to spare\n"));
  EXPECT_EQ(Json(with("40MiB"), 2)["fits"]["missing_bytes"], 8 * kMiB);
  EXPECT_EQ(Json(with("50MiB"))["fits"]["fits"], true);
}

}  // namespace
}  // namespace tidepool
