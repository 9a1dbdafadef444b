// SPDX-License-Identifier: Apache-2.0
// One direction of the pipeline: its transfers in the order of the calls, and their pieces in
// slots.
#ifndef TIDEPOOL_LIB_COPIES_PIPELINE_DIRECTION_H_
#define TIDEPOOL_LIB_COPIES_PIPELINE_DIRECTION_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "lib/copies/pipeline/copy_lane.h"
#include "lib/copies/pipeline/transfers.h"
#include "tidepool/device.h"
#include "tidepool/staging_ring.h"

namespace tidepool::pipeline {

// A piece of a transfer in a slot.
template <typename TransferType>
struct Piece {
  std::shared_ptr<TransferType> transfer;
  std::int64_t number = 0;
  StagingSlot slot;
  bool is_filled = false;   // to the device: decompressed, so its copy may be queued
  bool is_copying = false;  // a copy was queued, and must be waited for
};
using OutPiece = Piece<OutTransfer>;
using InPiece = Piece<InTransfer>;

// The pipeline's mutex guards it. Pieces are copied in the order in which they began.
template <typename TransferType>
class Direction {
 public:
  // The lane and `ended`, which gets transfers at their end, outlive the direction.
  explicit Direction(EndedTransfers& ended) : ended_(ended) {}
  void SetLane(CopyLane* lane) { lane_ = lane; }
  CopyLane& lane() const { return *lane_; }

  void Add(std::shared_ptr<TransferType> transfer) { queue_.push_back(std::move(transfer)); }
  // Whether a transfer has a piece to begin, and the next slot is free. Call DropBegun first.
  bool CanBegin() const { return !queue_.empty() && lane_->EnsureSlot(); }
  // Begins the next piece of the first transfer.
  Piece<TransferType> Begin() {
    const std::shared_ptr<TransferType> transfer = queue_.front();
    return {transfer, transfer->begun++, lane_->TakeSlot()};
  }
  // Drops transfers at the front of the queue that have no piece to begin. A transfer with pieces
  // in flight ends with the last of them.
  void DropBegun() {
    while (!queue_.empty() && !queue_.front()->HasMore()) {
      const std::shared_ptr<TransferType> transfer = std::move(queue_.front());
      queue_.pop_front();
      if (transfer->HasEnded()) End(transfer);
    }
  }
  // Lets the transfer begin no further piece.
  void Fail(TransferType& transfer, const absl::Status& error) {
    transfer.Fail(error);
    DropBegun();
  }

  // Queues the copy of a piece, after the transfer's gate. An error means that no copy needs the
  // slot, unless piece.is_copying is set.
  absl::Status QueueCopy(Piece<TransferType>& piece) {
    TransferType& transfer = *piece.transfer;
    if (!transfer.gate.is_empty()) {
      absl::Status status = lane_->WaitFor(transfer.gate.get());
      transfer.gate = {};
      if (!status.ok()) return status;
    }
    std::byte* const device_memory =
        transfer.device_memory + transfer.stored->PieceBegin(piece.number);
    return lane_->Copy(piece.slot, device_memory, transfer.stored->PieceBytes(piece.number),
                       piece.is_copying);
  }

  // Pieces with a copy that was queued, or could not be, the oldest first. At most one thread waits
  // for the oldest; meanwhile no other thread takes it.
  void AddQueued(Piece<TransferType> piece) { queued_.push_back(std::move(piece)); }
  bool NeedsWaiter() const { return !is_waited_for_ && !queued_.empty(); }
  const Piece<TransferType>& oldest() const { return queued_.front(); }
  // Whether the copy of the oldest piece has finished, as far as known without waiting.
  bool HasCopied() const {
    return NeedsWaiter() && (!oldest().is_copying || lane_->HasFinished(oldest().slot));
  }
  void SetWaitedFor(bool is_waited_for) { is_waited_for_ = is_waited_for; }
  Piece<TransferType> TakeOldest() {
    Piece<TransferType> piece = std::move(queued_.front());
    queued_.pop_front();
    return piece;
  }

  // Frees the slot of the piece. May end the transfer.
  void ReleasePiece(const Piece<TransferType>& piece) {
    lane_->ReleaseSlot(piece.slot);
    TransferType& transfer = *piece.transfer;
    ++transfer.finished_pieces;
    const bool is_queued = !queue_.empty() && queue_.front() == piece.transfer;
    if (transfer.HasEnded() && !is_queued) End(piece.transfer);
    DropBegun();
  }

 private:
  void End(const std::shared_ptr<TransferType>& transfer) {
    transfer->gate = {};
    ended_.Add(transfer);
  }

  EndedTransfers& ended_;
  CopyLane* lane_ = nullptr;
  std::deque<std::shared_ptr<TransferType>> queue_;  // with pieces to begin
  std::deque<Piece<TransferType>> queued_;
  bool is_waited_for_ = false;
};

}  // namespace tidepool::pipeline

#endif  // TIDEPOOL_LIB_COPIES_PIPELINE_DIRECTION_H_
