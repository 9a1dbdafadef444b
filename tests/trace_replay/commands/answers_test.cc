// SPDX-License-Identifier: Apache-2.0
// Answers for a job that ran out of memory: small files, and the sentences that commands must print
// about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/pickled.h"
#include "tests/support/sizes.h"
#include "tests/trace_replay/command_line.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json HistoryEvent(const std::string& action, std::int64_t address, std::int64_t size) {
  return {{"action", action}, {"addr", address}, {"size", size}, {"stream", 0}, {"time_us", 1}};
}

json Oom(std::int64_t size, std::int64_t device_free) {
  return {{"action", "oom"},
          {"device_free", device_free},
          {"size", size},
          {"stream", 0},
          {"time_us", 2}};
}

json Block(std::int64_t address, std::int64_t size) {
  return {{"address", address},
          {"size", size},
          {"requested_size", size},
          {"state", "active_allocated"}};
}

json Segment(int device, std::int64_t address, std::int64_t size, const std::vector<json>& blocks) {
  return {{"device", device},
          {"address", address},
          {"total_size", size},
          {"stream", 0},
          {"blocks", blocks}};
}

// GPU 0 has 8 MiB live. GPU 1 has 70 MiB live, frees 20, refuses 40, and then allocates 5.
json OutOfMemory() {
  return {
      {"segments",
       List({Segment(0, 0, 10 * kMiB, {Block(0, 8 * kMiB)}),
             Segment(1, 0, 80 * kMiB, {Block(0, 50 * kMiB), Block(60 * kMiB, 5 * kMiB)})})},
      {"device_traces",
       List({List({HistoryEvent("alloc", 0, 8 * kMiB)}),
             List({HistoryEvent("segment_alloc", 0, 80 * kMiB), HistoryEvent("alloc", 0, 50 * kMiB),
                   HistoryEvent("alloc", 50 * kMiB, 20 * kMiB),
                   HistoryEvent("free_completed", 50 * kMiB, 20 * kMiB), Oom(40 * kMiB, 3 * kMiB),
                   HistoryEvent("alloc", 60 * kMiB, 5 * kMiB)})})}};
}

// 30 of 60 MiB are reserved as one segment, and 12 of these are live: 40 MiB are refused. With
// expandable segments, 12 and 40 MiB lie side by side.
json Fragmented() {
  return {
      {"segments", List({Segment(0, 0, 30 * kMiB, {Block(0, 12 * kMiB)})})},
      {"device_traces",
       List({List({HistoryEvent("segment_alloc", 0, 30 * kMiB), HistoryEvent("alloc", 0, 30 * kMiB),
                   HistoryEvent("free_completed", 0, 30 * kMiB),
                   HistoryEvent("alloc", 0, 12 * kMiB), Oom(40 * kMiB, 30 * kMiB)})})}};
}

class Answers : public CommandLine {
 protected:
  std::string Snapshot(const json& snapshot) {
    return File("snapshot.pickle", testing::Pickled(snapshot));
  }
  std::string Output(const std::string& name) { return folder_ / name; }
};

TEST_F(Answers, RefusedRequestsAreADemandOfEachCommand) {
  const std::string file = Snapshot(OutOfMemory());
  const std::string needs = "peak live 70.0 MiB, out of memory: needs at least 90.0 MiB";
  const json size = Json({"size", file});
  EXPECT_EQ(size["needs_bytes"], 90 * kMiB);
  EXPECT_EQ(size["trace"]["peak_live_bytes"], 70 * kMiB);
  EXPECT_EQ(size["trace"]["allocations"], 3);
  for (const json& policy : size["policies"]) EXPECT_GE(policy["pool_bytes"], 90 * kMiB) << policy;
  EXPECT_THAT(Text({"size", file}), HasSubstr(needs));
  EXPECT_EQ(Json({"plan", file})["pool_bytes"], 90 * kMiB);
  EXPECT_THAT(Text({"plan", file}), HasSubstr(needs));
  EXPECT_THAT(Text({"info", file}), HasSubstr(needs));
  EXPECT_THAT(Text({"replay", file, "--pool", "90MiB"}), HasSubstr("served"));
  EXPECT_THAT(Text({"replay", file, "--pool", "80MiB"}, 2), HasSubstr("all but 1"));
  const json replay = Json({"replay", file, "--pool", "80MiB", "--offsets"}, 2);
  EXPECT_EQ(replay["first_refused"]["event"], 4);
  EXPECT_EQ(replay["first_refused"]["bytes"], 40 * kMiB);
  EXPECT_EQ(replay["offsets"], json({0, 50 * kMiB, 50 * kMiB}));
  const std::string report = Text({"report", file, "--pool", "80MiB", "-o", Output("x.html")});
  EXPECT_THAT(report, HasSubstr("Out of memory: 40.0 MiB refused with 50.0 MiB live.\n  The "
                                "trace needs at least 90.0 MiB."));
  EXPECT_THAT(report, HasSubstr("No placement fits the budget of 80.0 MiB: 10.0 MiB must be off"));
  EXPECT_THAT(Text({"report", file, "-o", Output("x.svg")}),
              Not(HasSubstr("at the peak: no pool")));
}

// A stack with frames of the unwinder, of PyTorch and of the interpreter around one of the user.
json Stack(int line) {
  const auto frame = [](const char* name, const char* file, int at) {
    return json{{"name", name}, {"filename", file}, {"line", at}};
  };
  return List({frame("torch::unwind::unwind()", "??", 0),
               frame("linear", "/x/site-packages/torch/nn/functional.py", 9),
               frame("_PyEval_EvalFrameDefault", "Python/ceval.c", 7),
               frame("update_nodes", "/home/u/models.py", line),
               frame("main", "/home/u/run.py", 2)});
}

// One GPU: 50 MiB of line 174 and 10 of line 176 are live, 80 reserved; line 181 asks for `bytes`.
json OutOfMemoryWithStacks(std::int64_t bytes, bool is_expandable) {
  json events =
      List({HistoryEvent("segment_alloc", kMiB, 80 * kMiB), HistoryEvent("alloc", kMiB, 50 * kMiB),
            HistoryEvent("alloc", 61 * kMiB, 10 * kMiB), Oom(bytes, 3 * kMiB)});
  events[1]["frames"] = Stack(174);
  events[2]["frames"] = Stack(176);
  events[3]["frames"] = Stack(181);
  return {
      {"segments",
       List({Segment(0, kMiB, 80 * kMiB, {Block(kMiB, 50 * kMiB), Block(61 * kMiB, 10 * kMiB)})})},
      {"device_traces", List({events})},
      {"allocator_settings",
       {{"PYTORCH_CUDA_ALLOC_CONF", is_expandable ? "expandable_segments:True" : ""},
        {"expandable_segments", is_expandable}}}};
}

TEST_F(Answers, InfoBeginsWithTheAnswerOfTheDevice) {
  const std::string text = Text({"info", Snapshot(OutOfMemoryWithStacks(40 * kMiB, true))});
  EXPECT_THAT(
      text, ::testing::StartsWith(
                "GPU 0: out of memory.  40.0 MiB refused at models.py:181 update_nodes, 3.0 "
                "MiB free on the device\n"
                "  live then   60.0 MiB    needs at least 100.0 MiB\n"
                "  reserved    80.0 MiB    lost to fragmentation 20.0 MiB: "
                "expandable_segments (on) cannot help\n"
                "    free      20.0 MiB of 80.0 MiB at 0x100000\n"
                "  free by     20.0 MiB default pool, stream 0, large, in 1 segment\n"
                "  where       50.0 MiB models.py:174 update_nodes \xC2\xB7 10.0 MiB "
                "models.py:176\n"
                "  purpose     60.0 MiB unknown\n"
                "  settings    expandable_segments:True\n"
                "  PyTorch     a model of PyTorch's allocator reserves 100.0 MiB for all requests, "
                "100.0 MiB with expandable_segments:True, which fails in 83.0 MiB too\n"
                "  try         models.py:174 update_nodes holds the most, 50.0 MiB: a smaller "
                "batch or checkpointing there frees the most\n"));
}

TEST_F(Answers, InfoLeavesOutRowsOfZeros) {
  const std::string file = File("x.csv", "op,id,size,hint\na,1,512,\nf,1,,\n");
  const std::string text = Text({"info", file});
  EXPECT_THAT(text, ::testing::ContainsRegex("frees +1\n"));
  for (const std::string name : {"out of memory", "marks", "stacks", "device", "never freed",
                                 "bytes", "recording ended early"}) {
    EXPECT_THAT(text, Not(HasSubstr("  " + name + "  ")));
  }
  const json info = Json({"info", file});
  EXPECT_EQ(info["failures"], 0);
  EXPECT_EQ(info["marks"], 0);
  EXPECT_EQ(info["unfreed_bytes"], 0);
}

TEST_F(Answers, EachCommandNamesTheLineOfTheRefusal) {
  const std::string file = Snapshot(OutOfMemoryWithStacks(40 * kMiB, true));
  const std::string refusal = "40.0 MiB refused at models.py:181 update_nodes with 60.0 MiB live";
  EXPECT_THAT(Text({"size", file}), HasSubstr(refusal));
  EXPECT_THAT(Text({"plan", file}), HasSubstr(refusal));
  EXPECT_THAT(Text({"replay", file, "--pool", "200MiB"}), HasSubstr(refusal));
  EXPECT_THAT(std::string(Json({"report", file, "-o", Output("x.html")})["headline"]),
              HasSubstr("Out of memory: " + refusal +
                        "; the most, 50.0 MiB, by models.py:174 update_nodes. The trace needs at "
                        "least 100.0 MiB."));
}

TEST_F(Answers, MemoryWithoutAStackIsNoAdvice) {
  const std::string text = Text({"info", Snapshot(OutOfMemory())});
  EXPECT_THAT(text, HasSubstr("GPU 1 (of 0, 1): out of memory.  40.0 MiB refused, 3.0 MiB free on "
                              "the device\n"));
  EXPECT_THAT(text, Not(HasSubstr("  try  ")));
  json snapshot = OutOfMemoryWithStacks(40 * kMiB, true);
  snapshot["device_traces"][0][1].erase("frames");
  EXPECT_THAT(Text({"info", Snapshot(snapshot)}),
              HasSubstr("models.py:176 update_nodes holds the most of all known lines, 10.0 MiB"));
}

TEST_F(Answers, InfoAdvisesExpandableSegmentsWhereTheyHelp) {
  const std::string fits = Text({"info", Snapshot(OutOfMemoryWithStacks(20 * kMiB, false))});
  EXPECT_THAT(fits,
              HasSubstr("try         PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: the "
                        "refused request is smaller than the memory that is reserved and free"));
  const std::string large = Text({"info", Snapshot(OutOfMemoryWithStacks(21 * kMiB, false))});
  EXPECT_THAT(large, HasSubstr("expandable_segments cannot help, the request is larger"));
  EXPECT_THAT(large, HasSubstr("try         models.py:174 update_nodes holds the most"));
}

TEST_F(Answers, InfoAnswersForEachDeviceTheRefusingOneFirst) {
  const std::string file = Snapshot(OutOfMemory());
  const json info = Json({"info", file});
  EXPECT_EQ(info["history"], true);
  EXPECT_EQ(info["device"], 1);
  ASSERT_EQ(info["per_device"].size(), 2);
  const json& first = info["per_device"][0];
  EXPECT_EQ(first["device"], 1);
  EXPECT_EQ(first["peak_live_bytes"], 70 * kMiB);
  EXPECT_EQ(first["reserved_bytes"], 80 * kMiB);
  EXPECT_EQ(first["needs_bytes"], 90 * kMiB);
  EXPECT_EQ(first["refused"], json::array({{{"bytes", 40 * kMiB},
                                            {"live_bytes", 50 * kMiB},
                                            {"event", 4},
                                            {"frame", "(no stack)"},
                                            {"stream", "0"},
                                            {"device_free_bytes", 3 * kMiB}}}));
  EXPECT_EQ(first["top"], json::array({{{"frame", "(no stack)"}, {"bytes", 50 * kMiB}}}));
  EXPECT_EQ(first["fragmentation_bytes"], 30 * kMiB);
  const json& second = info["per_device"][1];
  EXPECT_EQ(second["device"], 0);
  EXPECT_EQ(second["needs_bytes"], 8 * kMiB);
  EXPECT_EQ(second["refused"], json::array());
  EXPECT_THAT(Text({"info", file}), HasSubstr("GPU 0 (of 0, 1): no history"));
  EXPECT_EQ(Json({"info", file, "--device", "0"})["per_device"][0]["device"], 0);
}

TEST_F(Answers, InfoCountsCategoriesOfTheUser) {
  const std::string file = Snapshot(OutOfMemoryWithStacks(40 * kMiB, true));
  const json info = Json(
      {"info", file, "--category", "nodes=models\\.py:17[4-5] update", "--category", "rest=run"});
  EXPECT_EQ(info["per_device"][0]["categories"], json({{"nodes", 50 * kMiB}, {"rest", 10 * kMiB}}));
  for (const std::string wrong : {"nodes", "=x", "x=", "x=(", "x=\\d", "x=(a)\\1"}) {
    const Outcome outcome = Run({"info", file, "--category", wrong});
    EXPECT_EQ(outcome.status, 1) << wrong;
    EXPECT_THAT(outcome.err, HasSubstr("--category: '"));
  }
}

TEST_F(Answers, FitsOnlyIfTheRefusedRequestFitsToo) {
  const std::string file = Snapshot(OutOfMemory());
  const json fits = Json({"size", file, "--fits", "80MiB"}, 2)["fits"];
  EXPECT_EQ(fits["fits"], false);
  EXPECT_EQ(fits["missing_bytes"], 10 * kMiB);
  for (const json& policy : fits["policies"]) {
    const bool has_granules = policy["policy"] == "pytorch-expandable";  // of 20 MiB
    EXPECT_EQ(policy["missing_bytes"], (has_granules ? 20 : 10) * kMiB);
  }
  EXPECT_EQ(Json({"size", file, "--fits", "90MiB"})["fits"]["fits"], true);
  EXPECT_THAT(Text({"size", file, "--fits", "80MiB"}, 2),
              HasSubstr("does not fit: 10.0 MiB missing"));
  EXPECT_THAT(Text({"size", file, "--fits", "100MiB"}), HasSubstr("fits: 10.0 MiB to spare"));
}

TEST_F(Answers, ExpandableSegmentsAreTriedByTheModel) {
  const std::string file = Snapshot(Fragmented());
  const json pytorch = Json({"info", file})["per_device"][0]["pytorch"];
  EXPECT_EQ(pytorch["reserved_bytes"], 70 * kMiB);
  EXPECT_EQ(pytorch["expandable_reserved_bytes"], 60 * kMiB);
  EXPECT_EQ(pytorch["memory_bytes"], 60 * kMiB);
  EXPECT_EQ(pytorch["serves"], false);
  EXPECT_EQ(pytorch["expandable_serves"], true);
  EXPECT_THAT(
      Text({"info", file}),
      HasSubstr("a model of PyTorch's allocator reserves 70.0 MiB for all requests, 60.0 MiB "
                "with expandable_segments:True, which would have served them in 60.0 MiB"));
  EXPECT_THAT(Text({"info", Snapshot(OutOfMemory())}), HasSubstr("which fails in 83.0 MiB too"));
  EXPECT_TRUE(Json({"info", File("x.csv", kPaper)})["per_device"][0]["pytorch"].is_null());
}

TEST_F(Answers, RefusedRequestsOfAnyFormatCount) {
  const std::string file = File("x.csv",
                                "Thread,Time,Action,Pointer,Size,Stream\n"
                                "1,00:00:00:000001,allocate,0x10,1024,0x0\n"
                                "1,00:00:00:000002,allocate failure,0x0,4096,0x0\n");
  EXPECT_EQ(Json({"size", file})["needs_bytes"], 5120);
  EXPECT_EQ(Run({"size", file, "--fits", "5119"}).status, 2);
}

TEST_F(Answers, AnAbsurdRequestIsAnErrorOfSizesOnly) {
  const std::string file = File("x.csv",
                                "Thread,Time,Action,Pointer,Size,Stream\n"
                                "1,00:00:00:000001,allocate,0x10,1024,0x0\n"
                                "1,00:00:00:000002,allocate failure,0x0,9000000000000000000,0x0\n");
  EXPECT_EQ(Run({"info", file}).status, 0);
  const Outcome size = Run({"size", file});
  EXPECT_EQ(size.status, 1);
  EXPECT_THAT(size.err, HasSubstr("a request of 9000000000000000000 bytes was refused at event 1"));
}

// 8 of 10 reserved MiB were live when the snapshot was taken.
json WithoutHistory() {
  return {{"segments", List({Segment(0, 0, 10 * kMiB, {Block(0, 8 * kMiB)})})},
          {"device_traces", List({json::array()})}};
}

TEST_F(Answers, WithoutHistoryThePeakIsUnknown) {
  const std::string file = Snapshot(WithoutHistory());
  const std::string note =
      "no history: only what was live when it was taken; the peak is not known";
  for (const std::string command : {"info", "size", "plan"}) {
    EXPECT_THAT(Text({command, file}), HasSubstr(note));
  }
  EXPECT_THAT(Text({"replay", file, "--pool", "10MiB"}), HasSubstr(note));
  EXPECT_THAT(Text({"size", file}), Not(HasSubstr("best-fit")));
  EXPECT_THAT(Text({"size", file, "--fits", "9MiB"}),
              HasSubstr("the live memory fits; whether the job fits is not known"));
  EXPECT_EQ(Json({"size", file})["history"], false);
  const json info = Json({"info", file});
  EXPECT_EQ(info["history"], false);
  EXPECT_EQ(info["per_device"][0]["peak_live_bytes"], nullptr);
  EXPECT_EQ(info["per_device"][0]["live_bytes"], 8 * kMiB);
  EXPECT_EQ(info["per_device"][0]["fragmentation_bytes"], 2 * kMiB);
  EXPECT_THAT(Text({"info", file}), HasSubstr("GPU 0: " + note));
  EXPECT_THAT(Text({"info", file}), Not(HasSubstr("peak live")));
  const std::string report = Text({"report", file, "-o", Output("x.html")});
  EXPECT_THAT(report, HasSubstr("Live: 8.0 MiB; " + note));
  EXPECT_THAT(report, Not(HasSubstr("best-fit")));
}

TEST_F(Answers, WithoutHistoryNoPolicyIsSized) {
  const std::string file = Snapshot(WithoutHistory());
  const json size = Json({"size", file, "--plan", "--fits", "9MiB"});
  EXPECT_EQ(size["history"], false);
  EXPECT_EQ(size["needs_bytes"], 8 * kMiB);
  EXPECT_EQ(size["policies"], json::array());
  EXPECT_EQ(size["plan"], nullptr);
  EXPECT_EQ(size["fits"], json({{"bytes", 9 * kMiB},
                                {"fits", nullptr},
                                {"missing_bytes", nullptr},
                                {"policies", json::array()}}));
  const json no = Json({"size", file, "--fits", "7MiB"}, 2);
  EXPECT_EQ(no["fits"]["fits"], false);
  EXPECT_EQ(no["fits"]["missing_bytes"], kMiB);
  EXPECT_THAT(ErrorOf({"size", file, "--policy", "bset-fit"}), HasSubstr("best-fit"));
}

TEST_F(Answers, WithoutHistoryAPlanIsOneOfTheLiveMemory) {
  const std::string file = Snapshot(WithoutHistory());
  const json plan = Json({"plan", file});
  EXPECT_EQ(plan["history"], false);
  EXPECT_EQ(plan["pool_bytes"], 8 * kMiB);
  EXPECT_EQ(plan["overhead"], nullptr);
  EXPECT_EQ(plan["optimal"], nullptr);
  EXPECT_THAT(Text({"plan", file}),
              ::testing::EndsWith("  plan: 8.0 MiB for the live memory; the job may need more\n"));
  const std::string text = Text({"replay", file, "--policy", "planned"});
  EXPECT_THAT(text, HasSubstr("all of the live memory"));
  EXPECT_THAT(text, Not(HasSubstr("smallest possible")));
  const json replay = Json({"replay", file, "--policy", "planned"});
  EXPECT_EQ(replay["history"], false);
  EXPECT_EQ(replay["planned"]["optimal"], nullptr);
  EXPECT_THAT(Text({"replay", file, "--policy", "pytorch", "--pool", "20MiB"}),
              HasSubstr("all of the live memory"));
}

TEST_F(Answers, WithoutHistoryAReportShowsNoPool) {
  const std::string file = Snapshot(WithoutHistory());
  const json report = Json({"report", file, "-o", Output("x.svg")});
  EXPECT_EQ(report["history"], false);
  EXPECT_EQ(report["policies"], json::array());
  EXPECT_EQ(report["allocators"], json::array());
  const std::string drawing = testing::Contents(Output("x.svg"));
  EXPECT_THAT(drawing, HasSubstr(">8.0 MiB live<"));
  EXPECT_THAT(drawing, Not(HasSubstr("best-fit 8.0")));
}

TEST_F(Answers, RanksWithoutHistoryMayNotFit) {
  const std::string known = File("known.pickle", testing::Pickled(OutOfMemory()));
  const std::string unknown = Snapshot(WithoutHistory());
  const json job = Json({"size", known, unknown, "--fits", "200MiB"});
  EXPECT_EQ(job["fits"],
            json({{"bytes", 200 * kMiB}, {"fits", nullptr}, {"missing_bytes", nullptr}}));
  EXPECT_EQ(job["ranks"][1]["policies"], json::array());
  EXPECT_THAT(Text({"size", known, unknown, "--fits", "200MiB"}),
              HasSubstr("the known needs fit in 200.0 MiB; whether the ranks of unknown peak do is "
                        "not known"));
  EXPECT_EQ(Json({"size", known, unknown, "--fits", "80MiB"}, 2)["fits"]["fits"], false);
  EXPECT_THAT(Text({"size", unknown, unknown}), Not(HasSubstr("largest pool")));
}

std::string MemoryEvent(int time, std::int64_t bytes, int address, std::int64_t allocated) {
  return absl::StrCat(R"({"ph":"i","name":"[memory]","pid":1,"tid":2,"ts":)", time,
                      R"(,"args":{"Bytes":)", bytes, R"(,"Addr":)", address,
                      R"(,"Device Id":0,"Device Type":1,"Total Allocated":)", allocated,
                      R"(,"Total Reserved":)", 100 * kMiB, "}}");
}

TEST_F(Answers, AProfileThatBeginsInMidRunStartsWithTheMemoryFromBefore) {
  const std::string file =
      File("x.json", absl::StrCat("[", MemoryEvent(1, 10 * kMiB, 0x1000, 60 * kMiB), ",",
                                  MemoryEvent(2, -10 * kMiB, 0x1000, 50 * kMiB), "]"));
  const json size = Json({"size", file});
  EXPECT_EQ(size["trace"]["peak_live_bytes"], 60 * kMiB);
  EXPECT_EQ(size["needs_bytes"], 60 * kMiB);
  EXPECT_THAT(Text({"size", file}),
              HasSubstr("50.0 MiB were allocated before recording began (from "
                        "the profiler's 'Total Allocated')"));
}

}  // namespace
}  // namespace tidepool
