// SPDX-License-Identifier: Apache-2.0
// Claim: offloading and recomputation together reduce the memory of activations to a quarter or a
// sixth at less than 20 % more time (Beaumont, Eyraud-Dubois and Shilova, "Efficient Combination of
// Rematerialization and Offloading for Training DNNs", NeurIPS 2021), on a V100 with a link of 12.2
// GB/s. Prints the overhead of each chain policy over the time of all operations, for parts of the
// memory that the chain needs without any policy. Times come from the cost model.
//
// Three columns are `best` on the graph itself: tasks instead of the chain's operations, with
// recomputation, the same link with one transfer at a time, with fixed addresses, in pages, and in
// pages with copies in parts. A
// task that changes a result in place, as ReLU does, is joined with the task of the result. All
// tasks have their algorithms of the least workspace, as in the chain. The memory is the part of
// the chain's, and that of weights and their gradients. A schedule in
// which these stay needs room for the other data of the largest task beside them.
//
// Arguments: policies of chains; without any, all of them. With --graphs FOLDER, it writes the
// graphs for bench/papers/flow_bound.py, and prints the memories, instead of the curve.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/training/chain_policy.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::bench {
namespace {

constexpr double kLink = 12.2e9;
constexpr std::int64_t kPartBytes = std::int64_t{64} << 20;
constexpr int kParts[] = {2, 3, 4, 5, 6, 8};  // of the memory that all data takes
constexpr double kGib = 1024.0 * 1024 * 1024;

struct Network {
  const char* name;
  std::int64_t batch;
  std::int64_t image;
};
constexpr Network kNetworks[] = {{"resnet-152", 32, 224}, {"densenet-201", 32, 224},
                                 {"vgg-19", 32, 224},     {"inception-v3", 32, 299},
                                 {"resnet-152", 8, 500},  {"vgg-19", 8, 500}};

void AddAll(const std::vector<std::size_t>& from, std::vector<std::size_t>& to) {
  for (const std::size_t data : from) {
    if (std::find(to.begin(), to.end(), data) == to.end()) to.push_back(data);
  }
}

// Returns one task for `writer` and for `updater`, which changes its result `data` in place.
GraphTask Joined(const GraphTask& writer, const GraphTask& updater, std::size_t data) {
  GraphTask task = writer;
  AddAll(updater.reads, task.reads);
  AddAll(updater.writes, task.writes);
  AddAll(updater.updates, task.updates);
  std::erase(task.reads, data);
  std::erase(task.updates, data);
  for (TaskAlgorithm& algorithm : task.algorithms) {
    algorithm.seconds += updater.algorithms.front().seconds;
    algorithm.workspace_bytes =
        std::max(algorithm.workspace_bytes, updater.algorithms.front().workspace_bytes);
  }
  return task;
}

bool Uses(const GraphTask& task, std::size_t data) {
  const auto has = [&](const std::vector<std::size_t>& list) {
    return std::find(list.begin(), list.end(), data) != list.end();
  };
  return has(task.reads) || has(task.writes) || has(task.updates);
}

// Joins tasks of the forward phase that change the result of another task in place, such as ReLU,
// with that task: both run again together.
void JoinInPlace(TaskGraph& graph) {
  std::vector<GraphTask> tasks;
  for (GraphTask& task : graph.tasks) {
    for (std::size_t k = 0; task.phase == TaskPhase::kForward && k < task.updates.size();) {
      const std::size_t data = task.updates[k++];
      const auto user = std::find_if(tasks.rbegin(), tasks.rend(),
                                     [&](const GraphTask& other) { return Uses(other, data); });
      if (user == tasks.rend()) continue;
      const auto& writes = user->writes;
      if (std::find(writes.begin(), writes.end(), data) == writes.end()) continue;
      task = Joined(*user, task, data);
      tasks.erase(std::next(user).base());
      k = 0;
    }
    tasks.push_back(std::move(task));
  }
  graph.tasks = std::move(tasks);
}

// The paper's networks run batch normalisation again, as PyTorch does, though it changes the
// statistics twice.
TaskGraph GraphOf(const Network& network) {
  TaskGraph graph = MakeModel(network.name, {.batch = network.batch,
                                             .image = network.image,
                                             .gpu = "v100",
                                             .fused_batch_normalization = true,
                                             .inputs = DataHome::kDevice})
                        .value();
  JoinInPlace(graph);
  for (GraphTask& task : graph.tasks) {
    task.algorithms.resize(1);
    if (task.phase != TaskPhase::kForward) continue;
    AddAll(task.updates, task.reads);  // the statistics
    task.updates.clear();
    task.may_rerun = true;
  }
  return graph;
}

GraphChain ChainOf(const TaskGraph& graph) {
  GraphChain made = ToChain(graph, {.memory_bytes = std::int64_t{1} << 50,
                                    .link_bytes_per_second = kLink,
                                    .recomputation = true})
                        .value();
  made.chain.runs_once.clear();
  return made;
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

// Returns the most bytes of one task beside weights and their gradients.
std::int64_t LargestTask(const TaskGraph& graph) {
  std::int64_t most = 0;
  for (const GraphTask& task : graph.tasks) {
    std::int64_t bytes = task.algorithms.front().workspace_bytes;
    for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (const std::size_t data : *uses) {
        if (!ExistsAfter(graph.data[data])) bytes += graph.data[data].bytes;
      }
    }
    most = std::max(most, bytes);
  }
  return most;
}

double Percent(double seconds, const Chain& chain) {
  return 100 * (seconds / ChainSeconds(chain) - 1);
}

// Prints the overhead of a policy, and returns the schedule's lower bound.
double PrintOverhead(const std::string& policy, const Chain& chain) {
  const absl::StatusOr<ChainSchedule> schedule =
      MakeChainSchedule(policy, chain, {.time_limit_seconds = 1000});
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

struct GraphOverhead {
  double percent = 0;
  bool is_proved = false;
};
// The overheads of `best` on a graph; empty where it does not fit.
struct GraphOverheads {
  std::optional<GraphOverhead> fixed;
  std::optional<GraphOverhead> paged;
  std::optional<GraphOverhead> in_parts;  // and in pages
};

// Hands the schedule on to the request of the next memory.
std::optional<GraphOverhead> OverheadOf(const TaskGraph& graph, ScheduleRequest& request) {
  absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
  if (!made.ok()) return std::nullopt;
  const absl::StatusOr<Timeline> timeline = Simulate(*made);
  if (!timeline.ok()) return std::nullopt;
  std::get<BestOptions>(request.options).known = {std::move(made->schedule)};
  return GraphOverhead{100 * (timeline->seconds / made->ideal_seconds - 1), made->proved};
}

// Adds the schedules that `from` knows.
void AddKnown(const ScheduleRequest& from, ScheduleRequest& to) {
  const std::vector<Schedule>& known = std::get<BestOptions>(from.options).known;
  std::vector<Schedule>& all = std::get<BestOptions>(to.options).known;
  all.insert(all.end(), known.begin(), known.end());
}

// Returns the overheads in each memory.
std::map<std::int64_t, GraphOverheads> OverheadsOf(const TaskGraph& graph,
                                                   const std::set<std::int64_t>& memories) {
  ScheduleRequest fixed;
  fixed.machine.links.front() = {
      .out_bytes_per_second = kLink, .in_bytes_per_second = kLink, .full_duplex = false};
  // The work of two seconds, so that nothing depends on a clock.
  fixed.options = BestOptions{.time_limit_seconds = 1000, .work_seconds = 2};
  ScheduleRequest paged = fixed;
  paged.memory = ScheduleMemory::kPaged;
  ScheduleRequest in_parts = paged;
  std::get<BestOptions>(in_parts.options).part_bytes = kPartBytes;
  std::map<std::int64_t, GraphOverheads> overheads;
  for (const std::int64_t memory : memories) {
    for (ScheduleRequest* request : {&fixed, &paged, &in_parts}) {
      request->machine.devices.front().memory_bytes = memory;
    }
    GraphOverheads& found = overheads[memory];
    found.fixed = OverheadOf(graph, fixed);
    found.paged = OverheadOf(graph, paged);
    AddKnown(paged, in_parts);
    found.in_parts = OverheadOf(graph, in_parts);
  }
  return overheads;
}

void PrintGraphOverhead(const std::optional<GraphOverhead>& overhead) {
  if (overhead.has_value()) {
    std::printf(" %10.1f%s", overhead->percent, overhead->is_proved ? "*" : " ");
  } else {
    std::printf(" %11s", "-");
  }
}

// Prints the overheads in the chain's memory, and those of `best` on the graph.
void PrintRow(const std::string& label, const Chain& chain, const GraphOverheads& overheads,
              const std::vector<std::string>& policies) {
  std::printf("%-9s", label.c_str());
  double bound = 0;
  for (const std::string& policy : policies) bound = std::max(bound, PrintOverhead(policy, chain));
  PrintGraphOverhead(overheads.fixed);
  PrintGraphOverhead(overheads.paged);
  PrintGraphOverhead(overheads.in_parts);
  if (bound > 0) std::printf(" %10.1f", Percent(bound, chain));
  std::printf("\n");
  std::fflush(stdout);
}

void PrintClaim(const Network& network, int part, const GraphOverheads& overheads) {
  constexpr double kMostPercent = 20;
  const auto print = [&](const char* name, const std::optional<GraphOverhead>& overhead) {
    const bool is_held = overhead.has_value() && overhead->percent < kMostPercent;
    std::printf("%s: best in %s on the graph of %s, %ld px, in 1/%d at less than 20 %% more time: ",
                is_held ? "held" : "not held", name, network.name, static_cast<long>(network.image),
                part);
    overhead.has_value() ? std::printf("%.1f %%\n", overhead->percent)
                         : std::printf("does not fit\n");
  };
  print("pages", overheads.paged);
  print("parts", overheads.in_parts);
}

// Writes the graph to a folder, and prints the memory of each part.
void WriteMemories(const Network& network, const std::string& folder) {
  const TaskGraph graph = GraphOf(network);
  const GraphChain made = ChainOf(graph);
  const std::string path = absl::StrCat(folder, "/", network.name, "-", network.image, ".json");
  if (absl::Status status = WriteGraph(graph, path); !status.ok()) {
    std::printf("%s\n", std::string(status.message()).c_str());
    std::exit(1);
  }
  for (const int part : kParts) {
    std::printf("%s %ld\n", path.c_str(),
                static_cast<long>(made.resident_bytes + ChainPeak(made.chain) / part));
  }
}

void PrintCurve(const Network& network, const std::vector<std::string>& policies) {
  const TaskGraph graph = GraphOf(network);
  GraphChain made = ChainOf(graph);
  const std::int64_t peak = ChainPeak(made.chain);
  const std::int64_t least = LargestOperation(made.chain);
  const std::int64_t task = LargestTask(graph);
  std::printf(
      "\n%s, batch %ld, %ld px: %zu operations, %.2f GiB beside %.2f GiB of weights, %.1f ms. One "
      "operation needs 1/%.2f, one task %.3f GiB, 1/%.2f\n",
      network.name, static_cast<long>(network.batch), static_cast<long>(network.image),
      made.chain.forward_seconds.size(), static_cast<double>(peak) / kGib,
      static_cast<double>(made.resident_bytes) / kGib, ChainSeconds(made.chain) * 1e3,
      static_cast<double>(peak) / static_cast<double>(least), static_cast<double>(task) / kGib,
      static_cast<double>(peak) / static_cast<double>(task));
  std::printf("%-9s", "memory");
  for (const std::string& policy : policies) std::printf(" %11s", policy.c_str());
  std::printf(" %11s %11s %11s %10s\n", "graph: best", "in pages", "in parts", "bound");
  const auto whole_memory = [&](std::int64_t chain_memory) {
    return made.resident_bytes + chain_memory;
  };
  std::set<std::int64_t> memories = {whole_memory(least)};
  for (const int part : kParts) memories.insert(whole_memory(peak / part));
  const std::map<std::int64_t, GraphOverheads> overheads = OverheadsOf(graph, memories);
  for (const int part : kParts) {
    made.chain.memory_bytes = peak / part;
    PrintRow(absl::StrCat("1/", part), made.chain, overheads.at(whole_memory(peak / part)),
             policies);
  }
  made.chain.memory_bytes = least;
  PrintRow("least", made.chain, overheads.at(whole_memory(least)), policies);
  for (const int part : {4, 5, 6}) {
    PrintClaim(network, part, overheads.at(whole_memory(peak / part)));
  }
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  std::vector<std::string> policies(argv + 1, argv + argc);
  if (policies.size() == 2 && policies.front() == "--graphs") {
    for (const tidepool::bench::Network& network : tidepool::bench::kNetworks) {
      tidepool::bench::WriteMemories(network, policies.back());
    }
    return 0;
  }
  if (policies.empty()) policies = tidepool::ChainPolicyNames();
  std::printf(
      "Overhead in %% over the time of all operations, for parts of the memory that all data "
      "takes.\n"
      "*: proved to be the least of the policy's class. -: does not run. bound: of pofo. in parts: "
      "in pages, copies in parts of 64 MiB.\n");
  for (const tidepool::bench::Network& network : tidepool::bench::kNetworks) {
    tidepool::bench::PrintCurve(network, policies);
  }
  return 0;
}
