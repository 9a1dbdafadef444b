// SPDX-License-Identifier: Apache-2.0
// Puts together the memory of a device, from the blocks of its pools.
#ifndef TIDEPOOL_BINDINGS_CNMEM_STATE_OF_DEVICE_H_
#define TIDEPOOL_BINDINGS_CNMEM_STATE_OF_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/cnmem/accounting.h"
#include "bindings/cnmem/memory_state.h"
#include "bindings/cnmem/stream_manager.h"
#include "tidepool/pool.h"

namespace tidepool::cnmem {

// Collects the blocks of all pools first, then counts them for one stream.
class StateOfDevice {
 public:
  // The state of a device with these streams and the default stream.
  StateOfDevice(int device, std::vector<StreamManager*> managers)
      : managers_(std::move(managers)), live_bytes_(managers_.size() + 1) {
    state_.device = device;
  }

  // Adds the pool of all streams. Called once.
  void AddPool(const std::vector<PoolBlock>& blocks);
  // Adds the memory that only the stream of `manager` may use.
  void AddReserve(const StreamManager& manager, const std::vector<PoolBlock>& blocks);

  // Returns the bytes of the pool of all streams.
  std::int64_t pool_bytes() const { return pool_bytes_; }
  // Returns the state as CNMeM counts it for the stream `asked`. `pool_bytes` counts sizes as the
  // program requested them, and the pool may grow up to `budget_bytes`.
  MemoryState StateFor(const StreamManager& asked, std::int64_t pool_bytes,
                       std::int64_t budget_bytes) const;

 private:
  // Returns the index in managers_, or their number for the default stream.
  std::size_t IndexOf(Stream owner) const;

  MemoryState state_;
  const std::vector<StreamManager*> managers_;
  std::vector<std::int64_t> live_bytes_;  // in the pool of all streams
  std::int64_t pool_bytes_ = 0;
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STATE_OF_DEVICE_H_
