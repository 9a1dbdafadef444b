// SPDX-License-Identifier: Apache-2.0
// Parsers of the values of options. Each returns nullopt for malformed text.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_VALUES_H_
#define TIDEPOOL_BINDINGS_SUPPORT_VALUES_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/time/time.h"

namespace tidepool::bindings {

// Parses "0" or "1".
std::optional<bool> ParseSwitch(std::string_view text);
// Parses a decimal number from 0 to 1.
std::optional<double> ParseFraction(std::string_view text);
// Parses a positive number of bytes, plain or with KiB, MiB, GiB or TiB after it.
std::optional<std::int64_t> ParseBytes(std::string_view text);
// Parses a positive percentage up to "100%", and returns it as a fraction.
std::optional<double> ParsePercent(std::string_view text);
// Parses a positive duration as Abseil writes it ("500ms", "1h30m"), or "inf".
std::optional<absl::Duration> ParseWait(std::string_view text);

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_VALUES_H_
