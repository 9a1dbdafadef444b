// SPDX-License-Identifier: Apache-2.0
// Translates errors of CLI11, by their class and text.
#include "trace_replay/argument_errors.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lib/base/text/nearest.h"
#include "trace_replay/help.h"

namespace tidepool::tool {
namespace {

// The command that was named last: "tune compression" in "tidepool tune compression --word 8".
const CLI::App& ChosenCommand(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : ChosenCommand(*chosen.back());
}

// "tune compression: ", or nothing for the program itself.
std::string Prefix(const CLI::App& command) {
  if (command.get_parent() == nullptr) return "";
  return absl::StrCat(absl::StripPrefix(FullName(command), "tidepool "), ": ");
}

// "; did you mean '--policy'?", or nothing if no name is near.
std::string Hint(const std::string& text, const std::vector<std::string>& names) {
  const std::string nearest = text::Nearest(text, names);
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

std::string ExpectedOptions(const CLI::App& command) {
  return absl::StrCat(", expected an option of '", FullName(command), " --help'");
}

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string NoOption(const CLI::App& command, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  return absl::StrCat(Prefix(command), "no option '", name, "'", ExpectedOptions(command),
                      Hint(name, OptionNames(command)));
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// `app` has commands, of which none was named.
std::string NoCommand(const CLI::App& app) {
  const std::vector<std::string> names = CommandNames(app);
  const std::string prefix = Prefix(app);
  const std::string expected = absl::StrCat(", expected one of ", absl::StrJoin(names, ", "));
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty()) return absl::StrCat(prefix, "no command", expected);
  if (absl::StartsWith(rest[0], "-")) {
    return absl::StrCat(prefix, "no option '", rest[0], "' before a command", expected,
                        Hint(rest[0], OptionNames(app)));
  }
  return absl::StrCat(prefix, "no command '", rest[0], "'", expected, Hint(rest[0], names));
}

std::string UnexpectedArgument(const CLI::App& command, const std::string& argument) {
  if (absl::StartsWith(argument, "-")) return NoOption(command, argument);
  const bool takes_a_trace = command.get_option_no_throw("TRACE") != nullptr;
  return absl::StrCat(Prefix(command),
                      takes_a_trace ? absl::StrCat("'", argument, "' is a second trace")
                                    : absl::StrCat("'", argument, "' is one argument too many"),
                      ", expected ", UsageLine(command));
}

// CLI11's "--memory: At Most 1 required but received 2", "--pool: 1 required SIZE missing" and
// "--json was given a disallowed flag override".
std::string WrongCount(const CLI::App& command, const std::string& text) {
  const std::string name = text.substr(0, text.find_first_of(": "));
  const std::size_t received = text.rfind("received ");
  if (received != std::string::npos) {
    const std::string count = text.substr(received + 9);
    const CLI::Option* const option = command.get_option_no_throw(name);
    if (option != nullptr && option->get_items_expected_min() > 1) {
      return absl::StrCat(name, ": given ", count, ", expected ", option->get_items_expected_min());
    }
    return absl::StrCat(name, ": given ", count == "2" ? "twice" : count + " times",
                        ", expected once");
  }
  if (absl::EndsWith(text, " missing")) return name + ": no value, expected one";
  return absl::StrCat(text, ExpectedOptions(command));
}

}  // namespace

std::string ArgumentError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = ChosenCommand(app);
  const std::string text = error.what();
  if (!CommandNames(command).empty()) return NoCommand(command);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> rest = app.remaining(true);
    if (!rest.empty()) return UnexpectedArgument(command, rest[0]);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return absl::StrCat(Prefix(command), absl::StripSuffix(text, " is required"),
                        " is missing, expected ", UsageLine(command));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return WrongCount(command, text);
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    return absl::StrCat(Prefix(command), text, ", expected one of the two");
  }
  return absl::StrContains(text, "expected") ? text : absl::StrCat(text, ExpectedOptions(command));
}

}  // namespace tidepool::tool
