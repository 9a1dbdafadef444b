// SPDX-License-Identifier: Apache-2.0
// An API of your own, in the place of HIP or SYCL. Each piece of its work is a thread, and its
// memory is malloc's. It answers with absl::Status, so own_device.h need not translate errors.
#ifndef TIDEPOOL_EXAMPLES_OWN_API_H_
#define TIDEPOOL_EXAMPLES_OWN_API_H_

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <latch>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace own {

// The end of some work, or null for no work.
using End = std::shared_ptr<std::latch>;

inline bool IsReached(const End& end) { return end == nullptr || end->try_wait(); }
inline void Await(const End& end) {
  if (end != nullptr) end->wait();
}

// Starts work that runs after other work. No work: only waits.
inline End Start(std::vector<End> after, std::function<void()> work) {
  End end = std::make_shared<std::latch>(1);
  std::thread([after = std::move(after), work = std::move(work), end]() mutable {
    for (const End& other : after) Await(other);
    if (work != nullptr) work();
    work = nullptr;  // gone before it counts as finished
    end->count_down();
  }).detach();
  return end;
}

// Memory with a limit, at addresses that are multiples of 512. Thread-safe.
class Heap {
 public:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  explicit Heap(std::int64_t limit) : limit_(limit) {}

  std::int64_t limit() const { return limit_; }
  std::int64_t used() const {
    const std::lock_guard lock(mutex_);
    return used_;
  }
  absl::StatusOr<void*> Malloc(std::int64_t bytes) {
    if (bytes < 1) return absl::InvalidArgumentError("a size below 1, expected at least one byte");
    const std::lock_guard lock(mutex_);
    if (bytes > limit_ - used_) return absl::ResourceExhaustedError("out of memory");
    const std::size_t rounded = (static_cast<std::size_t>(bytes) + 511) / 512 * 512;
    Memory memory(std::aligned_alloc(512, rounded), std::free);
    void* const address = memory.get();
    if (address == nullptr) return absl::ResourceExhaustedError("out of memory");
    blocks_.emplace(address, Block{std::move(memory), bytes});
    used_ += bytes;
    return address;
  }
  absl::Status Free(void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return absl::NotFoundError("no memory begins at the address");
    used_ -= found->second.bytes;
    blocks_.erase(found);
    return absl::OkStatus();
  }

 private:
  using Memory = std::unique_ptr<void, void (*)(void*)>;
  struct Block {
    Memory memory;
    std::int64_t bytes;
  };

  const std::int64_t limit_;
  mutable std::mutex mutex_;
  std::map<void*, Block> blocks_;
  std::int64_t used_ = 0;
};

}  // namespace own

#endif  // TIDEPOOL_EXAMPLES_OWN_API_H_
