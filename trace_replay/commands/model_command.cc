// tidepool model: the task graph of a known network.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/model_zoo.h"
#include "trace_replay/command.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct ModelCommandOptions {
  std::string name;
  std::optional<std::int64_t> image;
  std::string times;
  std::string output;
  bool json = false;
  ModelOptions model;
};

absl::StatusOr<Answer> ListModels(const ModelCommandOptions& options) {
  nlohmann::ordered_json json = {{"models", nlohmann::ordered_json::array()}};
  std::vector<std::vector<std::string>> rows = {{"model", "image or tokens", "parameters"}};
  for (const std::string& name : KnownModels()) {
    const absl::StatusOr<std::int64_t> image = ModelImage(name);
    const absl::StatusOr<std::int64_t> parameters = ModelParameters(name);
    if (!image.ok()) return image.status();
    if (!parameters.ok()) return parameters.status();
    json["models"].push_back({{"model", name}, {"image", *image}, {"parameters", *parameters}});
    rows.push_back({name, CountText(*image), CountText(*parameters)});
  }
  if (options.json) {
    PrintJson(json);
  } else {
    std::cout << TableText(rows);
  }
  return Answer::kYes;
}

void PrintModelJson(const ModelCommandOptions& options, const TaskGraph& graph,
                    std::int64_t parameters) {
  const GraphTotals totals = TotalsOf(graph);
  PrintJson(
      {{"model", graph.name},
       {"batch", graph.batch},
       {"image", options.model.image},
       {"gpu", options.model.gpu},
       {"tasks", graph.tasks.size()},
       {"data", graph.data.size()},
       {"parameters", parameters},
       {"input_bytes", totals.inputs},
       {"weight_bytes", totals.weights},
       {"activation_bytes", totals.activations},
       {"kept_activation_bytes", totals.kept_activations},
       {"largest_task",
        {{"task", graph.tasks[totals.largest_task_index].name}, {"bytes", totals.largest_task}}},
       {"seconds", totals.least_seconds},
       {"least_workspace_seconds", totals.least_workspace_seconds},
       {"output", options.output.empty() ? nlohmann::ordered_json()
                                         : nlohmann::ordered_json(options.output)}});
}

void PrintModelTable(const ModelCommandOptions& options, const TaskGraph& graph,
                     std::int64_t parameters) {
  const GraphTotals totals = TotalsOf(graph);
  std::cout << graph.name << "\n  batch " << CountText(graph.batch) << ", image or tokens "
            << CountText(options.model.image) << ", times of " << options.model.gpu
            << (options.times.empty() ? "" : " and measured ones") << "\n\n"
            << TableText(
                   {{"tasks", CountText(static_cast<std::int64_t>(graph.tasks.size()))},
                    {"data", CountText(static_cast<std::int64_t>(graph.data.size()))},
                    {"parameters", CountText(parameters)},
                    {"weights", SizeText(totals.weights)},
                    {"input", SizeText(totals.inputs)},
                    {"activations", SizeText(totals.activations)},
                    {"  kept for the backward pass", SizeText(totals.kept_activations)},
                    {absl::StrCat("largest task, ", graph.tasks[totals.largest_task_index].name),
                     SizeText(totals.largest_task)},
                    {"time, the quickest algorithms", MillisecondsText(totals.least_seconds)},
                    {"  the smallest workspaces",
                     MillisecondsText(totals.least_workspace_seconds)}});
}

absl::StatusOr<TaskGraph> MakeTimedModel(const ModelCommandOptions& options) {
  absl::StatusOr<TaskGraph> graph = MakeModel(options.name, options.model);
  if (!graph.ok() || options.times.empty()) return graph;
  if (absl::Status status = ReadTimes(options.times, *graph); !status.ok()) return status;
  return graph;
}

absl::StatusOr<Answer> RunModel(ModelCommandOptions options) {
  if (options.name.empty()) return ListModels(options);
  if (options.json && options.output == "/dev/stdout") {
    return absl::InvalidArgumentError(
        "--json: the graph goes to standard output, expected another file for it");
  }
  const absl::StatusOr<std::int64_t> image = ModelImage(options.name);
  if (!image.ok()) return image.status();
  if (options.image.has_value() && *options.image < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("image ", *options.image, ", expected at least 1"));
  }
  options.model.image = options.image.value_or(*image);
  const absl::StatusOr<TaskGraph> graph = MakeTimedModel(options);
  if (!graph.ok()) return graph.status();
  const absl::StatusOr<std::int64_t> parameters =
      ModelParameters(options.name, options.model.image);
  if (!parameters.ok()) return parameters.status();
  if (!options.output.empty()) {
    if (absl::Status status = WriteGraph(*graph, options.output); !status.ok()) return status;
    if (options.output == "/dev/stdout") return Answer::kYes;
  }
  if (options.json) {
    PrintModelJson(options, *graph, *parameters);
  } else {
    PrintModelTable(options, *graph, *parameters);
  }
  return Answer::kYes;
}

}  // namespace

Command AddModel(CLI::App& app) {
  auto options = std::make_shared<ModelCommandOptions>();
  CLI::App* model = app.add_subcommand("model", "The task graph of a known network");
  model->add_option("name", options->name, "The network; without one, those that are known");
  model->add_option("--batch", options->model.batch, "Samples of an iteration, 1 to 2^20")
      ->type_name("N");
  model
      ->add_option("--image", options->image,
                   "Pixels of a side, or tokens of a sequence (default: what the network is known "
                   "for)")
      ->type_name("N");
  model->add_option("--gpu", options->model.gpu, "Whose rates give the times of tasks")
      ->capture_default_str();
  model->add_flag("--fused-batch-norm", options->model.fused_batch_normalization,
                  "Batch normalisation keeps one tensor instead of its input and its output");
  model->add_option("--times", options->times,
                    "Measured times instead: a CSV with the columns task, algorithm and seconds");
  model->add_option("-o,--output", options->output,
                    "A JSON file for the graph; compressed when it ends in .gz");
  model->add_flag("--json", options->json, "One JSON object");
  return {model, [options] { return RunModel(*options); }};
}

}  // namespace tidepool::tool
