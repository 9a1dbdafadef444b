// The ends of compressed copies, and all else that threads of an offloader wait for.
//
// The pipeline's threads leave ends here and go on: they must not wait for the offloader's mutex,
// because a thread that holds it may wait for a copy, and copies need those threads. The lock here
// is held for moments and while no function of another room is called.
#ifndef TIDEPOOL_LIB_OFFLOAD_ENDED_COPIES_H_
#define TIDEPOOL_LIB_OFFLOAD_ENDED_COPIES_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/offload/buffers.h"
#include "tidepool/compress/compression_pipeline.h"

namespace tidepool::offload {

struct EndedCopy {
  std::shared_ptr<BufferCopy> copy;
  absl::Status result;
  std::shared_ptr<const StoredBuffer> stored;  // of a copy out that ended well
};

// Thread-safe.
class EndedCopies {
 public:
  // Leaves an end, which is a change.
  void Add(EndedCopy ended) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(ended));
    NoteChangeLocked();
  }
  std::vector<EndedCopy> TakeAll() {
    const std::lock_guard lock(mutex_);
    return std::exchange(ended_, {});
  }

  // Counts changes. A thread that finds nothing to do waits for the next one after those that it
  // saw before it looked: so it misses none.
  std::uint64_t changes() const {
    const std::lock_guard lock(mutex_);
    return changes_;
  }
  void NoteChange() {
    const std::lock_guard lock(mutex_);
    NoteChangeLocked();
  }
  // Releases `outer` and waits for a change after `seen`. False when there was none by the
  // deadline.
  bool Await(std::unique_lock<std::mutex>& outer, std::uint64_t seen, absl::Time deadline) {
    outer.unlock();
    const bool has_changed = AwaitChange(seen, deadline);
    outer.lock();
    return has_changed;
  }

 private:
  void NoteChangeLocked() {
    ++changes_;
    changed_.notify_all();
  }
  bool AwaitChange(std::uint64_t seen, absl::Time deadline) {
    std::unique_lock lock(mutex_);
    const auto has_changed = [&] { return changes_ != seen; };
    if (deadline != absl::InfiniteFuture()) {
      return changed_.wait_until(lock, absl::ToChronoTime(deadline), has_changed);
    }
    changed_.wait(lock, has_changed);
    return true;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::vector<EndedCopy> ended_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_OFFLOAD_ENDED_COPIES_H_
