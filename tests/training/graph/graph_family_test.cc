// SPDX-License-Identifier: Apache-2.0
// Families: graphs at any batch, their tables, and their files.
#include "tidepool/training/graph_family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/reader_faults.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// In the form that is written. The algorithm fft is not there at batch 1.
constexpr char kFamily[] = R"({"tidepool_graph": 2,
 "name": "small",
 "batches": [1, 4, 8],
 "gpu": "h200",
 "data": [
  {"name": "x", "bytes_per_sample": 8, "kind": "input", "before": "host"},
  {"name": "w", "bytes": 16, "kind": "weight"},
  {"name": "y", "bytes": 100, "bytes_per_sample": 32, "kind": "activation"},
  {"name": "z", "bytes_per_sample": 1, "kind": "activation"}],
 "tasks": [
  {"name": "f", "layer": "l", "operation": "linear", "phase": "forward", "reads": ["x", "w"], "writes": ["y"], "parameters": {"kind": "linear", "n": 2, "inputs": 1, "outputs": 4}, "algorithms": [{"name": "fft", "seconds": [null, 2, 3], "workspace": [null, 50, 70]}, {"name": "gemm", "seconds": [1, 4, 12], "workspace": 60}]},
  {"name": "g", "layer": "", "operation": "", "phase": "update", "reads": ["y"], "writes": ["z"], "updates": ["w"], "parameters": {"kind": "elementwise", "elements": 4}, "algorithms": [{"name": "only", "seconds": 0.5, "workspace": [0, 4, 8]}]}]}
)";

GraphFamily SmallFamily() {
  absl::StatusOr<GraphOrFamily> read = ParseGraphOrFamily(kFamily, "g.json");
  EXPECT_TRUE(read.ok()) << read.status();
  return std::get<GraphFamily>(*std::move(read));
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(GraphFamily, IsReadInWords) {
  const GraphFamily family = SmallFamily();
  EXPECT_THAT(family.batches, ElementsAre(1, 4, 8));
  EXPECT_THAT(family.bytes_per_sample, ElementsAre(8, 0, 32, 1));
  EXPECT_EQ(family.graph.data[2].bytes, 100);
  EXPECT_THAT(family.costs[0], ElementsAre(AlgorithmCosts{"fft", {-1, 2, 3}, {0, 50, 70}},
                                           AlgorithmCosts{"gemm", {1, 4, 12}, {60}}));
  EXPECT_TRUE(ValidateFamily(family).ok());
}

TEST(GraphFamily, IsAGraphAtABatchOfTheTable) {
  const absl::StatusOr<TaskGraph> graph = GraphAt(SmallFamily(), 4);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->batch, 4);
  EXPECT_EQ(graph->gpu, "h200");
  EXPECT_EQ(graph->data[0], (GraphData{"x", 32, DataKind::kInput, DataHome::kHost}));
  EXPECT_EQ(graph->data[1].bytes, 16);
  EXPECT_EQ(graph->data[2].bytes, 228);
  EXPECT_EQ(std::get<LinearParameters>(graph->tasks[0].parameters).n, 8);
  EXPECT_EQ(std::get<ElementwiseParameters>(graph->tasks[1].parameters).n, 0);
  EXPECT_THAT(graph->tasks[0].algorithms,
              ElementsAre(TaskAlgorithm{"fft", 2, 50}, TaskAlgorithm{"gemm", 4, 60}));
}

// At batch 8 fft has the larger workspace.
TEST(GraphFamily, SortsAlgorithmsByWorkspace) {
  EXPECT_THAT(GraphAt(SmallFamily(), 8)->tasks[0].algorithms,
              ElementsAre(TaskAlgorithm{"gemm", 12, 60}, TaskAlgorithm{"fft", 3, 70}));
}

TEST(GraphFamily, LacksAlgorithmsThatTheTableLacks) {
  EXPECT_THAT(GraphAt(SmallFamily(), 1)->tasks[0].algorithms,
              ElementsAre(TaskAlgorithm{"gemm", 1, 60}));
  EXPECT_THAT(GraphAt(SmallFamily(), 3)->tasks[0].algorithms,
              ElementsAre(TaskAlgorithm{"gemm", 3, 60}));
}

TEST(GraphFamily, HasStraightLinesBetweenBatches) {
  const TaskGraph graph = *GraphAt(SmallFamily(), 5);
  EXPECT_THAT(graph.tasks[0].algorithms,
              ElementsAre(TaskAlgorithm{"gemm", 6, 60}, TaskAlgorithm{"fft", 2.25, 70}));
  EXPECT_THAT(graph.tasks[1].algorithms, ElementsAre(TaskAlgorithm{"only", 0.5, 8}));
}

TEST(GraphFamily, EndsWithItsTable) {
  EXPECT_EQ(Message(GraphAt(SmallFamily(), 9).status()),
            "no times for batch 9, expected 1 to 8, the batches of the table");
  EXPECT_THAT(Message(GraphAt(SmallFamily(), 0).status()),
              HasSubstr("a batch of 0, expected 1 to"));
  EXPECT_THAT(Message(GraphAt(SmallFamily(), INT64_MAX).status()), HasSubstr("expected 1 to 2^40"));
}

TEST(GraphFamily, OverflowsAtABatch) {
  GraphFamily family = SmallFamily();
  family.cost_model = [](TaskGraph& graph) {
    for (GraphTask& task : graph.tasks) task.algorithms = {{"a", 1, 0}};
    return absl::OkStatus();
  };
  family.bytes_per_sample[0] = 4096;
  EXPECT_TRUE(GraphAt(family, std::int64_t{1} << 38).ok());
  EXPECT_EQ(
      Message(GraphAt(family, std::int64_t{1} << 39).status()),
      "data 'x' has 0 + 4096 x 549755813888 bytes at batch 549755813888, expected at most 2^50");
  family.bytes_per_sample[0] = INT64_MAX;
  EXPECT_THAT(Message(GraphAt(family, 2).status()), HasSubstr("expected at most 2^50"));
  family = SmallFamily();
  std::get<LinearParameters>(family.graph.tasks[0].parameters).n = kMostLayerNumber;
  EXPECT_EQ(Message(GraphAt(family, 4).status()),
            "task 'f' has more than 2^40 samples at batch 4, expected at most 2^40");
}

// Each datum fits, and all together do not.
TEST(GraphFamily, OverflowsInSum) {
  GraphFamily family;
  GraphTask task{.name = "t"};
  for (std::size_t i = 0; i < 2000; ++i) {
    family.graph.data.push_back({absl::StrCat("d", i)});
    family.bytes_per_sample.push_back(std::int64_t{1} << 48);
    task.writes.push_back(i);
  }
  family.graph.tasks.push_back(task);
  family.batches = {1};
  family.costs = {{{"a", {1}, {0}}}};
  ASSERT_TRUE(ValidateFamily(family).ok()) << ValidateFamily(family);
  family.cost_model = [](TaskGraph& graph) {
    graph.tasks[0].algorithms = {{"a", 1, 0}};
    return absl::OkStatus();
  };
  EXPECT_TRUE(GraphAt(family, 2).ok());
  EXPECT_THAT(Message(GraphAt(family, 4).status()),
              HasSubstr("at batch 4: data up to 'd1024' has more than 2^60 bytes together"));
}

TEST(GraphFamily, TakesACostModel) {
  GraphFamily family = SmallFamily();
  family.batches.clear();
  family.costs.clear();
  EXPECT_THAT(Message(ValidateFamily(family)), HasSubstr("no batch in the table"));
  family.cost_model = [](TaskGraph& graph) -> absl::Status {
    if (graph.batch == 7) return absl::InvalidArgumentError("no cost for 7");
    for (GraphTask& task : graph.tasks) {
      const auto bytes = static_cast<double>(graph.data[task.reads[0]].bytes);
      task.algorithms = {{"b", bytes, 9}, {"a", 2 * bytes, 4}};
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(ValidateFamily(family).ok());
  EXPECT_THAT(GraphAt(family, 6)->tasks[0].algorithms,
              ElementsAre(TaskAlgorithm{"a", 96, 4}, TaskAlgorithm{"b", 48, 9}));
  EXPECT_EQ(Message(GraphAt(family, 7).status()), "no cost for 7");
  EXPECT_EQ(Message(TabulateCosts({1, 7}, family)), "no cost for 7");
  EXPECT_TRUE(family.batches.empty());
  ASSERT_TRUE(TabulateCosts({1, 3}, family).ok());
  EXPECT_THAT(family.costs[0],
              ElementsAre(AlgorithmCosts{"a", {16, 48}, {4}}, AlgorithmCosts{"b", {8, 24}, {9}}));
  EXPECT_THAT(Message(TabulateCosts({3, 1}, family)), HasSubstr("expected ascending batches"));
}

TEST(GraphFamily, ModelsOfTheZooAreFamilies) {
  for (const char* name : {"alexnet", "resnet-50", "gpt2-small"}) {
    std::vector<TaskGraph> graphs;
    for (const std::int64_t batch : {1, 2, 4, 7}) {
      graphs.push_back(*MakeModel(name, {.batch = batch}));
    }
    const absl::StatusOr<GraphFamily> family = MakeFamily(graphs);
    ASSERT_TRUE(family.ok()) << family.status();
    for (const TaskGraph& graph : graphs) EXPECT_EQ(*GraphAt(*family, graph.batch), graph) << name;
    const TaskGraph five = *MakeModel(name, {.batch = 5});
    EXPECT_EQ(GraphAt(*family, 5)->data, five.data);
  }
}

TEST(GraphFamily, DifferentGraphsAreNoFamily) {
  const std::vector<TaskGraph> graphs = {*GraphAt(SmallFamily(), 4), *GraphAt(SmallFamily(), 5),
                                         *GraphAt(SmallFamily(), 8)};
  ASSERT_TRUE(MakeFamily(graphs).ok()) << MakeFamily(graphs).status();
  const auto error = [&](const std::function<void(std::vector<TaskGraph>&)>& change) {
    std::vector<TaskGraph> changed = graphs;
    change(changed);
    const absl::Status status = MakeFamily(changed).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return Message(status);
  };
  EXPECT_THAT(error([](auto& all) { all.resize(1); }), HasSubstr("two or more"));
  EXPECT_THAT(error([](auto& all) { std::swap(all[0], all[1]); }),
              HasSubstr("the batch 4 after 5, expected ascending"));
  EXPECT_THAT(error([](auto& all) { all[2].data[2].bytes += 1; }),
              HasSubstr("data 'y' of the graph at batch 8 differs"));
  EXPECT_THAT(error([](auto& all) { all[1].data[2].bytes = 1; }), HasSubstr("data 'y' of the"));
  EXPECT_THAT(error([](auto& all) { all[1].data[2].type = DataType::kInt8; }),
              HasSubstr("data 'y' of the graph at batch 5 differs"));
  EXPECT_THAT(error([](auto& all) { all[2].tasks[0].layer = "m"; }),
              HasSubstr("task 'f' of the graph at batch 8 differs"));
  EXPECT_THAT(error([](auto& all) { all[1].gpu = "k40"; }), HasSubstr("the GPU of the graph"));
  EXPECT_THAT(error([](auto& all) {
                all[1].tasks[0].algorithms[0].micro_batches = {{"fft", 5}};
              }),
              HasSubstr("task 'f'"));
  EXPECT_THAT(error([](auto& all) {
                all[2].tasks[0].parameters = LinearParameters{.n = 17, .inputs = 1, .outputs = 4};
              }),
              HasSubstr("task 'f'"));
  EXPECT_THAT(error([](auto& all) {
                all[2].data.push_back({"more", 8, DataKind::kWeight});
              }),
              HasSubstr("the number of data"));
  EXPECT_THAT(error([](auto& all) { all[0].data[0].bytes = 0; }), HasSubstr("'x' has 0 bytes"));
}

TEST(GraphFamilyJson, IsWrittenAsItWasRead) {
  EXPECT_EQ(FamilyJson(SmallFamily()), kFamily);
  const std::string sorted = nlohmann::json::parse(kFamily).dump();
  const auto read = ParseGraphOrFamily(sorted, "g.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FamilyJson(std::get<GraphFamily>(*read)), kFamily);
}

TEST(GraphFamilyJson, IsNoGraphOfOneBatch) {
  EXPECT_EQ(Message(ParseGraph(kFamily, "g.json").status()),
            "g.json: a graph at any batch, expected a graph of one batch");
  const std::string graph = GraphJson(*GraphAt(SmallFamily(), 4));
  const auto read = ParseGraphOrFamily(graph, "g.json");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(std::get<TaskGraph>(*read), *GraphAt(SmallFamily(), 4));
}

TEST(GraphFamilyJson, TasksAreSortedWithTheirCosts) {
  std::string text = kFamily;
  const std::size_t f = text.find("{\"name\": \"f\"");
  const std::size_t g = text.find("{\"name\": \"g\"");
  const std::string first = text.substr(f, g - f);
  text.erase(f, g - f);
  text.insert(text.rfind("]}"), "," + first.substr(0, first.rfind(',')));
  text = absl::StrReplaceAll(text, {{", \"updates\": [\"w\"]", ""}});
  const auto read = ParseGraphOrFamily(text, "g.json");
  ASSERT_TRUE(read.ok()) << read.status();
  const TaskGraph graph = *GraphAt(std::get<GraphFamily>(*read), 4);
  EXPECT_EQ(graph.tasks[0].name, "f");
  EXPECT_EQ(graph.tasks[0].algorithms[0].name, "fft");
}

std::string FamilyWith(const std::string& from, const std::string& to) {
  return testing::Replaced(kFamily, from, to);
}

std::string FamilyErrorOf(const std::string& json) {
  return testing::FaultOf(ParseGraphOrFamily(json, "g.json"), json, "g.json");
}

TEST(GraphFamilyJson, BadFilesAreRefusedInTheirLine) {
  struct Bad {
    std::string from;
    std::string to;
    std::string error;
  };
  const std::string batches = " \"batches\": [1, 4, 8],\n";
  const std::vector<Bad> cases = {
      {batches, "", "g.json:5: a size per sample or a list of costs in a graph of one batch"},
      {batches, " \"batches\": [],\n", "g.json: no batch in the table"},
      {batches, " \"batches\": [1, 4, 4],\n", "g.json: the batch 4 after 4"},
      {batches, " \"batches\": [0, 4, 8],\n", "g.json: the batch 0 after 0"},
      {batches, " \"batches\": [1, 4.5, 8],\n", "g.json:3: 4.5 in batches, expected whole"},
      {batches, " \"batches\": [1, null, 8],\n", "g.json:3: null in batches"},
      {batches, " \"batches\": 3,\n", "g.json:3: batches of a graph is 3, expected an array"},
      {batches, " \"batches\": [1, 4],\n",
       "g.json:11: task 'f': algorithm 'fft' has 3 seconds or "
       "workspaces, expected 1 or 2"},
      {batches, batches + " \"batch\": 4,\n", "a graph with batch and batches"},
      {batches, " \"batches\": [1, 4, 1000000000000],\n", "g.json:11: task 'f' has more than 2^40"},
      {"\"bytes_per_sample\": 8", "\"bytes_per_sample\": 1125899906842624",
       "g.json:6: data 'x' has 0 + 1125899906842624 x 8 bytes at batch 8, expected at most 2^50"},
      {"\"bytes_per_sample\": 8", "\"bytes_per_sample\": -8", "g.json:6: data 'x' has -8 bytes"},
      {"\"bytes_per_sample\": 8", "\"bytes\": 0", "g.json:6: data 'x' has 0 bytes, expected 1"},
      {", \"bytes_per_sample\": 8", "", "g.json:6: a datum without bytes"},
      {"\"bytes\": 100", "\"bytes\": -100", "g.json:8: data 'y' has -100 bytes"},
      {"[null, 2, 3]", "[null, 2]", "has 2 seconds or workspaces"},
      {"[null, 2, 3]", "[null, 2, \"3\"]",
       "the text '3' in seconds, expected an array of a number from 0 to 10^9 or null"},
      {"[null, 2, 3]", "[null, 2, -3]", "-3 in seconds"},
      {"[null, 2, 3]", "[null, 2, [3]]", "an array in seconds"},
      {"[1, 4, 12]", "[null, 4, 12]", "g.json:11: task 'f': no algorithm at batch 1"},
      {"[0, 4, 8]", "[0, 4, null]", "g.json:12: task 'g': algorithm 'only' has a workspace of -1"},
      {"[0, 4, 8]", "[0, 4, 2251799813685248]", "has a workspace of 2251799813685248 bytes"},
      {"\"workspace\": 60",
       "\"workspace\": 60, \"micro_batches\": [{\"algorithm\": \"a\", "
       "\"samples\": 4}]",
       "g.json:11: configuration 'gemm' in a graph at any batch"},
      {"\"name\": \"gemm\"", "\"name\": \"fft\"", "g.json:11: task 'f': the name 'fft' occurs"},
      {"\"algorithms\": [{\"name\": \"only\", \"seconds\": 0.5, \"workspace\": [0, 4, 8]}]",
       "\"algorithms\": []", "g.json:12: task 'g': no algorithm at batch 1"},
      {"\"reads\": [\"y\"]", "\"reads\": [\"q\"]", "g.json:12: task 'g': there is no data 'q'"},
      {"_graph\": 2", "_graph\": 1", "g.json:3: the key 'batches' is of version 2"},
  };
  for (const Bad& bad : cases)
    EXPECT_THAT(FamilyErrorOf(FamilyWith(bad.from, bad.to)), HasSubstr(bad.error));
}

TEST(GraphFamilyJson, IsCutAnywhere) {
  const std::string whole = kFamily;
  for (std::size_t size = 0; size < whole.rfind('}'); ++size) FamilyErrorOf(whole.substr(0, size));
}

TEST(GraphFamilyJson, AnyByteMayBeAnother) {
  const std::string whole = kFamily;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char c : {'\0', '"', '{', ']', ',', '9', '-', '\xff', ' '}) {
      std::string broken = whole;
      broken[at] = c;
      const absl::StatusOr<GraphOrFamily> read = ParseGraphOrFamily(broken, "g.json");
      if (!read.ok()) {
        EXPECT_THAT(Message(read.status()), HasSubstr("expected"));
      } else if (const auto* family = std::get_if<GraphFamily>(&*read)) {
        EXPECT_TRUE(ValidateFamily(*family).ok());
        EXPECT_TRUE(GraphAt(*family, family->batches.front()).ok());
        EXPECT_TRUE(GraphAt(*family, family->batches.back()).ok());
      }
    }
  }
}

TEST(GraphFamilyJson, FilesAreWrittenAndRead) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     absl::StrCat("tidepool-family-", getpid(), ".json.gz");
  ASSERT_TRUE(WriteFamily(SmallFamily(), path).ok());
  const auto read = ReadGraphOrFamily(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FamilyJson(std::get<GraphFamily>(*read)), kFamily);
  EXPECT_THAT(Message(ReadGraph(path).status()), HasSubstr("expected a graph of one batch"));
  GraphFamily broken = SmallFamily();
  broken.bytes_per_sample.pop_back();
  EXPECT_THAT(Message(WriteFamily(broken, path)), HasSubstr("3 sizes per sample of 4 data"));
  broken = SmallFamily();
  broken.costs.pop_back();
  EXPECT_THAT(Message(WriteFamily(broken, path)), HasSubstr("algorithms of 1 tasks for 2 tasks"));
  broken = SmallFamily();
  std::swap(broken.graph.tasks[0], broken.graph.tasks[1]);
  EXPECT_THAT(Message(WriteFamily(broken, path)), HasSubstr("which task 'f' writes later"));
  broken = SmallFamily();
  broken.batches.clear();
  broken.costs.clear();
  broken.cost_model = [](TaskGraph& /*graph*/) { return absl::OkStatus(); };
  EXPECT_THAT(Message(WriteFamily(broken, path)), HasSubstr("a family without a table"));
  std::filesystem::remove(path);
}

// Random tables against interpolation in words.
TEST(GraphFamily, CostsAreThoseOfTheSlowModel) {
  std::mt19937_64 random(1);
  const auto below = [&](std::int64_t bound) {
    return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random);
  };
  for (int run = 0; run < 300; ++run) {
    GraphFamily family = SmallFamily();
    family.batches.clear();
    for (std::int64_t batch = 1 + below(3); batch < 40; batch += 1 + below(9)) {
      family.batches.push_back(batch);
    }
    AlgorithmCosts costs = {"gemm", {}, {}};
    AlgorithmCosts always = {"always", {7}, {1 << 20}};
    for (std::size_t i = 0; i < family.batches.size(); ++i) {
      costs.seconds.push_back(
          below(4) == 0 && family.batches.size() > 1 ? -1 : static_cast<double>(below(1000)));
      costs.workspace_bytes.push_back(costs.seconds.back() < 0 ? 0 : below(1000));
    }
    family.costs = {{costs, always}, {{"only", {1}, {0}}}};
    for (std::int64_t batch = family.batches.front(); batch <= family.batches.back(); ++batch) {
      std::size_t before = 0;
      while (before + 1 < family.batches.size() && family.batches[before + 1] <= batch) ++before;
      std::size_t after = before;
      if (family.batches[before] < batch) ++after;
      const TaskGraph graph = *GraphAt(family, batch);
      const bool is_there = costs.seconds[before] >= 0 && costs.seconds[after] >= 0;
      ASSERT_EQ(graph.tasks[0].algorithms.size(), is_there ? 2 : 1);
      if (!is_there) continue;
      const double way =
          after == before ? 0
                          : static_cast<double>(batch - family.batches[before]) /
                                static_cast<double>(family.batches[after] - family.batches[before]);
      const TaskAlgorithm& its = graph.tasks[0].algorithms[0];
      EXPECT_NEAR(its.seconds, costs.seconds[before] * (1 - way) + costs.seconds[after] * way,
                  1e-9);
      EXPECT_EQ(its.workspace_bytes,
                std::max(costs.workspace_bytes[before], costs.workspace_bytes[after]));
    }
  }
}

}  // namespace
}  // namespace tidepool
