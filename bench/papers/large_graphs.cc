// SPDX-License-Identifier: Apache-2.0
// The time that `best` takes for graphs of thousands of small tasks, as programs of PyTorch have
// them, by its time limit:
//
//     large_graphs [--tasks N,...] [--limits SECONDS,...]
//
// prints the seconds from the call to the answer, the time over the ideal, and the end of the
// search. Preload tests/trace_replay/commands/slow_clock.cc for a clock of processor time.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/support/schedule_request.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::bench {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kWeightBytes = 2 * kMiB;
constexpr double kLinkRate = 48e9;

struct Operation {
  std::string name;
  std::size_t input = 0;
  std::size_t output = 0;
  std::size_t weight = 0;  // 0: none
};

// Makes a network of residual blocks in which each fifth operation has a weight.
class Network {
 public:
  explicit Network(std::size_t tasks) {
    graph_.name = absl::StrCat(tasks, " tasks");
    std::size_t activation = AddData("input", 8 * kMiB, DataKind::kInput);
    // A fifth of the operations has four tasks, the others two; the loss is one.
    for (std::size_t i = 0; i < tasks * 5 / 12; ++i) activation = AddForward(i, activation);
    std::size_t gradient = AddData("loss.gradient", 8 * kMiB, DataKind::kGradient);
    AddTask("loss", TaskPhase::kForward, {activation}, {gradient});
    for (std::size_t i = operations_.size(); i-- > 0;) {
      gradient = AddBackward(operations_[i], gradient);
    }
    for (const auto& [weight, own] : updates_) {
      AddTask(absl::StrCat(graph_.data[weight].name, ".update"), TaskPhase::kUpdate, {own}, {});
      graph_.tasks.back().updates = {weight};
    }
  }

  const TaskGraph& graph() const { return graph_; }

 private:
  std::size_t AddData(const std::string& name, std::int64_t bytes, DataKind kind) {
    graph_.data.push_back({name, bytes, kind});
    return graph_.data.size() - 1;
  }

  void AddTask(const std::string& name, TaskPhase phase, std::vector<std::size_t> reads,
               std::vector<std::size_t> writes) {
    constexpr double kSeconds[] = {5e-6, 8e-6, 2e-5, 1e-4};
    graph_.tasks.push_back({.name = name,
                            .phase = phase,
                            .reads = std::move(reads),
                            .writes = std::move(writes),
                            .algorithms = {{"only", kSeconds[random_() % 4], 0}}});
    graph_.tasks.back().may_rerun = phase != TaskPhase::kUpdate;
  }

  std::size_t AddForward(std::size_t number, std::size_t input) {
    constexpr std::int64_t kSizes[] = {1, 4, 8, 8, 16};
    Operation one = {.name = absl::StrCat("operation ", number), .input = input};
    std::vector<std::size_t> reads = {input};
    if (number % kBlock == 0) block_input_ = input;
    if (number % kBlock == kBlock - 1) reads.push_back(block_input_);
    if (number % 5 == 0) {
      one.weight = AddData(one.name + ".weight", kWeightBytes, DataKind::kWeight);
      reads.push_back(one.weight);
    }
    one.output = AddData(one.name + ".output", kSizes[random_() % 5] * kMiB, DataKind::kActivation);
    AddTask(one.name + ".forward", TaskPhase::kForward, std::move(reads), {one.output});
    operations_.push_back(one);
    return operations_.back().output;
  }

  std::size_t AddBackward(const Operation& one, std::size_t gradient) {
    const std::size_t own =
        AddData(one.name + ".gradient", graph_.data[one.input].bytes, DataKind::kGradient);
    AddTask(one.name + ".backward", TaskPhase::kBackward, {gradient, one.input, one.output}, {own});
    if (one.weight > 0) {
      const std::size_t of_weight =
          AddData(one.name + ".weight.gradient", kWeightBytes, DataKind::kWeightGradient);
      AddTask(one.name + ".backward of weight", TaskPhase::kBackward, {gradient, one.input},
              {of_weight});
      updates_.emplace_back(one.weight, of_weight);
    }
    return own;
  }

  static constexpr std::size_t kBlock = 50;  // operations
  std::size_t block_input_ = 0;
  std::mt19937_64 random_;
  TaskGraph graph_;
  std::vector<Operation> operations_;
  std::vector<std::pair<std::size_t, std::size_t>> updates_;  // weights, and their gradients
};

std::int64_t PeakOf(const TaskGraph& graph) {
  const ScheduleRequest request = RequestFor(std::int64_t{1} << 50, kLinkRate);
  return Simulate(MakeSchedule("none", graph, request).value())->peak_device_bytes;
}

void Ask(const TaskGraph& graph, std::int64_t percent, std::int64_t peak, double limit) {
  using Clock = std::chrono::steady_clock;
  ScheduleRequest request = RequestFor(peak / 100 * percent, kLinkRate);
  request.options = BestOptions{.time_limit_seconds = limit, .recomputes = true};
  const Clock::time_point begin = Clock::now();
  const absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  std::printf("%6zu tasks  %2d %%  limit %4.1f s: %5.2f s, ", graph.tasks.size(),
              static_cast<int>(percent), limit, seconds.count());
  if (!made.ok()) {
    std::printf("no schedule\n");
    return;
  }
  std::printf("%.4f times the ideal, ended by %s\n", Simulate(*made)->seconds / made->ideal_seconds,
              std::string(EndedByName(made->ended_by)).c_str());
}

int Main(int argc, char** argv) {
  std::vector<std::size_t> tasks = {2'000, 4'000, 10'000};
  std::vector<double> limits = {0.2, 1, 2, 5};
  CLI::App app("Asks `best` for schedules of large graphs.");
  app.add_option("--tasks", tasks, "Tasks of the graphs")->delimiter(',');
  app.add_option("--limits", limits, "Time limits, in seconds")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  for (const std::size_t count : tasks) {
    const Network network(count);
    const std::int64_t peak = PeakOf(network.graph());
    for (const std::int64_t percent : {35, 60}) {
      for (const double limit : limits) Ask(network.graph(), percent, peak, limit);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }
