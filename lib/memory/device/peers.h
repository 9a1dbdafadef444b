// SPDX-License-Identifier: Apache-2.0
// The parts of the same type of all devices in the process, for questions about another device.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_PEERS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_PEERS_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::device {

// Thread-safe. A part adds itself when it is made and removes itself before it is destroyed.
template <typename Part>
class Peers {
 public:
  // Returns the list of the process, which is never destroyed: devices may outlive other statics.
  static Peers& OfProcess() {
    static Peers* const peers = new Peers();
    return *peers;
  }

  void Add(const Part* part) {
    const locks::MutexLock lock(&mutex_);
    parts_.push_back(part);
  }
  void Remove(const Part* part) {
    const locks::MutexLock lock(&mutex_);
    parts_.erase(std::find(parts_.begin(), parts_.end(), part));
  }
  // Asks the parts until one gives a value, and returns that value or else `missing`. Holds the
  // lock of the list, so that no part is destroyed meanwhile. O(parts).
  template <typename Value, typename Function>
  absl::StatusOr<Value> Ask(Function ask, absl::StatusOr<Value> missing) const {
    const locks::MutexLock lock(&mutex_);
    for (const Part* const part : parts_) {
      absl::StatusOr<Value> value = ask(*part);
      if (value.ok()) return value;
    }
    return missing;
  }

 private:
  Peers() = default;

  mutable locks::Mutex mutex_;
  std::vector<const Part*> parts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::device

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_PEERS_H_
