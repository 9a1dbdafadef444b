// SPDX-License-Identifier: Apache-2.0
// The bound of windows by hand, and against all windows counted one by one.
#include "lib/training/schedule/check/link_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/rounds.h"

namespace tidepool::schedule {
namespace {

using testing::Rounds;

constexpr std::int64_t kMemory = 100;

bool IsOpen(const Absence& absence, std::size_t position) {
  return absence.begin <= position && position < absence.end;
}

struct Problem {
  std::vector<TaskInOrder> tasks;
  std::vector<Absence> absences;
  MachineLink link;

  double Bound() const { return LeastSecondsOfTasks(tasks, absences, kMemory, link); }

  std::int64_t OpenBytes(std::size_t position) const {
    std::int64_t bytes = 0;
    for (const Absence& absence : absences) bytes += IsOpen(absence, position) ? absence.bytes : 0;
    return bytes;
  }

  // Returns the bytes that must be away at a position.
  std::int64_t Away(std::size_t position) const {
    const std::int64_t open = OpenBytes(position);
    if (position == tasks.size()) return open;
    return std::clamp<std::int64_t>(tasks[position].own_bytes + open - kMemory, 0, open);
  }

  // Returns the bytes that leave for a position and cannot leave before `ended` tasks have ended.
  std::int64_t SentFor(std::size_t position, std::size_t ended) const {
    std::int64_t bytes = Away(position);
    for (const Absence& absence : absences) {
      const bool leaves_before = absence.is_clean || absence.written < ended;
      if (IsOpen(absence, position) && leaves_before) bytes -= absence.bytes;
    }
    return bytes;
  }

  // Returns the bytes that are away at a position and must be back before the task at `needed`.
  std::int64_t FetchedAfter(std::size_t position, std::size_t needed) const {
    std::int64_t bytes = Away(position);
    for (const Absence& absence : absences) {
      if (IsOpen(absence, position) && absence.end > needed) bytes -= absence.bytes;
    }
    return bytes;
  }

  double CopySeconds(std::int64_t bytes, double rate) const {
    return bytes > 0 ? link.latency_seconds + static_cast<double>(bytes) / rate : 0;
  }

  // Returns the seconds of the copies from the end of `ended` tasks to the start of a task.
  double WindowSeconds(std::size_t ended, std::size_t position) const {
    std::int64_t sent = 0;
    for (std::size_t k = ended; k <= position; ++k) sent = std::max(sent, SentFor(k, ended));
    std::int64_t fetched = 0;
    for (std::size_t k = ended == 0 ? 0 : ended - 1; k < position; ++k) {
      fetched = std::max(fetched, FetchedAfter(k, position));
    }
    std::int64_t arrived = 0;
    for (std::size_t k = 0; k < std::min(position + 1, tasks.size()); ++k) {
      arrived += tasks[k].arriving_bytes;
    }
    if (ended == 0) fetched = std::max(fetched, arrived);
    const double out = CopySeconds(sent, link.out_bytes_per_second);
    const double in = CopySeconds(fetched, link.in_bytes_per_second);
    return link.full_duplex ? std::max(out, in) : out + in;
  }

  double SlowBound() const {
    std::vector<double> ended = {0};
    for (std::size_t position = 0;; ++position) {
      double start = 0;
      for (std::size_t from = 0; from <= position; ++from) {
        start = std::max(start, ended[from] + WindowSeconds(from, position));
      }
      if (position == tasks.size()) return start;
      ended.push_back(start + tasks[position].seconds);
    }
  }
};

Problem RandomProblem(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t end) { return static_cast<std::int64_t>(random() % end); };
  Problem problem;
  problem.tasks.resize(1 + random() % 8);
  for (TaskInOrder& task : problem.tasks) {
    task = {static_cast<double>(below(10)), below(120), random() % 4 == 0 ? below(30) : 0};
  }
  const std::size_t positions = problem.tasks.size() + 1;
  for (std::uint64_t count = random() % 10; count > 0; --count) {
    Absence absence = {
        .begin = random() % positions, .bytes = below(60), .is_clean = random() % 4 == 0};
    absence.end = absence.begin + 1 + random() % (positions - absence.begin);
    absence.written = random() % (absence.begin + 1);
    problem.absences.push_back(absence);
  }
  problem.link = {.out_bytes_per_second = 4,
                  .in_bytes_per_second = 8,
                  .latency_seconds = random() % 2 == 0 ? 0.5 : 0,
                  .full_duplex = random() % 2 == 0};
  return problem;
}

TEST(LinkWindows, AreThoseOfTheSlowModel) {
  int raised = 0;
  for (int seed = 0; seed < Rounds(3000); ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = RandomProblem(static_cast<std::uint64_t>(seed));
    const double bound = problem.Bound();
    ASSERT_DOUBLE_EQ(bound, problem.SlowBound());
    double seconds = 0;
    for (const TaskInOrder& task : problem.tasks) seconds += task.seconds;
    raised += bound > seconds ? 1 : 0;
  }
  EXPECT_GT(raised, Rounds(3000) / 4);
}

TEST(LinkWindows, AreEmptyWithoutTasks) {
  EXPECT_EQ(LeastSecondsOfTasks({}, {}, kMemory, {.out_bytes_per_second = 1}), 0);
}

// A datum of the first task goes away while the task in the middle runs.
TEST(LinkWindows, AreBoundedInLongOrders) {
  constexpr std::size_t kTasks = 3 * kLongestWindow;
  Problem problem = {.tasks = std::vector<TaskInOrder>(kTasks, {.own_bytes = 10}),
                     .absences = {{.begin = 1, .end = kTasks - 1, .written = 1, .bytes = 90}},
                     .link = {.out_bytes_per_second = 10, .in_bytes_per_second = 5}};
  problem.tasks[kTasks / 2] = {.seconds = 7, .own_bytes = 60};
  EXPECT_EQ(problem.Bound(), 50 / 10 + 7 + 50 / 5);
}

}  // namespace
}  // namespace tidepool::schedule
