// SPDX-License-Identifier: Apache-2.0
// CompressionPipeline: buffers from a device to the host and back, compressed on their way
// (zero-value compression, zero_value_codec.h).
//
// A buffer passes through a small ring of pinned memory in *pieces*, each of the size of a slot. On
// the way out the copy engine fills slots while threads compress filled slots into host memory. On
// the way in threads decompress into slots, and copies to the device follow. So pinned memory is
// two rings for any size of the buffers. Compressed bytes are kept in pageable memory, or in pinned
// memory by choice.
//
// The compressed size is unknown beforehand, so space is taken as it is needed, in chunks of
//     bytes of the buffer / (chunk_fraction * threads)
// as in Shriram et al., "Dynamic memory management for GPU-based training of deep neural networks",
// IPDPS 2019, section IV-C.
//
// A query that asks a failed device about its copies is repeated. After the second failure no
// transfer begins any more (Unavailable), and transfers in flight may still access their memory: do
// not use that memory again while the device exists.
//
// All functions are thread-safe. Transfers of one direction begin in the order of the calls; both
// directions run at once. A pipeline, like a pool, must not be used in a forked child, which has
// none of its threads.
#ifndef TIDEPOOL_COPIES_COMPRESSION_PIPELINE_H_
#define TIDEPOOL_COPIES_COMPRESSION_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/copies/zero_value_codec.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/staging_ring.h"

namespace tidepool {

// Memory for compressed bytes: pages of pageable memory, or a pinned buffer for each chunk.
using CompressedMemory = std::variant<PagePool*, PinnedPool*>;

struct CompressionPipelineOptions {
  // Size of each direction's ring. A slot is a multiple of kZeroValueBlockBytes; smaller slots cost
  // time, because threads sleep and wake for each. 0: the size that the machine's profile
  // recommends (compression_profile.h), 1 MiB without a profile.
  StagingRingOptions ring = {.slots = 4, .slot_bytes = 0};
  // Threads that compress and decompress: 1 to kMaxZeroValueThreads. Two more threads only wait for
  // copies. 0: the number that the profile recommends, 2 without a profile.
  int threads = 0;
  // Divisor of the chunk size, 1 to 65,536: larger fractions make smaller chunks, of at least
  // 64 KiB. It matters in pinned memory, where chunks are kept whole: a buffer of 64 MiB held 1.36
  // times its compressed bytes with 4, 1.09 times with 16, and 1.001 times with 64. A larger number
  // needs more calls of the pool. Unused pages of a PagePool are given back.
  int chunk_fraction = 16;
  ZeroValueMode mode = ZeroValueMode::kPacked;
  std::optional<ZeroValueInstructionSet> instruction_set = std::nullopt;  // default: the best
};

namespace pipeline {
class Stored;
}

// A compressed buffer on the host, made by a pipeline. Immutable. Its destructor gives its memory
// back.
class TIDEPOOL_EXPORT StoredBuffer {
 public:
  virtual ~StoredBuffer() = default;
  StoredBuffer(const StoredBuffer&) = delete;
  StoredBuffer& operator=(const StoredBuffer&) = delete;

  virtual std::int64_t input_bytes() const = 0;
  // Returns the bytes of the payloads and their index.
  virtual std::int64_t compressed_bytes() const = 0;
  // Returns the bytes of the pages or chunks that hold them.
  virtual std::int64_t held_bytes() const = 0;
  virtual std::int64_t nonzero_words() const = 0;
  virtual ZeroValueWord word() const = 0;

 private:
  friend class pipeline::Stored;  // the one class of stored buffers
  StoredBuffer() = default;
};

struct CompressionPipelineStats {
  // Transfers that succeeded, and their bytes.
  std::int64_t offloads = 0;
  std::int64_t prefetches = 0;
  std::int64_t failures = 0;          // transfers that failed
  std::int64_t offloaded_bytes = 0;   // before compression
  std::int64_t compressed_bytes = 0;  // after compression
  std::int64_t prefetched_bytes = 0;  // after decompression
  // Memory of the stored buffers that exist now, and of transfers in flight.
  std::int64_t held_bytes = 0;
  std::int64_t peak_held_bytes = 0;
  std::int64_t ring_bytes = 0;  // pinned for both rings
  // Busy time, summed over threads.
  std::int64_t compress_ns = 0;
  std::int64_t decompress_ns = 0;
};

class TIDEPOOL_EXPORT CompressionPipeline {
 public:
  using OffloadDone = std::function<void(absl::StatusOr<std::shared_ptr<const StoredBuffer>>)>;
  using PrefetchDone = std::function<void(absl::Status)>;

  // Creates a pipeline. Its rings come from `staging`; `device`, `staging` and `memory` outlive the
  // pipeline and its stored buffers. Errors: InvalidArgument for a null pointer or options out of
  // range; the error of the profile when it is needed and cannot be read; ResourceExhausted when
  // threads cannot be started; otherwise the error of the device or of `staging`.
  static absl::StatusOr<std::unique_ptr<CompressionPipeline>> Create(
      Device* device, PinnedPool* staging, CompressedMemory memory,
      const CompressionPipelineOptions& options);

  // Waits until all transfers have finished.
  virtual ~CompressionPipeline() = default;

  // Begins to copy and compress the `bytes` bytes of device memory at `from`, after the work that
  // is queued on `after` now (no stream: at once). Calls `done` on a thread of the pipeline when
  // the bytes are on the host; until then they must not change. `done` may use the pipeline, but
  // must not wait for it, destroy it or throw.
  //
  // A failed transfer stores nothing and leaves the device memory as it was. `done` is then called
  // with ResourceExhausted when `memory` has too little space, or the error of the device. When
  // Offload or Prefetch itself returns an error, `done` is not called: InvalidArgument for a null
  // pointer, no `done`, a size out of range, an unknown word size, or a stored buffer in pieces
  // larger than a slot; Unavailable after the device failed repeatedly; otherwise the device's
  // error.
  virtual absl::Status Offload(const void* from, std::int64_t bytes, ZeroValueWord word,
                               Stream after, OffloadDone done) = 0;

  // Begins to decompress `stored` to the device memory at `to`, of at least stored->input_bytes()
  // bytes, after the work that is queued on `after` now. When `done` is called with OK, the bytes
  // are on the device. After a failure the contents of `to` are undefined, and `stored` stays as it
  // was. Errors are those of Offload, and DataLoss to `done` if the stored bytes have changed.
  virtual absl::Status Prefetch(std::shared_ptr<const StoredBuffer> stored, void* to, Stream after,
                                PrefetchDone done) = 0;

  // Returns the counts since the pipeline was made. Waits for no copy.
  virtual CompressionPipelineStats Stats() const = 0;

 protected:
  CompressionPipeline() = default;
  CompressionPipeline(const CompressionPipeline&) = delete;
  CompressionPipeline& operator=(const CompressionPipeline&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_COPIES_COMPRESSION_PIPELINE_H_
