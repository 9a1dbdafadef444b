// SPDX-License-Identifier: Apache-2.0
// Claim: a plan needs no more memory than the peak of live bytes; policies that place each request
// as it comes need more.
//
// Prints, for each trace, the smallest pool of every policy over the peak of live bytes, the same
// ratio of the plan, which a replay verifies, and the search time of each. Single-threaded; times
// are the best of three in processor time, which is comparable on a machine that has other work.
//
// usage: policy_table [--time-limit SECONDS] [--json] [TRACE...] The example traces, and those that
// are named.
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tidepool/planned_placement.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"

namespace tidepool::bench {
namespace {

constexpr char kPlan[] = "planned";
constexpr int kRepetitions = 3;

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
}

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

// Returns the answer of the last of several runs, and the time of the shortest.
template <typename Work>
auto Timed(const Work& work, double& seconds) {
  seconds = std::numeric_limits<double>::infinity();
  for (int i = 1;; ++i) {
    const double start = ProcessorSeconds();
    auto answer = work();
    seconds = std::min(seconds, ProcessorSeconds() - start);
    Require(answer.status());
    if (i == kRepetitions) return *std::move(answer);
  }
}

struct Cell {
  std::string policy;
  std::int64_t pool_bytes = 0;
  bool is_smallest = false;  // otherwise an upper bound of the smallest
  double seconds = 0;
};

struct Row {
  std::string trace;
  std::size_t allocations = 0;
  std::int64_t peak_live_bytes = 0;
  std::vector<Cell> cells;

  double Overhead(const Cell& cell) const {
    return static_cast<double>(cell.pool_bytes) / static_cast<double>(peak_live_bytes);
  }
};

Cell SmallestPool(const Trace& trace, const std::string& name) {
  const std::unique_ptr<PlacementPolicy> policy = MakePlacementPolicy(name).value();
  Cell cell = {.policy = name};
  const MinimumPoolResult result =
      Timed([&] { return MinimumPool(trace, *policy, {.alignment = trace.default_alignment}); },
            cell.seconds);
  cell.pool_bytes = result.exact_pool_bytes.value_or(result.pool_bytes);
  cell.is_smallest = result.exact_pool_bytes.has_value();
  return cell;
}

// Checks that the placement `planned` serves the trace in a pool of the plan's height, without
// deviation.
absl::Status Verify(const Trace& trace, const Plan& plan) {
  const std::int64_t alignment = trace.default_alignment;
  std::vector<PlannedRequest> requests;
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    const std::int64_t bytes = (trace.allocations[i].bytes + alignment - 1) & -alignment;
    requests.push_back({.bytes = bytes, .offset = plan.offsets[i]});
  }
  const auto policy =
      PlannedPlacement::Create({std::make_shared<const PlacementPlan>(std::move(requests))});
  const auto replay = Replay(trace, *policy, {.pool_bytes = plan.height, .alignment = alignment});
  if (!replay.ok()) return replay.status();
  if (replay->refused == 0 && policy->counts().deviations == 0) return absl::OkStatus();
  return absl::InternalError("a plan that does not serve its trace");
}

Cell PlannedPool(const Trace& trace, double time_limit_seconds) {
  Cell cell = {.policy = kPlan};
  const Plan plan = Timed(
      [&]() -> absl::StatusOr<Plan> {
        const absl::StatusOr<PlanProblem> problem = ToPlanProblem(trace, trace.default_alignment);
        if (!problem.ok()) return problem.status();
        return MakePlan(*problem, {.time_limit_seconds = time_limit_seconds});
      },
      cell.seconds);
  Require(Verify(trace, plan));
  cell.pool_bytes = plan.height;
  cell.is_smallest = plan.optimal;
  return cell;
}

Row Measure(const std::string& path, double time_limit_seconds) {
  const absl::StatusOr<Trace> trace = ReadTrace(path);
  Require(trace.status());
  const absl::StatusOr<TraceLoad> load = MeasureLoad(*trace, trace->default_alignment);
  Require(load.status());
  Row row;
  row.trace = std::filesystem::path(path).filename().string();
  row.trace = row.trace.substr(0, row.trace.find('.'));
  row.allocations = trace->allocations.size();
  row.peak_live_bytes = load->peak_live_bytes;
  for (const std::string& policy : PlacementPolicyNames()) {
    if (policy != kPlan) row.cells.push_back(SmallestPool(*trace, policy));
  }
  row.cells.push_back(PlannedPool(*trace, time_limit_seconds));
  return row;
}

std::string TimeText(double seconds) {
  return seconds < 0.1 ? absl::StrFormat("%.1f ms", seconds * 1e3)
                       : absl::StrFormat("%.2f s", seconds);
}

void PrintMarkdown(const std::vector<Row>& rows) {
  std::string head = "| trace | allocations | peak live |";
  std::string line = "|---|---:|---:|";
  for (const Cell& cell : rows.front().cells) {
    absl::StrAppend(&head, " ", cell.policy, " |");
    line += "---:|";
  }
  std::printf("%s\n%s\n", head.c_str(), line.c_str());
  for (const Row& row : rows) {
    std::string text = absl::StrFormat("| %s | %d | %.1f MiB |", row.trace, row.allocations,
                                       static_cast<double>(row.peak_live_bytes) / (1 << 20));
    for (const Cell& cell : row.cells) {
      absl::StrAppendFormat(&text, " %s%.3f, %s |", cell.is_smallest ? "" : "≤ ",
                            row.Overhead(cell), TimeText(cell.seconds));
    }
    std::printf("%s\n", text.c_str());
  }
  std::printf(
      "\nThe smallest pool over peak live, and how long it took to find; ≤: it is not known "
      "whether "
      "a smaller one serves.\n");
}

void PrintJson(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    absl::StrAppendFormat(
        &text,
        "%s{\"trace\": \"%s\", \"allocations\": %d, \"peak_live_bytes\": %d, \"policies\": [",
        text.empty() ? "" : ",\n ", row.trace, row.allocations, row.peak_live_bytes);
    for (const Cell& cell : row.cells) {
      absl::StrAppendFormat(&text,
                            "%s{\"policy\": \"%s\", \"pool_bytes\": %d, \"overhead\": %.6f, "
                            "\"smallest\": %s, \"seconds\": %.6f}",
                            &cell == &row.cells.front() ? "" : ", ", cell.policy, cell.pool_bytes,
                            row.Overhead(cell), cell.is_smallest ? "true" : "false", cell.seconds);
    }
    text += "]}";
  }
  std::printf("[%s]\n", text.c_str());
}

int Main(int argc, char** argv) {
  double time_limit_seconds = 10;
  bool json = false;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(TIDEPOOL_SOURCE_DIR) / "examples" / "traces")) {
    if (entry.path().extension() == ".gz") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--time-limit" && i + 1 < argc) {
      time_limit_seconds = std::atof(argv[++i]);
    } else {
      paths.emplace_back(argument);
    }
  }
  std::vector<Row> rows;
  rows.reserve(paths.size());
  for (const std::string& path : paths) rows.push_back(Measure(path, time_limit_seconds));
  json ? PrintJson(rows) : PrintMarkdown(rows);
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }
