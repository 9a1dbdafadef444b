// SPDX-License-Identifier: Apache-2.0
// Memory for compressed bytes: chunks from a pool, and strands that grow in them.
#include "lib/copies/pipeline/compressed_space.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/arithmetic.h"

namespace tidepool::pipeline {

void HeldBytes::Add(std::int64_t bytes) {
  const std::int64_t now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

ChunkSource::ChunkSource(CompressedMemory memory, std::int64_t chunk_bytes,
                         std::shared_ptr<HeldBytes> held)
    : memory_(memory), extent_bytes_(chunk_bytes), extents_a_chunk_(1), held_(std::move(held)) {
  if (PagePool* const* const pages = std::get_if<PagePool*>(&memory_)) {
    const PagePoolStats stats = (*pages)->Stats();
    extent_bytes_ = stats.page_bytes;
    extents_a_chunk_ = CeilDivide(chunk_bytes, extent_bytes_);
    // The pool never has more than max_pages: do not build a longer list.
    if (extents_a_chunk_ > stats.max_pages) extents_a_chunk_ = 1;
  }
}

absl::Status ChunkSource::Take(absl::Span<void*> extents) const {
  if (PagePool* const* const pages = std::get_if<PagePool*>(&memory_)) {
    return (*pages)->Take(extents);
  }
  const auto buffer =
      std::get<PinnedPool*>(memory_)->Allocate(static_cast<std::size_t>(extent_bytes_));
  if (buffer.ok()) extents[0] = *buffer;
  return buffer.status();
}

absl::Status ChunkSource::TakeExtents(std::int64_t count, std::vector<std::byte*>& extents) const {
  std::vector<void*> taken(static_cast<std::size_t>(count));
  if (absl::Status status = Take(absl::MakeSpan(taken)); !status.ok()) return status;
  held_->Add(count * extent_bytes_);
  for (void* const extent : taken) extents.push_back(static_cast<std::byte*>(extent));
  return absl::OkStatus();
}

absl::Status ChunkSource::TakeChunk(std::vector<std::byte*>& extents) const {
  absl::Status status = TakeExtents(extents_a_chunk_, extents);
  if (status.ok() || extents_a_chunk_ == 1) return status;
  // When memory is short, an extent may fit although a chunk does not.
  return TakeExtents(1, extents);
}

void ChunkSource::Return(absl::Span<std::byte* const> extents) const {
  if (extents.empty()) return;
  held_->Add(-static_cast<std::int64_t>(extents.size()) * extent_bytes_);
  // The extents came from the pools, so neither call fails.
  if (PagePool* const* const pages = std::get_if<PagePool*>(&memory_)) {
    const std::vector<void*> addresses(extents.begin(), extents.end());
    (*pages)->Return(addresses).IgnoreError();
    return;
  }
  for (std::byte* const extent : extents) {
    std::get<PinnedPool*>(memory_)->Free(extent).IgnoreError();
  }
}

std::int64_t Strand::held_bytes() const {
  return static_cast<std::int64_t>(extents_.size()) * source_.extent_bytes();
}

std::byte* Strand::At(std::int64_t offset) const {
  return extents_[static_cast<std::size_t>(offset / source_.extent_bytes())] +
         offset % source_.extent_bytes();
}

std::int64_t Strand::RestOfExtent(std::int64_t offset) const {
  return source_.extent_bytes() - offset % source_.extent_bytes();
}

absl::StatusOr<std::byte*> Strand::Reserve(std::int64_t bytes, std::byte* scratch) {
  while (held_bytes() - size_ < bytes) {
    if (absl::Status status = source_.TakeChunk(extents_); !status.ok()) return status;
  }
  return bytes > 0 && bytes <= RestOfExtent(size_) ? At(size_) : scratch;
}

void Strand::Commit(const std::byte* written, std::int64_t bytes) {
  const std::int64_t offset = size_;
  size_ += bytes;
  if (bytes > 0 && written != At(offset)) Overwrite(offset, written, bytes);
}

void Strand::Overwrite(std::int64_t offset, const std::byte* from, std::int64_t bytes) {
  while (bytes > 0) {
    const std::int64_t part = std::min(bytes, RestOfExtent(offset));
    std::memcpy(At(offset), from, static_cast<std::size_t>(part));
    offset += part;
    from += part;
    bytes -= part;
  }
}

void Strand::Trim() {
  const std::int64_t used = CeilDivide(size_, source_.extent_bytes());
  source_.Return(absl::MakeConstSpan(extents_).subspan(static_cast<std::size_t>(used)));
  extents_.resize(static_cast<std::size_t>(used));
}

const std::byte* Strand::Read(std::int64_t offset, std::int64_t bytes, std::byte* scratch) const {
  if (bytes == 0) return scratch;
  if (bytes <= RestOfExtent(offset)) return At(offset);
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t part = std::min(bytes - done, RestOfExtent(offset + done));
    std::memcpy(scratch + done, At(offset + done), static_cast<std::size_t>(part));
    done += part;
  }
  return scratch;
}

}  // namespace tidepool::pipeline
