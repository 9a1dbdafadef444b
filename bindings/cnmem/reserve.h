// SPDX-License-Identifier: Apache-2.0
// Memory that one stream has for itself: a pool of a single segment, which never changes.
#ifndef TIDEPOOL_BINDINGS_CNMEM_RESERVE_H_
#define TIDEPOOL_BINDINGS_CNMEM_RESERVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "tidepool/pool.h"

namespace tidepool::cnmem {

// The pool, and the addresses of its segment.
class Reserve {
 public:
  // Makes the pool, with the errors of Pool::Create. The options request the whole size at once, in
  // segments: virtual memory could be remapped out of the segment. The observer may be null.
  static absl::StatusOr<std::unique_ptr<Reserve>> Create(Device* device, PoolOptions options,
                                                         std::unique_ptr<PoolObserver> observer) {
    options.recorder = observer.get();
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(device, options);
    if (!pool.ok()) return pool.status();
    return std::unique_ptr<Reserve>(new Reserve(std::move(observer), *std::move(pool)));
  }

  Pool& pool() { return *pool_; }
  std::int64_t bytes() const { return bytes_; }
  bool Contains(const void* address) const {
    const char* const at = static_cast<const char*>(address);
    return !std::less<>()(at, begin_) && std::less<>()(at, begin_ + bytes_);
  }

 private:
  Reserve(std::unique_ptr<PoolObserver> observer, std::unique_ptr<Pool> pool)
      : observer_(std::move(observer)), pool_(std::move(pool)) {
    const PoolBlock whole = pool_->Snapshot().front();
    begin_ = static_cast<const char*>(whole.address);
    bytes_ = whole.bytes;
  }

  std::unique_ptr<PoolObserver> observer_;
  std::unique_ptr<Pool> pool_;
  const char* begin_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_RESERVE_H_
