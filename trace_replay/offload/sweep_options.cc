// SPDX-License-Identifier: Apache-2.0
// Declares the options of sweeps and checks them together.
#include "trace_replay/offload/sweep_options.h"

#include <filesystem>
#include <functional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/training/model_zoo.h"
#include "trace_replay/offload/graph_file.h"
#include "trace_replay/options.h"

namespace tidepool::tool {
namespace {

constexpr Range<std::int64_t> kBatches = {.least = 1, .most = std::int64_t{1} << 20};

template <typename Value>
CLI::Option* AddValues(
    CLI::App& app, const std::string& name, SweepValues<Value>& target,
    const std::function<absl::StatusOr<SweepValues<Value>>(const std::string&)>& parse,
    const std::string& description) {
  return app.add_option_function<std::string>(
      name,
      [name, parse, &target](const std::string& text) {
        absl::StatusOr<SweepValues<Value>> values = parse(text);
        if (!values.ok()) {
          throw CLI::ValidationError(name, std::string(values.status().message()));
        }
        target = *std::move(values);
      },
      description);
}

void AddQuestions(CLI::App& app, SweepOptions& sweep) {
  const std::string group = "Sweep";
  app.add_flag("--smallest-memory", sweep.smallest_memory,
               "Answer with the smallest memory of the sweep that suffices; exit status 2 if none "
               "does")
      ->group(group);
  app.add_flag("--largest-batch", sweep.largest_batch,
               "Answer with the largest batch of the sweep that fits; exit status 2 if none does")
      ->group(group);
  AddNumberOption(app, "--slowdown", sweep.most_slowdown, {.least = 0, .most = 1e9},
                  "Take only iterations for an answer that take at most this many times the ideal "
                  "time, such as 1.1")
      ->default_str("")
      ->group(group);
}

bool IsKnownModel(const std::string& name) { return ModelImage(name).ok(); }

absl::Status CheckGraphOptions(const CLI::App& app, const OffloadCommandOptions& options) {
  std::error_code error;
  const bool is_file = std::filesystem::exists(options.graph, error);
  if (app.count("--batch") > 0 && !is_file) return absl::OkStatus();
  if (!is_file && IsKnownModel(options.graph)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--batch is missing, expected the samples of an iteration of ", options.graph,
                     ", 1 to ", kBatches.most));
  }
  return Refuse(app, {"--gpu", "--flops", "--bandwidth"},
                absl::StrCat(absl::CHexEscape(options.graph),
                             " has times of its own, expected the name of a network, and --batch"));
}

}  // namespace

void AddSweepOptions(CLI::App& app, SweepOptions& sweep) {
  AddValues<std::int64_t>(app, "--memory", sweep.memories, ParseSizes,
                          "Memory of the device: a size, a list 8GiB,16GiB, or a range "
                          "4GiB..40GiB/1GiB, FIRST..LAST/STEP")
      ->type_name("SIZES")
      ->group("Machine");
  AddValues<std::string>(app, "--policy", sweep.policies, ParseNames,
                         absl::StrCat(PolicyHelp(), "; or a list none,vdnn,vdnn++"))
      ->type_name("NAMES")
      ->default_str("vdnn++")
      ->group("Policy");
  AddValues<std::string>(app, "--offload", sweep.sets, ParseNames,
                         absl::StrCat(kOffloadHelp, "; or a list of these"))
      ->type_name("NAMES")
      ->default_str("conv")
      ->group("Policy");
  AddQuestions(app, sweep);
  app.add_flag("--csv", sweep.csv, "Print a line for each point of the sweep, as CSV")
      ->group("Sweep");
  app.add_option("--svg", sweep.drawing,
                 "Draw the time of an iteration over the memory: a curve for each policy")
      ->type_name("FILE")
      ->group("Sweep");
}

void AddGraphOptions(CLI::App& app, GraphSource& source, SweepOptions& sweep) {
  AddValues<std::int64_t>(
      app, "--batch", sweep.batches,
      [](const std::string& text) { return ParseWholes(text, kBatches); },
      "Samples of an iteration, for GRAPH that is the name of a network or a graph at any batch: a "
      "number, a list 1,2,4, or a range 8..64/8")
      ->type_name("NUMBERS")
      ->group("Network");
  AddGpuOptions(app, source.gpu, "Network");
}

absl::Status CheckSweepOptions(const CLI::App& app, const SweepOptions& sweep,
                               const OffloadCommandOptions& options) {
  if (absl::Status status = CheckGraphOptions(app, options); !status.ok()) return status;
  if (app.count("--slowdown") > 0 && !sweep.asks()) {
    return absl::InvalidArgumentError(
        "--slowdown: a limit for --smallest-memory or --largest-batch, expected one of these too");
  }
  if (sweep.csv && options.json) {
    return absl::InvalidArgumentError("--csv: --json prints the points too: remove one of the two");
  }
  if (sweep.drawing == "/dev/stdout" && (sweep.csv || options.json)) {
    return absl::InvalidArgumentError(
        "--svg: the drawing goes to standard output, expected neither --json nor --csv");
  }
  if (absl::Status status = CheckDrawing(sweep.drawing); !status.ok()) return status;
  if (sweep.is_sweep() && !options.timeline.empty()) {
    return absl::InvalidArgumentError(
        "--timeline: a file for one iteration, expected one memory, policy, set and batch");
  }
  for (const std::string& policy : sweep.policies.values) {
    const std::vector<std::string> known = OffloadPolicyNames();
    if (absl::c_linear_search(known, policy)) continue;
    return absl::InvalidArgumentError(absl::StrCat("no offload policy '", absl::CHexEscape(policy),
                                                   "', expected one of ",
                                                   absl::StrJoin(known, ", ")));
  }
  for (const std::string& set : sweep.sets.values) {
    if (absl::Status status = OffloadSetFromName(set).status(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphOrFamily> GraphOf(const GraphSource& source, std::int64_t batch,
                                      bool as_family) {
  std::error_code error;
  if (batch == 0 || std::filesystem::exists(source.graph, error)) {
    return ReadGraphFor(source.graph, batch);
  }
  absl::StatusOr<GpuRates> gpu = RatesOf(source.gpu);
  if (!gpu.ok()) return gpu.status();
  ModelOptions model;
  model.batch = batch;
  model.rates = *std::move(gpu);
  if (as_family) return MakeModelFamily(source.graph, model, {batch});
  return MakeModel(source.graph, model);
}

}  // namespace tidepool::tool
