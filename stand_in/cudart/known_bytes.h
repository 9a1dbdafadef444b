// SPDX-License-Identifier: Apache-2.0
// The bytes that devices without data know all the same: those of small copies from the host, and
// of copies and collectives of them. Frameworks read sizes and flags back that no kernel computed.
// All other bytes are zero.
#ifndef TIDEPOOL_STAND_IN_CUDART_KNOWN_BYTES_H_
#define TIDEPOOL_STAND_IN_CUDART_KNOWN_BYTES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lib/locks/mutex.h"

namespace tidepool::cudart_host {

// Thread-safe. A range takes time proportional to the known ranges in it.
class KnownBytes {
 public:
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 20;  // of one write

  // Announces a write that has been queued but not done.
  void Expect() { may_have_any_.store(true); }
  // Returns whether any byte is known, or will be by a queued write.
  bool MayHaveAny() const { return may_have_any_.load(); }
  // Returns the same, and expects that the caller queues a ForgetAll.
  bool TakeAny() { return may_have_any_.load() && may_have_any_.exchange(false); }

  void Write(const char* to, std::string_view bytes);
  void Forget(const char* to, std::int64_t bytes);
  void ForgetAll();
  // Copies the bytes, and zeros where they are unknown. Returns whether any is known.
  bool Read(const char* from, char* to, std::int64_t bytes) const;

  // Between these calls kernels forget nothing. They nest.
  void Hold() { holds_.fetch_add(1); }
  void Release() { holds_.fetch_sub(1); }
  bool IsHeld() const { return holds_.load() > 0; }

 private:
  void ForgetLocked(std::uintptr_t begin, std::uintptr_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> may_have_any_ = false;
  std::atomic<int> holds_ = 0;
  mutable locks::Mutex mutex_;
  std::map<std::uintptr_t, std::string> ranges_ ABSL_GUARDED_BY(mutex_);  // do not overlap
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_STAND_IN_CUDART_KNOWN_BYTES_H_
