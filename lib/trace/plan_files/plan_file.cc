// SPDX-License-Identifier: Apache-2.0
// Plan files: the rows of a lifetime CSV, each with an offset.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/csv.h"
#include "lib/base/text/quote.h"
#include "lib/memory/plan/first_overlap.h"
#include "lib/memory/plan/limits.h"
#include "lib/trace/csv/csv_traces.h"
#include "lib/trace/csv/lifetime_rows.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool {
namespace {

using csv::LifetimeRows;
using io::ByteSource;
using io::CsvReader;
using text::AboutFile;
using text::Quoted;

// Returns an error beyond the planner's limit.
absl::Status CheckSumOfSizes(const csv::LifetimeRows& rows, const io::CsvReader& reader) {
  std::int64_t left = plan::kMostBytes;
  for (std::size_t row = 0; row < rows.allocations.size(); ++row) {
    const std::size_t i = rows.positions.empty() ? row : rows.positions[row];
    left -= rows.allocations[i].bytes;
    if (left >= 0) continue;
    return reader.ErrorAt(
        rows.allocations[i].line,
        absl::StrCat("sizes of more than ", plan::kMostBytes, " bytes, expected less"));
  }
  return absl::OkStatus();
}

absl::Status CheckRowsApart(const PlanFile& plan, const io::CsvReader& reader) {
  const std::optional<plan::PlanOverlap> overlap = plan::FirstOverlap(plan.problem, plan.offsets);
  if (!overlap.has_value()) return absl::OkStatus();
  auto [one, other] = std::pair(overlap->a, overlap->b);
  if (plan.lines[one] < plan.lines[other]) std::swap(one, other);
  return reader.ErrorAt(
      plan.lines[one],
      absl::StrCat(text::Quoted(plan.ids[one]), " and ", text::Quoted(plan.ids[other]), " of line ",
                   plan.lines[other], " overlap at time ", overlap->time,
                   ", expected disjoint addresses"));
}

PlanFile ToPlanFile(csv::LifetimeRows rows, const std::string& name) {
  PlanFile plan;
  plan.name = name;
  plan.ids = std::move(rows.ids);
  plan.offsets = std::move(rows.offsets);
  plan.lines.reserve(plan.offsets.size());
  plan.problem.buffers.reserve(plan.offsets.size());
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    const std::int64_t bytes = rows.allocations[i].bytes;
    plan.lines.push_back(rows.allocations[i].line);
    plan.problem.buffers.push_back(
        {.lower = rows.lower[i], .upper = rows.upper[i], .bytes = bytes});
    plan.height = std::max(plan.height, plan.offsets[i] + bytes);
  }
  return plan;
}

absl::StatusOr<PlanFile> ReadPlanFrom(std::unique_ptr<io::ByteSource> source,
                                      const std::string& name) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> plain = io::Uncompressed(std::move(source));
  if (!plain.ok()) return text::AboutFile(name, plain.status());
  io::CsvReader reader(*std::move(plain), name);
  if (!reader.Next()) {
    if (!reader.status().ok()) return reader.status();
    return reader.ErrorAt(
        1, "an empty file, expected a plan with the header id,lower,upper,size,offset");
  }
  reader.UseAsHeader();
  absl::StatusOr<csv::LifetimeRows> rows = csv::ReadLifetimeRows(reader, csv::RowKind::kPlanned);
  if (!rows.ok()) return rows.status();
  if (absl::Status status = CheckSumOfSizes(*rows, reader); !status.ok()) return status;
  PlanFile plan = ToPlanFile(*std::move(rows), name);
  if (absl::Status status = CheckRowsApart(plan, reader); !status.ok()) return status;
  return plan;
}

}  // namespace

absl::StatusOr<PlanFile> ReadPlan(const std::string& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file = io::OpenFile(path, "a plan");
  if (!file.ok()) return text::AboutFile(path, file.status());
  return ReadPlanFrom(*std::move(file), path);
}

absl::StatusOr<PlanFile> ParsePlan(std::string_view contents, const std::string& name) {
  return ReadPlanFrom(io::FromMemory(contents), name);
}

absl::Status WritePlan(const Trace& trace, const std::vector<std::int64_t>& offsets,
                       const std::string& path) {
  if (offsets.size() != trace.allocations.size()) {
    return absl::InvalidArgumentError(absl::StrCat(offsets.size(),
                                                   " offsets, expected one for each of ",
                                                   trace.allocations.size(), " allocations"));
  }
  return WriteFile(path,
                   [&](std::ostream& out) { return csv::WriteLifetimes(trace, &offsets, out); });
}

}  // namespace tidepool
