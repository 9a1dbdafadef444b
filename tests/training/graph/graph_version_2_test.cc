// SPDX-License-Identifier: Apache-2.0
// Files of version 2: homes, types, layer parameters, configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/support/reader_faults.h"
#include "tidepool/training/graph.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// In the form that is written.
constexpr char kGraph[] = R"({"tidepool_graph": 2,
 "name": "small",
 "batch": 4,
 "data": [
  {"name": "x", "bytes": 8, "kind": "input", "before": "host", "type": "bfloat16"},
  {"name": "w", "bytes": 16, "kind": "weight"},
  {"name": "y", "bytes": 32, "kind": "activation", "after": "host"},
  {"name": "m", "bytes": 64, "kind": "optimizer-state", "before": "host", "after": "host", "type": "float32"}],
 "tasks": [
  {"name": "f", "layer": "l", "operation": "conv", "phase": "forward", "reads": ["x", "w"], "writes": ["y"], "may_rerun": true, "parameters": {"kind": "convolution", "n": 4, "c": 6, "h": 5, "w": 5, "k": 2, "r": 3, "s": 3, "stride_width": 2, "groups": 2}, "data_type": "bfloat16", "compute_type": "float32", "algorithms": [{"name": "slow", "seconds": 2, "workspace": 0}, {"name": "two", "seconds": 1, "workspace": 64, "micro_batches": [{"algorithm": "fft", "samples": 3}, {"algorithm": "gemm", "samples": 1}]}]},
  {"name": "g", "layer": "", "operation": "", "phase": "backward", "gradients": "weights", "reads": ["y"], "updates": ["w", "m"], "algorithms": [{"name": "only", "seconds": 0, "workspace": 0}]}]}
)";

std::string Version2With(const std::string& from, const std::string& to) {
  return testing::Replaced(kGraph, from, to);
}

std::string Version2ErrorOf(const std::string& json) {
  return testing::FaultOf(ParseGraph(json, "g.json"), json, "g.json");
}

TEST(GraphVersion2, IsReadInWords) {
  const absl::StatusOr<TaskGraph> graph = ParseGraph(kGraph, "g.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->data[0], (GraphData{"x", 8, DataKind::kInput, DataHome::kHost,
                                       DataHome::kNowhere, DataType::kBfloat16}));
  EXPECT_EQ(graph->data[1], (GraphData{"w", 16, DataKind::kWeight}));
  EXPECT_EQ(graph->data[2].after, DataHome::kHost);
  EXPECT_EQ(graph->data[3].kind, DataKind::kOptimizerState);
  const GraphTask& f = graph->tasks[0];
  EXPECT_TRUE(f.may_rerun);
  EXPECT_EQ(f.data_type, DataType::kBfloat16);
  EXPECT_EQ(f.compute_type, DataType::kFloat32);
  EXPECT_EQ(
      f.parameters,
      LayerParameters(ConvolutionParameters{
          .n = 4, .c = 6, .h = 5, .w = 5, .k = 2, .r = 3, .s = 3, .stride_width = 2, .groups = 2}));
  EXPECT_THAT(f.algorithms[1].micro_batches,
              ElementsAre(MicroBatch{"fft", 3}, MicroBatch{"gemm", 1}));
  EXPECT_EQ(graph->tasks[1].gradients, TaskGradients::kWeights);
  EXPECT_FALSE(graph->tasks[1].may_rerun);
}

TEST(GraphVersion2, IsWrittenAsItWasRead) {
  EXPECT_EQ(GraphJson(*ParseGraph(kGraph, "g.json")), kGraph);
}

// Sorted keys put "kind" after numbers of the layer, and homes before the kind of the data.
TEST(GraphVersion2, KeysComeInAnyOrder) {
  const std::string sorted = nlohmann::json::parse(kGraph).dump();
  const auto graph = ParseGraph(sorted, "g.json");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(*graph, *ParseGraph(kGraph, "g.json"));
}

TEST(GraphVersion2, ItsKeysAreNotOfVersion1) {
  EXPECT_EQ(Version2ErrorOf(Version2With("_graph\": 2", "_graph\": 1")),
            "g.json:5: the key 'before' is of version 2 in a graph of version 1, expected "
            "tidepool_graph 2");
}

TEST(GraphVersion2, IsCutAnywhere) {
  const std::string whole = kGraph;
  for (std::size_t size = 0; size < whole.rfind('}'); ++size)
    Version2ErrorOf(whole.substr(0, size));
}

TEST(GraphVersion2, AnyByteMayBeAnother) {
  const std::string whole = kGraph;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char c : {'\0', '"', '{', ']', ',', '9', '-', '\xff', ' '}) {
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

struct BadCase2 {
  std::string from;
  std::string to;
  std::string line;
  std::string error;
};

class BadGraphs2 : public ::testing::TestWithParam<BadCase2> {};

TEST_P(BadGraphs2, AreRefusedInTheirLine) {
  const BadCase2& bad = GetParam();
  const std::string error = Version2ErrorOf(Version2With(bad.from, bad.to));
  EXPECT_THAT(error, StartsWith(absl::StrCat("g.json:", bad.line, ": ")));
  EXPECT_THAT(error, HasSubstr(bad.error));
}

const std::string kParameters = "\"kind\": \"convolution\", ";  // NOLINT
INSTANTIATE_TEST_SUITE_P(
    Cases, BadGraphs2,
    ::testing::Values(
        BadCase2{"\"before\": \"host\", \"type\"", "\"before\": \"cpu\", \"type\"", "5",
                 "before of a datum is the text 'cpu', expected device, host or nowhere"},
        BadCase2{"\"before\": \"host\", \"type\"", "\"before\": 1, \"type\"", "5", "is 1"},
        BadCase2{"\"before\": \"host\", \"type\"", "\"before\": \"nowhere\", \"type\"", "5",
                 "data 'x' of the kind input is at home nowhere before"},
        BadCase2{"\"before\": \"host\", \"after\": \"host\"", "\"before\": \"host\"", "8",
                 "'m' of the kind optimizer-state is at home host before the iteration and device"},
        BadCase2{"\"bytes\": 32", "\"bytes\": 32, \"before\": \"host\"", "10",
                 "task 'f': it writes 'y'"},
        BadCase2{"\"type\": \"float32\"", "\"type\": \"single\"", "8",
                 "'single', expected unknown, "},
        BadCase2{"\"may_rerun\": true", "\"may_rerun\": 1", "10", "1, expected true or false"},
        BadCase2{"\"gradients\"", "\"may_rerun\": true, \"gradients\"", "11",
                 "task 'g': it may run again and updates data in place"},
        BadCase2{"\"gradients\": \"weights\"", "\"gradients\": \"some\"", "11",
                 "expected all, data or weights"},
        BadCase2{"\"phase\": \"forward\"", "\"phase\": \"forward\", \"gradients\": \"data\"", "10",
                 "it computes gradients of data in the phase forward"},
        BadCase2{"\"samples\": 1}", "\"samples\": 2}", "10", "a micro-batch of 2 samples where 1"},
        BadCase2{"\"samples\": 3}, {\"algorithm\": \"gemm\", \"samples\": 1}", "\"samples\": 3}",
                 "10", "have 3 samples together, expected the batch of 4"},
        BadCase2{"\"samples\": 3", "\"samples\": 0", "10", "a micro-batch of 0 samples"},
        BadCase2{", \"samples\": 3", "", "10", "a micro-batch without samples"},
        BadCase2{"\"micro_batches\": [", "\"micro_batches\": [3, ", "10",
                 "3 in an array of objects"},
        BadCase2{"{\"algorithm\": \"fft\", \"samples\": 3}", "[]", "10",
                 "an array in an array of objects"},
        BadCase2{kParameters, "", "10", "kind of parameters is '', expected one of convolution, "},
        BadCase2{kParameters, "\"kind\": \"dense\", ", "10", "kind of parameters is 'dense'"},
        BadCase2{kParameters, kParameters + kParameters, "10",
                 "the key 'kind' is in parameters twice"},
        BadCase2{kParameters, "\"kind\": 7, ", "10", "kind of parameters is 7, expected a text"},
        BadCase2{kParameters, "\"kind\": \"linear\", ", "10",
                 "the unknown key 'c' in linear parameters, expected kind, n, positions, inputs"},
        BadCase2{"\"c\": 6", "\"c\": 6, \"c\": 6", "10", "the key 'c' is in parameters twice"},
        BadCase2{"\"c\": 6, ", "", "10", "c of convolution parameters is 0, expected 1 to 2^40"},
        BadCase2{"\"c\": 6", "\"c\": 7", "10", "c of a convolution is 7, expected a multiple of 2"},
        BadCase2{"\"c\": 6", "\"c\": \"6\"", "10",
                 "c of parameters is the text '6', expected a whole number"},
        BadCase2{"\"c\": 6", "\"c\": 6.5", "10", "c of parameters is 6.5, expected a whole number"},
        BadCase2{"\"c\": 6", "\"c\": {\"d\": 6}", "10", "is an object"},
        BadCase2{"\"c\": 6", "\"colour\": 6", "10", "the unknown key 'colour' in parameters"},
        BadCase2{"\"parameters\": {", "\"parameters\": [{", "10",
                 "parameters of a task is an array, expected an object"}));

}  // namespace
}  // namespace tidepool
