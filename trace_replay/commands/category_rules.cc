// SPDX-License-Identifier: Apache-2.0
// Categories of the user, matched by the C library's regular expressions.
#include "trace_replay/commands/category_rules.h"

#include <regex.h>

#include <memory>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool::tool {
namespace {

absl::Status Error(const std::string& option, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("--category: '", absl::CHexEscape(option), "': ", what));
}

// Checks for escapes that the C library would take for a plain character, or would match in
// exponential time (references to groups).
absl::Status CheckEscapes(const std::string& option, std::string_view expression) {
  for (std::size_t i = 0; i + 1 < expression.size(); ++i) {
    if (expression[i] != '\\') continue;
    const char c = expression[++i];
    const bool is_plain = std::string_view("wWsSbB<>").find(c) != std::string_view::npos;
    const bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_word || is_plain) continue;
    return Error(option, absl::StrCat("\\", std::string(1, c),
                                      " is not in POSIX extended regular expressions, expected a "
                                      "class such as [0-9]"));
  }
  return absl::OkStatus();
}

class Expression {
 public:
  static absl::StatusOr<std::shared_ptr<Expression>> Compile(const std::string& option,
                                                             const std::string& text) {
    if (absl::Status status = CheckEscapes(option, text); !status.ok()) return status;
    auto expression = std::make_shared<Expression>();
    const int error = regcomp(&expression->regex_, text.c_str(), REG_EXTENDED | REG_NOSUB);
    if (error == 0) {
      expression->is_compiled_ = true;
      return expression;
    }
    char why[128];
    regerror(error, &expression->regex_, why, sizeof(why));
    return Error(option, absl::StrCat("no regular expression (", why, ")"));
  }

  Expression() = default;
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;
  ~Expression() {
    if (is_compiled_) regfree(&regex_);
  }

  bool Matches(const std::string& text) const {
    return regexec(&regex_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t regex_ = {};
  bool is_compiled_ = false;
};

}  // namespace

absl::StatusOr<std::vector<CategoryRule>> ParseCategoryRules(
    const std::vector<std::string>& options) {
  std::vector<CategoryRule> rules;
  for (const std::string& option : options) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == option.size()) {
      return Error(option, "expected NAME=REGEX, such as attention=attn|sdpa");
    }
    absl::StatusOr<std::shared_ptr<Expression>> expression =
        Expression::Compile(option, option.substr(equals + 1));
    if (!expression.ok()) return expression.status();
    rules.push_back(
        {option.substr(0, equals), [matcher = *std::move(expression)](const std::string& frame) {
           return matcher->Matches(frame);
         }});
  }
  return rules;
}

CLI::Option* AddCategoryOption(CLI::App& app, std::vector<std::string>& options) {
  return app
      .add_option("--category", options,
                  "Count the memory of stacks with a frame that matches this POSIX extended "
                  "regular expression under this name; a frame is 'FILE:LINE NAME'; may be given "
                  "several times, the first match counts")
      ->allow_extra_args(false)
      ->type_name("NAME=REGEX");
}

}  // namespace tidepool::tool
