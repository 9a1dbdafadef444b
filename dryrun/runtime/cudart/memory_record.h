// SPDX-License-Identifier: Apache-2.0
// The most memory that the process held, in a file that outlives the process however it ends.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_MEMORY_RECORD_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_MEMORY_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {

// The file is CUDART_HOST_FOLDER/memory-PROCESS, with an Entry for pinned memory of the host and
// then one for each device. CUDART_HOST_FOLDER/beside-PROCESS says when that was made, in
// nanoseconds, and which other processes with such a file lived then, in one line, and
// CUDA_VISIBLE_DEVICES, if there is one, in the next. CUDART_HOST_FOLDER/pytorch-PROCESS tells that
// the process had PyTorch for Python. Without the folder nothing is written.
// Thread-safe.
class MemoryRecord {
 public:
  static constexpr int kHost = -1;  // in the place of a device: pinned memory

  struct Entry {
    std::int64_t peak_bytes = 0;
    std::int64_t refused_bytes =
        0;  // the last refused request, unless one as large was served later
  };

  // Notes a request, after which `held` bytes of the device are held.
  void Served(int device, std::int64_t bytes, std::int64_t held);
  void Refused(int device, std::int64_t bytes);

 private:
  Entry& Of(int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Open(const std::string& folder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  locks::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  int file_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_MEMORY_RECORD_H_
