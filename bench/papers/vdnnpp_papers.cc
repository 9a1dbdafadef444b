// SPDX-License-Identifier: Apache-2.0
// Claim: the figures of vDNN++ (Shriram et al., "Dynamic memory management for GPU-based training
// of deep neural networks", IPDPS 2019) that follow from its text come out, and vDNN++ is never
// slower than vDNN at the same memory. Prints ours beside the paper's.
//
//   vdnnpp_papers tables     Tables II and V, and the smallest pool with planned placement
//   vdnnpp_papers base       the base manager of the paper
//   vdnnpp_papers figure     figure 9: time of the ideal over time of each mode
//   vdnnpp_papers compare    vDNN++ against vDNN: every network, mode and link
#include "tests/support/vdnnpp_papers.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/pool_schedule.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_plan.h"
#include "tidepool/training/timeline.h"

namespace tidepool::bench {
namespace {

using testing::PaperGraph;
using testing::PaperMode;
using testing::PaperTrace;

constexpr double kMiB = 1024.0 * 1024;
const std::vector<std::string> kModes = {"conv(p)", "conv(m)",  "all(p)",
                                         "all(m)",  "aconv(p)", "aconv(m)"};

double SmallestPool(const Trace& trace, const char* placement) {
  const auto policy = MakePlacementPolicy(placement).value();
  return static_cast<double>(MinimumPool(trace, *policy, {.most_steps = 0})->pool_bytes);
}

// A row of the paper; 0: no value.
struct TableRow {
  const char* model;
  std::int64_t batch;
  const char* mode;
  int aggregate;
  int actual;       // Table II
  int best_fit[2];  // Table V: prefetch-first, derivative-first
  int high_end[2];
};
constexpr TableRow kRows[] = {
    {"alexnet", 128, "conv(p)", 1188, 1844, {}, {}},
    {"alexnet", 128, "conv(m)", 710, 1121, {}, {}},
    {"alexnet", 128, "all(p)", 1113, 1769, {}, {}},
    {"alexnet", 128, "all(m)", 667, 987, {}, {}},
    {"vgg16", 16, "conv(p)", 1610, 2231, {}, {}},
    {"vgg16", 16, "conv(m)", 1323, 1893, {}, {}},
    {"vgg16", 16, "all(p)", 1414, 2035, {}, {}},
    {"vgg16", 16, "all(m)", 1323, 1697, {}, {}},
    {"alexnet", 256, "conv(p)", 1934, 0, {2101, 2185}, {2177, 2114}},
    {"alexnet", 256, "conv(m)", 1184, 0, {1452, 1476}, {1427, 1465}},
    {"alexnet", 256, "all(p)", 1783, 0, {2126, 2050}, {2037, 2020}},
    {"alexnet", 256, "all(m)", 1100, 0, {1375, 1361}, {1570, 1362}},
    {"alexnet", 256, "aconv(p)", 1934, 0, {2162, 2162}, {2121, 2183}},
    {"alexnet", 256, "aconv(m)", 1184, 0, {1374, 1379}, {1472, 1534}},
    {"vgg16", 64, "conv(p)", 7243, 0, {7831, 7439}, {8223, 7372}},
    {"vgg16", 64, "conv(m)", 3715, 0, {4302, 4107}, {4106, 3751}},
    {"vgg16", 64, "all(p)", 7243, 0, {7341, 8105}, {7341, 7519}},
    {"vgg16", 64, "all(m)", 3715, 0, {3812, 4795}, {3812, 4795}},
    {"vgg16", 64, "aconv(p)", 7243, 0, {8027, 7829}, {7635, 7831}},
    {"vgg16", 64, "aconv(m)", 4010, 0, {4155, 4073}, {4302, 4106}},
};

void PrintCell(double ours, int paper) {
  if (paper == 0) {
    std::printf("  %6.0f /    -", ours / kMiB);
  } else {
    std::printf("  %6.0f / %4d", ours / kMiB, paper);
  }
}

void PrintTables() {
  constexpr double kContext = 179.5 * kMiB;  // of the GPU, in Table II
  std::printf("MiB, ours / the paper's\n");
  std::printf("%-22s %14s %14s %14s %14s %14s %14s %9s\n", "", "aggregate", "CNMeM grown",
              "best-fit", "best-fit", "high-end", "high-end", "planned");
  std::printf("%-22s %14s %14s %14s %14s %14s %14s\n", "", "", "", "prefetch 1st", "derivat. 1st",
              "prefetch 1st", "derivat. 1st");
  for (const TableRow& row : kRows) {
    const TaskGraph graph = PaperGraph(row.model, row.batch);
    std::printf("%-8s %3ld %-9s", row.model, static_cast<long>(row.batch), row.mode);
    std::vector<Trace> traces;
    for (const auto order : {AllocationOrder::kPrefetchFirst, AllocationOrder::kDerivativeFirst}) {
      testing::PoolPolicy options = PaperMode(row.mode);
      options.order = order;
      traces.push_back(PaperTrace(graph, options));
    }
    const std::int64_t aggregate = MeasureLoad(traces[0], 512)->peak_live_bytes;
    PrintCell(static_cast<double>(aggregate), row.aggregate);
    PrintCell(static_cast<double>(testing::GrownBySeparatePools(traces[0], aggregate)) + kContext,
              row.actual);
    for (int i = 0; i < 2; ++i) PrintCell(SmallestPool(traces[i], "best-fit"), row.best_fit[i]);
    for (int i = 0; i < 2; ++i) {
      PrintCell(SmallestPool(traces[i], "high-end-offload"), row.high_end[i]);
    }
    const Plan plan =
        MakePlan(ToPlanProblem(traces[0], 512).value(), {.time_limit_seconds = 5}).value();
    std::printf("  %6.0f %s\n", static_cast<double>(plan.height) / kMiB,
                plan.optimal ? "" : "(not proved to be the smallest)");
  }
}

// Returns the bytes of the base manager, and those of its data that is live at the peak.
std::pair<std::int64_t, std::int64_t> BaseBytes(const TaskGraph& graph, const char* mode) {
  const testing::PoolPolicy options = PaperMode(mode);
  const Schedule base = testing::MakePoolSchedule("base", graph, options).value();
  const Schedule none = testing::MakePoolSchedule("none", graph, options).value();
  return {Simulate(graph, base, options.machine)->pool_bytes,
          MeasureLoad(ScheduleTrace(graph, none).value(), 512)->peak_live_bytes};
}

// The paper has no numbers in the rows `base` of Table V; its text has four.
void PrintBase() {
  struct Row {
    const char* model;
    std::int64_t batch;
    const char* paper;
  };
  std::printf(
      "MiB of the base manager, and live at its peak if data is freed after its last use\n");
  std::printf("%-14s %8s %8s %8s %8s   %s\n", "", "base(m)", "live", "base(p)", "live",
              "the paper");
  for (const Row& row :
       {Row{"alexnet", 128, "1.1 GB"}, Row{"alexnet", 256, ""}, Row{"vgg16", 16, ""},
        Row{"vgg16", 64, ""}, Row{"vgg116", 32, "about 20 GB"}, Row{"vgg191", 32, "about 30 GB"},
        Row{"resnet-152", 4, "5 GB, of no manager that it names"}}) {
    const TaskGraph graph =
        MakeModel(row.model, testing::PaperModel(row.batch, "gtx-1080-ti")).value();
    std::printf("%-10s %3ld", row.model, static_cast<long>(row.batch));
    for (const char* mode : {"conv(m)", "conv(p)"}) {
      const auto [base, live] = BaseBytes(graph, mode);
      std::printf(" %8.0f %8.0f", static_cast<double>(base) / kMiB,
                  static_cast<double>(live) / kMiB);
    }
    std::printf("   %s\n", row.paper);
  }
}

double Seconds(const char* policy, const TaskGraph& graph, const testing::PoolPolicy& options) {
  const absl::StatusOr<Schedule> schedule = testing::MakePoolSchedule(policy, graph, options);
  if (!schedule.ok()) return -1;
  const absl::StatusOr<Timeline> timeline = Simulate(graph, *schedule, options.machine);
  return timeline.ok() ? timeline->seconds : -1;
}

void PrintFigure() {
  struct Gpu {
    const char* name;
    std::int64_t bytes;
  };
  std::printf("time of the ideal / time; link of 12 GB/s; * does not fit the GPU's memory\n");
  for (const Gpu& gpu :
       {Gpu{"gtx-970", std::int64_t{4} << 30}, Gpu{"gtx-1080-ti", std::int64_t{11} << 30}}) {
    std::printf("\n%-22s", gpu.name);
    for (const std::string& mode : kModes) std::printf("  %15s", mode.c_str());
    std::printf("\n%-22s", "");
    for (std::size_t i = 0; i < kModes.size(); ++i) std::printf("  %7s %7s", "vDNN", "vDNN++");
    std::printf("\n");
    for (const auto& [model, batch] : std::vector<std::pair<const char*, int>>{{"alexnet", 128},
                                                                               {"alexnet", 256},
                                                                               {"vgg16", 16},
                                                                               {"vgg16", 64},
                                                                               {"vgg116", 16},
                                                                               {"vgg191", 16}}) {
      const TaskGraph graph = MakeModel(model, testing::PaperModel(batch, gpu.name)).value();
      const double ideal = TotalsOf(graph).least_seconds;
      std::printf("%-18s %3d", model, batch);
      for (const std::string& mode : kModes) {
        testing::PoolPolicy options = PaperMode(mode);
        options.machine.memory() = gpu.bytes;
        for (const char* policy : {"vdnn", "vdnn++"}) {
          const double seconds = Seconds(policy, graph, options);
          if (seconds < 0) {
            std::printf(" %8s", "*");
          } else {
            std::printf(" %8.3f", ideal / seconds);
          }
        }
      }
      std::printf("\n");
    }
  }
}

// Uses the least memory that vDNN needs under best-fit. vDNN++ takes the better of two placements.
int Compare() {
  int compared = 0;
  int refused = 0;
  int slower = 0;
  int slower_best_fit = 0;
  int slower_planned = 0;
  double most_gained = 0;
  std::string most_gained_by;
  for (const std::string& model : KnownModels()) {
    const TaskGraph graph = MakeModel(model, {.batch = 16, .gpu = "gtx-1080-ti"}).value();
    for (const std::string& mode : kModes) {
      testing::PoolPolicy options = PaperMode(mode);
      const Trace trace = PaperTrace(graph, options);
      options.machine.memory() = static_cast<std::int64_t>(SmallestPool(trace, "best-fit"));
      for (const double link : {4e9, 8e9, 12e9, 16e9, 32e9, 64e9}) {
        options.machine.SetRate(link);
        options.machine.placing.placement = "best-fit";
        const double vdnn = Seconds("vdnn", graph, options);
        const double best_fit = Seconds("vdnn++", graph, options);
        options.machine.placing.placement = "planned";
        const double planned = Seconds("vdnn++", graph, options);
        const double vdnnpp = std::min(best_fit, planned);
        slower_best_fit += best_fit > vdnn * (1 + 1e-9) ? 1 : 0;
        slower_planned += planned > vdnn * (1 + 1e-9) ? 1 : 0;
        ++compared;
        if (vdnnpp < 0) {
          ++refused;
          std::printf("%s %s %.0f GB/s: vDNN++ does not fit\n", model.c_str(), mode.c_str(),
                      link / 1e9);
        } else if (vdnnpp > vdnn * (1 + 1e-9)) {
          ++slower;
          std::printf("%s %s %.0f GB/s: vDNN %.6f s, vDNN++ %.6f s\n", model.c_str(), mode.c_str(),
                      link / 1e9, vdnn, vdnnpp);
        } else if (1 - vdnnpp / vdnn > most_gained) {
          most_gained = 1 - vdnnpp / vdnn;
          most_gained_by = model + " " + mode + " " + std::to_string(link / 1e9);
        }
      }
    }
  }
  std::printf(
      "%d compared: vDNN++ is slower in %d and does not fit in %d (slower in %d under best-fit, "
      "in %d planned); it takes up to %.1f %% less time (%s GB/s)\n",
      compared, slower, refused, slower_best_fit, slower_planned, most_gained * 100,
      most_gained_by.c_str());
  return slower + refused == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  if (what == "tables") return PrintTables(), 0;
  if (what == "base") return PrintBase(), 0;
  if (what == "figure") return PrintFigure(), 0;
  if (what == "compare") return Compare();
  std::fprintf(stderr, "vdnnpp_papers: expected tables, base, figure or compare\n");
  return 1;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }
