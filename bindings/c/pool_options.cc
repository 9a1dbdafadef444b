// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/pool_options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "bindings/support/plan_file.h"

namespace tidepool::c_api {
namespace {

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
  auto plan = bindings::ReadPoolPlan(settings.plan, settings.alignment, options.max_bytes);
  if (!plan.ok()) return plan.status();
  options.plan = *std::move(plan);
  return options;
}

}  // namespace tidepool::c_api
