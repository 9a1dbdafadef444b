// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/paged_memory.h"

#include <algorithm>

namespace tidepool::execute {

PagedMemory::~PagedMemory() {
  for (const Place& place : places_) {
    if (place.mapped.id != 0) device_.Unmap(place.address).IgnoreError();
  }
  for (const PhysicalMemory memory : memory_) {
    if (memory.id != 0) device_.ReleasePhysical(memory).IgnoreError();
  }
  if (addresses_ != nullptr) device_.ReleaseAddresses(addresses_, address_bytes_).IgnoreError();
}

absl::Status PagedMemory::Take(const Program& program, std::size_t number, std::int64_t granule) {
  address_bytes_ = program.address_bytes[number];
  if (address_bytes_ == 0) return absl::OkStatus();
  const absl::StatusOr<void*> addresses = device_.ReserveAddresses(address_bytes_);
  if (!addresses.ok()) return addresses.status();
  addresses_ = static_cast<std::byte*>(*addresses);
  CutPieces(program, number, granule);
  AddPlaces(program, number);
  AddMoves(program, number, granule);
  if (absl::Status status = Create(); !status.ok()) return status;
  return Map();
}

// A mapping is of whole pieces, and so is a move. Moves exchange pieces, so those have one page
// each.
void PagedMemory::CutPieces(const Program& program, std::size_t number, std::int64_t granule) {
  std::vector<std::int64_t> cuts;
  for (const ProgramMapping& mapping : program.mappings) {
    if (mapping.device != number) continue;
    cuts.insert(cuts.end(), {mapping.position, mapping.position + mapping.bytes});
  }
  for (const ProgramMove& move : program.moves) {
    if (move.device != number) continue;
    for (std::int64_t at = 0; at <= move.bytes; at += granule) {
      cuts.insert(cuts.end(), {move.from + at, move.to + at});
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    pieces_.push_back({.begin = cuts[i - 1], .end = cuts[i], .next = i - 1});
  }
}

std::size_t PagedMemory::PieceAt(std::int64_t position) const {
  const auto at =
      std::lower_bound(pieces_.begin(), pieces_.end(), position,
                       [](const Piece& piece, std::int64_t begin) { return piece.begin < begin; });
  return static_cast<std::size_t>(at - pieces_.begin());
}

void PagedMemory::AddPlaces(const Program& program, std::size_t number) {
  for (const ProgramMapping& mapping : program.mappings) {
    if (mapping.device != number) continue;
    std::byte* address = addresses_ + mapping.offset;
    const std::int64_t end = mapping.position + mapping.bytes;
    for (std::size_t i = PieceAt(mapping.position); i < pieces_.size() && pieces_[i].end <= end;
         ++i) {
      places_.push_back({.address = address, .piece = i});
      pieces_[i].is_used = true;
      address += pieces_[i].end - pieces_[i].begin;
    }
  }
}

// Data at home takes its pages along. Their places get the pages that nothing moves to.
void PagedMemory::AddMoves(const Program& program, std::size_t number, std::int64_t granule) {
  std::vector<bool> moves_away(pieces_.size());
  std::vector<std::size_t> filled;
  for (const ProgramMove& move : program.moves) {
    if (move.device != number) continue;
    for (std::int64_t at = 0; at < move.bytes; at += granule) {
      const std::size_t from = PieceAt(move.from + at);
      filled.push_back(PieceAt(move.to + at));
      pieces_[filled.back()].next = from;
      moves_away[from] = true;
    }
  }
  has_moves_ = !filled.empty();
  std::vector<bool> is_filled(pieces_.size());
  for (const std::size_t piece : filled) is_filled[piece] = true;
  auto left = filled.begin();
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (!moves_away[i] || is_filled[i]) continue;
    while (moves_away[*left]) ++left;
    pieces_[i].next = *left++;
  }
}

absl::Status PagedMemory::Create() {
  memory_.resize(pieces_.size());
  moved_.resize(pieces_.size());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (!pieces_[i].is_used) continue;
    const std::int64_t bytes = pieces_[i].end - pieces_[i].begin;
    const absl::StatusOr<PhysicalMemory> memory = device_.CreatePhysical(bytes);
    if (!memory.ok()) return memory.status();
    memory_[i] = *memory;
    held_bytes_ += bytes;
  }
  return absl::OkStatus();
}

void PagedMemory::MoveHomes() {
  if (!has_moves_) return;
  for (std::size_t i = 0; i < pieces_.size(); ++i) moved_[i] = memory_[pieces_[i].next];
  memory_.swap(moved_);
  is_mapped_ = false;
}

absl::Status PagedMemory::Map() {
  if (is_mapped_) return absl::OkStatus();
  for (Place& place : places_) {
    if (absl::Status status = Map(place); !status.ok()) return status;
  }
  is_mapped_ = true;
  return absl::OkStatus();
}

absl::Status PagedMemory::Map(Place& place) {
  const PhysicalMemory memory = memory_[place.piece];
  if (place.mapped == memory) return absl::OkStatus();
  absl::Status status;
  if (place.mapped.id != 0) status = device_.Unmap(place.address);
  if (!status.ok()) return status;
  place.mapped = {};
  status = device_.Map(place.address, memory);
  if (status.ok()) place.mapped = memory;
  return status;
}

}  // namespace tidepool::execute
