// SPDX-License-Identifier: Apache-2.0
// Walks through the steps of a chain's schedule, and ends operations and copies as their times
// come.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "policies/training/chain/activation_pieces.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool::chain_policies {
namespace {

// Starts may be off by this part of the makespan: they are sums of times in any order, as callers
// and files of chains give them. Too coarse for two answers to be equal (kEqualSeconds).
constexpr double kValidSeconds = 1e-9;
constexpr double kNever = std::numeric_limits<double>::infinity();

// An operation or a copy between its start and its end.
struct Running {
  ChainAction action = ChainAction::kForward;
  std::size_t index = 0;
  double end = kNever;     // kNever: nothing runs
  PieceRange pieces = {};  // that a copy moves

  bool Runs() const { return end != kNever; }
  bool IsCopyOf(std::size_t i) const { return Runs() && index == i; }
};

class ScheduleWalk {
 public:
  ScheduleWalk(const Chain& chain, const ChainSchedule& schedule)
      : chain_(chain),
        schedule_(schedule),
        tolerance_(kValidSeconds * schedule.seconds),
        has_run_(operations()),
        backward_left_(operations()),
        used_(chain.x[0]) {
    runs_once_.assign(operations(), false);
    for (const std::size_t i : chain.runs_once) runs_once_[i] = true;
  }

  absl::Status Walk();

 private:
  using Piece = ActivationPiece;

  std::size_t operations() const { return chain_.forward_seconds.size(); }

  void Cut();
  absl::Status CheckRange(const ChainStep& step) const;
  absl::Status WalkStep(const ChainStep& step);
  absl::Status Start(const ChainStep& step);
  absl::Status StartForward(const ChainStep& step);
  absl::Status StartBackward(const ChainStep& step);
  absl::Status StartOffload(const ChainStep& step);
  absl::Status StartPrefetch(const ChainStep& step);
  absl::Status Drop(const ChainStep& step);
  absl::Status StartOperation(const ChainStep& step, std::int64_t extra, double seconds);
  absl::Status StartCopy(const ChainStep& step, const PieceRange& pieces, Running& copy);
  absl::Status EndAllUntil(double seconds);
  absl::Status EndOperation();
  absl::Status EndCopy(Running& copy);
  absl::Status EndFirst();
  absl::Status CheckEnd() const;

  // Whether the output of x_i is there.
  bool IsReady(std::size_t i) const {
    return activations_[i].HaveAll(activations_[i].output(), &Piece::is_ready);
  }
  // Whether the running operation reads or writes x_i.
  bool IsInUse(std::size_t i) const {
    return operation_.Runs() && (i == operation_.index || i == operation_.index + 1);
  }
  bool IsCopied(std::size_t i) const { return out_.IsCopyOf(i) || in_.IsCopyOf(i); }
  bool CanCopy(const Running& copy) const {
    return !copy.Runs() && (schedule_.copies.full_duplex || (!out_.Runs() && !in_.Runs()));
  }
  double FirstEnd() const { return std::min({operation_.end, out_.end, in_.end}); }
  PieceRange RangeOf(const ChainStep& step, bool Piece::*property) const {
    const ActivationPieces& pieces = activations_[step.index];
    return step.end < 0 ? pieces.While(property) : pieces.Of(step.begin, step.end);
  }
  std::int64_t OutputExtra(std::size_t i) const {
    return chain_.output_extra.empty() ? chain_.forward_extra[i] : chain_.output_extra[i];
  }
  // Returns the pieces of x_i that a run of F_(i-1) writes.
  PieceRange WrittenBy(ChainAction action, std::size_t i) const {
    return action == ChainAction::kForwardOutput ? activations_[i].output() : activations_[i].all();
  }
  void GiveBack(std::size_t i, const PieceRange& pieces) {
    used_ -= activations_[i].GiveBack(pieces);
  }
  absl::Status NotThere(std::size_t i) const;

  const Chain& chain_;
  const ChainSchedule& schedule_;
  const double tolerance_;
  std::vector<ActivationPieces> activations_;
  std::vector<bool> has_run_;  // of F_0, ..., F_L
  std::vector<bool> runs_once_;
  std::size_t backward_left_;  // the next is B_(backward_left_ - 1)
  std::int64_t used_;
  Running operation_;
  Running out_;
  Running in_;
  double last_end_ = 0;
};

absl::Status Fault(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status ScheduleWalk::NotThere(std::size_t i) const {
  const bool has_some = activations_[i].HasAny(&Piece::is_ready);
  return Fault(absl::StrCat(has_some ? "a part of " : "", "x_", i, " is not on the device"));
}

absl::Status ScheduleWalk::CheckRange(const ChainStep& step) const {
  if (step.begin == 0 && step.end == -1) return absl::OkStatus();
  const bool is_copy =
      step.action == ChainAction::kOffload || step.action == ChainAction::kPrefetch;
  if (!is_copy) return Fault("only copies have parts");
  const std::int64_t bytes = chain_.x[step.index];
  if (step.begin >= 0 && step.begin < step.end && step.end <= bytes) return absl::OkStatus();
  return Fault(absl::StrCat("bytes ", step.begin, " to ", step.end, " of x_", step.index,
                            ", which has ", bytes));
}

absl::Status ScheduleWalk::StartOperation(const ChainStep& step, std::int64_t extra,
                                          double seconds) {
  used_ += extra;
  operation_ = {step.action, step.index, step.start_seconds + seconds};
  return absl::OkStatus();
}

absl::Status ScheduleWalk::StartForward(const ChainStep& step) {
  const std::size_t i = step.index;
  if (operation_.Runs()) return Fault("another operation has not ended");
  if (!IsReady(i)) return NotThere(i);
  if (IsCopied(i + 1)) return Fault(absl::StrCat("x_", i + 1, " is being copied"));
  if (has_run_[i] && runs_once_[i]) return Fault("the operation may not run again");
  const bool keeps_output = step.action == ChainAction::kForwardOutput;
  used_ += activations_[i + 1].Take(WrittenBy(step.action, i + 1));
  return StartOperation(step, keeps_output ? OutputExtra(i) : chain_.forward_extra[i],
                        chain_.forward_seconds[i]);
}

absl::Status ScheduleWalk::StartBackward(const ChainStep& step) {
  const std::size_t i = step.index;
  if (operation_.Runs()) return Fault("another operation has not ended");
  if (i + 1 != backward_left_) {
    return Fault(absl::StrCat("the next backward operation is B_",
                              static_cast<std::int64_t>(backward_left_) - 1));
  }
  for (const std::size_t read : {i, i + 1}) {
    if (!IsReady(read)) return NotThere(read);
  }
  if (!activations_[i + 1].HaveAll(activations_[i + 1].all(), &Piece::is_ready)) {
    return Fault(absl::StrCat("only the output of x_", i + 1, " is on the device"));
  }
  if (in_.IsCopyOf(i)) {
    return Fault(absl::StrCat("the prefetch of x_", i, " has not ended"));
  }
  const std::int64_t first = backward_left_ == operations() ? chain_.y[i + 1] : 0;
  --backward_left_;
  return StartOperation(step, first + chain_.y[i] + chain_.backward_extra[i],
                        chain_.backward_seconds[i]);
}

absl::Status ScheduleWalk::StartCopy(const ChainStep& step, const PieceRange& pieces,
                                     Running& copy) {
  const auto bytes = static_cast<double>(activations_[step.index].BytesOf(pieces));
  const ChainCopies& copies = schedule_.copies;
  double seconds = bytes / chain_.link_bytes_per_second;
  if (copies.compressor.exists()) {
    // A bit for each word of 32, and the words that are not zero.
    const double kept = std::min(1.0, copies.density + 0.03125);
    const double engine = step.action == ChainAction::kOffload
                              ? copies.compressor.out_bytes_per_second
                              : copies.compressor.in_bytes_per_second;
    seconds = std::max(seconds * kept, bytes / engine);
  }
  copy = {step.action, step.index, step.start_seconds + copies.latency_seconds + seconds, pieces};
  return absl::OkStatus();
}

absl::Status ScheduleWalk::StartOffload(const ChainStep& step) {
  if (!CanCopy(out_)) return Fault("another transfer has not ended");
  const ActivationPieces& activation = activations_[step.index];
  const PieceRange pieces = RangeOf(step, &Piece::has_memory);
  const PieceRange& needed = step.end < 0 ? activation.output() : pieces;
  const bool is_ready =
      activation.HaveAll(needed, &Piece::is_ready) && activation.HaveAll(pieces, &Piece::is_ready);
  return is_ready ? StartCopy(step, pieces, out_) : NotThere(step.index);
}

absl::Status ScheduleWalk::StartPrefetch(const ChainStep& step) {
  const std::size_t i = step.index;
  if (!CanCopy(in_)) return Fault("another transfer has not ended");
  const PieceRange pieces = RangeOf(step, &Piece::is_on_host);
  if (pieces.empty() || !activations_[i].HaveAll(pieces, &Piece::is_on_host)) {
    return Fault(absl::StrCat("x_", i, " is not on the host"));
  }
  used_ += activations_[i].Take(pieces);
  activations_[i].Set(pieces, &Piece::is_leaving, false);
  return StartCopy(step, pieces, in_);
}

absl::Status ScheduleWalk::Drop(const ChainStep& step) {
  const std::size_t i = step.index;
  if (!activations_[i].HasAny(&Piece::has_memory)) return NotThere(i);
  if (IsCopied(i)) return Fault(absl::StrCat("x_", i, " is being copied"));
  if (IsInUse(i)) return Fault(absl::StrCat("the running operation uses x_", i));
  GiveBack(i, activations_[i].all());
  return absl::OkStatus();
}

absl::Status ScheduleWalk::EndOperation() {
  const std::size_t i = operation_.index;
  last_end_ = std::max(last_end_, operation_.end);
  operation_.end = kNever;
  if (operation_.action == ChainAction::kBackward) {
    used_ -= chain_.backward_extra[i] + chain_.y[i + 1];
    if (IsCopied(i + 1)) {
      return Fault(absl::StrCat("B_", i, " ends while x_", i + 1, " is being copied"));
    }
    GiveBack(i + 1, activations_[i + 1].all());
    return absl::OkStatus();
  }
  used_ -= operation_.action == ChainAction::kForward ? chain_.forward_extra[i] : OutputExtra(i);
  activations_[i + 1].Set(WrittenBy(operation_.action, i + 1), &Piece::is_ready, true);
  has_run_[i] = true;
  used_ -= activations_[i].GiveBack(activations_[i].all(), &Piece::is_leaving);
  return absl::OkStatus();
}

absl::Status ScheduleWalk::EndCopy(Running& copy) {
  const std::size_t i = copy.index;
  last_end_ = std::max(last_end_, copy.end);
  copy.end = kNever;
  if (copy.action == ChainAction::kPrefetch) {
    activations_[i].Set(copy.pieces, &Piece::is_ready, true);
    return absl::OkStatus();
  }
  activations_[i].Set(copy.pieces, &Piece::is_on_host, true);
  activations_[i].Set(copy.pieces, &Piece::is_leaving, !has_run_[i]);
  if (!has_run_[i]) return absl::OkStatus();
  if (IsInUse(i)) return Fault(absl::StrCat("x_", i, " leaves while an operation uses it"));
  GiveBack(i, copy.pieces);
  return absl::OkStatus();
}

// Ends the operation first where ends are equal: it may use the activation that leaves with the
// copy.
absl::Status ScheduleWalk::EndFirst() {
  if (operation_.end <= FirstEnd() + tolerance_) return EndOperation();
  return EndCopy(out_.end <= in_.end ? out_ : in_);
}

// Ends the operation and the copies that end by then.
absl::Status ScheduleWalk::EndAllUntil(double seconds) {
  while (FirstEnd() != kNever && FirstEnd() <= seconds + tolerance_) {
    if (absl::Status status = EndFirst(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ScheduleWalk::Start(const ChainStep& step) {
  const bool is_dropped = step.action == ChainAction::kDrop;
  if (step.index >= operations() + (is_dropped ? 1 : 0)) {
    return Fault(absl::StrCat("expected an index from 0 to ", operations() - 1));
  }
  if (absl::Status status = CheckRange(step); !status.ok()) return status;
  switch (step.action) {
    case ChainAction::kForward:
    case ChainAction::kForwardOutput:
      return StartForward(step);
    case ChainAction::kBackward:
      return StartBackward(step);
    case ChainAction::kOffload:
      return StartOffload(step);
    case ChainAction::kPrefetch:
      return StartPrefetch(step);
    case ChainAction::kDrop:
      return Drop(step);
  }
  return Fault("an unknown action");
}

absl::Status ScheduleWalk::WalkStep(const ChainStep& step) {
  if (absl::Status status = EndAllUntil(step.start_seconds); !status.ok()) return status;
  if (absl::Status status = Start(step); !status.ok()) return status;
  if (used_ <= chain_.memory_bytes) return absl::OkStatus();
  return Fault(absl::StrCat(used_, " bytes are in use, and the memory has ", chain_.memory_bytes));
}

absl::Status ScheduleWalk::CheckEnd() const {
  if (backward_left_ > 0) {
    return Fault(absl::StrCat("the schedule ends before B_", backward_left_ - 1));
  }
  if (std::abs(last_end_ - schedule_.seconds) > tolerance_) {
    return Fault(absl::StrCat("the last step ends at ", last_end_, " s, and the makespan is ",
                              schedule_.seconds, " s"));
  }
  if (schedule_.lower_bound_seconds <= schedule_.seconds + tolerance_) return absl::OkStatus();
  return Fault(absl::StrCat("the makespan ", schedule_.seconds, " s is below the lower bound ",
                            schedule_.lower_bound_seconds, " s"));
}

std::string StepName(const ChainStep& step) {
  static constexpr const char* kNames[] = {
      "F_", "B_", "the offload of x_", "the prefetch of x_", "the drop of x_", "the output of F_"};
  return absl::StrCat(kNames[static_cast<std::size_t>(step.action)], step.index, " at ",
                      step.start_seconds, " s");
}

// Cuts the activations at the ends of all parts that are copied. Parts out of range are faults of
// their steps.
void ScheduleWalk::Cut() {
  std::vector<std::vector<std::int64_t>> cuts(chain_.x.size());
  for (const ChainStep& step : schedule_.steps) {
    if (step.index >= operations()) continue;
    for (const std::int64_t cut : {step.begin, step.end}) {
      if (cut > 0 && cut < chain_.x[step.index]) cuts[step.index].push_back(cut);
    }
  }
  for (std::size_t i = 0; i < chain_.x.size(); ++i) {
    const std::int64_t output = chain_.output.empty() ? chain_.x[i] : chain_.output[i];
    activations_.emplace_back(chain_.x[i], output, std::move(cuts[i]));
  }
  activations_[0].Set(activations_[0].all(), &Piece::has_memory, true);
  activations_[0].Set(activations_[0].all(), &Piece::is_ready, true);
}

absl::Status ScheduleWalk::Walk() {
  Cut();
  if (!(schedule_.seconds >= 0 && schedule_.seconds < kNever)) {
    return Fault(absl::StrCat("a makespan of ", schedule_.seconds, " s"));
  }
  double last = 0;
  for (std::size_t k = 0; k < schedule_.steps.size(); ++k) {
    const ChainStep& step = schedule_.steps[k];
    if (step.action > ChainAction::kForwardOutput)
      return Fault(absl::StrCat("step ", k, " has no action"));
    const bool is_in_order = step.start_seconds >= last - tolerance_ && step.start_seconds < kNever;
    absl::Status status = is_in_order ? WalkStep(step) : Fault("it starts before the last step");
    if (!status.ok()) {
      return Fault(
          absl::StrCat("step ", k, ", ", StepName(step), ": ", std::string(status.message())));
    }
    last = step.start_seconds;
  }
  if (absl::Status status = EndAllUntil(std::numeric_limits<double>::max()); !status.ok()) {
    return status;
  }
  return CheckEnd();
}

}  // namespace
}  // namespace tidepool::chain_policies

namespace tidepool {

absl::Status CheckChainSchedule(const Chain& chain, const ChainSchedule& schedule) {
  return chain_policies::ScheduleWalk(chain, schedule).Walk();
}

}  // namespace tidepool
