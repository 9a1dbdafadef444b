// SPDX-License-Identifier: Apache-2.0
// PhaseWalk: follows the phases of a trace (phases.h) from event to event.
#ifndef TIDEPOOL_LIB_TRACE_PLAN_FILES_PHASE_WALK_H_
#define TIDEPOOL_LIB_TRACE_PLAN_FILES_PHASE_WALK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/trace/trace.h"

namespace tidepool::plan_files {

// Numbers phases in the order of their first times, and times in their own order.
class PhaseWalk {
 public:
  explicit PhaseWalk(const Trace& trace) : trace_(trace), has_end_(trace.mark_names.size()) {
    for (const TraceEvent& event : trace.events) {
      if (event.kind == TraceEvent::Kind::kMarkEnd) has_end_[event.index] = true;
    }
  }

  // Goes on to the next event. Outside of phases, the first request or free begins a time.
  void Step(const TraceEvent& event) {
    if (event.kind == TraceEvent::Kind::kMark) {
      if (open_.empty()) Begin(trace_.mark_names[event.index]);
      if (has_end_[event.index]) open_.push_back(event.index);
    } else if (event.kind == TraceEvent::Kind::kMarkEnd) {
      End(event.index);
    } else if (event.TouchesMemory() && !now_.has_value()) {
      Begin("");
    }
  }

  // Returns the time of the last event; no value outside of phases before a request or free.
  std::optional<std::size_t> now() const { return now_; }
  // Return the phase of each time so far, and the names of the phases.
  const std::vector<std::size_t>& times() const { return times_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  // Ends the last open span of a mark. The end of one that began before the trace does nothing.
  void End(std::uint32_t mark) {
    const auto last = std::find(open_.rbegin(), open_.rend(), mark);
    if (last == open_.rend()) return;
    open_.erase(std::next(last).base());
    if (open_.empty()) now_ = std::nullopt;
  }
  void Begin(std::string_view name) {
    const auto [it, is_new] = numbers_.try_emplace(std::string(name), names_.size());
    if (is_new) names_.push_back(it->first);
    now_ = times_.size();
    times_.push_back(it->second);
  }

  const Trace& trace_;
  std::vector<bool> has_end_;  // by mark: it begins spans
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> names_;
  std::vector<std::size_t> times_;
  std::vector<std::uint32_t> open_;  // the marks of open spans
  std::optional<std::size_t> now_;
};

}  // namespace tidepool::plan_files

#endif  // TIDEPOOL_LIB_TRACE_PLAN_FILES_PHASE_WALK_H_
