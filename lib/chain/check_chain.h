// SPDX-License-Identifier: Apache-2.0
// Finds the first fault of a chain, and the key of the file that it is about.
#ifndef TIDEPOOL_LIB_CHAIN_CHECK_CHAIN_H_
#define TIDEPOOL_LIB_CHAIN_CHECK_CHAIN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tidepool/schedule/chain.h"

namespace tidepool::chain {

// The keys of a file, in the order in which they are written.
enum class Key : std::uint8_t {
  kLast,  // L
  kLink,
  kMemory,
  kForwardSeconds,
  kBackwardSeconds,
  kForwardExtra,
  kBackwardExtra,
  kX,
  kY,
};
inline constexpr std::array<std::string_view, 9> kKeyNames = {"L",   "beta", "M_gpu", "uF", "uB",
                                                              "exF", "exB",  "x",     "y"};
inline std::string_view KeyName(Key key) { return kKeyNames[static_cast<std::size_t>(key)]; }

struct ChainFault {
  Key key = Key::kLast;
  std::string what;  // the fault and the expectation
};

// Returns the first fault of a chain of `operations` forward operations. O(L).
std::optional<ChainFault> FindFault(const Chain& chain, std::size_t operations);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_CHAIN_CHECK_CHAIN_H_
