// SPDX-License-Identifier: Apache-2.0
// A pool of the C interface for C++ programs: shared ownership, and exceptions instead of statuses.
// Needs C++17 and libtidepool_c.so, and no other part of tidepool.
#ifndef TIDEPOOL_POOL_OWNER_H_
#define TIDEPOOL_POOL_OWNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "tidepool/c_api.h"

namespace tidepool {

// No memory is left. A std::bad_alloc with a text: the request, the state of the pool, a remedy.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(const std::string& text) : text_(std::make_shared<std::string>(text)) {}
  const char* what() const noexcept override { return text_->c_str(); }

 private:
  std::shared_ptr<const std::string> text_;
};

// Throws OutOfMemory if memory is short, and std::runtime_error for all other errors.
struct StandardErrors {
  [[noreturn]] static void Throw(tidepool_status status, const std::string& text) {
    if (status == TIDEPOOL_OUT_OF_MEMORY || status == TIDEPOOL_DEADLINE_EXCEEDED) {
      throw OutOfMemory(text);
    }
    throw std::runtime_error("tidepool: " + text);
  }
};

// Copies share the pool, which ends with the last of them. Thread-safe.
template <typename Errors = StandardErrors>
class PoolOwner {
 public:
  // Makes a pool; `options` are those of tidepool_pool_create.
  explicit PoolOwner(const std::string& options) {
    tidepool_pool* pool = nullptr;
    Check(tidepool_pool_create(options.c_str(), &pool));
    pool_ = std::shared_ptr<tidepool_pool>(pool, &tidepool_pool_destroy);
  }
  // Uses a pool of the caller, which outlives all copies.
  explicit PoolOwner(tidepool_pool* pool) : pool_(pool, [](tidepool_pool*) {}) {}

  tidepool_pool* get() const noexcept { return pool_.get(); }

  // Throws by Errors unless the status is TIDEPOOL_OK.
  static void Check(tidepool_status status) {
    if (status != TIDEPOOL_OK) Errors::Throw(status, tidepool_last_error());
  }

  // Returns memory for work queued on `stream` from now on; null for zero bytes. Throws for an
  // alignment that the pool does not keep (option `alignment`).
  void* Allocate(std::size_t bytes, std::size_t alignment, tidepool_stream stream) const {
    void* address = nullptr;
    Check(tidepool_allocate(get(), bytes, stream, TIDEPOOL_RESIDENT, &address));
    if (reinterpret_cast<std::uintptr_t>(address) % (alignment == 0 ? 1 : alignment) == 0) {
      return address;
    }
    Free(address, stream);
    Errors::Throw(TIDEPOOL_OUT_OF_MEMORY, "alignment " + std::to_string(alignment) +
                                              " asked for: make the pool with option alignment=" +
                                              std::to_string(alignment));
  }
  // Returns memory that work of any stream may use at once: waits until it is unused.
  void* AllocateForAll(std::size_t bytes, std::size_t alignment) const {
    void* const address = Allocate(bytes, alignment, nullptr);
    if (tidepool_stream_synchronize(get(), nullptr) == TIDEPOOL_OK) return address;
    const std::string error = tidepool_last_error();
    Free(address, nullptr);
    Errors::Throw(TIDEPOOL_INTERNAL, error);
  }
  // Does not throw: an address that is not live is an error of the caller, which
  // tidepool_last_error() tells.
  void Free(void* address, tidepool_stream stream) const noexcept {
    static_cast<void>(tidepool_free(get(), address, stream));
  }

  friend bool operator==(const PoolOwner& a, const PoolOwner& b) noexcept {
    return a.pool_ == b.pool_;
  }
  friend bool operator!=(const PoolOwner& a, const PoolOwner& b) noexcept { return !(a == b); }

 private:
  std::shared_ptr<tidepool_pool> pool_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_POOL_OWNER_H_
