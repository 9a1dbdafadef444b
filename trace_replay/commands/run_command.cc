// tidepool run: iterations under an offload policy on a device, beside what the simulator predicts.
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/schedule/timeline.h"
#include "trace_replay/offload/live_iteration.h"
#include "trace_replay/offload/offload_options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct RunCommandOptions {
  OffloadCommandOptions offload;
  std::string device = "host";
  int iterations = 3;
  double scale = 1;
};

absl::Status CheckRunOptions(const RunCommandOptions& options) {
  if (options.device != "host" && options.device != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", absl::CHexEscape(options.device), "', expected host or cuda"));
  }
  if (options.iterations < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--iterations: ", options.iterations, ", expected at least 1"));
  }
  if (!(options.scale >= 0 && options.scale <= 1e6)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--scale: ", options.scale, ", expected 0 to 1,000,000"));
  }
  if (options.offload.in_bytes_per_second.has_value()) {
    return absl::InvalidArgumentError("--link-in: expected --link alone, for both directions");
  }
  return absl::OkStatus();
}

// The graph whose tasks take as long as they are made to.
void Scale(TaskGraph& graph, double scale) {
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) algorithm.seconds *= scale;
  }
}

void ShowProgress(int iteration, int iterations) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, iteration == iterations ? "\r\033[K" : "\riteration %d of %d", iteration + 1,
               iterations);
}

absl::StatusOr<Answer> RunRun(const RunCommandOptions& options) {
  if (absl::Status status = CheckRunOptions(options); !status.ok()) return status;
  absl::StatusOr<ScheduledGraph> scheduled = MakeScheduledGraph(options.offload);
  if (!scheduled.ok()) return scheduled.status();
  const auto does_not_fit = [&](const absl::Status& why) {
    return PrintDoesNotFit(options.offload, scheduled->graph, why);
  };
  if (!scheduled->schedule.ok()) return does_not_fit(scheduled->schedule.status());
  Scale(scheduled->graph, options.scale);
  const absl::StatusOr<Timeline> simulated =
      Simulate(scheduled->graph, *scheduled->schedule, scheduled->offload.machine);
  if (absl::IsResourceExhausted(simulated.status())) return does_not_fit(simulated.status());
  if (!simulated.ok()) return simulated.status();
  const absl::StatusOr<std::unique_ptr<LiveIteration>> live =
      LiveIteration::Create({.device = options.device, .machine = scheduled->offload.machine},
                            scheduled->graph, *simulated);
  if (!live.ok()) return live.status();
  std::vector<double> seconds;
  Timeline last;
  for (int i = 0; i < options.iterations; ++i) {
    ShowProgress(i, options.iterations);
    absl::StatusOr<Timeline> timeline = (*live)->Run();
    if (!timeline.ok()) return timeline.status();
    seconds.push_back(timeline->seconds);
    last = *std::move(timeline);
  }
  ShowProgress(options.iterations, options.iterations);
  last.pool_bytes = simulated->pool_bytes;  // the places are the same
  absl::StatusOr<Answer> answer =
      PrintTimeline(options.offload, scheduled->graph, *scheduled->schedule, last,
                    {{"device", (*live)->device_name()},
                     {"iteration_seconds", seconds},
                     {"predicted_seconds", simulated->seconds}});
  if (!answer.ok() || options.offload.json || options.offload.timeline == "/dev/stdout") {
    return answer;
  }
  std::cout << '\n'
            << TableText({{"on " + (*live)->device_name(), ""},
                          {absl::StrCat("  last of ", options.iterations, " iterations"),
                           MillisecondsText(last.seconds)},
                          {"  predicted", MillisecondsText(simulated->seconds)}});
  return answer;
}

}  // namespace

Command AddRun(CLI::App& app) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* run = app.add_subcommand(
      "run", "Iterations under an offload policy on a device; on the host, tasks take their time");
  AddOffloadOptions(*run, options->offload);
  run->add_option("--device", options->device, "host; or cuda, where each task writes its outputs")
      ->capture_default_str();
  run->add_option("--iterations", options->iterations, "How many")->capture_default_str();
  run->add_option("--scale", options->scale, "Tasks take so many times what the graph says")
      ->capture_default_str();
  return {run, [options] { return RunRun(*options); }};
}

}  // namespace tidepool::tool
