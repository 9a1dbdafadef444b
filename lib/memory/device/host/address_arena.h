// SPDX-License-Identifier: Apache-2.0
// Addresses in an order that is known: a range of the host's addresses, divided from one end.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_ADDRESS_ARENA_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_ADDRESS_ARENA_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "lib/memory/device/host/free_ranges.h"
#include "tidepool/host_device.h"

namespace tidepool::host {

// Not thread-safe. The destructor frees all memory.
class AddressArena {
 public:
  // Reserves addresses for four times `memory_bytes`, since free addresses are scattered.
  // ResourceExhausted if the host lacks them.
  static absl::StatusOr<std::unique_ptr<AddressArena>> Create(std::int64_t memory_bytes,
                                                              AddressOrder order);
  ~AddressArena();
  AddressArena(const AddressArena&) = delete;
  AddressArena& operator=(const AddressArena&) = delete;

  // Returns memory at the first free addresses, which the host gives on first touch.
  absl::StatusOr<void*> Take(std::int64_t bytes);
  // Gives back memory that Take returned for `bytes`. An access to it faults from now on.
  absl::Status GiveBack(void* address, std::int64_t bytes);

 private:
  AddressArena(char* begin, std::int64_t bytes, AddressOrder order)
      : begin_(begin), bytes_(bytes), order_(order), free_(bytes) {}

  // Turns an offset from the first end into an address, and the other way round.
  std::int64_t Mirrored(std::int64_t offset, std::int64_t bytes) const {
    return order_ == AddressOrder::kFalling ? bytes_ - offset - bytes : offset;
  }

  char* const begin_;
  const std::int64_t bytes_;
  const AddressOrder order_;
  FreeRanges free_;  // offsets from the end at which the order begins
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_ADDRESS_ARENA_H_
