// SPDX-License-Identifier: Apache-2.0
// The name that a user most likely meant by a misspelled one.
#ifndef TIDEPOOL_TRACE_REPLAY_NEAREST_H_
#define TIDEPOOL_TRACE_REPLAY_NEAREST_H_

#include <string>
#include <string_view>
#include <vector>

namespace tidepool::tool {

// Returns the first of `names` that the fewest edits turn `text` into, or an empty text if that
// takes more than an edit for each three characters of the name. An edit inserts, deletes or
// replaces a character, or swaps two neighbours (optimal string alignment; Damerau, Communications
// of the ACM 7, 1964). O(length of text * length of all names).
std::string Nearest(std::string_view text, const std::vector<std::string>& names);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_NEAREST_H_
