// Recorder: what a pool was asked for, written to a native trace file while it happens.
//
// The calls that record take a time stamp and fill a buffer; a thread of the recorder's own encodes
// and writes. What was written before a crash can be read.
//
// A recorder belongs to the process that created it. In a forked child, which has no such thread,
// nothing is recorded and the file is left alone: Flush and Close are FailedPrecondition, and where
// neither is called after something was recorded, the destructor prints that on stderr. A child
// that records creates a recorder of its own, for another file.
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
  // What the sizes of the trace are rounded up to by default: that of the pool.
  std::int64_t alignment = 512;
  // Memory for what was not yet written. When it is full, who records waits for the writer: a trace
  // with holes could not be replayed.
  std::int64_t buffer_bytes = std::int64_t{4} << 20;
  // An event is on its way to the file after at most so long, also when little happens.
  std::int64_t flush_interval_ns = 100'000'000;
};

// Of one pool, which makes the recording calls one at a time; the others are thread-safe.
class TIDEPOOL_EXPORT Recorder : public PoolObserver {
 public:
  // Replaces the file, a regular one and not compressed. InvalidArgument for other paths, a buffer
  // outside 4 KiB to 16 GiB or an interval below 1 ns; otherwise what the system says about the
  // path.
  static absl::StatusOr<std::unique_ptr<Recorder>> Create(const RecorderOptions& options);
  // Closes; an error that nobody asked for is printed on stderr.
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Each call is O(1), except that a mark costs the length of its name.
  void Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) override;
  void Free(const void* address, Stream stream) override;
  void Failure(std::int64_t bytes, Hint hint, Stream stream) override;
  void Wait(Stream stream, Stream awaited) override;
  void Mark(std::string_view name) override;

  // Writes what is in the buffer, waits until it is in the file, and says whether all of it is.
  // After the first error nothing more is recorded, the file stays readable up to there, and the
  // error is printed once on stderr when no call returned it. FailedPrecondition in a forked child.
  absl::Status Flush();
  // Flush, and the end of the recording. Later calls record nothing.
  absl::Status Close();

 private:
  class Writer;
  explicit Recorder(std::unique_ptr<Writer> writer);

  std::unique_ptr<Writer> writer_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_RECORDER_H_
