// SPDX-License-Identifier: Apache-2.0
// Claim: between recomputing everything and offloading everything, a schedule that chooses for each
// tensor is faster than both. Layers of Llama 3 8B in bfloat16 between the embedding and the head,
// on an H100 by its data sheet, for sequence lengths and rates of the link:
//
//     llama_layer_sweep [TOKENS...]
//
// - recompute: each result of a layer that may run again is dropped, and made again from the input
//   of the layer, which stays. Queries and keys, which rotate in place, stay too.
// - offload: each activation is sent after its last use before the backward pass; weights stay.
// - best: the policy of that name.
// All three are schedules of one graph in the same memory, the least in which the first two run,
// and are timed by the same simulator. The link copies in both directions at once.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "lib/training/models/networks.h"
#include "lib/training/simulate/makespan.h"
#include "policies/training/transfers/graph_steps.h"
#include "policies/training/transfers/rerun_order.h"
#include "policies/training/transfers/transfer_dispatch.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/program.h"

namespace tidepool::bench {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::int64_t kGranule = 512;
constexpr int kLayers[] = {1, 8};
constexpr double kLinks[] = {12e9, 25e9, 55e9};
constexpr double kEqual = 1e-9;

const GpuRates& H100() {
  const auto gpus = KnownGpus();
  return *std::find_if(gpus.begin(), gpus.end(),
                       [](const GpuRates& gpu) { return gpu.name == "h100"; });
}

TaskGraph MakeLayers(int layers, std::int64_t tokens) {
  const ModelOptions options = {
      .batch = 1, .precision = Precision::kBfloat16, .inputs = DataHome::kDevice};
  models::NetworkBuilder builder("llama-3-8b layers", options, H100());
  models::AddLlama(builder, tokens,
                   {.features = 4096,
                    .heads = 32,
                    .key_heads = 8,
                    .hidden = 14336,
                    .blocks = layers,
                    .shares_embedding = false});
  return std::move(builder).Finish().value().graph;
}

// One of the two extremes, on a graph.
struct Extreme {
  std::vector<transfers::TaskRun> runs;
  bool offloads = false;

  transfers::GraphProblem ProblemIn(const TaskGraph& graph, std::int64_t memory,
                                    const transfers::CopyRates& rates) const {
    return transfers::MakeGraphProblem(
        graph, runs, {.memory_bytes = memory, .granule = kGranule, .rates = rates});
  }
  // Weights stay, and all else that may leave does.
  bool Sends(const transfers::Absence& absence) const { return offloads && !absence.is_at_home; }
};

Extreme MakeExtreme(const TaskGraph& graph, bool offloads) {
  const transfers::RerunOrder order(graph, std::vector<std::size_t>(graph.tasks.size()));
  std::vector<bool> reruns(graph.tasks.size());
  for (std::size_t task = 0; task < reruns.size() && !offloads; ++task) {
    reruns[task] = order.CanRunAgain(task) && !graph.tasks[task].name.ends_with(".add2.forward");
  }
  return {order.Make(reruns), offloads};
}

// Returns the most bytes in use, with everything away that the schedule sends.
std::int64_t LeastMemory(const TaskGraph& graph, const Extreme& extreme) {
  const transfers::TransferProblem problem =
      extreme.ProblemIn(graph, 0, {.out_bytes_per_second = 1, .in_bytes_per_second = 1}).transfers;
  std::vector<std::int64_t> bytes = problem.running_bytes;
  for (const transfers::Absence& absence : problem.absences) {
    for (std::size_t k = absence.left; extreme.Sends(absence) && k < absence.needed; ++k) {
      bytes[k] -= absence.bytes;
    }
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

double SimulatedSeconds(const TaskGraph& graph, const Schedule& schedule, const Machine& machine) {
  const absl::StatusOr<Program> program = LowerSchedule({&graph, 1}, schedule, machine);
  if (!program.ok()) return kNever;
  return simulate::MakespanOf(*program);
}

Machine MachineWith(std::int64_t memory, double rate) {
  Machine machine;
  machine.devices.front().memory_bytes = memory;
  machine.links.front().out_bytes_per_second = machine.links.front().in_bytes_per_second = rate;
  return machine;
}

double SecondsOf(const TaskGraph& graph, const Extreme& extreme, const Machine& machine) {
  const double rate = machine.links.front().out_bytes_per_second;
  const transfers::GraphProblem problem =
      extreme.ProblemIn(graph, machine.devices.front().memory_bytes,
                        {.out_bytes_per_second = rate, .in_bytes_per_second = rate});
  std::vector<transfers::TransferAction> actions;
  std::vector<bool> is_away;
  for (const transfers::Absence& absence : problem.transfers.absences) {
    is_away.push_back(extreme.Sends(absence));
  }
  if (transfers::TransferDispatcher(problem.transfers).Run(is_away, &actions) == kNever)
    return kNever;
  Schedule schedule = transfers::MakeSteps(graph, extreme.runs, problem, actions);
  schedule.fingerprint = GraphFingerprint(graph);
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = kGranule;
  return SimulatedSeconds(graph, schedule, machine);
}

double BestSeconds(const TaskGraph& graph, const Machine& machine) {
  // The work of two seconds, so that the result depends on no clock.
  const ScheduleRequest request = {
      .machine = machine,
      .memory = ScheduleMemory::kPaged,
      .placing = {.alignment = kGranule},
      .options = BestOptions{.time_limit_seconds = 1000, .work_seconds = 2}};
  const absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
  return made.ok() ? SimulatedSeconds(graph, made->schedule, machine) : kNever;
}

struct Counts {
  int points = 0;
  int worse = 0;
  int better = 0;
  int ideal = 0;  // points at which one of both takes the ideal time, which nothing beats
};

void PrintRow(const TaskGraph& graph, const std::string& label, double rate, Counts& counts) {
  const Extreme recompute = MakeExtreme(graph, false);
  const Extreme offload = MakeExtreme(graph, true);
  const std::int64_t memory =
      (std::max(LeastMemory(graph, recompute), LeastMemory(graph, offload)) + kGranule - 1) /
      kGranule * kGranule;
  const Machine machine = MachineWith(memory, rate);
  const double ideal = TotalsOf(graph).least_seconds;
  const double recomputed = SecondsOf(graph, recompute, machine);
  const double offloaded = SecondsOf(graph, offload, machine);
  const double best = BestSeconds(graph, machine);
  const double other = std::min(recomputed, offloaded);
  ++counts.points;
  counts.worse += best > other * (1 + kEqual) ? 1 : 0;
  counts.ideal += other <= ideal * (1 + kEqual) ? 1 : 0;
  counts.better += best < other * (1 - kEqual) ? 1 : 0;
  std::printf("%s %5.0f %8.2f %9.2f %10.3f %10.3f %10.3f %10.3f\n", label.c_str(), rate / 1e9,
              static_cast<double>(memory) / (1 << 30), ideal * 1e3, recomputed / ideal,
              offloaded / ideal, best / ideal, best / other);
  std::fflush(stdout);
}

int Main(const std::vector<std::string>& arguments) {
  std::vector<std::int64_t> lengths;
  for (const std::string& text : arguments) lengths.push_back(std::atoll(text.c_str()));
  if (lengths.empty()) lengths = {1024, 2048, 4096, 8192, 16384, 32768, 65536};
  std::printf("Times by the ideal, all data in memory.\n%6s %7s %5s %8s %9s %10s %10s %10s %10s\n",
              "layers", "tokens", "GB/s", "GiB", "ideal ms", "recompute", "offload", "best",
              "by better");
  Counts counts;
  for (const int layers : kLayers) {
    for (const std::int64_t tokens : lengths) {
      const TaskGraph graph = MakeLayers(layers, tokens);
      const std::string label = absl::StrFormat("%6d %7d", layers, tokens);
      for (const double rate : kLinks) PrintRow(graph, label, rate, counts);
    }
  }
  std::printf("%s: best is never worse than the better of both: %d of %d points are worse\n",
              counts.worse == 0 ? "held" : "not held", counts.worse, counts.points);
  std::printf("%s: best is faster than both: at %d of %d points; at %d one of both is ideal\n",
              counts.better + counts.ideal == counts.points ? "held" : "not held", counts.better,
              counts.points, counts.ideal);
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main({argv + 1, argv + argc}); }
