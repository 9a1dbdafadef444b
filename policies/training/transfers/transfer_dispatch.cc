// SPDX-License-Identifier: Apache-2.0
// Starts the first that can: the next operation, the next copy out, or the next copy in.
#include "policies/training/transfers/transfer_dispatch.h"

#include <algorithm>
#include <numeric>

#include "lib/base/arithmetic.h"
#include "policies/training/transfers/sort_by_key.h"

namespace tidepool::transfers {

TransferDispatcher::TransferDispatcher(const TransferProblem& problem)
    : problem_(problem),
      by_written_(problem.absences.size()),
      by_needed_(problem.absences.size()),
      operation_tails_(problem.seconds.size() + 1),
      out_tails_(problem.absences.size()),
      in_tails_(problem.absences.size()) {
  for (std::size_t k = operations(); k-- > 0;) {
    operation_tails_[k] = operation_tails_[k + 1] + problem.seconds[k];
  }
  std::iota(by_written_.begin(), by_written_.end(), std::size_t{0});
  std::iota(by_needed_.begin(), by_needed_.end(), std::size_t{0});
  // The datum that is needed last goes first if two can be sent at the same time. It is the other
  // way round for data that comes back.
  const std::size_t keys = operations() + 1;
  const auto written = [&](std::size_t absence) { return problem.absences[absence].written; };
  const auto needed = [&](std::size_t absence) { return problem.absences[absence].needed; };
  SortByKey(
      keys, [&](std::size_t absence) { return operations() - needed(absence); }, by_written_);
  SortByKey(keys, written, by_written_);
  SortByKey(
      keys, [&](std::size_t absence) { return operations() - written(absence); }, by_needed_);
  SortByKey(keys, needed, by_needed_);
  for (std::size_t absence = 0; absence < problem.absences.size(); ++absence) {
    if (problem.absences[absence].is_always_away()) always_away_.push_back(absence);
    if (problem.absences[absence].begins_away) begin_away_bytes_ += problem.absences[absence].bytes;
  }
  std::erase_if(by_written_,
                [&](std::size_t absence) { return problem.absences[absence].begins_away; });
  std::erase_if(by_needed_,
                [&](std::size_t absence) { return problem.absences[absence].ends_away; });
}

void TransferDispatcher::Begin(const std::vector<bool>& is_away) {
  window_.clear();
  window_begin_ = window_end_ = started_ = next_out_ = next_in_ = 0;
  last_start_ = busy_until_ = out_until_ = in_until_ = fetched_until_ = sending_until_ = 0;
  last_needed_ = kNothing;
  away_ = begin_away_bytes_;
  fetched_ = held_ = 0;
  held_until_.assign(operations() + 1, 0);
  sent_at_.assign(problem_.absences.size(), kNever);
  is_moved_.assign(is_away.begin(), is_away.end());
  for (const std::size_t absence : always_away_) is_moved_[absence] = 1;
  // Without branches, which a processor could not predict.
  std::size_t outs = 0;
  outs_.resize(by_written_.size());
  for (const std::size_t absence : by_written_) {
    outs_[outs] = absence;
    outs += is_moved_[absence];
  }
  outs_.resize(outs);
  std::size_t ins = 0;
  ins_.resize(by_needed_.size());
  for (const std::size_t absence : by_needed_) {
    ins_[ins] = absence;
    ins += is_moved_[absence];
  }
  ins_.resize(ins);
}

// While operation k runs, running_bytes[k] less the bytes that have left so far, plus those that
// were fetched so far, are in use. Both sums only grow: a datum that came back is in both. So at
// most memory_bytes - running_bytes[k] + left bytes may have been fetched. Returns false where the
// data that is needed alone is too much.
bool TransferDispatcher::FindLimits() {
  // First the bytes that leave before each operation, then the limits.
  most_fetched_.assign(operations() + 1, 0);
  for (const std::size_t i : ins_) {
    const Absence& absence = problem_.absences[i];
    most_fetched_[absence.left] += absence.bytes;
  }
  for (const std::size_t i : always_away_) {
    const Absence& absence = problem_.absences[i];
    if (absence.ends_away) most_fetched_[absence.left] += absence.bytes;
  }
  std::int64_t left = 0;
  std::int64_t fetched = 0;
  auto next = ins_.begin();
  for (std::size_t k = 0; k < operations(); ++k) {
    left += most_fetched_[k];
    most_fetched_[k] = problem_.memory_bytes - problem_.running_bytes[k] + left;
    for (; next != ins_.end() && problem_.absences[*next].needed <= k; ++next) {
      fetched += problem_.absences[*next].bytes;
    }
    if (fetched > most_fetched_[k]) return false;
  }
  return true;
}

// Copies go in their order, one after the other. The operation that needs one starts after it.
void TransferDispatcher::FindTails() {
  copy_seconds_ = 0;
  double tail = 0;
  for (std::size_t i = ins_.size(); i-- > 0;) {
    const Absence& absence = problem_.absences[ins_[i]];
    tail = absence.in_seconds + std::max(tail, operation_tails_[absence.needed]);
    in_tails_[ins_[i]] = tail;
    copy_seconds_ += absence.in_seconds;
  }
  tail = 0;
  for (std::size_t i = outs_.size(); i-- > 0;) {
    tail = problem_.absences[outs_[i]].out_seconds + std::max(tail, in_tails_[outs_[i]]);
    out_tails_[outs_[i]] = tail;
    copy_seconds_ += problem_.absences[outs_[i]].out_seconds;
  }
}

// Returns the most bytes that may have been fetched before operation `needed`, by the limits of the
// operations from the next one on.
std::int64_t TransferDispatcher::MostFetched(std::size_t needed) {
  for (; window_end_ < std::min(needed, operations()); ++window_end_) {
    while (window_.size() > window_begin_ &&
           most_fetched_[window_.back()] >= most_fetched_[window_end_]) {
      window_.pop_back();
    }
    window_.push_back(window_end_);
  }
  while (window_begin_ < window_.size() && window_[window_begin_] < started_) ++window_begin_;
  return window_begin_ == window_.size() ? std::numeric_limits<std::int64_t>::max()
                                         : most_fetched_[window_[window_begin_]];
}

// Returns the bytes in use at `time`, which is not before the last start.
std::int64_t TransferDispatcher::Used(double time) const {
  const bool runs = time < busy_until_;
  const std::size_t ended = started_ - (runs ? 1 : 0);
  std::int64_t used = runs ? problem_.running_bytes[ended] : problem_.resting_bytes[ended];
  used += held_ - away_;
  if (runs) used += held_until_[started_];
  if (sending_until_ > time && sending_left_ <= ended) used += sending_bytes_;
  return used;
}

// Returns the first moment from `time` on at which `bytes` are free.
double TransferDispatcher::WhenFree(std::int64_t bytes, double time) const {
  while (Used(time) > problem_.memory_bytes - bytes) {
    double next = busy_until_ > time ? busy_until_ : kNever;
    if (sending_until_ > time) next = std::min(next, sending_until_);
    if (next == kNever) return kNever;
    time = next;
  }
  return time;
}

double TransferDispatcher::OperationStart() const {
  if (started_ == operations() || next_needed_ <= started_) return kNever;
  double time = std::max(busy_until_, last_start_);
  if (last_needed_ <= started_) time = std::max(time, fetched_until_);
  return WhenFree(problem_.running_bytes[started_] - problem_.resting_bytes[started_], time);
}

double TransferDispatcher::OutStart() const {
  if (next_out_from_ > started_) return kNever;
  const double time = std::max(out_until_, last_start_);
  return next_out_from_ == started_ ? std::max(time, busy_until_) : time;
}

double TransferDispatcher::InStart() {
  if (next_in_from_ > started_) return kNever;
  const Absence& absence = NextIn();
  double time = std::max(in_until_, last_start_);
  if (!absence.begins_away) {
    if (sent_at_[ins_[next_in_]] == kNever) return kNever;
    time = std::max(time, sent_at_[ins_[next_in_]]);
  }
  if (absence.left == started_) time = std::max(time, busy_until_);
  if (fetched_ + absence.bytes > MostFetched(absence.needed)) return kNever;
  return WhenFree(absence.bytes, time);
}

// Finds the operations from which on the next copies may start.
void TransferDispatcher::FindNext() {
  const bool has_out = next_out_ < outs_.size();
  next_out_from_ = has_out ? problem_.absences[outs_[next_out_]].written : kNothing;
  next_in_from_ = next_needed_ = kNothing;
  if (next_in_ == ins_.size()) return;
  const Absence& in = NextIn();
  next_needed_ = in.needed;
  // On a link of one direction at a time a copy in delays copies out, which operations wait for.
  // Data that begins away must come in any case: after all copies out it would come late.
  const bool delays =
      !problem_.full_duplex && !in.begins_away && has_out && next_out_from_ <= in.needed;
  next_in_from_ = delays ? std::max(in.left, in.needed) : in.left;
}

void TransferDispatcher::StartOperation(double time) {
  if (actions_ != nullptr) {
    actions_->push_back({TransferAction::Kind::kOperation, started_, time});
  }
  busy_until_ = time + problem_.seconds[started_++];
  last_start_ = time;
  held_ -= held_until_[started_];
}

void TransferDispatcher::StartOut(double time) {
  const std::size_t i = outs_[next_out_++];
  const Absence& absence = problem_.absences[i];
  copy_seconds_ -= absence.out_seconds;
  if (actions_ != nullptr) actions_->push_back({TransferAction::Kind::kOut, i, time});
  out_until_ = time + absence.out_seconds;
  if (!problem_.full_duplex) in_until_ = out_until_;
  last_start_ = time;
  away_ += absence.bytes;
  sent_at_[i] = sending_until_ = out_until_;
  sending_bytes_ = absence.bytes;
  sending_left_ = absence.left;
  FindNext();
  if (absence.left < started_) return;
  held_until_[absence.left] += absence.bytes;
  if (absence.left > started_) held_ += absence.bytes;
}

void TransferDispatcher::StartIn(double time) {
  const std::size_t i = ins_[next_in_++];
  const Absence& absence = problem_.absences[i];
  copy_seconds_ -= absence.in_seconds;
  if (actions_ != nullptr) actions_->push_back({TransferAction::Kind::kIn, i, time});
  in_until_ = fetched_until_ = time + absence.in_seconds;
  if (!problem_.full_duplex) out_until_ = in_until_;
  last_start_ = time;
  away_ -= absence.bytes;
  fetched_ += absence.bytes;
  last_needed_ = absence.needed;
  FindNext();
}

double TransferDispatcher::Run(const std::vector<bool>& is_away,
                               std::vector<TransferAction>* actions) {
  actions_ = actions;
  return RunUntil(kNever, is_away);
}

double TransferDispatcher::RunWithin(double most_seconds, const std::vector<bool>& is_away) {
  actions_ = nullptr;
  return RunUntil(most_seconds * (1 + kEqualSeconds), is_away);
}

double TransferDispatcher::RunUntil(double most_seconds, const std::vector<bool>& is_away) {
  Begin(is_away);
  if (!FindLimits()) return kNever;
  if (most_seconds < kNever) FindTails();
  FindNext();
  while (started_ < operations() || next_in_ < ins_.size() || next_out_ < outs_.size()) {
    const double operation = OperationStart();
    const double out = OutStart();
    const double in = InStart();
    const double first = std::min({operation, out, in});
    if (first == kNever) return kNever;
    double tail = 0;
    if (operation == first) {
      tail = operation_tails_[started_];
      StartOperation(first);
    } else if (out == first) {
      tail = CopyTail(out_tails_[outs_[next_out_]]);
      StartOut(first);
    } else {
      tail = CopyTail(in_tails_[ins_[next_in_]]);
      StartIn(first);
    }
    if (first + tail > most_seconds) return kNever;
  }
  return std::max({busy_until_, in_until_, out_until_});
}

}  // namespace tidepool::transfers
