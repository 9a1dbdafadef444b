// SPDX-License-Identifier: Apache-2.0
// Files of task graphs: valid ones, refused ones, and the lines in errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/reader_faults.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kSmall[] = R"({"tidepool_graph": 1, "name": "small", "batch": 2,
"data": [
{"name": "x", "bytes": 8, "kind": "input"},
{"name": "w", "bytes": 16, "kind": "weight"},
{"name": "y", "bytes": 32, "kind": "activation"},
{"name": "z", "bytes": 64, "kind": "activation"}],
"tasks": [
{"name": "f", "layer": "l", "operation": "linear", "phase": "forward", "reads": ["x", "w"], "writes": ["y"],
 "algorithms": [{"name": "slow", "seconds": 2}, {"name": "quick", "seconds": 0.5e-3, "workspace": 4096}]},
{"name": "g", "phase": "backward", "reads": ["y"], "writes": ["z"], "updates": ["w"],
 "algorithms": [{"name": "only", "seconds": 0}]}
]}
)";

std::string With(const std::string& from, const std::string& to) {
  return testing::Replaced(kSmall, from, to);
}

std::string ErrorOf(const std::string& json) {
  return testing::FaultOf(ParseGraph(json, "g.json"), json, "g.json");
}

TEST(GraphJson, IsReadInWords) {
  const absl::StatusOr<TaskGraph> graph = ParseGraph(kSmall, "g.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->name, "small");
  EXPECT_EQ(graph->batch, 2);
  ASSERT_EQ(graph->data.size(), 4);
  EXPECT_EQ(graph->data[1], (GraphData{"w", 16, DataKind::kWeight}));
  ASSERT_EQ(graph->tasks.size(), 2);
  const GraphTask& f = graph->tasks[0];
  EXPECT_EQ(f.layer, "l");
  EXPECT_EQ(f.operation, "linear");
  EXPECT_EQ(f.phase, TaskPhase::kForward);
  EXPECT_THAT(f.reads, ElementsAre(0, 1));
  EXPECT_THAT(f.writes, ElementsAre(2));
  EXPECT_THAT(f.algorithms,
              ElementsAre(TaskAlgorithm{"slow", 2, 0}, TaskAlgorithm{"quick", 0.0005, 4096}));
  EXPECT_THAT(graph->tasks[1].updates, ElementsAre(1));
  EXPECT_EQ(graph->tasks[1].layer, "");
}

TEST(GraphJson, TasksAreSorted) {
  std::string text = kSmall;
  const std::size_t f = text.find("{\"name\": \"f\"");
  const std::size_t g = text.find("{\"name\": \"g\"");
  const std::string first = text.substr(f, g - f);
  text.erase(f, g - f);
  text.insert(text.rfind("]}"), "," + first.substr(0, first.rfind(',')));
  const absl::StatusOr<TaskGraph> graph = ParseGraph(text, "g.json");
  // `g` is listed first and updates w, which `f` reads: that keeps its place, and makes a circle.
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(std::string(graph.status().message()),
              HasSubstr("in a circle: 'f', 'g', and 'f' again"));
  const auto sorted = ParseGraph(absl::StrReplaceAll(text, {{", \"updates\": [\"w\"]", ""}}), "g");
  ASSERT_TRUE(sorted.ok()) << sorted.status();
  EXPECT_EQ(sorted->tasks[0].name, "f");
}

// Writers that sort keys, such as json.dumps(sort_keys=True), put "tidepool_graph" last.
TEST(GraphJson, KeysComeInAnyOrder) {
  const std::string sorted = nlohmann::json::parse(kSmall).dump();
  ASSERT_THAT(sorted, StartsWith("{\"batch\""));
  const auto graph = ParseGraph(sorted, "g.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(*graph, *ParseGraph(kSmall, "g.json"));
}

TEST(GraphJson, ItsGpuAndItsLinkAreKept) {
  const auto graph = ParseGraph(With("\"batch\": 2", R"("gpu": "h\u00fc", "link": 2.4e10)"), "g");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->gpu, "h\u00fc");
  EXPECT_EQ(graph->link_bytes_per_second, 2.4e10);
  EXPECT_EQ(*ParseGraph(GraphJson(*graph), "again"), *graph);
  TaskGraph broken = *graph;
  for (const double link : {-1.0, 2e18, std::nan("")}) {
    broken.link_bytes_per_second = link;
    EXPECT_THAT(std::string(ValidateGraph(broken).message()), HasSubstr("expected 0 (unknown) to"));
  }
  broken = *graph;
  broken.gpu = "\xc3";
  EXPECT_THAT(std::string(ValidateGraph(broken).message()), HasSubstr("UTF-8"));
}

TEST(GraphJson, DataMayComeBehindTasks) {
  std::string text = kSmall;
  const std::size_t data = text.find("\"data\"");
  const std::size_t tasks = text.find("\"tasks\"");
  const std::string list = text.substr(data, tasks - data);
  text.erase(data, tasks - data);
  text.insert(text.rfind('}'), "," + list.substr(0, list.rfind(',')));
  const auto graph = ParseGraph(text, "g.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(*graph, *ParseGraph(kSmall, "g.json"));
}

struct BadCase {
  std::string from;
  std::string to;
  std::string line;
  std::string error;
};

class BadGraphs : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadGraphs, AreRefusedInTheirLine) {
  const BadCase& bad = GetParam();
  const std::string error = ErrorOf(With(bad.from, bad.to));
  EXPECT_THAT(error, StartsWith(absl::StrCat("g.json:", bad.line, bad.line.empty() ? " " : ": ")));
  EXPECT_THAT(error, HasSubstr(bad.error));
}

const std::string kBytes = "\"bytes\": 8";        // NOLINT
const std::string kSeconds = "\"seconds\": 2}";   // NOLINT
const std::string kReads = "\"reads\": [\"y\"]";  // NOLINT
INSTANTIATE_TEST_SUITE_P(
    Cases, BadGraphs,
    ::testing::Values(
        BadCase{kBytes, "\"bytes\": 0", "3", "data 'x' has 0 bytes, expected 1 to 2^50"},
        BadCase{kBytes, "\"bytes\": -1", "3", "has -1 bytes"},
        BadCase{kBytes, "\"bytes\": 4611686018427387904", "3", "has 4611686018427387904 bytes"},
        BadCase{kBytes, "\"bytes\": 99999999999999999999", "3", "expected a whole number"},
        BadCase{kBytes, "\"bytes\": 1.5", "3", "bytes of a datum is 1.5, expected a whole number"},
        BadCase{kBytes, "\"bytes\": 1e3", "3", "expected a whole number"},
        BadCase{kBytes, "\"bytes\": NaN", "3", "broken JSON"},
        BadCase{kBytes, "\"bytes\": \"8\"", "3", "is the text '8', expected a whole number"},
        BadCase{kBytes, "\"bytes\": null", "3", "is null"},
        BadCase{kBytes, "\"bytes\": [8]", "3", "is an array"},
        BadCase{kBytes, "\"bytes\": {\"a\": 1}", "3", "is an object"},
        BadCase{", " + kBytes, "", "3", "a datum without bytes"},
        BadCase{kBytes, kBytes + ", " + kBytes, "3", "the key 'bytes' is in a datum twice"},
        BadCase{kBytes, kBytes + ", \"byte\": 8", "3", "the unknown key 'byte' in a datum"},
        BadCase{kBytes, kBytes + ", \"seconds\": 8", "3", "the unknown key 'seconds' in a datum"},
        BadCase{"\"input\"", "\"inputs\"", "3",
                "kind of a datum is the text 'inputs', expected input"},
        BadCase{"\"input\"", "true", "3", "is true"},
        BadCase{"{\"name\": \"x\"", "{\"name\": \"\"", "8", "there is no data 'x'"},
        BadCase{"{\"name\": \"z\"", "{\"name\": \"y\"", "10", "there is no data 'z'"},
        BadCase{"\"tidepool_graph\": 1, ", "", "12", "a graph without tidepool_graph"},
        BadCase{"\"tidepool_graph\": 1, ", "\"optimizer\": 1, ", "1",
                "the unknown key 'optimizer' in a graph, expected tidepool_graph, name, batch, "
                "data, tasks, gpu, link"},
        BadCase{"\"batch\": 2", "\"link\": -1", "1", "expected a number of bytes a second"},
        BadCase{"\"batch\": 2", "\"gpu\": 7", "1", "gpu of a graph is 7, expected a text"},
        BadCase{"_graph\": 1", "_graph\": 3", "1",
                "tidepool_graph of a graph is 3, expected 1 or 2"},
        BadCase{"_graph\": 1", "_graph\": \"1\"", "1", "expected 1 or 2"},
        BadCase{"\"batch\": 2", "\"batch\": -2", "", "a batch of -2"},
        BadCase{"\"batch\": 2", "\"batch\": 2.0", "1", "expected a whole number"},
        BadCase{"\"data\": [", "\"data\": 3, \"d\": [", "2", "expected an array of objects"},
        BadCase{"\"data\": [", "\"data\": {\"x\": [", "2", "is an object"},
        BadCase{"\"data\": [", "\"data\": [[", "2", "an array in an array of objects"},
        BadCase{"\"data\": [", "\"data\": [7,", "2",
                "7 in an array of objects, expected an object"},
        BadCase{"\"phase\": \"forward\"", "\"phase\": \"froward\"", "8", "expected forward, back"},
        BadCase{"\"phase\": \"backward\", ", "", "11", "a task without phase"},
        BadCase{kReads, "\"reads\": [\"q\"]", "10", "task 'g': there is no data 'q'"},
        BadCase{kReads, "\"reads\": [1]", "10", "1 in reads, expected names of data"},
        BadCase{kReads, "\"reads\": [[\"y\"]]", "10", "an array in reads"},
        BadCase{kReads, "\"reads\": \"y\"", "10", "expected an array of names of data"},
        BadCase{kReads, "\"reads\": [\"y\", \"y\"]", "10", "it uses 'y' twice"},
        BadCase{kReads, "\"reads\": [\"y\", \"w\"]", "10", "it uses 'w' twice"},
        BadCase{kReads, "\"reads\": [\"y\", \"z\"]", "10", "it uses 'z' twice"},
        BadCase{"\"writes\": [\"z\"]", "\"writes\": [\"y\"]", "10", "it uses 'y' twice"},
        BadCase{"\"writes\": [\"y\"]", "\"writes\": [\"y\", \"z\"]", "10", "as does task 'f'"},
        BadCase{"\"writes\": [\"z\"]", "\"writes\": [\"x\"]", "10", "of the kind input"},
        BadCase{"[\"z\"], \"updates\": [\"w\"]", "[]", "10", "it writes nothing"},
        BadCase{"\"writes\": [\"z\"], ", "", "6", "'z' is written by no task"},
        BadCase{"\"name\": \"g\"", "\"name\": \"f\"", "10", "the name 'f' occurs twice"},
        BadCase{"\"name\": \"g\"", "\"name\": \"\"", "10", "an empty name"},
        BadCase{"\"name\": \"g\"", "\"name\": \"\xff\"", "10", "Invalid encoding"},
        BadCase{"\"name\": \"g\"", "\"name\": 5", "10", "name of a task is 5, expected a text"},
        BadCase{kSeconds, "\"seconds\": -2}", "9", "expected a number from 0 to 10^9"},
        BadCase{kSeconds, "\"seconds\": 1e10}", "9", "seconds of an algorithm is 1e10"},
        BadCase{kSeconds, "\"seconds\": 1e999}", "9", "Number too big"},
        BadCase{kSeconds, "\"seconds\": Infinity}", "9", "broken JSON"},
        BadCase{", " + kSeconds, "}", "9", "an algorithm without seconds"},
        BadCase{kSeconds, "\"seconds\": 2, \"workspace\": -1}", "8", "a workspace of -1 bytes"},
        BadCase{kSeconds, "\"seconds\": 2, \"workspace\": 5000}", "8", "expected ascending order"},
        BadCase{"\"quick\"", "\"slow\"", "8", "the name 'slow' occurs twice"},
        BadCase{"[{\"name\": \"only\", \"seconds\": 0}]", "[]", "10", "no algorithm"}));

TEST(GraphJson, NothingComesBehindIt) {
  EXPECT_THAT(ErrorOf(std::string(kSmall) + "{}"), HasSubstr("g.json:13: broken JSON"));
  EXPECT_THAT(ErrorOf(std::string(kSmall) + '\0'), HasSubstr("g.json:13: broken JSON"));
  EXPECT_TRUE(ParseGraph(std::string(kSmall) + " \n\t ", "g.json").ok());
}

TEST(GraphJson, DataNobodyReadsIsAnError) {
  const std::string error = ErrorOf(With("{\"name\": \"x\"",
                                         "{\"name\": \"unread\", \"bytes\": 1, "
                                         "\"kind\": \"input\"},\n{\"name\": \"x\""));
  EXPECT_THAT(error, HasSubstr("g.json:3: data 'unread' is read and updated by no task"));
}

// The data that the last task writes is a result. Unread data of another task is not, if other data
// of that task is read.
TEST(GraphJson, ResultsNeedNoReader) {
  EXPECT_TRUE(ParseGraph(kSmall, "g").ok());
  const std::string more = absl::StrReplaceAll(
      kSmall, {{"\"writes\": [\"y\"]", "\"writes\": [\"y\", \"u\"]"},
               {"{\"name\": \"x\"",
                "{\"name\": \"u\", \"bytes\": 1, \"kind\": \"activation\"},\n{\"name\": \"x\""}});
  EXPECT_THAT(ErrorOf(more), HasSubstr("g.json:3: data 'u' is read and updated by no task"));
}

TEST(GraphJson, SumsAreBounded) {
  TaskGraph graph;
  GraphTask task{.name = "t", .algorithms = {{"a", 0, 0}}};
  for (std::size_t i = 0; i < 1025; ++i) {
    graph.data.push_back({absl::StrCat("d", i), kMostDataBytes, DataKind::kActivation});
    task.writes.push_back(i);
  }
  graph.tasks.push_back(task);
  EXPECT_THAT(std::string(ValidateGraph(graph).message()),
              HasSubstr("data up to 'd1024' has more than 2^60 bytes together"));
  graph.data.pop_back();
  graph.tasks[0].writes.pop_back();
  EXPECT_TRUE(ValidateGraph(graph).ok());
  EXPECT_EQ(TotalsOf(graph).activations, kMostGraphBytes);
}

TEST(GraphJson, IsCutAnywhere) {
  const std::string whole = kSmall;
  for (std::size_t size = 0; size < whole.rfind('}'); ++size) ErrorOf(whole.substr(0, size));
}

TEST(GraphJson, AnyByteMayBeAnother) {
  const std::string whole = kSmall;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char c : {'\0', '"', '{', ']', ',', '9', '\xff', ' '}) {
      std::string broken = whole;
      broken[at] = c;
      const absl::StatusOr<TaskGraph> graph = ParseGraph(broken, "g.json");
      if (graph.ok()) {
        EXPECT_TRUE(ValidateGraph(*graph).ok());
      } else {
        EXPECT_THAT(std::string(graph.status().message()), HasSubstr("expected"));
      }
    }
  }
}

TEST(GraphJson, NestingIsRefusedWhereItBegins) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(ErrorOf(deep), StartsWith("g.json:1: an array, expected a task graph"));
  EXPECT_THAT(ErrorOf(With("\"data\": [", "\"data\": [" + deep)), StartsWith("g.json:2: an array"));
}

TEST(GraphJson, OtherThingsAreNoGraphs) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("ends early"));
  EXPECT_THAT(ErrorOf("5"), HasSubstr("expected a task graph"));
  EXPECT_THAT(ErrorOf("null"), HasSubstr("expected a task graph"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("without tidepool_graph, data, tasks"));
  EXPECT_THAT(ErrorOf("{\"tidepool_graph\": 1, \"data\": [], \"tasks\": []}"),
              HasSubstr("no task"));
  EXPECT_THAT(ErrorOf("op,id,size,hint\n"), HasSubstr("broken JSON"));
  EXPECT_THAT(ErrorOf("\x1f\x8b\x08 and no gzip behind it"), HasSubstr("gzip"));
}

TEST(GraphJson, EscapesAndUnicodeInNames) {
  const auto graph = ParseGraph(With("\"name\": \"g\"", R"("name": "\u00e9\n\"\\ü")"), "g");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->tasks[1].name, "é\n\"\\ü");
  EXPECT_EQ(*ParseGraph(GraphJson(*graph), "again"), *graph);
}

TEST(GraphJson, TimesAreKeptToTheLastBit) {
  auto graph = *ParseGraph(kSmall, "g.json");
  for (const double seconds : {0.1, 1.0 / 3, std::nextafter(1.0, 2), 5e-324, 1e9, 0.0}) {
    graph.tasks[0].algorithms[0].seconds = seconds;
    EXPECT_EQ(*ParseGraph(GraphJson(graph), "again"), graph) << seconds;
  }
}

TEST(GraphJson, NoNumberIsNoTime) {
  auto graph = *ParseGraph(kSmall, "g.json");
  for (const double seconds : {std::nan(""), std::numeric_limits<double>::infinity(), -1.0}) {
    graph.tasks[0].algorithms[0].seconds = seconds;
    EXPECT_THAT(std::string(ValidateGraph(graph).message()), HasSubstr("expected 0 to 10^9"));
  }
}

TEST(GraphJson, ProgramsMayBreakWhatFilesCannot) {
  const auto small = *ParseGraph(kSmall, "g.json");
  TaskGraph graph = small;
  graph.tasks[1].reads[0] = 99;
  EXPECT_THAT(std::string(ValidateGraph(graph).message()), HasSubstr("uses data 99"));
  EXPECT_THAT(std::string(SortTasks(graph).message()), HasSubstr("uses data 99, expected less"));
  graph = small;
  graph.tasks[0].layer = "\xc3";
  EXPECT_THAT(std::string(ValidateGraph(graph).message()), HasSubstr("UTF-8"));
  graph = small;
  graph.name = "\xc3";
  EXPECT_THAT(std::string(ValidateGraph(graph).message()), HasSubstr("UTF-8"));
  graph = small;
  graph.data[0].name = "\xc3";
  EXPECT_THAT(std::string(ValidateGraph(graph).message()), HasSubstr("UTF-8"));
  graph = small;
  graph.data[2].kind = static_cast<DataKind>(77);
  EXPECT_THAT(std::string(ValidateGraph(graph).message()), HasSubstr("unknown kind"));
  graph = small;
  graph.tasks[0].phase = static_cast<TaskPhase>(77);
  EXPECT_THAT(std::string(ValidateGraph(graph).message()), HasSubstr("unknown phase"));
  graph = small;
  std::swap(graph.tasks[0], graph.tasks[1]);
  EXPECT_THAT(std::string(ValidateGraph(graph).message()),
              HasSubstr("task 'g': it needs 'y', which task 'f' writes later, expected"));
}

TEST(GraphJson, LongCyclesAreCutShort) {
  TaskGraph graph;
  constexpr std::size_t kTasks = 100'000;
  for (std::size_t i = 0; i < kTasks; ++i) {
    graph.data.push_back({absl::StrCat("d", i), 1, DataKind::kActivation});
    graph.tasks.push_back({.name = absl::StrCat("t", i),
                           .reads = {(i + 1) % kTasks},
                           .writes = {i},
                           .algorithms = {{"a", 0, 0}}});
  }
  const std::string error(SortTasks(graph).message());
  EXPECT_THAT(error, HasSubstr("99992 more"));
  EXPECT_LT(error.size(), 300);
}

TEST(GraphJson, HundredThousandTasksAreRead) {
  TaskGraph graph;
  graph.data.push_back({"x", 1, DataKind::kInput});
  graph.data.push_back({"w", 1, DataKind::kWeight});
  // Every task reads w and updates x, so both have long lists of users.
  for (std::size_t i = 0; i < 100'000; ++i) {
    graph.data.push_back({absl::StrCat("d", i), 1, DataKind::kActivation});
    graph.tasks.push_back({.name = absl::StrCat("t", i),
                           .reads = {1},
                           .writes = {i + 2},
                           .updates = {0},
                           .algorithms = {{"a", 1e-6, 0}}});
    if (i > 0) graph.tasks.back().reads.push_back(i + 1);
  }
  const absl::StatusOr<TaskGraph> again = ParseGraph(GraphJson(graph), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(*again == graph);
}

class GraphFiles : public ::testing::Test {
 protected:
  GraphFiles()
      : folder_(std::filesystem::temp_directory_path() /
                ("tidepool-graph-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~GraphFiles() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(GraphFiles, AreWrittenAndRead) {
  const auto graph = *ParseGraph(kSmall, "g.json");
  for (const char* name : {"graph.json", "graph.json.gz"}) {
    ASSERT_TRUE(WriteGraph(graph, folder_ / name).ok());
    const absl::StatusOr<TaskGraph> again = ReadGraph(folder_ / name);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, graph);
  }
}

TEST_F(GraphFiles, WhatIsInvalidIsNotWritten) {
  auto graph = *ParseGraph(kSmall, "g.json");
  ASSERT_TRUE(WriteGraph(graph, folder_ / "graph.json").ok());
  graph.data[0].bytes = 0;
  const absl::Status status = WriteGraph(graph, folder_ / "graph.json");
  EXPECT_THAT(std::string(status.message()), HasSubstr("graph.json: data 'x' has 0 bytes"));
  EXPECT_EQ(ReadGraph(folder_ / "graph.json")->data[0].bytes, 8);
}

TEST_F(GraphFiles, ErrorsNameThem) {
  EXPECT_THAT(std::string(ReadGraph(folder_ / "none.json").status().message()),
              HasSubstr("none.json: "));
  EXPECT_THAT(std::string(ReadGraph(folder_).status().message()), HasSubstr("expected"));
  std::ofstream(folder_ / "bad.json") << "{\n\n5";
  EXPECT_THAT(std::string(ReadGraph(folder_ / "bad.json").status().message()),
              HasSubstr("bad.json:3: broken JSON"));
  const auto graph = *ParseGraph(kSmall, "g.json");
  EXPECT_THAT(std::string(WriteGraph(graph, folder_ / "no" / "such.json").message()),
              HasSubstr("such.json: cannot be created"));
}

TEST(GraphTotals, AreSums) {
  const GraphTotals totals = TotalsOf(*ParseGraph(kSmall, "g.json"));
  EXPECT_EQ(totals.inputs, 8);
  EXPECT_EQ(totals.weights, 16);
  EXPECT_EQ(totals.activations, 32 + 64);
  EXPECT_EQ(totals.kept_activations, 32);
  EXPECT_EQ(totals.largest_task, 32 + 64 + 16);
  EXPECT_EQ(totals.largest_task_index, 1);
  EXPECT_EQ(totals.least_seconds, 0.0005);
  EXPECT_EQ(totals.least_workspace_seconds, 2);
}

TEST(MeasuredTimes, TakeThePlaceOfComputedOnes) {
  auto graph = *ParseGraph(kSmall, "g.json");
  const absl::Status status =
      ParseTimes("note,seconds,algorithm,task\r\n,1.5,quick,f\r\n,2e-6,only,g\r\n", "t.csv", graph);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(graph.tasks[0].algorithms[0].seconds, 2);
  EXPECT_EQ(graph.tasks[0].algorithms[1].seconds, 1.5);
  EXPECT_EQ(graph.tasks[1].algorithms[0].seconds, 2e-6);
}

TEST(MeasuredTimes, ErrorsHaveLinesAndChangeNothing) {
  const auto graph = *ParseGraph(kSmall, "g.json");
  const std::string header = "task,algorithm,seconds\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "t.csv:1: an empty file, expected a header: task,algorithm,seconds"},
      {"task,seconds\nf,1\n", "t.csv:1: "},
      {header, "t.csv:2: no times, expected a row"},
      {header + "f,slow,1\nh,slow,1\n", "t.csv:3: there is no task 'h', expected"},
      {header + "f,fast,1\n", "t.csv:2: task 'f' has no algorithm 'fast', expected slow, quick"},
      {header + "f,slow,1\ng,only,2\nf,slow,1\n",
       "t.csv:4: a second time for task 'f', after that in line 2, expected one"},
      {header + "f,slow,-1\n", "t.csv:2: seconds is '-1', expected a number from 0 to 10^9"},
      {header + "f,slow,nan\n", "t.csv:2: seconds is 'nan'"},
      {header + "f,slow,1e10\n", "t.csv:2: seconds is '1e10'"},
      {header + "f,slow,\n", "t.csv:2: seconds is ''"},
      {header + "f,slow\n", "t.csv:2: "},
  };
  for (const auto& [csv, error] : cases) {
    TaskGraph timed = graph;
    const absl::Status status = ParseTimes(csv, "t.csv", timed);
    EXPECT_THAT(std::string(status.message()), StartsWith(error));
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected"));
    EXPECT_EQ(timed, graph);
  }
}

TEST_F(GraphFiles, TimesAreReadFromFiles) {
  auto graph = *ParseGraph(kSmall, "g.json");
  std::ofstream(folder_ / "times.csv") << "task,algorithm,seconds\nf,slow,7\n";
  ASSERT_TRUE(ReadTimes(folder_ / "times.csv", graph).ok());
  EXPECT_EQ(graph.tasks[0].algorithms[0].seconds, 7);
  EXPECT_THAT(std::string(ReadTimes(folder_ / "none.csv", graph).message()),
              HasSubstr("none.csv: "));
}

}  // namespace
}  // namespace tidepool
