// SPDX-License-Identifier: Apache-2.0
// Tests `tidepool replay --device cuda`: on the stand-in runtime, without a GPU, and without CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trace_replay/command_line.h"

namespace tidepool {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

#ifdef TIDEPOOL_CUDART_HOST

class CudaReplay : public CommandLine {
 protected:
  CudaReplay() {
    setenv("LD_LIBRARY_PATH", TIDEPOOL_CUDART_HOST, 1);
    Set("CUDART_HOST_MEMORY", "67108864");
  }
  ~CudaReplay() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
    unsetenv("LD_LIBRARY_PATH");
  }

  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

 private:
  std::vector<std::string> set_;
};

TEST_F(CudaReplay, AnswersAsOnTheHost) {
  const std::string trace = File("paper.csv", kPaper);
  const auto answer = [&](const std::string& device) {
    const Outcome outcome =
        Run({"replay", trace, "--pool", "8KiB", "--device", device, "--offsets", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  json cuda = answer("cuda");
  json host = answer("host");
  EXPECT_EQ(cuda["device"], "cuda");
  for (const char* name : {"offsets", "high_water_bytes", "served", "peak_live_bytes"}) {
    EXPECT_EQ(cuda[name], host[name]) << name;
  }
}

TEST_F(CudaReplay, ServesAPlanAsOnTheHost) {
  const std::string trace = File("paper.csv", kPaper);
  const auto answer = [&](const std::string& device) {
    const Outcome outcome =
        Run({"replay", trace, "--policy", "planned", "--device", device, "--offsets", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json cuda = answer("cuda");
  const json host = answer("host");
  EXPECT_EQ(cuda["planned"]["planned"], 5);
  EXPECT_EQ(cuda["planned"]["deviations"], 0);
  for (const char* name : {"offsets", "high_water_bytes", "served", "pool_bytes"}) {
    EXPECT_EQ(cuda[name], host[name]) << name;
  }
  Set("CUDART_HOST_VIRTUAL_MEMORY", "0");
  EXPECT_EQ(answer("cuda")["planned"]["deviations"], 0);
}

TEST_F(CudaReplay, DoesWithoutVirtualMemory) {
  Set("CUDART_HOST_VIRTUAL_MEMORY", "0");
  const std::string trace = File("paper.csv", kPaper);
  const std::vector<std::string> replay = {"replay", trace, "--pool", "8KiB", "--device", "cuda"};
  EXPECT_EQ(Run(replay).status, 0);
  std::vector<std::string> with_virtual_memory = replay;
  with_virtual_memory.insert(with_virtual_memory.end(), {"--memory", "virtual"});
  EXPECT_THAT(ErrorOf(with_virtual_memory),
              HasSubstr("memory virtual, expected segments, because cuda:0 has no virtual memory"));
}

TEST_F(CudaReplay, SaysWhatIsMissing) {
  const std::string trace = File("paper.csv", kPaper);
  const auto error = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"replay", trace, "--device", "cuda"});
    return ErrorOf(more);
  };
  EXPECT_THAT(error({"--pool", "8KiB", "--verify"}), HasSubstr("--verify: the host cannot look"));
  EXPECT_THAT(error({"--pool", "1GiB"}), HasSubstr("67108864"));
  Set("CUDART_HOST_FAIL", "cuMemCreate:1:2");
  EXPECT_THAT(error({"--pool", "8KiB"}), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (out of memory)"));
  Set("CUDART_HOST_DEVICES", "0");
  EXPECT_THAT(error({"--pool", "8KiB"}),
              HasSubstr("--device: cuda: cudaGetDeviceCount(): cudaErrorNoDevice"));
}

#endif

TEST_F(CommandLine, SaysThatThereIsNoGpu) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is one";
  const std::string trace = File("paper.csv", kPaper);
  EXPECT_THAT(ErrorOf({"replay", trace, "--pool", "8KiB", "--device", "cuda"}),
              HasSubstr("--device: "));
}

}  // namespace
}  // namespace tidepool
