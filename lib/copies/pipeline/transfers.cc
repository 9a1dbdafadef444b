// SPDX-License-Identifier: Apache-2.0
// Stored buffers as sums over strands and pieces, and the ends of transfers as callers see them.
#include "lib/copies/pipeline/transfers.h"

#include "absl/status/statusor.h"

namespace tidepool::pipeline {

std::int64_t Stored::compressed_bytes() const {
  std::int64_t bytes = 0;
  for (const Strand& strand : strands_) bytes += strand.size();
  return bytes;
}

std::int64_t Stored::held_bytes() const {
  std::int64_t bytes = 0;
  for (const Strand& strand : strands_) bytes += strand.held_bytes();
  return bytes;
}

std::int64_t Stored::nonzero_words() const {
  std::int64_t words = 0;
  for (const PiecePosition& position : positions_) words += position.nonzero_words;
  return words;
}

std::int32_t Stored::TakeStrand() {
  if (idle_strands_.empty()) {
    strands_.emplace_back(source_);
    return static_cast<std::int32_t>(strands_.size()) - 1;
  }
  const std::int32_t strand = idle_strands_.back();
  idle_strands_.pop_back();
  return strand;
}

void Stored::Trim() {
  for (Strand& strand : strands_) strand.Trim();
}

void EndedTransfers::Add(const std::shared_ptr<OutTransfer>& transfer) {
  if (transfer->status.ok()) {
    ++stats_.offloads;
    stats_.offloaded_bytes += transfer->stored->input_bytes();
    stats_.compressed_bytes += transfer->stored->compressed_bytes();
  } else {
    ++stats_.failures;
  }
  functions_.push_back([transfer] {
    const CompressionPipeline::OffloadDone done = std::move(transfer->done);
    if (!transfer->status.ok()) {
      // Frees the memory before the call: the caller may need it next.
      transfer->stored.reset();
      return done(transfer->status);
    }
    transfer->stored->Trim();
    done(std::shared_ptr<const StoredBuffer>(std::move(transfer->stored)));
  });
}

void EndedTransfers::Add(const std::shared_ptr<InTransfer>& transfer) {
  if (transfer->status.ok()) {
    ++stats_.prefetches;
    stats_.prefetched_bytes += transfer->stored->input_bytes();
  } else {
    ++stats_.failures;
  }
  functions_.push_back([transfer] {
    const CompressionPipeline::PrefetchDone done = std::move(transfer->done);
    transfer->stored.reset();
    done(transfer->status);
  });
}

}  // namespace tidepool::pipeline
