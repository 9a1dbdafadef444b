// SPDX-License-Identifier: Apache-2.0
// The threads that give device memory back as soon as copies out have finished.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_RELEASE_THREADS_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_RELEASE_THREADS_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "lib/copies/offload/state.h"

namespace tidepool::offload {

// One thread for raw copies and another for compressed copies: a thread waits for raw copies in
// their order, and compressed copies would wait with it.
class ReleaseThreads {
 public:
  explicit ReleaseThreads(OffloaderState& state) : state_(state) {}
  // Stops the threads. No copy may be in flight.
  ~ReleaseThreads();
  ReleaseThreads(const ReleaseThreads&) = delete;
  ReleaseThreads& operator=(const ReleaseThreads&) = delete;

  // Starts the threads; ResourceExhausted when the system has no thread.
  absl::Status Start(bool can_compress);

 private:
  absl::Status StartThread(std::thread& thread, bool is_compressed);
  void Run(bool is_compressed) ABSL_LOCKS_EXCLUDED(state_.mutex);

  OffloaderState& state_;
  bool is_ending_ ABSL_GUARDED_BY(state_.mutex) = false;
  std::thread raw_;
  std::thread compressed_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_RELEASE_THREADS_H_
