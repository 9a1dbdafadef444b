// SPDX-License-Identifier: Apache-2.0
// The cost of rounding: less than 2 % of the requested bytes, at each moment of any trace of sizes
// of 64 KiB and more.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/memory/pinned/model_device.h"
#include "tests/support/shared_files.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using testing::kKiB;
using testing::kMiB;
using testing::ModelDevice;

constexpr std::int64_t kSmallest = 64 * kKiB;
constexpr double kMostWaste = 0.02;

// Pairs of a buffer's number and its size; the size 0 frees the buffer.
using Requests = std::vector<std::pair<std::size_t, std::int64_t>>;

std::int64_t PeakOf(const Requests& requests) {
  std::vector<std::int64_t> sizes(requests.size());
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (const auto& [number, bytes] : requests) {
    live += bytes - std::exchange(sizes[number], bytes);
    peak = std::max(peak, live);
  }
  return peak;
}

// Returns each `stride`-th large allocation of a trace, and its free.
Requests LargeOf(const Trace& trace, std::size_t stride) {
  Requests requests;
  std::vector<std::size_t> numbers(trace.allocations.size(), SIZE_MAX);
  std::size_t large = 0;
  std::size_t taken = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kAllocate) {
      const std::int64_t bytes = trace.allocations[event.index].bytes;
      if (bytes < kSmallest || large++ % stride != 0) continue;
      numbers[event.index] = taken;
      requests.emplace_back(taken++, bytes);
    } else if (event.kind == TraceEvent::Kind::kFree && numbers[event.index] != SIZE_MAX) {
      requests.emplace_back(numbers[event.index], 0);
    }
  }
  return requests;
}

// Serves all requests, and checks the wasted bytes after each allocation.
void Serve(const Requests& requests, std::int64_t alignment) {
  ModelDevice device;
  const std::int64_t budget = 2 * PeakOf(requests) + kMiB;
  const auto pool = *PinnedPool::Create(
      &device, {.max_bytes = budget, .initial_bytes = 0, .may_grow = true, .alignment = alignment});
  std::vector<void*> addresses(requests.size());
  for (const auto& [number, bytes] : requests) {
    if (bytes == 0) {
      EXPECT_TRUE(pool->Free(std::exchange(addresses[number], nullptr)).ok());
      continue;
    }
    const absl::StatusOr<void*> p = pool->Allocate(static_cast<std::size_t>(bytes));
    if (!p.ok()) {
      ADD_FAILURE() << p.status();
      return;
    }
    addresses[number] = *p;
    const PinnedPoolStats stats = pool->Stats();
    EXPECT_LT(static_cast<double>(stats.wasted_bytes()),
              kMostWaste * static_cast<double>(stats.asked_bytes));
  }
  for (void* const address : addresses) EXPECT_TRUE(pool->Free(address).ok());
}

TEST(WasteTest, IsSmallForTrainingSteps) {
  constexpr std::int64_t kMostPeak = 96 * kMiB;
  std::size_t served = 0;
  for (const auto& path : testing::FilesIn(testing::ExampleTraces(), ".csv.gz")) {
    const Trace trace = *ReadTrace(path);
    std::size_t stride = 1;
    while (PeakOf(LargeOf(trace, stride)) > kMostPeak) stride = 2 * stride + 1;
    const Requests requests = LargeOf(trace, stride);
    served += requests.size();
    Serve(requests, 512);
  }
  EXPECT_GT(served, 500);
}

TEST(WasteTest, IsSmallForAnySizes) {
  std::mt19937_64 random(7);
  for (const std::int64_t alignment : {64, 512, 1024}) {
    for (int round = 0; round < 4; ++round) {
      Requests requests;
      std::vector<std::size_t> live;
      std::size_t count = 0;
      for (int i = 0; i < 400; ++i) {
        if (!live.empty() && (live.size() >= 40 || random() % 5 < 2)) {
          std::swap(live[random() % live.size()], live.back());
          requests.emplace_back(live.back(), 0);
          live.pop_back();
          continue;
        }
        // The worst, or anything.
        const std::int64_t power = kSmallest << (random() % 5);
        const std::int64_t bytes =
            round == 0 ? kSmallest + 1
            : round == 1
                ? power + 1
                : power + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(power));
        live.push_back(count);
        requests.emplace_back(count++, bytes);
      }
      Serve(requests, alignment);
    }
  }
}

// Why the alignment is not a page.
TEST(WasteTest, PagesWouldWasteMore) {
  ModelDevice device;
  const auto pool = *PinnedPool::Create(&device, {.max_bytes = kMiB, .alignment = 4096});
  void* const buffer = *pool->Allocate(kSmallest + 1);
  const PinnedPoolStats stats = pool->Stats();
  EXPECT_GT(static_cast<double>(stats.wasted_bytes()),
            kMostWaste * static_cast<double>(stats.asked_bytes));
  EXPECT_TRUE(pool->Free(buffer).ok());
}

}  // namespace
}  // namespace tidepool
