// SPDX-License-Identifier: Apache-2.0
// Tests of lifetime CSV: the rows of a file keep their order when they are written again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/shared_files.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

class LifetimeRows : public ::testing::Test {
 protected:
  LifetimeRows()
      : folder_(std::filesystem::temp_directory_path() / absl::StrCat("tidepool-rows-", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~LifetimeRows() override { std::filesystem::remove_all(folder_); }

  std::string Written(const Trace& trace) {
    const std::string path = folder_ / "written.csv";
    const absl::Status status = WriteTrace(trace, TraceFormat::kLifetimeCsv, path);
    EXPECT_TRUE(status.ok()) << status;
    return testing::Contents(path);
  }

  std::filesystem::path folder_;
};

struct Row {
  std::int64_t lower;
  std::string text;
};

// Returns random rows: few times, so that many begin and end together; ids of all lengths, some
// with quotes.
std::vector<Row> RandomRows(std::mt19937_64& random) {
  std::vector<Row> rows(1 + random() % 40);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t lower = static_cast<std::int64_t>(random() % 10) - 5;
    const std::int64_t upper = lower + 1 + static_cast<std::int64_t>(random() % 10);
    const std::string id =
        random() % 8 == 0 ? absl::StrCat("\"a,\"\"", i, "\"") : absl::StrCat("t", i);
    rows[i] = {lower, absl::StrCat(id, ",", lower, ",", upper, ",", 1 + random() % 1000)};
  }
  return rows;
}

std::string Csv(const std::vector<Row>& rows) {
  std::string text = "id,lower,upper,size\n";
  for (const Row& row : rows) absl::StrAppend(&text, row.text, "\n");
  return text;
}

TEST_F(LifetimeRows, KeepTheirOrder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::string csv = Csv(RandomRows(random));
    const auto trace = ParseTrace(csv, "test");
    ASSERT_TRUE(trace.ok()) << trace.status();
    ASSERT_EQ(Written(*trace), csv);
  }
}

TEST_F(LifetimeRows, KeepTheirOrderInAPlan) {
  std::mt19937_64 random(2);
  const std::string path = folder_ / "plan.csv";
  for (int round = 0; round < 100; ++round) {
    std::vector<Row> rows = RandomRows(random);
    const auto trace = ParseTrace(Csv(rows), "test");
    ASSERT_TRUE(trace.ok()) << trace.status();
    // Allocations are the rows sorted by `lower`.
    std::vector<Row*> allocations;
    for (Row& row : rows) allocations.push_back(&row);
    std::stable_sort(allocations.begin(), allocations.end(),
                     [](const Row* a, const Row* b) { return a->lower < b->lower; });
    std::vector<std::int64_t> offsets;
    for (Row* row : allocations) {
      offsets.push_back(static_cast<std::int64_t>(random() % 100'000));
      absl::StrAppend(&row->text, ",", offsets.back());
    }
    ASSERT_TRUE(WritePlan(*trace, offsets, path).ok());
    std::string expected = Csv(rows);
    expected.insert(expected.find('\n'), ",offset");
    ASSERT_EQ(testing::Contents(path), expected);
  }
}

// The order of rows does not matter.
TEST_F(LifetimeRows, DoNotChangeTheEvents) {
  std::mt19937_64 random(3);
  std::vector<Row> rows;
  for (int i = 0; i < 30; ++i)
    rows.push_back({i, absl::StrCat("t", i, ",", i, ",", 100 + i, ",1")});
  const Trace sorted = *ParseTrace(Csv(rows), "test");
  EXPECT_TRUE(sorted.row_order.empty());
  for (int round = 0; round < 20; ++round) {
    std::shuffle(rows.begin(), rows.end(), random);
    const Trace shuffled = *ParseTrace(Csv(rows), "test");
    ASSERT_EQ(shuffled.events.size(), sorted.events.size());
    for (std::size_t i = 0; i < sorted.events.size(); ++i) {
      EXPECT_EQ(shuffled.events[i].time, sorted.events[i].time);
      EXPECT_EQ(shuffled.allocation_ids[shuffled.events[i].index],
                sorted.allocation_ids[sorted.events[i].index]);
    }
  }
}

// The native format cannot hold the order of rows.
TEST_F(LifetimeRows, AreInTheOrderOfTimeAfterTheNativeFormat) {
  const Trace trace = *ParseTrace("id,lower,upper,size\nb,5,9,1\na,0,5,2\n", "test");
  const std::string path = folder_ / "x.tide";
  ASSERT_TRUE(WriteTrace(trace, TraceFormat::kNative, path).ok());
  EXPECT_EQ(Written(*ReadTrace(path)), "id,lower,upper,size\na,0,5,2\nb,5,9,1\n");
}

// In a native trace of a lifetime CSV that was cut off, allocations live at the end must end after
// all other events.
TEST_F(LifetimeRows, OfWhatIsNeverFreedEndAfterAllOthers) {
  Trace trace = *ParseTrace("id,lower,upper,size\na,100,105,2\nb,102,109,1\n", "test");
  trace.events = {trace.events[0], trace.events[1]};
  EXPECT_EQ(Written(trace), "id,lower,upper,size\na,100,103,2\nb,102,103,1\n");
}

TEST_F(LifetimeRows, AreNotWrittenWhenTheyCouldNotBeReadAgain) {
  Trace trace = *ParseTrace("id,lower,upper,size\na,100,105,2\n", "test");
  for (const std::int64_t upper : {std::int64_t{100}, std::int64_t{99}, INT64_MIN}) {
    TraceEvent free = trace.events[1];
    free.time = upper;
    trace.events = {trace.events[0], free};
    const absl::Status status =
        WriteTrace(trace, TraceFormat::kLifetimeCsv, folder_ / "written.csv");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("'a' from 100 to"));
  }
  trace.events = {{.time = INT64_MAX}};
  EXPECT_FALSE(WriteTrace(trace, TraceFormat::kLifetimeCsv, folder_ / "written.csv").ok());
}

}  // namespace
}  // namespace tidepool
