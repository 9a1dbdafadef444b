// SPDX-License-Identifier: Apache-2.0
// TransferBounds: lower bounds on the time in which a partial schedule can be completed.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_BOUNDS_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_BOUNDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/training/transfers/transfer_problem.h"

namespace tidepool::transfers {

// The part of a partial schedule that bounds depend on.
struct Progress {
  std::size_t started = 0;  // operations
  double busy_until = 0;    // the end of the last operation
  double out_until = 0;     // the ends of the last copies out and in
  double in_until = 0;
  std::int64_t away_bytes = 0;  // of data that was sent and is not being fetched
};

// Immutable after its construction, so thread-safe.
class TransferBounds {
 public:
  // O(operations + absences), and O(absences) for each operation beside which few may be away.
  explicit TransferBounds(const TransferProblem& problem);

  // Returns the first operation that does not fit even if everything that may be away is away, or
  // the number of operations.
  std::size_t first_unfit() const { return first_unfit_; }
  // Returns the seconds of operations k, k + 1, ...
  double seconds_from(std::size_t k) const { return seconds_from_[k]; }

  // Returns a time before which no completion of the schedule ends. O(critical operations), which
  // are at most kMostCritical.
  double Of(const Progress& progress) const;

 private:
  static constexpr std::size_t kMostCritical = 48;

  struct Critical {
    std::size_t operation = 0;
    double before = 0;      // seconds of operations before it
    std::int64_t sent = 0;  // bytes of data without a copy on the host, at least
    double after = 0;       // its own seconds and the least time after it
  };

  // Data that may be away beside an operation.
  struct Away {
    std::int64_t bytes = 0;
    std::int64_t clean = 0;  // bytes with a copy on the host, without fast ones
    std::int64_t fast = 0;   // bytes of fast copies
    std::int64_t slow = 0;   // number of the others

    void Add(const Away& other) {
      bytes += other.bytes;
      clean += other.clean;
      fast += other.fast;
      slow += other.slow;
    }
  };

  std::vector<Away> MostAway(const TransferProblem& problem) const;
  void FindRates(const TransferProblem& problem);
  bool IsFast(const Absence& absence) const;
  void FindNeeds(const TransferProblem& problem);
  void FindCritical(const TransferProblem& problem);

  std::size_t first_unfit_ = 0;
  // By operation: bytes that must be away while it runs. At least running_bytes less the memory,
  // and a sum of absences where few sums are possible.
  std::vector<std::int64_t> needed_;
  std::vector<std::int64_t> clean_;  // bytes that may be away and have a copy on the host
  std::vector<double> seconds_from_;
  double out_rate_ = 0;  // bytes per second of the fastest copy that is not of small data
  double in_rate_ = 0;
  std::int64_t fast_bytes_ = 0;     // of faster ones
  std::vector<Critical> critical_;  // in the order of operations
};

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_BOUNDS_H_
