// SPDX-License-Identifier: Apache-2.0
// A formatter for CLI11 that wraps lines.
#include "trace_replay/help.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tidepool::tool {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kIndent = 2;
// The column at which descriptions begin.
constexpr std::size_t kDescriptions = 26;

using Rows = std::vector<std::pair<std::string, std::string>>;

// Wraps `text` at spaces into lines that begin at column `begin` and end before kColumns.
std::string Wrapped(const std::string& text, std::size_t begin) {
  std::string wrapped;
  std::size_t column = begin;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ' '))) {
    if (column > begin && column + 1 + word.size() > kColumns) {
      absl::StrAppend(&wrapped, "\n", std::string(begin, ' '));
      column = begin;
    }
    if (column > begin) {
      wrapped += ' ';
      ++column;
    }
    absl::StrAppend(&wrapped, word);
    column += word.size();
  }
  return wrapped;
}

std::string Section(const std::string& heading, const Rows& rows) {
  if (rows.empty()) return "";
  std::string text = absl::StrCat("\n", heading, ":\n");
  for (const auto& [name, description] : rows) {
    std::string line = absl::StrCat(std::string(kIndent, ' '), name);
    if (line.size() + 1 > kDescriptions) {
      absl::StrAppend(&text, line, "\n");
      line.clear();
    }
    line.resize(kDescriptions, ' ');
    absl::StrAppend(&text, line, Wrapped(description, kDescriptions), "\n");
  }
  return text;
}

std::string NameOf(const CLI::Option& option) {
  std::string name = option.get_name(false, true);
  if (option.get_type_size() > 0 && !option.get_type_name().empty()) {
    absl::StrAppend(&name, " ", option.get_type_name());
  }
  return name;
}

std::string DescriptionOf(const CLI::Option& option) {
  std::string description = option.get_description();
  if (option.get_required() && option.nonpositional()) description += " (required)";
  if (!option.get_default_str().empty()) {
    absl::StrAppend(&description, " (default: ", option.get_default_str(), ")");
  }
  return description;
}

std::string Arguments(const CLI::App& app) {
  Rows rows;
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* option) { return option->get_positional(); })) {
    rows.emplace_back(option->get_name(true), DescriptionOf(*option));
  }
  return Section("Arguments", rows);
}

// The options of a group in the order of the code, but those of help at its end.
std::string Options(const CLI::App& app, const std::string& group) {
  std::vector<const CLI::Option*> options = app.get_options([&](const CLI::Option* option) {
    return option->get_group() == group && option->nonpositional();
  });
  std::stable_partition(options.begin(), options.end(), [&](const CLI::Option* option) {
    return option != app.get_help_ptr() && option != app.get_help_all_ptr();
  });
  Rows rows;
  for (const CLI::Option* option : options) {
    rows.emplace_back(NameOf(*option), DescriptionOf(*option));
  }
  return Section(group, rows);
}

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string CommandGroups(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::App* command : Commands(app)) {
    if (std::find(groups.begin(), groups.end(), command->get_group()) == groups.end()) {
      groups.push_back(command->get_group());
    }
  }
  std::string text;
  for (const std::string& group : groups) {
    Rows rows;
    for (const CLI::App* command : Commands(app)) {
      if (command->get_group() == group) {
        rows.emplace_back(command->get_name(), command->get_description());
      }
    }
    text += Section(group, rows);
  }
  return text;
}

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string /*name*/,
                        CLI::AppFormatMode mode) const override {
    std::string text =
        absl::StrCat(Wrapped(app->get_description(), 0), "\n\nUsage: ", UsageLine(*app), "\n",
                     Arguments(*app), CommandGroups(*app));
    for (const std::string& group : app->get_groups()) {
      if (group.empty()) continue;  // hidden options
      if (mode == CLI::AppFormatMode::All || !IsMore(group)) text += Options(*app, group);
    }
    if (!app->get_footer().empty()) absl::StrAppend(&text, "\n", app->get_footer(), "\n");
    return text;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter() {
  return std::make_shared<HelpFormatter>();
}

bool IsMore(const std::string& group) { return absl::StartsWith(group, "More: "); }

std::string FullName(const CLI::App& app) {
  return app.get_parent() == nullptr
             ? app.get_name()
             : absl::StrCat(FullName(*app.get_parent()), " ", app.get_name());
}

std::string UsageLine(const CLI::App& app) {
  std::string usage = FullName(app);
  std::string command;  // of `dryrun`, with arguments of its own
  if (!Commands(app).empty()) return usage + " COMMAND [OPTIONS]";
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* option) { return option->get_positional(); })) {
    const std::string name = option->get_name(true);
    if (absl::EndsWith(name, "...")) {
      command = absl::StrCat(" -- ", name);
    } else {
      absl::StrAppend(&usage, " ", option->get_required() ? name : absl::StrCat("[", name, "]"));
    }
  }
  for (const CLI::Option* option : app.get_options([](const CLI::Option* option) {
         return option->get_required() && option->nonpositional();
       })) {
    absl::StrAppend(&usage, " ", NameOf(*option));
  }
  return absl::StrCat(usage, " [OPTIONS]", command);
}

}  // namespace tidepool::tool
