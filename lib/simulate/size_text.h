// SPDX-License-Identifier: Apache-2.0
// Sizes in errors: for people, and exactly.
#ifndef TIDEPOOL_LIB_SIMULATE_SIZE_TEXT_H_
#define TIDEPOOL_LIB_SIMULATE_SIZE_TEXT_H_

#include <cstdint>
#include <string>

namespace tidepool::simulate {

// Returns "1000 bytes", "1.5 KiB" or "32.0 MiB".
std::string SizeText(std::int64_t bytes);

// Returns "1000 bytes", or "1.5 KiB (1536 bytes)".
std::string ExactSizeText(std::int64_t bytes);

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_SIMULATE_SIZE_TEXT_H_
