// SPDX-License-Identifier: Apache-2.0
// Matches a plan with a trace: compares rows and allocations one by one, each sorted by time and
// then by id, because buffers that live at the same time have different ids.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/memory/plan/first_overlap.h"
#include "lib/trace/csv/csv_traces.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

using text::Escaped;
using text::Quoted;

// The properties that a row of a plan shares with an allocation of a trace.
struct RowLifetime {
  std::string_view id;
  std::int64_t lower;
  std::int64_t upper;
  std::int64_t bytes;

  bool operator==(const RowLifetime&) const = default;
  std::string Text() const {
    return absl::StrCat("id ", text::Quoted(id), ", lower ", lower, ", upper ", upper, ", size ",
                        bytes);
  }
};

template <typename LifetimeAt>
std::vector<std::uint32_t> InOrder(std::size_t count, const LifetimeAt& at) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    const RowLifetime one = at(a);
    const RowLifetime other = at(b);
    return std::tie(one.lower, one.id) < std::tie(other.lower, other.id);
  };
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
  }
  return order;
}

absl::Status RowError(const PlanFile& plan, std::int64_t line, std::string_view what) {
  return text::AboutLine(plan.name, line, absl::InvalidArgumentError({what.data(), what.size()}));
}

// The rows of a plan and the allocations of a trace, sorted alike.
class Comparison {
 public:
  Comparison(const PlanFile& plan, const Trace& trace, const csv::TraceLifetimes& lifetimes)
      : plan_(plan),
        trace_(trace),
        lifetimes_(lifetimes),
        rows_(InOrder(plan.offsets.size(), [this](std::size_t row) { return Row(row); })),
        allocations_(
            InOrder(trace.allocations.size(), [this](std::size_t i) { return Allocation(i); })) {}

  // Returns the row of each allocation, or the first difference.
  absl::StatusOr<std::vector<std::uint32_t>> Rows() const {
    std::vector<std::uint32_t> rows(allocations_.size());
    for (std::size_t i = 0; i < std::max(rows_.size(), allocations_.size()); ++i) {
      if (i == rows_.size()) return Missing(allocations_[i]);
      if (i == allocations_.size()) return Surplus(rows_[i]);
      if (Row(rows_[i]) != Allocation(allocations_[i])) {
        return Different(rows_[i], allocations_[i]);
      }
      rows[allocations_[i]] = rows_[i];
    }
    return rows;
  }

 private:
  RowLifetime Row(std::size_t row) const {
    const PlanBuffer& buffer = plan_.problem.buffers[row];
    return {plan_.ids[row], buffer.lower, buffer.upper, buffer.bytes};
  }
  RowLifetime Allocation(std::size_t i) const {
    return {trace_.allocation_ids[i], lifetimes_.lower[i], lifetimes_.upper[i],
            trace_.allocations[i].bytes};
  }

  absl::Status Missing(std::uint32_t allocation) const {
    return RowError(plan_, 0,
                    absl::StrCat(rows_.size(), " rows, expected ", allocations_.size(),
                                 ", one an allocation of the trace, and first one of ",
                                 Allocation(allocation).Text()));
  }
  absl::Status Surplus(std::uint32_t row) const {
    return RowError(plan_, plan_.lines[row],
                    absl::StrCat(Row(row).Text(), ", expected no more than the ",
                                 allocations_.size(), " allocations of the trace"));
  }
  absl::Status Different(std::uint32_t row, std::uint32_t allocation) const {
    return RowError(plan_, plan_.lines[row],
                    absl::StrCat(Row(row).Text(), ", expected ", Allocation(allocation).Text(),
                                 " as in the trace"));
  }

  const PlanFile& plan_;
  const Trace& trace_;
  const csv::TraceLifetimes& lifetimes_;
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint32_t> allocations_;
};

absl::Status CheckOffsetsAligned(const PlanFile& plan, std::int64_t alignment) {
  for (std::size_t row = 0; row < plan.offsets.size(); ++row) {
    if (plan.offsets[row] % alignment == 0) continue;
    return RowError(
        plan, plan.lines[row],
        absl::StrCat("offset ", plan.offsets[row], ", expected a multiple of ", alignment));
  }
  return absl::OkStatus();
}

// Returns an error if allocations of `problem` overlap. `rows` has the row of each allocation.
absl::Status CheckPlaces(const PlanFile& plan, const PlanProblem& problem,
                         const std::vector<std::uint32_t>& rows,
                         const std::vector<std::int64_t>& offsets) {
  const std::optional<plan::PlanOverlap> overlap = plan::FirstOverlap(problem, offsets);
  if (!overlap.has_value()) return absl::OkStatus();
  std::uint32_t one = rows[overlap->a];
  std::uint32_t other = rows[overlap->b];
  if (plan.lines[one] < plan.lines[other]) std::swap(one, other);
  return RowError(
      plan, plan.lines[one],
      absl::StrCat(text::Quoted(plan.ids[one]), " and ", text::Quoted(plan.ids[other]), " of line ",
                   plan.lines[other], " overlap at time ", overlap->time,
                   ", aligned and in the order of streams, expected disjoint addresses"));
}

}  // namespace

absl::StatusOr<std::vector<std::int64_t>> OffsetsFor(const PlanFile& plan, const Trace& trace,
                                                     std::int64_t alignment) {
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(trace, alignment);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<csv::TraceLifetimes> lifetimes = csv::LifetimesOf(trace);
  if (!lifetimes.ok()) return lifetimes.status();
  const absl::StatusOr<std::vector<std::uint32_t>> rows =
      Comparison(plan, trace, *lifetimes).Rows();
  if (!rows.ok()) return rows.status();
  if (absl::Status status = CheckOffsetsAligned(plan, alignment); !status.ok()) return status;
  std::vector<std::int64_t> offsets;
  offsets.reserve(rows->size());
  for (const std::uint32_t row : *rows) offsets.push_back(plan.offsets[row]);
  if (absl::Status status = CheckPlaces(plan, *problem, *rows, offsets); !status.ok()) {
    return status;
  }
  return offsets;
}

}  // namespace tidepool
