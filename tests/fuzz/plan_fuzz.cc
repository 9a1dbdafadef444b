// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a plan is refused with one line, or its buffers do not overlap, it is a plan of the
// trace of its rows, and it reads the same after it was written.
#include <sstream>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "tests/fuzz/fuzz_reader.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool::fuzz {
namespace {

void ReadAsPlan(std::string_view contents) {
  const auto plan = ParsePlan(contents, "input");
  if (!plan.ok()) {
    Require(plan.status().message().find('\n') == absl::string_view::npos);
    Require(absl::StrContains(plan.status().message(), "input:"));
    return;
  }
  Require(ValidatePlan(plan->problem, plan->offsets, plan->height).ok());
  if (plan->offsets.empty()) return;
  const auto trace = ParseTrace(contents, "input");
  Require(trace.ok());
  const auto offsets = OffsetsFor(*plan, *trace, 1);
  Require(offsets.ok() && *offsets == plan->offsets);
  std::ostringstream text;
  if (!csv::WriteLifetimes(*trace, &*offsets, text).ok()) return;  // an id with a line break
  const auto again = ParsePlan(text.str(), "again");
  Require(again.ok() && again->offsets == plan->offsets && again->height == plan->height);
}

}  // namespace
}  // namespace tidepool::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  tidepool::fuzz::ReadAsPlan(input);
  tidepool::fuzz::ReadAsPlan("id,lower,upper,size,offset\n" + std::string(input));
  return 0;
}
