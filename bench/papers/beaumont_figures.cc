// SPDX-License-Identifier: Apache-2.0
// Draws figures 5 to 12 (ratios of makespan and lower bound) and 13 to 19 (throughput) of Beaumont
// et al., "Optimal GPU-CPU Offloading Strategies for Deep Neural Network Training", Euro-Par 2020,
// and holds the claims of the text against them:
//
//     beaumont_figures FOLDER [--all] [POLICY...]
//
// writes points.csv and figure-05.svg to figure-19.svg. Without --all it takes four networks of
// figure 5 and six memories, in some seconds. Without names all chain policies run, with those that
// recompute and `best` in two forms: "best-recompute" may also run operations again. The
// paper measured its chains on a V100 with a link of 12.2 GB/s; these are those of the zoo's graphs
// and its cost model. Its batches are not in the text: powers of two are used. "dynprog" has 500
// slots, as in the paper; "dynprog-exact" has none.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/support/chain_claims.h"
#include "bench/support/line_plots.h"
#include "tidepool/training/chain_policy.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::bench {
namespace {

constexpr double kLinkRate = 12.2e9;
constexpr std::int64_t kSlots = 500;
// The search of policies with a time limit, for each point.
constexpr double kSearchSeconds = 0.25;

struct Family {
  const char* name;
  std::vector<std::string> models;
};
const std::vector<Family>& Families() {
  static const auto* const families = new std::vector<Family>{
      {"ResNet", {"resnet-18", "resnet-34", "resnet-50", "resnet-101", "resnet-152"}},
      {"DenseNet", {"densenet-121", "densenet-161", "densenet-169", "densenet-201"}},
      {"Inception", {"inception-v3"}}};
  return *families;
}

// The networks and limits of a run.
struct Extent {
  std::vector<std::string> models;  // empty: all
  std::vector<std::int64_t> pixels = {224, 500, 1000};
  std::vector<std::int64_t> batches;  // empty: all
  int step_percent = 5;

  bool Has(const std::string& model, std::int64_t batch) const {
    const auto has = [](const auto& list, const auto& value) {
      return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
    };
    return has(models, model) && has(batches, batch);
  }
};
Extent SmallExtent() {
  return {.models = {"resnet-18", "resnet-101", "densenet-121", "inception-v3"},
          .pixels = {224},
          .batches = {32},
          .step_percent = 20};
}

std::vector<std::int64_t> BatchesAt(std::int64_t pixels) {
  if (pixels == 224) return {16, 32, 64, 128};
  if (pixels == 500) return {4, 8, 16, 32};
  return {1, 2, 4, 8};
}

std::vector<Case> MakeCases(const Extent& extent) {
  std::vector<Case> cases;
  for (const Family& family : Families()) {
    for (const std::string& model : family.models) {
      for (const std::int64_t pixels : extent.pixels) {
        for (const std::int64_t batch : BatchesAt(pixels)) {
          if (!extent.Has(model, batch)) continue;
          const TaskGraph graph =
              MakeModel(model, {.batch = batch, .image = pixels, .gpu = "v100"}).value();
          const ChainOptions options = {.memory_bytes = std::int64_t{1} << 50,
                                        .link_bytes_per_second = kLinkRate};
          cases.push_back({model, pixels, batch, ToChain(graph, options).value().chain});
        }
      }
    }
  }
  return cases;
}

Point Measure(const Case& of, const std::string& policy, int percent) {
  Chain chain = of.chain;
  const std::int64_t least = LeastChainMemory(chain);
  chain.memory_bytes = least + (ChainPeak(chain) - least) * percent / 100;
  const bool has_slots = policy == "dynprog";
  const bool recomputes = policy == "best-recompute";
  const std::string name = policy == "dynprog-exact" ? "dynprog" : recomputes ? "best" : policy;
  const auto schedule = MakeChainSchedule(name, chain,
                                          {.slots = has_slots ? kSlots : 0,
                                           .time_limit_seconds = kSearchSeconds,
                                           .recomputes = recomputes});
  Point point = {.of = &of,
                 .policy = policy,
                 .percent = percent,
                 .memory_bytes = chain.memory_bytes,
                 .paper_bound = ChainLowerBound(chain),
                 .bound = ChainOperationBound(chain),
                 .seconds = std::nullopt};
  if (!schedule.ok()) return point;
  if (absl::Status status = CheckChainSchedule(chain, *schedule); !status.ok()) {
    std::printf("%s, %s: %s\n", point.Name().c_str(), policy.c_str(), status.ToString().c_str());
  }
  point.seconds = schedule->seconds;
  point.transfers_alone = RecomputedIndices(*schedule).empty();
  if (!point.transfers_alone) point.bound = schedule->lower_bound_seconds;
  return point;
}

std::vector<Point> MeasureAll(const std::vector<Case>& cases,
                              const std::vector<std::string>& policies, int step_percent) {
  std::vector<Point> points;
  for (const Case& of : cases) {
    for (const std::string& policy : policies) {
      for (int percent = 0; percent <= 100; percent += step_percent) {
        points.push_back(Measure(of, policy, percent));
      }
    }
    std::fprintf(stderr, "%s %ld px, batch %ld: %zu operations\n", of.model.c_str(),
                 static_cast<long>(of.pixels), static_cast<long>(of.batch),
                 of.chain.forward_seconds.size());
  }
  return points;
}

void WritePoints(const std::vector<Point>& points, const std::string& path) {
  std::ofstream out(path);
  out << "model,pixels,batch,policy,memory_percent,memory_bytes,seconds,ratio,gap,samples_per_"
         "second\n";
  for (const Point& point : points) {
    out << point.of->model << ',' << point.of->pixels << ',' << point.of->batch << ','
        << point.policy << ',' << point.percent << ',' << point.memory_bytes << ',';
    if (point.seconds.has_value()) {
      out << *point.seconds << ',' << point.Ratio() << ',' << point.Gap() << ','
          << static_cast<double>(point.of->batch) / *point.seconds << '\n';
    } else {
      out << ",,,\n";
    }
  }
}

// The points of a figure by their case, as plots.
template <typename Wanted, typename Value>
PlotPage MakePage(const std::vector<Point>& points, const Wanted& wanted, const Value& value) {
  PlotPage page = {.title = "", .x_label = "memory, % from the least to M_peak", .y_label = ""};
  const Case* last = nullptr;
  for (const Point& point : points) {
    if (!wanted(*point.of)) continue;
    if (point.of != last) {
      page.plots.push_back(
          {absl::StrCat(point.of->model, ", ", point.of->pixels, " px, batch ", point.of->batch),
           {}});
    }
    last = point.of;
    if (!point.seconds.has_value()) continue;
    page.plots.back().lines[point.policy].emplace_back(point.percent, value(point));
  }
  return page;
}

void WriteFigure(const std::vector<Point>& points, const std::string& folder, int figure,
                 const std::string& title, const std::function<bool(const Case&)>& wanted) {
  const bool is_ratio = figure <= 12;
  PlotPage page = MakePage(points, wanted, [&](const Point& point) {
    return is_ratio ? point.Ratio() : static_cast<double>(point.of->batch) / *point.seconds;
  });
  page.title = absl::StrCat("Figure ", figure, ": ", title);
  page.y_label = is_ratio ? "makespan / lower bound of Proposition 3" : "samples per second";
  if (is_ratio) {
    page.least_y = 1;
    page.most_y = 2;
  }
  WritePlots(page, absl::StrCat(folder, "/figure-", figure < 10 ? "0" : "", figure, ".svg"));
}

void WriteFigures(const std::vector<Point>& points, const std::string& folder) {
  WriteFigure(points, folder, 5, "224 px, batch 32",
              [](const Case& of) { return of.pixels == 224 && of.batch == 32; });
  int figure = 6;
  for (const char* prefix : {"resnet", "densenet"}) {
    for (const std::int64_t pixels : {224, 500, 1000}) {
      const auto wanted = [&](const Case& of) {
        return of.model.starts_with(prefix) && of.pixels == pixels;
      };
      const std::string title = absl::StrCat(prefix, ", ", pixels, " px");
      WriteFigure(points, folder, figure, title, wanted);
      WriteFigure(points, folder, figure + 7, title, wanted);
      ++figure;
    }
  }
  const auto inception = [](const Case& of) { return of.model.starts_with("inception"); };
  WriteFigure(points, folder, 12, "inception-v3", inception);
  WriteFigure(points, folder, 19, "inception-v3", inception);
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::printf("beaumont_figures FOLDER [--all] [POLICY...]\n");
    return 1;
  }
  const std::string folder = argv[1];
  std::filesystem::create_directories(folder);
  std::vector<std::string> policies(argv + 2, argv + argc);
  const bool is_whole = std::erase(policies, "--all") > 0;
  if (policies.empty()) {
    policies = ChainPolicyNames();
    policies.insert(policies.end(), {"dynprog-exact", "best-recompute"});
  }
  const Extent extent = is_whole ? Extent() : SmallExtent();
  const std::vector<Case> cases = MakeCases(extent);
  const std::vector<Point> points = MeasureAll(cases, policies, extent.step_percent);
  WritePoints(points, folder + "/points.csv");
  WriteFigures(points, folder);
  PrintClaims(points, policies);
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }
