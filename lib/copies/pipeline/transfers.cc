// SPDX-License-Identifier: Apache-2.0
// Stored buffers: sums over strands and pieces.
#include "lib/copies/pipeline/transfers.h"

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

}  // namespace tidepool::pipeline
