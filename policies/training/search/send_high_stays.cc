// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/send_high_stays.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "policies/training/transfers/transfer_dispatch.h"

namespace tidepool::search {
namespace {

using schedule::HighStay;
using transfers::Absence;

class StaySender {
 public:
  StaySender(const Schedule& schedule, const transfers::GoOn& go_on,
             transfers::Iteration& iteration)
      : go_on_(go_on),
        iteration_(iteration),
        absences_(iteration.problem.transfers.absences),
        dispatcher_(iteration.problem.transfers),
        runs_before_({0}) {
    for (const ScheduleStep& step : schedule.steps) {
      runs_before_.push_back(runs_before_.back() + (step.kind == StepKind::kRun ? 1 : 0));
    }
  }

  // Much smaller stays come after the large ones, so they find room when those do.
  bool Send(std::vector<HighStay> stays) {
    constexpr std::int64_t kMuchSmaller = 16;
    std::stable_sort(stays.begin(), stays.end(), [](const HighStay& a, const HighStay& b) {
      return a.bytes_above > b.bytes_above;
    });
    for (const HighStay& stay : stays) {
      if (has_ended_ || stay.bytes_above < stays.front().bytes_above / kMuchSmaller) break;
      if (!FindsRoom(stay)) SendFor(stay);
    }
    return !rooms_.empty();
  }

 private:
  // Bytes that a datum leaves free between two uses.
  struct Room {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int64_t bytes = 0;
  };

  std::size_t Begin(const HighStay& stay) const {
    return runs_before_[static_cast<std::size_t>(std::max<std::int64_t>(stay.first_step, 0))];
  }
  std::size_t End(const HighStay& stay) const {
    return runs_before_[static_cast<std::size_t>(stay.end_step)];
  }

  bool FindsRoom(const HighStay& stay) {
    const auto room = std::find_if(rooms_.begin(), rooms_.end(), [&](const Room& one) {
      return one.begin <= Begin(stay) && End(stay) <= one.end && one.bytes >= stay.bytes_above;
    });
    if (room == rooms_.end()) return false;
    room->bytes -= stay.bytes_above;
    return true;
  }

  // Whether an absence is one of the stay's own datum while it stays.
  bool IsOwn(const HighStay& stay, std::size_t absence) const {
    return stay.key.kind == StepKind::kAllocate &&
           stay.key.index == iteration_.problem.moved[absence].data &&
           Begin(stay) <= absences_[absence].left && absences_[absence].needed <= End(stay);
  }
  bool MakesRoom(const HighStay& stay, std::size_t absence) const {
    return absences_[absence].left <= Begin(stay) && End(stay) <= absences_[absence].needed &&
           absences_[absence].bytes >= stay.bytes_above;
  }

  void SendFor(const HighStay& stay) {
    double least = std::numeric_limits<double>::infinity();
    std::size_t best = absences_.size();
    for (std::size_t absence = 0; absence < absences_.size() && !has_ended_; ++absence) {
      if (iteration_.is_away[absence] || absences_[absence].is_always_away()) continue;
      if (!IsOwn(stay, absence) && !MakesRoom(stay, absence)) continue;
      iteration_.is_away[absence] = true;
      const double seconds = dispatcher_.RunWithin(least, iteration_.is_away);
      iteration_.is_away[absence] = false;
      has_ended_ = !go_on_(iteration_.runs.size() + absences_.size());
      const bool is_equal = seconds == least && best < absences_.size();
      if (seconds > least || seconds == std::numeric_limits<double>::infinity()) continue;
      if (is_equal && absences_[absence].bytes >= absences_[best].bytes) continue;
      least = seconds;
      best = absence;
    }
    if (best == absences_.size()) return;
    const Absence& sent = absences_[best];
    iteration_.is_away[best] = true;
    rooms_.push_back(
        {sent.left, sent.needed, IsOwn(stay, best) ? 0 : sent.bytes - stay.bytes_above});
  }

  const transfers::GoOn& go_on_;
  bool has_ended_ = false;
  transfers::Iteration& iteration_;
  const std::vector<Absence>& absences_;
  transfers::TransferDispatcher dispatcher_;
  std::vector<std::size_t> runs_before_;  // by step, and the end
  std::vector<Room> rooms_;
};

}  // namespace

bool SendHighStays(const Schedule& schedule, const std::vector<HighStay>& high_stays,
                   const transfers::GoOn& go_on, transfers::Iteration& iteration) {
  return StaySender(schedule, go_on, iteration).Send(high_stays);
}

}  // namespace tidepool::search
