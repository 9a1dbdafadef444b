// SPDX-License-Identifier: Apache-2.0
// The queue of requests for device memory: each waits for its turn, and then for copies in flight
// that give memory back.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_MEMORY_QUEUE_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_MEMORY_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/copies/offload/buffer_memory.h"
#include "lib/copies/offload/state.h"
#include "tidepool/device.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool::offload {

struct MemoryRequest {
  std::size_t bytes = 0;
  Stream stream;
  Hint hint = Hint::kResident;
  std::string_view name;  // for messages
  locks::SteadyTime deadline = locks::SteadyTime::max();
};

// First come, first served: no request overtakes another. So with Release::kWhenAwaited the
// requests of one thread get the same addresses in every run. The mutex of OffloaderState guards
// it.
class MemoryQueue {
 public:
  MemoryQueue(Device& device, Pool& pool, OffloaderOptions::Release release)
      : device_(device), pool_(pool), release_(release) {}

  // Takes memory for a request. Releases the mutex while it waits and while it asks the pool.
  // Errors are those of Offloader::Allocate.
  absl::StatusOr<std::shared_ptr<DeviceMemory>> Take(OffloaderState& state,
                                                     const MemoryRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);

 private:
  bool WaitForTurn(OffloaderState& state, std::uint64_t waiter, locks::SteadyTime deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  absl::StatusOr<void*> TakeFirst(OffloaderState& state, const MemoryRequest& request,
                                  bool& has_waited) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  absl::StatusOr<void*> AskPool(OffloaderState& state, const MemoryRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex);
  bool MayFit(Books& books, std::size_t bytes) const;

  Device& device_;
  Pool& pool_;
  const OffloaderOptions::Release release_;
  std::list<std::uint64_t> waiters_;  // the number of each request in the queue
  std::uint64_t last_waiter_ = 0;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_MEMORY_QUEUE_H_
