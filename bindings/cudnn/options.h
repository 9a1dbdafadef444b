// SPDX-License-Identifier: Apache-2.0
// The settings of divided convolutions, and the environment variables TIDEPOOL_CUDNN_*.
#ifndef TIDEPOOL_BINDINGS_CUDNN_OPTIONS_H_
#define TIDEPOOL_BINDINGS_CUDNN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/support/settings.h"
#include "tidepool/training/kernel_table.h"

namespace tidepool::cudnn {

// The policy that measures only the micro-batches that may be part of the answer.
inline constexpr std::string_view kAdaptive = "adaptive";

struct Options {
  std::string policy = "powerOfTwo";                  // of MicroBatchSizes, or kAdaptive
  std::int64_t limit_bytes = std::int64_t{64} << 20;  // of a workspace, where a look-up has none
  std::optional<std::int64_t> total_bytes = {};       // of all workspaces; none: kReuse
  WorkspaceKind sharing = WorkspaceKind::kDivision;   // of the total
  bool has_own_workspaces = false;                    // kReuse: from a pool, not of the caller
  KernelPrecision precision = KernelPrecision::kTrueHalf;  // the least precise arithmetic
  bool engines = false;  // look-ups of algorithms measure engines of graphs too
  std::optional<std::int64_t> measuring_bytes = {};  // of workspaces of measurements; none: any
  std::string database = {};                         // the path of a profile; empty: none
  std::vector<int> devices = {};                     // that measure, beside the handle's own
  bool statistics = false;
  bool errors = false;

  // Returns how kernels share memory.
  WorkspaceKind kind() const { return total_bytes.has_value() ? sharing : WorkspaceKind::kReuse; }
  // Returns whether workspaces come from a pool, so that programs need give none.
  bool uses_pool() const { return total_bytes.has_value() || has_own_workspaces; }
};

using CudnnOption = bindings::OptionOf<Options>;

// Returns all options, in the order of the documentation.
std::span<const CudnnOption> CudnnOptions();

// Parses lines "NAME=value" as in `environ` (bindings::ReadVariables).
Options ReadOptions(const std::vector<std::string>& environment,
                    std::vector<std::string>* complaints);

// Parses the environment of this process. Prints each complaint on stderr once.
Options ReadOptions();

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_OPTIONS_H_
