// SPDX-License-Identifier: Apache-2.0
// The ends of compressed copies.
//
// The pipeline's threads leave ends here and go on. They must not wait for the offloader's mutex: a
// thread that holds it may be inside a call of the device, and the driver may hold that call up
// until a host function ends that waits for the pipeline's threads (deadlock). The mutex here is
// held for moments, and that of Changes is the only one that is locked under it.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_ENDED_COPIES_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_ENDED_COPIES_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "lib/base/locks/mutex.h"
#include "lib/copies/offload/buffer_records.h"
#include "lib/copies/offload/changes.h"
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
  explicit EndedCopies(Changes& changes) : changes_(changes) {}

  // Adds an end, which counts as a change. Notes it under the mutex: the thread that takes the last
  // end may destroy the offloader.
  void Add(EndedCopy ended) ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    ended_.push_back(std::move(ended));
    changes_.Note();
  }
  std::vector<EndedCopy> TakeAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    return std::exchange(ended_, {});
  }

 private:
  Changes& changes_;
  locks::Mutex mutex_;
  std::vector<EndedCopy> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_ENDED_COPIES_H_
