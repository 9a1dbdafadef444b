// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/check/link_windows.h"

#include <algorithm>

namespace tidepool::schedule {
namespace {

// The absences at one position, by the moments that decide whether their bytes must cross the link.
class OpenGaps {
 public:
  explicit OpenGaps(std::size_t positions) : begun_at_(positions), written_at_(positions) {}

  void Open(const Absence& absence) { Add(absence, absence.bytes); }
  void Close(const Absence& absence) { Add(absence, -absence.bytes); }

  std::int64_t bytes() const { return bytes_; }
  std::int64_t clean_bytes() const { return bytes_ - dirty_bytes_; }
  // Bytes that begin at a position, and bytes of data without a copy on the host that is written
  // when that number of tasks have ended.
  std::int64_t begun_at(std::size_t position) const { return begun_at_[position]; }
  std::int64_t written_at(std::size_t tasks) const { return written_at_[tasks]; }
  std::int64_t dirty_bytes() const { return dirty_bytes_; }

 private:
  void Add(const Absence& absence, std::int64_t bytes) {
    bytes_ += bytes;
    begun_at_[absence.begin] += bytes;
    if (absence.is_clean) return;
    dirty_bytes_ += bytes;
    written_at_[absence.written] += bytes;
  }

  std::int64_t bytes_ = 0;
  std::int64_t dirty_bytes_ = 0;
  std::vector<std::int64_t> begun_at_;
  std::vector<std::int64_t> written_at_;
};

class WindowWalk {
 public:
  WindowWalk(const std::vector<TaskInOrder>& tasks, const std::vector<Absence>& absences,
             std::int64_t memory_bytes, const MachineLink& link)
      : tasks_(tasks),
        memory_bytes_(memory_bytes),
        link_(link),
        open_(tasks.size() + 1),
        opening_(tasks.size() + 1),
        closing_(tasks.size() + 2),
        away_(tasks.size() + 1),
        most_sent_(tasks.size() + 1),
        ended_(tasks.size() + 1) {
    for (const Absence& absence : absences) {
      opening_[absence.begin].push_back(&absence);
      closing_[absence.end].push_back(&absence);
    }
  }

  double Find() {
    for (std::size_t position = 0; position < tasks_.size(); ++position) {
      ended_[position + 1] = StartOf(position) + tasks_[position].seconds;
    }
    return StartOf(tasks_.size());
  }

 private:
  double StartOf(std::size_t position) {
    for (const Absence* absence : closing_[position]) open_.Close(*absence);
    for (const Absence* absence : opening_[position]) open_.Open(*absence);
    away_[position] = AwayAt(position);
    if (position < tasks_.size()) arrived_ += tasks_[position].arriving_bytes;
    return AfterWindows(position);
  }

  // Returns the bytes that must be away at a position. At the end it is the data that ends on the
  // host.
  std::int64_t AwayAt(std::size_t position) const {
    if (position == tasks_.size()) return open_.bytes();
    const std::int64_t excess = tasks_[position].own_bytes + open_.bytes() - memory_bytes_;
    return std::clamp<std::int64_t>(excess, 0, open_.bytes());
  }

  // Returns the least start of the task at a position, after all windows that end with it. A window
  // begins when `ended` tasks have ended.
  double AfterWindows(std::size_t position) {
    const bool is_last = position == tasks_.size();
    const std::size_t first = is_last || position < kLongestWindow ? 0 : position - kLongestWindow;
    const std::int64_t sent = away_[position] - open_.clean_bytes();
    std::int64_t written_before = open_.dirty_bytes();
    std::int64_t needed_later = open_.bytes();  // of the data that is unused since a position
    std::int64_t fetched = 0;
    double start = 0;
    for (std::size_t ended = position + 1; ended-- > first;) {
      written_before -= open_.written_at(ended);
      needed_later -= open_.begun_at(ended);
      if (ended > 0) fetched = std::max(fetched, away_[ended - 1] - needed_later);
      most_sent_[ended] = std::max(most_sent_[ended], sent - written_before);
      start = std::max(start, ended_[ended] + SecondsOf(most_sent_[ended], fetched));
    }
    most_sent_[0] = std::max(most_sent_[0], sent);
    return std::max(start, SecondsOf(most_sent_[0], std::max(fetched, arrived_)));
  }

  // Returns the time of copies in both directions.
  double SecondsOf(std::int64_t out, std::int64_t in) const {
    const double out_seconds = CopySeconds(out, link_.out_bytes_per_second);
    const double in_seconds = CopySeconds(in, link_.in_bytes_per_second);
    return link_.full_duplex ? std::max(out_seconds, in_seconds) : out_seconds + in_seconds;
  }
  double CopySeconds(std::int64_t bytes, double rate) const {
    return bytes <= 0 ? 0 : link_.latency_seconds + static_cast<double>(bytes) / rate;
  }

  const std::vector<TaskInOrder>& tasks_;
  const std::int64_t memory_bytes_;
  const MachineLink& link_;
  OpenGaps open_;
  std::vector<std::vector<const Absence*>> opening_;  // by position
  std::vector<std::vector<const Absence*>> closing_;
  std::vector<std::int64_t> away_;       // by position: bytes that must be away
  std::vector<std::int64_t> most_sent_;  // by ended tasks: bytes that are sent from then on
  std::vector<double> ended_;            // by ended tasks: the least time until then
  std::int64_t arrived_ = 0;
};

}  // namespace

double LeastSecondsOfTasks(const std::vector<TaskInOrder>& tasks,
                           const std::vector<Absence>& absences, std::int64_t memory_bytes,
                           const MachineLink& link) {
  return WindowWalk(tasks, absences, memory_bytes, link).Find();
}

}  // namespace tidepool::schedule
