// SPDX-License-Identifier: Apache-2.0
// How a region of a pool that sleeps keeps its contents, for pools and recordings of them.
#ifndef TIDEPOOL_SLEEP_MODE_H_
#define TIDEPOOL_SLEEP_MODE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidepool {

enum class SleepMode : std::uint8_t {
  kHost,        // in page-locked memory
  kDiscard,     // not at all
  kCompressed,  // compressed, in memory of the host
  kDisk,        // in a file
  kStore,       // in a ContentsStore of the program's own
};
inline constexpr std::size_t kSleepModes = 5;

// Returns "host", "discard", "compressed", "disk" or "store".
constexpr std::string_view SleepModeName(SleepMode mode) {
  constexpr std::string_view kNames[] = {"host", "discard", "compressed", "disk", "store"};
  return kNames[static_cast<std::size_t>(mode)];
}

}  // namespace tidepool

#endif  // TIDEPOOL_SLEEP_MODE_H_
