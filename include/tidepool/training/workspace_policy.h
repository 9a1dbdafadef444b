// SPDX-License-Identifier: Apache-2.0
// Micro-batches and algorithms: the decisions of Oyama et al., micro-cuDNN, CLUSTER 2018. A
// configuration of a kernel divides the batch into micro-batches that run one after the other, each
// by an algorithm. Its time is their sum, its workspace their maximum.
//
// Pure functions, thread-safe: they touch no memory, no device and no clock. Times are rounded to
// multiples of a power of two, at most 2^-40 of the largest sum, before they are compared. So sums
// of the same rows are equal in any order.
#ifndef TIDEPOOL_TRAINING_WORKSPACE_POLICY_H_
#define TIDEPOOL_TRAINING_WORKSPACE_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/training/kernel_table.h"

namespace tidepool {

struct KernelPart {
  std::int64_t algorithm = 0;
  std::int64_t micro_batch = 0;
  KernelPrecision precision = KernelPrecision::kFloat;

  friend bool operator==(const KernelPart&, const KernelPart&) = default;
};

// One way to run a kernel.
struct KernelConfiguration {
  double seconds = 0;
  std::int64_t workspace_bytes = 0;
  std::vector<KernelPart> parts = {};  // micro-batches that add up to the batch

  friend bool operator==(const KernelConfiguration&, const KernelConfiguration&) = default;
};

// A time and the memory that it takes.
struct WorkspacePoint {
  double seconds = 0;
  std::int64_t workspace_bytes = 0;

  friend bool operator==(const WorkspacePoint&, const WorkspacePoint&) = default;
};

struct WorkspaceAnswer {
  double seconds = 0;                // of all kernels
  std::int64_t workspace_bytes = 0;  // the least with which this time is possible, if proved
  // Points within the limit that no other point dominates, by ascending workspace. Where kernels
  // are decided one by one, all of them; for a division and for groups, the corners of the lower
  // convex hull and the answer.
  std::vector<WorkspacePoint> front = {};
  std::vector<KernelConfiguration> kernels = {};  // by kernel
  // False where a division would have had more than 2^22 states at once, or 2^24 choices. Then a
  // faster answer is possible.
  bool proved = true;
};

// Returns the micro-batches that a policy allows, ascending: "undivided" the batch alone,
// "powerOfTwo" the powers of two up to the batch, and the batch, "all" 1 to the batch, and a list
// such as "8,16,32" these numbers. InvalidArgument for another text.
TIDEPOOL_EXPORT absl::StatusOr<std::vector<std::int64_t>> MicroBatchSizes(std::string_view policy,
                                                                          std::int64_t batch);

// Returns the desirable configurations D(C) of a kernel with workspaces up to the limit: each is
// faster than all with a smaller workspace. By ascending workspace; of equals one. Empty when rows
// within the limit do not add up to the batch. Only rows of the sizes (ascending) count. The last
// one is the optimum of workspace reuse (WR). Needs a valid table and batch. O(rows (log rows +
// batch) + points * batch).
TIDEPOOL_EXPORT std::vector<KernelConfiguration> ConfigurationFront(
    const KernelTable& table, const std::vector<std::int64_t>& sizes, std::int64_t batch,
    std::int64_t limit_bytes);

// Returns one configuration of each kernel, with the least total time and a sum of workspaces up to
// the limit; of several the one with the least sum. It is the integer program of workspace division
// (WD). Each front has its points as ConfigurationFront gives them. Branch and bound over states
// that no other dominates, from the solution of the linear program: some milliseconds for hundreds
// of kernels, exponential in the worst case. ResourceExhausted when even the smallest workspaces
// are too much, with their sum and the kernel with the largest.
TIDEPOOL_EXPORT absl::StatusOr<WorkspaceAnswer> DivideWorkspace(
    const std::vector<std::vector<KernelConfiguration>>& fronts, std::int64_t limit_bytes);

// Returns the answer to a question that is not about devices. InvalidArgument for an invalid one;
// ResourceExhausted when nothing fits, with a kernel and the bytes that it needs.
TIDEPOOL_EXPORT absl::StatusOr<WorkspaceAnswer> ChooseWorkspaces(const WorkspaceCase& question);

// The way to find out about a kernel on a device.
struct KernelProbe {
  // Returns the rows of all algorithms at a number of samples. This runs them all.
  std::function<KernelTable(std::int64_t samples)> measure;
  // Returns the same rows, of which the times do not count. This runs nothing.
  std::function<KernelTable(std::int64_t samples)> workspaces;
};

struct AdaptiveAnswer {
  KernelConfiguration configuration = {};  // without parts: nothing fits
  KernelTable table = {};                  // the rows that were measured
  std::int64_t measured = 0;               // micro-batches
  // No micro-batches of "all" take less than this, and if `proved` none are faster than the
  // configuration. Both hold for a kernel of which each algorithm, with more samples, takes no less
  // time, and no more time for each sample.
  double lower_bound_seconds = 0;
  bool proved = false;
};

// Returns the fastest micro-batches of any size within the limit, and measures few of them: at most
// 1.5 times as many as "powerOfTwo" has, and on most tables fewer. Between two measured sizes it
// takes the least time that such an algorithm can have, and measures the largest unknown size of
// the answer until the answer has none. Needs a batch of 1 to kMostKernelBatch. O(batch) questions
// about workspaces, and O(batch x rows) for each measurement.
TIDEPOOL_EXPORT AdaptiveAnswer MeasureAdaptively(std::int64_t batch, std::int64_t limit_bytes,
                                                 const KernelProbe& probe);

// The samples of a device, 0 if it stays out, and their time.
struct DeviceSplit {
  double seconds = 0;  // of the slowest device
  std::vector<DeviceRow> devices = {};
};
// Returns the split of a batch over devices with the least time of the slowest one. Each device
// takes one of its rows or stays out. InvalidArgument for an invalid question; ResourceExhausted
// when no rows add up to the batch. O(rows * batch).
TIDEPOOL_EXPORT absl::StatusOr<DeviceSplit> SplitBatch(const WorkspaceCase& question);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_WORKSPACE_POLICY_H_
