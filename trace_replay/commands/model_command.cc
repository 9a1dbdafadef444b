// SPDX-License-Identifier: Apache-2.0
// The command `model`: the task graph of a known network.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/micro_batches.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/workspace_policy.h"
#include "trace_replay/command.h"
#include "trace_replay/offload/gpu_option.h"
#include "trace_replay/offload/sweep_values.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

template <typename Value>
using Choices = std::vector<std::pair<std::string, Value>>;

// Adds an option; its value is one of the names. The first is the default.
template <typename Value>
void AddChoice(CLI::App& app, const std::string& name, Value& target, const Choices<Value>& choices,
               const std::string& description) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& choice : choices) names.push_back(choice.first);
  const std::string known = absl::StrJoin(names, ", ");
  app.add_option_function<std::string>(
         name,
         [name, known, choices, &target](const std::string& text) {
           for (const auto& choice : choices) {
             if (choice.first != text) continue;
             target = choice.second;
             return;
           }
           throw CLI::ValidationError(name, absl::StrCat("unknown '", absl::CHexEscape(text),
                                                         "', expected one of ", known));
         },
         absl::StrCat(description, ": ", known))
      ->type_name("NAME")
      ->default_str(choices.front().first)
      ->group("Training");
}

// Adds --precision, --optimizer, --backward, --weight-gradients, --input-gradient, --no-labels,
// --inputs, --weights, --fused-batch-norm and --unfused-attention.
void AddModelOptions(CLI::App& app, ModelOptions& model) {
  AddChoice<Precision>(app, "--precision", model.precision,
                       {{"float32", Precision::kFloat32},
                        {"float16", Precision::kFloat16},
                        {"bfloat16", Precision::kBfloat16}},
                       "Type of data, weights and gradients; with 16 bits, weights have float32 "
                       "copies too");
  AddChoice<Optimizer>(app, "--optimizer", model.optimizer,
                       {{"sgd", Optimizer::kGradientDescent},
                        {"momentum", Optimizer::kMomentum},
                        {"adam", Optimizer::kAdam}},
                       "Update of the weights: gradient descent, also with momentum, or Adam");
  AddChoice<BackwardTasks>(app, "--backward", model.backward,
                           {{"split", BackwardTasks::kSplit}, {"fused", BackwardTasks::kFused}},
                           "Gradients of a layer's data and weights as two tasks or as one");
  AddChoice<WeightGradients>(
      app, "--weight-gradients", model.weight_gradients,
      {{"resident", WeightGradients::kResident}, {"temporary", WeightGradients::kTemporary}},
      "Memory of weights' gradients: always, with updates at the end, or "
      "until the update that follows at once");
  const Choices<DataHome> homes = {{"device", DataHome::kDevice}, {"host", DataHome::kHost}};
  AddChoice<DataHome>(app, "--weights", model.weights, homes,
                      "Place of weights and of the optimizer's state between iterations");
  AddChoice<DataHome>(app, "--inputs", model.inputs, {homes[1], homes[0]},
                      "Place of inputs and labels before an iteration");
  app.add_flag_callback(
         "--no-labels", [&model] { model.labels = false; }, "Leave the labels out")
      ->group("Training");
  app.add_flag("--input-gradient", model.input_gradient,
               "Compute the gradient of the image too, as papers count kernels")
      ->group("Training");
  app.add_flag("--fused-batch-norm", model.fused_batch_normalization,
               "Let batch normalisation keep one tensor instead of its input and its output")
      ->group("Training");
  app.add_flag("--separate-sums", model.separate_sums,
               "Let sums of residual blocks be new tensors, with a gradient for each operand")
      ->group("Training");
  app.add_flag_callback(
         "--unfused-attention", [&model] { model.fused_attention = false; },
         "Let attention keep its scores, tokens x tokens for each head")
      ->group("Training");
}

constexpr std::int64_t kMostSamples = std::int64_t{1} << 20;

// Powers of two: the batches of a family without --batches.
constexpr std::int64_t kMostFamilyBatch = 512;

struct ModelCommandOptions {
  std::string name;
  std::int64_t image = 0;  // 0: the size that the network is known for
  std::string times;
  std::string output;
  bool json = false;
  GpuOption gpu;
  ModelOptions model;
  bool is_family = false;
  std::string batches;        // of a family: a list or range
  std::string micro_batches;  // a policy of MicroBatchSizes; empty: none
  const CLI::App* app = nullptr;
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
       {"gpu", graph.gpu},
       {"link_bytes_per_second", graph.link_bytes_per_second},
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
  std::cout << absl::CHexEscape(graph.name) << "\n  batch " << CountText(graph.batch)
            << ", image or tokens " << CountText(options.model.image) << ", times of "
            << absl::CHexEscape(graph.gpu) << (options.times.empty() ? "" : " and measured ones")
            << "\n\n"
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
                    {"time with the fastest algorithms", MillisecondsText(totals.least_seconds)},
                    {"time with the smallest workspaces",
                     MillisecondsText(totals.least_workspace_seconds)}});
}

// Makes the graph with configurations as algorithms.
absl::StatusOr<TaskGraph> MakeDividedModel(const ModelCommandOptions& options) {
  const std::int64_t batch = options.model.batch;
  const absl::StatusOr<std::vector<std::int64_t>> sizes =
      MicroBatchSizes(options.micro_batches, batch);
  if (!sizes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--micro-batches: ", sizes.status().message()));
  }
  const absl::StatusOr<GraphFamily> family = MakeModelFamily(options.name, options.model, {batch});
  if (!family.ok()) return family.status();
  return GraphInMicroBatches(*family, batch, options.micro_batches);
}

absl::StatusOr<TaskGraph> MakeTimedModel(const ModelCommandOptions& options) {
  if (!options.micro_batches.empty()) return MakeDividedModel(options);
  absl::StatusOr<TaskGraph> graph = MakeModel(options.name, options.model);
  if (!graph.ok() || options.times.empty()) return graph;
  if (absl::Status status = ReadTimes(options.times, *graph); !status.ok()) return status;
  return graph;
}

absl::StatusOr<std::vector<std::int64_t>> FamilyBatches(const ModelCommandOptions& options) {
  if (!options.batches.empty()) {
    auto batches = ParseWholes(options.batches, {.least = 1, .most = kMostSamples});
    if (batches.ok()) return std::move(batches->values);
    return absl::InvalidArgumentError(absl::StrCat("--batches: ", batches.status().message()));
  }
  std::vector<std::int64_t> batches;
  for (std::int64_t batch = 1; batch <= kMostFamilyBatch; batch *= 2) batches.push_back(batch);
  return batches;
}

absl::Status CheckFamilyOptions(const ModelCommandOptions& options) {
  if (!options.micro_batches.empty() && (options.is_family || !options.times.empty())) {
    return absl::InvalidArgumentError(
        "--micro-batches: configurations of one batch, expected neither --family nor --times");
  }
  if (!options.is_family) {
    return options.batches.empty()
               ? absl::OkStatus()
               : absl::InvalidArgumentError("--batches: a table without --family, expected both");
  }
  if (options.model.batch > 0) {
    return absl::InvalidArgumentError(
        "--batch: one batch of a graph at any batch, expected --batches");
  }
  if (!options.times.empty()) {
    return absl::InvalidArgumentError("--times: times of one batch, expected no --family");
  }
  return absl::OkStatus();
}

absl::Status PrintFamily(const ModelCommandOptions& options, const GraphFamily& family) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows = {
      {"batch", "input", "activations", "fastest algorithms"}};
  for (const std::int64_t batch : family.batches) {
    const absl::StatusOr<TaskGraph> graph = GraphAt(family, batch);
    if (!graph.ok()) return graph.status();
    const GraphTotals totals = TotalsOf(*graph);
    points.push_back({{"batch", batch},
                      {"input_bytes", totals.inputs},
                      {"activation_bytes", totals.activations},
                      {"seconds", totals.least_seconds}});
    rows.push_back({CountText(batch), SizeText(totals.inputs), SizeText(totals.activations),
                    MillisecondsText(totals.least_seconds)});
  }
  if (options.json) {
    PrintJson({{"model", family.graph.name},
               {"image", options.model.image},
               {"gpu", family.graph.gpu},
               {"batches", points},
               {"output", options.output.empty() ? nlohmann::ordered_json()
                                                 : nlohmann::ordered_json(options.output)}});
  } else {
    std::cout << absl::CHexEscape(family.graph.name) << " at any batch, image or tokens "
              << CountText(options.model.image) << ", times of "
              << absl::CHexEscape(family.graph.gpu) << "\n\n"
              << TableText(rows);
  }
  return absl::OkStatus();
}

absl::StatusOr<Answer> RunFamily(const ModelCommandOptions& options) {
  const absl::StatusOr<std::vector<std::int64_t>> batches = FamilyBatches(options);
  if (!batches.ok()) return batches.status();
  const absl::StatusOr<GraphFamily> family = MakeModelFamily(options.name, options.model, *batches);
  if (!family.ok()) return family.status();
  if (!options.output.empty()) {
    if (absl::Status status = WriteFamily(*family, options.output); !status.ok()) return status;
    if (options.output == "/dev/stdout") return Answer::kYes;
  }
  if (absl::Status status = PrintFamily(options, *family); !status.ok()) return status;
  return Answer::kYes;
}

// Refuses options of a network without its name.
absl::Status CheckOnlyLists(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--json") continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": a network without a name, expected one of those that `tidepool model` lists"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Answer> RunModel(ModelCommandOptions options) {
  if (options.name.empty()) {
    if (absl::Status status = CheckOnlyLists(*options.app); !status.ok()) return status;
    return ListModels(options);
  }
  if (absl::Status status = CheckJsonOutput(options.json, options.output, "graph"); !status.ok()) {
    return status;
  }
  const absl::StatusOr<std::int64_t> image = ModelImage(options.name);
  if (!image.ok()) return image.status();
  if (absl::Status status = CheckFamilyOptions(options); !status.ok()) return status;
  if (options.model.batch == 0 && !options.is_family) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model: --batch is missing, expected samples an iteration, 1 to ", kMostSamples));
  }
  options.model.image = options.image == 0 ? *image : options.image;
  absl::StatusOr<GpuRates> gpu = RatesOf(options.gpu);
  if (!gpu.ok()) return gpu.status();
  options.model.rates = *std::move(gpu);
  if (options.is_family) return RunFamily(options);
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
  CLI::App* model = app.add_subcommand(
      "model", "Makes the task graph of one training iteration of a known network");
  options->app = model;
  model->group("Training iterations");
  model->add_option("NAME", options->name, "The network; without a name, the networks are listed")
      ->check(
          [](const std::string& name) {
            return name.empty() ? "'', expected a network or no argument" : std::string();
          },
          "");
  AddWholeOption(*model, "--batch", options->model.batch, {.least = 1, .most = kMostSamples},
                 "Samples of an iteration");
  model->add_flag("--family", options->is_family,
                  "Make the graph at any batch: sizes per sample, and times of several batches");
  model
      ->add_option("--batches", options->batches,
                   "With --family, the batches of the table of times: a list 1,2,4, or a range "
                   "8..64/8 (default: 1,2,4,...,512)")
      ->type_name("NUMBERS");
  model
      ->add_option(
          "--micro-batches", options->micro_batches,
          "Let tasks run in micro-batches of these sizes: powerOfTwo, all, or numbers such "
          "as 8,16,32. Their algorithms are then all configurations that are worth their "
          "workspace")
      ->type_name("POLICY");
  AddWholeOption(*model, "--image", options->image, {.least = 1, .most = INT64_MAX},
                 "Pixels of a side of the image, or tokens of a sequence (default: the size that "
                 "the network is known for)");
  model
      ->add_option("--times", options->times,
                   "Take measured times from this CSV file, task,algorithm,seconds")
      ->type_name("FILE");
  model
      ->add_option("-o,--output", options->output,
                   "Write the graph to this JSON file; compressed if the name ends in .gz")
      ->type_name("FILE");
  AddJsonOption(*model, options->json);
  AddModelOptions(*model, options->model);
  AddGpuOptions(*model, options->gpu, "GPU");
  AddExamples(*model,
              {"tidepool model", "tidepool model resnet-50 --batch 32 -o graph.json",
               "tidepool model resnet-50 --batch 32 --flops 60e12 --bandwidth 2TB/s",
               "tidepool model resnet-50 --family -o family.json",
               "tidepool model vgg-16 --batch 64 --micro-batches powerOfTwo -o divided.json",
               "tidepool model gpt2-xl --batch 8 --precision bfloat16 --optimizer adam"});
  return {model, [options] { return RunModel(*options); }};
}

}  // namespace tidepool::tool
