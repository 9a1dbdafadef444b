// SPDX-License-Identifier: Apache-2.0
// Follows the data of a segment through its actions.
#include "policies/training/chain/segment_profile.h"

#include <utility>

namespace tidepool::chain_policies {
namespace {

// The data of a segment but x_first.
class SegmentWalk {
 public:
  SegmentWalk(const RecomputeModel& model, const Segment& segment)
      : model_(model), held_(segment.last - segment.first + 2), segment_(segment) {
    next_backward_ = segment.last;
    if (segment.has_result) Hold(segment.last + 1, model.x(segment.last + 1));
  }

  void Walk(const ChainActions& actions) {
    for (const ChainStep& step : actions) {
      if (step.action == ChainAction::kDrop) {
        Hold(step.index, 0);
        profile_.back().drop = step.index;
      } else if (step.action == ChainAction::kBackward) {
        WalkBackward(step);
      } else {
        WalkForward(step);
      }
    }
  }
  Profile Take() { return std::move(profile_); }

 private:
  void Hold(std::size_t i, std::int64_t bytes) {
    std::int64_t& held = held_[i - segment_.first];
    sum_ += bytes - held;
    held = bytes;
  }
  void WalkForward(const ChainStep& step) {
    const std::size_t i = step.index;
    const bool keeps_all = step.action == model_.ActionOf(i);
    const std::int64_t bytes = keeps_all ? model_.ForwardBytes(i) : model_.OutputBytes(i);
    profile_.push_back(
        {step, model_.forward_seconds(i), sum_ + model_.GradientBytes(next_backward_) + bytes});
    Hold(i + 1, keeps_all ? model_.x(i + 1) : model_.output(i + 1));
  }
  void WalkBackward(const ChainStep& step) {
    const std::size_t i = step.index;
    profile_.push_back({step, model_.backward_seconds(i), sum_ + model_.BackwardBytes(i)});
    Hold(i + 1, 0);
    next_backward_ = i - 1;
  }

  const RecomputeModel& model_;
  std::vector<std::int64_t> held_;  // of x_first, ..., x_(last+1)
  const Segment segment_;
  std::int64_t sum_ = 0;
  std::size_t next_backward_;
  Profile profile_;
};

}  // namespace

Profile ProfileOf(const RecomputeTable& table, const Segment& segment, std::size_t slots) {
  ChainActions actions;
  table.AddActions(segment, slots, actions);
  SegmentWalk walk(table.model(), segment);
  walk.Walk(actions);
  return walk.Take();
}

Profile ForwardProfile(const RecomputeModel& model, std::size_t first, std::size_t end,
                       bool keeps_all) {
  Profile profile;
  for (std::size_t i = first; i < end; ++i) {
    const bool is_whole = !model.has_output_run(i) || (keeps_all && i + 1 == end);
    const std::int64_t bytes = is_whole ? model.ForwardBytes(i) : model.OutputBytes(i);
    const std::int64_t input = i > first ? model.output(i) : 0;
    profile.push_back({{is_whole ? model.ActionOf(i) : ChainAction::kForwardOutput, i},
                       model.forward_seconds(i),
                       input + bytes,
                       i > first ? i : kNoIndex});
  }
  return profile;
}

}  // namespace tidepool::chain_policies
