// SPDX-License-Identifier: Apache-2.0
// The power of a device: samples at ticks of a test, and NVML of a stand-in through `tidepool run`.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/trace_replay/command_line.h"
#include "trace_replay/offload/power_sampler.h"

namespace tidepool {
namespace {

using nlohmann::json;
using tool::Power;
using tool::PowerSampler;

// A number of ticks without any time between them.
class CountedTicks : public tool::SampleTicks {
 public:
  explicit CountedTicks(int ticks) : left_(ticks) {}
  bool Next() override { return left_-- > 0; }
  void End() override {}

 private:
  int left_;
};

// Returns the power of samples: one at the start, and one for each tick.
std::optional<Power> PowerOf(const std::vector<std::optional<double>>& samples) {
  std::size_t next = 0;
  PowerSampler sampler([&] { return samples[next++]; },
                       std::make_unique<CountedTicks>(static_cast<int>(samples.size()) - 1));
  std::optional<Power> power = sampler.Finish();
  EXPECT_EQ(next, samples.size());
  return power;
}

TEST(PowerSamplerTest, TakesTheMeanAndTheMostOfItsSamples) {
  const std::optional<Power> power = PowerOf({100, 350, std::nullopt, 150});
  ASSERT_TRUE(power.has_value());
  EXPECT_DOUBLE_EQ(power->mean_watts, 200);
  EXPECT_DOUBLE_EQ(power->maximum_watts, 350);
  EXPECT_EQ(power->samples, 3);
}

TEST(PowerSamplerTest, TellsNothingWithoutSamples) {
  EXPECT_FALSE(PowerOf({std::nullopt, std::nullopt}).has_value());
}

TEST(PowerSamplerTest, RegularTicksEndWhileOneIsWaitedFor) {
  PowerSampler sampler([] { return std::optional<double>(7); }, tool::RegularTicks());
  const std::optional<Power> power = sampler.Finish();
  ASSERT_TRUE(power.has_value());
  EXPECT_DOUBLE_EQ(power->mean_watts, 7);
}

class PowerOfRun : public CommandLine {
 protected:
  json Answer(const std::string& device) {
    const std::string graph = folder_ / "graph.json";
    EXPECT_EQ(Run({"model", "alexnet", "--batch", "1", "-o", graph}).status, 0);
    const Outcome outcome = Run({"run", graph, "--memory", "1GiB", "--policy", "none", "--device",
                                 device, "--iterations", "2", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }
};

TEST_F(PowerOfRun, TheHostTellsNone) {
  const json answer = Answer("host");
  ASSERT_TRUE(answer.contains("power"));
  EXPECT_TRUE(answer["power"].is_null());
}

#ifdef TIDEPOOL_CUDART_HOST

TEST_F(PowerOfRun, AGpuTellsItsWattsByNvml) {
  const std::vector<std::pair<const char*, const char*>> variables = {
      {"LD_LIBRARY_PATH", TIDEPOOL_CUDART_HOST},
      {"CUDART_HOST_MEMORY", "2147483648"},
      {"CUDART_HOST_MILLIWATTS", "250500"}};
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  const json answer = Answer("cuda");
  for (const auto& [name, value] : variables) unsetenv(name);
  const json& power = answer["power"];
  ASSERT_TRUE(power.is_object()) << answer;
  EXPECT_DOUBLE_EQ(power["mean_watts"], 250.5);
  EXPECT_DOUBLE_EQ(power["maximum_watts"], 250.5);
  EXPECT_GE(power["samples"], 1);
  const std::vector<double> seconds = answer["iteration_seconds"];
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / 2;
  EXPECT_NEAR(power["joules_per_iteration"].get<double>(), 250.5 * mean, 1e-9);
}

#endif

}  // namespace
}  // namespace tidepool
