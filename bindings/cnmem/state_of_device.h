// Puts together what a device's memory looks like, from the blocks of its pools.
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

class StateOfDevice {
 public:
  // Of a device with these streams beside the default one.
  StateOfDevice(int device, std::vector<StreamManager*> managers)
      : managers_(std::move(managers)), live_bytes_(managers_.size() + 1) {
    state_.device = device;
  }

  // The pool for all streams. Once.
  void AddPool(const std::vector<PoolBlock>& blocks);
  // What nobody but a stream may have.
  void AddReserve(const StreamManager& manager, const std::vector<PoolBlock>& blocks);

  // Of the pool for all.
  std::int64_t pool_bytes() const { return pool_bytes_; }
  // `pool_bytes` as people asked for them, and up to how many there may be.
  MemoryState SeenFrom(const StreamManager& asked, std::int64_t pool_bytes,
                       std::int64_t budget_bytes) const;

 private:
  // Of managers_; one more is the default stream.
  std::size_t IndexOf(Stream owner) const;

  MemoryState state_;
  const std::vector<StreamManager*> managers_;
  std::vector<std::int64_t> live_bytes_;  // in the pool for all
  std::int64_t pool_bytes_ = 0;
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STATE_OF_DEVICE_H_
