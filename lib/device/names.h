// Names that no two things of a process share, of one device or of several, and that their device
// recognises for ever without keeping them.
#ifndef TIDEPOOL_LIB_DEVICE_NAMES_H_
#define TIDEPOOL_LIB_DEVICE_NAMES_H_

#include <cstdint>
#include <vector>

namespace tidepool::device {

// Not thread-safe by itself, but independent of all others.
class Names {
 public:
  // Never 0.
  std::uint64_t Next();
  // Whether Next ever returned `name`.
  bool HasGiven(std::uint64_t name) const;

 private:
  struct Block {
    std::uint64_t first;
    std::uint64_t end;
  };

  std::vector<Block> blocks_;
  std::uint64_t next_ = 0;  // in the last block, or its end
};

}  // namespace tidepool::device

#endif  // TIDEPOOL_LIB_DEVICE_NAMES_H_
