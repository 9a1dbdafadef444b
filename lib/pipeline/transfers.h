// What the pipeline knows of buffers that are stored or on their way.
#ifndef TIDEPOOL_LIB_PIPELINE_TRANSFERS_H_
#define TIDEPOOL_LIB_PIPELINE_TRANSFERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/pipeline/compressed_space.h"
#include "lib/pipeline/piece_codec.h"
#include "tidepool/compress/compression_pipeline.h"
#include "tidepool/device.h"

namespace tidepool::pipeline {

// Pieces are all of `piece_bytes`, but the last may be shorter.
class Stored final : public StoredBuffer {
 public:
  Stored(ChunkSource source, std::int64_t bytes, std::int64_t piece_bytes,
         const PieceCoding& coding)
      : source_(std::move(source)),
        bytes_(bytes),
        piece_bytes_(piece_bytes),
        pieces_((bytes + piece_bytes - 1) / piece_bytes),
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

  // A strand to which nobody else appends; it goes back to the others with ReturnStrand.
  std::int32_t TakeStrand();
  void ReturnStrand(std::int32_t strand) { idle_strands_.push_back(strand); }
  Strand& strand(std::int32_t number) { return strands_[static_cast<std::size_t>(number)]; }
  const Strand& strand(std::int32_t number) const {
    return strands_[static_cast<std::size_t>(number)];
  }
  // Of a piece that has come. Places of others stay where they are.
  PiecePlace& NewPlace(std::int64_t piece) {
    const auto index = static_cast<std::size_t>(piece);
    if (index >= places_.size()) places_.resize(index + 1);
    return places_[index];
  }
  const PiecePlace& place(std::int64_t piece) const {
    return places_[static_cast<std::size_t>(piece)];
  }
  // When all pieces are there.
  void Trim();

 private:
  const ChunkSource source_;
  const std::int64_t bytes_;
  const std::int64_t piece_bytes_;
  const std::int64_t pieces_;
  const PieceCoding coding_;
  // They come with the pieces: of a size that somebody just says there may be no memory for all.
  std::deque<PiecePlace> places_;
  std::deque<Strand> strands_;  // where they are they stay
  std::vector<std::int32_t> idle_strands_;
};

// One direction's share of a transfer, guarded by the pipeline's mutex.
struct Transfer {
  std::byte* device_memory = nullptr;
  std::optional<Event> gate;  // until copies were told to wait for it
  std::int64_t pieces = 0;    // that are wanted: fewer after an error
  std::int64_t begun = 0;     // of them
  std::int64_t finished = 0;  // of those
  absl::Status status;        // the first error

  bool HasMore() const { return begun < pieces; }
  bool IsOver() const { return finished == pieces; }
  // Begins no piece more.
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

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_PIPELINE_TRANSFERS_H_
