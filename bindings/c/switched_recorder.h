// SPDX-License-Identifier: Apache-2.0
// An observer that records a pool from time to time.
#ifndef TIDEPOOL_BINDINGS_C_SWITCHED_RECORDER_H_
#define TIDEPOOL_BINDINGS_C_SWITCHED_RECORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/pool_observer.h"
#include "tidepool/recorder.h"

namespace tidepool::c_api {

// Thread-safe.
class SwitchedRecorder final : public PoolObserver {
 public:
  explicit SwitchedRecorder(std::int64_t alignment) : alignment_(alignment) {}

  // Begins a trace. FailedPrecondition while one is written; otherwise errors are the recorder's.
  absl::Status Start(const std::string& path);
  // Ends the trace. FailedPrecondition without one.
  absl::Status Stop();
  // Writes the events so far, if there is a trace.
  absl::Status Flush();

  void Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) override;
  void Free(const void* address, Stream stream) override;
  void Failure(std::int64_t bytes, Hint hint, Stream stream) override;
  void Wait(Stream stream, Stream awaited) override;
  void Mark(std::string_view name) override;
  void AllocateIn(std::string_view region, const void* address, std::int64_t bytes, Hint hint,
                  Stream stream) override;
  void FailureIn(std::string_view region, std::int64_t bytes, Hint hint, Stream stream) override;
  void Pause(std::string_view region, SleepMode mode, Stream stream) override;
  void Resume(std::string_view region, Stream stream) override;

 private:
  const std::int64_t alignment_;
  locks::Mutex mutex_;
  std::unique_ptr<Recorder> recorder_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_SWITCHED_RECORDER_H_
