// Plans: an offset for every buffer of a program, made before it runs, so that the pool is as small
// as the peak of live bytes, or as near to it as can be found.
//
// This is dynamic storage allocation: buffers with half-open lifetimes and sizes, whose offsets are
// wanted such that buffers that are live at the same time do not overlap in address. The smallest
// height is NP-hard to find. All functions are thread-safe.
#ifndef TIDEPOOL_PLAN_H_
#define TIDEPOOL_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/planned_placement.h"
#include "tidepool/trace.h"

namespace tidepool {

// Lives in [lower, upper), in any unit of time. What was there before the first event, or stays
// after the last, has a lower or an upper beyond all others.
struct PlanBuffer {
  static constexpr std::int64_t kAnywhere = -1;

  std::int64_t lower = 0;
  std::int64_t upper = 0;  // greater than `lower`
  std::int64_t bytes = 0;  // in [1, kMaxRequestBytes]
  // Of the offset alone: a power of two up to 1 GiB. Sizes are taken as they are.
  std::int64_t alignment = 1;
  // Where it lies already and must stay, whatever its alignment, with its end within 2^60; or
  // kAnywhere: the plan decides.
  std::int64_t offset = kAnywhere;
};

struct PlanProblem {
  std::vector<PlanBuffer> buffers;
};

// The buffers of a trace, in the order of its allocations: sizes rounded up to `alignment`, a power
// of two up to 1 GiB, and offsets aligned to it. Times are the indices of events, or a lifetime
// CSV's own; what is never freed stays to the end. A buffer that was freed on one of several
// streams lives on until every other stream that allocates later has waited for that free
// (TraceEvent::kWait, directly or through others), so that no stream takes over memory that another
// may still be using. Formats that do not tell of waits tell of frees that all streams know of: a
// PyTorch snapshot of those that completed, and other logs of those that they have.
// InvalidArgument for an alignment that is none, ResourceExhausted for more than 1,024 streams.
// O(events streams).
TIDEPOOL_EXPORT absl::StatusOr<PlanProblem> ToPlanProblem(const Trace& trace,
                                                          std::int64_t alignment);

// A height that no plan can be below: the peak of live bytes, the highest end of a fixed buffer, or
// more where alignment wastes bytes between buffers, or what is fixed leaves holes that are too
// small. Errors are MakePlan's. O(n log n).
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> PlanLowerBound(const PlanProblem& problem);

struct PlanOptions {
  // A plan of at most this height is wanted, and the first one ends the search. Nothing: the
  // smallest height.
  std::optional<std::int64_t> capacity = std::nullopt;
  // The best plan so far is returned then. The first plan is always made, however long it takes:
  // O(n log n) as a rule. 0: nothing but the first plan.
  double time_limit_seconds = 10;
  // Two plans with the same seed and number of threads are the same, on any machine, unless the
  // time limit or a stop struck.
  std::uint64_t seed = 1;
  // Asked often: the best plan so far is returned when a stop is requested.
  std::stop_token stop = {};
  // From 1 to 1024 search side by side. In the same number of rounds more threads find a plan that
  // is no higher, and where they are on cores of their own, a round takes as long as with one.
  int threads = 1;
};

struct Plan {
  std::vector<std::int64_t> offsets;  // one a buffer
  std::int64_t height = 0;  // the highest end of any buffer, fixed or not: the pool that it needs
  std::int64_t lower_bound = 0;  // proved: no plan is below it
  // Whether `height` is the smallest: it equals `lower_bound`.
  bool optimal = false;
  // Whether the search ended because of the time limit or the stop token, rather than by itself.
  bool timed_out = false;
  bool stopped = false;
  double seconds = 0;  // that it took
};

// The best plan that was found. With a capacity, one that is not met may still be returned; none
// can meet it when `lower_bound` is above it. ResourceExhausted for more than 2^31 - 2 buffers;
// InvalidArgument for buffers that are none, sizes whose sum exceeds 2^60, fixed buffers that
// overlap, a capacity below the largest buffer or the end of a fixed one, a time limit that is
// negative or no number, or a number of threads that is none. Every plan was checked by
// ValidatePlan. Memory is O(n) and at most 512 MiB more for searching, both for each thread.
TIDEPOOL_EXPORT absl::StatusOr<Plan> MakePlan(const PlanProblem& problem,
                                              const PlanOptions& options = {});

// Whether `offsets` are a plan of at most `height` for the problem: one each, not negative,
// aligned or where they are fixed, and no two buffers that live at the same time overlapping.
// InvalidArgument says what is wrong first. Shares nothing with what makes plans. O(n log n).
TIDEPOOL_EXPORT absl::Status ValidatePlan(const PlanProblem& problem,
                                          const std::vector<std::int64_t>& offsets,
                                          std::int64_t height);

// The first `requests` buffers of the problem, which is valid, as an iteration asks for them one by
// one, and where the valid plan `offsets` has them; the others are there beside. With clues. O(n
// log n).
TIDEPOOL_EXPORT std::shared_ptr<const PlacementPlan> ToPlacementPlan(
    const PlanProblem& problem, const std::vector<std::int64_t>& offsets, std::size_t requests);

// Writes a plan as CSV, `id,lower,upper,size,offset`, one row an allocation of `trace` in its
// order: sizes as asked for, and as times the indices of events, or a lifetime CSV's own.
// Compressed when the path ends in ".gz". InvalidArgument when there is not one offset for each
// allocation; other errors are WriteFile's.
TIDEPOOL_EXPORT absl::Status WritePlan(const Trace& trace, const std::vector<std::int64_t>& offsets,
                                       const std::string& path);

// A plan as a file tells it: its rows in the order in which their buffers are asked for (by
// `lower`, and those of the same `lower` in the order of the file).
struct PlanFile {
  std::string name;                   // of the file, as errors show it
  StringTable ids;                    // different for what lives at the same time
  PlanProblem problem;                // sizes as asked for, without alignment
  std::vector<std::int64_t> offsets;  // one a buffer; no buffers overlap
  std::vector<std::int64_t> lines;    // of the file
  std::int64_t height = 0;            // the highest end of any buffer
};

// Reads a CSV file, compressed by gzip or not, with the columns id, lower, upper, size and offset.
// NotFound, or InvalidArgument with "FILE:LINE: what is wrong, what was expected": a row that is
// none, an id that is live already, buffers that overlap, sizes that sum up to more than 2^60.
// O(n log n).
TIDEPOOL_EXPORT absl::StatusOr<PlanFile> ReadPlan(const std::string& path);
// The same from memory; `name` stands for the file in errors.
TIDEPOOL_EXPORT absl::StatusOr<PlanFile> ParsePlan(std::string_view contents,
                                                   const std::string& name);

// The offset of each allocation of `trace` in its order, from a plan of this trace as WritePlan
// writes it, in any order of rows: one row an allocation, with its id, size and times. Offsets are
// multiples of `alignment`, and ValidatePlan accepts them for ToPlanProblem(trace, alignment).
// Otherwise InvalidArgument with the first row that is wrong; and the errors of ToPlanProblem.
// O(n log n + events streams).
TIDEPOOL_EXPORT absl::StatusOr<std::vector<std::int64_t>> OffsetsFor(const PlanFile& plan,
                                                                     const Trace& trace,
                                                                     std::int64_t alignment);

}  // namespace tidepool

#endif  // TIDEPOOL_PLAN_H_
