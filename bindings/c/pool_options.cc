// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/pool_options.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool::c_face {
namespace {

// Reads the plan. Its sizes are the programs', and a pool rounds them up.
absl::StatusOr<std::shared_ptr<const PlacementPlan>> ReadPlacementPlan(const std::string& path,
                                                                       std::int64_t alignment) {
  absl::StatusOr<PlanFile> file = ReadPlan(path);
  if (!file.ok()) return file.status();
  PlanProblem problem = std::move(file->problem);
  std::int64_t height = 0;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    PlanBuffer& buffer = problem.buffers[i];
    buffer.bytes = (buffer.bytes + alignment - 1) & -alignment;
    buffer.alignment = alignment;
    height = std::max(height, file->offsets[i] + buffer.bytes);
  }
  if (absl::Status valid = ValidatePlan(problem, file->offsets, height); !valid.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no plan for alignment ", alignment,
                                                   ": ", std::string(valid.message())));
  }
  return ToPlacementPlan(problem, file->offsets, problem.buffers.size());
}

absl::Status CheckSizes(const bindings::Settings& settings, const PoolOptions& options) {
  const bool is_power = (settings.alignment & (settings.alignment - 1)) == 0;
  if (!is_power) {
    return absl::InvalidArgumentError(
        absl::StrCat("option 'alignment' is ", settings.alignment, ", expected a power of two"));
  }
  if (options.initial_bytes > options.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("option 'initial' is ", settings.initial_bytes,
                                                   ", expected at most the budget of ",
                                                   options.max_bytes, " bytes"));
  }
  return absl::OkStatus();
}

PoolMemory MemoryOf(const bindings::Settings& settings) {
  if (settings.remaps) return PoolMemory::kVirtual;
  if (!settings.has_virtual_memory.has_value()) return PoolMemory::kAutomatic;
  return *settings.has_virtual_memory ? PoolMemory::kVirtual : PoolMemory::kSegments;
}

}  // namespace

absl::StatusOr<PoolOptions> PoolOptionsOf(const bindings::Settings& settings,
                                          const Device& device) {
  PoolOptions options;
  options.initial_bytes = settings.initial_bytes;
  options.max_bytes = bindings::BudgetOf(settings, device.memory_bytes(), device.memory_bytes());
  options.memory = MemoryOf(settings);
  options.alignment = settings.alignment;
  options.placement = settings.placement;
  options.growth = settings.growth.value_or(options.growth);
  options.remap = settings.remaps;
  options.exact_placement = settings.is_exact;
  if (absl::Status status = CheckSizes(settings, options); !status.ok()) return status;
  if (settings.plan.empty()) return options;
  auto plan = ReadPlacementPlan(settings.plan, settings.alignment);
  if (!plan.ok()) return plan.status();
  if ((*plan)->height_bytes() > options.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        settings.plan, ": the plan needs ", (*plan)->height_bytes(), " bytes, and the budget is ",
        options.max_bytes, ": raise option 'budget', or make a plan with --capacity"));
  }
  options.plan = *std::move(plan);
  return options;
}

}  // namespace tidepool::c_face
