// SPDX-License-Identifier: Apache-2.0
// A problem in the form that the searches use: time is a row of sections, and sizes are multiples
// of the largest unit that divides them all.
//
// A section is an interval of time. Its set of live buffers is contained in neither neighbour's
// set. Buffers overlap in time if and only if they share a section (MiniMalloc, ASPLOS 2023). So
// sections, of which there are fewer than buffers, contain all that matters of time.
//
// With several streams, sections are those of longer lifetimes: until every stream that still
// allocates knows of the free. They overlap where buffers need disjoint addresses, and elsewhere.
// The exact relation is beside them.
//
// A buffer may leave and come back to the same memory (lives.h). Its sections go from the first of
// its lives to the last, and its lives, in sections, are beside them.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_INSTANCE_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_INSTANCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/memory/plan/lives.h"
#include "lib/memory/plan/stream_conflicts.h"
#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// An offset, in units, for every buffer of an instance that is not fixed.
using Offsets = std::vector<std::int64_t>;
inline constexpr std::int64_t kUnplaced = -1;  // instead of an offset

// Returns whether buffers belong to different streams. Otherwise waits do not matter.
bool HasSeveralStreams(const PlanProblem& problem);

inline bool IsFixed(const PlanBuffer& buffer) { return buffer.offset != PlanBuffer::kAnywhere; }

// One independent part of a problem. Fixed buffers are obstacles to the others. Obstacles with the
// same sections that touch are joined, and so are neighbouring ones that live throughout with no
// room for a buffer between them.
struct Instance {
  std::vector<std::uint32_t> buffer;  // its number in the problem
  // Ranges of sections and sizes of the buffers and, after them, of the obstacles.
  std::vector<std::int32_t> first;  // the first section
  std::vector<std::int32_t> end;    // one after the last
  std::vector<std::int64_t> size;   // in units
  // Alignments and durations of the buffers.
  std::vector<std::int64_t> alignment;
  std::vector<double> duration;  // in the problem's own time
  // Offsets of the obstacles.
  std::vector<std::int64_t> obstacle_offset;
  std::vector<std::uint32_t> obstacle_buffer;  // before any are joined: their numbers
  std::int64_t obstacle_top = 0;               // the highest end of any, 0 without
  std::vector<std::int64_t> load;              // by section: the sum of all sizes in it
  std::int64_t unit = 1;                       // bytes
  std::int64_t lower_bound = 0;                // in units
  bool is_aligned = true;    // every alignment is 1 unit, so all offsets are aligned
  bool has_streams = false;  // the load is no lower bound, and obstacles may overlap
  StreamConflicts conflicts;
  std::vector<Lives> lives;  // by buffer, in sections; empty: each has one
  // By buffer: the least offset that it may have, an aligned one; empty: 0.
  Offsets floor;

  // Returns the number of buffers.
  std::int32_t count() const {
    return static_cast<std::int32_t>(size.size() - obstacle_offset.size());
  }
  std::int32_t obstacles() const { return static_cast<std::int32_t>(obstacle_offset.size()); }
  std::int32_t sections() const { return static_cast<std::int32_t>(load.size()); }
  std::int64_t FloorOf(std::int32_t index) const { return floor.empty() ? 0 : floor[index]; }
  bool LivesThroughout(std::int32_t index) const {
    return first[index] == 0 && end[index] == sections();
  }
  // Whether all that share a section need disjoint addresses.
  bool IsBySections() const { return lives.empty() && !conflicts.IsKnown(); }
  bool ShareSection(std::int32_t a, std::int32_t b) const {
    // Without a branch, which a processor could not predict.
    return (static_cast<int>(first[a] < end[b]) & static_cast<int>(first[b] < end[a])) != 0;
  }
  // Returns whether two buffers or obstacles need disjoint addresses.
  bool Overlap(std::int32_t a, std::int32_t b) const {
    if (IsBySections()) return ShareSection(a, b);
    return ShareSection(a, b) &&
           (lives.empty() ? conflicts.Include(a, b) : plan::Overlap(lives[a], lives[b]));
  }
};

// Returns the highest end of any buffer or obstacle.
std::int64_t Height(const Instance& instance, const Offsets& offsets);

// Splits the problem at every time that no buffer crosses, and returns one instance per interval,
// in the order of time. The problem is valid. O(n log n) with one stream.
std::vector<Instance> ToInstances(const PlanProblem& problem);

// Returns the instance of some buffers with lives, with sizes in units of `unit`. O(lives log
// lives).
Instance ToInstance(const std::vector<LivingBuffer>& buffers, std::span<const std::size_t> members,
                    std::int64_t unit);

// Returns the greatest of `values` in each range of sections [first[i], end[i]); no range is empty.
// O(n log n).
std::vector<double> RangeMaxima(const std::vector<double>& values,
                                const std::vector<std::int32_t>& first,
                                const std::vector<std::int32_t>& end);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_INSTANCE_H_
