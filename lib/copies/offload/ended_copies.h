// SPDX-License-Identifier: Apache-2.0
// The ends of compressed copies, and a counter of all changes that threads of an offloader wait
// for.
//
// The pipeline's threads leave ends here and go on. They must not wait for the offloader's mutex: a
// thread that holds it may be inside a call of the device, and the driver may hold that call up
// until a host function ends that waits for the pipeline's threads (deadlock). The mutex here is
// held for moments, and no function of another room is called under it.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_ENDED_COPIES_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_ENDED_COPIES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/locks/mutex.h"
#include "lib/copies/offload/buffers.h"
#include "tidepool/copies/compression_pipeline.h"

namespace tidepool::offload {

struct EndedCopy {
  CopyPointer copy;
  absl::Status result;
  std::shared_ptr<const StoredBuffer> stored;  // by a copy out that succeeded
};

// Thread-safe.
class EndedCopies {
 public:
  // Adds an end, which counts as a change.
  void Add(EndedCopy ended) ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    ended_.push_back(std::move(ended));
    CountChange();
  }
  std::vector<EndedCopy> TakeAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    return std::exchange(ended_, {});
  }

  // Returns the number of changes so far. A thread reads it before it looks for work, and then
  // waits for a later change: so it misses no change.
  std::uint64_t Changes() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    return changes_;
  }
  // Counts a change and wakes all waiting threads.
  void NoteChange() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    CountChange();
  }
  // Releases `outer` and waits for a change after `seen`. Returns false when the deadline came
  // first.
  bool Await(locks::Mutex& outer, std::uint64_t seen, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(outer) ABSL_LOCKS_EXCLUDED(mutex_) {
    outer.Unlock();
    const bool has_changed = AwaitChange(seen, deadline);
    outer.Lock();
    return has_changed;
  }

 private:
  void CountChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++changes_;
    changed_.SignalAll();
  }
  bool AwaitChange(std::uint64_t seen, absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    while (changes_ == seen) {
      if (changed_.WaitWithDeadline(&mutex_, deadline)) return changes_ != seen;
    }
    return true;
  }

  locks::Mutex mutex_;
  locks::CondVar changed_;
  std::uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<EndedCopy> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_ENDED_COPIES_H_
