// SPDX-License-Identifier: Apache-2.0
// Each step can fail, and leaves the books as the device has them: addresses that the device would
// not unmap are set aside, unusable, and tried again later.
#include "lib/memory/pool/backing.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/cleanup/cleanup.h"
#include "lib/memory/pool/live_report.h"

namespace tidepool::pool {

Backing::~Backing() {
  if (is_lent_) {
    for (const std::int64_t begin : TakeBackOwn()) pieces_.erase(begin);  // others have the memory
  }
  absl::Status first_error;
  const auto try_twice = [&](auto call) {
    if (call().ok()) return true;
    const absl::Status status = call();
    first_error.Update(status);
    return status.ok();
  };
  bool all_unmapped = true;
  for (const Pieces* mapped : {&pieces_, &aliases_, &stuck_}) {
    for (const auto& [begin, piece] : *mapped) {
      if (!try_twice([&, from = begin] { return device_.Unmap(base_ + from); })) {
        all_unmapped = false;
      } else if (piece.memory.id != 0) {
        unreleased_.push_back({{begin, piece.end}, piece.memory});
      }
    }
  }
  for (const auto& [range, memory] : unreleased_) {
    try_twice([&, released = memory, bytes = range.bytes()] {
      return store_.Release(taker_, released, bytes);
    });
  }
  store_.Leave(taker_);
  if (all_unmapped && base_ != nullptr) {
    try_twice([&] { return device_.ReleaseAddresses(base_, reserved_bytes_); });
  }
  if (!first_error.ok()) ReportKeptMemory(first_error, kPoolWords);
}

void Backing::Abandon() {
  if (is_lent_) TakeBackOwn();
  is_lent_ = false;
  pieces_.clear();
  aliases_.clear();
  stuck_.clear();
  unreleased_.clear();
  base_ = nullptr;
}

absl::Status Backing::Reserve(std::int64_t bytes) {
  reserved_bytes_ = Rounded(bytes);
  const absl::StatusOr<void*> base = device_.ReserveAddresses(reserved_bytes_);
  if (base.ok()) base_ = static_cast<char*>(*base);
  return base.status();
}

absl::Status Backing::Map(absl::Span<const Range> ranges, std::int64_t piece_bytes) {
  std::int64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.bytes();
  if (absl::Status status = store_.BeginTaking({PhysicalStore::Taking{&taker_, bytes}});
      !status.ok())
    return status;
  const absl::Cleanup ends = [this] { store_.EndTaking(taker_); };
  const std::int64_t step = Rounded(std::max<std::int64_t>(piece_bytes, 1));
  std::vector<std::int64_t> mapped;
  for (const Range& range : ranges) {
    for (std::int64_t begin = range.begin; begin < range.end; begin += step) {
      absl::Status status = MapPiece({begin, std::min(begin + step, range.end)});
      if (!status.ok()) {
        for (const std::int64_t piece : mapped) Discard(piece);
        return status;
      }
      mapped.push_back(begin);
    }
  }
  return absl::OkStatus();
}

void Backing::Discard(std::int64_t begin) {
  if (Unmap(begin).ok() || !HasPiece(begin)) return;
  stuck_[begin] = pieces_.at(begin);
  pieces_.erase(begin);
}

absl::Status Backing::MapPiece(const Range& range) {
  const absl::StatusOr<PhysicalMemory> memory = store_.Create(taker_, range.bytes(), taker_);
  if (!memory.ok()) return memory.status();
  absl::Status status = device_.Map(base_ + range.begin, *memory);
  if (status.ok()) {
    pieces_[range.begin] = {range.end, *memory};
  } else {
    absl::Status ignored;
    Release(range, *memory, &ignored);
  }
  return status;
}

absl::Status Backing::Unmap(std::int64_t begin, Receiver receiver) {
  const auto found = pieces_.find(begin);
  const Piece piece = found->second;
  absl::Status status = device_.Unmap(base_ + begin);
  if (!status.ok()) return status;
  pieces_.erase(found);
  if (receiver == Receiver::kTakers) {
    store_.Lend(taker_, nullptr, piece.memory, piece.end - begin, nullptr);
  } else {
    Release({begin, piece.end}, piece.memory, &status);
  }
  return status;
}

void Backing::Release(const Range& range, PhysicalMemory memory, absl::Status* status) {
  *status = store_.Release(taker_, memory, range.bytes());
  if (!status->ok()) unreleased_.push_back({range, memory});
}

absl::Status Backing::Move(std::int64_t from, std::int64_t to) {
  const Piece piece = pieces_.at(from);
  if (absl::Status status = device_.Map(base_ + to, piece.memory); !status.ok()) return status;
  pieces_.erase(from);
  pieces_[to] = {to + piece.end - from, piece.memory};
  aliases_[from] = {piece.end, {}};
  return absl::OkStatus();
}

void Backing::UndoMove(std::int64_t from, std::int64_t to) {
  const Piece piece = pieces_.at(to);
  if (!device_.Unmap(base_ + to).ok()) stuck_[to] = {piece.end, {}};
  pieces_.erase(to);
  pieces_[from] = {from + piece.end - to, piece.memory};
  aliases_.erase(from);
}

absl::Status Backing::DropAlias(std::int64_t from) {
  absl::Status status = device_.Unmap(base_ + from);
  if (status.ok()) aliases_.erase(from);
  return status;
}

absl::Status Backing::Retry() {
  while (!stuck_.empty()) {
    const auto [begin, piece] = *stuck_.begin();
    if (absl::Status status = device_.Unmap(base_ + begin); !status.ok()) return status;
    if (piece.memory.id != 0) unreleased_.push_back({{begin, piece.end}, piece.memory});
    stuck_.erase(stuck_.begin());
  }
  while (!unreleased_.empty()) {
    const auto [range, memory] = unreleased_.back();
    if (absl::Status status = store_.Release(taker_, memory, range.bytes()); !status.ok()) {
      return status;
    }
    unreleased_.pop_back();
  }
  return absl::OkStatus();
}

void Backing::Lend(std::shared_ptr<QueuedWork> work) {
  lent_after_ = std::move(work);
  LendOwn();
}

void Backing::LendOwn() {
  is_lent_ = true;
  store_.SetAsleep(taker_);
  for (const auto& [begin, piece] : pieces_) {
    if (std::ranges::binary_search(missing_, begin)) continue;
    store_.Lend(taker_, base_ + begin, piece.memory, piece.end - begin, lent_after_);
  }
}

std::vector<std::int64_t> Backing::TakeBackOwn() {
  std::vector<std::int64_t> missing;
  for (const auto& [begin, piece] : pieces_) {
    if (!store_.TakeBack(taker_, piece.memory, base_ + begin)) missing.push_back(begin);
  }
  return missing;
}

std::vector<Backing::Range> Backing::GonePieces() const {
  std::vector<Range> gone;
  for (const auto& [begin, piece] : pieces_) {
    if (!store_.IsLent(piece.memory, base_ + begin)) gone.push_back({begin, piece.end});
  }
  return gone;
}

PhysicalStore::Taking Backing::BeginTakingBack() {
  missing_ = TakeBackOwn();
  std::int64_t missing_bytes = 0;
  for (const std::int64_t begin : missing_) missing_bytes += pieces_.at(begin).end - begin;
  return {&taker_, missing_bytes, taker_.least_bytes() - taker_.held_bytes()};
}

absl::Status Backing::TakeOther(Taker& payer) {
  for (const std::int64_t begin : missing_) {
    const absl::StatusOr<PhysicalMemory> memory =
        store_.Create(taker_, pieces_.at(begin).end - begin, payer);
    if (!memory.ok()) return memory.status();
    taken_.push_back(*memory);
  }
  return absl::OkStatus();
}

absl::Status Backing::MapOther() {
  absl::Status status;
  std::size_t mapped = 0;
  for (; mapped < missing_.size(); ++mapped) {
    status = device_.Map(base_ + missing_[mapped], taken_[mapped]);
    if (!status.ok()) break;
    Piece& piece = pieces_.at(missing_[mapped]);
    piece.memory = taken_[mapped];
    piece.is_lost = true;
  }
  const auto count = static_cast<std::ptrdiff_t>(mapped);
  missing_.erase(missing_.begin(), missing_.begin() + count);
  taken_.erase(taken_.begin(), taken_.begin() + count);
  return status;
}

void Backing::EndTakingBack() {
  is_lent_ = false;
  lent_after_ = nullptr;
  NotePeak();
}

void Backing::LendAgain() {
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    const std::int64_t bytes = pieces_.at(missing_[i]).end - missing_[i];
    store_.Lend(taker_, nullptr, taken_[i], bytes, nullptr);
  }
  LendOwn();
  taken_.clear();
  missing_.clear();
}

std::vector<Backing::Range> Backing::LostPieces() const {
  std::vector<Range> lost;
  for (const auto& [begin, piece] : pieces_) {
    if (piece.is_lost) lost.push_back({begin, piece.end});
  }
  return lost;
}

void Backing::ForgetLost() {
  for (auto& [begin, piece] : pieces_) piece.is_lost = false;
}

std::vector<Backing::Range> Backing::PiecesIn(const Range& range) const {
  std::vector<Range> ranges;
  for (auto it = pieces_.lower_bound(range.begin); it != pieces_.end(); ++it) {
    if (it->second.end > range.end) break;
    ranges.push_back({it->first, it->second.end});
  }
  return ranges;
}

std::int64_t Backing::PieceBytesIn(const Range& range) const {
  std::int64_t bytes = 0;
  auto it = pieces_.upper_bound(range.begin);
  if (it != pieces_.begin()) --it;
  for (; it != pieces_.end() && it->first < range.end; ++it) {
    bytes += std::max<std::int64_t>(
        0, std::min(it->second.end, range.end) - std::max(it->first, range.begin));
  }
  return bytes;
}

std::int64_t Backing::EndOfUnusable(const Range& range) const {
  for (const Pieces* unusable : {&aliases_, &stuck_}) {
    auto it = unusable->upper_bound(range.begin);
    if (it != unusable->begin() && std::prev(it)->second.end > range.begin) --it;
    if (it != unusable->end() && it->first < range.end) return it->second.end;
  }
  return -1;
}

}  // namespace tidepool::pool
