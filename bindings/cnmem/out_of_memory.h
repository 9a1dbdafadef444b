// The text of an out-of-memory error, in the words of CNMeM's users.
#ifndef TIDEPOOL_BINDINGS_CNMEM_OUT_OF_MEMORY_H_
#define TIDEPOOL_BINDINGS_CNMEM_OUT_OF_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tidepool/pool.h"

namespace tidepool::cnmem {

// What limits a pool.
enum class Limit : std::uint8_t { kDevice, kBudget, kSize };

struct Shortage {
  std::size_t bytes = 0;  // asked for
  int device = 0;
  Limit limit = Limit::kDevice;
  bool remaps = false;
  absl::Duration waited;               // zero: not at all
  std::int64_t device_free_bytes = 0;  // as CUDA says
  PoolStats stats;
};

// Returns one line: the request, the state of the memory, and help for the first cause that
// applies.
std::string OutOfMemoryText(const Shortage& shortage);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_OUT_OF_MEMORY_H_
