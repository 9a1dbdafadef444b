// Each step can fail, and leaves the pieces as the device has them.
#include "lib/pool/backing.h"

#include <algorithm>
#include <cstdio>

namespace tidepool::pool {

Backing::~Backing() {
  absl::Status first_error;
  const auto try_twice = [&](auto call) {
    if (call().ok()) return true;
    const absl::Status status = call();
    first_error.Update(status);
    return status.ok();
  };
  bool all_unmapped = true;
  for (const Piece& piece : pieces_) {
    if (try_twice([&] { return device_.Unmap(base_ + piece.begin); })) {
      unreleased_.push_back(piece);
    } else {
      all_unmapped = false;
    }
  }
  for (const Piece& piece : unreleased_) {
    try_twice([&] { return device_.ReleasePhysical(piece.memory); });
  }
  if (all_unmapped && base_ != nullptr) {
    try_twice([&] { return device_.ReleaseAddresses(base_, reserved_bytes_); });
  }
  if (!first_error.ok()) {
    std::fprintf(stderr, "tidepool: a pool cannot give its memory back: %s\n",
                 first_error.ToString().c_str());
  }
}

void Backing::Abandon() {
  pieces_.clear();
  unreleased_.clear();
  base_ = nullptr;
}

absl::Status Backing::Reserve(std::int64_t max_bytes) {
  reserved_bytes_ = Rounded(max_bytes);
  const absl::StatusOr<void*> base = device_.ReserveAddresses(reserved_bytes_);
  if (base.ok()) base_ = static_cast<char*>(*base);
  return base.status();
}

absl::Status Backing::GrowTo(std::int64_t wanted_end, std::int64_t piece_bytes) {
  if (absl::Status status = ReleaseAgain(); !status.ok()) return status;
  const std::int64_t old_end = end();
  const std::int64_t new_end = Rounded(wanted_end);
  while (end() < new_end) {
    const std::int64_t piece =
        std::min(Rounded(std::max<std::int64_t>(piece_bytes, 1)), new_end - end());
    if (absl::Status status = GrowByPiece(piece); !status.ok()) {
      ShrinkTo(old_end).IgnoreError();  // the first error is the one to report
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Backing::GrowByPiece(std::int64_t bytes) {
  const absl::StatusOr<PhysicalMemory> memory = device_.CreatePhysical(bytes);
  if (!memory.ok()) return memory.status();
  const Piece piece = {end(), end() + bytes, *memory};
  absl::Status status = device_.Map(base_ + piece.begin, piece.memory);
  if (status.ok()) {
    pieces_.push_back(piece);
  } else {
    Release(piece).IgnoreError();
  }
  return status;
}

std::int64_t Backing::EndAfterShrinkTo(std::int64_t offset) const {
  const auto behind = std::find_if(pieces_.begin(), pieces_.end(),
                                   [&](const Piece& piece) { return piece.begin >= offset; });
  return behind == pieces_.end() ? end() : behind->begin;
}

absl::Status Backing::ShrinkTo(std::int64_t offset) {
  if (absl::Status status = ReleaseAgain(); !status.ok()) return status;
  while (!pieces_.empty() && pieces_.back().begin >= offset) {
    const Piece last = pieces_.back();
    if (absl::Status status = device_.Unmap(base_ + last.begin); !status.ok()) return status;
    pieces_.pop_back();
    if (absl::Status status = Release(last); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Backing::Release(const Piece& piece) {
  absl::Status status = device_.ReleasePhysical(piece.memory);
  if (!status.ok()) unreleased_.push_back(piece);
  return status;
}

absl::Status Backing::ReleaseAgain() {
  while (!unreleased_.empty()) {
    absl::Status status = device_.ReleasePhysical(unreleased_.back().memory);
    if (!status.ok()) return status;
    unreleased_.pop_back();
  }
  return absl::OkStatus();
}

std::int64_t Backing::held_bytes() const {
  std::int64_t bytes = end();
  for (const Piece& piece : unreleased_) bytes += piece.end - piece.begin;
  return bytes;
}

std::int64_t Backing::Rounded(std::int64_t bytes) const {
  return (bytes + device_.granularity() - 1) & -device_.granularity();
}

}  // namespace tidepool::pool
