// SPDX-License-Identifier: Apache-2.0
// `best` against the optimum of small graphs, which an exact search finds:
//
//     small_graphs [--graphs N] [--seed S] [--seconds S] [--unit BYTES] [--list]
//
// Graphs have 4 to 8 tasks: as many forward as backward, half of them with a loss, skips and
// workspaces. Memories lie between the largest task and the peak without a policy. A copy of a unit
// takes 1 to 3 seconds, a task 1 to 16. One third of the links has one copy at a time, and half of
// the requests let tasks run again. Searches end by the work of S seconds. With fixed addresses,
// times are compared with the optimum in pages too: no schedule is faster.
#include "tests/support/exact_search/small_graphs.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>

#include "CLI/CLI.hpp"
#include "tests/support/exact_search/exact_training.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::bench {
namespace {

constexpr double kEqual = 1e-9;
constexpr std::size_t kMostStates = 6'000'000;

struct Choices {
  int graphs = 150;
  std::uint64_t seed = 1;
  double seconds = 2;
  std::int64_t unit = 512;
  bool list = false;  // the graphs in which an answer is not optimal
};

struct Case {
  TaskGraph graph;
  Machine machine;
  bool recomputes = true;
};

std::int64_t PeakOf(const TaskGraph& graph) {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = std::int64_t{1} << 50;
  return Simulate(MakeSchedule("none", graph, request).value())->peak_device_bytes;
}

Case MakeCase(testing::SmallGraphs& random, std::int64_t unit) {
  const int tasks = random.From(4, 8);
  Case made;
  made.graph = random.Make({.layers = static_cast<std::size_t>(tasks / 2),
                            .unit = unit,
                            .has_loss = tasks % 2 == 1,
                            .has_skips = random.Chance(50),
                            .has_workspaces = random.Chance(50),
                            .input = random.Chance(50) ? DataHome::kHost : DataHome::kDevice});
  const std::int64_t least = TotalsOf(made.graph).largest_task / unit;
  const std::int64_t most = std::max(PeakOf(made.graph) / unit - 1, least);
  made.machine.devices.front().memory_bytes =
      unit * random.From(static_cast<int>(least), static_cast<int>(most));
  MachineLink& link = made.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second =
      static_cast<double>(unit) / random.From(1, 3);
  link.full_duplex = random.Chance(67);
  made.recomputes = random.Chance(50);
  return made;
}

class Count {
 public:
  explicit Count(const char* name) : name_(name) {}

  // Returns whether the answer is optimal.
  bool Add(const absl::StatusOr<MadeSchedule>& made, double optimum) {
    ++graphs_;
    const double seconds = made.ok() ? Simulate(*made)->seconds : kNever;
    const bool is_optimal = seconds <= optimum * (1 + kEqual);
    optimal_ += is_optimal ? 1 : 0;
    faster_ += seconds < optimum * (1 - kEqual) ? 1 : 0;
    if (!made.ok()) {
      ++without_;
      return false;
    }
    sum_ += seconds / optimum;
    worst_ = std::max(worst_, seconds / optimum);
    proved_ += made->proved ? 1 : 0;
    false_proofs_ += made->proved && !is_optimal ? 1 : 0;
    high_bounds_ += made->lower_bound_seconds > optimum * (1 + kEqual) ? 1 : 0;
    return is_optimal;
  }

  void Print() const {
    const auto percent = [&](int count) { return 100.0 * count / graphs_; };
    std::printf(
        "%-6s %4d graphs: optimal %4d (%5.1f %%), time / optimum mean %.4f, most %.3f, no schedule "
        "%d, proved %d (%.1f %%), false proofs %d, bounds above the optimum %d, faster %d\n",
        name_, graphs_, optimal_, percent(optimal_), sum_ / std::max(1, graphs_ - without_), worst_,
        without_, proved_, percent(proved_), false_proofs_, high_bounds_, faster_);
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const char* name_;
  int graphs_ = 0;
  int optimal_ = 0;
  int faster_ = 0;
  int without_ = 0;
  int proved_ = 0;
  int false_proofs_ = 0;
  int high_bounds_ = 0;
  double sum_ = 0;
  double worst_ = 1;
};

absl::StatusOr<MadeSchedule> AskBest(const Choices& choices, const Case& one,
                                     ScheduleMemory memory) {
  ScheduleRequest request = {.machine = one.machine, .memory = memory};
  request.placing.alignment = choices.unit;
  request.options = BestOptions{
      .time_limit_seconds = 1000, .work_seconds = choices.seconds, .recomputes = one.recomputes};
  return MakeSchedule("best", one.graph, request);
}

void List(const char* name, int number, const Case& one, const absl::StatusOr<MadeSchedule>& made,
          double optimum) {
  const Machine& machine = one.machine;
  std::printf("graph %d, %s: %g seconds, optimum %g, %zu tasks, memory %lld, link %g, %s, %s\n",
              number, name, made.ok() ? Simulate(*made)->seconds : -1, optimum,
              one.graph.tasks.size(), static_cast<long long>(machine.devices[0].memory_bytes),
              machine.links[0].out_bytes_per_second,
              machine.links[0].full_duplex ? "both ways" : "one way",
              one.recomputes ? "may run again" : "runs once");
  std::fflush(stdout);
}

void Run(const Choices& choices) {
  testing::SmallGraphs random(choices.seed);
  Count pages("pages");
  Count fixed("fixed");
  int infeasible = 0;
  int too_many = 0;
  for (int number = 0; number < choices.graphs; ++number) {
    const Case one = MakeCase(random, choices.unit);
    const testing::ExactTrainingAnswer exact =
        testing::SearchTrainingExactly({.graph = one.graph,
                                        .machine = one.machine,
                                        .unit = choices.unit,
                                        .recomputes = one.recomputes},
                                       kMostStates);
    infeasible += exact.kind == testing::ExactAnswer::Kind::kNoSchedule ? 1 : 0;
    too_many += exact.kind == testing::ExactAnswer::Kind::kTooManyStates ? 1 : 0;
    if (exact.kind != testing::ExactAnswer::Kind::kOptimum) continue;
    for (const auto& [memory, count] :
         {std::pair(ScheduleMemory::kPaged, &pages), std::pair(ScheduleMemory::kFixed, &fixed)}) {
      const absl::StatusOr<MadeSchedule> made = AskBest(choices, one, memory);
      const bool is_optimal = count->Add(made, exact.seconds);
      if (choices.list && !is_optimal) {
        List(ScheduleMemoryName(memory).data(), number, one, made, exact.seconds);
      }
    }
  }
  std::printf(
      "%d graphs, units of %lld bytes, %g seconds of work: %d have no schedule, %d are too "
      "large for the exact search\n",
      choices.graphs, static_cast<long long>(choices.unit), choices.seconds, infeasible, too_many);
  pages.Print();
  fixed.Print();
}

int Main(int argc, char** argv) {
  Choices choices;
  CLI::App app("Compares best with the optimum of small graphs");
  app.add_option("--graphs", choices.graphs, "Random graphs");
  app.add_option("--seed", choices.seed, "Of the graphs");
  app.add_option("--seconds", choices.seconds, "Seconds of work for each answer");
  app.add_option("--unit", choices.unit, "Bytes of a unit of memory");
  app.add_flag("--list", choices.list, "Name the answers that are not optimal");
  CLI11_PARSE(app, argc, argv);
  Run(choices);
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }
