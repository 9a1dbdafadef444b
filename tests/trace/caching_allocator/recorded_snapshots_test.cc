// SPDX-License-Identifier: Apache-2.0
// Snapshots that PyTorch recorded from an empty allocator on: the model reserves the same bytes
// after every event.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/trace/caching_allocator/trace_run.h"
#include "tests/support/shared_files.h"
#include "tidepool/trace/caching_allocator.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using Kind = TraceEvent::Kind;
using testing::SharedFile;

// Whether the first request came before any memory was reserved but for this request. The reader
// puts memory that was reserved before the history at the beginning.
bool BeginsEmpty(const Trace& trace) {
  int reservations = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == Kind::kReserve) ++reservations;
    if (event.kind == Kind::kAllocate) return reservations == 1;
  }
  return false;
}

// Returns the number of requests and frees after which recorded and modelled bytes differ.
int UnequalEvents(const Trace& trace) {
  caching_allocator::TraceRun run(trace, RecordedCachingSettings(trace), kMostCachingMemory);
  int unequal = 0;
  std::int64_t reserved = 0;
  for (const TraceEvent& event : trace.events) {
    run.Step();
    if (event.kind == Kind::kReserve) reserved += trace.reservations[event.index].bytes;
    if (event.TouchesMemory() && run.allocator().reserved_bytes() != reserved) ++unequal;
  }
  return unequal;
}

// The table of equal snapshots in docs/design/caching_allocator.md. A snapshot that begins empty
// and is missing here is unequal, or new: look at it, and list it there.
TEST(RecordedSnapshots, AreReservedByteForByte) {
  TIDEPOOL_SKIP_WITHOUT(SharedFile("traces/pytorch"));
  std::vector<std::string> equal;
  std::vector<std::string> unequal;
  for (const auto& file : testing::FilesIn(SharedFile("traces/pytorch"), ".gz")) {
    const auto trace = ReadTrace(file.string());
    ASSERT_TRUE(trace.ok()) << trace.status();
    if (!BeginsEmpty(*trace)) continue;
    const bool is_equal = UnequalEvents(*trace) == 0;
    const std::string name = file.filename().string();
    (is_equal ? equal : unequal).push_back(name.substr(0, name.find("_memory")));
  }
  EXPECT_THAT(equal, ::testing::ElementsAre("NiuHuangxiaozi__16edf3_forward_and_backward",
                                            "NiuHuangxiaozi__4ed700_forward_and_backward",
                                            "NiuHuangxiaozi__9ab7a6_forward_and_backward",
                                            "NiuHuangxiaozi__b4768e_forward"));
  EXPECT_THAT(unequal, ::testing::IsEmpty());
}

// Every snapshot has a smallest memory, which is between the live bytes and the reserved ones.
TEST(RecordedSnapshots, HaveASmallestMemory) {
  TIDEPOOL_SKIP_WITHOUT(SharedFile("traces/pytorch"));
  for (const auto& file : testing::FilesIn(SharedFile("traces/pytorch"), ".gz")) {
    SCOPED_TRACE(file.filename());
    const auto trace = ReadTrace(file.string());
    ASSERT_TRUE(trace.ok()) << trace.status();
    for (const bool is_expandable : {false, true}) {
      const CachingAllocatorSettings settings = {.expandable_segments = is_expandable};
      const auto minimum = MinimumCachingMemory(*trace, settings, {});
      ASSERT_TRUE(minimum.ok()) << minimum.status();
      ASSERT_TRUE(minimum->exact_pool_bytes.has_value());
      EXPECT_LE(*minimum->exact_pool_bytes, minimum->pool_bytes);
      CachingReplayOptions options = {.settings = settings,
                                      .memory_bytes = *minimum->exact_pool_bytes};
      EXPECT_EQ(ReplayCaching(*trace, options)->refused, 0);
      --options.memory_bytes;
      EXPECT_GT(ReplayCaching(*trace, options)->refused, 0);
    }
  }
}

}  // namespace
}  // namespace tidepool
