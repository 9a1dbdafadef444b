// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool replay --device host` as a program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/random_trace.h"
#include "tests/support/rounds.h"
#include "tests/support/shared_files.h"
#include "tests/trace_replay/command_line.h"
#include "tidepool/placement.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class HostReplay : public CommandLine {
 protected:
  json Answer(std::vector<std::string> arguments, int status = 0) {
    arguments.insert(arguments.begin(), "replay");
    arguments.emplace_back("--json");
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err, IsEmpty());
    return json::parse(outcome.out);
  }

  // Buffers of up to 60 KiB, freed on any of four streams; at most 2 MiB are live.
  std::string ManyStreams(std::uint64_t seed, int events) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t limit) { return static_cast<int>(random() % limit); };
    std::string text = "op,id,size,hint,stream,time_ns\n";
    std::vector<int> live;
    for (int i = 0; i < events; ++i) {
      const std::string end = absl::StrCat(",s", below(4), ",", i, "\n");
      if (below(100) == 0) {
        absl::StrAppend(&text, "m,step,,", end);
      } else if (live.size() < 32 && below(2) == 0) {
        live.push_back(i);
        absl::StrAppend(&text, "a,", i, ",", 1 + below(60 << 10), below(5) == 0 ? ",high" : ",",
                        end);
      } else if (!live.empty()) {
        std::swap(live[static_cast<std::size_t>(below(live.size()))], live.back());
        absl::StrAppend(&text, "f,", live.back(), ",,", end);
        live.pop_back();
      }
    }
    return File("streams.csv", text);
  }
};

std::vector<std::filesystem::path> Examples() {
  return testing::FilesIn(testing::ExampleTraces(), ".csv.gz");
}

// Returns the figures that do not depend on time.
json Placement(const json& answer) {
  json placement = {{"high_water_bytes", answer["high_water_bytes"]},
                    {"offsets", answer["offsets"]},
                    {"peak_live_bytes", answer["peak_live_bytes"]},
                    {"pool_bytes", answer["pool_bytes"]},
                    {"refused", answer["refused"]},
                    {"trace", answer["trace"]}};
  if (answer.contains("first_refused")) placement["first_refused"] = answer["first_refused"];
  return placement;
}

// Returns the parts of a trace that do not depend on the pool: no waits, names or times.
std::vector<std::vector<std::int64_t>> Requests(const Trace& trace) {
  std::vector<std::vector<std::int64_t>> requests;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kWait) continue;
    requests.push_back({static_cast<std::int64_t>(event.kind), event.index, event.stream});
  }
  return requests;
}

TEST_F(HostReplay, AnswersWithItsStatus) {
  const std::string trace = File("paper.csv", kPaper);
  const json answer = Answer({trace, "--pool", "4608", "--device", "host", "--offsets"});
  EXPECT_EQ(answer["device"], "host");
  EXPECT_EQ(answer["offsets"], json::parse("[0, 2560, 3584, 4096, 0]"));
  EXPECT_EQ(answer["served"], true);
  EXPECT_EQ(answer["high_water_bytes"], 4608);
  EXPECT_EQ(answer["peak_live_bytes"], 4608);
  EXPECT_EQ(answer["peak_reserved_bytes"], 64 << 10);  // one granule of the device
  EXPECT_EQ(answer["stream_waits"], 0);
  EXPECT_EQ(answer["event_records"], 0);
  EXPECT_EQ(answer["growths"], 0);
  for (const char* calls : {"allocate_ns", "free_ns", "pair_ns"}) {
    EXPECT_LE(answer[calls]["median"], answer[calls]["p99"]) << calls;
  }
  EXPECT_FALSE(answer.contains("verified"));
  const json refused = Answer({trace, "--pool", "5.5KiB", "--device", "host", "--offsets"}, 2);
  EXPECT_EQ(refused["offsets"], json::parse("[0, 2560, 3584, 2560, -1]"));
  EXPECT_EQ(refused["refused"], 1);
  const Outcome table = Run({"replay", trace, "--pool", "5632", "--device", "host", "--verify"});
  EXPECT_EQ(table.status, 2);
  EXPECT_THAT(table.out, HasSubstr("all but 1"));
  EXPECT_THAT(table.out, ContainsRegex("contents +intact"));
  EXPECT_THAT(table.out, ContainsRegex("allocate \\+ free +[0-9,]+ +[0-9,]+"));
}

TEST_F(HostReplay, HasNoLatencyOfWhatDidNotHappen) {
  const std::string trace = File("x.csv", "op,id,size,hint\na,x,1000,\nf,x,,\n");
  const json answer = Answer({trace, "--pool", "512", "--device", "host", "--verify"}, 2);
  EXPECT_EQ(answer["allocate_ns"], nullptr);
  EXPECT_EQ(answer["free_ns"], nullptr);
  EXPECT_EQ(answer["pair_ns"], nullptr);
  EXPECT_EQ(Run({"replay", trace, "--pool", "512", "--device", "host"}).status, 2);
}

// Replays in the smallest pool, in a larger one, and in one larger than any machine's memory.
TEST_F(HostReplay, PlacesTracesOfOneStreamLikeAReplayByPlacementAlone) {
  std::vector<std::filesystem::path> traces = Examples();
  traces.resize(static_cast<std::size_t>(testing::Rounds(static_cast<int>(traces.size()))));
  for (const std::filesystem::path& trace : traces) {
    const json info = json::parse(Run({"info", trace, "--json"}).out);
    const std::int64_t peak = info["trace"]["peak_live_bytes"];
    ASSERT_EQ(info["streams"], 1);
    const std::string plan = folder_ / "plan.csv";
    const Outcome planned = Run({"plan", trace, "--time-limit", "0", "-o", plan, "--json"});
    const std::int64_t height = json::parse(planned.out)["pool_bytes"];
    for (const std::string& policy : PlacementPolicyNames()) {
      const std::int64_t smallest = policy == "planned" ? height : peak;
      for (const std::int64_t pool : {smallest, peak * 5 / 4, std::int64_t{1} << 39}) {
        std::vector<std::string> arguments = {"replay",    trace,    "--policy",
                                              policy,      "--pool", absl::StrCat(pool),
                                              "--offsets", "--json"};
        if (policy == "planned") arguments.insert(arguments.end(), {"--plan", plan});
        std::vector<std::string> live_arguments = arguments;
        live_arguments.insert(live_arguments.end(), {"--device", "host"});
        const Outcome placed = Run(arguments);
        const Outcome served = Run(live_arguments);
        ASSERT_EQ(served.status, placed.status) << served.err;
        EXPECT_THAT(served.err, IsEmpty());
        ASSERT_EQ(Placement(json::parse(served.out)), Placement(json::parse(placed.out)))
            << trace << ", " << policy << ", " << pool;
      }
    }
  }
}

TEST_F(HostReplay, KeepsContents) {
  const std::string trace = Examples().front();
  EXPECT_EQ(Answer({trace, "--pool", "400MiB", "--device", "host", "--verify"})["verified"], true);
}

TEST_F(HostReplay, KeepsContentsOfManyStreams) {
  for (int seed = 1; seed <= testing::Rounds(5); ++seed) {
    const std::string trace = ManyStreams(seed, 2000);
    for (const std::string& policy : PlacementPolicyNames()) {
      std::vector<std::string> arguments = {trace,      "--policy", policy,
                                            "--device", "host",     "--verify"};
      // No stream waits in this trace, so no planned memory passes from one stream to another.
      if (policy != "planned") arguments.insert(arguments.end(), {"--pool", "3MiB"});
      EXPECT_EQ(Answer(arguments)["verified"], true);
    }
  }
}

TEST_F(HostReplay, KeepsContentsWhileItGrows) {
  const std::string trace = ManyStreams(6, 1000);
  const json answer = Answer({trace, "--pool", "16MiB", "--device", "host", "--verify", "--initial",
                              "128KiB", "--growth", "0.125"});
  EXPECT_GT(answer["growths"], 0);
  EXPECT_LT(answer["peak_reserved_bytes"], 16 << 20);
  EXPECT_GE(answer["peak_reserved_bytes"], answer["high_water_bytes"]);
}

TEST_F(HostReplay, KeepsContentsInSegments) {
  const std::string trace = ManyStreams(6, 1000);
  const json answer = Answer({trace, "--pool", "16MiB", "--device", "host", "--verify", "--memory",
                              "segments", "--initial", "128KiB"});
  EXPECT_GT(answer["growths"], 0);
  EXPECT_LT(answer["peak_reserved_bytes"], 16 << 20);
  EXPECT_GE(answer["peak_reserved_bytes"], answer["high_water_bytes"]);
}

// Frees every second block; a large request then gets the memory of the freed blocks, remapped.
TEST_F(HostReplay, MovesFreeMemoryWhenItMay) {
  std::string rows = "op,id,size,hint\n";
  for (int i = 0; i < 8; ++i) absl::StrAppend(&rows, "a,", i, ",", 2 << 20, ",\n");
  for (int i = 0; i < 8; i += 2) absl::StrAppend(&rows, "f,", i, ",,\n");
  absl::StrAppend(&rows, "a,x,", 8 << 20, ",\nf,1,,\nf,x,,\n");
  const std::string trace = File("holes.csv", rows);
  EXPECT_EQ(Run({"replay", trace, "--pool", "16MiB", "--device", "host"}).status, 2);
  const json answer = Answer(
      {trace, "--pool", "16MiB", "--device", "host", "--remap", "--verify", "--initial", "0"});
  EXPECT_EQ(answer["remaps"], 1);
  EXPECT_EQ(answer["peak_reserved_bytes"], 16 << 20);
}

TEST_F(HostReplay, TakesAnyAlignment) {
  const std::string trace = File("l.csv", "id,lower,upper,size\na,0,2,3\nb,1,3,4\n");
  const auto offsets = [&](const std::string& pool, const std::string& align) {
    return Answer({trace, "--pool", pool, "--align", align, "--device", "host", "--offsets",
                   "--verify"})["offsets"];
  };
  EXPECT_EQ(offsets("7", "1"), json({0, 3}));
  EXPECT_EQ(offsets("32MiB", "16MiB"), json({0, 16 << 20}));
}

TEST_F(HostReplay, RecordsWhatThePoolIsAskedFor) {
  std::vector<std::filesystem::path> traces = Examples();
  traces.emplace_back(File("paper.csv", std::string(kPaper) + "m,step,,\n"));
  const std::string recording = folder_ / "r.tide";
  for (const std::filesystem::path& trace : traces) {
    for (const std::string& policy : PlacementPolicyNames()) {
      const std::vector<std::string> arguments = {"--pool",    "10GiB",        "--policy", policy,
                                                  "--offsets", "--time-limit", "0"};
      const auto answer = [&](std::vector<std::string> more) {
        more.insert(more.end(), arguments.begin(), arguments.end());
        return Answer(more);
      };
      const json live = answer({trace, "--device", "host", "--record", recording});
      ASSERT_EQ(live["offsets"], answer({recording})["offsets"]) << trace << ", " << policy;
    }
    const Trace original = ReadTrace(trace).value();
    const Trace recorded = ReadTrace(recording).value();
    EXPECT_FALSE(recorded.ended_early);
    EXPECT_EQ(recorded.default_alignment, original.default_alignment);
    EXPECT_EQ(Requests(recorded), Requests(original));
    testing::ExpectSame(recorded.allocations, original.allocations);
    testing::ExpectSame(recorded.mark_names, original.mark_names);
  }
}

TEST_F(HostReplay, RecordsManyStreamsAndTheirWaits) {
  const std::string trace = ManyStreams(7, 2000);
  const std::string recording = folder_ / "r.tide";
  const json live =
      Answer({trace, "--pool", "3MiB", "--device", "host", "--verify", "--record", recording});
  const Trace recorded = ReadTrace(recording).value();
  EXPECT_EQ(Requests(recorded).size(), live["trace"]["events"]);
  EXPECT_EQ(recorded.events.size() - Requests(recorded).size(), live["stream_waits"]);
  testing::ExpectSame(recorded.allocations, ReadTrace(trace)->allocations);
  Answer({recording, "--pool", "3MiB", "--device", "host", "--verify"});
}

TEST_F(HostReplay, RecordsRefusals) {
  const std::string trace = File("paper.csv", kPaper);
  const std::string recording = folder_ / "r.tide";
  Answer({trace, "--pool", "5.5KiB", "--device", "host", "--record", recording}, 2);
  const Trace recorded = ReadTrace(recording).value();
  ASSERT_EQ(recorded.failures.size(), 1);
  EXPECT_EQ(recorded.failures[0].bytes, 4096);
  EXPECT_EQ(recorded.allocations.size(), 4);
}

// Limits files to 64 KiB (128 blocks): enough for the device, too little for the recording.
TEST_F(HostReplay, LeavesNoHalfOfARecording) {
  std::string events = "op,id,size,hint\n";
  for (int i = 0; i < 50'000; ++i) absl::StrAppend(&events, "a,x,", 1 + i % 999, ",\nf,x,,\n");
  const std::string recording = folder_ / "r.tide";
  const std::string error = folder_ / "error";
  const std::string command =
      absl::StrCat("ulimit -f 128 && ", TIDEPOOL_TOOL, " replay ", File("x.csv", events),
                   " --pool 64KiB --device host --record ", recording, " 2>", error);
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  EXPECT_THAT(testing::Contents(error), StartsWith("tidepool: " + recording + ": "));
  EXPECT_FALSE(std::filesystem::exists(recording));
}

TEST_F(HostReplay, RefusesBadArgumentsInOneLine) {
  const std::string trace = File("paper.csv", kPaper);
  const auto error = [&](const std::string& pool, std::vector<std::string> more) {
    more.insert(more.begin(), {"replay", trace, "--pool", pool});
    return ErrorOf(more);
  };
  EXPECT_THAT(error("8KiB", {"--device", "tpu"}), HasSubstr("'tpu'"));
  EXPECT_THAT(error("8KiB", {"--verify"}), HasSubstr("--verify: --device none"));
  EXPECT_THAT(error("8KiB", {"--record", "x"}), HasSubstr("--record: --device none"));
  EXPECT_THAT(error("8KiB", {"--remap"}), HasSubstr("--remap: --device none"));
  EXPECT_THAT(error("8KiB", {"--remap", "--device", "host"}),
              HasSubstr("at least 2.0 MiB (2097152 bytes)"));
  EXPECT_THAT(error("8KiB", {"--memory", "segments"}), HasSubstr("--memory: --device none"));
  EXPECT_THAT(error("8KiB", {"--device", "host", "--memory", "managed"}),
              HasSubstr("'managed', expected auto, virtual or segments"));
  EXPECT_THAT(error("8MiB", {"--device", "host", "--memory", "segments", "--remap"}),
              HasSubstr("expected virtual memory"));
  EXPECT_THAT(error("8KiB", {"--initial", "1"}), HasSubstr("--initial: --device none"));
  EXPECT_THAT(error("8KiB", {"--growth", "1"}), HasSubstr("--growth: --device none"));
  EXPECT_THAT(error("8KiB", {"--device", "host", "--growth", "2"}), HasSubstr("--growth"));
  EXPECT_THAT(error("8KiB", {"--device", "host", "--initial", "9KiB"}), HasSubstr("--initial"));
  EXPECT_THAT(error("511", {"--device", "host"}),
              HasSubstr("--pool: 511 bytes, expected at least the alignment, 512 bytes"));
  EXPECT_THAT(
      error("4096TiB", {"--device", "host", "--verify"}),
      ContainsRegex(
          "a pool of 4096.0 TiB \\(4503599627370496 bytes\\), and .*[0-9]+ bytes\\) of memory are "
          "available"));
  EXPECT_THAT(error("8KiB", {"--device", "host", "--policy", "x"}), HasSubstr("'x'"));
  EXPECT_THAT(error("8KiB", {"--device", "host", "--record", trace}), HasSubstr("trace itself"));
  EXPECT_EQ(testing::Contents(trace), kPaper);
  const std::string recording = folder_ / "r.tide";
  EXPECT_THAT(error("4000TiB", {"--device", "host", "--record", recording}),
              HasSubstr("paper.csv: "));
  EXPECT_THAT(error("4000000TiB", {"--device", "host", "--record", recording}),
              HasSubstr("paper.csv: "));
  EXPECT_FALSE(std::filesystem::exists(recording));
  EXPECT_THAT(error("8KiB", {"--device", "host", "--record", folder_ / "no" / "r.tide"}),
              HasSubstr("r.tide: "));
  EXPECT_THAT(error("8KiB", {"--device", "host", "--record", "/dev/null"}),
              StartsWith("tidepool: /dev/null: "));
  EXPECT_TRUE(std::filesystem::exists("/dev/null"));
}

}  // namespace
}  // namespace tidepool
