// SPDX-License-Identifier: Apache-2.0
// Random problems of transfers. Times are whole seconds, so sums are exact.
#ifndef TIDEPOOL_TESTS_POLICIES_TRAINING_TRANSFERS_RANDOM_TRANSFERS_H_
#define TIDEPOOL_TESTS_POLICIES_TRAINING_TRANSFERS_RANDOM_TRANSFERS_H_

#include <algorithm>
#include <cstdint>
#include <random>

#include "policies/training/transfers/transfer_problem.h"

namespace tidepool::testing {

class RandomTransfers {
 public:
  explicit RandomTransfers(std::uint64_t seed) : random_(seed) {}

  std::int64_t Below(std::int64_t bound) {
    return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_);
  }

  // Lets data begin or end away where its absence is at an end of the iteration.
  void LetDataBeAwayAtEnds(transfers::TransferProblem& problem) {
    for (transfers::Absence& absence : problem.absences) {
      absence.begins_away = absence.left == 0 && Below(2) == 0;
      if (absence.begins_away) absence.out_seconds = 0;
      const bool is_last = absence.needed == problem.seconds.size() && !absence.begins_away;
      absence.ends_away = is_last && Below(2) == 0;
    }
  }

  // Returns a problem of data that lives around its absences, with a memory that most operations
  // fit when all of it is away.
  transfers::TransferProblem Next(std::size_t operations, std::size_t absences) {
    transfers::TransferProblem problem;
    for (std::size_t k = 0; k < operations; ++k) {
      problem.seconds.push_back(static_cast<double>(Below(4)));
      problem.running_bytes.push_back(Below(4));
    }
    problem.resting_bytes.assign(operations + 1, 0);
    for (std::size_t g = 0; g < absences; ++g) AddAbsence(problem);
    std::int64_t most = 0;
    for (const std::int64_t bytes : problem.running_bytes) most = std::max(most, bytes);
    // The iteration starts with its data in memory.
    problem.memory_bytes = std::max(most - Below(most / 2 + 1), problem.resting_bytes.front());
    problem.full_duplex = Below(2) == 0;
    return problem;
  }

 private:
  void AddAbsence(transfers::TransferProblem& problem) {
    const auto operations = static_cast<std::int64_t>(problem.seconds.size());
    transfers::Absence absence;
    absence.bytes = 1 + Below(6);
    absence.written = static_cast<std::size_t>(Below(operations - 1));
    absence.left =
        absence.written +
        static_cast<std::size_t>(Below(operations - static_cast<std::int64_t>(absence.written)));
    absence.needed =
        absence.left +
        static_cast<std::size_t>(Below(operations + 1 - static_cast<std::int64_t>(absence.left)));
    absence.out_seconds = static_cast<double>(Below(4));
    absence.in_seconds = static_cast<double>(Below(4));
    // From the operation that writes it to the one that needs it.
    const std::size_t first = absence.written == 0 ? 0 : absence.written - 1;
    const std::size_t last = std::min(absence.needed, problem.seconds.size() - 1);
    for (std::size_t k = first; k <= last; ++k) problem.running_bytes[k] += absence.bytes;
    for (std::size_t k = absence.written; k <= last; ++k) problem.resting_bytes[k] += absence.bytes;
    if (absence.needed == problem.seconds.size()) problem.resting_bytes.back() += absence.bytes;
    problem.absences.push_back(absence);
  }

  std::mt19937_64 random_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_POLICIES_TRAINING_TRANSFERS_RANDOM_TRANSFERS_H_
