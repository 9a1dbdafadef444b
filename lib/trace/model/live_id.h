// SPDX-License-Identifier: Apache-2.0
// The error of an allocation with the id of a live one.
#ifndef TIDEPOOL_LIB_TRACE_MODEL_LIVE_ID_H_
#define TIDEPOOL_LIB_TRACE_MODEL_LIVE_ID_H_

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"

namespace tidepool::trace {

inline std::string LiveIdError(std::string_view id) {
  return absl::StrCat("id ", text::Quoted(id),
                      " is allocated again while it is live, expected its free first");
}

}  // namespace tidepool::trace

#endif  // TIDEPOOL_LIB_TRACE_MODEL_LIVE_ID_H_
