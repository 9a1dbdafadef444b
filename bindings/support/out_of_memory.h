// SPDX-License-Identifier: Apache-2.0
// The text of an out-of-memory error, in terms of a binding's interface.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_OUT_OF_MEMORY_H_
#define TIDEPOOL_BINDINGS_SUPPORT_OUT_OF_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tidepool/pool.h"

namespace tidepool::bindings {

// The circumstances of a refused request.
struct Shortage {
  std::size_t bytes = 0;  // of the request
  std::string device;     // such as "device 0"
  std::string raise;      // how to raise the limit; empty: it is the device's own memory
  std::string remap;      // how to let the pool remap; empty: it does already
  std::string wait;       // the name of the setting for waiting
  std::string owner;      // of the device's memory, such as "CUDA"
  absl::Duration waited;  // zero: did not wait
  std::int64_t device_free_bytes = 0;
  bool has_regions = false;       // beside the pool, in its limit
  std::int64_t region_bytes = 0;  // that they hold
  PoolStats stats;
};

// Returns one line: the request, the state of the memory, and help for the first cause that
// applies.
std::string OutOfMemoryText(const Shortage& shortage);

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_OUT_OF_MEMORY_H_
