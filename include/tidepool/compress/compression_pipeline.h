// CompressionPipeline: buffers from a device to the host and back, compressed on their way
// (zero-value compression, zero_value_codec.h).
//
// A buffer passes through a small ring of pinned memory in *pieces* of a slot. On the way out the
// copy engine fills the slots, and threads compress what is in one into memory of the host while
// the next are being filled. On the way in it runs backwards: threads decompress into slots, and
// copies to the device follow. So what is pinned is two rings, whatever the size of the buffers,
// and compressed bytes are kept in pageable memory, or in pinned memory by choice.
//
// Compressed space is taken as it is needed, in chunks of
//     bytes of the buffer / (chunk_fraction * threads)
// because nobody knows beforehand how much that is (Shriram et al., "Dynamic memory management for
// GPU-based training of deep neural networks", IPDPS 2019, section IV-C).
//
// When the device fails, and fails again when it is asked whether its copies are over, no transfer
// begins any more (Unavailable), and what was under way may still use the memory that it was given:
// as long as there is that device, nobody else should.
//
// All functions are thread-safe. Transfers of one direction begin in the order in which they were
// asked for; both directions run at once. As a pool, it is not for a forked child, which has none
// of its threads.
#ifndef TIDEPOOL_COMPRESS_COMPRESSION_PIPELINE_H_
#define TIDEPOOL_COMPRESS_COMPRESSION_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/compress/zero_value_codec.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/host/page_pool.h"
#include "tidepool/host/pinned_pool.h"
#include "tidepool/host/staging_ring.h"

namespace tidepool {

// Where compressed bytes are kept: in pages of pageable memory, or in pinned buffers of a chunk.
using CompressedMemory = std::variant<PagePool*, PinnedPool*>;

struct CompressionPipelineOptions {
  // Of the ring of each direction. A slot is a multiple of kZeroValueBlockBytes; smaller ones cost
  // time, as threads sleep and wake for each. 0: what the machine's profile recommends
  // (compression_profile.h), 1 MiB where there is none.
  StagingRingOptions ring = {.slots = 4, .slot_bytes = 0};
  // That compress and decompress: 1 to kMaxZeroValueThreads. Two more only ever wait for copies. 0:
  // what the profile recommends, 2 where there is none.
  int threads = 0;
  // Larger fractions make smaller chunks, at least 64 KiB: 1 to 65,536. In pinned memory chunks are
  // kept whole: with 4, buffers held 1.36 times what was compressed, with 16 1.05 times. Pages that
  // are not used are given back.
  int chunk_fraction = 16;
  ZeroValueMode mode = ZeroValueMode::kPacked;
  std::optional<ZeroValueInstructionSet> instruction_set = std::nullopt;  // the best, if not given
};

// A buffer that was compressed. Its memory goes back to where it came from with it. Immutable.
class TIDEPOOL_EXPORT StoredBuffer {
 public:
  virtual ~StoredBuffer() = default;
  StoredBuffer(const StoredBuffer&) = delete;
  StoredBuffer& operator=(const StoredBuffer&) = delete;

  virtual std::int64_t input_bytes() const = 0;
  // Of payloads and their index.
  virtual std::int64_t compressed_bytes() const = 0;
  // That were taken for them, whole pages or chunks.
  virtual std::int64_t held_bytes() const = 0;
  virtual std::int64_t nonzero_words() const = 0;
  virtual ZeroValueWord word() const = 0;

 protected:
  StoredBuffer() = default;
};

struct CompressionPipelineStats {
  std::int64_t offloads = 0;  // that ended well, as all that follows but failures
  std::int64_t prefetches = 0;
  std::int64_t failures = 0;
  std::int64_t offloaded_bytes = 0;   // as they were on the device
  std::int64_t compressed_bytes = 0;  // what became of them
  std::int64_t prefetched_bytes = 0;  // as they are on the device
  // Of stored buffers that there are now, and of transfers under way.
  std::int64_t held_bytes = 0;
  std::int64_t peak_held_bytes = 0;
  std::int64_t ring_bytes = 0;  // pinned for both rings
  // Time that threads were busy with it, summed over threads.
  std::int64_t compress_ns = 0;
  std::int64_t decompress_ns = 0;
};

class TIDEPOOL_EXPORT CompressionPipeline {
 public:
  using OffloadDone = std::function<void(absl::StatusOr<std::shared_ptr<const StoredBuffer>>)>;
  using PrefetchDone = std::function<void(absl::Status)>;

  // `device`, `staging`, from which the rings come, and `memory` outlive the pipeline and the
  // stored buffers. InvalidArgument for options out of range; the error of the profile, if one is
  // asked for and cannot be read; ResourceExhausted when threads cannot be started; otherwise the
  // error of the device or of `staging`.
  static absl::StatusOr<std::unique_ptr<CompressionPipeline>> Create(
      Device* device, PinnedPool* staging, CompressedMemory memory,
      const CompressionPipelineOptions& options);

  // Finishes what was begun.
  virtual ~CompressionPipeline() = default;

  // Begins to copy and to compress `bytes` bytes of the device from `from` on, once all is over
  // that is queued on `after` so far (no stream: at once), and calls `done`, on a thread of the
  // pipeline, when they are on the host. Until then they stay as they are. `done` may use the
  // pipeline but does not wait for it, does not destroy it and throws nothing.
  //
  // A transfer that fails leaves nothing behind, and the bytes on the device are as they were:
  // ResourceExhausted when `memory` has no room, else the error of the device. InvalidArgument, and
  // `done` is not called, for null, no `done`, less than no bytes, or words of no known size.
  virtual absl::Status Offload(const void* from, std::int64_t bytes, ZeroValueWord word,
                               Stream after, OffloadDone done) = 0;

  // The other way: to `to`, of at least stored->input_bytes() bytes, once all is over that is
  // queued on `after` so far. When `done` is called with OK, they are there. When the transfer
  // fails, `to` holds anything, and what is stored stays as it was.
  virtual absl::Status Prefetch(std::shared_ptr<const StoredBuffer> stored, void* to, Stream after,
                                PrefetchDone done) = 0;

  virtual CompressionPipelineStats Stats() const = 0;

 protected:
  CompressionPipeline() = default;
  CompressionPipeline(const CompressionPipeline&) = delete;
  CompressionPipeline& operator=(const CompressionPipeline&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_COMPRESS_COMPRESSION_PIPELINE_H_
