// SPDX-License-Identifier: Apache-2.0
// A counter of the changes of an offloader that its threads wait for.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_CHANGES_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_CHANGES_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::offload {

// Thread-safe. The mutex here is held for moments, and nothing is called under it.
class Changes {
 public:
  // Returns the number of changes so far. A thread reads it before it looks for work, and then
  // waits for a later change: so it misses no change.
  std::uint64_t count() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    return count_;
  }
  // Counts a change and wakes all waiting threads.
  void Note() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    ++count_;
    changed_.SignalAll();
  }
  // Releases `outer` and waits for a change after `seen`. Returns false when the deadline came
  // first.
  bool Await(locks::Mutex& outer, std::uint64_t seen, locks::SteadyTime deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(outer) ABSL_LOCKS_EXCLUDED(mutex_) {
    outer.Unlock();
    const bool has_changed = Await(seen, deadline);
    outer.Lock();
    return has_changed;
  }

 private:
  bool Await(std::uint64_t seen, locks::SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    while (count_ == seen) {
      if (changed_.WaitWithDeadline(&mutex_, deadline)) return count_ != seen;
    }
    return true;
  }

  locks::Mutex mutex_;
  locks::CondVar changed_;
  std::uint64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_CHANGES_H_
