// SPDX-License-Identifier: Apache-2.0
// The file for viewers agrees with the timeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/pool_machine.h"
#include "tests/support/rounds.h"
#include "tests/training/schedule/random_schedule.h"
#include "tests/training/schedule/small_schedule.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::RandomGraphs;
using testing::RandomSchedules;
using testing::Rounds;

double Seconds(const json& microseconds) { return microseconds.get<double>() * 1e-6; }

std::map<int, std::string> TracksOf(const json& trace) {
  std::map<int, std::string> tracks;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
  }
  return tracks;
}

std::vector<json> EventsIn(const json& trace, const std::string& key, const std::string& value) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    if (event.contains(key) && event[key] == value) found.push_back(event);
  }
  return found;
}

void CheckSpan(const json& span, double start, double end) {
  constexpr double kRounding = 0.6e-9;
  ASSERT_EQ(span["ph"], "X");
  ASSERT_NEAR(Seconds(span["ts"]), start, kRounding);
  ASSERT_NEAR(Seconds(span["ts"]) + Seconds(span["dur"]), end, 2 * kRounding);
}

void CheckCounter(const json& trace, const std::string& name,
                  const std::vector<MemoryPoint>& points) {
  const std::vector<json> found = EventsIn(trace, "name", name);
  ASSERT_EQ(found.size(), points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(found[i]["ph"], "C");
    ASSERT_NEAR(Seconds(found[i]["ts"]), points[i].seconds, 0.6e-9);
    ASSERT_EQ(found[i]["args"]["bytes"], points[i].bytes);
  }
}

// Viewers lose spans that overlap on a track without nesting.
void CheckNoOverlap(const json& trace) {
  std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> spans;
  const auto nanoseconds = [](const json& number) {
    return std::llround(number.get<double>() * 1000);
  };
  for (const json& event : EventsIn(trace, "ph", "X")) {
    const std::int64_t start = nanoseconds(event["ts"]);
    spans[event["tid"]].emplace_back(start, start + nanoseconds(event["dur"]));
  }
  for (auto& [track, list] : spans) {
    std::sort(list.begin(), list.end());
    for (std::size_t i = 1; i < list.size(); ++i) ASSERT_GE(list[i].first, list[i - 1].second);
  }
}

void CheckJson(const TaskGraph& graph, const Timeline& timeline) {
  const json trace = json::parse(TimelineJson(graph, timeline));
  const std::map<int, std::string> tracks = TracksOf(trace);
  ASSERT_THAT(tracks, ElementsAre(Pair(1, "compute"), Pair(2, "out"), Pair(3, "in")));
  constexpr const char* kTracks[] = {"compute", "out", "in"};
  std::vector<json> spans = EventsIn(trace, "ph", "X");
  ASSERT_EQ(spans.size(), timeline.events.size() + timeline.stalls.size());
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    const TimelineEvent& event = timeline.events[i];
    const bool is_task = event.kind == TimelineEvent::Kind::kTask;
    CheckSpan(spans[i], event.start, event.end);
    ASSERT_EQ(tracks.at(spans[i]["tid"]), kTracks[static_cast<int>(event.kind)]);
    ASSERT_EQ(spans[i]["name"],
              is_task ? graph.tasks[event.index].name : graph.data[event.index].name);
    ASSERT_EQ(spans[i]["args"]["step"], event.step);
    if (!is_task) {
      ASSERT_EQ(spans[i]["args"]["bytes"], graph.data[event.index].bytes);
    }
  }
  for (std::size_t i = 0; i < timeline.stalls.size(); ++i) {
    const TimelineStall& stall = timeline.stalls[i];
    const json& span = spans[timeline.events.size() + i];
    CheckSpan(span, stall.start, stall.start + stall.seconds);
    ASSERT_EQ(tracks.at(span["tid"]), "compute");
    ASSERT_EQ(span["cat"], "stall");
    ASSERT_EQ(span["args"]["reason"], std::string(StallReasonName(stall.reason)));
    ASSERT_EQ(span["args"]["data"], graph.data[stall.data].name);
    ASSERT_EQ(span["args"]["task"], graph.tasks[stall.task].name);
  }
  CheckCounter(trace, "device memory", timeline.device_memory);
  CheckCounter(trace, "host memory", timeline.host_memory);
  CheckNoOverlap(trace);
}

TEST(TimelineJson, IsTheTimeline) {
  RandomGraphs random(31);
  testing::PoolMachine options;
  options.memory() = std::int64_t{1} << 40;
  options.link().latency_seconds = 1.0 / 3;
  std::size_t stalls = 0;
  for (int i = 0; i < Rounds(50) && !HasFatalFailure(); ++i) {
    TaskGraph graph = random.Valid(1 + random.Below(12));
    graph.name = "a \"net\"\n";
    graph.data[0].name = "\xC3\xA9\\\t";
    graph.tasks[0].name = "</script>";
    for (GraphTask& task : graph.tasks) task.algorithms[0].seconds /= 7;
    const absl::StatusOr<Timeline> timeline =
        Simulate(graph, RandomSchedules(graph, random).Valid(), options);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    stalls += timeline->stalls.size();
    CheckJson(graph, *timeline);
  }
  EXPECT_GT(stalls, 20);
}

TEST(TimelineJson, NamesTheNetwork) {
  TaskGraph graph = testing::SmallGraph();
  const json trace = json::parse(TimelineJson(graph, {}));
  EXPECT_EQ(EventsIn(trace, "name", "process_name").at(0)["args"]["name"], "small");
  graph.name.clear();
  EXPECT_THAT(TimelineJson(graph, {}), HasSubstr("\"iteration\""));
}

TEST(TimelineJson, TimesBeyondThoseOfViewersAreTheLast) {
  const TaskGraph graph = testing::SmallGraph();
  Timeline timeline;
  timeline.events = {{TimelineEvent::Kind::kTask, 0, 0, 1, 1e18},
                     {TimelineEvent::Kind::kTask, 1, 0, 1e18, 2e18}};
  const std::vector<json> spans = EventsIn(json::parse(TimelineJson(graph, timeline)), "ph", "X");
  EXPECT_EQ(spans.at(0)["ts"].get<double>(), 1e6);
  EXPECT_EQ(spans.at(1)["ts"].get<double>(), 9e15);
  EXPECT_EQ(spans.at(1)["dur"].get<double>(), 0);
}

class WriteTimelineTest : public ::testing::Test {
 protected:
  WriteTimelineTest() { std::filesystem::create_directories(folder_); }
  ~WriteTimelineTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / absl::StrCat("tidepool_timeline_", getpid());
};

TEST_F(WriteTimelineTest, WritesPlainAndCompressed) {
  const TaskGraph graph = testing::SmallGraph();
  testing::PoolMachine options;
  options.memory() = 1 << 20;
  const Timeline timeline = *Simulate(graph, testing::Of(graph, testing::PlainSteps()), options);
  ASSERT_TRUE(WriteTimeline(graph, timeline, folder_ / "t.json").ok());
  std::stringstream plain;
  plain << std::ifstream(folder_ / "t.json").rdbuf();
  EXPECT_EQ(plain.str(), TimelineJson(graph, timeline));

  ASSERT_TRUE(WriteTimeline(graph, timeline, folder_ / "t.json.gz").ok());
  EXPECT_LT(std::filesystem::file_size(folder_ / "t.json.gz"), plain.str().size());
  gzFile file = gzopen((folder_ / "t.json.gz").c_str(), "rb");
  std::string text(plain.str().size() + 1, '\0');
  text.resize(
      static_cast<std::size_t>(gzread(file, text.data(), static_cast<unsigned>(text.size()))));
  gzclose(file);
  EXPECT_EQ(text, plain.str());
}

TEST_F(WriteTimelineTest, SaysWhereItCannotWrite) {
  const absl::Status status = WriteTimeline(testing::SmallGraph(), {}, folder_ / "none" / "t.json");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
}

}  // namespace
}  // namespace tidepool
