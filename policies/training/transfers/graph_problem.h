// SPDX-License-Identifier: Apache-2.0
// The transfer problem of a task graph: the memory of its operations, and the absences that a
// search can choose from.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_GRAPH_PROBLEM_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_GRAPH_PROBLEM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lib/base/arithmetic.h"
#include "policies/training/transfers/copy_rates.h"
#include "policies/training/transfers/transfer_problem.h"
#include "tidepool/training/graph.h"

namespace tidepool::transfers {

// Small data, and data that is needed again soon, does not leave: such absences are many, and each
// makes little room. Data is small if it is among the smallest data that have 1/kPartOfSmall of all
// bytes together, and has less than kMostSmallBytes. Data is needed again soon if fewer than
// 1/kSoonPart of all runs, and fewer than kMostSoonRuns, come before its next use.
inline constexpr std::int64_t kMostSmallBytes = std::int64_t{256} << 10;
inline constexpr std::int64_t kPartOfSmall = 1000;
inline constexpr std::size_t kMostSoonRuns = 8;
inline constexpr std::size_t kSoonPart = 64;

struct GraphProblemOptions {
  std::int64_t memory_bytes = 0;
  // Bytes that stay free for a plan of addresses. A run that cannot leave twice that free, with all
  // other data away, leaves half as many as it can.
  std::int64_t reserve_bytes = 0;
  std::int64_t granule = 1;
  CopyRates rates = {};
  // By data: the density of compressed copies, -1 for raw ones; empty: all are raw.
  std::vector<double> densities = {};
  // 0: data is copied whole. Otherwise it is copied in parts of this size, rounded up to
  // granules. The memory of a part is free as soon as the part is sent, and a part may be away
  // while others are on the device. A datum has at most kMostParts parts.
  std::int64_t part_bytes = 0;
  bool sends_for_short_times = false;  // data that is needed again soon may leave too
  bool offloads = true;                // false: only data that the host has, or gets, may leave
  bool has_all_absences = false;       // so may small data, and data between two runs in a row
};
inline constexpr std::int64_t kMostParts = 64;

// A run of a task. Tasks that make data again run twice.
struct TaskRun {
  std::size_t task = 0;
  std::size_t algorithm = 0;
};

struct GraphProblem {
  // The memory of a datum ends with a run.
  struct End {
    std::size_t run = 0;
    std::size_t data = 0;
    bool is_kept = false;  // it exists further: on the host, or a later run makes it again

    friend bool operator==(const End&, const End&) = default;
  };

  // The bytes [begin, end) of a datum that an absence moves; end -1: all of it. The host may have a
  // clean copy already, so that nothing is sent.
  struct Moved {
    std::size_t data = 0;
    bool is_clean = false;
    std::int64_t begin = 0;
    std::int64_t end = -1;

    friend bool operator==(const Moved&, const Moved&) = default;
  };

  TransferProblem transfers;
  std::vector<Moved> moved;  // by absence
  std::vector<End> ends;     // in the order of data; several for data that is made again
  // Data without memory once the iteration has started: gradients of the iteration before.
  std::vector<std::size_t> dropped;

  friend bool operator==(const GraphProblem&, const GraphProblem&) = default;
};

// Returns the problem of runs in their order.
//
// Memory: each datum and each workspace takes whole granules. A datum is in memory from the run
// that writes it, or from the start of the iteration, to its last use. If a later run writes it
// again, it is not in memory from its last use before that run to that run. A weight gradient that
// an update reads takes no memory before the run that writes it: no run reads the value of the
// iteration before.
//
// Absences: one, or one for each part, between any two uses of a datum that is neither small nor
// needed again soon. Data that begins on the host is always away before its first use, and data
// that ends on the host always away after its last, and is sent if a run changed it. Data at home
// on the device, such as weights, may also be away before its first use and after its last use,
// except in a graph without updates, which is one round of several.
GraphProblem MakeGraphProblem(const TaskGraph& graph, const std::vector<TaskRun>& runs,
                              const GraphProblemOptions& options);

// Makes many problems of one graph, and reuses its lists and the memory of the last problem.
// Not thread-safe.
class GraphProblemMaker {
 public:
  // `graph` must outlive the maker.
  GraphProblemMaker(const TaskGraph& graph, const GraphProblemOptions& options);

  // Returns the problem as MakeGraphProblem does. The next call changes it. O(runs + uses + data +
  // parts).
  const GraphProblem& Make(const std::vector<TaskRun>& runs);

 private:
  // All that a search needs of a datum, and of an algorithm, side by side.
  struct Datum {
    std::int64_t bytes = 0;
    std::int64_t rounded = 0;
    double out_seconds = 0;  // of all of it
    double in_seconds = 0;
    bool exists_before = false;
    bool exists_after = false;
    bool is_on_host = false;    // before the iteration
    bool ends_on_host = false;  // after it
    bool is_at_home = false;    // on the device before and after the iteration
    bool is_old_gradient = false;
  };
  struct Algorithm {
    double seconds = 0;
    std::int64_t workspace = 0;  // rounded
  };
  struct TaskUse {
    std::size_t data = 0;
    bool changes = false;  // writes or updates it
    bool makes = false;    // writes it
  };
  // One use of a datum.
  struct Use {
    std::size_t run = 0;
    bool changes = false;
    bool makes = false;
  };

  std::int64_t FindLeastBytes() const;
  void AddTask(const GraphTask& task);
  void Begin(std::size_t runs);
  void FindUses(const std::vector<TaskRun>& runs);
  bool LosesItsValue(std::size_t data) const;
  void AddLives(std::size_t data);
  bool IsChanged(std::size_t data) const;
  void End(std::size_t data, std::size_t run, bool is_kept);
  void AddAbsences(std::size_t data);
  void AddAbsencesAtHome(std::size_t data);
  void AddLeaving(std::size_t data, Absence absence);
  void AddAbsence(std::size_t data, const Absence& uses, bool clean);
  void AddPart(const GraphProblem::Moved& moved, Absence absence);
  void AddMemory(const std::vector<TaskRun>& runs);
  void Reserve();

  std::int64_t Rounded(std::int64_t bytes) const { return RoundUp(bytes, options_.granule); }
  std::int64_t PartBytes(std::int64_t bytes) const {
    if (options_.part_bytes == 0) return bytes;
    return Rounded(std::max(options_.part_bytes, CeilDivide(bytes, kMostParts)));
  }
  double DensityOf(std::size_t data) const {
    return options_.densities.empty() ? -1 : options_.densities[data];
  }
  const Algorithm& AlgorithmOf(const TaskRun& run) const {
    return algorithms_[algorithms_of_[run.task] + run.algorithm];
  }
  absl::Span<const Use> UsesOf(std::size_t data) const {
    return absl::MakeConstSpan(uses_).subspan(uses_of_[data], uses_of_[data + 1] - uses_of_[data]);
  }

  GraphProblemOptions options_;
  bool has_updates_ = false;
  std::int64_t least_bytes_ = 0;  // of data that is not small
  std::size_t least_runs_ = 1;    // of an absence
  std::vector<Datum> data_;
  std::vector<Algorithm> algorithms_;       // of the first task, of the second, ...
  std::vector<std::size_t> algorithms_of_;  // by task: the first
  std::vector<TaskUse> task_uses_;          // of the first task, of the second, ...
  std::vector<std::size_t> task_uses_of_;   // by task, and the end: the first
  std::vector<bool> is_update_;             // by task

  std::vector<Use> uses_;             // of the first datum, of the second, ...
  std::vector<std::size_t> uses_of_;  // by data, and the end: the first
  std::vector<bool> is_update_run_;
  std::int64_t before_ = 0;          // bytes at the start
  std::int64_t dropped_ = 0;         // bytes that are given back at the start
  std::vector<std::int64_t> taken_;  // bytes that a run takes when it starts, for its data
  std::vector<std::int64_t> given_back_;
  GraphProblem problem_;
};

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_GRAPH_PROBLEM_H_
