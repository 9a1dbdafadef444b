// SPDX-License-Identifier: Apache-2.0
// The table of docs/guide/models.md against the zoo.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/support/shared_files.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

// Returns the parts between commas, without remarks in parentheses: a comma in a number has no
// space after it.
std::vector<std::string> Parts(std::string cell) {
  for (std::size_t begin = 0; (begin = cell.find('(')) != std::string::npos;) {
    cell.erase(begin, cell.find(')', begin) - begin + 1);
  }
  std::vector<std::string> parts = absl::StrSplit(cell, ", ");
  for (std::string& part : parts) absl::StripAsciiWhitespace(&part);
  return parts;
}

// "-34" after "resnet-18" is "resnet-34".
std::vector<std::string> NamesIn(const std::string& cell) {
  std::vector<std::string> names = Parts(cell);
  const std::string family = names.front().substr(0, names.front().find('-'));
  for (std::string& name : names) {
    if (absl::StartsWith(name, "-")) name.insert(0, family);
  }
  return names;
}

std::int64_t Number(const std::string& text) {
  std::int64_t number = 0;
  const std::string digits =
      absl::StrReplaceAll(text.substr(0, text.find(' ')), {{",", ""}, {"tokens", ""}});
  EXPECT_TRUE(absl::SimpleAtoi(digits, &number)) << text;
  return number;
}

TEST(ModelsPage, HasTheModelsOfTheZooInOrder) {
  std::istringstream page(testing::Contents(std::filesystem::path(TIDEPOOL_SOURCE_DIR) / "docs" /
                                            "guide" / "models.md"));
  std::vector<std::string> names;
  std::string line;
  while (std::getline(page, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 5 || cells[3].find_first_of("0123456789") == std::string::npos) continue;
    const std::vector<std::string> row = NamesIn(cells[1]);
    const std::vector<std::string> images = Parts(cells[2]);
    const std::vector<std::string> parameters = Parts(cells[3]);
    ASSERT_TRUE(images.size() == 1 || images.size() == row.size()) << line;
    ASSERT_TRUE(parameters.size() == 1 || parameters.size() == row.size()) << line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      names.push_back(row[i]);
      EXPECT_EQ(*ModelImage(row[i]), Number(images[images.size() == 1 ? 0 : i])) << row[i];
      EXPECT_EQ(*ModelParameters(row[i]), Number(parameters[parameters.size() == 1 ? 0 : i]))
          << row[i];
    }
  }
  EXPECT_EQ(names, KnownModels());
}

}  // namespace
}  // namespace tidepool
