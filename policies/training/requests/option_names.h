// SPDX-License-Identifier: Apache-2.0
// Names in texts of policies, and the options of requests.
#ifndef TIDEPOOL_POLICIES_TRAINING_REQUESTS_OPTION_NAMES_H_
#define TIDEPOOL_POLICIES_TRAINING_REQUESTS_OPTION_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::requests {

// Returns "all", "conv", "aconv" or "dynamic".
std::string_view NameOf(OffloadSet set);

// Returns the error of a search that the time limit ended before it had a schedule (EndedByOf).
absl::Status EndedByClock(const absl::Status& refusal);

inline std::string InQuotes(std::string_view name) {
  return absl::StrCat("'", absl::CHexEscape({name.data(), name.size()}), "'");
}

}  // namespace tidepool::requests

#endif  // TIDEPOOL_POLICIES_TRAINING_REQUESTS_OPTION_NAMES_H_
