// SPDX-License-Identifier: Apache-2.0
// The records of the pipeline: stored buffers, transfers in flight, and transfers that have ended.
#ifndef TIDEPOOL_LIB_COPIES_PIPELINE_TRANSFERS_H_
#define TIDEPOOL_LIB_COPIES_PIPELINE_TRANSFERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/copies/pipeline/compressed_space.h"
#include "lib/copies/pipeline/piece_codec.h"
#include "lib/copies/pipeline/transfers.h"
#include "lib/memory/device/owned.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/device.h"

namespace tidepool::pipeline {

// A stored buffer. All pieces have `piece_bytes`, except that the last may be shorter.
class Stored final : public StoredBuffer {
 public:
  Stored(ChunkSource source, std::int64_t bytes, std::int64_t piece_bytes,
         const PieceCoding& coding)
      : source_(std::move(source)),
        bytes_(bytes),
        piece_bytes_(piece_bytes),
        pieces_(CeilDivide(bytes, piece_bytes)),
        coding_(coding) {}

  std::int64_t input_bytes() const override { return bytes_; }
  std::int64_t compressed_bytes() const override;
  std::int64_t held_bytes() const override;
  std::int64_t nonzero_words() const override;
  ZeroValueWord word() const override { return coding_.word; }

  const PieceCoding& coding() const { return coding_; }
  std::int64_t pieces() const { return pieces_; }
  std::int64_t largest_piece_bytes() const { return std::min(bytes_, piece_bytes_); }
  std::int64_t PieceBegin(std::int64_t piece) const { return piece * piece_bytes_; }
  std::int64_t PieceBytes(std::int64_t piece) const {
    return std::min(piece_bytes_, bytes_ - PieceBegin(piece));
  }

  // Returns the number of a strand to which no other thread appends, until ReturnStrand.
  std::int32_t TakeStrand();
  void ReturnStrand(std::int32_t strand) { idle_strands_.push_back(strand); }
  Strand& strand(std::int32_t number) { return strands_[static_cast<std::size_t>(number)]; }
  const Strand& strand(std::int32_t number) const {
    return strands_[static_cast<std::size_t>(number)];
  }
  // Returns the position of a piece that has arrived, to be set. Addresses of other positions stay.
  PiecePosition& NewPosition(std::int64_t piece) {
    const auto index = static_cast<std::size_t>(piece);
    if (index >= positions_.size()) positions_.resize(index + 1);
    return positions_[index];
  }
  const PiecePosition& position(std::int64_t piece) const {
    return positions_[static_cast<std::size_t>(piece)];
  }
  // Gives unused memory back, after all pieces have arrived.
  void Trim();

 private:
  const ChunkSource source_;
  const std::int64_t bytes_;
  const std::int64_t piece_bytes_;
  const std::int64_t pieces_;
  const PieceCoding coding_;
  // Grows with the pieces: reserving it for a claimed size could exhaust the memory.
  std::deque<PiecePosition> positions_;
  std::deque<Strand> strands_;  // addresses stay
  std::vector<std::int32_t> idle_strands_;
};

// A transfer of either direction. The pipeline's mutex guards it.
struct Transfer {
  std::byte* device_memory = nullptr;
  device::OwnedEvent gate;  // until copies have been made to wait for it
  std::int64_t pieces = 0;  // to begin in all: fewer after an error
  std::int64_t begun = 0;
  std::int64_t finished_pieces = 0;
  absl::Status status;  // the first error

  bool HasMore() const { return begun < pieces; }
  bool HasEnded() const { return finished_pieces == pieces; }
  // Keeps the first error, and begins no further piece.
  void Fail(const absl::Status& error) {
    if (status.ok()) status = error;
    pieces = begun;
  }
};

struct OutTransfer : Transfer {
  std::unique_ptr<Stored> stored;
  CompressionPipeline::OffloadDone done;
};

struct InTransfer : Transfer {
  std::shared_ptr<const Stored> stored;
  CompressionPipeline::PrefetchDone done;
};

// The statistics of transfers that have ended, and the callers' functions that are still to be run.
// The pipeline's mutex guards it.
class EndedTransfers {
 public:
  // Counts the transfer and keeps its function.
  void Add(const std::shared_ptr<OutTransfer>& transfer);
  void Add(const std::shared_ptr<InTransfer>& transfer);

  bool empty() const { return functions_.empty(); }
  // Returns the functions in the order in which the transfers ended. Each is run once, without
  // locks.
  std::vector<std::function<void()>> TakeAll() { return std::exchange(functions_, {}); }

  // Offloads, prefetches, failures and bytes.
  const CompressionPipelineStats& stats() const { return stats_; }

 private:
  std::vector<std::function<void()>> functions_;
  CompressionPipelineStats stats_;
};

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_COPIES_PIPELINE_TRANSFERS_H_
