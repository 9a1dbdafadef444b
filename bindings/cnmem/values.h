// What the values of environment variables say. Nothing where a text is no such value.
#ifndef TIDEPOOL_BINDINGS_CNMEM_VALUES_H_
#define TIDEPOOL_BINDINGS_CNMEM_VALUES_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/time/time.h"

namespace tidepool::cnmem {

// "0" and "1".
std::optional<bool> ParseSwitch(std::string_view text);
// A decimal number from 0 to 1.
std::optional<double> ParseFraction(std::string_view text);
// A positive number of bytes, with KiB, MiB, GiB or TiB behind it or nothing.
std::optional<std::int64_t> ParseBytes(std::string_view text);
// A positive part of a whole, "80%" of it at most all.
std::optional<double> ParsePercent(std::string_view text);
// A positive duration as Abseil writes it ("500ms", "1h30m"), or "inf".
std::optional<absl::Duration> ParseWait(std::string_view text);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_VALUES_H_
