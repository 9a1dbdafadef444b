// SPDX-License-Identifier: Apache-2.0
// A slow model of transfers: the memory at a moment from the actions alone, and the best of all
// schedules by trying every order of starts.
#ifndef TIDEPOOL_TESTS_POLICIES_TRAINING_TRANSFERS_SLOW_TRANSFERS_H_
#define TIDEPOOL_TESTS_POLICIES_TRAINING_TRANSFERS_SLOW_TRANSFERS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "policies/training/transfers/transfer_problem.h"

namespace tidepool::testing {

using transfers::Absence;
using transfers::TransferAction;
using transfers::TransferProblem;

inline double DurationOf(const TransferProblem& problem, const TransferAction& action) {
  if (action.kind == TransferAction::Kind::kOperation) return problem.seconds[action.index];
  const Absence& absence = problem.absences[action.index];
  return action.kind == TransferAction::Kind::kOut ? absence.out_seconds : absence.in_seconds;
}

// Looks at a list of actions as a whole.
class SlowTransfers {
 public:
  SlowTransfers(const TransferProblem& problem, const std::vector<TransferAction>& actions)
      : problem_(problem), actions_(actions) {}

  double EndOf(TransferAction::Kind kind, std::size_t index) const {
    double end = kNever;
    for (const TransferAction& one : actions_) {
      if (one.kind == kind && one.index == index) {
        end = one.start_seconds + DurationOf(problem_, one);
      }
    }
    return end;
  }
  double EndOfAll() const {
    double end = 0;
    for (const TransferAction& one : actions_) {
      end = std::max(end, one.start_seconds + DurationOf(problem_, one));
    }
    return end;
  }

  // Returns the bytes in use right after `time`, with the first `count` actions. An operation that
  // takes no time runs at its start, if it is the last of these.
  std::int64_t Used(double time, std::size_t count) const {
    std::size_t ended = 0;
    bool runs = false;
    std::set<std::size_t> away;
    for (std::size_t g = 0; g < problem_.absences.size(); ++g) {
      if (problem_.absences[g].begins_away) away.insert(g);
    }
    for (std::size_t k = 0; k < count; ++k) {
      const TransferAction& one = actions_[k];
      if (one.kind != TransferAction::Kind::kOperation) continue;
      const bool has_ended =
          one.start_seconds + DurationOf(problem_, one) <= time && k + 1 != count;
      ended += has_ended ? 1 : 0;
      runs |= !has_ended;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const TransferAction& one = actions_[k];
      const bool has_ended = one.start_seconds + DurationOf(problem_, one) <= time;
      if (one.kind == TransferAction::Kind::kIn) away.erase(one.index);
      const bool leaves = one.kind == TransferAction::Kind::kOut && has_ended &&
                          problem_.absences[one.index].left <= ended;
      if (leaves) away.insert(one.index);
    }
    std::int64_t used = runs ? problem_.running_bytes[ended] : problem_.resting_bytes[ended];
    for (const std::size_t g : away) used -= problem_.absences[g].bytes;
    return used;
  }

  // Returns the first rule that is broken, or nothing.
  std::string Fault() const {
    std::vector<double> operations(problem_.seconds.size() + 1, 0);
    double last = 0;
    double busy = 0;
    double out = 0;
    double in = 0;
    std::size_t started = 0;
    std::set<std::size_t> host;
    for (std::size_t g = 0; g < problem_.absences.size(); ++g) {
      if (problem_.absences[g].begins_away) host.insert(g);
    }
    for (std::size_t k = 0; k < actions_.size(); ++k) {
      const TransferAction& one = actions_[k];
      const std::string where = "action " + std::to_string(k) + ": ";
      const double start = one.start_seconds;
      if (start < last) return where + "starts before the one before it";
      last = start;
      if (one.kind == TransferAction::Kind::kOperation) {
        if (one.index != started || start < busy) return where + "operation out of order";
        for (const std::size_t g : host) {
          if (problem_.absences[g].needed <= one.index) return where + "data is away";
        }
        for (std::size_t g = 0; g < problem_.absences.size(); ++g) {
          const double end = EndOf(TransferAction::Kind::kIn, g);
          if (problem_.absences[g].needed == one.index && end < kNever && end > start) {
            return where + "data has not come";
          }
        }
        busy = operations[++started] = start + problem_.seconds[one.index];
      } else if (one.kind == TransferAction::Kind::kOut) {
        const Absence& absence = problem_.absences[one.index];
        if (start < out || (!problem_.full_duplex && start < in)) return where + "link is busy";
        if (absence.written > started || operations[absence.written] > start)
          return where + "not written";
        if (!host.insert(one.index).second) return where + "sent twice";
        out = start + absence.out_seconds;
      } else {
        const Absence& absence = problem_.absences[one.index];
        if (start < in || (!problem_.full_duplex && start < out)) return where + "link is busy";
        if (absence.ends_away) return where + "fetched after its last use";
        if (host.erase(one.index) == 0) return where + "fetched without a copy";
        if (absence.left > started || operations[absence.left] > start)
          return where + "has not left";
        in = start + absence.in_seconds;
      }
      if (Used(start, k + 1) > problem_.memory_bytes) return where + "too much memory";
    }
    bool is_at_end = started == problem_.seconds.size();
    for (std::size_t g = 0; g < problem_.absences.size(); ++g) {
      is_at_end &= problem_.absences[g].ends_away == host.contains(g);
    }
    return is_at_end ? "" : "ends too early";
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const TransferProblem& problem_;
  const std::vector<TransferAction>& actions_;
};

// Returns the least makespan over all orders of starts, each start at the first moment at which no
// rule is broken; infinite when no order ends. Each datum leaves at most once an absence.
class SlowSearch {
 public:
  explicit SlowSearch(const TransferProblem& problem)
      : problem_(problem), sent_(problem.absences.size()), fetched_(problem.absences.size()) {}

  double Search() {
    Next(0);
    return best_;
  }

 private:
  void Next(std::size_t started) {
    const SlowTransfers now(problem_, actions_);
    if (started == problem_.seconds.size()) {
      bool is_back = true;
      for (std::size_t g = 0; g < sent_.size(); ++g) is_back &= !sent_[g] || fetched_[g];
      if (is_back) best_ = std::min(best_, now.EndOfAll());
    } else {
      Try({TransferAction::Kind::kOperation, started, 0}, started + 1);
    }
    for (std::size_t g = 0; g < sent_.size(); ++g) {
      if (!sent_[g]) {
        sent_[g] = true;
        Try({TransferAction::Kind::kOut, g, 0}, started);
        sent_[g] = false;
      } else if (!fetched_[g]) {
        fetched_[g] = true;
        Try({TransferAction::Kind::kIn, g, 0}, started);
        fetched_[g] = false;
      }
    }
  }

  // Starts happen at ends of other actions, or at the last start.
  void Try(TransferAction action, std::size_t started) {
    std::vector<double> moments = {actions_.empty() ? 0 : actions_.back().start_seconds};
    for (const TransferAction& one : actions_) {
      const double end = one.start_seconds + DurationOf(problem_, one);
      if (end > moments.front()) moments.push_back(end);
    }
    std::sort(moments.begin(), moments.end());
    for (const double moment : moments) {
      action.start_seconds = moment;
      actions_.push_back(action);
      const std::string fault = SlowTransfers(problem_, actions_).Fault();
      if (fault.empty() || fault == "ends too early") {
        Next(started);
        actions_.pop_back();
        return;
      }
      actions_.pop_back();
    }
  }

  const TransferProblem& problem_;
  std::vector<bool> sent_;
  std::vector<bool> fetched_;
  std::vector<TransferAction> actions_;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_POLICIES_TRAINING_TRANSFERS_SLOW_TRANSFERS_H_
