// SPDX-License-Identifier: Apache-2.0
// Option strings: "key=value,key=value".
#ifndef TIDEPOOL_BINDINGS_SUPPORT_OPTION_STRING_H_
#define TIDEPOOL_BINDINGS_SUPPORT_OPTION_STRING_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "bindings/support/settings.h"

namespace tidepool::bindings {

// Parses options as c_api.h describes them. InvalidArgument for an unknown key, with the known
// keys, nearest first; for a key given twice, a malformed value, and options that contradict each
// other. O(characters).
absl::StatusOr<Settings> ParseOptions(std::string_view text);

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_OPTION_STRING_H_
