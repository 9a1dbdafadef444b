// SPDX-License-Identifier: Apache-2.0
// The text of an out-of-memory error, in terms of CNMeM's interface.
#ifndef TIDEPOOL_BINDINGS_CNMEM_OUT_OF_MEMORY_H_
#define TIDEPOOL_BINDINGS_CNMEM_OUT_OF_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tidepool/pool.h"

namespace tidepool::cnmem {

// The cause of a pool's limit: the device's memory, the budget, or the size given to cnmemInit.
enum class Limit : std::uint8_t { kDevice, kBudget, kSize };

// The circumstances of a refused request.
struct Shortage {
  std::size_t bytes = 0;  // of the request
  int device = 0;
  Limit limit = Limit::kDevice;
  bool remaps = false;
  absl::Duration waited;               // zero: did not wait
  std::int64_t device_free_bytes = 0;  // reported by CUDA
  PoolStats stats;
};

// Returns one line: the request, the state of the memory, and help for the first cause that
// applies.
std::string OutOfMemoryText(const Shortage& shortage);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_OUT_OF_MEMORY_H_
