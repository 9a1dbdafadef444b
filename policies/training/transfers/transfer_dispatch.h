// SPDX-License-Identifier: Apache-2.0
// TransferDispatcher: finds the times of copies when the absences are given. Data leaves as soon as
// it can, and comes back as soon as no later operation lacks memory because of it.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_DISPATCH_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_DISPATCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "policies/training/transfers/transfer_problem.h"

namespace tidepool::transfers {

// Not thread-safe: it keeps its lists between calls.
class TransferDispatcher {
 public:
  // `problem` must outlive the dispatcher.
  explicit TransferDispatcher(const TransferProblem& problem);

  // Returns the makespan when the data of absences with `is_away[absence]` is away, or infinity
  // when an operation does not fit. Data that begins or ends away always is. Writes the actions, by
  // start, where `actions` is not null. Data is sent in the order in which it is written, and
  // fetched in the order in which it is needed. On a link of one direction at a time, everything is
  // sent before anything is fetched but data that begins away. O(operations + absences).
  double Run(const std::vector<bool>& is_away, std::vector<TransferAction>* actions = nullptr);

  // Returns the makespan as Run does if it is at most `most_seconds`. A longer one may come back as
  // infinity: the schedule is left as soon as the operations and copies that remain take too long.
  double RunWithin(double most_seconds, const std::vector<bool>& is_away);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::size_t kNothing = std::numeric_limits<std::size_t>::max();

  double RunUntil(double most_seconds, const std::vector<bool>& is_away);
  void Begin(const std::vector<bool>& is_away);
  bool FindLimits();
  void FindTails();
  void FindNext();
  std::int64_t Used(double time) const;
  double WhenFree(std::int64_t bytes, double time) const;
  double OperationStart() const;
  double OutStart() const;
  double InStart();
  // Returns the seconds that remain when a copy with a tail starts.
  double CopyTail(double tail) const {
    return problem_.full_duplex ? tail : std::max(tail, copy_seconds_);
  }
  std::int64_t MostFetched(std::size_t needed);
  void StartOperation(double time);
  void StartOut(double time);
  void StartIn(double time);

  const Absence& NextIn() const { return problem_.absences[ins_[next_in_]]; }
  std::size_t operations() const { return problem_.seconds.size(); }

  const TransferProblem& problem_;
  // Absences that do not begin away, in the order in which they can be sent.
  std::vector<std::size_t> by_written_;
  std::vector<std::size_t> by_needed_;    // absences, in the order in which they end
  std::vector<std::size_t> always_away_;  // absences
  std::int64_t begin_away_bytes_ = 0;
  // Seconds that remain when an operation starts: of it and of all later ones.
  std::vector<double> operation_tails_;

  std::vector<TransferAction>* actions_ = nullptr;
  std::vector<std::uint8_t> is_moved_;  // by absence: 1 where its data is away; bits take longer
  std::vector<std::size_t> outs_;
  std::vector<std::size_t> ins_;
  // Seconds that remain at least when the copy of an absence starts.
  std::vector<double> out_tails_;
  std::vector<double> in_tails_;
  double copy_seconds_ = 0;  // of the copies that have not started
  // By operation: the bytes that may be fetched before it, with those that are needed before it.
  std::vector<std::int64_t> most_fetched_;
  // Operations of which each has a smaller limit than those before it: the least of a window is
  // that of its first one.
  std::vector<std::size_t> window_;
  std::size_t window_begin_ = 0;  // in window_
  std::size_t window_end_ = 0;    // the next operation
  std::vector<double> sent_at_;   // by absence: the end of the copy out; kNever: not started
  // Of the last copy out, which may have ended: its end, its bytes, and its absence's `left`.
  double sending_until_ = 0;
  std::int64_t sending_bytes_ = 0;
  std::size_t sending_left_ = 0;
  // Bytes that were sent before their last use, by the operations that have ended when they leave.
  // `held_` is the sum of those that leave after the end of the operations that have started.
  std::vector<std::int64_t> held_until_;
  std::int64_t held_ = 0;
  std::size_t started_ = 0;  // operations
  // Numbers of started operations; kNothing: no such copy is left.
  std::size_t next_out_from_ = kNothing;  // operations before the next copy out may start
  std::size_t next_in_from_ = kNothing;   // the next copy in
  std::size_t next_needed_ = kNothing;    // operations before which the next copy in has ended
  std::size_t last_needed_ = kNothing;    // and the last one that started
  std::size_t next_out_ = 0;
  std::size_t next_in_ = 0;
  double last_start_ = 0;
  double busy_until_ = 0;
  double out_until_ = 0;  // from then on the link is free for a copy out, or in
  double in_until_ = 0;
  double fetched_until_ = 0;  // the end of the last copy in
  std::int64_t away_ = 0;     // bytes that were sent and not fetched
  std::int64_t fetched_ = 0;  // bytes that were fetched
};

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_DISPATCH_H_
