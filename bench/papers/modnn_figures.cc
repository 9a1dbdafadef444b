// SPDX-License-Identifier: Apache-2.0
// The figures of moDNN's papers (Chen et al., IEEE TPDS 2019 and DATE 2018) beside ours, with a K40
// of the cost model. `check` runs the checkers on schedules of all networks of the zoo.
//
// Not from the papers: the budgets of figure 12 (papers draw them without numbers), and how vDNN
// gets sub-batches (vDNN+): rounds of vDNN's fastest mode that fits, one after the other, at
// moDNN's sub-batch or, where that does not fit, the next smaller power of two.
//
// `front` compares moDNN with the front of time against memory. `utilisation` has figures 12 and 14
// with convolutions that are slower the fewer numbers they compute. There are no rows for figures
// 15 and 16, power and energy: the text gives no numbers but a change of power below 3 %, and no
// model from which watts follow.
//
// usage: modnn_figures memory|time|budgets|devices|ring|date|front|utilisation|check
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "policies/training/sub_batch/paper_values.h"
#include "tests/policies/training/modnn/valid_schedule.h"
#include "tests/support/modnn_networks.h"
#include "tidepool/training/memory_front.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/sub_batch.h"
#include "tidepool/training/timeline.h"

namespace tidepool::bench {
namespace {

using testing::kModnnNetworks;
using testing::ModnnNetwork;

constexpr std::int64_t kGigabyte = 1'000'000'000;
constexpr std::int64_t kCard = 12 * kGigabyte;
constexpr std::int64_t kAlignment = 512;
constexpr double kLink = 12e9;
constexpr double kFrontWork = 2.5;  // of the search for a front, the default

double InGigabytes(double bytes) { return bytes / static_cast<double>(kGigabyte); }

// Returns the seconds of all tasks, or of updates alone, by the fastest algorithms or by those of
// the least workspace.
double TaskSeconds(const TaskGraph& graph, bool is_fastest, bool only_updates = false) {
  double seconds = 0;
  for (const GraphTask& task : graph.tasks) {
    if (only_updates && task.phase != TaskPhase::kUpdate) continue;
    double least = task.algorithms.front().seconds;
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      if (is_fastest) least = std::min(least, algorithm.seconds);
    }
    seconds += least;
  }
  return seconds;
}

// Returns the numbers that a convolution, or a transposed one, computes in its forward pass.
double OutputsOf(const ConvolutionParameters& shape, bool is_transposed) {
  const auto side = [&](std::int64_t input, std::int64_t kernel, std::int64_t stride,
                        std::int64_t padding, std::int64_t dilation) {
    const std::int64_t window = dilation * (kernel - 1) + 1 - 2 * padding;
    return is_transposed ? (input - 1) * stride + window : (input - window) / stride + 1;
  };
  return static_cast<double>(shape.n * shape.k) *
         static_cast<double>(side(shape.h, shape.r, shape.stride_height, shape.padding_height,
                                  shape.dilation_height)) *
         static_cast<double>(
             side(shape.w, shape.s, shape.stride_width, shape.padding_width, shape.dilation_width));
}

// Returns the family on a GPU that computes convolutions of n outputs at n / (n + half) of its
// rate: few outputs leave multiprocessors without work.
GraphFamily Underused(GraphFamily family, double half) {
  family.cost_model = [costs = family.cost_model, half](TaskGraph& graph) {
    absl::Status status = costs(graph);
    for (GraphTask& task : graph.tasks) {
      const auto* shape = std::get_if<ConvolutionParameters>(&task.parameters);
      if (shape == nullptr || task.phase == TaskPhase::kUpdate) continue;
      const bool is_transposed = task.operation == "transposed-conv";
      const double slower = 1 + half / OutputsOf(*shape, is_transposed);
      for (TaskAlgorithm& algorithm : task.algorithms) algorithm.seconds *= slower;
    }
    return status;
  };
  return family;
}

// `half`: see Underused; 0: all convolutions have the full rate.
GraphFamily FamilyOf(const ModnnNetwork& network, bool is_fused, double half = 0) {
  ModelOptions options = {.image = network.image, .gpu = "k40"};
  options.fused_batch_normalization = is_fused;
  options.separate_sums = !is_fused;
  GraphFamily family = MakeModelFamily(network.name, options, std::vector<std::int64_t>{1}).value();
  return half > 0 ? Underused(std::move(family), half) : family;
}

double IdealSeconds(const GraphFamily& family, std::int64_t batch) {
  return TaskSeconds(GraphAt(family, batch).value(), true);
}

struct Point {
  double seconds = 0;
  std::int64_t bytes = 0;  // copied in both directions
  std::int64_t sub_batch = 0;
};

struct Devices {
  std::size_t count = 1;
  std::size_t host_cores = 1;
  GradientReduction reduction = GradientReduction::kHost;
  PeerLinks peers = {};
};

std::optional<Point> Modnn(const GraphFamily& family, std::int64_t batch, std::int64_t memory,
                           std::int64_t sub_batch = kLargestSubBatch, const Devices& devices = {},
                           SubBatchRule rule = SubBatchRule::kConsecutiveTasks) {
  ScheduleRequest request = {.batch = batch, .sub_batch = sub_batch, .devices = devices.count};
  request.machine.devices.assign(devices.count, {.memory_bytes = memory});
  request.machine.links.front() = {.out_bytes_per_second = kLink, .in_bytes_per_second = kLink};
  request.machine.host.cores = devices.host_cores;
  request.machine.peers = devices.peers;
  request.reduction = devices.reduction;
  request.options = ModnnOptions{.sub_batch = {.rule = rule}};
  const absl::StatusOr<MadeSchedule> made = MakeSchedule("modnn", family, request);
  if (!made.ok()) return std::nullopt;
  const absl::StatusOr<Timeline> timeline = Simulate(*made);
  if (!timeline.ok()) return std::nullopt;
  return Point{timeline->seconds, timeline->bytes_out + timeline->bytes_in, made->sub_batch};
}

// Returns an iteration of vDNN, in its fastest mode that fits or with a set of layers, or nothing.
std::optional<Point> Vdnn(const GraphFamily& family, std::int64_t batch, std::int64_t memory,
                          OffloadSet set = OffloadSet::kDynamic) {
  ScheduleRequest request = {.options = LayerwiseOptions{.set = set}};
  request.machine.devices.front().memory_bytes = memory;
  request.machine.links.front() = {.out_bytes_per_second = kLink, .in_bytes_per_second = kLink};
  const absl::StatusOr<TaskGraph> graph = GraphAt(family, batch);
  if (!graph.ok()) return std::nullopt;
  const absl::StatusOr<MadeSchedule> made = MakeSchedule("vdnn", *graph, request);
  if (!made.ok()) return std::nullopt;
  const absl::StatusOr<Timeline> timeline = Simulate(*made);
  if (!timeline.ok()) return std::nullopt;
  return Point{timeline->seconds, timeline->bytes_out + timeline->bytes_in, batch};
}

// Returns vDNN in rounds of at most `sub_batch` samples, with one update.
std::optional<Point> VdnnPlus(const GraphFamily& family, std::int64_t batch, std::int64_t memory,
                              std::int64_t sub_batch, OffloadSet set) {
  for (std::int64_t b = sub_batch; b >= 1; b = b == 1 ? 0 : RegularSubBatch(b / 2)) {
    const std::optional<Point> round = Vdnn(family, b, memory, set);
    if (!round.has_value()) continue;
    const double update = TaskSeconds(GraphAt(family, b).value(), true, true);
    const std::int64_t rounds = batch / b;
    Point sum = {(round->seconds - update) * static_cast<double>(rounds) + update,
                 round->bytes * rounds, b};
    if (batch % b == 0) return sum;
    const std::optional<Point> rest = Vdnn(family, batch % b, memory, set);
    if (!rest.has_value()) continue;
    sum.seconds += rest->seconds - update;
    sum.bytes += rest->bytes;
    return sum;
  }
  return std::nullopt;
}

class Mean {
 public:
  void Add(double value) {
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? 0 : sum_ / count_; }

 private:
  double sum_ = 0;
  int count_ = 0;
};

void PrintMemory() {
  std::printf("Figures 9 and 13: the least memory of each technique alone; the ideal over it\n");
  std::printf("%-12s %9s %10s %12s %12s %12s %16s\n", "", "ideal", "all", "sub-batches",
              "transfers", "algorithms", "weights leave");
  Mean all;
  Mean sub_batches;
  Mean transfers;
  Mean algorithms;
  Mean without_weights;
  for (const ModnnNetwork& network : kModnnNetworks) {
    const sub_batch::TechniqueMemory memory =
        sub_batch::MemoryOfTechniques(FamilyOf(network, true), network.batch, kAlignment).value();
    const auto ratio = [&](std::int64_t bytes, Mean& mean) {
      mean.Add(static_cast<double>(memory.ideal) / static_cast<double>(bytes));
      return static_cast<double>(memory.ideal) / static_cast<double>(bytes);
    };
    std::printf("%-12s %6.1f GB %9.1fx %11.1fx %11.1fx %11.2fx %15.1fx\n", network.name,
                InGigabytes(static_cast<double>(memory.ideal)), ratio(memory.all, all),
                ratio(memory.sub_batches, sub_batches), ratio(memory.transfers, transfers),
                ratio(memory.algorithms, algorithms),
                ratio(memory.all_without_weights, without_weights));
  }
  std::printf("%-12s %9s %9.1fx %11.1fx %11.1fx %11.2fx %15.1fx\n", "mean", "", all.value(),
              sub_batches.value(), transfers.value(), algorithms.value(), without_weights.value());
  std::printf("%-12s %9s %9dx %11dx %11.1fx %11.2fx %15dx\n", "the paper", "", 59, 42, 4.1, 1.18,
              396);
}

// Returns the time of an iteration in rounds of one sample, over the ideal.
double RatioInOnes(const GraphFamily& family, std::int64_t batch) {
  const TaskGraph one = GraphAt(family, 1).value();
  const double update = TaskSeconds(one, true, true);
  const double in_ones = (TaskSeconds(one, true) - update) * static_cast<double>(batch) + update;
  return in_ones / IdealSeconds(family, batch);
}

void PrintTechniques(double half) {
  std::printf("Figure 14: time over the ideal where each technique alone saves the most memory\n");
  std::printf("%-12s %12s %12s %12s\n", "", "sub-batches", "transfers", "algorithms");
  Mean sub_batches;
  Mean transfers;
  Mean algorithms;
  for (const ModnnNetwork& network : kModnnNetworks) {
    const GraphFamily family = FamilyOf(network, true, half);
    const TaskGraph whole = GraphAt(family, network.batch).value();
    const double ideal = TaskSeconds(whole, true);
    const double in_ones = RatioInOnes(family, network.batch);
    const sub_batch::TechniqueMemory memory =
        sub_batch::MemoryOfTechniques(family, network.batch, kAlignment).value();
    const std::optional<Point> moved = Modnn(family, network.batch, memory.transfers, kWholeBatch);
    sub_batches.Add(in_ones);
    algorithms.Add(TaskSeconds(whole, false) / ideal);
    std::printf("%-12s %11.2fx ", network.name, in_ones);
    if (moved.has_value()) {
      transfers.Add(moved->seconds / ideal);
      std::printf("%11.2fx ", moved->seconds / ideal);
    } else {
      std::printf("%12s ", "no fit");
    }
    std::printf("%11.2fx\n", TaskSeconds(whole, false) / ideal);
  }
  std::printf("%-12s %11.2fx %11.2fx %11.2fx\n", "mean", sub_batches.value(), transfers.value(),
              algorithms.value());
  std::printf("%-12s %11.2fx %11.2fx %11.2fx\n", "the paper", 3.74, 1.28, 2.7);
}

void PrintTime() {
  std::printf("Figures 10 and 11: one K40 with 12 GB; time over the ideal, and bytes copied\n");
  std::printf("%-12s %5s %10s %10s %14s %14s\n", "", "b", "moDNN", "vDNN", "moDNN", "vDNN");
  Mean modnn;
  Mean vdnn;
  Mean fewer;
  for (const ModnnNetwork& network : kModnnNetworks) {
    const GraphFamily family = FamilyOf(network, true);
    const double ideal = IdealSeconds(family, network.batch);
    const std::optional<Point> ours = Modnn(family, network.batch, kCard);
    const std::optional<Point> theirs = Vdnn(family, network.batch, kCard);
    std::printf("%-12s %5lld %9.3fx ", network.name, static_cast<long long>(ours->sub_batch),
                ours->seconds / ideal);
    modnn.Add(ours->seconds / ideal);
    if (!theirs.has_value()) {
      std::printf("%10s %11.2f GB %14s\n", "no fit", InGigabytes(static_cast<double>(ours->bytes)),
                  "");
      continue;
    }
    vdnn.Add(theirs->seconds / ideal);
    fewer.Add(static_cast<double>(theirs->bytes) / static_cast<double>(ours->bytes));
    std::printf("%9.3fx %11.2f GB %11.2f GB\n", theirs->seconds / ideal,
                InGigabytes(static_cast<double>(ours->bytes)),
                InGigabytes(static_cast<double>(theirs->bytes)));
  }
  std::printf("%-12s %5s %9.3fx %9.3fx   vDNN copies %.0f times as much\n", "mean", "",
              modnn.value(), vdnn.value(), fewer.value());
  std::printf("%-12s %5s %9.2fx %9.2fx   vDNN copies 378 times as much\n\n", "the paper", "", 1.03,
              1.31);
  PrintTechniques(0);
}

std::vector<std::int64_t> BudgetsOf(const GraphFamily& family) {
  std::vector<std::int64_t> budgets;
  const std::int64_t bound = LeastMemory(GraphAt(family, 1).value(), kAlignment).bytes;
  for (const std::int64_t gigabytes : {12, 10, 8, 6, 5, 4, 3, 2}) {
    if (gigabytes * kGigabyte > bound) budgets.push_back(gigabytes * kGigabyte);
  }
  budgets.push_back(bound);
  return budgets;
}

// The ratios of vDNN+ to moDNN.
struct Speedups {
  Mean mean;
  int slower = 0;  // points where moDNN takes more than 0.1 % longer

  void Add(double ratio) {
    mean.Add(ratio);
    slower += ratio < 0.999 ? 1 : 0;
  }
};

void PrintBudgets(double half) {
  std::printf(
      "Figure 12: time over the ideal, and the sub-batch; the last row of a network is its "
      "bound\n");
  std::printf("%-12s %9s %15s %15s %20s\n", "", "memory", "moDNN", "vDNN+ fastest",
              "vDNN+ convolutions");
  Speedups fastest;
  Speedups convolutions;
  for (const ModnnNetwork& network : kModnnNetworks) {
    const GraphFamily family = FamilyOf(network, true, half);
    const double ideal = IdealSeconds(family, network.batch);
    for (const std::int64_t memory : BudgetsOf(family)) {
      const std::optional<Point> ours = Modnn(family, network.batch, memory);
      const auto print = [&](const Point& point) {
        std::printf(" %9.3fx %4lld", point.seconds / ideal,
                    static_cast<long long>(point.sub_batch));
      };
      std::printf("%-12s %6.2f GB", network.name, InGigabytes(static_cast<double>(memory)));
      print(*ours);
      for (const OffloadSet set : {OffloadSet::kDynamic, OffloadSet::kConvolutions}) {
        const std::optional<Point> theirs =
            VdnnPlus(family, network.batch, memory, ours->sub_batch, set);
        if (!theirs.has_value()) {
          std::printf("%16s", "no fit");
          continue;
        }
        print(*theirs);
        Speedups& speedups = set == OffloadSet::kDynamic ? fastest : convolutions;
        speedups.Add(theirs->seconds / ours->seconds);
      }
      std::printf("\n");
    }
  }
  std::printf(
      "vDNN+ / moDNN, mean: %.3fx and %.3fx; moDNN is slower by more than 0.1 %% at %d and "
      "%d points\nthe paper: 1.26x, at none\n",
      fastest.mean.value(), convolutions.mean.value(), fastest.slower, convolutions.slower);
}

// Returns an iteration of four K40s that add up their gradients themselves, in 12 GB.
double ExchangeSeconds(const ModnnNetwork& network, const GraphFamily& family,
                       GradientReduction reduction, const PeerLinks& peers) {
  return Modnn(family, network.batch, kCard, kLargestSubBatch, {4, 1, reduction, peers})->seconds;
}

// The naive sum is that of the first device. Copies between devices cross the link twice.
void PrintDevices() {
  std::printf(
      "Figures 17 to 19: four K40s on one link, one core of the host; the ideal of one "
      "over the time\n");
  std::printf("%-12s %8s %10s %8s %8s %20s\n", "", "naive", "12 GB", "6 GB", "3 GB",
              "3 GB, one K40's / it");
  Mean naive;
  std::vector<Mean> means(4);
  for (const ModnnNetwork& network : kModnnNetworks) {
    const GraphFamily family = FamilyOf(network, true);
    const double ideal = IdealSeconds(family, network.batch);
    const double summed = ideal / ExchangeSeconds(network, family, GradientReduction::kFirstDevice,
                                                  {.bytes_per_second = kLink / 2, .is_bus = true});
    naive.Add(summed);
    std::printf("%-12s %7.2fx ", network.name, summed);
    std::size_t column = 0;
    double last = 0;
    for (const std::int64_t gigabytes : {12, 6, 3}) {
      const std::optional<Point> four =
          Modnn(family, network.batch, gigabytes * kGigabyte, kLargestSubBatch, {4, 1});
      last = four->seconds;
      means[column++].Add(ideal / last);
      std::printf(gigabytes == 12 ? "%9.2fx " : "%7.2fx ", ideal / last);
    }
    const std::optional<Point> one = Modnn(family, network.batch, 3 * kGigabyte);
    means[column].Add(one->seconds / last);
    std::printf("%19.2fx\n", one->seconds / last);
  }
  std::printf("%-12s %7.2fx %9.2fx %7.2fx %7.2fx %19.2fx\n", "mean", naive.value(),
              means[0].value(), means[1].value(), means[2].value(), means[3].value());
  std::printf("%-12s %7.2fx %9.2fx %7.2fx %7.2fx %19.2fx\n", "the paper", 3.1, 3.7, 3.4, 3.1, 3.1);
}

void PrintRing() {
  std::printf(
      "Four K40s with 12 GB: the host's sums, and a ring at several rates between devices; the "
      "ideal of one over the time\n");
  const std::vector<double> rates = {0.25e9, 0.5e9, 1e9, 3e9, 12e9, 50e9};
  std::printf("%-12s %9s", "", "host");
  for (const double rate : rates) std::printf(" %4g GB/s", rate / 1e9);
  std::printf("\n");
  std::vector<Mean> means(rates.size() + 1);
  for (const ModnnNetwork& network : kModnnNetworks) {
    const GraphFamily family = FamilyOf(network, true);
    const double ideal = IdealSeconds(family, network.batch);
    std::vector<double> all = {
        ideal / Modnn(family, network.batch, kCard, kLargestSubBatch, {4, 1})->seconds};
    for (const double rate : rates) {
      all.push_back(ideal / ExchangeSeconds(network, family, GradientReduction::kRing,
                                            {.bytes_per_second = rate}));
    }
    std::printf("%-12s", network.name);
    for (std::size_t i = 0; i < all.size(); ++i) {
      means[i].Add(all[i]);
      std::printf(" %8.3fx", all[i]);
    }
    std::printf("\n");
  }
  std::printf("%-12s", "mean");
  for (const Mean& mean : means) std::printf(" %8.3fx", mean.value());
  std::printf("\n");
}

void PrintDate() {
  std::printf("DATE 2018: normalisation keeps its input, sub-batches by equation (3); 12 GB\n");
  std::printf("%-12s %5s %10s %10s %14s %14s\n", "", "b", "moDNN", "vDNN", "ideal / two",
              "moDNN / two");
  Mean modnn;
  Mean vdnn;
  Mean against_ideal;
  Mean against_one;
  for (const ModnnNetwork& network : kModnnNetworks) {
    const std::string_view name = network.name;
    if (name == "resnet-152") continue;
    const GraphFamily family = FamilyOf(network, false);
    const double ideal = IdealSeconds(family, network.batch);
    const auto schedule = [&](std::size_t devices) {
      return Modnn(family, network.batch, kCard, kLargestSubBatch, {devices, 1},
                   SubBatchRule::kLargestTask);
    };
    const std::optional<Point> ours = schedule(1);
    const std::optional<Point> theirs = Vdnn(family, network.batch, kCard);
    modnn.Add(ours->seconds / ideal);
    std::printf("%-12s %5lld %9.3fx ", network.name, static_cast<long long>(ours->sub_batch),
                ours->seconds / ideal);
    if (theirs.has_value()) {
      vdnn.Add(theirs->seconds / ideal);
      std::printf("%9.3fx", theirs->seconds / ideal);
    } else {
      std::printf("%10s", "no fit");
    }
    if (name == "vgg-16" || name == "vgg-19") {
      const std::optional<Point> two = schedule(2);
      against_ideal.Add(ideal / two->seconds);
      against_one.Add(ours->seconds / two->seconds);
      std::printf(" %13.2fx %13.2fx", ideal / two->seconds, ours->seconds / two->seconds);
    }
    std::printf("\n");
  }
  std::printf("%-12s %5s %9.3fx %9.3fx %13.2fx %13.2fx\n", "mean", "", modnn.value(), vdnn.value(),
              against_ideal.value(), against_one.value());
  std::printf("%-12s %5s %9.2fx %9.2fx %13.2fx %13.2fx\n", "the paper", "", 1.08, 1.40, 1.5, 1.84);
}

// Runs the checkers on schedules of a network at memories from the bound to the ideal, and returns
// the number of faults.
int CheckNetwork(const std::string& name, std::size_t devices, int budgets) {
  constexpr std::int64_t kBatch = 16;
  const GraphFamily family =
      MakeModelFamily(name, {.gpu = "k40"}, std::vector<std::int64_t>{1}).value();
  const std::int64_t bound = LeastMemory(GraphAt(family, 1).value(), kAlignment).bytes;
  const std::int64_t part = kBatch / static_cast<std::int64_t>(devices);
  const std::int64_t ideal = sub_batch::MemoryOfTechniques(family, part, kAlignment).value().ideal;
  int faults = 0;
  for (int i = 0; i < budgets; ++i) {
    const std::int64_t memory = bound + (ideal - bound) / (budgets - 1) * i;
    ScheduleRequest request = {.batch = kBatch, .sub_batch = kLargestSubBatch, .devices = devices};
    request.machine.devices.assign(devices, {.memory_bytes = memory});
    request.machine.host.cores = 2;
    const absl::StatusOr<MadeSchedule> made = MakeSchedule("modnn", family, request);
    const absl::Status status = made.ok() ? testing::CheckMade(*made) : made.status();
    if (status.ok()) continue;
    ++faults;
    std::printf("%s, %zu devices, %lld bytes: %s\n", name.c_str(), devices,
                static_cast<long long>(memory), status.ToString().c_str());
  }
  return faults;
}

int CheckAll() {
  constexpr int kBudgets = 30;
  int faults = 0;
  int networks = 0;
  for (const std::string& name : KnownModels()) {
    for (const std::size_t devices : {1, 4}) faults += CheckNetwork(name, devices, kBudgets);
    std::printf("%d: %s\n", ++networks, name.c_str());
    std::fflush(stdout);
  }
  std::printf("%d networks, 16 samples, 1 and 4 devices, %d memories each: %d faults\n", networks,
              kBudgets, faults);
  return faults == 0 ? 0 : 1;
}

double ProcessorSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

ScheduleRequest FrontRequest(std::int64_t batch) {
  ScheduleRequest request = {.batch = batch, .sub_batch = kLargestSubBatch};
  request.machine.links.front() = {.out_bytes_per_second = kLink, .in_bytes_per_second = kLink};
  return request;
}

// Returns the last point of a front within a memory.
const FrontPoint& PointWithin(const MemoryFront& front, std::int64_t memory) {
  const FrontPoint* last = &front.points.front();
  for (const FrontPoint& point : front.points) {
    if (point.memory_bytes <= memory) last = &point;
  }
  return *last;
}

void PrintFront(double half) {
  std::printf(
      "Figure 12 with all decisions together: time over the ideal, and the sub-batch; the first "
      "row "
      "of a network is its bound\n");
  std::printf("%-12s %9s %15s %15s %8s %8s  %s\n", "", "memory", "moDNN", "the front", "ratio",
              "at least", "policy");
  Mean ratios;
  Mean bounds;
  int slower = 0;
  double most_seconds = 0;
  for (const ModnnNetwork& network : kModnnNetworks) {
    const GraphFamily family = FamilyOf(network, true, half);
    const std::vector<std::int64_t> budgets = BudgetsOf(family);
    const double begin = ProcessorSeconds();
    const MemoryFront front =
        MakeFront(family, FrontRequest(network.batch),
                  {.memory_bytes = budgets,
                   .best = {.time_limit_seconds = 60, .work_seconds = kFrontWork}})
            .value();
    const double seconds = ProcessorSeconds() - begin;
    most_seconds = std::max(most_seconds, seconds);
    for (const auto& [memory, least_seconds] : front.memories) {
      const std::optional<Point> modnn = Modnn(family, network.batch, memory);
      const FrontPoint& ours = PointWithin(front, memory);
      const double ratio = ours.seconds / modnn->seconds;
      const double bound = least_seconds / modnn->seconds;
      ratios.Add(ratio);
      bounds.Add(bound);
      slower += ratio > 1 + 1e-9 ? 1 : 0;
      std::printf("%-12s %6.2f GB %9.3fx %4lld %9.3fx %4lld %8.3f %8.3f  %s\n", network.name,
                  InGigabytes(static_cast<double>(memory)), modnn->seconds / front.ideal_seconds,
                  static_cast<long long>(modnn->sub_batch), ours.seconds / front.ideal_seconds,
                  static_cast<long long>(ours.made.sub_batch), ratio, bound,
                  ours.made.schedule.policy.c_str());
    }
    std::printf("%-12s %zu points, %.2f s of a processor%s\n", network.name, front.points.size(),
                seconds, front.stopped ? ", ended by the time limit" : "");
  }
  std::printf(
      "the front / moDNN, mean: %.3f, and at least %.3f by the bounds of the tasks; slower at %d "
      "points; at "
      "most %.2f s of a processor\n",
      ratios.value(), bounds.value(), slower, most_seconds);
}

// Returns the outputs of half the rate with which rounds of one sample take the paper's 3.74 times
// the ideal, the mean of the networks.
double FittedHalf() {
  const auto mean_with = [](double half) {
    Mean mean;
    for (const ModnnNetwork& network : kModnnNetworks) {
      mean.Add(RatioInOnes(FamilyOf(network, true, half), network.batch));
    }
    return mean.value();
  };
  double least = 1;
  double most = 1e9;
  for (int i = 0; i < 30; ++i) {
    const double half = std::sqrt(least * most);
    (mean_with(half) < 3.74 ? least : most) = half;
  }
  return most;
}

void PrintUtilisation() {
  const double half = FittedHalf();
  std::printf("Convolutions of %.0f outputs have half the rate: fitted to figure 14's 3.74\n\n",
              half);
  PrintTechniques(half);
  std::printf("\n");
  PrintBudgets(half);
  std::printf("\n");
  PrintFront(half);
}

int Main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "check") return CheckAll();
  const std::pair<std::string_view, void (*)()> parts[] = {{"memory", PrintMemory},
                                                           {"time", PrintTime},
                                                           {"budgets", [] { PrintBudgets(0); }},
                                                           {"devices", PrintDevices},
                                                           {"ring", PrintRing},
                                                           {"date", PrintDate},
                                                           {"front", [] { PrintFront(0); }},
                                                           {"utilisation", PrintUtilisation}};
  for (const auto& [name, print] : parts) {
    if (name != what) continue;
    print();
    return 0;
  }
  std::printf(
      "usage: modnn_figures memory|time|budgets|devices|ring|date|front|utilisation|check\n");
  return 1;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }
