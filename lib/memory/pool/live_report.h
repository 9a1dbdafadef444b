// SPDX-License-Identifier: Apache-2.0
// The texts of pools about live allocations and memory: addresses that are not live, allocations
// that are live when their pool is destroyed, and memory that the device does not take back.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_LIVE_REPORT_H_
#define TIDEPOOL_LIB_MEMORY_POOL_LIVE_REPORT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "lib/memory/blocks/block_map.h"
#include "lib/memory/pool/address_map.h"

namespace tidepool::pool {

// The words of a kind of pool.
struct PoolWords {
  const char* pool;
  const char* memory;
  const char* allocation;
  const char* make_room;  // how a caller makes room, before a number of bytes
  const char* join_room;  // how a caller joins free memory
};
inline constexpr PoolWords kPoolWords = {"pool", "memory", "allocation", "free or offload",
                                         "raise max_bytes, or record a trace and plan it"};

// InvalidArgument for an address that is free already.
absl::Status DoubleFreeError(const void* address, const PoolWords& words);
// InvalidArgument for an address at which no live allocation begins. Says where it is. O(blocks).
absl::Status NotLiveError(const void* address, const AddressMap& addresses,
                          const blocks::BlockMap& blocks, const PoolWords& words);

// Returns where an address is, for people. O(blocks).
std::string DescribeAddress(const void* address, const AddressMap& addresses,
                            const blocks::BlockMap& blocks);

// Writes the number of live allocations and the first of them to stderr. `describe(block)` returns
// more text about an allocation.
void ReportLive(const AddressMap& addresses, const blocks::BlockMap& blocks,
                std::int64_t live_count, const PoolWords& words,
                const std::function<std::string(BlockId)>& describe);

// Writes an error of the device that keeps memory of a destroyed pool to stderr.
void ReportKeptMemory(const absl::Status& error, const PoolWords& words);

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_LIVE_REPORT_H_
