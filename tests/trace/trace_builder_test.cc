// Building traces in a program.
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/shared_files.h"
#include "tidepool/sizing.h"
#include "tidepool/trace.h"

namespace tidepool {
namespace {

TEST(TraceBuilder, NumbersAllocationsAndMatchesFrees) {
  TraceBuilder builder(TraceFormat::kOperationCsv);
  EXPECT_FALSE(builder.Free("x", "", 0));
  EXPECT_TRUE(builder.Allocate("x", 10, Hint::kResident, "s", 1).ok());
  EXPECT_FALSE(builder.Allocate("x", 10, Hint::kResident, "s", 2).ok());
  EXPECT_FALSE(builder.Allocate("y", 0, Hint::kResident, "s", 2).ok());
  EXPECT_FALSE(builder.Allocate("y", kMaxRequestBytes + 1, Hint::kResident, "s", 2).ok());
  EXPECT_TRUE(builder.Free("x", "t", 3));
  EXPECT_FALSE(builder.Free("x", "t", 3));
  EXPECT_TRUE(builder.Allocate("x", 20, Hint::kOffloadable, "t", 4).ok());
  builder.Mark("end", 5);
  const Trace trace = builder.Build();
  ASSERT_EQ(trace.events.size(), 4);
  EXPECT_EQ(trace.allocations.size(), 2);
  EXPECT_EQ(trace.events[1].index, 0U);
  EXPECT_EQ(trace.events[2].index, 1U);
  EXPECT_EQ(trace.events[3].kind(), TraceEvent::Kind::kMark);
  EXPECT_EQ(trace.mark_names[0], "end");
  EXPECT_EQ(trace.stream_names[trace.events[1].stream()], "t");
  EXPECT_TRUE(builder.Build().events.empty());
}

// Readers, replays and searches share nothing: threads may run them side by side on one trace.
TEST(Threads, SizeOneTraceSideBySide) {
  const auto path = testing::FilesIn(testing::ExampleTraces(), ".gz").front();
  const auto trace = ReadTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::vector<MinimumPoolResult> results(4);
  std::vector<std::thread> threads;
  for (MinimumPoolResult& result : results) {
    threads.emplace_back([&] {
      std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy("best-fit");
      result = *MinimumPool(*ReadTrace(path), *policy, {.most_steps = 50'000});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const MinimumPoolResult& result : results)
    EXPECT_EQ(result.pool_bytes, results[0].pool_bytes);
}

}  // namespace
}  // namespace tidepool
