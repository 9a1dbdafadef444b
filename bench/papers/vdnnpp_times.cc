// SPDX-License-Identifier: Apache-2.0
// Claim: the times of vDNN++ (Shriram et al., "Dynamic memory management for GPU-based training of
// deep neural networks", IPDPS 2019) come out of the cost model and the simulator, beside the
// paper's: Tables I, III and IV, figures 5 and 6, and the relative improvement. All on a GTX 1080
// Ti unless told, with a link of 13.26 GB/s: the rate that Table I's transfer of 62 ms implies.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/pool_schedule.h"
#include "tests/support/vdnnpp_papers.h"
#include "tidepool/training/timeline.h"

namespace tidepool::bench {
namespace {

using testing::PaperMode;
using testing::PaperModel;
using testing::PaperTrace;

constexpr double kLink = 13.26e9;
constexpr double kMiB = 1024.0 * 1024;
constexpr std::int64_t kGib = std::int64_t{1} << 30;

TaskGraph Graph(const char* model, std::int64_t batch, std::int64_t image = 0,
                const char* gpu = "gtx-1080-ti") {
  ModelOptions options = PaperModel(batch, gpu);
  options.image = image;
  return MakeModel(model, options).value();
}

testing::PoolPolicy Mode(const std::string& mode, std::int64_t memory) {
  testing::PoolPolicy options = PaperMode(mode);
  options.machine.memory() = memory;
  options.machine.placing.placement = "planned";
  options.machine.SetRate(kLink);
  return options;
}

// Returns the milliseconds of an iteration; negative: it does not fit.
double Milliseconds(const char* policy, const TaskGraph& graph,
                    const testing::PoolPolicy& options) {
  const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule(policy, graph, options);
  if (!schedule.ok()) return -1;
  const absl::StatusOr<Timeline> timeline = Simulate(graph, *schedule, options.machine);
  return timeline.ok() ? timeline->seconds * 1e3 : -1;
}

double LeastWorkspaceSeconds(const TaskGraph& graph, const std::string& layer) {
  double seconds = 0;
  for (const GraphTask& task : graph.tasks) {
    if (task.layer == layer && task.phase != TaskPhase::kUpdate) {
      seconds += task.algorithms.front().seconds;
    }
  }
  return seconds;
}

// The paper's shares of the time that vDNN adds to `base`, which vDNN++ saves.
double Improvement(double base, double vdnn, double vdnnpp) {
  return 100 * (vdnn - vdnnpp) / (vdnn - base);
}

void PrintTableOne() {
  const TaskGraph vgg = Graph("vgg-16", 128, 112);
  const TaskGraph alternating = Graph("vdnnpp-table-3", 128, 112);
  const double bytes = 128.0 * 64 * 112 * 112 * 4;
  std::printf("Table I: 112x112x64, batch 128, forward and backward, ms, ours / the paper's\n");
  const auto row = [](const char* what, double seconds, int paper) {
    std::printf("  %-10s %6.1f / %3d\n", what, seconds * 1e3, paper);
  };
  row("POOL", LeastWorkspaceSeconds(vgg, "pool1"), 3);
  row("1x1 CONV", LeastWorkspaceSeconds(alternating, "conv2_1_fast"), 19);
  row("3x3 CONV", LeastWorkspaceSeconds(vgg, "conv1_2"), 80);
  row("5x5 CONV", LeastWorkspaceSeconds(alternating, "conv2_1_slow"), 200);
  row("Transfer", 2 * bytes / kLink, 62);
}

void PrintTableThree() {
  std::printf("\nTable III's network, ms: base(m), vDNN conv(m), vDNN++ conv(m), improvement\n");
  std::printf("  %-22s %6d %6d %6d %5.1f %%\n", "the paper's, \"batch 256\"", 2091, 2491, 2261,
              Improvement(2091, 2491, 2261));
  for (const std::int64_t batch : {64, 256}) {
    const TaskGraph graph = Graph("vdnnpp-table-3", batch);
    const testing::PoolPolicy options = Mode("conv(m)", 1024 * kGib);
    const double base = Milliseconds("none", graph, options);
    const double vdnn = Milliseconds("vdnn", graph, options);
    const double vdnnpp = Milliseconds("vdnn++", graph, options);
    const double needed = static_cast<double>(TotalsOf(graph).activations) / kGib;
    std::printf("  ours, batch %-9ld %6.0f %6.0f %6.0f %5.1f %%  (outputs alone: %.1f GiB)\n",
                static_cast<long>(batch), base, vdnn, vdnnpp, Improvement(base, vdnn, vdnnpp),
                needed);
  }
}

void PrintTableFour() {
  struct Row {
    const char* model;
    const char* mode;
    int vdnn;
    int vdnnpp;
  };
  std::printf("\nTable IV: 11 GB, batch 32, ms, ours / the paper's; - does not fit\n");
  std::printf("  %-8s %-11s %13s %13s\n", "", "", "vDNN", "vDNN++");
  for (const Row& row :
       {Row{"vgg-116", "dynamic(p)", 2717, 2468}, Row{"vgg-116", "conv(p)", 3055, 3018},
        Row{"vgg-116", "all(p)", 3170, 3129}, Row{"vgg-116", "aconv(p)", 2717, 2468},
        Row{"vgg-191", "dynamic(p)", 5139, 5097}, Row{"vgg-191", "conv(p)", 5139, 5097},
        Row{"vgg-191", "all(p)", 5244, 5209}, Row{"vgg-191", "aconv(p)", -1, -1}}) {
    const TaskGraph graph = Graph(row.model, 32);
    const testing::PoolPolicy options = Mode(row.mode, 11 * kGib);
    std::printf("  %-8s %-11s", row.model, row.mode);
    for (const auto& [policy, paper] :
         {std::pair("vdnn", row.vdnn), std::pair("vdnn++", row.vdnnpp)}) {
      const double ours = Milliseconds(policy, graph, options);
      const std::string text = ours < 0 ? "-" : std::to_string(static_cast<int>(ours + 0.5));
      const std::string theirs = paper < 0 ? "-" : std::to_string(paper);
      std::printf(" %6s / %4s", text.c_str(), theirs.c_str());
    }
    std::printf("\n");
  }
}

// Returns the peaks of live bytes before and after the step of the first backward task.
std::pair<std::int64_t, std::int64_t> Peaks(const TaskGraph& graph, const Schedule& schedule) {
  std::size_t turn = 0;
  while (schedule.steps[turn].kind != StepKind::kRun ||
         graph.tasks[schedule.steps[turn].index].phase == TaskPhase::kForward) {
    ++turn;
  }
  const Trace trace = ScheduleTrace(graph, schedule).value();
  std::pair<std::int64_t, std::int64_t> peaks;
  std::int64_t live = 0;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kAllocate) live += trace.allocations[event.index].bytes;
    if (event.kind == TraceEvent::Kind::kFree) live -= trace.allocations[event.index].bytes;
    auto& peak = static_cast<std::size_t>(event.time) < turn ? peaks.first : peaks.second;
    peak = std::max(peak, live);
  }
  return peaks;
}

void PrintFigureFive() {
  const TaskGraph graph = testing::PaperGraph("alexnet", 256);
  std::printf("\nFigure 5: AlexNet(256), peaks of vDNN forward and backward, MiB\n");
  for (const char* mode : {"conv(p)", "conv(m)", "all(p)", "all(m)"}) {
    const Schedule schedule = testing::MakePoolSchedule("vdnn", graph, PaperMode(mode)).value();
    const auto [forward, backward] = Peaks(graph, schedule);
    std::printf("  %-8s %6.0f %6.0f\n", mode, static_cast<double>(forward) / kMiB,
                static_cast<double>(backward) / kMiB);
  }
}

void PrintFigureSix() {
  const TaskGraph graph = Graph("vgg-16", 64);
  std::printf("\nFigure 6: VGG-16(64), forward, (m): computing and transfer of the input, ms\n");
  for (const GraphTask& task : graph.tasks) {
    const bool is_shown = task.phase == TaskPhase::kForward &&
                          (task.operation == "conv" || task.operation == "max-pool");
    if (!is_shown) continue;
    std::printf("  %-8s %7.2f %7.2f\n", task.layer.c_str(), task.algorithms.front().seconds * 1e3,
                static_cast<double>(graph.data[task.reads.front()].bytes) / kLink * 1e3);
  }
}

void PrintImprovements() {
  std::printf("\nRelative improvement, the paper: \"up to 60 %%\"\n");
  struct Row {
    const char* gpu;
    const char* model;
    std::int64_t batch;
    const char* mode;
  };
  for (const Row& row :
       {Row{"gtx-970", "alexnet", 128, "all(p)"}, Row{"gtx-1080-ti", "alexnet", 256, "all(m)"}}) {
    const TaskGraph graph = Graph(row.model, row.batch, 0, row.gpu);
    const testing::PoolPolicy options = Mode(row.mode, 1024 * kGib);
    const double base = Milliseconds("none", graph, options);
    const double vdnn = Milliseconds("vdnn", graph, options);
    const double vdnnpp = Milliseconds("vdnn++", graph, options);
    std::printf("  %-11s %s(%ld) %s: %.1f, %.1f, %.1f ms, %.1f %%\n", row.gpu, row.model,
                static_cast<long>(row.batch), row.mode, base, vdnn, vdnnpp,
                Improvement(base, vdnn, vdnnpp));
  }
}

}  // namespace
}  // namespace tidepool::bench

int main() {
  tidepool::bench::PrintTableOne();
  tidepool::bench::PrintTableThree();
  tidepool::bench::PrintTableFour();
  tidepool::bench::PrintFigureFive();
  tidepool::bench::PrintFigureSix();
  tidepool::bench::PrintImprovements();
}
