// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/modnn_options.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool::tool {
namespace {

constexpr char kGroup[] = "More: policy modnn";

double ParseShare(const std::string& text) {
  double share = 0;
  if (absl::SimpleAtod(text, &share) && share > 0 && share <= 1) return share;
  throw CLI::ValidationError(
      "--alpha", absl::StrCat("'", absl::CHexEscape(text), "', expected more than 0, up to 1"));
}

}  // namespace

void AddBatchNormOption(CLI::App& app, PolicyChoice& choice) {
  ModnnOptions& options = choice.modnn;
  app.add_option_function<std::string>(
         "--batch-norm",
         [&options](const std::string& name) {
           options.ghost_batch_normalization = name == "ghost";
         },
         "Batch normalisation in several rounds: ghost, over each sub-batch, so that gradients "
         "differ from those of the whole batch; or refuse")
      ->check(CLI::IsMember({"ghost", "refuse"}))
      ->default_str("ghost")
      ->type_name("NAME")
      ->group(kGroup);
}

void AddModnnOptions(CLI::App& app, OffloadCommandOptions& command) {
  ModnnOptions& options = command.choice.modnn;
  app.add_option_function<std::string>(
         "--sub-batch-rule",
         [&options](const std::string& name) {
           options.sub_batch.rule = SubBatchRuleFromName(name).value();
         },
         "Rule of --sub-batch auto: consecutive-tasks, room for the data of a share of the tasks; "
         "largest-task, room for the largest task, as in the paper of 2018")
      ->check(CLI::IsMember({"consecutive-tasks", "largest-task"}))
      ->default_str("consecutive-tasks")
      ->type_name("NAME")
      ->group(kGroup);
  app.add_option_function<std::string>(
         "--alpha",
         [&options](const std::string& text) {
           options.sub_batch.consecutive_share = ParseShare(text);
         },
         "The share of the tasks that consecutive-tasks asks for")
      ->default_str("0.15")
      ->type_name("NUMBER")
      ->group(kGroup);
  AddBatchNormOption(app, command.choice);
  app.add_flag_callback(
         "--paper",
         [&command] {
           command.choice.modnn.as_printed = true;
           command.machine.one_way = true;
         },
         "Schedule as the paper does: one queue for copies of both directions, and its equations "
         "as printed")
      ->group(kGroup);
}

}  // namespace tidepool::tool
