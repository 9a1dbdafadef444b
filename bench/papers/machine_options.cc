// SPDX-License-Identifier: Apache-2.0
// The policy `best` with a compressor of copies and with several compute streams, on networks with
// the rates of a V100, a link of 12.2 GB/s in both directions at once, in pages:
//
//     machine_options [--seconds S]
//
// Memory is a share of the peak without copies. Half of the words of outputs of ReLU layers, and of
// their concatenations, are zeros; all other data is copied raw. The compressor takes 200 GB/s, as
// in "Compressing DMA Engine" (HPCA 2018), or 20 GB/s. Times are multiples of the ideal: all tasks
// one after the other, with all data in memory. No task runs again. S is 0.2 seconds of work.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::bench {
namespace {

constexpr double kLink = 12.2e9;
constexpr double kDensity = 0.5;

struct Options {
  double compressor = 0;  // bytes per second; 0: none
  std::size_t streams = 1;
};
constexpr Options kAsked[] = {{}, {20e9}, {200e9}, {0, 2}, {0, 4}, {200e9, 4}};

std::vector<double> DensitiesOf(const TaskGraph& graph) {
  std::vector<double> densities(graph.data.size(), 1);
  for (const GraphTask& task : graph.tasks) {
    const bool is_sparse = task.operation == "relu" || task.operation == "concat";
    if (task.phase != TaskPhase::kForward || !is_sparse) continue;
    for (const auto* made : {&task.writes, &task.updates}) {
      for (const std::size_t data : *made) densities[data] = kDensity;
    }
  }
  return densities;
}

// Returns the schedule of `best`, or an error where none fits.
absl::StatusOr<Timeline> Ask(const TaskGraph& graph, std::int64_t memory_bytes,
                             const Options& options, double work) {
  constexpr double kNoLimit = 1e6;
  ScheduleRequest request;
  MachineDevice& device = request.machine.devices.front();
  device = {.memory_bytes = memory_bytes, .compute_streams = options.streams};
  device.compressor = {options.compressor, options.compressor};
  request.machine.links.front() = {.out_bytes_per_second = kLink, .in_bytes_per_second = kLink};
  request.memory = ScheduleMemory::kPaged;
  request.options =
      BestOptions{.time_limit_seconds = kNoLimit,
                  .work_seconds = work,
                  .recomputes = false,
                  .densities = options.compressor > 0 ? DensitiesOf(graph) : std::vector<double>()};
  const absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
  if (!made.ok()) return made.status();
  return Simulate(*made);
}

void Compare(const char* name, std::int64_t batch, double work) {
  const absl::StatusOr<TaskGraph> graph = MakeModel(name, {.batch = batch, .gpu = "v100"});
  if (!graph.ok()) std::exit(EXIT_FAILURE);
  const double ideal = TotalsOf(*graph).least_seconds;
  const std::int64_t all = Ask(*graph, std::int64_t{1} << 45, {}, work)->peak_device_bytes;
  for (const int percent : {50, 75, 100}) {
    std::printf("%-13s %3lld %4d %%", name, static_cast<long long>(batch), percent);
    for (const Options& options : kAsked) {
      const absl::StatusOr<Timeline> timeline = Ask(*graph, all / 100 * percent, options, work);
      if (timeline.ok()) {
        std::printf(" %11.3f", timeline->seconds / ideal);
      } else {
        std::printf(" %11s", "-");
      }
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

void Main(double work) {
  std::printf("Times by the ideal. Work of %g s for each search.\n", work);
  std::printf("%-13s %3s %6s %11s %11s %11s %11s %11s %11s\n", "network", "", "memory", "plain",
              "20 GB/s", "200 GB/s", "2 streams", "4 streams", "200, 4");
  for (const char* name : {"inception-v3", "resnet-50"}) {
    Compare(name, 32, work);
  }
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  const bool has_seconds = argc == 3 && std::string_view(argv[1]) == "--seconds";
  if (argc != 1 && !has_seconds) {
    std::fprintf(stderr, "usage: machine_options [--seconds S]\n");
    return EXIT_FAILURE;
  }
  tidepool::bench::Main(has_seconds ? std::strtod(argv[2], nullptr) : 0.2);
  return EXIT_SUCCESS;
}
