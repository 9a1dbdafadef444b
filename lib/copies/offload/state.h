// SPDX-License-Identifier: Apache-2.0
// The state of an offloader that one mutex guards, and the waits that release this mutex.
//
// A copy is queued under the mutex and *finished* without it: a thread that needs its end waits for
// it, and then *settles* it under the mutex again. Any number of threads may finish the same copy;
// the first settles it. So threads that release memory early and threads that release it on request
// follow the same path.
//
// No thread pins memory, waits for the device, or waits for a change while it holds the mutex.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_STATE_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_STATE_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "lib/base/locks/mutex.h"
#include "lib/copies/offload/books.h"
#include "lib/copies/offload/changes.h"
#include "lib/copies/offload/copies.h"
#include "lib/copies/offload/ended_copies.h"
#include "tidepool/copies/offloader.h"

namespace tidepool::offload {

struct OffloaderState {
  OffloaderState(Device& device, const OffloaderOptions& options)
      : ended(changes),
        copies(device, options.pipeline, ended),
        books(options.release, copies, ended, changes) {}

  // Releases the mutex and waits for a change after `seen`. Returns false when the deadline came
  // first.
  bool AwaitChange(std::uint64_t seen, locks::SteadyTime deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Releases the mutex and waits until the copy has finished, locks it again and settles the copy.
  // Takes the pointer by value: another thread may drop its own meanwhile.
  void AwaitAndSettle(CopyPointer copy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Does the same, or returns false when the deadline comes first.
  bool AwaitAndSettleBy(const CopyPointer& copy, locks::SteadyTime deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  locks::Mutex mutex;
  Changes changes;  // thread-safe, as the next: their mutexes may be locked under this one
  EndedCopies ended;
  // Streams and events, which are thread-safe; the mutex guards the records of copies given to it.
  Copies copies;
  Books books ABSL_GUARDED_BY(mutex);

 private:
  void AwaitAndSettleRaw(const CopyPointer& copy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

// Holds the mutex. Takes the ends that the pipeline's threads have left first.
class ABSL_SCOPED_LOCKABLE StateLock {
 public:
  explicit StateLock(OffloaderState& state) ABSL_EXCLUSIVE_LOCK_FUNCTION(state.mutex)
      : state_(state) {
    state_.mutex.Lock();
    state_.books.CollectEnded();
  }
  ~StateLock() ABSL_UNLOCK_FUNCTION() { state_.mutex.Unlock(); }
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  OffloaderState& state_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_STATE_H_
