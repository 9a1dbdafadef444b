// SPDX-License-Identifier: Apache-2.0
// The command line `tidepool`: parses arguments, runs a command, and turns an error into one line
// and an exit status.
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/argument_errors.h"
#include "trace_replay/command.h"
#include "trace_replay/help.h"

namespace tidepool::tool {
namespace {

// Returns `message` on one line, with control characters escaped: CLI11 quotes arguments as they
// are, and a terminal would obey them.
std::string Printable(const std::string& message) {
  std::string printable;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const auto byte = static_cast<unsigned char>(message[i]);
    const bool is_control = byte < 0x20 || byte == 0x7f;
    // U+0080 to U+009F in UTF-8.
    const bool begins_control =
        byte == 0xc2 && i + 1 < message.size() && static_cast<unsigned char>(message[i + 1]) < 0xa0;
    if (byte == '\n' || byte == '\r') {
      printable += ' ';
    } else if (is_control || begins_control) {
      printable += absl::CHexEscape({message.data() + i, 1});
    } else {
      printable += message[i];
    }
  }
  return printable;
}

int Fail(const std::string& message) {
  std::cerr << "tidepool: " << Printable(message) << '\n';
  return static_cast<int>(Answer::kBadInput);
}

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
      "G and T. Rates are bytes a second: 12e9, 12GB/s. Times are seconds, or end in ms, us or "
      "ns.\n"
      "Exit status: 0 done; 1 wrong input or arguments; 2 the answer is no: it does not fit.");
}

// Lets every command take `--version` too, without a line in its help.
void AddVersions(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    AddVersion(*command)->group("");
    AddVersions(*command);
  }
}

// Runs the command that was chosen.
int Run(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    absl::StatusOr<Answer> answer = command.run();
    if (!answer.ok()) return Fail(std::string(answer.status().message()));
    std::cout.flush();
    if (!std::cout) {
      return Fail("standard output cannot be written, expected a file or pipe with room");
    }
    return static_cast<int>(*answer);
  }
  return Fail("no command, expected one of those in 'tidepool --help'");
}

int Main(int argc, char** argv) {
  CLI::App app("Sizes, plans and replays GPU memory pools from recorded traces.", "tidepool");
  Describe(app);
  const std::vector<Command> commands = {
      AddInfo(app),   AddDiff(app),    AddSize(app),  AddPlan(app),     AddReplay(app),
      AddReport(app), AddConvert(app), AddModel(app), AddSchedule(app), AddSimulate(app),
      AddRun(app),    AddProfile(app), AddTune(app)};
  AddVersions(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << '\n';
    return 0;
  } catch (const CLI::ParseError& error) {
    if (argc == 1) std::cout << app.help();
    return Fail(ArgumentError(app, error));
  }
  return Run(commands);
}

}  // namespace
}  // namespace tidepool::tool

int main(int argc, char** argv) {
  // Without this, a file beyond the limit of its size (ulimit -f) ends the program instead of the
  // write.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return tidepool::tool::Main(argc, argv);
  } catch (const std::exception& error) {  // most likely std::bad_alloc
    std::fprintf(stderr, "tidepool: %s, expected more memory or a smaller trace\n", error.what());
    return 1;
  }
}
