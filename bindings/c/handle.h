// SPDX-License-Identifier: Apache-2.0
// Handles of pools: they stay valid after their pool has ended, and in a forked process.
#ifndef TIDEPOOL_BINDINGS_C_HANDLE_H_
#define TIDEPOOL_BINDINGS_C_HANDLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "bindings/c/c_pool.h"

// Never freed, so that a call on a destroyed pool finds the mark of it. Thread-safe.
struct tidepool_pool {
 public:
  // Makes a handle, which lives as long as the process.
  static tidepool_pool* Create(std::unique_ptr<tidepool::c_api::CPool> pool);

  // Returns the pool; null when it has ended or belongs to the process that was forked.
  tidepool::c_api::CPool* pool() const {
    return forks_ == forks_of_process.load(std::memory_order_relaxed)
               ? pool_.load(std::memory_order_acquire)
               : nullptr;
  }
  // Returns the reason why pool() is null.
  absl::Status Gone() const;
  // Returns whether the address is a handle. It must be readable memory.
  bool IsHandle() const { return mark_ == kMark; }
  // Returns the figures of all pools of this process as text for Prometheus.
  static std::string MetricsOfAll();
  // Takes the pool out, for its end. Null when it is gone.
  std::unique_ptr<tidepool::c_api::CPool> Take();

 private:
  static constexpr std::uint64_t kMark = 0x7469646570306f6c;

  explicit tidepool_pool(std::unique_ptr<tidepool::c_api::CPool> pool) : pool_(pool.release()) {}

  // Writes the traces and statistics of all pools at the end of a process.
  [[gnu::destructor]] static void ReportAtExit();
  // Calls made by fork().
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  // The number of forks between the first process that used the library and this one.
  static std::atomic<unsigned> forks_of_process;

  const std::uint64_t mark_ = kMark;
  const unsigned forks_ = forks_of_process.load();
  std::atomic<tidepool::c_api::CPool*> pool_;
};

#endif  // TIDEPOOL_BINDINGS_C_HANDLE_H_
