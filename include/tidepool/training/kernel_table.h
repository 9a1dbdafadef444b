// SPDX-License-Identifier: Apache-2.0
// Kernel tables: measured times and workspaces of the algorithms of kernels, by micro-batch, and
// questions about them. They are the input of Oyama, Ben-Nun, Hoefler and Matsuoka, "Accelerating
// Deep Learning Frameworks with Micro-batches" (micro-cuDNN), CLUSTER 2018. A kernel is any
// operation that treats the samples of a batch apart, such as a convolution.
//
// Pure data: nothing here touches a device or a clock.
#ifndef TIDEPOOL_TRAINING_KERNEL_TABLE_H_
#define TIDEPOOL_TRAINING_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"

namespace tidepool {

// Limits of a question: the samples of a batch, the bytes of a workspace or a limit, and the
// seconds of a row.
inline constexpr std::int64_t kMostKernelBatch = std::int64_t{1} << 16;
inline constexpr std::int64_t kMostWorkspaceBytes = std::int64_t{1} << 62;
inline constexpr double kMostKernelSeconds = 1e9;

// The data and the arithmetic of an algorithm, from the least precise (table I of the paper).
enum class KernelPrecision : std::uint8_t {
  kTrueHalf,    // half data, half arithmetic
  kPseudoHalf,  // half data, float arithmetic
  kFloat,       // float data, float arithmetic
};
// Returns "TRUE_HALF", "PSEUDO_HALF" or "FLOAT".
TIDEPOOL_EXPORT std::string_view KernelPrecisionName(KernelPrecision precision);

// A measured algorithm.
struct KernelRow {
  std::int64_t micro_batch = 1;  // samples, 1 or more
  std::int64_t algorithm = 0;    // the library's number, 0 or more
  double seconds = 0;
  std::int64_t workspace_bytes = 0;
  KernelPrecision precision = KernelPrecision::kFloat;

  friend bool operator==(const KernelRow&, const KernelRow&) = default;
};
using KernelTable = std::vector<KernelRow>;  // of one kernel, in any order

// A part of a batch on a device, and its time.
struct DeviceRow {
  std::int64_t samples = 1;  // 1 or more
  double seconds = 0;

  friend bool operator==(const DeviceRow&, const DeviceRow&) = default;
};

enum class WorkspaceKind : std::uint8_t {
  kReuse,     // "wr": each kernel has a workspace of its own, up to the limit
  kDivision,  // "wd": the limit holds for the sum of the workspaces of all kernels
  kShared,    // "shared": kernels that do not run together share memory; the limit holds for it
  kDevices,   // "hetero": a batch is split over devices
};

// One question.
struct WorkspaceCase {
  std::string name = {};
  WorkspaceKind kind = WorkspaceKind::kReuse;
  std::int64_t batch = 1;        // samples, up to kMostKernelBatch
  std::int64_t limit_bytes = 0;  // from 0 to kMostWorkspaceBytes
  std::string policy = "all";    // the micro-batches that may run (MicroBatchSizes)
  std::int64_t multiple_of = 1;  // kDevices: the samples of each device are a multiple of this
  // The least precise arithmetic that may run; rows below it do not count.
  KernelPrecision precision = KernelPrecision::kTrueHalf;
  std::vector<KernelTable> kernels = {};  // one or more, unless the kind is kDevices
  // kShared: kernels that run together, each kernel in one group. Empty: one after the other.
  std::vector<std::vector<std::size_t>> groups = {};
  std::vector<std::vector<DeviceRow>> devices = {};  // of kDevices, one or more

  friend bool operator==(const WorkspaceCase&, const WorkspaceCase&) = default;
};

// All functions below are thread-safe.

// Returns OK for a question with numbers in their ranges and lists that suit its kind. Otherwise
// InvalidArgument, with the fault. Does not check the policy. O(rows).
TIDEPOOL_EXPORT absl::Status ValidateWorkspaceCase(const WorkspaceCase& question);

// Read questions from a JSON list of cases, or one case alone, plain or gzip
// (docs/formats/kernel_tables.md), and validate them. Errors are InvalidArgument with
// `FILE:LINE: fault, expectation`. Time and memory are linear in the size of the file.
TIDEPOOL_EXPORT absl::StatusOr<std::vector<WorkspaceCase>> ReadWorkspaceCases(
    const std::filesystem::path& path);
TIDEPOOL_EXPORT absl::StatusOr<std::vector<WorkspaceCase>> ParseWorkspaceCases(
    std::string_view json, std::string_view name);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_KERNEL_TABLE_H_
