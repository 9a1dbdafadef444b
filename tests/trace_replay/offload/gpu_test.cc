// SPDX-License-Identifier: Apache-2.0
// Tests the GPU of `tidepool model`, and the link that `tidepool simulate` takes from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trace_replay/command_line.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kGpu[] = R"({"link_bytes_per_second": 60e9, "link": "CXL", "name": "mine",
 "flops_per_second": 60e12, "bytes_per_second": 2e12, "launch_seconds": 0})";

class Gpus : public CommandLine {
 protected:
  // Returns the graph of a small network.
  TaskGraph Made(const std::vector<std::string>& gpu) {
    graph_ = folder_ / "graph.json";
    std::vector<std::string> arguments = {"model", "alexnet", "--batch", "16", "-o", graph_};
    arguments.insert(arguments.end(), gpu.begin(), gpu.end());
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    table_ = outcome.out;
    return ReadGraph(graph_).value();
  }
  json Simulated(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"simulate", graph_, "--memory", "4GiB", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  }

  std::string graph_;
  std::string table_;
};

TEST_F(Gpus, TheLinkFollowsTheGpu) {
  for (const GpuRates& gpu : KnownGpus()) {
    EXPECT_EQ(Made({"--gpu", gpu.name}).gpu, gpu.name);
    const json link = Simulated({})["link"];
    EXPECT_EQ(link["out_bytes_per_second"], gpu.link_bytes_per_second);
    EXPECT_EQ(link["in_bytes_per_second"], gpu.link_bytes_per_second);
    EXPECT_EQ(link["source"], gpu.link + " of " + gpu.name);
  }
  Made({"--gpu", "h200"});
  EXPECT_THAT(Run({"simulate", graph_, "--memory", "4GiB"}).out,
              HasSubstr("memory 4.0 GiB,\n  link 48.0 GB/s (PCIe 5.0 x16 of h200)\n"));
}

// The graph of a dry run has the name that the driver gives.
TEST_F(Gpus, TheLinkIsThatOfTheNameOfTheDriverToo) {
  TaskGraph graph = Made({"--gpu", "gb10"});
  graph.gpu = "NVIDIA GB10";
  ASSERT_EQ(WriteGraph(graph, graph_), absl::OkStatus());
  EXPECT_EQ(Simulated({})["link"]["source"], "unified memory of NVIDIA GB10");
}

TEST_F(Gpus, BestSendsNothingFromAGpuThatSharesTheMemoryOfTheHost) {
  graph_ = folder_ / "graph.json";
  const auto scheduled = [this](const std::string& gpu, const std::string& memory) {
    EXPECT_EQ(Run({"model", "alexnet", "--batch", "256", "--gpu", gpu, "-o", graph_}).status, 0);
    return json::parse(Run({"schedule", graph_, "--policy", "best", "--memory-kind", "paged",
                            "--memory", memory, "--time-limit", "100ms", "--json"})
                           .out);
  };
  EXPECT_GT(scheduled("h200", "1100MiB")["bytes_out"], 0);
  EXPECT_THAT(std::string(scheduled("gb10", "1100MiB")["why"]),
              HasSubstr(" without data that leaves for the host"));
  const json answer = scheduled("gb10", "1500MiB");
  EXPECT_EQ(answer["bytes_out"], 0);
  EXPECT_GT(answer["seconds"], answer["ideal_seconds"]);
}

TEST_F(Gpus, NothingIsSentWithoutALink) {
  graph_ = folder_ / "graph.json";
  ASSERT_EQ(Run({"model", "alexnet", "--batch", "256", "--gpu", "h200", "-o", graph_}).status, 0);
  const auto scheduled = [this](const char* policy) {
    return Run({"schedule", graph_, "--policy", policy, "--link", "none", "--memory-kind", "paged",
                "--memory", "1500MiB", "--time-limit", "100ms", "--json"});
  };
  const json answer = json::parse(scheduled("best").out);
  EXPECT_EQ(answer["bytes_out"], 0);
  EXPECT_GT(answer["seconds"], answer["ideal_seconds"]);
  EXPECT_EQ(answer["link"]["source"], "--link none");
  EXPECT_THAT(scheduled("modnn").err, HasSubstr("--link none: policy modnn sends data to the host, "
                                                "expected none, base, best or recompute"));
  for (const char* policy : {"none", "base", "recompute"}) {
    const Outcome kept = Run(
        {"schedule", graph_, "--policy", policy, "--link", "none", "--memory", "8GiB", "--json"});
    ASSERT_EQ(kept.status, 0) << kept.err;
    EXPECT_EQ(json::parse(kept.out)["bytes_out"], 0) << policy;
  }
  EXPECT_THAT(Run({"schedule", graph_, "--policy", "best", "--link", "none", "--link-in", "3GB/s",
                   "--memory", "2GiB"})
                  .err,
              HasSubstr("--link-in: there is no link (--link none), remove one of the two"));
  EXPECT_THAT(Run({"chain", "--from", graph_, "--link", "none", "--memory", "2GiB"}).err,
              HasSubstr("--link: 'none' is not a rate"));
}

TEST_F(Gpus, AGivenLinkComesFirst) {
  Made({"--gpu", "h200"});
  EXPECT_EQ(
      Simulated({"--link", "12GB/s"})["link"],
      json({{"out_bytes_per_second", 12e9}, {"in_bytes_per_second", 12e9}, {"source", "--link"}}));
  EXPECT_THAT(
      Run({"simulate", graph_, "--memory", "4GiB", "--link", "1GB/s", "--link-in", "2TB/s"}).out,
      HasSubstr("link 1.0 GB/s out, 2.0 TB/s in (--link)\n"));
  EXPECT_THAT(Run({"simulate", graph_, "--memory", "4GiB", "--link", "inf"}).out,
              HasSubstr("link infinite (--link)\n"));
}

TEST_F(Gpus, GraphsWithoutAGpuHaveALinkToo) {
  TaskGraph graph = Made({});
  graph.gpu.clear();
  graph.link_bytes_per_second = 0;
  ASSERT_EQ(WriteGraph(graph, graph_), absl::OkStatus());
  EXPECT_THAT(Run({"simulate", graph_, "--memory", "4GiB"}).out,
              HasSubstr("link 12.0 GB/s (default, PCIe 3.0 x16)\n"));
}

TEST_F(Gpus, AFileHasTheRatesOfAGpu) {
  const TaskGraph graph = Made({"--gpu", File("mine.json", kGpu)});
  EXPECT_EQ(graph, *MakeModel("alexnet", {.batch = 16,
                                          .rates = GpuRates{"mine", 60e12, 2e12, 0, 60e9, "CXL"}}));
  EXPECT_THAT(table_, HasSubstr("times of mine\n"));
  EXPECT_EQ(Simulated({})["link"]["source"], "mine");
}

TEST_F(Gpus, RatesReplaceThoseOfTheGpu) {
  GpuRates rates = KnownGpus()[0];
  const TaskGraph graph = Made({"--gpu", rates.name, "--flops", "60e12", "--bandwidth", "2TB/s"});
  rates.flops_per_second = 60e12;
  rates.bytes_per_second = 2e12;
  rates.name += " at 6e+13 FLOP/s at 2e+12 B/s";
  EXPECT_EQ(graph, *MakeModel("alexnet", {.batch = 16, .rates = rates}));
}

TEST_F(Gpus, WrongRatesAreRefused) {
  const auto error_of = [this](const std::vector<std::string>& gpu) {
    std::vector<std::string> arguments = {"model", "alexnet", "--batch", "1"};
    arguments.insert(arguments.end(), gpu.begin(), gpu.end());
    return ErrorOf(arguments);
  };
  EXPECT_THAT(
      error_of({"--gpu", "voodoo"}),
      HasSubstr("--gpu: unknown GPU 'voodoo', expected a JSON file or one of gtx-750-ti, "));
  EXPECT_THAT(error_of({"--gpu", folder_ / "missing.json"}), HasSubstr("cannot be opened"));
  EXPECT_THAT(error_of({"--flops", "0"}), HasSubstr("--flops: '0', expected a number from 1 to"));
  EXPECT_THAT(error_of({"--bandwidth", "fast"}), HasSubstr("--bandwidth: 'fast'"));
  EXPECT_THAT(error_of({"--bandwidth", "inf"}), HasSubstr("expected finite rates above 0"));
  EXPECT_THAT(error_of({"--gpu", folder_}), HasSubstr(": a directory, expected a regular file"));
}

TEST_F(Gpus, WrongFilesAreRefusedWithTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"{\n\n5",
       "gpu.json:3: broken JSON (Missing a name for object member.), expected a GPU's file"},
      {"", "gpu.json:1: the file is cut off"},
      {"[1]", "gpu.json:1: an array, expected a GPU's file: an object"},
      {R"({"name": "a", "flops_per_second": 1e12})",
       "gpu.json:1: a GPU without bytes_per_second, expected every required key"},
      {R"({"name": "a", "flops": 1e12})",
       "gpu.json:1: the unknown key 'flops' in a GPU, expected name, "},
      {R"({"name": 5})", "gpu.json:1: name of a GPU is 5, expected a text"},
      {R"({"name": "a", "flops_per_second": "fast"})",
       "gpu.json:1: flops_per_second of a GPU is the text 'fast', expected a number from 1 to "
       "1e24"},
      {R"({"name": "a", "flops_per_second": 0})", "is 0, expected"},
      {R"({"name": "a", "flops_per_second": 1e999})", "gpu.json:1: broken JSON (Number too big"},
      {R"({"name": "a", "launch_seconds": 2})", "is 2, expected a number from 0 to 1"},
      {std::string(100'000, '['), "gpu.json: more than 64 KiB"},
      {"{\"name\": \"a\",\n\"name\": \"b\"}", "gpu.json:2: the key 'name' is in a GPU twice"},
      {std::string(60'000, '['), "gpu.json:1: an array"},
      {"{\"name\": \"\xff\", \"flops_per_second\": 1, \"bytes_per_second\": 1}",
       "gpu.json:1: broken JSON"},
  };
  for (const auto& [text, error] : files) {
    EXPECT_THAT(ErrorOf({"model", "alexnet", "--batch", "1", "--gpu", File("gpu.json", text)}),
                HasSubstr(error));
  }
  const std::string whole = kGpu;
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    ErrorOf({"model", "alexnet", "--batch", "1", "--gpu", File("gpu.json", whole.substr(0, size))});
  }
}

}  // namespace
}  // namespace tidepool
