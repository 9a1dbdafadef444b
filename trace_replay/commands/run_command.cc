// SPDX-License-Identifier: Apache-2.0
// The command `run`: iterations under an offload policy on a device, beside the prediction of the
// simulator.
#include <algorithm>
#include <climits>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tidepool/training/program.h"
#include "tidepool/training/timeline.h"
#include "trace_replay/offload/density_probes.h"
#include "trace_replay/offload/fixed_iteration.h"
#include "trace_replay/offload/graph_file.h"
#include "trace_replay/offload/make_schedule.h"
#include "trace_replay/offload/nvml_power.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/offload/power_sampler.h"
#include "trace_replay/offload/run_notes.h"
#include "trace_replay/offload/schedule_source.h"
#include "trace_replay/offload/simulated_iteration.h"
#include "trace_replay/offload/timeline_answer.h"
#include "trace_replay/options.h"
#include "trace_replay/replay/available_memory.h"
#include "trace_replay/replay/cuda_devices.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct RunCommandOptions {
  OffloadCommandOptions point;
  std::string device = "host";
  std::int64_t batch = 0;  // 0: the graph's own
  int iterations = 3;
  int probe_every = 0;                      // 0: no probes
  std::vector<double> data_densities = {};  // empty: tasks write nothing
  double scale = 1;
};

absl::Status CheckRunOptions(const RunCommandOptions& options) {
  if (options.device != "host" && options.device != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", absl::CHexEscape(options.device), "', expected host or cuda"));
  }
  if (options.device != "host" && !options.data_densities.empty()) {
    return absl::InvalidArgumentError("--data-density: tasks of the host, expected --device host");
  }
  if (options.point.machine.link_in.has_value()) {
    return absl::InvalidArgumentError(
        "--link-in: a device has one rate for both directions, expected --link alone");
  }
  return absl::OkStatus();
}

// Multiplies the time of each task by `scale`.
void Scale(MadeSchedule& made, double scale) {
  for (TaskGraph& graph : made.graphs) {
    for (GraphTask& task : graph.tasks) {
      for (TaskAlgorithm& algorithm : task.algorithms) algorithm.seconds *= scale;
    }
  }
  made.ideal_seconds *= scale;
}

// Schedules that a policy makes in pages have those of the device.
absl::StatusOr<OffloadCommandOptions> InPagesOfDevice(const RunCommandOptions& options) {
  OffloadCommandOptions point = options.point;
  if (!point.schedule.empty() || point.choice.memory_kind != ScheduleMemory::kPaged) return point;
  std::int64_t& page_bytes = point.choice.placing.alignment;
  Schedule empty;
  empty.memory = ScheduleMemory::kPaged;
  empty.alignment = page_bytes;
  const absl::StatusOr<Schedule> pages = WithPagesOfDevice(options.device, empty);
  if (!pages.ok()) return pages.status();
  page_bytes = pages->alignment;
  return point;
}

// Gives a schedule with pages those of the device, or addresses where the user asks for these.
absl::Status TakePages(const RunCommandOptions& options, ScheduledGraph& scheduled) {
  if (options.point.choice.memory_kind == ScheduleMemory::kFixed) {
    scheduled.fits = FixPages(scheduled);
    return absl::OkStatus();
  }
  absl::StatusOr<Schedule> own = WithPagesOfDevice(options.device, scheduled.schedule());
  if (own.ok()) scheduled.made.schedule = *std::move(own);
  return own.status();
}

// Adds both sizes to an error about a schedule that took the larger pages of the device.
absl::Status AboutPages(const absl::Status& error, std::int64_t page_bytes,
                        const Schedule& schedule) {
  if (schedule.memory != ScheduleMemory::kPaged || schedule.alignment == page_bytes) return error;
  return absl::Status(error.code(),
                      absl::StrCat(error.message(), "; the schedule has pages of ", page_bytes,
                                   " bytes, and those of the device have ", schedule.alignment,
                                   ": make it with --align ", schedule.alignment));
}

absl::StatusOr<SimulatedIteration> Prepare(const RunCommandOptions& options) {
  if (absl::Status status = CheckTimelineFile(options.point); !status.ok()) return status;
  absl::StatusOr<GraphOrFamily> graphs = ReadGraphFor(options.point.graph, options.batch);
  if (!graphs.ok()) return graphs.status();
  const absl::StatusOr<OffloadCommandOptions> point = InPagesOfDevice(options);
  if (!point.ok()) return point.status();
  absl::StatusOr<ScheduledGraph> scheduled =
      MakeScheduledGraph(*point, *std::move(graphs), options.batch);
  if (!scheduled.ok()) return scheduled.status();
  const std::int64_t page_bytes = scheduled->schedule().alignment;
  if (scheduled->fits.ok()) {
    if (absl::Status status = TakePages(options, *scheduled); !status.ok()) return status;
  }
  Scale(scheduled->made, options.scale);
  const Schedule schedule = scheduled->schedule();
  absl::StatusOr<SimulatedIteration> iteration = SimulateScheduled(*std::move(scheduled));
  if (!iteration.ok()) return AboutPages(iteration.status(), page_bytes, schedule);
  if (!iteration->timeline.ok()) {
    iteration->timeline = AboutPages(iteration->timeline.status(), page_bytes, schedule);
  }
  return iteration;
}

struct Iterations {
  std::string device;
  std::vector<double> seconds;  // one an iteration
  Timeline last;
  std::optional<DensityProbes> probes = std::nullopt;
  std::optional<Power> power = std::nullopt;

  double mean_seconds() const {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0) /
           static_cast<double>(seconds.size());
  }
};

// Starts samples of a GPU's power; null where the device does not tell it.
std::unique_ptr<PowerSampler> SamplePower(const std::string& device) {
  PowerSource source = device == "cuda" ? NvmlPower(FirstGpuAddress()) : nullptr;
  if (source == nullptr) return nullptr;
  return std::make_unique<PowerSampler>(std::move(source), RegularTicks());
}

absl::Status CheckHasPool(const RunCommandOptions& options, const Schedule& schedule) {
  const bool needs_pool = options.probe_every > 0 || !options.data_densities.empty();
  if (!needs_pool || schedule.memory == ScheduleMemory::kPool) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      options.probe_every > 0 ? "--probe-every" : "--data-density", ": the schedule has ",
      schedule.memory == ScheduleMemory::kPaged ? "pages" : "fixed addresses",
      ", expected one of a pool"));
}

absl::StatusOr<Iterations> IterateFixed(const RunCommandOptions& options,
                                        const ScheduledGraph& scheduled, const Schedule& schedule,
                                        FixedIterationOptions iteration_options,
                                        std::optional<DensityProbes> probes) {
  RunProgress progress(options.iterations, schedule.steps.size());
  iteration_options.device = options.device;
  iteration_options.machine = scheduled.made.machine;
  iteration_options.on_step = [&](std::size_t step) { progress.Show(step); };
  iteration_options.on_density = [&](std::size_t data, const DensityEstimate& estimate) {
    probes->Note(data, estimate);
  };
  const absl::StatusOr<std::unique_ptr<FixedIteration>> made =
      FixedIteration::Create(iteration_options, scheduled.made.graphs, schedule);
  if (!made.ok()) return made.status();
  FixedIteration& iteration = **made;
  Iterations iterations;
  iterations.device = iteration.device_name();
  const std::unique_ptr<PowerSampler> power = SamplePower(options.device);
  for (int i = 0; i < options.iterations; ++i) {
    progress.Begin(i);
    absl::StatusOr<Timeline> timeline = iteration.Run();
    if (!timeline.ok()) return timeline.status();
    iterations.seconds.push_back(timeline->seconds);
    iterations.last = *std::move(timeline);
    if (!probes.has_value()) continue;
    if (absl::Status status = probes->AfterIteration(iteration); !status.ok()) return status;
  }
  if (power != nullptr) iterations.power = power->Finish();
  iterations.probes = std::move(probes);
  return iterations;
}

// The schedule of a pool gets the addresses of the simulation.
absl::StatusOr<Iterations> IterateInPool(const RunCommandOptions& options,
                                         const SimulatedIteration& prepared) {
  const ScheduledGraph& scheduled = prepared.scheduled;
  const PlacingOptions& placing = scheduled.made.placing;
  const absl::StatusOr<PlacedSchedule> placed =
      PlaceInPool(scheduled.graph(), scheduled.schedule(), scheduled.made.machine, placing);
  if (!placed.ok()) return placed.status();
  std::optional<DensityProbes> probes;
  if (options.probe_every > 0) {
    absl::StatusOr<DensityProbes> made = DensityProbes::Create(scheduled, *prepared.timeline);
    if (!made.ok()) return made.status();
    probes = *std::move(made);
  }
  absl::StatusOr<Iterations> iterations = IterateFixed(
      options, scheduled, placed->schedule,
      {.host_compression = HostCompression{placing.compression, placing.compression_threads},
       .probe_every = options.probe_every,
       .densities = options.data_densities},
      std::move(probes));
  // In whole blocks.
  if (iterations.ok()) iterations->last.pool_bytes = placed->pool_bytes;
  return iterations;
}

absl::StatusOr<Iterations> Iterate(const RunCommandOptions& options,
                                   const SimulatedIteration& prepared) {
  const ScheduledGraph& scheduled = prepared.scheduled;
  if (scheduled.schedule().memory == ScheduleMemory::kPool) return IterateInPool(options, prepared);
  return IterateFixed(options, scheduled, scheduled.schedule(), {}, std::nullopt);
}

// Returns the bytes of all pages that a schedule takes, which are more than its peak.
absl::StatusOr<std::int64_t> PagedBytes(const MadeSchedule& made) {
  const absl::StatusOr<Program> program =
      LowerSchedule(made.graphs, made.schedule, made.machine, {.maps_pages = true});
  if (!program.ok()) return program.status();
  return std::accumulate(program->pool_bytes.begin(), program->pool_bytes.end(), std::int64_t{0});
}

// Tells the cost of a run on the host, or refuses it if the host has too little memory.
absl::Status Announce(const RunCommandOptions& options, const SimulatedIteration& prepared) {
  if (options.device != "host") return absl::OkStatus();
  Timeline all_devices = *prepared.timeline;
  for (const DeviceTimeline& device : prepared.timeline->further_devices) {
    all_devices.pool_bytes += device.pool_bytes;
  }
  if (prepared.scheduled.schedule().memory == ScheduleMemory::kPaged) {
    const absl::StatusOr<std::int64_t> bytes = PagedBytes(prepared.scheduled.made);
    if (!bytes.ok()) return bytes.status();
    all_devices.pool_bytes = *bytes;
  }
  const RunCost cost = CostOfRun(all_devices, options.iterations);
  if (absl::Status status = CheckRunMemory(cost, AvailableMemory()); !status.ok()) return status;
  std::cerr << "run: " << RunCostText(cost) << '\n';
  if (const std::string busy = BusyText(); !busy.empty()) std::cerr << "run: " << busy << '\n';
  return absl::OkStatus();
}

double JoulesOf(const Iterations& iterations) {
  return iterations.power->mean_watts * iterations.mean_seconds();
}

nlohmann::ordered_json PowerJson(const Iterations& iterations) {
  if (!iterations.power.has_value()) return nullptr;
  return {{"mean_watts", iterations.power->mean_watts},
          {"maximum_watts", iterations.power->maximum_watts},
          {"joules_per_iteration", JoulesOf(iterations)},
          {"samples", iterations.power->samples}};
}

double StalledSeconds(const Timeline& timeline) {
  return std::accumulate(
      timeline.stalls.begin(), timeline.stalls.end(), 0.0,
      [](double sum, const TimelineStall& stall) { return sum + stall.seconds; });
}

// Returns a row with a time as it was measured, and as it was predicted.
std::vector<std::string> ComparisonRow(std::string name, double measured, double predicted) {
  return {std::move(name), MillisecondsText(measured), MillisecondsText(predicted)};
}

absl::StatusOr<Answer> PrintIterations(const RunCommandOptions& options,
                                       const SimulatedIteration& prepared,
                                       const Iterations& iterations) {
  const Timeline& last = iterations.last;
  const Timeline& predicted = *prepared.timeline;
  nlohmann::ordered_json more = {{"device", iterations.device},
                                 {"iteration_seconds", iterations.seconds},
                                 {"predicted_seconds", predicted.seconds},
                                 {"predicted_compute_seconds", predicted.compute_seconds},
                                 {"predicted_stalled_seconds", StalledSeconds(predicted)},
                                 {"power", PowerJson(iterations)}};
  if (iterations.probes.has_value()) more["densities"] = iterations.probes->Json();
  absl::StatusOr<Answer> answer = PrintTimeline(options.point, prepared.scheduled, last, more);
  if (!answer.ok() || options.point.json || options.point.timeline == "/dev/stdout") {
    return answer;
  }
  std::vector<std::vector<std::string>> rows = {
      {"on " + iterations.device, "measured", "predicted"},
      ComparisonRow(absl::StrCat("  last of ", options.iterations, " iterations"), last.seconds,
                    predicted.seconds),
      ComparisonRow("    computing", last.compute_seconds, predicted.compute_seconds),
      ComparisonRow("    stalled", StalledSeconds(last), StalledSeconds(predicted))};
  if (iterations.power.has_value()) {
    rows.push_back({"  power, mean", absl::StrFormat("%.1f W", iterations.power->mean_watts)});
    rows.push_back({"  power, most", absl::StrFormat("%.1f W", iterations.power->maximum_watts)});
    rows.push_back({"  energy of an iteration", absl::StrFormat("%.3f J", JoulesOf(iterations))});
  }
  if (iterations.probes.has_value()) {
    for (std::vector<std::string>& row : iterations.probes->Rows()) rows.push_back(std::move(row));
  }
  std::cout << '\n' << TableText(rows);
  return answer;
}

absl::StatusOr<Answer> RunRun(const CLI::App& app, const RunCommandOptions& options) {
  absl::Status status = CheckScheduleFile(app, options.point, /*fixes_pages=*/true);
  if (status.ok()) status = CheckRunOptions(options);
  if (status.ok() && options.point.schedule.empty()) {
    status = CheckPolicyOptions(app, options.point, {options.point.policy});
  }
  if (!status.ok()) return status;
  const absl::StatusOr<SimulatedIteration> prepared = Prepare(options);
  if (!prepared.ok()) return prepared.status();
  if (!prepared->timeline.ok()) {
    return PrintDoesNotFit(options.point, prepared->scheduled, prepared->timeline.status());
  }
  status = CheckHasPool(options, prepared->scheduled.schedule());
  if (status.ok()) status = Announce(options, *prepared);
  if (!status.ok()) return status;
  const absl::StatusOr<Iterations> iterations = Iterate(options, *prepared);
  if (!iterations.ok()) return iterations.status();
  return PrintIterations(options, *prepared, *iterations);
}

}  // namespace

Command AddRun(CLI::App& app) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* run = app.add_subcommand(
      "run", "Runs training iterations under an offload policy on a device, with real copies");
  run->group("Training iterations");
  run->add_option("GRAPH", options->point.graph,
                  "The task graph, a file as `tidepool model -o` writes it")
      ->required();
  AddWholeOption(*run, "--batch", options->batch, {.least = 1, .most = INT64_MAX},
                 "Samples of an iteration, for a graph at any batch");
  AddPointOptions(*run, options->point);
  AddOffloadOptions(*run, options->point);
  const std::string group = "Run";
  run->add_option("--device", options->device,
                  "host: copies take the time of --link; cuda: copies on the first GPU. Tasks take "
                  "their time on the device and write nothing")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(group);
  AddWholeOption(*run, "--iterations", options->iterations, {.least = 1, .most = INT_MAX},
                 "Number of iterations")
      ->group(group);
  AddWholeOption(*run, "--probe-every", options->probe_every, {.least = 1, .most = INT_MAX},
                 "Probe the densities of offloaded data every N iterations, and choose "
                 "compression again when one leaves its error band (default: never)")
      ->group(group);
  run->add_option_function<std::string>(
         "--data-density",
         [options](const std::string& text) {
           absl::StatusOr<std::vector<double>> densities = ParseDensities(text);
           if (!densities.ok()) {
             throw CLI::ValidationError("--data-density",
                                        std::string(densities.status().message()));
           }
           options->data_densities = *std::move(densities);
         },
         "Let tasks of the host write activations with this share of values that are not "
         "zero: a number, or a list with one for each iteration (default: they write "
         "nothing)")
      ->type_name("NUMBERS")
      ->group(group);
  AddNumberOption(*run, "--scale", options->scale, {.least = 0, .most = 1e6},
                  "Multiply the time of each task by this number")
      ->group(group);
  AddExamples(*run, {"tidepool model alexnet --batch 32 -o alexnet.json",
                     "tidepool run alexnet.json --memory 1GiB --link 2GB/s --iterations 5",
                     ("tidepool run alexnet.json --memory 1GiB --link 2GB/s --iterations 4 "
                      "--density 0.9 --data-density 0.9,0.2 --probe-every 1")});
  return {run, [run, options] { return RunRun(*run, *options); }};
}

}  // namespace tidepool::tool
