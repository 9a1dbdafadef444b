// A problem as the searches see it: time is a row of sections, sizes are in the largest unit that
// divides them all.
//
// A section is a stretch of time whose set of live buffers is contained in no neighbour's; buffers
// overlap in time if and only if they share a section (MiniMalloc, ASPLOS 2023), so sections, of
// which there are fewer than buffers, are all that matters of time.
#ifndef TIDEPOOL_LIB_PLAN_INSTANCE_H_
#define TIDEPOOL_LIB_PLAN_INSTANCE_H_

#include <cstdint>
#include <vector>

#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// An offset for every buffer of an instance that is not fixed, in its units.
using Offsets = std::vector<std::int64_t>;

inline bool IsFixed(const PlanBuffer& buffer) { return buffer.offset != PlanBuffer::kAnywhere; }

// What is fixed is in the way of the other buffers: obstacles. Those that lie side by side
// throughout, with no room for anything between them, are one.
struct Instance {
  std::vector<std::uint32_t> buffer;  // its number in the problem
  // Of the buffers and, after them, of the obstacles.
  std::vector<std::int32_t> first;  // the first section
  std::vector<std::int32_t> end;    // and one after the last
  std::vector<std::int64_t> size;   // in units
  // Of the buffers.
  std::vector<std::int64_t> alignment;
  std::vector<double> duration;  // in the problem's own time
  // Of the obstacles.
  std::vector<std::int64_t> obstacle_offset;
  std::int64_t obstacle_top = 0;   // the highest end of any, 0 without
  std::vector<std::int64_t> load;  // of each section: the sum of the sizes of all in it
  std::int64_t unit = 1;           // bytes
  std::int64_t lower_bound = 0;    // in units
  bool is_aligned = true;          // every alignment is 1 unit: all offsets that arise are aligned

  // Of the buffers.
  std::int32_t count() const {
    return static_cast<std::int32_t>(size.size() - obstacle_offset.size());
  }
  std::int32_t obstacles() const { return static_cast<std::int32_t>(obstacle_offset.size()); }
  std::int32_t sections() const { return static_cast<std::int32_t>(load.size()); }
  bool LivesThroughout(std::int32_t index) const {
    return first[index] == 0 && end[index] == sections();
  }
  bool Overlap(std::int32_t a, std::int32_t b) const {
    return first[a] < end[b] && first[b] < end[a];
  }
};

inline std::int64_t AlignUp(std::int64_t offset, std::int64_t alignment) {
  return (offset + alignment - 1) & -alignment;
}

// The highest end of any buffer or obstacle.
std::int64_t Height(const Instance& instance, const Offsets& offsets);

// One instance for every stretch of time that no buffer crosses the ends of, in the order of time.
// The problem's buffers are valid. O(n log n).
std::vector<Instance> ToInstances(const PlanProblem& problem);

// Of each range of sections [first[i], end[i]), none empty, the greatest of `values`. O(n log n).
std::vector<double> RangeMaxima(const std::vector<double>& values,
                                const std::vector<std::int32_t>& first,
                                const std::vector<std::int32_t>& end);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_INSTANCE_H_
