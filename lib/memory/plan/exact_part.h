// SPDX-License-Identifier: Apache-2.0
// A part of a problem in the exact search: the unplaced buffers of a row of sections, with the
// lowest offset that each can have above the placed buffers. Placing can be undone.
//
// The arrays have no gaps and are walked from end to end: a placed buffer changes places with the
// last unplaced one.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_EXACT_PART_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_EXACT_PART_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"

namespace tidepool::plan {

// The offsets that buffers may not take.
template <typename Offset>
struct ExactLimits {
  const std::vector<std::int64_t>* alignment = nullptr;  // by buffer; null where all are 1
  std::vector<Offset> cuts;                              // no buffer may cross one; ascending

  bool AreNone() const { return alignment == nullptr && cuts.empty(); }

  Offset Lift(Offset offset, std::int32_t buffer, Offset size) const {
    if (alignment != nullptr) {
      const auto step = static_cast<Offset>((*alignment)[buffer]);
      offset = RoundUp(offset, step);
    }
    auto cut = std::upper_bound(cuts.begin(), cuts.end(), offset);
    for (; cut != cuts.end() && *cut < offset + size; ++cut) offset = *cut;
    return offset;
  }
};

// `Offset` is int32_t where all heights fit, which is twice as fast, or int64_t.
template <typename Offset>
struct ExactPart {
  static constexpr Offset kNever = std::numeric_limits<Offset>::max() / 2;
  static constexpr std::int32_t kChunk = 16;

  // The state before a buffer was placed, for undoing it.
  struct Mark {
    std::int32_t slot = -1;
    std::size_t chunks = 0;
    bool meets_none = false;  // no unplaced buffer shares a section with it
  };

  // Unplaced buffers, by slot.
  std::int32_t count = 0;
  std::vector<Offset> lowest;
  std::vector<Offset> size;
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> end;
  std::vector<std::int32_t> rank;
  std::vector<std::int32_t> buffer;
  // Sections, counted from `first_section`.
  std::int32_t first_section = 0;
  std::vector<Offset> total;            // sum of the sizes of the unplaced
  std::vector<std::int32_t> crossings;  // unplaced buffers that continue into the next section
  // Saved chunks of `lowest`, for undoing.
  std::vector<std::int32_t> saved_chunk;
  std::vector<Offset> saved_lowest;

  std::int32_t sections() const { return static_cast<std::int32_t>(total.size()); }

  void Reset(std::int32_t buffers, std::int32_t section_count) {
    count = buffers;
    const std::int32_t slots = RoundUp(buffers, kChunk);
    lowest.assign(slots, 0);
    size.assign(slots, 0);
    for (auto* array : {&first, &end, &rank, &buffer}) array->assign(slots, 0);
    total.assign(section_count, 0);
    crossings.assign(section_count, 0);
    saved_chunk.clear();
    saved_lowest.clear();
  }

  // Computes the sums of the sections, once all buffers are in.
  void CountSections() {
    for (std::int32_t slot = 0; slot < count; ++slot) Count(slot, 1);
  }

  // Places the buffer in `slot` at its lowest offset. Returns whether the unplaced buffers may fall
  // into independent parts.
  bool Place(std::int32_t slot, const ExactLimits<Offset>& limits, Mark* mark) {
    mark->slot = slot;
    mark->chunks = saved_chunk.size();
    const std::int32_t from = first[slot];
    const std::int32_t to = end[slot];
    const Offset top = lowest[slot] + size[slot];
    Count(slot, -1);
    Exchange(slot, --count);
    mark->meets_none = !Raise(from, to, top, limits);
    bool splits = false;
    for (std::int32_t s = from; s + 1 < to; ++s) splits |= crossings[s] == 0;
    return splits;
  }

  void Undo(const Mark& mark) {
    for (; saved_chunk.size() > mark.chunks; saved_chunk.pop_back()) {
      std::copy(saved_lowest.end() - kChunk, saved_lowest.end(),
                lowest.begin() + saved_chunk.back() * kChunk);
      saved_lowest.resize(saved_lowest.size() - kChunk);
    }
    Exchange(mark.slot, count++);
    Count(mark.slot, 1);
  }

 private:
  void Count(std::int32_t slot, std::int32_t sign) {
    const Offset change = sign > 0 ? size[slot] : -size[slot];
    const std::int32_t to = end[slot];
    Offset* const totals = total.data();
    std::int32_t* const crossing = crossings.data();
    for (std::int32_t s = first[slot]; s < to; ++s) totals[s] += change;
    for (std::int32_t s = first[slot]; s + 1 < to; ++s) crossing[s] += sign;
  }

  void Exchange(std::int32_t a, std::int32_t b) {
    std::swap(lowest[a], lowest[b]);
    std::swap(size[a], size[b]);
    std::swap(first[a], first[b]);
    std::swap(end[a], end[b]);
    std::swap(rank[a], rank[b]);
    std::swap(buffer[a], buffer[b]);
  }

  // Raises the lowest offset of the buffers in [from, to) to `top`. Returns whether there is such a
  // buffer.
  bool Raise(std::int32_t from, std::int32_t to, Offset top, const ExactLimits<Offset>& limits) {
    unsigned meets = 0;
    std::int32_t begin = 0;
    for (; begin + kChunk <= count; begin += kChunk) {
      meets |= RaiseSlots(begin, begin + kChunk, from, to, top, limits);
    }
    if (begin < count) meets |= RaiseSlots(begin, count, from, to, top, limits);
    return meets != 0;
  }

  inline unsigned RaiseSlots(std::int32_t begin, std::int32_t stop, std::int32_t from,
                             std::int32_t to, Offset top, const ExactLimits<Offset>& limits) {
    const std::int32_t* const firsts = first.data();
    const std::int32_t* const ends = end.data();
    Offset* const lows = lowest.data();
    unsigned any_meets = 0;
    unsigned any_changes = 0;
    for (std::int32_t i = begin; i < stop; ++i) {
      const unsigned meets =
          static_cast<unsigned>(firsts[i] < to) & static_cast<unsigned>(from < ends[i]);
      any_meets |= meets;
      any_changes |= meets & static_cast<unsigned>(lows[i] < top);
    }
    if (any_changes == 0) return any_meets;
    saved_chunk.push_back(begin / kChunk);
    saved_lowest.insert(saved_lowest.end(), lows + begin, lows + begin + kChunk);
    for (std::int32_t i = begin; i < stop; ++i) {
      const unsigned meets =
          static_cast<unsigned>(firsts[i] < to) & static_cast<unsigned>(from < ends[i]);
      lows[i] = meets != 0 ? std::max(lows[i], top) : lows[i];
    }
    if (!limits.AreNone()) Lift(begin, stop, limits);
    return any_meets;
  }

  void Lift(std::int32_t begin, std::int32_t stop, const ExactLimits<Offset>& limits) {
    for (std::int32_t i = begin; i < stop; ++i) {
      lowest[i] = limits.Lift(lowest[i], buffer[i], size[i]);
    }
  }
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_EXACT_PART_H_
