// SPDX-License-Identifier: Apache-2.0
// Writes blocks as a longer chain, in which each action is an operation, and places its transfers.
//
// In the longer chain an operation may have a forward or a backward half alone; the other one takes
// no time. A block has these operations, of which the backward halves run from the last to the
// first: the segment's actions from its last to its second; one with F_first and the segment's
// first action, which read x_first; and the other forward operations. So x_first is ready to leave
// and must be back just as in a chain.
#include "policies/training/chain/blocks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/arithmetic.h"
#include "policies/training/chain/segment_profile.h"
#include "policies/training/chain/transfer_schedule.h"

namespace tidepool::chain_policies {
namespace {

class BlockScheduler {
 public:
  BlockScheduler(const RecomputeTable& table, const std::vector<Block>& blocks)
      : table_(table), model_(table.model()), blocks_(blocks) {}

  absl::StatusOr<ChainSchedule> Make();

 private:
  using Half = std::optional<SegmentOperation>;

  // An operation of the longer chain.
  struct Operation {
    Half forward;
    Half backward;
  };

  std::int64_t InputBytes(std::size_t block) const;
  void AddOperation(const Half& forward, const Half& backward, std::int64_t input);
  void AddBlock(std::size_t number);
  void LeaveOutOfLast(std::int64_t input);
  ChainTransfers Transfers() const;
  void AddStep(const ChainStep& step);
  void AddHalf(const Half& half, double start);
  void AddDropBefore(double start);

  const RecomputeTable& table_;
  const RecomputeModel& model_;
  const std::vector<Block>& blocks_;
  Chain chain_;  // the longer one
  std::vector<Operation> operations_;
  std::vector<std::size_t> inputs_;  // by block: the operation that reads x_first
  std::optional<ChainStep> drop_;    // after the last operation
  ChainSchedule schedule_;
};

std::int64_t BlockScheduler::InputBytes(std::size_t number) const {
  const std::size_t first = blocks_[number].first;
  const bool has_all = number == 0 || blocks_[number - 1].keeps_all;
  return has_all ? model_.x(first) : model_.output(first);
}

// `input` is that of the block. It is a part of the backward half's memory.
void BlockScheduler::AddOperation(const Half& forward, const Half& backward, std::int64_t input) {
  operations_.push_back({forward, backward});
  chain_.forward_seconds.push_back(forward.has_value() ? forward->seconds : 0);
  chain_.forward_extra.push_back(forward.has_value() ? forward->bytes : 0);
  chain_.backward_seconds.push_back(backward.has_value() ? backward->seconds : 0);
  chain_.backward_extra.push_back(backward.has_value() ? backward->bytes + input : 0);
  chain_.x.push_back(0);
}

// A chain counts x_(i+1) in the memory of operation i. If the forward half of that made it, or its
// backward half ends the block before, then it is a part of their memory already.
void BlockScheduler::LeaveOutOfLast(std::int64_t input) {
  if (operations_.empty()) return;
  chain_.forward_extra.back() -= std::min(chain_.forward_extra.back(), input);
  const bool reads_input = !inputs_.empty() && inputs_.back() + 1 == operations_.size();
  if (reads_input) chain_.backward_extra.back() -= std::min(chain_.backward_extra.back(), input);
}

void BlockScheduler::AddBlock(std::size_t number) {
  const Block& block = blocks_[number];
  const std::int64_t input = InputBytes(number);
  Profile backward = ProfileOf(table_, SegmentOf(block, model_.operations()), block.slots);
  // The block before makes its own result again.
  if (number > 0 && !blocks_[number - 1].keeps_all) backward.back().drop = block.first;
  const bool is_last = number + 1 == blocks_.size();
  const Profile forward =
      is_last ? Profile() : ForwardProfile(model_, block.first, block.end, block.keeps_all);
  for (std::size_t j = backward.size(); j-- > 1;) {
    AddOperation(std::nullopt, backward[j], j > 1 ? input : 0);
  }
  LeaveOutOfLast(input);
  inputs_.push_back(operations_.size());
  AddOperation(is_last ? Half() : Half(forward[0]), backward[0], 0);
  chain_.x.back() = input;
  for (std::size_t j = 1; j < forward.size(); ++j) AddOperation(forward[j], std::nullopt, 0);
}

ChainTransfers BlockScheduler::Transfers() const {
  std::vector<std::size_t> set;
  for (std::size_t number = 0; number < blocks_.size(); ++number) {
    if (blocks_[number].offloads) set.push_back(inputs_[number]);
  }
  return OrderedTransfers(set);
}

// Adds the drop after the last operation where that has ended at `start`. Times are rounded in two
// ways, so the operation may seem to end too late.
void BlockScheduler::AddDropBefore(double start) {
  if (!drop_.has_value()) return;
  drop_->start_seconds = std::min(drop_->start_seconds, start);
  schedule_.steps.push_back(*drop_);
  drop_.reset();
}

void BlockScheduler::AddHalf(const Half& half, double start) {
  if (!half.has_value()) return;
  AddDropBefore(start);
  schedule_.steps.push_back({half->step.action, half->step.index, start});
  if (half->drop != kNoIndex) drop_ = {ChainAction::kDrop, half->drop, start + half->seconds};
}

// Adds the step of the chain that stands for one of the longer chain. A drop comes before transfers
// of the same time: it gives memory back.
void BlockScheduler::AddStep(const ChainStep& step) {
  const double start = step.start_seconds;
  if (step.action == ChainAction::kForward) return AddHalf(operations_[step.index].forward, start);
  if (step.action == ChainAction::kBackward) {
    return AddHalf(operations_[step.index].backward, start);
  }
  const double rounding = kEqualSeconds * schedule_.seconds;
  if (drop_.has_value() && drop_->start_seconds <= start + rounding) AddDropBefore(start);
  const auto input = std::find(inputs_.begin(), inputs_.end(), step.index);
  const Block& block = blocks_[static_cast<std::size_t>(input - inputs_.begin())];
  schedule_.steps.push_back({step.action, block.first, start});
}

absl::StatusOr<ChainSchedule> BlockScheduler::Make() {
  chain_.link_bytes_per_second = model_.chain().link_bytes_per_second;
  chain_.memory_bytes = model_.chain().memory_bytes;
  for (std::size_t number = 0; number < blocks_.size(); ++number) AddBlock(number);
  chain_.x.push_back(0);
  chain_.y.assign(chain_.x.size(), 0);
  const ChainTransfers transfers = Transfers();
  const absl::StatusOr<ChainTimes> times = PlaceTransfers(chain_, transfers);
  if (!times.ok()) return times.status();
  schedule_.seconds = times->seconds;
  for (const ChainStep& step : StepsOf(transfers, *times)) AddStep(step);
  AddDropBefore(schedule_.seconds);
  return std::move(schedule_);
}

}  // namespace

absl::StatusOr<ChainSchedule> ScheduleBlocks(const RecomputeTable& table,
                                             const std::vector<Block>& blocks) {
  return BlockScheduler(table, blocks).Make();
}

}  // namespace tidepool::chain_policies
