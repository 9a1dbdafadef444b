// SPDX-License-Identifier: Apache-2.0
// Parses arguments, runs a command, and turns an error into one line and an exit status.
#include "trace_replay/program.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "trace_replay/argument_errors.h"
#include "trace_replay/command.h"
#include "trace_replay/command_line.h"
#include "trace_replay/printable.h"

namespace tidepool::tool {
namespace {

int Fail(const std::string& message) {
  std::cerr << "tidepool: " << Printable(message) << '\n';
  return static_cast<int>(Answer::kBadInput);
}

int ParseAndRun(int argc, char** argv) {
  CommandLine line;
  try {
    line.app().parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << line.app().help();
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    std::cout << line.app().help("", CLI::AppFormatMode::All);
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << '\n';
    return 0;
  } catch (const CLI::ParseError& error) {
    if (argc == 1) std::cout << line.app().help();
    return Fail(ArgumentError(line.app(), error));
  }
  const absl::StatusOr<Answer> answer = line.Run();
  if (!answer.ok()) return Fail(std::string(answer.status().message()));
  std::cout.flush();
  if (!std::cout) {
    return Fail("standard output cannot be written, expected a file or pipe with room");
  }
  return static_cast<int>(*answer);
}

}  // namespace

int RunProgram(int argc, char** argv) {
  // Without this, a file beyond the limit of its size (ulimit -f) ends the program instead of the
  // write.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const PrintableLines printable(std::cout);
    return ParseAndRun(argc, argv);
  } catch (const std::exception& error) {  // most likely std::bad_alloc
    std::fprintf(stderr, "tidepool: %s, expected more memory or a smaller trace\n",
                 Printable(error.what()).c_str());
    return static_cast<int>(Answer::kBadInput);
  }
}

}  // namespace tidepool::tool
