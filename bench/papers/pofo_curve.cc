// SPDX-License-Identifier: Apache-2.0
// Claim: offloading and recomputation together reduce the memory of activations to a quarter or a
// sixth at less than 20 % more time (Beaumont, Eyraud-Dubois and Shilova, "Efficient Combination of
// Rematerialization and Offloading for Training DNNs", NeurIPS 2021), on a V100 with a link of 12.2
// GB/s. Prints the overhead of each chain policy over the time of all operations, for parts of the
// memory that the chain needs without any policy. Times come from the cost model.
//
// Arguments: policies; without any, all of them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tidepool/schedule/chain_policy.h"
#include "tidepool/schedule/model_zoo.h"

namespace tidepool::bench {
namespace {

constexpr double kLink = 12.2e9;
constexpr double kGib = 1024.0 * 1024 * 1024;

struct Network {
  const char* name;
  std::int64_t batch;
  std::int64_t image;
};
constexpr Network kNetworks[] = {{"resnet-152", 32, 224}, {"densenet-201", 32, 224},
                                 {"vgg-19", 32, 224},     {"inception-v3", 32, 299},
                                 {"resnet-152", 8, 500},  {"vgg-19", 8, 500}};

// The paper's networks run batch normalisation again, as PyTorch does, though it changes the
// statistics twice.
Chain ChainOf(const Network& network) {
  const TaskGraph graph = MakeModel(network.name, {.batch = network.batch,
                                                   .image = network.image,
                                                   .gpu = "v100",
                                                   .fused_batch_normalization = true})
                              .value();
  Chain chain = ToChain(graph, {.memory_bytes = std::int64_t{1} << 50,
                                .link_bytes_per_second = kLink,
                                .recomputation = true})
                    .value()
                    .chain;
  chain.runs_once.clear();
  return chain;
}

// Returns the least bytes that one operation needs, with the output of its input alone.
std::int64_t LargestOperation(const Chain& chain) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < chain.forward_seconds.size(); ++i) {
    most = std::max(most, chain.output[i] + chain.x[i + 1] + chain.y[i] + chain.y[i + 1] +
                              chain.backward_extra[i]);
  }
  return most;
}

double Percent(double seconds, const Chain& chain) {
  return 100 * (seconds / ChainSeconds(chain) - 1);
}

// Prints the overhead of a policy, and returns the schedule's lower bound.
double PrintOverhead(const std::string& policy, const Chain& chain) {
  const absl::StatusOr<ChainSchedule> schedule = MakeChainSchedule(policy, chain, {});
  if (!schedule.ok()) {
    std::printf(" %11s", "-");
    return 0;
  }
  if (absl::Status status = CheckChainSchedule(chain, *schedule); !status.ok()) {
    std::printf("\ninvalid: %s\n", std::string(status.message()).c_str());
    std::exit(1);
  }
  std::printf(" %10.1f%s", Percent(schedule->seconds, chain), schedule->proved ? "*" : " ");
  return policy == "pofo" ? schedule->lower_bound_seconds : 0;
}

void PrintRow(const char* label, const Chain& chain, const std::vector<std::string>& policies) {
  std::printf("%-9s", label);
  double bound = 0;
  for (const std::string& policy : policies) {
    bound = std::max(bound, PrintOverhead(policy, chain));
  }
  if (bound > 0) std::printf(" %10.1f", Percent(bound, chain));
  std::printf("\n");
  std::fflush(stdout);
}

void PrintCurve(const Network& network, const std::vector<std::string>& policies) {
  Chain chain = ChainOf(network);
  const std::int64_t peak = ChainPeak(chain);
  const std::int64_t least = LargestOperation(chain);
  std::printf(
      "\n%s, batch %ld, %ld px: %zu operations, %.2f GiB, %.1f ms. One operation needs 1/%.2f\n",
      network.name, static_cast<long>(network.batch), static_cast<long>(network.image),
      chain.forward_seconds.size(), static_cast<double>(peak) / kGib, ChainSeconds(chain) * 1e3,
      static_cast<double>(peak) / static_cast<double>(least));
  std::printf("%-9s", "memory");
  for (const std::string& policy : policies) std::printf(" %11s", policy.c_str());
  std::printf(" %10s\n", "bound");
  for (const int part : {2, 3, 4, 5, 6, 8, 10}) {
    chain.memory_bytes = peak / part;
    if (chain.memory_bytes < least) break;
    PrintRow(("1/" + std::to_string(part)).c_str(), chain, policies);
  }
  chain.memory_bytes = least;
  PrintRow("least", chain, policies);
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  std::vector<std::string> policies(argv + 1, argv + argc);
  if (policies.empty()) policies = tidepool::ChainPolicyNames();
  std::printf(
      "Overhead in %% over the time of all operations, for parts of the memory that all data "
      "takes.\n"
      "*: proved to be the least of the policy's class. -: does not run. bound: of pofo.\n");
  for (const tidepool::bench::Network& network : tidepool::bench::kNetworks) {
    tidepool::bench::PrintCurve(network, policies);
  }
  return 0;
}
