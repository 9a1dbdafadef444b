// tidepool: sizes pools from recorded traces. One file a subcommand; this one parses the command
// line and turns errors into one line and an exit status.
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/command.h"

namespace tidepool::tool {
namespace {

// On one line, and without what would steer the terminal: CLI11 shows arguments as they are.
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

int Main(int argc, char** argv) {
  CLI::App app("Sizes GPU memory pools from recorded traces.", "tidepool");
  app.require_subcommand(1);
  const std::vector<Command> commands = {
      AddInfo(app), AddSize(app), AddReplay(app), AddConvert(app),  AddReport(app),
      AddPlan(app), AddTune(app), AddModel(app),  AddSimulate(app), AddRun(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help(
        "", app.get_subcommands().empty() ? CLI::AppFormatMode::Normal : CLI::AppFormatMode::All);
    return 0;
  } catch (const CLI::ParseError& error) {
    return Fail(absl::StrCat(error.what(), ", expected arguments as in 'tidepool --help'"));
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    absl::StatusOr<Answer> answer = command.run();
    if (!answer.ok()) return Fail(std::string(answer.status().message()));
    std::cout.flush();
    if (!std::cout)
      return Fail("standard output cannot be written, expected a place for the answer");
    return static_cast<int>(*answer);
  }
  return Fail("no subcommand, expected one of those in 'tidepool --help'");
}

}  // namespace
}  // namespace tidepool::tool

int main(int argc, char** argv) {
  // A limit on the size of files is an error of the write, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return tidepool::tool::Main(argc, argv);
  } catch (const std::exception& error) {  // out of memory, most likely
    std::fprintf(stderr, "tidepool: %s, expected more memory or a smaller trace\n", error.what());
    return 1;
  }
}
