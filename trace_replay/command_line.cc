// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/command_line.h"

#include <array>
#include <string_view>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/help.h"

namespace tidepool::tool {
namespace {

CLI::Option* AddVersion(CLI::App& app) {
  return app.set_version_flag("--version", "tidepool " TIDEPOOL_VERSION,
                              "Print the version and exit");
}

void Describe(CLI::App& app) {
  app.formatter(MakeHelpFormatter());
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print help for the command and exit");
  AddVersion(app);
  app.footer(
      "Examples:\n"
      "  tidepool size step.tide                       how much memory does this job need?\n"
      "  tidepool report snapshot.pickle --pool 80GiB  where did the memory go?\n"
      "  tidepool plan step.tide -o plan.csv           an offset for every allocation\n"
      "  tidepool COMMAND --help                       the options of a command\n\n"
      "Sizes are bytes, or numbers with a unit: 1KiB = 1K = 1024 bytes, 1KB = 1000 bytes, and so "
      "M,\n"
      "G and T. Rates are bytes a second: 12e9, 12GB/s. Times are seconds, or end in h, m, ms, us "
      "or ns.\n"
      "Exit status: 0 done; 1 wrong input or arguments; 2 the answer is no: it does not fit.");
}

// Lets commands with options that `--help` leaves out show them.
void AddAllHelp(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (absl::c_none_of(command->get_groups(), IsMore)) continue;
    command->set_help_all_flag("--help-all",
                               "Print help with more options of machines and policies, and exit");
  }
}

// Lets every command take `--version` too, without a line in its help.
void AddVersions(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    AddVersion(*command)->group("");
    AddVersions(*command);
  }
}

// Returns an error for a file to write that is named '-': other programs write to standard output
// then.
absl::Status CheckOutput(const CLI::Option& option) {
  constexpr auto kOutputs = std::to_array<std::string_view>(
      {"--output", "OUTPUT", "--svg", "--timeline", "--record", "--save"});
  const bool is_output = absl::c_linear_search(kOutputs, option.get_name());
  if (!is_output || !absl::c_linear_search(option.results(), "-")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option.get_name(), ": '-' names no file, expected a file, or /dev/stdout"));
}

// Returns an error for an option with an empty value, as an unset variable of a script gives it: a
// file that is not written, or a choice that is not made, would be no answer. Settings of
// PyTorch may be none, and an argument without a name may belong to the program of `dryrun`.
absl::Status CheckValues(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (absl::Status status = CheckOutput(*option); !status.ok()) return status;
    if (option->get_positional() || option->get_name() == "--pytorch-settings") continue;
    if (absl::c_linear_search(option->results(), "")) {
      return absl::InvalidArgumentError(
          absl::StrCat(option->get_name(), ": no value, expected one"));
    }
  }
  for (const CLI::App* chosen : command.get_subcommands()) {
    if (absl::Status status = CheckValues(*chosen); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

CommandLine::CommandLine()
    : app_("Sizes, plans and replays GPU memory pools from recorded traces.", "tidepool") {
  Describe(app_);
  commands_ = AddCommands(app_);
  AddAllHelp(app_);
  AddVersions(app_);
}

absl::StatusOr<Answer> CommandLine::Run() const {
  if (absl::Status status = CheckValues(app_); !status.ok()) return status;
  for (const Command& command : commands_) {
    if (command.app->parsed()) return command.run();
  }
  return absl::InvalidArgumentError("no command, expected one of those in 'tidepool --help'");
}

}  // namespace tidepool::tool
