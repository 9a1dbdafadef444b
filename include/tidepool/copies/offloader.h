// SPDX-License-Identifier: Apache-2.0
// Offloader: buffers that leave the device and come back.
//
// A buffer is on the device, going out, out, or coming back. It holds memory of a Pool while it is
// on the device or in flight. It holds memory of the host while it is out or in flight: a buffer of
// a PinnedPool, or the compressed bytes that a CompressionPipeline stores. Copies out and copies in
// each have a stream, so both directions run at once. Events mark the ends of copies, and only the
// functions that say so wait for the device.
//
// After a copy out has finished, the device memory of the buffer goes back to the pool, ordered
// after the work of the streams that used it. This is the scheme of Shriram et al., "Dynamic memory
// management for GPU-based training of deep neural networks", IPDPS 2019, section IV-A. The paper
// starts a thread for each buffer; here a queue serves all buffers.
//
// When a copy fails, its buffer stays where it was, with all of its contents. A query that asks a
// failed device about its copies is repeated; after the second failure the copies count as
// finished. All functions are thread-safe, and no lock is held while a thread waits for the device
// or pins memory. A call that returns an error changes nothing but counters and which errors were
// returned. An offloader, like a pool, must not be used in a forked child.
#ifndef TIDEPOOL_COPIES_OFFLOADER_H_
#define TIDEPOOL_COPIES_OFFLOADER_H_

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
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/copies/density_probe.h"
#include "tidepool/copies/zero_value_codec.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool {

enum class BufferState : std::uint8_t { kOnDevice, kGoingOut, kOut, kComingBack };
// "on the device", "going out", "out", "coming back".
TIDEPOOL_EXPORT std::string_view BufferStateName(BufferState state);

// The number of a buffer. It is unique in the process, and 0 stands for no buffer.
struct BufferId {
  std::uint64_t id = 0;

  friend bool operator==(BufferId a, BufferId b) { return a.id == b.id; }
};

struct OffloaderOptions {
  // The time at which a buffer that is out gives its device memory back to the pool.
  enum class Release : std::uint8_t {
    kWhenOut,  // as soon as the copy has finished; a thread of the offloader gives it back
    // When Await, Synchronize, or an allocation that finds too little memory asks for it, in the
    // order in which buffers were sent. So addresses do not depend on the speed of copies. The
    // offloader has no thread then, and an allocation waits for the first copy even if a buffer is
    // freed meanwhile.
    kWhenAwaited,
  };
  Release release = Release::kWhenOut;
  // Makes copies of both directions share a stream, as in the papers. Compressed copies are
  // exempt: the pipeline has its own streams.
  bool one_transfer_at_a_time = false;
  // Compresses the buffers for which Offload is given a word; without a pipeline every copy is raw.
  // The pipeline outlives the offloader.
  CompressionPipeline* pipeline = nullptr;
};

// Tells the caller when a copy begins and ends; each member may be left out.
//
//   copy              begins is recorded                          its end
//   raw               in its stream, before it                    ends is recorded in its stream
//   compressed, out   when the work that it waits for has ended   ended is called
//   compressed, in    in the stream of Prefetch                   ended is called
//
// Events that the device refuses to record stay as they were. `ended` is called at most once, by a
// thread of the pipeline, and must not block.
struct CopyWatch {
  Event begins = {};
  Event ends = {};
  std::function<void()> ended = nullptr;
};

struct OffloaderStats {
  std::int64_t buffers = 0;       // not yet freed
  std::int64_t device_bytes = 0;  // of the pool: of buffers, also in flight or freed during a copy
  std::int64_t host_bytes = 0;    // held by buffers on the host now, compressed or not
  std::int64_t peak_host_bytes = 0;
  std::int64_t offloads = 0;    // copies out that succeeded
  std::int64_t prefetches = 0;  // copies in that succeeded
  std::int64_t bytes_out = 0;
  std::int64_t bytes_in = 0;
  std::int64_t stayed = 0;    // prefetches that came before the buffer had left: nothing was copied
  std::int64_t refused = 0;   // offloads for which the host had too little memory
  std::int64_t failures = 0;  // copies that failed
  std::int64_t blocked = 0;   // allocations and prefetches that waited for device memory
};

class TIDEPOOL_EXPORT Offloader {
 public:
  // Creates an offloader. `device`, `pool` and `host` outlive it, and `pool` allocates from
  // `device`. Errors: InvalidArgument for a null pointer; the device's error when it cannot create
  // a stream; ResourceExhausted when a thread cannot be started.
  static absl::StatusOr<std::unique_ptr<Offloader>> Create(Device* device, Pool* pool,
                                                           PinnedPool* host,
                                                           const OffloaderOptions& options);

  // Waits for all copies and frees all buffers.
  virtual ~Offloader() = default;

  // Allocates a buffer of at least one byte on the device, for work queued on `stream` from now on.
  // Work on other streams must be ordered after such work. The stream should live until the buffer
  // has left. `name` appears in messages.
  //
  // When the pool has too little memory, the call waits on the host while a copy in flight can
  // still give memory back. Waiting requests are served in the order of their calls; each tries
  // again when a copy has finished or a buffer was freed.
  //
  // Errors: InvalidArgument for no bytes; ResourceExhausted at once when no copy in flight can
  // help, naming the buffers that hold the most memory; DeadlineExceeded; any other error of the
  // pool.
  virtual absl::StatusOr<BufferId> Allocate(std::size_t bytes, Stream stream,
                                            Hint hint = Hint::kResident, std::string_view name = "",
                                            absl::Time deadline = absl::InfiniteFuture()) = 0;

  // Returns the buffer's address, valid for work queued on `stream` from now on, until the next
  // Offload or Free of the buffer. Makes the stream wait, on the device, for the copy that brings
  // the buffer back. Keeps the memory until the work on the stream has finished.
  //
  // Errors: NotFound; FailedPrecondition when the buffer is out or going out. When the last copy of
  // the buffer failed, the first call returns the error of that copy instead: of a copy out, which
  // left the buffer on the device, or of a copy back, which left it out. After a copy back, until
  // Use, Offload or Synchronize has returned that error, the caller may still queue work with the
  // address: so the memory stays allocated, with undefined contents.
  //
  // For a compressed copy in flight, a host function on `stream` waits for its end. A CUDA device
  // may run the host functions of all streams on one thread, so they may all wait with it.
  virtual absl::StatusOr<void*> Use(BufferId buffer, Stream stream) = 0;

  // Begins to copy the buffer to the host after the event `after` has happened (no event: at once).
  // `after` is recorded after the work that wrote the buffer. Work that reads the buffer may still
  // be queued on streams that used it; no work may be queued with its address from now on. A buffer
  // that is coming back is copied out after it has arrived.
  //
  // With `word` and a pipeline, the copy is compressed. Without, memory of the host may be pinned
  // for it, and other calls do not wait meanwhile.
  //
  // Errors: NotFound; FailedPrecondition when the buffer is out or going out; once, the error of a
  // copy back that failed; ResourceExhausted when the host has too little memory, and the buffer
  // stays as it is. A compressed copy reports ResourceExhausted by Await, or by the next Use or
  // Prefetch. After a copy out that failed, Offload tries again; Synchronize returns that error.
  virtual absl::Status Offload(BufferId buffer, Event after,
                               std::optional<ZeroValueWord> word = std::nullopt,
                               CopyWatch watch = {}) = 0;

  // Waits on the host until the copy out of the buffer has finished, and gives the buffer's device
  // memory back to the pool. Returns OK when the buffer is out already. When the copy failed,
  // returns its error once; the buffer is on the device then. Errors: NotFound; FailedPrecondition
  // in any other state.
  virtual absl::Status Await(BufferId buffer) = 0;

  // Takes device memory for work on `stream`, and waits for it as Allocate does. Then begins to
  // copy the buffer back, after the work that is queued on `stream` now. A buffer that is going out
  // stays on the device. A call for a buffer that is on the device or coming back has no effect.
  // Errors are NotFound, Allocate's and the device's; once, that of a copy out that failed, which
  // left the buffer on the device.
  //
  // The first of these calls after the end of the copy frees the copy's host memory, if it is not
  // free already: Offload, Prefetch, State, Stats, ProbeDensity, Synchronize, or an allocation that
  // finds no room in the pool.
  virtual absl::Status Prefetch(BufferId buffer, Stream stream, Hint hint = Hint::kResident,
                                absl::Time deadline = absl::InfiniteFuture(),
                                CopyWatch watch = {}) = 0;

  // Frees the buffer. Its memory goes back to the pool ordered after the work of the streams that
  // used it and after copies in flight: the stream that it was allocated for waits for them.
  // Synchronize may return the error of a copy that failed before. Errors: NotFound.
  virtual absl::Status Free(BufferId buffer) = 0;

  // Waits on the host until all copies queued so far have finished, and gives the memory of buffers
  // that are out back to the pool. Returns the earliest error that no call has returned, once. Of
  // the errors of buffers that were freed or copied again since, the offloader keeps the earliest,
  // and those of copies back after which work was queued.
  virtual absl::Status Synchronize() = 0;

  // Returns the buffer's state. Errors: NotFound, as of all functions above.
  virtual absl::StatusOr<BufferState> State(BufferId buffer) const = 0;
  // Estimates the density of a buffer that is out, from its copy on the host. A raw copy is probed
  // (ProbeDensity); other calls do not wait meanwhile. The words of a compressed copy were counted
  // when it was made, and of the options only the word matters. Errors: NotFound;
  // FailedPrecondition in any other state; InvalidArgument for options out of range of a raw copy,
  // and for words of another size than those of the compressed copy. O(options.lines).
  virtual absl::StatusOr<DensityEstimate> ProbeDensity(
      BufferId buffer, const DensityProbeOptions& options = {}) const = 0;
  // Returns the counts since the offloader was made. Waits for no copy.
  virtual OffloaderStats Stats() const = 0;
  // The streams of raw copies; only copies are queued on them.
  virtual Stream out_stream() const = 0;
  virtual Stream in_stream() const = 0;

 protected:
  Offloader() = default;
  Offloader(const Offloader&) = delete;
  Offloader& operator=(const Offloader&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_COPIES_OFFLOADER_H_
