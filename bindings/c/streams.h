// SPDX-License-Identifier: Apache-2.0
// The streams that a pool of the C interface has seen. A stream is registered by its first use.
#ifndef TIDEPOOL_BINDINGS_C_STREAMS_H_
#define TIDEPOOL_BINDINGS_C_STREAMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "bindings/c/c_device.h"
#include "bindings/support/stream_names.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/locks/pointer_table.h"

namespace tidepool::c_api {

// Thread-safe. The device outlives it.
class Streams {
 public:
  explicit Streams(CDevice& device) : device_(device) {}

  // Returns the name of a stream. Takes no lock, and makes no call of the device, if the stream was
  // used before.
  absl::StatusOr<Stream> NameOf(void* native) {
    const Entry* const entry = Find(native);
    if (entry != nullptr && !entry->is_of_thread) [[likely]] {
      const Stream name = entry->name();
      if (name.id != 0) [[likely]]
        return name;
    }
    return Register(native);
  }
  // Asks the device for the name, also of a stream that was used before.
  absl::StatusOr<Stream> Register(void* native) {
    return MayEnd(native) ? RegisterEnding(native) : Keep(native, device_.NameOf(native));
  }
  // Does the same for a stream that may be destroyed after any call that names it, as may each
  // later stream with this handle.
  absl::StatusOr<Stream> RegisterEnding(void* native);
  // Lets later names of a handle that was used before be names of streams that may be destroyed.
  void LetEnd(void* native);
  // Returns whether RegisterEnding or LetEnd was called for the handle.
  bool MayEnd(void* native) const;
  // Returns whether a stream that does not capture has the handle of one that was destroyed since
  // the handle was registered. False where the device cannot tell.
  bool WasReplaced(void* native) const;
  // Returns the latest name, also after Forget. The name 0 for a stream that was never used.
  Stream LastNameOf(void* native) const;
  // Lets the next use of the handle register it again.
  void Forget(void* native);
  // Returns the handles of all names so far.
  absl::flat_hash_map<std::uint64_t, void*> Handles() const;
  // Whether KeepUsed is due: since the last call, handles were renamed more often than there are
  // handles, and 64 times more. Its caller looks at each block of the pool, so it is not due often.
  bool HasManyNames() const;
  // Forgets names of the past that are not used.
  void KeepUsed(absl::FunctionRef<bool(Stream)> is_used);

 private:
  struct Entry : bindings::StreamNames {
    Entry(void* handle, Stream name, bool of_thread)
        : StreamNames(name), native(handle), is_of_thread(of_thread) {}

    void* const native;
    const bool is_of_thread;
    std::atomic<bool> may_end = false;
    std::atomic<std::uint64_t> number = 0;  // CDevice::NumberOf at the registration
  };

  absl::StatusOr<Stream> Keep(void* native, absl::StatusOr<Stream> name);
  Entry& FindOrAdd(void* native, Stream name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* Find(const void* native) const {
    return native == nullptr ? default_.load(std::memory_order_acquire) : table_.Find(native);
  }

  CDevice& device_;
  std::atomic<Entry*> default_ = nullptr;  // that of the null handle
  locks::PointerTable<Entry> table_;       // read without a lock, changed under mutex_
  mutable locks::Mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  std::size_t renamed_ ABSL_GUARDED_BY(mutex_) = 0;  // since KeepUsed
};

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_STREAMS_H_
