// SPDX-License-Identifier: Apache-2.0
// The bytes that devices without data know all the same: those of copies from the host, and of
// copies and collectives of them. Frameworks read sizes, flags and pickled objects back that no
// kernel computed. All other bytes are zero. Weights come from the host too, so large copies are
// kept only as far as there is room.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_KNOWN_BYTES_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_KNOWN_BYTES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {

// Thread-safe. A range takes time proportional to the known ranges in it.
class KnownBytes {
 public:
  static constexpr std::int64_t kSmallBytes = std::int64_t{1} << 20;  // always kept
  static constexpr std::int64_t kRoomBytes = std::int64_t{64} << 20;  // for larger copies

  // Announces a write that has been queued but not done.
  void Expect() { may_have_any_.store(true); }
  // Returns whether a copy from the host shall be kept, and takes the room for it, until TakeAny.
  bool TakeRoom(std::int64_t bytes);
  // Returns whether any byte is known, or will be by a queued write.
  bool MayHaveAny() const { return may_have_any_.load(); }
  // Returns the same, and expects that the caller queues a ForgetAll.
  bool TakeAny();

  void Write(const char* to, std::string_view bytes);
  void Forget(const char* to, std::int64_t bytes);
  void ForgetAll();
  // Copies the known bytes, and leaves the others of `to` alone. Returns how many are known.
  std::int64_t Read(const char* from, char* to, std::int64_t bytes) const;
  std::int64_t CountIn(const char* from, std::int64_t bytes) const;
  // Copies within the memory of devices.
  void Copy(const char* from, const char* to, std::int64_t bytes);

  // Between these calls kernels forget nothing, and there is room for everything. They nest.
  void Hold() { holds_.fetch_add(1); }
  void Release() { holds_.fetch_sub(1); }
  bool IsHeld() const { return holds_.load() > 0; }

 private:
  // Calls `visit` with the offset from `begin` and the bytes of each known part of the range.
  template <typename Visit>
  void VisitLocked(std::uintptr_t begin, std::uintptr_t end, Visit visit) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetLocked(std::uintptr_t begin, std::uintptr_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> may_have_any_ = false;
  std::atomic<std::int64_t> taken_bytes_ = 0;  // of the room
  std::atomic<int> holds_ = 0;
  mutable locks::Mutex mutex_;
  std::map<std::uintptr_t, std::string> ranges_ ABSL_GUARDED_BY(mutex_);  // do not overlap
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_KNOWN_BYTES_H_
