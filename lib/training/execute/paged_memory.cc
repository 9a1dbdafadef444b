// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/paged_memory.h"

#include <algorithm>
#include <iterator>

#include "absl/container/btree_set.h"

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

absl::Status PagedMemory::Take(const Program& program, std::size_t number) {
  address_bytes_ = program.address_bytes[number];
  if (address_bytes_ == 0) return absl::OkStatus();
  const absl::StatusOr<void*> addresses = device_.ReserveAddresses(address_bytes_);
  if (!addresses.ok()) return addresses.status();
  addresses_ = static_cast<std::byte*>(*addresses);
  CutPieces(program, number);
  AddPlaces(program, number);
  AddMoves(program, number);
  if (absl::Status status = Create(); !status.ok()) return status;
  return Map();
}

// A mapping is of whole pieces, and a move takes whole pieces to whole pieces, so a cut where pages
// move to is one where they come from. Moves lead around in circles: so the reverse follows.
void PagedMemory::CutPieces(const Program& program, std::size_t number) {
  absl::btree_set<std::int64_t> cuts;
  std::vector<std::int64_t> added;
  const auto cut = [&](std::int64_t position) {
    if (cuts.insert(position).second) added.push_back(position);
  };
  for (const ProgramMapping& mapping : program.mappings) {
    if (mapping.device != number) continue;
    cut(mapping.position);
    cut(mapping.position + mapping.bytes);
  }
  for (const ProgramMove& move : program.moves) {
    if (move.device != number) continue;
    for (const std::int64_t side : {move.from, move.to}) {
      cut(side);
      cut(side + move.bytes);
    }
  }
  while (!added.empty()) {
    const std::int64_t position = added.back();
    added.pop_back();
    for (const ProgramMove& move : program.moves) {
      const bool is_within = move.to < position && position < move.to + move.bytes;
      if (is_within && move.device == number) cut(position - move.to + move.from);
    }
  }
  for (auto at = cuts.begin(); at != cuts.end() && std::next(at) != cuts.end(); ++at) {
    pieces_.push_back({.begin = *at, .end = *std::next(at), .next = pieces_.size()});
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

void PagedMemory::AddMoves(const Program& program, std::size_t number) {
  for (const ProgramMove& move : program.moves) {
    if (move.device != number) continue;
    has_moves_ = true;
    const std::int64_t end = move.to + move.bytes;
    for (std::size_t i = PieceAt(move.to); i < pieces_.size() && pieces_[i].end <= end; ++i) {
      pieces_[i].next = PieceAt(pieces_[i].begin - move.to + move.from);
    }
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
