// SPDX-License-Identifier: Apache-2.0
// A state is extended by every next block. Of the states of a position, those are kept that are
// best for some number of bytes on the device.
#include "policies/training/chain/block_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "policies/training/chain/segment_profile.h"
#include "policies/training/chain/segment_splits.h"

namespace tidepool::chain_policies {
namespace {

constexpr double kNoWay = std::numeric_limits<double>::infinity();

struct SearchState {
  std::size_t position = 0;  // of the next block
  bool has_all = true;       // of its input; otherwise the output
  std::int64_t kept = 0;     // bytes of inputs before it that stay
  double to_send = 0;        // bytes
  double to_fetch = 0;       // bytes
  double lost = 0;           // seconds of waits and of operations that run again
  Block block;               // before the position
  std::size_t before = 0;    // number of the state before that block
};

// The seconds that a half waits, when the link moves `pending` bytes meanwhile.
struct Waits {
  double seconds = 0;
  double pending = 0;
};

class BlockSearcher {
 public:
  BlockSearcher(const RecomputeTable& table, const BlockSearchOptions& options)
      : table_(table), model_(table.model()), options_(options) {}

  std::vector<std::vector<Block>> Search();

 private:
  using SegmentKey = std::tuple<std::size_t, std::size_t, bool, std::size_t>;

  double Link() const { return model_.chain().link_bytes_per_second; }
  std::int64_t Memory() const { return model_.chain().memory_bytes; }
  std::int64_t InputOf(const SearchState& state) const {
    return state.has_all ? model_.x(state.position) : model_.output(state.position);
  }
  const Profile& ProfileWith(const Segment& segment, std::size_t slots);
  void WaitFor(double room, double seconds, Waits& waits) const;
  Waits RunForward(const SearchState& state, const Block& block, const Profile& profile) const;
  Waits RunBackward(const SearchState& state, const Profile& profile) const;
  void Extend(std::size_t number);
  void ExtendTo(std::size_t number, std::size_t end, bool keeps_all);
  void ExtendWith(std::size_t number, Block block, const Profile& forward);
  double RerunSeconds(const Block& block) const;
  std::size_t SlotsFor(const Segment& segment, std::int64_t bytes) const;
  void Add(const SearchState& state);
  double Estimate(const SearchState& state) const;
  std::vector<SearchState> Best(std::vector<SearchState>& states) const;
  std::vector<std::vector<Block>> Answers();
  std::vector<Block> BlocksTo(const SearchState& end) const;

  const RecomputeTable& table_;
  const RecomputeModel& model_;
  const BlockSearchOptions options_;
  std::vector<SearchState> states_;           // that were extended
  std::vector<std::vector<SearchState>> at_;  // others, by position
  absl::flat_hash_map<SegmentKey, Profile> profiles_;
};

const Profile& BlockSearcher::ProfileWith(const Segment& segment, std::size_t slots) {
  const auto [found, is_new] =
      profiles_.try_emplace({segment.first, segment.last, segment.has_result, slots});
  if (is_new) found->second = ProfileOf(table_, segment, slots);
  return found->second;
}

// Waits until the pending bytes fit into `room`, and then runs for `seconds`.
void BlockSearcher::WaitFor(double room, double seconds, Waits& waits) const {
  if (room < 0) {
    waits.seconds = kNoWay;
  } else if (waits.pending > room) {
    waits.seconds += (waits.pending - room) / Link();
    waits.pending = room;
  }
  waits.pending = std::max(0.0, waits.pending - seconds * Link());
}

Waits BlockSearcher::RunForward(const SearchState& state, const Block& block,
                                const Profile& profile) const {
  const std::int64_t input = InputOf(state);
  const std::int64_t kept = state.kept + (block.offloads ? 0 : input);
  Waits waits{0, state.to_send};
  for (const SegmentOperation& action : profile) {
    // The input leaves after the first operation has read it.
    const bool is_first = action.step.index == block.first;
    const std::int64_t room = Memory() - kept - action.bytes;
    const std::int64_t held = is_first && block.offloads ? input : 0;
    WaitFor(static_cast<double>(room - held), 0, waits);
    if (is_first && block.offloads) waits.pending += static_cast<double>(input);
    waits.pending = std::max(0.0, waits.pending - action.seconds * Link());
  }
  return waits;
}

// In reversed time bytes that were to be fetched leave.
Waits BlockSearcher::RunBackward(const SearchState& state, const Profile& profile) const {
  const std::int64_t kept = state.kept + InputOf(state);
  Waits waits{0, state.to_fetch};
  for (std::size_t j = profile.size(); j-- > 0;) {
    WaitFor(static_cast<double>(Memory() - kept - profile[j].bytes), profile[j].seconds, waits);
  }
  return waits;
}

double BlockSearcher::RerunSeconds(const Block& block) const {
  const Segment segment = SegmentOf(block, model_.operations());
  double seconds = table_.Seconds(segment, block.slots);
  for (std::size_t i = block.first; i < block.end; ++i) seconds -= model_.backward_seconds(i);
  const bool is_last = block.end == model_.operations();
  for (std::size_t i = block.first; is_last && i < block.end; ++i) {
    seconds -= model_.forward_seconds(i);
  }
  return seconds;
}

void BlockSearcher::Add(const SearchState& state) {
  if (state.lost <= options_.most_lost) at_[state.position].push_back(state);
}

void BlockSearcher::ExtendWith(std::size_t number, Block block, const Profile& forward) {
  const SearchState state = states_[number];
  const double rerun = RerunSeconds(block);
  if (std::isinf(rerun)) return;
  const Segment segment = SegmentOf(block, model_.operations());
  const Waits backward = RunBackward(state, ProfileWith(segment, block.slots));
  const bool is_last = block.end == model_.operations();
  SearchState next{block.end, block.keeps_all, state.kept, 0, 0, 0, block, number};
  if (is_last) {
    // Offloads and prefetches that remain share the link with the last segment.
    double seconds = rerun;
    for (std::size_t i = block.first; i < block.end; ++i) {
      seconds += model_.forward_seconds(i) + model_.backward_seconds(i);
    }
    const double moved = (state.to_send + state.to_fetch) / Link();
    next.lost = state.lost + rerun + std::max(backward.seconds, moved - seconds);
    Add(next);
    return;
  }
  const std::int64_t input = InputOf(state);
  for (const bool offloads : {false, true}) {
    if (offloads && input == 0) continue;
    next.block.offloads = offloads;
    const Waits sent = RunForward(state, next.block, forward);
    next.lost = state.lost + rerun + backward.seconds + sent.seconds;
    next.to_send = sent.pending;
    next.to_fetch = backward.pending + (offloads ? static_cast<double>(input) : 0);
    next.kept = state.kept + (offloads ? 0 : input);
    Add(next);
  }
}

void BlockSearcher::ExtendTo(std::size_t number, std::size_t end, bool keeps_all) {
  const SearchState state = states_[number];
  Block block{state.position, end, keeps_all};
  const Segment segment = SegmentOf(block, model_.operations());
  const std::int64_t most = Memory() - state.kept - InputOf(state);
  if (most < 0) return;
  const bool is_last = end == model_.operations();
  const Profile forward = is_last ? Profile() : ForwardProfile(model_, block.first, end, keeps_all);
  // Less memory for the segment means more time for its operations, and fewer waits for the link.
  const auto pending = static_cast<std::int64_t>(std::ceil(state.to_fetch));
  double last = -1;
  for (const std::int64_t part : {4, 2, 1, 0}) {
    const std::int64_t bytes = most - pending * part / 4;
    if (bytes < 0) continue;
    block.slots = SlotsFor(segment, bytes);
    const double seconds = table_.Seconds(segment, block.slots);
    if (std::isinf(seconds) || seconds == last) continue;
    last = seconds;
    ExtendWith(number, block, forward);
  }
}

// Returns the least slots with which the segment is as fast as with these bytes. One operation
// needs no rounding.
std::size_t BlockSearcher::SlotsFor(const Segment& segment, std::int64_t bytes) const {
  if (segment.first == segment.last && BytesOfOne(model_, segment) <= bytes) {
    return table_.slots();
  }
  return table_.LeastSlots(segment, table_.SlotsIn(bytes));
}

void BlockSearcher::Extend(std::size_t number) {
  const std::size_t first = states_[number].position;
  const std::size_t operations = model_.operations();
  const std::size_t last = std::min(operations, first + 1 + options_.longest);
  for (std::size_t end = first + 1; end < last; ++end) {
    ExtendTo(number, end, true);
    // From here on F_(end-1) runs again.
    if (!model_.may_rerun(end - 1)) break;
    ExtendTo(number, end, false);
  }
  ExtendTo(number, operations, false);
}

// Returns the time lost, with half of the time of the bytes that are under way.
double BlockSearcher::Estimate(const SearchState& state) const {
  return state.lost + (state.to_send + state.to_fetch) / Link() / 2;
}

// Returns the states that are best among those that keep no more bytes, and then the best of the
// others.
std::vector<SearchState> BlockSearcher::Best(std::vector<SearchState>& states) const {
  std::stable_sort(states.begin(), states.end(), [&](const SearchState& a, const SearchState& b) {
    const double left = Estimate(a);
    const double right = Estimate(b);
    return std::tie(left, a.kept) < std::tie(right, b.kept);
  });
  std::vector<SearchState> best;
  std::vector<SearchState> others;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const SearchState& state : states) {
    const bool is_front = state.kept < least;
    least = std::min(least, state.kept);
    if (is_front || others.size() < options_.width) (is_front ? best : others).push_back(state);
  }
  // A long front is thinned evenly.
  const std::size_t most_front = options_.width / 2;
  for (std::size_t k = 0; best.size() > most_front && k < most_front; ++k) {
    best[k] = best[k * (best.size() - 1) / (most_front - 1)];
  }
  best.resize(std::min(best.size(), most_front));
  const std::size_t left = std::min(others.size(), options_.width - best.size());
  best.insert(best.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(left));
  return best;
}

std::vector<Block> BlockSearcher::BlocksTo(const SearchState& end) const {
  std::vector<Block> blocks;
  for (const SearchState* state = &end; state->position > 0; state = &states_[state->before]) {
    blocks.push_back(state->block);
  }
  std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

std::vector<std::vector<Block>> BlockSearcher::Search() {
  const std::size_t operations = model_.operations();
  at_.resize(operations + 1);
  Add({});
  for (std::size_t position = 0; position < operations; ++position) {
    // No later block begins before this position.
    profiles_.clear();
    for (const SearchState& state : Best(at_[position])) {
      if (options_.budget != nullptr && options_.budget->HasEnded()) return Answers();
      states_.push_back(state);
      Extend(states_.size() - 1);
    }
    at_[position] = {};
  }
  return Answers();
}

// Returns the fastest of the answers so far.
std::vector<std::vector<Block>> BlockSearcher::Answers() {
  std::vector<SearchState>& ends = at_[model_.operations()];
  std::stable_sort(ends.begin(), ends.end(),
                   [](const SearchState& a, const SearchState& b) { return a.lost < b.lost; });
  ends.resize(std::min(ends.size(), options_.most_answers));
  std::vector<std::vector<Block>> answers;
  answers.reserve(ends.size());
  for (const SearchState& end : ends) answers.push_back(BlocksTo(end));
  return answers;
}

}  // namespace

std::vector<std::vector<Block>> SearchBlocks(const RecomputeTable& table,
                                             const BlockSearchOptions& options) {
  return BlockSearcher(table, options).Search();
}

}  // namespace tidepool::chain_policies
