// SPDX-License-Identifier: Apache-2.0
// Plans a recorded trace: an offset for every allocation, so that the pool is as small as possible.
//   plan_a_trace TRACE [PLAN.csv]
#include <string>

#include "check.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace {

// Writes a plan to a file, reads it again and returns whether the offsets are still the same.
bool KeepPlan(const tidepool::Trace& trace, const tidepool::Plan& plan, const std::string& path) {
  // [keep-a-plan]
  Check(tidepool::WritePlan(trace, plan.offsets, path));
  const tidepool::PlanFile file = Check(tidepool::ReadPlan(path));
  // An error if the file is no plan of this trace.
  const auto offsets = Check(tidepool::OffsetsFor(file, trace, trace.default_alignment));
  // [/keep-a-plan]
  return offsets == plan.offsets;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: plan_a_trace TRACE [PLAN.csv]\n");
    return 1;
  }
  // [plan-a-trace]
  const tidepool::Trace trace = Check(tidepool::ReadTrace(argv[1]));
  const auto problem = Check(tidepool::ToPlanProblem(trace, trace.default_alignment));
  const tidepool::Plan plan = Check(tidepool::MakePlan(problem, {.time_limit_seconds = 1}));
  Check(tidepool::ValidatePlan(problem, plan.offsets, plan.height));
  // plan.offsets[i]: of allocation i; plan.height: the pool; plan.lower_bound: no plan is below it
  // [/plan-a-trace]
  std::printf("a pool of %lld bytes, at least %lld are needed%s\n",
              static_cast<long long>(plan.height), static_cast<long long>(plan.lower_bound),
              plan.optimal ? ": no plan is smaller" : "");
  return argc == 3 && !KeepPlan(trace, plan, argv[2]) ? 1 : 0;
}
