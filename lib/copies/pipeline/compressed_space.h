// SPDX-License-Identifier: Apache-2.0
// Memory on the host for compressed bytes, taken as it is needed.
#ifndef TIDEPOOL_LIB_COPIES_PIPELINE_COMPRESSED_SPACE_H_
#define TIDEPOOL_LIB_COPIES_PIPELINE_COMPRESSED_SPACE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/copies/compression_pipeline.h"

namespace tidepool::pipeline {

// The bytes that all buffers of a pipeline hold. Thread-safe.
class HeldBytes {
 public:
  void Add(std::int64_t bytes);
  std::int64_t now() const { return now_.load(std::memory_order_relaxed); }
  std::int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> now_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
};

// The source of memory for the strands of a buffer. It hands out chunks, each of one or more
// *extents* of the same size: a page of pageable memory, or a whole chunk of pinned memory.
// Thread-safe.
class ChunkSource {
 public:
  ChunkSource(CompressedMemory memory, std::int64_t chunk_bytes, std::shared_ptr<HeldBytes> held);

  std::int64_t extent_bytes() const { return extent_bytes_; }
  // Appends the extents of a chunk. After an error it appends no extent.
  absl::Status TakeChunk(std::vector<std::byte*>& extents) const;
  void Return(absl::Span<std::byte* const> extents) const;

 private:
  absl::Status Take(absl::Span<void*> extents) const;
  absl::Status TakeExtents(std::int64_t count, std::vector<std::byte*>& extents) const;

  const CompressedMemory memory_;
  std::int64_t extent_bytes_;
  std::int64_t extents_a_chunk_;
  const std::shared_ptr<HeldBytes> held_;
};

// A sequence of bytes that grows at its end. Bytes continue in the next extent when an extent is
// full. Not thread-safe.
class Strand {
 public:
  explicit Strand(const ChunkSource& source) : source_(source) {}
  ~Strand() { source_.Return(extents_); }
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  std::int64_t size() const { return size_; }
  std::int64_t held_bytes() const;

  // Returns the address at which to write the next `bytes` bytes: in the strand, or `scratch`, of
  // at least `bytes` bytes, when they cross extents. ResourceExhausted when the source has no
  // memory.
  absl::StatusOr<std::byte*> Reserve(std::int64_t bytes, std::byte* scratch);
  // Appends the bytes that were written to the address from Reserve.
  void Commit(const std::byte* written, std::int64_t bytes);
  // Replaces bytes that were committed.
  void Overwrite(std::int64_t offset, const std::byte* from, std::int64_t bytes);
  // Gives unused extents back.
  void Trim();

  // Returns the address of committed bytes: in the strand, or copied to `scratch` when they cross
  // extents.
  const std::byte* Read(std::int64_t offset, std::int64_t bytes, std::byte* scratch) const;

 private:
  std::byte* At(std::int64_t offset) const;
  // Returns the bytes from `offset` to the end of its extent.
  std::int64_t RestOfExtent(std::int64_t offset) const;

  const ChunkSource& source_;
  std::vector<std::byte*> extents_;
  std::int64_t size_ = 0;
};

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_COPIES_PIPELINE_COMPRESSED_SPACE_H_
