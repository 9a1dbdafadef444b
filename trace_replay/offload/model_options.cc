// SPDX-License-Identifier: Apache-2.0
// Declares the options of a known network. Each choice has the names of its values.
#include "trace_replay/offload/model_options.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

}  // namespace

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

}  // namespace tidepool::tool
