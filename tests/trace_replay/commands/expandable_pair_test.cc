// SPDX-License-Identifier: Apache-2.0
// Pairs of snapshots of the same requests, recorded without and with expandable segments. From each
// file alone, the model of PyTorch's allocator tells the reserved memory of both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/pickled.h"
#include "tests/support/sizes.h"
#include "tests/trace_replay/command_line.h"

namespace tidepool {
namespace {

using nlohmann::json;

// All sizes and addresses are MiB.
json EventInMiB(const std::string& action, std::int64_t address, std::int64_t size) {
  return {{"action", action},
          {"addr", address * kMiB},
          {"size", size * kMiB},
          {"stream", 0},
          {"time_us", 1}};
}

// A segment in which [0, live) is live.
json SegmentInMiB(std::int64_t address, std::int64_t size, std::int64_t live) {
  std::vector<json> blocks;
  if (live > 0) {
    blocks.push_back({{"address", address * kMiB},
                      {"size", live * kMiB},
                      {"requested_size", live * kMiB},
                      {"state", "active_allocated"}});
  }
  return {{"device", 0},
          {"address", address * kMiB},
          {"total_size", size * kMiB},
          {"stream", 0},
          {"blocks", blocks}};
}

json Recording(const std::vector<json>& segments, const std::vector<json>& events,
               bool is_expandable) {
  return {{"segments", segments},
          {"device_traces", List({json(events)})},
          {"allocator_settings", {{"expandable_segments", is_expandable}}}};
}

class ExpandablePair : public CommandLine {
 protected:
  // Expects from each file of the pair the sizes that both files recorded: the right one of them is
  // larger, and the model is within 2 % of it.
  void ExpectTold(const json& without, const json& with, std::int64_t reserved_without,
                  std::int64_t reserved_with) {
    for (const json& snapshot : {without, with}) {
      const bool is_expandable = snapshot["allocator_settings"]["expandable_segments"];
      SCOPED_TRACE(is_expandable);
      const json size = Json({"size", File("snapshot.pickle", testing::Pickled(snapshot)),
                              "--policy", "pytorch", "--policy", "pytorch-expandable"});
      EXPECT_EQ(size["recorded"]["peak_reserved_bytes"],
                (is_expandable ? reserved_with : reserved_without) * kMiB);
      const std::int64_t modelled_without = size["policies"][0]["pool_bytes"];
      const std::int64_t modelled_with = size["policies"][1]["pool_bytes"];
      EXPECT_EQ(modelled_with < modelled_without, reserved_with < reserved_without);
      EXPECT_LE(50 * std::abs(modelled_without - reserved_without * kMiB), reserved_without * kMiB);
      EXPECT_LE(50 * std::abs(modelled_with - reserved_with * kMiB), reserved_with * kMiB);
    }
  }
};

// Two requests of 30 MiB are freed, then 44 and 1 MiB are requested. Without expandable segments
// neither hole of 30 takes 44: 30 + 30 + 44, and 2 for the small request, are 106. With them the
// holes are one of 60: granules of 20 for 60, and 2 for the small request, are 62.
TEST_F(ExpandablePair, IsToldWhereFragmentationMattersMost) {
  const json without =
      Recording({SegmentInMiB(100, 30, 0), SegmentInMiB(200, 30, 0), SegmentInMiB(300, 44, 44),
                 SegmentInMiB(400, 2, 1)},
                {EventInMiB("segment_alloc", 100, 30), EventInMiB("alloc", 100, 30),
                 EventInMiB("segment_alloc", 200, 30), EventInMiB("alloc", 200, 30),
                 EventInMiB("free_completed", 100, 30), EventInMiB("free_completed", 200, 30),
                 EventInMiB("segment_alloc", 300, 44), EventInMiB("alloc", 300, 44),
                 EventInMiB("segment_alloc", 400, 2), EventInMiB("alloc", 400, 1)},
                false);
  const json with = Recording({SegmentInMiB(100, 60, 44), SegmentInMiB(400, 2, 1)},
                              {EventInMiB("segment_map", 100, 40), EventInMiB("alloc", 100, 30),
                               EventInMiB("segment_map", 140, 20), EventInMiB("alloc", 130, 30),
                               EventInMiB("free_completed", 100, 30),
                               EventInMiB("free_completed", 130, 30), EventInMiB("alloc", 100, 44),
                               EventInMiB("segment_map", 400, 2), EventInMiB("alloc", 400, 1)},
                              true);
  ExpectTold(without, with, 106, 62);
}

// Two requests of 8 MiB share a segment of 20, and the first is freed. Then 12 MiB take a segment
// of their own: 32. With expandable segments they lie from 16 to 28, in a second granule of 20: 40.
TEST_F(ExpandablePair, IsToldWhereGranulesCostMore) {
  const json without =
      Recording({SegmentInMiB(100, 20, 0), SegmentInMiB(200, 12, 12)},
                {EventInMiB("segment_alloc", 100, 20), EventInMiB("alloc", 100, 8),
                 EventInMiB("alloc", 108, 8), EventInMiB("free_completed", 100, 8),
                 EventInMiB("segment_alloc", 200, 12), EventInMiB("alloc", 200, 12),
                 EventInMiB("free_completed", 108, 8)},
                false);
  const json with =
      Recording({SegmentInMiB(100, 40, 0)},
                {EventInMiB("segment_map", 100, 20), EventInMiB("alloc", 100, 8),
                 EventInMiB("alloc", 108, 8), EventInMiB("free_completed", 100, 8),
                 EventInMiB("segment_map", 120, 20), EventInMiB("alloc", 116, 12),
                 EventInMiB("free_completed", 108, 8), EventInMiB("free_completed", 116, 12)},
                true);
  ExpectTold(without, with, 32, 40);
}

}  // namespace
}  // namespace tidepool
