// SPDX-License-Identifier: Apache-2.0
// The figures of a report in sentences.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/composition.h"
#include "trace_replay/commands/pytorch_forecast.h"
#include "trace_replay/report/figures.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

std::string RatioOf(std::int64_t bytes, const ReportFigures& figures) {
  return RatioText(Overhead(bytes, figures.measured.load));
}

// Returns "; the most, 29.6 GiB, by models.py:174 update_nodes", for the line of code that holds
// the most at an event; empty without stacks.
std::string LineText(const ReportFigures& figures, std::int64_t event) {
  const Trace& trace = *figures.measured.trace;
  const absl::StatusOr<std::vector<std::uint32_t>> live = LiveAfter(trace, event);
  if (!live.ok()) return "";
  for (const NamedBytes& part : BytesByFrame(trace, *live, figures.measured.alignment)) {
    if (part.name.front() == '(' || part.name == "allocated before recording began") continue;
    return absl::StrCat("; the most, ", SizeText(part.bytes), ", by ", absl::CHexEscape(part.name));
  }
  return "";
}

// The answer in one sentence: the refused request that needs the most, or the peak, with the line
// of the program.
std::string AnswerText(const ReportFigures& figures) {
  const MeasuredTrace& measured = figures.measured;
  if (const std::string refusal = WorstRefusalText(measured); !refusal.empty()) {
    const RefusedRequest& worst = measured.demand.refused[*WorstRefusal(measured.demand)];
    return absl::StrCat("Out of memory: ", refusal, LineText(figures, worst.event), ".");
  }
  return absl::StrCat(SizeText(measured.load.peak_live_bytes), " are live at the peak",
                      LineText(figures, measured.load.peak_event), ".");
}

// Names the pools of all policies, the smallest first.
std::string NeedText(const ReportFigures& figures) {
  std::vector<const Layout*> layouts;
  for (const Layout& layout : figures.layouts) layouts.push_back(&layout);
  std::stable_sort(layouts.begin(), layouts.end(),
                   [](const Layout* a, const Layout* b) { return a->pool_bytes < b->pool_bytes; });
  std::string text;
  for (const Layout* layout : layouts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", layout->size.policy,
                    text.empty() ? " needs " : " ",
                    IsUpperBound(*layout, figures.measured.demand) ? "at most " : "",
                    PoolSizeText(layout->pool_bytes));
  }
  return text + ".";
}

// Tells the needs of a trace with a refused request.
std::string NeedsText(const ReportFigures& figures) {
  if (figures.measured.demand.refused.empty()) return "";
  return absl::StrCat("The trace needs at least ", SizeText(figures.measured.demand.needs_bytes),
                      ".");
}

std::string StreamsRemark(const ReportFigures& figures) {
  for (const Layout& layout : figures.layouts) {
    if (!layout.size.bytes_without_waits.has_value()) continue;
    return absl::StrCat(
        "In these pools streams wait for memory of each other; a plan without such "
        "waits needs ",
        PoolSizeText(*layout.size.bytes_without_waits), ".");
  }
  return "";
}

std::string ReservedText(const ReportFigures& figures) {
  if (!figures.reserved_peak.has_value()) return "";
  return absl::StrCat("The recorded allocator reserved ", SizeText(*figures.reserved_peak), ", ",
                      RatioOf(*figures.reserved_peak, figures), ".");
}

// Tells the memory that PyTorch's allocator needs, without and with expandable segments.
std::string ModelsText(const ReportFigures& figures) {
  std::vector<std::string> needs;
  for (const PolicySize& model : figures.models) {
    const std::int64_t reserved = model.result.pool_bytes;
    std::string need = absl::StrCat(model.policy, " reserves ", SizeText(reserved));
    const std::int64_t least = model.result.exact_pool_bytes.value_or(reserved);
    if (least < reserved) absl::StrAppend(&need, " and can do with ", SizeText(least));
    needs.push_back(std::move(need));
  }
  if (needs.empty()) return "";
  const std::string unknown =
      UnknownBeginningText(*figures.measured.trace, figures.models.front().result.pool_bytes);
  return absl::StrCat("In PyTorch: ", absl::StrJoin(needs, "; "),
                      unknown.empty() ? "" : absl::StrCat(" (", unknown, ")"), ".");
}

std::string BudgetText(const ReportFigures& figures) {
  if (!figures.budget_bytes.has_value()) return "";
  const std::int64_t budget = *figures.budget_bytes;
  const std::int64_t peak = figures.measured.demand.needs_bytes;
  const Layout& best = Best(figures);
  const std::string the_budget = absl::StrCat("the budget of ", SizeText(budget));
  if (budget < peak) {
    return absl::StrCat("No placement fits ", the_budget, ": ", SizeText(peak - budget),
                        " must be off the device",
                        figures.measured.demand.refused.empty() ? " at the peak." : ".");
  }
  if (best.pool_bytes <= budget) {
    return absl::StrCat("The budget of ", SizeText(budget), " suffices, with ",
                        SizeText(budget - best.pool_bytes), " to spare.");
  }
  return absl::StrCat("The live bytes fit ", the_budget, ", but ",
                      IsUpperBound(best, figures.measured.demand)
                          ? "no pool that the search found does: "
                          : "no policy's smallest pool does: ",
                      SizeText(best.pool_bytes - budget), " more are needed.");
}

// Leaves out the pools of policies: they would say nothing about a job with an unknown peak.
std::vector<std::string> NoHistory(const ReportFigures& figures) {
  if (figures.measured.trace->original_format == TraceFormat::kRmmDebugLog)
    return {AnswerText(figures), NeedsText(figures)};
  std::vector<std::string> sentences = {absl::StrCat(
      "Live: ", SizeText(figures.measured.load.unfreed_bytes), "; ", std::string(kNoHistory), ".")};
  const std::string reserved = ReservedText(figures);
  if (!reserved.empty()) sentences.push_back(reserved);
  return sentences;
}

}  // namespace

std::vector<std::string> Headline(const ReportFigures& figures) {
  if (figures.measured.demand.needs_bytes == 0) {
    return {"Nothing was allocated in this trace: there is nothing to place."};
  }
  if (!figures.measured.trace->has_history) return NoHistory(figures);
  std::vector<std::string> sentences = {AnswerText(figures)};
  for (const std::string& more :
       {NeedsText(figures), NeedText(figures), BudgetText(figures), StreamsRemark(figures),
        ReservedText(figures), ModelsText(figures)}) {
    if (!more.empty()) sentences.push_back(more);
  }
  return sentences;
}

}  // namespace tidepool::tool
