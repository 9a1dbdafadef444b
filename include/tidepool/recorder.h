// SPDX-License-Identifier: Apache-2.0
// Recorder: writes the requests that a pool serves to a native trace file while they happen.
//
// A recording call takes a time stamp and fills a buffer. The recorder's own thread encodes and
// writes the buffer, at least every 100 ms. After a crash, everything written before it can be
// read.
//
// A recorder belongs to the process that created it. A forked child lacks the writer thread, so
// nothing is recorded there and the file stays untouched: Flush and Close return
// FailedPrecondition. If the child made recording calls and neither Flush nor Close reported that,
// the destructor prints it on stderr. A child that records must create its own recorder, for
// another file.
#ifndef TIDEPOOL_RECORDER_H_
#define TIDEPOOL_RECORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/pool_observer.h"

namespace tidepool {

struct RecorderOptions {
  std::string path;
  // Sizes in the trace are rounded up to this by default: the alignment of the pool.
  std::int64_t alignment = 512;
  // Memory for events not yet written. When it is full, recording calls wait for the writer,
  // because a trace with holes could not be replayed.
  std::int64_t buffer_bytes = std::int64_t{4} << 20;
};

// Observer that records one pool with its regions. The pool makes the recording calls one at a
// time; Flush and Close are thread-safe.
class TIDEPOOL_EXPORT Recorder : public PoolObserver {
 public:
  // Replaces the file at `path`, which must be a regular file without the ending ".gz". Returns
  // InvalidArgument for other paths, or a buffer outside 4 KiB to 16 GiB. Otherwise an error is
  // that of the system call.
  static absl::StatusOr<std::unique_ptr<Recorder>> Create(const RecorderOptions& options);
  // Closes the recording. Prints an error on stderr if no call returned it.
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Recording calls. Each takes O(1) time, and also the length of a name.
  void Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) override;
  void Free(const void* address, Stream stream) override;
  void Failure(std::int64_t bytes, Hint hint, Stream stream) override;
  void Wait(Stream stream, Stream awaited) override;
  void Mark(std::string_view name) override;
  // Record the region, if its name has 1 to 255 bytes and it is one of the first 65,535. Pauses of
  // regions that sleep and resumes of others are left out: a recording may begin during a sleep.
  void AllocateIn(std::string_view region, const void* address, std::int64_t bytes, Hint hint,
                  Stream stream) override;
  void FailureIn(std::string_view region, std::int64_t bytes, Hint hint, Stream stream) override;
  void Pause(std::string_view region, SleepMode mode, Stream stream) override;
  void Resume(std::string_view region, Stream stream) override;

  // Writes the buffered events, waits until they are in the file, and returns the first error.
  // After an error nothing more is recorded, and the file stays readable up to that point. An error
  // that no call returned is printed once on stderr. Returns FailedPrecondition in a forked child.
  absl::Status Flush();
  // Flushes and ends the recording. Later recording calls do nothing.
  absl::Status Close();

 private:
  class Writer;
  explicit Recorder(std::unique_ptr<Writer> writer);

  std::unique_ptr<Writer> writer_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_RECORDER_H_
