// Plans from files: the rows of a lifetime CSV with an offset each.
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
#include "lib/sizing/plan/first_overlap.h"
#include "lib/trace/byte_source.h"
#include "lib/trace/csv.h"
#include "lib/trace/lifetime_rows.h"
#include "lib/trace/quote.h"
#include "tidepool/plan.h"

namespace tidepool {
namespace {

using internal::AboutFile;
using internal::ByteSource;
using internal::CsvReader;
using internal::LifetimeRows;
using internal::Quoted;

// A planner takes no more.
absl::Status CheckSumOfSizes(const LifetimeRows& rows, const CsvReader& reader) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
  std::int64_t left = kMostBytes;
  for (std::size_t row = 0; row < rows.lines.size(); ++row) {
    const std::size_t i = rows.places.empty() ? row : rows.places[row];
    left -= rows.allocations[i].bytes;
    if (left >= 0) continue;
    return reader.ErrorAt(rows.lines[i],
                          absl::StrCat("sizes of more than ", kMostBytes, " bytes, expected less"));
  }
  return absl::OkStatus();
}

absl::Status CheckRowsApart(const PlanFile& plan, const CsvReader& reader) {
  const std::optional<sizing::PlanOverlap> overlap =
      sizing::FirstOverlap(plan.problem.buffers, plan.offsets);
  if (!overlap.has_value()) return absl::OkStatus();
  auto [one, other] = std::pair(overlap->a, overlap->b);
  if (plan.lines[one] < plan.lines[other]) std::swap(one, other);
  return reader.ErrorAt(plan.lines[one],
                        absl::StrCat(Quoted(plan.ids[one]), " and ", Quoted(plan.ids[other]),
                                     " of line ", plan.lines[other], " overlap at time ",
                                     overlap->time, ", expected addresses of their own"));
}

PlanFile ToPlanFile(LifetimeRows rows, const std::string& name) {
  PlanFile plan;
  plan.name = name;
  plan.ids = std::move(rows.ids);
  plan.offsets = std::move(rows.offsets);
  plan.lines = std::move(rows.lines);
  plan.problem.buffers.reserve(plan.offsets.size());
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    const std::int64_t bytes = rows.allocations[i].bytes;
    plan.problem.buffers.push_back(
        {.lower = rows.lower[i], .upper = rows.upper[i], .bytes = bytes});
    plan.height = std::max(plan.height, plan.offsets[i] + bytes);
  }
  return plan;
}

absl::StatusOr<PlanFile> ReadPlanFrom(std::unique_ptr<ByteSource> source, const std::string& name) {
  absl::StatusOr<std::unique_ptr<ByteSource>> plain = internal::Uncompressed(std::move(source));
  if (!plain.ok()) return AboutFile(name, plain.status());
  CsvReader reader(*std::move(plain), name);
  if (!reader.Next()) {
    if (!reader.status().ok()) return reader.status();
    return reader.ErrorAt(
        1, "an empty file, expected a plan with the header id,lower,upper,size,offset");
  }
  reader.UseAsHeader();
  absl::StatusOr<LifetimeRows> rows = ReadLifetimeRows(reader, internal::RowKind::kPlanned);
  if (!rows.ok()) return rows.status();
  if (absl::Status status = CheckSumOfSizes(*rows, reader); !status.ok()) return status;
  PlanFile plan = ToPlanFile(*std::move(rows), name);
  if (absl::Status status = CheckRowsApart(plan, reader); !status.ok()) return status;
  return plan;
}

}  // namespace

absl::StatusOr<PlanFile> ReadPlan(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ByteSource>> file = internal::OpenFile(path);
  if (!file.ok()) return AboutFile(path, file.status());
  return ReadPlanFrom(*std::move(file), path);
}

absl::StatusOr<PlanFile> ParsePlan(std::string_view contents, const std::string& name) {
  return ReadPlanFrom(internal::FromMemory(contents), name);
}

}  // namespace tidepool
