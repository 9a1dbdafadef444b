// Offloader: buffers that leave the device and come back.
//
// A buffer is on the device, going out, out, or coming back. It takes memory of a Pool while it is
// on the device or on its way, and memory of the host while it is out or on its way: a buffer of a
// PinnedPool, or, compressed, what a CompressionPipeline keeps it in. Copies out and copies in run
// on a stream each, at the same time, and events mark their ends: nothing here waits for the
// device but what says so.
//
// When a copy out is over, the buffer's device memory goes back to the pool behind the work that
// was queued on the streams that used it (Shriram et al., "Dynamic memory management for GPU-based
// training of deep neural networks", IPDPS 2019, section IV-A, which starts a thread for each
// buffer; here one queue sees to all).
//
// When a copy fails, the buffer stays where it was, whole. When the device fails, and fails again
// when it is asked whether its copies are over, they count as over. All functions are thread-safe,
// and no lock is held while one waits for the device or pins memory. A call that fails has done
// nothing.
// As a pool, it is not for a forked child.
#ifndef TIDEPOOL_SCHEDULE_OFFLOADER_H_
#define TIDEPOOL_SCHEDULE_OFFLOADER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/compress/compression_pipeline.h"
#include "tidepool/compress/zero_value_codec.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/host/pinned_pool.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool {

enum class BufferState : std::uint8_t { kOnDevice, kGoingOut, kOut, kComingBack };
// "on the device", "going out", "out", "coming back".
TIDEPOOL_EXPORT std::string_view BufferStateName(BufferState state);

// Names a buffer of one offloader. No two of a process ever have the same name, and 0 is none.
struct BufferId {
  std::uint64_t id = 0;

  friend bool operator==(BufferId a, BufferId b) { return a.id == b.id; }
};

struct OffloaderOptions {
  // When memory of a buffer that is out goes back to the pool.
  enum class Release : std::uint8_t {
    kWhenOut,  // as soon as the copy is over
    // When Await, Synchronize or an allocation that finds no room asks for it, in the order in
    // which buffers were sent: so addresses do not depend on how long copies take. Then there is no
    // thread, and an allocation waits for the first copy whatever is freed meanwhile.
    kWhenAwaited,
  };
  Release release = Release::kWhenOut;
  // Copies of one direction wait for those of the other, as the papers have it; but for compressed
  // ones, for which the pipeline has streams of its own.
  bool one_transfer_at_a_time = false;
  // For buffers that are to be compressed; without one all are sent as they are. Outlives the
  // offloader.
  CompressionPipeline* pipeline = nullptr;
};

// Functions to call when a copy begins and ends: host functions, on its stream before and after it;
// of a compressed copy `ends` is called by a thread of the pipeline, which must not wait. Each is
// called at most once, and not when the device takes no host function.
struct CopyWatch {
  std::function<void()> begins;
  std::function<void()> ends;
};

struct OffloaderStats {
  std::int64_t buffers = 0;       // that there are
  std::int64_t device_bytes = 0;  // of buffers that have memory there
  std::int64_t host_bytes = 0;    // that buffers hold on the host now, compressed or not
  std::int64_t peak_host_bytes = 0;
  std::int64_t offloads = 0;  // that ended well
  std::int64_t prefetches = 0;
  std::int64_t bytes_out = 0;
  std::int64_t bytes_in = 0;
  std::int64_t stayed = 0;    // prefetched before they had left: nothing was copied back
  std::int64_t refused = 0;   // offloads for which the host had no room
  std::int64_t failures = 0;  // copies that failed
  std::int64_t blocked = 0;   // allocations and prefetches that waited for memory
};

class TIDEPOOL_EXPORT Offloader {
 public:
  // `device`, `pool` and `host` outlive the offloader; `pool` is of `device`. The device's error
  // when it has no more streams or events; ResourceExhausted when there is no thread.
  static absl::StatusOr<std::unique_ptr<Offloader>> Create(Device* device, Pool* pool,
                                                           PinnedPool* host,
                                                           const OffloaderOptions& options);

  // Waits for copies and frees all buffers.
  virtual ~Offloader() = default;

  // A buffer of at least one byte, on the device, for work queued on `stream` from here on; work on
  // other streams is queued behind such work. The stream should live until the buffer has left.
  // `name` is for messages. When the pool has no room it waits on the host, as long as a copy out
  // under way can make some, in turn with other requests, and tries again each time that one has
  // ended or a buffer was freed. ResourceExhausted at once when none can, with the buffers that
  // hold most of the memory; DeadlineExceeded; otherwise the pool's error.
  virtual absl::StatusOr<BufferId> Allocate(std::size_t bytes, Stream stream,
                                            Hint hint = Hint::kResident, std::string_view name = "",
                                            absl::Time deadline = absl::InfiniteFuture()) = 0;

  // Where the buffer is, for work queued on `stream` from here on, until the next call of Offload
  // or Free for it: makes the stream wait, on the device, for the copy that brings it back, and
  // keeps its memory until that work is over. FailedPrecondition when it is out or going out; when
  // it is out because the copy back failed, the error of that copy, once. Until that error was
  // told, by this function, Offload or Synchronize, work may still be queued with the address: its
  // memory stays, though not its contents.
  //
  // For a compressed copy that is not over, a host function on `stream` waits: the host functions
  // of all streams of a CUDA device may wait behind it.
  virtual absl::StatusOr<void*> Use(BufferId buffer, Stream stream) = 0;

  // Begins to copy the buffer to the host, once `after` has happened (no event: now): an event
  // recorded after the work that wrote it. Work that reads it may still be queued on streams that
  // used it; from here on no work may be. One that is coming back is copied out once it is there.
  // With `word` it is compressed on the way, if there is a pipeline. Memory of the host may be
  // pinned for it; other calls do not wait meanwhile. FailedPrecondition when it is out or going
  // out, and the error of the copy back, once, when it is out because that failed;
  // ResourceExhausted when the host has no room, and the buffer stays as it is: of a compressed
  // copy, Await says so.
  virtual absl::Status Offload(BufferId buffer, Event after,
                               std::optional<ZeroValueWord> word = std::nullopt,
                               CopyWatch watch = {}) = 0;

  // Waits on the host until a buffer that is going out is out, and gives its memory back to the
  // pool. The error of the copy, once, when it failed: the buffer is on the device then. OK when it
  // is out; FailedPrecondition otherwise.
  virtual absl::Status Await(BufferId buffer) = 0;

  // Takes memory on the device, waiting for it as Allocate does, and begins to copy the buffer back
  // once all is over that is queued on `stream` so far, for which the memory is. A buffer that is
  // going out and still has its memory stays there; of one that is on the device or coming back
  // nothing is to be done. Errors are Allocate's. What the copy needed on the host is free, at the
  // latest, when the next function is called after its end.
  virtual absl::Status Prefetch(BufferId buffer, Stream stream, Hint hint = Hint::kResident,
                                absl::Time deadline = absl::InfiniteFuture(),
                                CopyWatch watch = {}) = 0;

  // The buffer is gone. Its memory goes back behind the work queued on streams that used it, and
  // behind copies under way: the stream that it was given for waits for them. Errors of its copies
  // are gone too, but for that of a copy back behind which work was queued: Synchronize tells.
  virtual absl::Status Free(BufferId buffer) = 0;

  // Waits on the host until all copies so far are over, and gives back the memory of buffers that
  // are out. The first error of a copy that nobody was told of, once.
  virtual absl::Status Synchronize() = 0;

  // NotFound for a buffer that there is not, as for all functions above.
  virtual absl::StatusOr<BufferState> State(BufferId buffer) const = 0;
  virtual OffloaderStats Stats() const = 0;
  // For copies; nothing else is queued there.
  virtual Stream out_stream() const = 0;
  virtual Stream in_stream() const = 0;

 protected:
  Offloader() = default;
  Offloader(const Offloader&) = delete;
  Offloader& operator=(const Offloader&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_OFFLOADER_H_
