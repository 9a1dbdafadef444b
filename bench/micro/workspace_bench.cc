// SPDX-License-Identifier: Apache-2.0
// Claims: workspaces of 159 kernels with 562 points are divided in 1 ms, those of 465 kernels with
// 2,000 points in 20 ms, at each limit; the micro-batches of a batch of 256 are found in 1 ms from
// 8 algorithms at all sizes. An adaptive search measures at most 1.5 times the sizes of powerOfTwo,
// and finds the answer of all sizes in random tables with monotone times. Prints median times of
// the processor over random tables.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <iterator>
#include <random>
#include <vector>

#include "tidepool/training/workspace_policy.h"

namespace tidepool::bench {
namespace {

using Front = std::vector<KernelConfiguration>;

class Source {
 public:
  explicit Source(std::uint64_t seed) : random_(seed) {}
  double Between(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  std::size_t Below(std::size_t most) { return random_() % most; }

 private:
  std::mt19937_64 random_;
};

// Returns fronts with `points` points in all, workspaces of whole 64 KiB.
std::vector<Front> MakeFronts(std::size_t kernels, std::size_t points, Source& source) {
  std::vector<std::size_t> sizes(kernels, 1);
  for (std::size_t i = kernels; i < points; ++i) ++sizes[source.Below(kernels)];
  std::vector<Front> fronts;
  for (const std::size_t size : sizes) {
    Front& front = fronts.emplace_back();
    KernelConfiguration point = {.seconds = source.Between(1e-4, 1e-3)};
    for (std::size_t k = 0; k < size; ++k) {
      front.push_back(point);
      point.seconds *= source.Between(0.6, 0.98);
      point.workspace_bytes += static_cast<std::int64_t>(1 + source.Below(300)) << 16;
    }
  }
  return fronts;
}

// Returns rows of some algorithms at all sizes up to the batch. Times have noise, so they are not
// monotone.
KernelTable MakeTable(std::int64_t batch, std::int64_t algorithms, Source& source,
                      double noise = 0.1) {
  KernelTable table;
  for (std::int64_t algorithm = 0; algorithm < algorithms; ++algorithm) {
    const double fixed = source.Between(1e-5, 1e-4);
    const double each = source.Between(1e-5, 4e-5);
    const auto bytes = static_cast<std::int64_t>(source.Between(0, 1 << 20)) * (algorithm > 0);
    for (std::int64_t b = 1; b <= batch; ++b) {
      const double seconds =
          (fixed + each * static_cast<double>(b)) * source.Between(1 - noise, 1 + noise);
      table.push_back({b, algorithm, seconds, bytes * b});
    }
  }
  return table;
}

// Returns the median of the processor's milliseconds.
double MedianMilliseconds(const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    const std::clock_t begin = std::clock();
    work();
    times.push_back(static_cast<double>(std::clock() - begin) * 1e3 / CLOCKS_PER_SEC);
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return times[10];
}

void MeasureReuse(Source& source) {
  const KernelTable table = MakeTable(256, 8, source);
  for (const char* policy : {"undivided", "powerOfTwo", "all"}) {
    const std::vector<std::int64_t> sizes = *MicroBatchSizes(policy, 256);
    Front front;
    const double time = MedianMilliseconds(
        [&] { front = ConfigurationFront(table, sizes, 256, std::int64_t{64} << 20); });
    std::printf("reuse, batch 256, 8 algorithms, %-10s: %7.3f ms, %2zu points, %.3f ms a kernel\n",
                policy, time, front.size(), front.back().seconds * 1e3);
  }
}

void MeasureDivision(std::size_t kernels, std::size_t points, Source& source) {
  const std::vector<Front> fronts = MakeFronts(kernels, points, source);
  double all = 0;
  for (const Front& front : fronts) all += static_cast<double>(front.back().workspace_bytes);
  for (const int percent : {10, 40, 80}) {
    const auto limit = static_cast<std::int64_t>(all * percent / 100);
    WorkspaceAnswer answer;
    const double time = MedianMilliseconds([&] { answer = *DivideWorkspace(fronts, limit); });
    std::printf("division, %3zu kernels, %4zu points, %2d %% of all: %7.3f ms, %s\n", kernels,
                points, percent, time, answer.proved ? "proved" : "not proved");
  }
}

double SecondsWithin(const KernelTable& table, const char* policy, std::int64_t limit) {
  return ConfigurationFront(table, *MicroBatchSizes(policy, 256), 256, limit).back().seconds;
}

// The measurements of an adaptive search, and how much slower its answer is than that of all sizes.
void MeasureAdaptiveSearch(double noise, Source& source) {
  constexpr int kKernels = 100;
  std::int64_t measured = 0;
  std::int64_t most = 0;
  int same = 0;
  double worst = 1;
  double worst_of_powers = 1;
  double sum = 0;
  for (int i = 0; i < kKernels; ++i) {
    const KernelTable table = MakeTable(256, 8, source, noise);
    const auto limit = static_cast<std::int64_t>(source.Between(0, 128)) << 20;
    const auto rows = [&](std::int64_t samples) {
      KernelTable found;
      std::copy_if(table.begin(), table.end(), std::back_inserter(found),
                   [&](const KernelRow& row) { return row.micro_batch == samples; });
      return found;
    };
    const AdaptiveAnswer answer = MeasureAdaptively(256, limit, {rows, rows});
    const double all = SecondsWithin(table, "all", limit);
    const double gap = answer.configuration.seconds / all;
    measured += answer.measured;
    most = std::max(most, answer.measured);
    same += gap <= 1 + 1e-9 ? 1 : 0;
    worst = std::max(worst, gap);
    sum += gap;
    worst_of_powers = std::max(worst_of_powers, SecondsWithin(table, "powerOfTwo", limit) / all);
  }
  std::printf(
      "adaptive, batch 256, noise %2.0f %%: %4.1f sizes measured on average, %lld at most "
      "(powerOfTwo 9, all 256); %3d of %d answers as of all, %.3f on average, %.3f at "
      "worst (powerOfTwo %.3f)\n",
      noise * 100, static_cast<double>(measured) / kKernels, static_cast<long long>(most), same,
      kKernels, sum / kKernels, worst, worst_of_powers);
}

}  // namespace
}  // namespace tidepool::bench

int main() {
  tidepool::bench::Source source(1);
  tidepool::bench::MeasureReuse(source);
  for (const double noise : {0.0, 0.02, 0.1}) {
    tidepool::bench::Source apart(2);
    tidepool::bench::MeasureAdaptiveSearch(noise, apart);
  }
  tidepool::bench::MeasureDivision(15, 65, source);
  tidepool::bench::MeasureDivision(159, 562, source);
  tidepool::bench::MeasureDivision(465, 2000, source);
}
