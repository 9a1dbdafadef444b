// SPDX-License-Identifier: Apache-2.0
// The transfers that a task graph lets a schedule choose from.
#ifndef TIDEPOOL_POLICIES_TRANSFERS_GRAPH_PROBLEM_H_
#define TIDEPOOL_POLICIES_TRANSFERS_GRAPH_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/transfers/copy_rates.h"
#include "policies/transfers/transfer_problem.h"
#include "tidepool/schedule/graph.h"

namespace tidepool::transfers {

// A smaller datum is never sent, and one that is needed again sooner only if the options ask for
// it: copies of such data take more time than they are worth, and there are many.
inline constexpr std::int64_t kLeastAbsenceBytes = std::int64_t{256} << 10;
inline constexpr std::size_t kLeastAbsenceRuns = 8;

struct GraphProblemOptions {
  std::int64_t memory_bytes = 0;
  // Bytes that stay free for a plan of addresses. Beside a run that can have less than twice as
  // many free, half of those stay free.
  std::int64_t reserve_bytes = 0;
  std::int64_t granule = 1;
  CopyRates rates = {};
  // By data: the density of compressed copies, -1 for raw ones; empty: all are raw.
  std::vector<double> densities = {};
  // 0: data is copied whole. Otherwise it is copied in parts of so many bytes, rounded up to
  // granules. Each part leaves as soon as it is sent, and may be away while others are not. A datum
  // has at most kMostParts parts.
  std::int64_t part_bytes = 0;
  // Whether data at home on the device is sent, such as weights.
  bool sends_data_at_home = true;
  std::size_t least_absence_runs = kLeastAbsenceRuns;  // 1 or more
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
    std::size_t data = 0;
    bool is_made_again = false;  // by a later run
  };

  // The bytes [begin, end) of a datum that an absence moves; end -1: all of it. The host may have a
  // clean copy already, so that nothing is sent.
  struct Moved {
    std::size_t data = 0;
    bool is_clean = false;
    std::int64_t begin = 0;
    std::int64_t end = -1;
  };

  TransferProblem problem;
  std::vector<Moved> moved;            // by absence
  std::vector<std::vector<End>> ends;  // by run
  // Data without memory once the iteration has started: gradients of the iteration before.
  std::vector<std::size_t> dropped;
};

// Returns the problem of runs in their order. Memory is counted in granules: each datum and each
// workspace takes whole ones. A datum is in memory from the run that writes it, or from the start
// of the iteration, to its last use. When a later run writes it again, it is not in memory between
// the last use before that run and that run. Data that begins on the host is away until its first
// use. Two uses of data of kLeastAbsenceBytes or more, with least_absence_runs between them, are
// the ends of an absence, or of one for each part. Data at home on the device, such as weights, may
// also be away before its first use and after its last; not in a graph without updates, which is
// one round of several. A gradient of weights that an update reads takes no memory before the run
// that writes it: no run reads its value of the iteration before.
GraphProblem MakeGraphProblem(const TaskGraph& graph, const std::vector<TaskRun>& runs,
                              const GraphProblemOptions& options);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRANSFERS_GRAPH_PROBLEM_H_
