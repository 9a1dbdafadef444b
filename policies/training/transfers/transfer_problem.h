// SPDX-License-Identifier: Apache-2.0
// TransferProblem: operations that run one after the other, and data that may be away from the
// device between two uses. Chains and task graphs are both turned into it.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_PROBLEM_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidepool::transfers {

// The time between two uses of a datum, in which it may be away. Operations are counted: the
// absence begins when `left` of them have ended, and ends when operation `needed` starts.
struct Absence {
  std::int64_t bytes = 0;
  std::size_t written = 0;  // its copy out may start when this number of operations have ended
  std::size_t left = 0;     // its memory is free when this number have ended, and its copy out
  std::size_t needed = 0;   // its copy in ends before this operation starts
  double out_seconds = 0;   // of the copy to the host; 0: the host has a copy already
  double in_seconds = 0;
  bool begins_away = false;  // it is on the host when the first operation starts
  bool ends_away = false;    // it is sent after its last use, and there is no copy in
  bool is_at_home = false;   // its home is the device: a search begins with it there if it can

  // Whether it is away in every schedule.
  bool is_always_away() const { return begins_away || ends_away; }

  friend bool operator==(const Absence&, const Absence&) = default;
};

struct TransferProblem {
  std::vector<double> seconds;  // of operations 0, 1, ..., n - 1
  // Bytes of device memory while operation k runs, and those while no operation runs and k have
  // ended, if no datum is away. They have n and n + 1 numbers.
  std::vector<std::int64_t> running_bytes;
  std::vector<std::int64_t> resting_bytes;
  std::vector<Absence> absences;
  std::int64_t memory_bytes = 0;
  bool full_duplex = false;  // a copy out and a copy in run beside each other

  friend bool operator==(const TransferProblem&, const TransferProblem&) = default;
};

// A start in a schedule of the problem.
struct TransferAction {
  enum class Kind : std::uint8_t { kOperation, kOut, kIn };

  Kind kind = Kind::kOperation;
  std::size_t index = 0;  // of the operation or the absence
  double start_seconds = 0;

  friend bool operator==(const TransferAction&, const TransferAction&) = default;
};

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_PROBLEM_H_
