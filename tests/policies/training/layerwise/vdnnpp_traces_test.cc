// SPDX-License-Identifier: Apache-2.0
// The requests of vDNN's schedules equal, one by one, the sequences made from the paper
// (tests/support/vdnnpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/pool_schedule.h"
#include "tests/support/shared_files.h"
#include "tests/support/vdnnpp_papers.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using Request = std::tuple<std::string, std::int64_t, std::string>;  // name, bytes, hint

std::vector<Request> RequestsOf(const Trace& trace) {
  std::vector<Request> requests;
  for (const TraceEvent& event : trace.events) {
    if (!event.TouchesMemory()) continue;
    const TraceAllocation& allocation = trace.allocations[event.index];
    const bool is_free = event.kind == TraceEvent::Kind::kFree;
    const bool is_high = !is_free && allocation.hint == Hint::kOffloadable;
    requests.emplace_back(is_free ? "free" : "allocate", allocation.bytes, is_high ? "high" : "");
  }
  return requests;
}

struct RecordedNetwork {
  const char* file;
  const char* model;
  std::int64_t batch;
};

class VdnnppTraces : public ::testing::TestWithParam<RecordedNetwork> {};

TEST_P(VdnnppTraces, AreThoseOfThePaper) {
  const RecordedNetwork& network = GetParam();
  const TaskGraph graph = testing::PaperGraph(network.model, network.batch);
  for (const char* set : {"all", "conv", "aconv"}) {
    for (const char* algorithms : {"m", "p"}) {
      for (const char* order : {"prefetch", "derivative"}) {
        const std::string name =
            absl::StrCat(network.file, "_", set, "_", algorithms, "_", order, ".csv");
        SCOPED_TRACE(name);
        const absl::StatusOr<Trace> theirs = ReadTrace((testing::VdnnppTraces() / name).string());
        ASSERT_TRUE(theirs.ok()) << theirs.status();
        testing::PoolPolicy options = testing::PaperMode(absl::StrCat(set, "(", algorithms, ")"));
        options.order = AllocationOrderFromName(absl::StrCat(order, "-first")).value();
        const std::vector<Request> expected = RequestsOf(*theirs);
        const std::vector<Request> requests = RequestsOf(testing::PaperTrace(graph, options));
        const auto [ours, paper] = std::ranges::mismatch(requests, expected);
        EXPECT_EQ(requests.size(), expected.size());
        if (ours == requests.end() || paper == expected.end()) continue;
        EXPECT_EQ(*ours, *paper) << "request " << ours - requests.begin();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, VdnnppTraces,
                         ::testing::Values(RecordedNetwork{"alexnet_b128", "alexnet", 128},
                                           RecordedNetwork{"alexnet_b256", "alexnet", 256},
                                           RecordedNetwork{"vgg16_b16", "vgg16", 16},
                                           RecordedNetwork{"vgg16_b64", "vgg16", 64}),
                         [](const auto& network) { return std::string(network.param.file); });

}  // namespace
}  // namespace tidepool
