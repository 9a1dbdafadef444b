// SPDX-License-Identifier: Apache-2.0
// Tests the answers of commands about regions that a trace has recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trace_replay/command_line.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr SleepMode kModes[] = {SleepMode::kHost, SleepMode::kDiscard, SleepMode::kCompressed,
                                SleepMode::kDisk, SleepMode::kStore};

class RegionCommands : public CommandLine {
 protected:
  static void Allocate(TraceBuilder& builder, const std::string& region, const std::string& id,
                       std::int64_t bytes, std::int64_t time) {
    EXPECT_TRUE(builder.SetRegion(region).ok());
    EXPECT_TRUE(builder.Allocate(id, bytes, Hint::kResident, "s", time).ok());
  }
  // Weights of 6 MiB and a cache of 5 MiB take turns in each mode, beside 1 MiB of no region.
  std::string Turns() {
    TraceBuilder builder(TraceFormat::kNative);
    Allocate(builder, "", "0x100000", kMiB, 0);
    Allocate(builder, "weights", "0x1000000", 4 * kMiB, 1'000'000);
    Allocate(builder, "weights", "0x2000000", 2 * kMiB, 1'000'000);
    std::int64_t time = 2'000'000;
    for (const SleepMode mode : kModes) {
      EXPECT_TRUE(builder.Pause("weights", mode, "s", time += 1'000'000).ok());
      Allocate(builder, "kv\"cache", "0x3000000", 5 * kMiB, time);
      EXPECT_TRUE(builder.Free("0x3000000", "s", time));
      EXPECT_TRUE(builder.Resume("weights", "t", time += 250'000).ok());
    }
    EXPECT_TRUE(builder.Free("0x1000000", "t", time));
    EXPECT_TRUE(builder.Pause("weights", SleepMode::kHost, "s", time += 1'000'000).ok());
    EXPECT_TRUE(builder.Free("0x2000000", "s", time));
    const std::string path = folder_ / "turns.tide";
    EXPECT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, path).ok());
    return path;
  }
};

// Returns "pause weights host" and so on.
std::vector<std::string> Sleeps(const Trace& trace) {
  std::vector<std::string> lines;
  for (const TraceEvent& event : trace.events) {
    const bool is_pause = event.kind == TraceEvent::Kind::kPause;
    if (!is_pause && event.kind != TraceEvent::Kind::kResume) continue;
    const TracePause& pause = trace.pauses[event.index];
    lines.push_back(absl::StrCat(
        is_pause ? "pause " : "resume ", std::string(trace.region_names[pause.region - 1U]),
        is_pause ? " " : "", is_pause ? std::string(SleepModeName(pause.mode)) : ""));
  }
  return lines;
}

std::vector<std::string> RegionsOfAllocations(const Trace& trace) {
  std::vector<std::string> regions;
  for (const TraceAllocation& allocation : trace.allocations) {
    regions.emplace_back(
        allocation.region == 0 ? "" : std::string(trace.region_names[allocation.region - 1U]));
  }
  return regions;
}

TEST_F(RegionCommands, InfoNamesPeaksSleepAndBytes) {
  const json answer = Json({"info", Turns()});
  EXPECT_EQ(answer["peak_awake_bytes"], 7 * kMiB);
  ASSERT_EQ(answer["regions"].size(), 2);
  EXPECT_EQ(answer["regions"][0],
            json({{"name", "weights"},
                  {"allocations", 2},
                  {"failures", 0},
                  {"peak_live_bytes", 6 * kMiB},
                  {"unfreed_bytes", 0},
                  {"pauses", 6},
                  {"pauses_by_mode",
                   {{"host", 2}, {"discard", 1}, {"compressed", 1}, {"disk", 1}, {"store", 1}}},
                  {"paused_bytes", (5 * 6 + 2) * kMiB},
                  {"asleep_ns", 5 * 250'000},
                  {"is_asleep", true}}));
  EXPECT_EQ(answer["regions"][1]["name"], "kv\"cache");
  const std::string text = Text({"info", Turns()});
  EXPECT_THAT(text, HasSubstr("peak live without sleeping regions"));
  EXPECT_THAT(text, HasSubstr("the live memory counts sleeping regions"));
  EXPECT_THAT(text, ContainsRegex("weights +2 +6.0 MiB +host 2, discard 1, compressed 1, disk 1, "
                                  "store 1 +32.0 MiB +1.250 ms +asleep at the end"));
  EXPECT_THAT(Text({"info", File("plain.csv", kPaper)}), Not(HasSubstr("region")));
}

TEST_F(RegionCommands, PlanReadsTheRecordedRegions) {
  const json answer = Json({"plan", Turns(), "--regions", "--capacity", "8MiB", "--block", "1MiB"});
  EXPECT_EQ(answer["needed_bytes"], 7 * kMiB);
  EXPECT_EQ(answer["sleepless_bytes"], 12 * kMiB);
  EXPECT_EQ(answer["peak_awake_bytes"], 7 * kMiB);
  EXPECT_EQ(answer["fits"], true);
  EXPECT_EQ(answer["blocks"], 1);
  ASSERT_EQ(answer["regions"].size(), 3);
  EXPECT_EQ(answer["regions"][1], json({{"name", "weights"},
                                        {"pauses", 6},
                                        {"peak_live_bytes", 6 * kMiB},
                                        {"plan_bytes", 6 * kMiB}}));
  const std::string text = Text({"plan", Turns(), "--regions", "--capacity", "4MiB"}, 2);
  EXPECT_THAT(
      text,
      HasSubstr("awake together need up to 7.0 MiB, at event 1; 12.0 MiB if none ever slept"));
  EXPECT_THAT(text, HasSubstr("does not fit into 4.0 MiB"));
  EXPECT_EQ(Json({"plan", Turns(), "--regions", "--without", "weights"})["needed_bytes"], 6 * kMiB);
  EXPECT_THAT(ErrorOf({"plan", Turns(), "--regions", "--without", "x"}),
              HasSubstr("no region \"x\", expected one of weights, kv\\\"cache"));
}

TEST_F(RegionCommands, PlanTellsWhatEachPhaseOfRegionsNeeds) {
  TraceBuilder builder(TraceFormat::kNative);
  builder.Mark("load", 0);
  Allocate(builder, "weights", "w", 4 * kMiB, 0);
  builder.Mark("generate", 1);
  Allocate(builder, "cache", "k", 2 * kMiB, 1);
  const std::string path = folder_ / "phases.tide";
  ASSERT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, path).ok());
  EXPECT_EQ(Json({"plan", path, "--regions"})["phases"],
            json::array({{{"name", "load"}, {"times", 1}, {"needed_bytes", 4 * kMiB}},
                         {{"name", "generate"}, {"times", 1}, {"needed_bytes", 6 * kMiB}}}));
  EXPECT_THAT(Text({"plan", path, "--regions"}),
              ContainsRegex("phase, in the recorded order +times +needs\n"
                            "  load +1 +4.0 MiB\n"
                            "  generate +1 +6.0 MiB"));
  EXPECT_EQ(Json({"plan", Turns(), "--regions"})["phases"], json::array());
}

TEST_F(RegionCommands, ConvertSaysThatRegionsAreLost) {
  const std::string trace = Turns();
  for (const std::string format :
       {"operation-csv", "rmm-csv", "lifetime-csv", "chrome-trace", "pytorch-snapshot"}) {
    EXPECT_THAT(Json({"convert", trace, folder_ / "x", "--to", format})["left_out"],
                Contains("regions"))
        << format;
  }
  EXPECT_THAT(Json({"convert", trace, folder_ / "x.tide"})["left_out"], Not(Contains("regions")));
  EXPECT_EQ(Sleeps(*ReadTrace(folder_ / "x.tide")), Sleeps(*ReadTrace(trace)));
  const Outcome text = Run({"convert", trace, folder_ / "x.json"});
  EXPECT_THAT(text.err, HasSubstr("regions and their pauses"));
  EXPECT_THAT(testing::Contents(folder_ / "x.json"),
              HasSubstr(R"("name":"pause","args":{"region":"weights","mode":"compressed"}})"));
}

// With contents, the recording of a replay has the regions of the trace again; a store of another
// program is page-locked memory.
TEST_F(RegionCommands, ReplayCarriesPausesOut) {
  const std::string trace = Turns();
  const std::string again = folder_ / "again.tide";
  const json answer = Json({"replay", trace, "--device", "host", "--pool", "8MiB", "--initial",
                            "1MiB", "--verify", "--record", again});
  EXPECT_EQ(answer["refused"], 0);
  EXPECT_EQ(answer["verified"], true);
  EXPECT_EQ(answer["peak_live_bytes"], 7 * kMiB);
  EXPECT_LE(answer["peak_reserved_bytes"], 8 * kMiB);
  const Trace recorded = *ReadTrace(again);
  std::vector<std::string> sleeps = Sleeps(*ReadTrace(trace));
  for (std::string& line : sleeps) {
    if (line == "pause weights store") line = "pause weights host";
  }
  EXPECT_EQ(Sleeps(recorded), sleeps);
  EXPECT_EQ(RegionsOfAllocations(recorded), RegionsOfAllocations(*ReadTrace(trace)));
}

TEST_F(RegionCommands, ReplayWithoutContentsKeepsNone) {
  const std::string again = folder_ / "again.tide";
  Json({"replay", Turns(), "--device", "host", "--pool", "8MiB", "--initial", "1MiB", "--record",
        again});
  const std::vector<std::string> sleeps = Sleeps(*ReadTrace(again));
  EXPECT_EQ(sleeps.size(), 11);
  EXPECT_EQ(std::count(sleeps.begin(), sleeps.end(), "pause weights discard"), 6);
}

// The regions need 12 MiB if none sleeps, and 7 as recorded.
TEST_F(RegionCommands, ReplayRefusesWhatDoesNotFitBesideRegionsThatAreAwake) {
  EXPECT_EQ(Json({"replay", Turns(), "--device", "host", "--pool", "6MiB", "--initial", "1MiB"},
                 2)["first_refused"]["event"],
            2);
}

// The region sleeps on: its requests are refused, and its next pause finds it asleep.
TEST_F(RegionCommands, ReplayRefusesAResumeWithoutRoom) {
  TraceBuilder builder(TraceFormat::kNative);
  Allocate(builder, "a", "x", 4 * kMiB, 0);
  EXPECT_TRUE(builder.Pause("a", SleepMode::kHost, "s", 0).ok());
  Allocate(builder, "b", "y", 4 * kMiB, 0);
  EXPECT_TRUE(builder.Resume("a", "s", 0).ok());
  Allocate(builder, "a", "z", kMiB, 0);
  EXPECT_TRUE(builder.Free("z", "s", 0));
  EXPECT_TRUE(builder.Pause("a", SleepMode::kHost, "s", 0).ok());
  EXPECT_TRUE(builder.Free("y", "s", 0));
  EXPECT_TRUE(builder.Resume("a", "s", 0).ok());
  EXPECT_TRUE(builder.Free("x", "s", 0));
  const std::string path = folder_ / "tight.tide";
  ASSERT_TRUE(WriteTrace(builder.Build(), TraceFormat::kNative, path).ok());
  const std::vector<std::string> arguments = {"replay", path,   "--device", "host",
                                              "--pool", "6MiB", "--verify"};
  const json answer = Json(arguments, 2);
  EXPECT_EQ(answer["refused"], 2);
  EXPECT_EQ(answer["first_refused"]["event"], 3);
  EXPECT_EQ(answer["first_refused"]["resumed_region"], "a");
  EXPECT_EQ(answer["first_refused"]["bytes"], 4 * kMiB);
  EXPECT_THAT(Run(arguments).out, HasSubstr("to resume  "));
}

// A plan has no regions, and neither has placement alone.
TEST_F(RegionCommands, ReplayOfAPlanHasNoRegions) {
  const json answer =
      Json({"replay", Turns(), "--device", "host", "--policy", "planned", "--pool", "12MiB"});
  EXPECT_EQ(answer["refused"], 0);
  EXPECT_EQ(answer["planned"]["planned"], 8);
  EXPECT_EQ(Json({"replay", Turns(), "--pool", "12MiB"})["refused"], 0);
}

}  // namespace
}  // namespace tidepool
