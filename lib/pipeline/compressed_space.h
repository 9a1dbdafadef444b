// Space on the host for what is compressed, taken as it is needed.
#ifndef TIDEPOOL_LIB_PIPELINE_COMPRESSED_SPACE_H_
#define TIDEPOOL_LIB_PIPELINE_COMPRESSED_SPACE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/compress/compression_pipeline.h"

namespace tidepool::pipeline {

// What all buffers of a pipeline hold. Thread-safe.
class HeldBytes {
 public:
  void Add(std::int64_t bytes);
  std::int64_t now() const { return now_.load(std::memory_order_relaxed); }
  std::int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> now_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
};

// Where the strands of one buffer get their memory: in chunks, each of one or more *extents* of one
// size, which is a page's or, in pinned memory, the chunk's. Thread-safe.
class ChunkSource {
 public:
  ChunkSource(CompressedMemory memory, std::int64_t chunk_bytes, std::shared_ptr<HeldBytes> held);

  std::int64_t extent_bytes() const { return extent_bytes_; }
  // Appends the extents of a chunk, or nothing.
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

// Bytes that grow at their end; what is longer than the rest of an extent goes on in the next. Not
// thread-safe.
class Strand {
 public:
  explicit Strand(const ChunkSource& source) : source_(source) {}
  ~Strand() { source_.Return(extents_); }
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  std::int64_t size() const { return size_; }
  std::int64_t held_bytes() const;

  // Where to write the next `bytes` bytes: at their place, or in `scratch`, which has room for
  // them, where their place is not in one piece. ResourceExhausted when there is no memory.
  absl::StatusOr<std::byte*> Reserve(std::int64_t bytes, std::byte* scratch);
  // What was written to where Reserve said.
  void Commit(const std::byte* written, std::int64_t bytes);
  // Replaces bytes that were committed.
  void Overwrite(std::int64_t offset, const std::byte* from, std::int64_t bytes);
  // Gives back the extents in which nothing is.
  void Trim();

  // `bytes` bytes that were committed: at their place, or copied to `scratch`.
  const std::byte* Read(std::int64_t offset, std::int64_t bytes, std::byte* scratch) const;

 private:
  std::byte* At(std::int64_t offset) const;
  // From `offset` on, in one piece.
  std::int64_t RestOfExtent(std::int64_t offset) const;

  const ChunkSource& source_;
  std::vector<std::byte*> extents_;
  std::int64_t size_ = 0;
};

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_PIPELINE_COMPRESSED_SPACE_H_
