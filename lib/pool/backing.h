// The memory behind a pool: one range of addresses, reserved once, with physical memory mapped to
// its beginning in pieces. It grows and shrinks at its end, so new memory is always a neighbour of
// old.
#ifndef TIDEPOOL_LIB_POOL_BACKING_H_
#define TIDEPOOL_LIB_POOL_BACKING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"

namespace tidepool::pool {

// Not thread-safe.
class Backing {
 public:
  explicit Backing(Device& device) : device_(device) {}
  // Gives back all memory; nothing may use it any more. What the device does not take back, not
  // even when it is asked twice, is reported on stderr.
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // Reserves addresses for up to `max_bytes`. Once, first.
  absl::Status Reserve(std::int64_t max_bytes);
  // Maps memory up to `end` at least, in pieces of about `piece_bytes`. After an error it ends
  // where it did, unless the device would not take pieces back: see `end`.
  absl::Status GrowTo(std::int64_t end, std::int64_t piece_bytes);
  // The end after unmapping every piece that lies behind `offset`.
  std::int64_t EndAfterShrinkTo(std::int64_t offset) const;
  // Unmaps every piece that lies behind `offset`. After an error some may be left: see `end`.
  absl::Status ShrinkTo(std::int64_t offset);

  // Leaves everything to the device for ever: something may still use it.
  void Abandon();

  char* base() const { return base_; }
  // Of what is mapped, as an offset.
  std::int64_t end() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  // Of the device's memory, mapped or not.
  std::int64_t held_bytes() const;

 private:
  struct Piece {
    std::int64_t begin;
    std::int64_t end;
    PhysicalMemory memory;
  };

  absl::Status GrowByPiece(std::int64_t bytes);
  absl::Status Release(const Piece& piece);
  absl::Status ReleaseAgain();
  std::int64_t Rounded(std::int64_t bytes) const;

  Device& device_;
  char* base_ = nullptr;
  std::int64_t reserved_bytes_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Piece> unreleased_;  // mapped nowhere, but the device would not take them back
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_BACKING_H_
