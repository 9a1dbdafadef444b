// SPDX-License-Identifier: Apache-2.0
// Names in errors: those that are spelled most like an unknown one come first.
#ifndef TIDEPOOL_LIB_TEXT_NEAREST_FIRST_H_
#define TIDEPOOL_LIB_TEXT_NEAREST_FIRST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tidepool::text {

// Returns `names` by their number of insertions, removals and replacements from `name`; names with
// as many keep their order. Only the first 100 characters of `name` count. O(characters of names).
std::vector<std::string> NearestFirst(absl::string_view name, std::vector<std::string> names);

}  // namespace tidepool::text

#endif  // TIDEPOOL_LIB_TEXT_NEAREST_FIRST_H_
