// SPDX-License-Identifier: Apache-2.0
// Tests of TraceBuilder.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/support/shared_files.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

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
  EXPECT_EQ(trace.events[3].kind, TraceEvent::Kind::kMark);
  EXPECT_EQ(trace.mark_names[0], "end");
  EXPECT_EQ(trace.stream_names[trace.events[1].stream], "t");
  EXPECT_TRUE(builder.Build().events.empty());
}

TEST(TraceBuilder, TakesAddressesAsIds) {
  TraceBuilder builder(TraceFormat::kPyTorchSnapshot);
  EXPECT_FALSE(builder.FreeAt(0x7F00, "", 0));
  EXPECT_TRUE(builder.AllocateAt(0x7F00, 10, Hint::kResident, "s", 1).ok());
  EXPECT_EQ(builder.AllocateAt(0x7F00, 10, Hint::kResident, "s", 2).message(),
            "id '0x7f00' is allocated again while it is live, expected its free first");
  EXPECT_FALSE(builder.AllocateAt(0, 0, Hint::kResident, "s", 2).ok());
  EXPECT_FALSE(builder.AllocateAt(0, kMaxRequestBytes + 1, Hint::kResident, "s", 2).ok());
  EXPECT_TRUE(builder.AllocateAt(0, 5, Hint::kResident, "s", 2).ok());
  EXPECT_TRUE(builder.FreeAt(0x7F00, "t", 3));
  EXPECT_FALSE(builder.FreeAt(0x7F00, "t", 3));
  EXPECT_TRUE(builder.AllocateAt(0x7F00, 20, Hint::kOffloadable, "t", 4).ok());
  const Trace trace = builder.Build();
  ASSERT_EQ(trace.events.size(), 4);
  ASSERT_EQ(trace.allocation_ids.size(), 3);
  EXPECT_EQ(trace.allocation_ids[0], "0x7f00");
  EXPECT_EQ(trace.allocation_ids[1], "0x0");
  EXPECT_EQ(trace.allocation_ids[2], "0x7f00");
  EXPECT_EQ(trace.events[2].kind, TraceEvent::Kind::kFree);
  EXPECT_EQ(trace.events[2].index, 0U);
  EXPECT_EQ(trace.events[3].index, 2U);
  EXPECT_FALSE(builder.FreeAt(0x7F00, "t", 5));
}

Trace OfAllocations(int allocations, double part) {
  TraceBuilder builder(TraceFormat::kOperationCsv);
  for (int i = 0; i < allocations; ++i) {
    if (i == 1000) builder.SetPart(part);
    EXPECT_TRUE(builder.Allocate(std::to_string(i), 8, Hint::kResident, "", i).ok());
  }
  return builder.Build();
}

TEST(TraceBuilder, TakesMemoryForTheRestAtOnce) {
  EXPECT_GE(OfAllocations(2000, 0.01).events.capacity(), 100'000);
  EXPECT_GE(OfAllocations(2000, 0.01).allocations.capacity(), 100'000);
  EXPECT_LE(OfAllocations(2000, 0.25).events.capacity(), 4300);
}

TEST(TraceBuilder, DoesWithAWrongPart) {
  for (const double part : {1e-300, 1e-9, 0.5, 1.0}) {
    const Trace trace = OfAllocations(5000, part);
    ASSERT_EQ(trace.events.size(), 5000);
    EXPECT_LE(trace.events.capacity(), 1025 * 5000);
    EXPECT_EQ(trace.allocation_ids[4999], "4999");
  }
}

TEST(TraceBuilder, TakesWhatTouchesNoMemory) {
  TraceBuilder builder(TraceFormat::kNative);
  EXPECT_TRUE(builder.Failure(0, Hint::kResident, "s", 1).ok());
  EXPECT_FALSE(builder.Failure(-1, Hint::kResident, "s", 1).ok());
  builder.SetThread("7");
  builder.Wait("s", "t", 2);
  builder.Mark("step", 3);
  builder.Mark("end", 4);
  builder.Mark("step", 5);
  EXPECT_TRUE(builder.Failure(9, Hint::kOffloadable, "t", 6).ok());
  const Trace trace = builder.Build();
  ASSERT_EQ(trace.events.size(), 6);
  for (const TraceEvent& event : trace.events) EXPECT_FALSE(event.TouchesMemory());
  EXPECT_EQ(trace.thread_names[trace.events[0].thread], "");
  EXPECT_EQ(trace.thread_names[trace.events[1].thread], "7");
  EXPECT_EQ(trace.events[1].kind, TraceEvent::Kind::kWait);
  EXPECT_EQ(trace.stream_names[trace.events[1].stream], "s");
  EXPECT_EQ(trace.stream_names[trace.events[1].index], "t");
  EXPECT_EQ(trace.mark_names.size(), 2);
  EXPECT_EQ(trace.events[2].index, trace.events[4].index);
  EXPECT_EQ(trace.events[5].index, 1U);
  ASSERT_EQ(trace.failures.size(), 2);
  EXPECT_EQ(trace.failures[1].bytes, 9);
  EXPECT_EQ(trace.failures[1].hint, Hint::kOffloadable);
}

// Marks, failures and waits do not affect a load, a replay or a search.
TEST(TraceBuilder, SizesAsIfOnlyMemoryMattered) {
  TraceBuilder builder(TraceFormat::kNative);
  TraceBuilder plain(TraceFormat::kNative);
  for (int i = 0; i < 20; ++i) {
    const std::string id = std::to_string(i);
    const std::string before = std::to_string(i - 3);
    for (TraceBuilder* one : {&builder, &plain}) {
      ASSERT_TRUE(one->Allocate(id, 1000 * (i % 5 + 1), Hint::kResident, "s", i).ok());
      if (i >= 3) {
        ASSERT_TRUE(one->Free(before, "s", i));
      }
    }
    ASSERT_TRUE(builder.Failure(1 << 30, Hint::kResident, "s", i).ok());
    builder.Wait("s", "t", i);
  }
  const Trace trace = builder.Build();
  const Trace same = plain.Build();
  std::unique_ptr<PlacementPolicy> policy = *MakePlacementPolicy("first-fit");
  EXPECT_EQ(MeasureLoad(trace, 512)->peak_live_bytes, MeasureLoad(same, 512)->peak_live_bytes);
  EXPECT_EQ(MinimumPool(trace, *policy, {})->exact_pool_bytes,
            MinimumPool(same, *policy, {})->exact_pool_bytes);
  const ReplayOptions options = {.pool_bytes = 20'000, .keep_offsets = true};
  EXPECT_EQ(Replay(trace, *policy, options)->offsets, Replay(same, *policy, options)->offsets);
}

// Readers, replays and searches share no state: threads may run them at once on one trace.
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
