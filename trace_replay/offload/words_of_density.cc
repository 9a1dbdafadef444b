// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/words_of_density.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tidepool::tool {
namespace {

constexpr std::size_t kPatternWords = std::size_t{1} << 18;

}  // namespace

WordPattern WordsOfDensity(double density) {
  auto words = std::make_shared<std::vector<std::uint32_t>>(kPatternWords);
  std::mt19937 random(1);
  std::bernoulli_distribution is_set(density);
  for (std::uint32_t& word : *words) {
    if (is_set(random)) word = static_cast<std::uint32_t>(random()) | 1;
  }
  return words;
}

void FillWithWords(const WordPattern& words, void* to, std::int64_t bytes) {
  const auto size = static_cast<std::int64_t>(words->size() * sizeof(std::uint32_t));
  for (std::int64_t at = 0; at < bytes; at += size) {
    std::memcpy(static_cast<std::byte*>(to) + at, words->data(),
                static_cast<std::size_t>(std::min(size, bytes - at)));
  }
}

absl::StatusOr<std::vector<double>> ParseDensities(std::string_view text) {
  std::vector<double> densities;
  for (const absl::string_view one :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    double density = 0;
    if (!absl::SimpleAtod(one, &density) || !(density >= 0 && density <= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", absl::CHexEscape(one), "', expected numbers from 0 to 1"));
    }
    densities.push_back(density);
  }
  return densities;
}

}  // namespace tidepool::tool
