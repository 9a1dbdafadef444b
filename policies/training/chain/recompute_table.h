// SPDX-License-Identifier: Apache-2.0
// Persistent recomputation of the segments of a chain, by dynamic programming.
//
// Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova, "Optimal checkpointing for heterogeneous
// chains", RR-9302, 2019: data that is kept for a backward operation stays until that operation.
// Here an activation may also be kept whole while the operations before it run again.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_RECOMPUTE_TABLE_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_RECOMPUTE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/budget/budget.h"
#include "policies/training/chain/recompute_model.h"

namespace tidepool::chain_policies {

// The operations F_first, ..., F_last and B_last, ..., B_first, with x_first on the device from the
// begin to the end. Its memory is that of all other data that it needs, y_(last+1) and y_first
// included.
struct Segment {
  std::size_t first = 0;
  std::size_t last = 0;
  bool has_result = false;  // x_(last+1) is on the device at the start, and is part of its memory
};

// The first checkpoint of a segment: x_split, after F_first, ..., F_(split-1) have kept nothing
// else. The segment from split on is next, and then the one before it.
struct Split {
  std::size_t at = 0;         // 0: the segment has one operation
  bool keeps_output = false;  // x_split is kept as an output, and is made again
};

// Returns the way to run each segment with some memory.
class SegmentPlanner {
 public:
  explicit SegmentPlanner(const RecomputeModel& model) : model_(model) {}
  virtual ~SegmentPlanner() = default;
  SegmentPlanner(const SegmentPlanner&) = delete;
  SegmentPlanner& operator=(const SegmentPlanner&) = delete;

  const RecomputeModel& model() const { return model_; }
  // Returns the split of a segment that fits into `slots`.
  virtual Split SplitOf(const Segment& segment, std::size_t slots) const = 0;
  // Returns the slots that an activation takes.
  virtual std::size_t SlotsOf(std::int64_t bytes) const = 0;

  // Appends the actions of a segment that fits into `slots`. O(actions L).
  void AddActions(const Segment& segment, std::size_t slots, ChainActions& actions) const;

 private:
  const RecomputeModel& model_;
};

// The shortest time of each segment for each number of slots.
class RecomputeTable : public SegmentPlanner {
 public:
  // Divides `bytes` into `slots`; sizes are rounded up to them. O(L^3 slots) time, O(L^2 slots)
  // memory. After the end of `budget` the longer segments do not fit.
  RecomputeTable(const RecomputeModel& model, std::int64_t bytes, std::size_t slots,
                 budget::Budget* budget = nullptr);

  // Returns the seconds of all operations of the segment; infinite where it does not fit.
  double Seconds(const Segment& segment, std::size_t slots) const { return RowOf(segment)[slots]; }
  std::size_t slots() const { return slots_; }
  // Returns the least slots in which the segment is as fast as in `slots`. O(log slots).
  std::size_t LeastSlots(const Segment& segment, std::size_t slots) const;
  Split SplitOf(const Segment& segment, std::size_t slots) const override;
  std::size_t SlotsOf(std::int64_t bytes) const override;
  // Returns the whole slots in `bytes`, at most all of them.
  std::size_t SlotsIn(std::int64_t bytes) const;

 private:
  const double* RowOf(const Segment& segment) const;
  double* RowOf(const Segment& segment);
  void FillOne(const Segment& segment);
  void FillMany(const Segment& segment);

  std::int64_t bytes_;
  std::size_t slots_;
  std::vector<double> rows_;
};

// The least memory of each segment, in slots of one byte. O(L^3) time, O(L^2) memory.
class LeastMemoryTable : public SegmentPlanner {
 public:
  explicit LeastMemoryTable(const RecomputeModel& model);

  std::int64_t Bytes(const Segment& segment) const { return bytes_[IndexOf(segment)]; }
  Split SplitOf(const Segment& segment, std::size_t slots) const override;
  std::size_t SlotsOf(std::int64_t bytes) const override { return static_cast<std::size_t>(bytes); }

 private:
  std::size_t IndexOf(const Segment& segment) const;
  void Fill(const Segment& segment);

  std::vector<std::int64_t> bytes_;
  std::vector<Split> splits_;
};

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_RECOMPUTE_TABLE_H_
