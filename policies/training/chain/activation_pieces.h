// SPDX-License-Identifier: Apache-2.0
// ActivationPieces: an activation, cut wherever a step of a schedule begins or ends to move it.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_ACTIVATION_PIECES_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_ACTIVATION_PIECES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidepool::chain_policies {

// The bytes between two cuts, and their places.
struct ActivationPiece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool has_memory = false;  // on the device
  bool is_ready = false;    // the contents on the device are complete
  bool is_on_host = false;
  bool is_leaving = false;  // was copied to the host, and leaves when F_i has run
};

// Some pieces that lie one after the other.
struct PieceRange {
  std::size_t first = 0;
  std::size_t last = 0;  // not included

  bool empty() const { return first == last; }
};

class ActivationPieces {
 public:
  // `cuts` lie in (0, bytes), in any order; the first `output` bytes are the output. There is a
  // piece of the output even if it has no bytes.
  ActivationPieces(std::int64_t bytes, std::int64_t output, std::vector<std::int64_t> cuts) {
    cuts.push_back(output);
    cuts.push_back(bytes);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::int64_t begin = 0;
    for (const std::int64_t cut : cuts) {
      pieces_.push_back({.begin = begin, .end = cut});
      begin = cut;
      if (cut <= output) output_ = pieces_.size();
    }
  }

  PieceRange all() const { return {0, pieces_.size()}; }
  PieceRange output() const { return {0, output_}; }
  // Returns the pieces of the bytes [begin, end), at which there are cuts.
  PieceRange Of(std::int64_t begin, std::int64_t end) const {
    PieceRange range;
    while (range.first < pieces_.size() && pieces_[range.first].begin < begin) ++range.first;
    range.last = range.first;
    while (range.last < pieces_.size() && pieces_[range.last].end <= end) ++range.last;
    return range;
  }
  // Returns the first pieces that have a property, up to one that has not.
  PieceRange While(bool ActivationPiece::*property) const {
    std::size_t last = 0;
    while (last < pieces_.size() && pieces_[last].*property) ++last;
    return {0, last};
  }

  bool HaveAll(const PieceRange& range, bool ActivationPiece::*property) const {
    return std::all_of(begin_of(range), end_of(range),
                       [&](const ActivationPiece& piece) { return piece.*property; });
  }
  bool HasAny(bool ActivationPiece::*property) const {
    return std::any_of(pieces_.begin(), pieces_.end(),
                       [&](const ActivationPiece& piece) { return piece.*property; });
  }
  std::int64_t BytesOf(const PieceRange& range) const {
    return range.empty() ? 0 : pieces_[range.last - 1].end - pieces_[range.first].begin;
  }
  void Set(const PieceRange& range, bool ActivationPiece::*property, bool value) {
    for (std::size_t k = range.first; k < range.last; ++k) pieces_[k].*property = value;
  }

  // Takes the memory that the pieces do not have, and returns its bytes. If there are any, the
  // contents of all these pieces are no longer complete.
  std::int64_t Take(const PieceRange& range) {
    if (HaveAll(range, &ActivationPiece::has_memory)) return 0;
    std::int64_t taken = 0;
    for (std::size_t k = range.first; k < range.last; ++k) {
      if (!pieces_[k].has_memory) taken += pieces_[k].end - pieces_[k].begin;
      pieces_[k].has_memory = true;
      pieces_[k].is_ready = false;
    }
    return taken;
  }
  // Gives the memory of those pieces back that have `property`, and returns its bytes.
  std::int64_t GiveBack(const PieceRange& range,
                        bool ActivationPiece::*property = &ActivationPiece::has_memory) {
    std::int64_t given = 0;
    for (std::size_t k = range.first; k < range.last; ++k) {
      if (!(pieces_[k].*property)) continue;
      if (pieces_[k].has_memory) given += pieces_[k].end - pieces_[k].begin;
      pieces_[k].has_memory = pieces_[k].is_ready = pieces_[k].is_leaving = false;
    }
    return given;
  }

 private:
  using Iterator = std::vector<ActivationPiece>::const_iterator;

  Iterator begin_of(const PieceRange& range) const {
    return pieces_.begin() + static_cast<std::ptrdiff_t>(range.first);
  }
  Iterator end_of(const PieceRange& range) const {
    return pieces_.begin() + static_cast<std::ptrdiff_t>(range.last);
  }

  std::vector<ActivationPiece> pieces_;
  std::size_t output_ = 0;  // pieces of the output
};

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_ACTIVATION_PIECES_H_
