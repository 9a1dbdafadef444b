// SPDX-License-Identifier: Apache-2.0
// Walks through the steps of a chain's schedule, and ends operations and copies as their times
// come.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/schedule/chain_policy.h"

namespace tidepool::chain_policies {
namespace {

constexpr double kTolerance = 1e-9;  // of the makespan
constexpr double kNever = std::numeric_limits<double>::infinity();

// An operation or a copy between its start and its end.
struct Running {
  ChainAction action = ChainAction::kForward;
  std::size_t index = 0;
  double end = kNever;  // kNever: nothing runs

  bool Runs() const { return end != kNever; }
  bool IsCopyOf(std::size_t i) const { return Runs() && index == i; }
};

// The places of an activation.
struct Activation {
  bool has_memory = false;  // on the device
  std::int64_t bytes = 0;   // on the device: of its output, or of all
  std::int64_t host_bytes = 0;
  bool is_ready = false;  // the contents on the device are complete
  bool is_on_host = false;
  bool is_leaving = false;  // was copied to the host, and leaves when F_i has run
};

class ScheduleWalk {
 public:
  ScheduleWalk(const Chain& chain, const ChainSchedule& schedule)
      : chain_(chain),
        schedule_(schedule),
        tolerance_(kTolerance * schedule.seconds),
        activations_(chain.x.size()),
        has_run_(operations()),
        backward_left_(operations()),
        used_(chain.x[0]) {
    activations_[0].has_memory = activations_[0].is_ready = true;
    activations_[0].bytes = chain.x[0];
    runs_once_.assign(operations(), false);
    for (const std::size_t i : chain.runs_once) runs_once_[i] = true;
  }

  absl::Status Walk();

 private:
  std::size_t operations() const { return chain_.forward_seconds.size(); }

  absl::Status WalkStep(const ChainStep& step);
  absl::Status Start(const ChainStep& step);
  absl::Status StartForward(const ChainStep& step);
  absl::Status StartBackward(const ChainStep& step);
  absl::Status StartOffload(const ChainStep& step);
  absl::Status StartPrefetch(const ChainStep& step);
  absl::Status Drop(const ChainStep& step);
  absl::Status StartOperation(const ChainStep& step, std::int64_t extra, double seconds);
  absl::Status StartCopy(const ChainStep& step, Running& copy);
  absl::Status EndAllUntil(double seconds);
  absl::Status EndOperation();
  absl::Status EndCopy(Running& copy);
  absl::Status EndFirst();
  absl::Status CheckEnd() const;

  bool IsReady(std::size_t i) const {
    return activations_[i].has_memory && activations_[i].is_ready;
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
  std::int64_t OutputOf(std::size_t i) const {
    return chain_.output.empty() ? chain_.x[i] : chain_.output[i];
  }
  std::int64_t OutputExtra(std::size_t i) const {
    return chain_.output_extra.empty() ? chain_.forward_extra[i] : chain_.output_extra[i];
  }
  void Take(std::size_t i, std::int64_t bytes) {
    Activation& activation = activations_[i];
    if (activation.has_memory && activation.bytes >= bytes) return;
    used_ += bytes - activation.bytes;
    activation.bytes = bytes;
    activation.has_memory = true;
    activation.is_ready = false;
  }
  void GiveBack(std::size_t i) {
    used_ -= activations_[i].bytes;
    activations_[i].bytes = 0;
    activations_[i].has_memory = activations_[i].is_ready = activations_[i].is_leaving = false;
  }

  const Chain& chain_;
  const ChainSchedule& schedule_;
  const double tolerance_;
  std::vector<Activation> activations_;
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

absl::Status NotThere(std::size_t i) {
  return Fault(absl::StrCat("x_", i, " is not on the device"));
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
  Take(i + 1, keeps_output ? OutputOf(i + 1) : chain_.x[i + 1]);
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
  if (activations_[i + 1].bytes < chain_.x[i + 1]) {
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

absl::Status ScheduleWalk::StartCopy(const ChainStep& step, Running& copy) {
  const auto bytes = static_cast<double>(activations_[step.index].bytes);
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
  copy = {step.action, step.index, step.start_seconds + copies.latency_seconds + seconds};
  return absl::OkStatus();
}

absl::Status ScheduleWalk::StartOffload(const ChainStep& step) {
  if (!CanCopy(out_)) return Fault("another transfer has not ended");
  if (!IsReady(step.index)) return NotThere(step.index);
  return StartCopy(step, out_);
}

absl::Status ScheduleWalk::StartPrefetch(const ChainStep& step) {
  const std::size_t i = step.index;
  if (!CanCopy(in_)) return Fault("another transfer has not ended");
  if (!activations_[i].is_on_host) return Fault(absl::StrCat("x_", i, " is not on the host"));
  Take(i, activations_[i].host_bytes);
  activations_[i].is_leaving = false;
  return StartCopy(step, in_);
}

absl::Status ScheduleWalk::Drop(const ChainStep& step) {
  const std::size_t i = step.index;
  if (!activations_[i].has_memory) return NotThere(i);
  if (IsCopied(i)) return Fault(absl::StrCat("x_", i, " is being copied"));
  if (IsInUse(i)) return Fault(absl::StrCat("the running operation uses x_", i));
  GiveBack(i);
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
    GiveBack(i + 1);
    return absl::OkStatus();
  }
  used_ -= operation_.action == ChainAction::kForward ? chain_.forward_extra[i] : OutputExtra(i);
  activations_[i + 1].is_ready = true;
  has_run_[i] = true;
  if (activations_[i].is_leaving) GiveBack(i);
  return absl::OkStatus();
}

absl::Status ScheduleWalk::EndCopy(Running& copy) {
  const std::size_t i = copy.index;
  last_end_ = std::max(last_end_, copy.end);
  copy.end = kNever;
  if (copy.action == ChainAction::kPrefetch) {
    activations_[i].is_ready = true;
    return absl::OkStatus();
  }
  activations_[i].is_on_host = true;
  activations_[i].host_bytes = activations_[i].bytes;
  activations_[i].is_leaving = !has_run_[i];
  if (!has_run_[i]) return absl::OkStatus();
  if (IsInUse(i)) return Fault(absl::StrCat("x_", i, " leaves while an operation uses it"));
  GiveBack(i);
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

absl::Status ScheduleWalk::Walk() {
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
