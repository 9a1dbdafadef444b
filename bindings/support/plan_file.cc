// SPDX-License-Identifier: Apache-2.0
#include "bindings/support/plan_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/quote.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool::bindings {

absl::StatusOr<std::shared_ptr<const PlacementPlan>> ReadPoolPlan(const std::string& path,
                                                                  std::int64_t alignment,
                                                                  std::int64_t budget_bytes) {
  absl::StatusOr<PlanFile> file = ReadPlan(path);
  if (!file.ok()) return file.status();
  PlanProblem problem = std::move(file->problem);
  std::int64_t height = 0;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    PlanBuffer& buffer = problem.buffers[i];
    buffer.bytes = AlignUp(buffer.bytes, alignment);
    buffer.alignment = alignment;
    height = std::max(height, file->offsets[i] + buffer.bytes);
  }
  if (absl::Status valid = ValidatePlan(problem, file->offsets, height); !valid.ok()) {
    return text::AboutFile(
        path, absl::InvalidArgumentError(absl::StrCat("no plan for alignment ", alignment, ": ",
                                                      std::string(valid.message()))));
  }
  if (height > budget_bytes) {
    return text::AboutFile(
        path, absl::InvalidArgumentError(absl::StrCat(
                  "the plan needs ", height, " bytes, and the budget is ", budget_bytes,
                  ": raise option 'budget', or make a plan with --capacity")));
  }
  return ToPlacementPlan(problem, file->offsets, problem.buffers.size());
}

}  // namespace tidepool::bindings
