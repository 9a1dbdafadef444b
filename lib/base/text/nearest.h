// SPDX-License-Identifier: Apache-2.0
// Names that are spelled most like an unknown one, for errors. An edit inserts, deletes or replaces
// a character, or swaps two neighbours (optimal string alignment; Damerau, Communications of the
// ACM 7, 1964). Only the first 100 characters of the unknown name count.
#ifndef TIDEPOOL_LIB_BASE_TEXT_NEAREST_H_
#define TIDEPOOL_LIB_BASE_TEXT_NEAREST_H_

#include <string>
#include <string_view>
#include <vector>

namespace tidepool::text {

// Returns `names` by the edits that turn `name` into each; names with as many keep their order.
// O(characters of names).
std::vector<std::string> NearestFirst(std::string_view name, std::vector<std::string> names);

// Returns the first of the nearest names, or an empty text if it takes more than an edit for each
// three of its characters. O(characters of names).
std::string Nearest(std::string_view name, const std::vector<std::string>& names);

}  // namespace tidepool::text

#endif  // TIDEPOOL_LIB_BASE_TEXT_NEAREST_H_
