// SPDX-License-Identifier: Apache-2.0
// Names that are unique in the process, across all devices. The device that gave a name recognises
// it later without having kept it.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_NAME_SOURCE_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_NAME_SOURCE_H_

#include <cstdint>
#include <vector>

namespace tidepool::device {

// A source of names. Not thread-safe, but independent of every other source.
class NameSource {
 public:
  // Returns a new name, never 0.
  std::uint64_t Next();
  // Returns whether Next ever returned `name`.
  bool HasGiven(std::uint64_t name) const;

 private:
  struct Block {
    std::uint64_t first;
    std::uint64_t end;
  };

  std::vector<Block> blocks_;
  std::uint64_t next_ = 0;  // the next name, in the last block or at its end
};

}  // namespace tidepool::device

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_NAME_SOURCE_H_
