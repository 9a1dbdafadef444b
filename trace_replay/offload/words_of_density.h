// SPDX-License-Identifier: Apache-2.0
// Words of a chosen density, to fill data with.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_WORDS_OF_DENSITY_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_WORDS_OF_DENSITY_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tidepool::tool {

// Returns the densities of "0.9,0.5". InvalidArgument, with the text, unless each is from 0 to 1.
absl::StatusOr<std::vector<double>> ParseDensities(std::string_view text);

using WordPattern = std::shared_ptr<const std::vector<std::uint32_t>>;
// Returns words of which this share is not zero. The same for the same density.
WordPattern WordsOfDensity(double density);
// Fills memory with the words, again and again.
void FillWithWords(const WordPattern& words, void* to, std::int64_t bytes);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_WORDS_OF_DENSITY_H_
