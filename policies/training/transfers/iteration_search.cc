// SPDX-License-Identifier: Apache-2.0
#include "policies/training/transfers/iteration_search.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "policies/training/transfers/faster_algorithms.h"
#include "policies/training/transfers/rerun_order.h"
#include "policies/training/transfers/transfer_bounds.h"
#include "policies/training/transfers/transfer_dispatch.h"

namespace tidepool::transfers {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Seconds for a byte of results.
struct Prices {
  std::vector<double> of_task;  // infinite: it never runs again
  std::vector<double> sorted;   // finite ones, each once

  void Sort() {
    std::copy_if(of_task.begin(), of_task.end(), std::back_inserter(sorted),
                 [](double price) { return price < kNever; });
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  }
  // Returns the prices that divide the tasks into at most `most` steps.
  std::vector<double> Steps(std::size_t most) const {
    const std::size_t steps = std::min(most, sorted.size());
    std::vector<double> prices;
    for (std::size_t step = 1; step <= steps; ++step) {
      prices.push_back(sorted[sorted.size() * step / steps - 1]);
    }
    return prices;
  }
};

class IterationSearch {
 public:
  IterationSearch(const TaskGraph& graph, const std::vector<std::size_t>& algorithms,
                  const IterationOptions& options, const GoOn& go_on)
      : graph_(graph),
        algorithms_(algorithms),
        options_(options),
        go_on_(go_on),
        order_(graph, algorithms),
        whole_(graph, WholeData(options.problem)),
        best_reruns_(graph.tasks.size()) {}

  Iteration Search();

 private:
  using Reruns = std::vector<bool>;  // by task
  static constexpr std::size_t kParts = 16;

  // Tasks that run again at first.
  struct Start {
    double price = 0;
    std::size_t part = 0;    // of kParts of each pass
    std::size_t stride = 0;  // every stride-th cut keeps its tensor; 0: none does
    // Whether it is by the full prices: all tasks up to the price `below`, and in the part those up
    // to `price`.
    bool is_full = false;
    double below = 0;
  };

  double SecondsOf(std::size_t task) const {
    return graph_.tasks[task].algorithms[algorithms_[task]].seconds;
  }
  // Returns the end of the first `part` of `parts` of a pass.
  static std::size_t EndOfPart(const RerunOrder::Pass& pass, std::size_t part, std::size_t parts) {
    return pass.begin + pass.size() * part / parts;
  }
  static GraphProblemOptions WholeData(GraphProblemOptions options) {
    options.part_bytes = 0;
    return options;
  }
  void Choose();
  double Try(const Reruns& reruns);
  void TryOnce(const Reruns& reruns);
  double SecondsWith(std::size_t task, std::size_t& left) const;
  void FindPrices();
  void TrySegments();
  Reruns InSegments(std::int64_t bytes, std::size_t part, std::size_t parts) const;
  void AddPrices();
  void AddCheapest();
  Reruns TasksOf(const Start& start) const;
  Reruns CheaperThan(double price, std::size_t part, std::size_t stride) const;
  void Climb();

  const TaskGraph& graph_;
  const std::vector<std::size_t>& algorithms_;
  const IterationOptions& options_;
  const GoOn& go_on_;
  const RerunOrder order_;
  GraphProblemMaker whole_;  // problems of whole data
  Prices prices_;            // of the tasks alone
  Prices full_prices_;       // with the tasks that run again with them
  std::vector<Start> starts_;
  std::unordered_set<Reruns> tried_;
  double best_seconds_ = kNever;
  Reruns best_reruns_;
};

// Returns the makespan with the eager set, or infinity if that does not fit or is no faster than
// the best iteration. If the tasks alone take longer than that, returns their time.
double IterationSearch::Try(const Reruns& reruns) {
  const std::vector<TaskRun> runs = order_.Make(reruns);
  double seconds = 0;
  for (const TaskRun& run : runs) seconds += SecondsOf(run.task);
  if (seconds >= best_seconds_) return seconds;
  const TransferProblem& problem = whole_.Make(runs).transfers;
  seconds = TransferDispatcher(problem).RunWithin(best_seconds_, EagerSet(problem));
  if (seconds < best_seconds_) {
    best_seconds_ = seconds;
    best_reruns_ = reruns;
  }
  return seconds;
}

// Tries a choice unless this function tried it before: many prices give the same choice.
void IterationSearch::TryOnce(const Reruns& reruns) {
  if (tried_.insert(reruns).second) Try(reruns);
}

// Returns the seconds of all tasks that run again with a task, and takes their number from `left`.
// Infinity if none are left.
double IterationSearch::SecondsWith(std::size_t task, std::size_t& left) const {
  if (left == 0) return kNever;
  double seconds = 0;
  const std::vector<std::size_t> all = order_.RunAgainWith(task);
  for (const std::size_t again : all) seconds += SecondsOf(again);
  left -= std::min(left, all.size());
  return seconds;
}

void IterationSearch::FindPrices() {
  // Where most tasks run again with each, full prices of all would take quadratic time.
  constexpr std::size_t kMostTasksOfAPrice = 64;  // in the mean
  std::size_t left = kMostTasksOfAPrice * graph_.tasks.size();
  for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
    const bool may_run = order_.CanRunAgain(task) && order_.KeptBytes(task) > 0;
    if (!may_run) {
      prices_.of_task.push_back(kNever);
      full_prices_.of_task.push_back(kNever);
      continue;
    }
    const auto bytes = static_cast<double>(order_.KeptBytes(task));
    prices_.of_task.push_back(SecondsOf(task) / bytes);
    full_prices_.of_task.push_back(SecondsWith(task, left) / bytes);
  }
  prices_.Sort();
  full_prices_.Sort();
}

// Returns the tasks of the first `part` of kParts of each pass that cost at most `price`, without
// every `stride`-th cut of the graph, which keeps its tensor. With a stride of 0 no cut keeps its
// tensor, so results are made again from the start of the graph.
IterationSearch::Reruns IterationSearch::CheaperThan(double price, std::size_t part,
                                                     std::size_t stride) const {
  Reruns reruns(graph_.tasks.size());
  for (const RerunOrder::Pass& pass : order_.passes()) {
    const std::size_t end = EndOfPart(pass, part, kParts);
    for (std::size_t task = pass.begin; task < end; ++task) {
      reruns[task] = prices_.of_task[task] <= price;
    }
  }
  if (stride == 0) return reruns;
  for (std::size_t cut = 0; cut < order_.cuts().size(); cut += stride) {
    reruns[order_.cuts()[cut]] = false;
  }
  return reruns;
}

// Returns the tasks of the first `part` of `parts` of each pass, without the cuts at which segments
// of at least `bytes` of results end.
IterationSearch::Reruns IterationSearch::InSegments(std::int64_t bytes, std::size_t part,
                                                    std::size_t parts) const {
  Reruns reruns(graph_.tasks.size());
  auto cut = order_.cuts().begin();
  for (const RerunOrder::Pass& pass : order_.passes()) {
    std::int64_t segment = 0;
    while (cut != order_.cuts().end() && *cut < pass.begin) ++cut;
    for (std::size_t task = pass.begin; task < EndOfPart(pass, part, parts); ++task) {
      reruns[task] = prices_.of_task[task] < kNever;
      segment += order_.KeptBytes(task);
      if (cut == order_.cuts().end() || *cut != task) continue;
      ++cut;
      if (segment < bytes) continue;
      reruns[task] = false;
      segment = 0;
    }
  }
  return reruns;
}

// Segments of about the same size need the least memory: that of one segment and of all cuts.
void IterationSearch::TrySegments() {
  constexpr std::int64_t kMostSegments = 64;
  constexpr std::size_t kShares = 4;
  std::int64_t bytes = 0;  // of the largest pass
  for (const RerunOrder::Pass& pass : order_.passes()) {
    std::int64_t kept = 0;
    for (std::size_t task = pass.begin; task < pass.end; ++task) kept += order_.KeptBytes(task);
    bytes = std::max(bytes, kept);
  }
  for (std::int64_t segments = 4; segments <= kMostSegments; segments *= 2) {
    for (std::size_t part = 1; part <= kShares; ++part) {
      if (!go_on_(graph_.tasks.size())) return;
      TryOnce(InSegments(bytes / segments, part, kShares));
    }
  }
}

// Adds choices of tasks up to a price, and up to a part of the graph.
void IterationSearch::AddPrices() {
  constexpr std::size_t kPrices = 12;
  constexpr std::size_t kStrides = 4;
  for (std::size_t stride = 0; stride <= kStrides; ++stride) {
    for (const double price : prices_.Steps(kPrices)) {
      for (std::size_t part = 1; part <= kParts; ++part) {
        starts_.push_back({.price = price, .part = part, .stride = stride});
      }
    }
  }
}

// Adds choices of the cheapest bytes: all tasks below a price, and of the next ones those of the
// first part.
void IterationSearch::AddCheapest() {
  constexpr std::size_t kPrices = 12;
  double below = 0;
  for (const double price : full_prices_.Steps(kPrices)) {
    for (std::size_t part = 1; part <= kParts; ++part) {
      starts_.push_back({.price = price, .part = part, .is_full = true, .below = below});
    }
    below = price;
  }
}

IterationSearch::Reruns IterationSearch::TasksOf(const Start& start) const {
  if (!start.is_full) return CheaperThan(start.price, start.part, start.stride);
  Reruns reruns(graph_.tasks.size());
  for (const RerunOrder::Pass& pass : order_.passes()) {
    const std::size_t end = EndOfPart(pass, start.part, kParts);
    for (std::size_t task = pass.begin; task < pass.end; ++task) {
      reruns[task] = full_prices_.of_task[task] <= (task < end ? start.price : start.below);
    }
  }
  return reruns;
}

// Hill climbing from the best choice so far, with a new start tried after each step. Neighbouring
// starts of the list are similar, so starts are taken in steps of about 0.618 of its length.
void IterationSearch::Climb() {
  constexpr double kGolden = 0.618;
  auto step = static_cast<std::size_t>(static_cast<double>(starts_.size()) * kGolden) + 1;
  while (!starts_.empty() && std::gcd(step, starts_.size()) > 1) ++step;
  std::mt19937_64 random(options_.seed);
  Reruns current = best_reruns_;
  double current_seconds = best_seconds_;
  for (std::size_t tries = 0; go_on_(graph_.tasks.size()); ++tries) {
    if (tries % 2 == 0 && tries / 2 < starts_.size()) {
      TryOnce(TasksOf(starts_[tries / 2 * step % starts_.size()]));
      if (best_seconds_ >= current_seconds) continue;
      current = best_reruns_;
      current_seconds = best_seconds_;
      continue;
    }
    Reruns next = current;
    order_.ChangeAtRandom(random, next);
    if (next == current) continue;
    const double seconds = Try(next);
    if (seconds > current_seconds) continue;
    current_seconds = seconds;
    current = std::move(next);
  }
}

void IterationSearch::Choose() {
  Try(best_reruns_);
  if (!options_.recomputes) return;
  FindPrices();
  if (prices_.sorted.empty()) return;
  TrySegments();
  AddPrices();
  AddCheapest();
  Climb();
}

Iteration IterationSearch::Search() {
  Choose();
  Iteration iteration;
  iteration.runs = order_.Make(best_reruns_);
  iteration.runs_again = best_reruns_;
  iteration.problem = MakeGraphProblem(graph_, iteration.runs, options_.problem);
  return iteration;
}

// Returns the absences of another problem of the same runs in which the same bytes are away.
std::vector<bool> SameAway(const Iteration& iteration, const GraphProblem& problem) {
  const auto key_of = [](const GraphProblem& one, std::size_t absence) {
    const GraphProblem::Moved& moved = one.moved[absence];
    return std::tuple(moved.data, moved.begin, one.transfers.absences[absence].needed);
  };
  std::set<std::tuple<std::size_t, std::int64_t, std::size_t>> away;
  for (std::size_t absence = 0; absence < iteration.is_away.size(); ++absence) {
    if (iteration.is_away[absence]) away.insert(key_of(iteration.problem, absence));
  }
  std::vector<bool> set;
  set.reserve(problem.moved.size());
  for (std::size_t absence = 0; absence < problem.moved.size(); ++absence) {
    set.push_back(problem.transfers.absences[absence].is_always_away() ||
                  away.contains(key_of(problem, absence)));
  }
  return set;
}

// Returns the set in which the search begins. It is that of a short search in which data at home on
// the device stays, or the eager set where that does not fit. Moves of weights are many and seldom
// pay, so a search among all data is slower at first.
std::vector<bool> FirstSet(const TransferProblem& problem, double bound, std::uint64_t seed,
                           const GoOn& go_on) {
  constexpr int kMostTries = 6000;
  TransferProblem staying = problem;
  std::erase_if(staying.absences, [](const Absence& absence) { return absence.is_at_home; });
  std::vector<bool> set = EagerSet(staying);
  if (TransferDispatcher(staying).Run(set) == kNever) return EagerSet(problem);
  int tries = 0;
  ImproveSet(
      staying, bound, seed, [&](std::size_t work) { return ++tries <= kMostTries && go_on(work); },
      set);
  std::vector<bool> first;
  first.reserve(problem.absences.size());
  auto next = set.begin();
  for (const Absence& absence : problem.absences) {
    first.push_back(!absence.is_at_home && *next++);
  }
  return first;
}

}  // namespace

Iteration SearchIteration(const TaskGraph& graph, const std::vector<std::size_t>& algorithms,
                          const IterationOptions& options, const GoOn& go_on,
                          const GoOn& go_on_sending) {
  Iteration iteration = IterationSearch(graph, algorithms, options, go_on).Search();
  const TransferProblem& problem = iteration.problem.transfers;
  // The bound takes longer than all else in a search without steps, which does not use it.
  const double bound = go_on_sending(0) ? TransferBounds(problem).Of({}) : 0;
  // Parts are many: they need all the work, and the eager set of parts is a good one.
  std::vector<bool> set = options.problem.part_bytes > 0
                              ? EagerSet(problem)
                              : FirstSet(problem, bound, options.seed, go_on_sending);
  iteration.is_away = std::move(set);
  FindTimes(iteration);
  MakeRoomForAlgorithms(graph, options.problem, iteration);
  SendOtherData(options.seed, go_on_sending, iteration);
  UseFasterAlgorithms(graph, options.problem, iteration);
  return iteration;
}

void SendOtherData(std::uint64_t seed, const GoOn& go_on, Iteration& iteration) {
  if (!go_on(0)) return;
  const TransferProblem& problem = iteration.problem.transfers;
  ImproveSet(problem, TransferBounds(problem).Of({}), seed, go_on, iteration.is_away);
  FindTimes(iteration);
}

void KeepAway(const TaskGraph& graph, const GraphProblemOptions& options, Iteration& iteration) {
  GraphProblem problem = MakeGraphProblem(graph, iteration.runs, options);
  iteration.is_away = SameAway(iteration, problem);
  iteration.problem = std::move(problem);
  AddUntilFits(iteration.problem.transfers, iteration.is_away);
  FindTimes(iteration);
}

void Refit(const TaskGraph& graph, const GraphProblemOptions& options, Iteration& iteration) {
  KeepAway(graph, options, iteration);
  Iteration less = iteration;
  FitSet(less.problem.transfers, less.is_away);
  FindTimes(less);
  if (less.seconds < iteration.seconds) iteration = std::move(less);
}

void FindTimes(Iteration& iteration) {
  iteration.actions.clear();
  iteration.seconds =
      TransferDispatcher(iteration.problem.transfers).Run(iteration.is_away, &iteration.actions);
}

}  // namespace tidepool::transfers
