// SPDX-License-Identifier: Apache-2.0
// Finds the first fault of a chain, and the key of the file that it is about.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_CHECK_CHAIN_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_CHECK_CHAIN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tidepool/training/chain.h"

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
  kOutput,
  kOutputExtra,
  kRunsOnce,
};
inline constexpr std::size_t kKeys = 12;
using KeyNames = std::array<std::string_view, kKeys>;
// The keys from kOutput on may be missing.
inline constexpr KeyNames kKeyNames = {"L",   "beta", "M_gpu", "uF", "uB",  "exF",
                                       "exB", "x",    "y",     "o",  "exO", "once"};
// The keys of rotor's chains, by the list that they fill. The last three have no key.
inline constexpr KeyNames kRotorNames = {
    "length",      "beta",     "M_gpu",   "fweight", "bweight", "fwd_mem_tmp",
    "bwd_mem_tmp", "cbweight", "cweight", "",        "",        ""};
inline std::string NameOf(Key key, const KeyNames& names = kKeyNames) {
  return std::string(names[static_cast<std::size_t>(key)]);
}

// Whether a chain's file may have this key, in either form. Defined in read_chain.cc.
bool IsChainKey(std::string_view name);

struct ChainFault {
  Key key = Key::kLast;
  std::string what;  // the fault and the expectation
};

// Returns the first fault of a chain of `operations` forward operations, with these names of keys.
// O(L).
std::optional<ChainFault> FindFault(const Chain& chain, std::size_t operations,
                                    const KeyNames& names = kKeyNames);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_CHECK_CHAIN_H_
