// SPDX-License-Identifier: Apache-2.0
// Headers that the command line compiles once instead of once a file. Its files include them all
// the same.
#ifndef TIDEPOOL_TRACE_REPLAY_PRECOMPILED_H_
#define TIDEPOOL_TRACE_REPLAY_PRECOMPILED_H_

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#endif  // TIDEPOOL_TRACE_REPLAY_PRECOMPILED_H_
