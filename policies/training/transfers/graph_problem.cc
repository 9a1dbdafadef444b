// SPDX-License-Identifier: Apache-2.0
// Walks through the runs of tasks with the lives of all data.
#include "policies/training/transfers/graph_problem.h"

#include <algorithm>
#include <numeric>

namespace tidepool::transfers {

GraphProblemMaker::GraphProblemMaker(const TaskGraph& graph, const GraphProblemOptions& options)
    : options_(options) {
  data_.reserve(graph.data.size());
  for (const GraphData& datum : graph.data) {
    const double density = DensityOf(data_.size());
    const bool is_there_before = datum.before == DataHome::kDevice;
    data_.push_back(
        {.bytes = datum.bytes,
         .rounded = Rounded(datum.bytes),
         .out_seconds = options.rates.OutSeconds(datum.bytes, density),
         .in_seconds = options.rates.InSeconds(datum.bytes, density),
         .exists_before = ExistsBefore(datum),
         .exists_after = ExistsAfter(datum),
         .is_on_host = datum.before == DataHome::kHost,
         .ends_on_host = datum.after == DataHome::kHost,
         .is_at_home = is_there_before && datum.after == DataHome::kDevice,
         .is_old_gradient = ExistsBefore(datum) && datum.kind == DataKind::kWeightGradient});
  }
  if (!options.has_all_absences) least_bytes_ = FindLeastBytes();
  for (const GraphTask& task : graph.tasks) AddTask(task);
  task_uses_of_.push_back(task_uses_.size());
  has_updates_ = std::find(is_update_.begin(), is_update_.end(), true) != is_update_.end();
  problem_.transfers.full_duplex = options.rates.full_duplex;
}

std::int64_t GraphProblemMaker::FindLeastBytes() const {
  std::vector<std::int64_t> sizes;
  sizes.reserve(data_.size());
  for (const Datum& datum : data_) sizes.push_back(datum.bytes);
  std::sort(sizes.begin(), sizes.end());
  std::int64_t left = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) / kPartOfSmall;
  for (const std::int64_t bytes : sizes) {
    left -= bytes;
    if (left < 0 || bytes >= kMostSmallBytes) return std::min(bytes, kMostSmallBytes);
  }
  return 0;
}

void GraphProblemMaker::AddTask(const GraphTask& task) {
  algorithms_of_.push_back(algorithms_.size());
  for (const TaskAlgorithm& algorithm : task.algorithms) {
    algorithms_.push_back({algorithm.seconds, Rounded(algorithm.workspace_bytes)});
  }
  task_uses_of_.push_back(task_uses_.size());
  for (const std::size_t data : task.reads) task_uses_.push_back({data, false, false});
  for (const std::size_t data : task.updates) task_uses_.push_back({data, true, false});
  for (const std::size_t data : task.writes) task_uses_.push_back({data, true, true});
  is_update_.push_back(task.phase == TaskPhase::kUpdate);
}

void GraphProblemMaker::Begin(std::size_t runs) {
  least_runs_ = options_.has_all_absences        ? 0
                : options_.sends_for_short_times ? 1
                                                 : std::min(kMostSoonRuns, 1 + runs / kSoonPart);
  before_ = dropped_ = 0;
  taken_.assign(runs + 1, 0);
  given_back_.assign(runs + 1, 0);
  problem_.moved.clear();
  problem_.ends.clear();
  problem_.dropped.clear();
  problem_.transfers.seconds.clear();
  problem_.transfers.running_bytes.clear();
  problem_.transfers.resting_bytes.clear();
  problem_.transfers.absences.clear();
  problem_.transfers.memory_bytes = options_.memory_bytes;
}

// Sorts the uses of all runs by data.
void GraphProblemMaker::FindUses(const std::vector<TaskRun>& runs) {
  // The number of uses of a datum, then their end, and at last their start.
  uses_of_.assign(data_.size() + 1, 0);
  is_update_run_.clear();
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const std::size_t task = runs[run].task;
    for (std::size_t i = task_uses_of_[task]; i < task_uses_of_[task + 1]; ++i) {
      ++uses_of_[task_uses_[i].data];
    }
    problem_.transfers.seconds.push_back(AlgorithmOf(runs[run]).seconds);
    is_update_run_.push_back(is_update_[task]);
  }
  std::partial_sum(uses_of_.begin(), uses_of_.end(), uses_of_.begin());
  uses_.resize(uses_of_.back());
  for (std::size_t run = runs.size(); run-- > 0;) {
    // Reads come before updates, and updates before writes.
    for (std::size_t i = task_uses_of_[runs[run].task + 1]; i-- > task_uses_of_[runs[run].task];) {
      const TaskUse& use = task_uses_[i];
      uses_[--uses_of_[use.data]] = {run, use.changes, use.makes};
    }
  }
}

// Whether a datum exists when the iteration starts, and is written over before any task reads it.
// Gradients that no update reads have a sum of several rounds.
bool GraphProblemMaker::LosesItsValue(std::size_t data) const {
  const absl::Span<const Use> uses = UsesOf(data);
  return data_[data].is_old_gradient && !uses.empty() && uses.front().makes &&
         is_update_run_[uses.back().run];
}

// Adds the times in which a datum takes memory. It is there before the iteration, or from the run
// that makes it on.
void GraphProblemMaker::AddLives(std::size_t data) {
  const Datum& datum = data_[data];
  const absl::Span<const Use> uses = UsesOf(data);
  const std::int64_t bytes = datum.rounded;
  // Data that no task uses stays on the host.
  if (uses.empty() && datum.is_on_host) return;
  if (LosesItsValue(data)) {
    if (!datum.is_on_host) {
      problem_.dropped.push_back(data);
      dropped_ += bytes;
    }
  } else if (datum.exists_before) {
    before_ += bytes;
    if (uses.empty()) return;
    const bool is_as_on_host = datum.ends_on_host && !IsChanged(data);
    if (!datum.exists_after || is_as_on_host) End(data, uses.back().run, is_as_on_host);
    return;
  }
  for (std::size_t k = 0; k < uses.size(); ++k) {
    if (uses[k].makes) taken_[uses[k].run] += bytes;
    const bool is_last = k + 1 == uses.size();
    const bool ends = is_last ? !datum.exists_after : uses[k + 1].makes;
    if (ends) End(data, uses[k].run, !is_last);
  }
}

bool GraphProblemMaker::IsChanged(std::size_t data) const {
  const absl::Span<const Use> uses = UsesOf(data);
  return std::any_of(uses.begin(), uses.end(), [](const Use& use) { return use.changes; });
}

void GraphProblemMaker::End(std::size_t data, std::size_t run, bool is_kept) {
  given_back_[run] += data_[data].rounded;
  problem_.ends.push_back({run, data, is_kept});
}

// Adds the absence of a datum with the uses of `uses`, or one for each part.
void GraphProblemMaker::AddAbsence(std::size_t data, const Absence& uses, bool clean) {
  if (!options_.offloads && !clean && !uses.is_always_away()) return;
  const std::int64_t bytes = data_[data].bytes;
  const std::int64_t part = PartBytes(bytes);
  if (part >= bytes) return AddPart({.data = data, .is_clean = clean}, uses);
  for (std::int64_t begin = 0; begin < bytes; begin += part) {
    const std::int64_t end = std::min(begin + part, bytes);
    AddPart({.data = data, .is_clean = clean, .begin = begin, .end = end}, uses);
  }
}

void GraphProblemMaker::AddPart(const GraphProblem::Moved& moved, Absence absence) {
  const Datum& datum = data_[moved.data];
  if (moved.end < 0) {
    absence.bytes = datum.rounded;
    absence.out_seconds = datum.out_seconds;
    absence.in_seconds = datum.in_seconds;
  } else {
    const std::int64_t bytes = moved.end - moved.begin;
    const double density = DensityOf(moved.data);
    absence.bytes = Rounded(bytes);
    absence.out_seconds = options_.rates.OutSeconds(bytes, density);
    absence.in_seconds = options_.rates.InSeconds(bytes, density);
  }
  if (moved.is_clean) absence.out_seconds = 0;
  problem_.transfers.absences.push_back(absence);
  problem_.moved.push_back(moved);
}

void GraphProblemMaker::AddAbsences(std::size_t data) {
  const Datum& datum = data_[data];
  const absl::Span<const Use> uses = UsesOf(data);
  if (uses.empty()) return;
  if (datum.exists_after && !datum.ends_on_host) return AddAbsencesAtHome(data);
  bool clean = datum.is_on_host && !LosesItsValue(data);
  if (clean) AddAbsence(data, {.needed = uses.front().run, .begins_away = true}, clean);
  Absence absence;
  for (std::size_t k = 0; k < uses.size(); ++k) {
    absence.left = uses[k].run + 1;
    if (uses[k].changes) {
      absence.written = absence.left;
      clean = false;
    }
    if (k + 1 == uses.size()) break;
    absence.needed = uses[k + 1].run;
    const bool is_short = absence.needed < absence.left + least_runs_;
    if (uses[k + 1].makes || is_short || datum.bytes < least_bytes_) continue;
    AddAbsence(data, absence, clean);
  }
  if (datum.ends_on_host && !clean) AddLeaving(data, absence);
}

// Adds the absence of data that goes home to the host after its last use.
void GraphProblemMaker::AddLeaving(std::size_t data, Absence absence) {
  absence.needed = problem_.transfers.seconds.size();
  absence.ends_away = true;
  AddAbsence(data, absence, false);
}

// Adds the absences of data that is on the device before and after the iteration: also those before
// the first use and after the last. Rounds have no updates; their data stays.
void GraphProblemMaker::AddAbsencesAtHome(std::size_t data) {
  const Datum& datum = data_[data];
  if (!datum.is_at_home || !has_updates_ || datum.bytes < least_bytes_) return;
  Absence absence = {.is_at_home = true};
  const auto add = [&](std::size_t needed) {
    absence.needed = needed;
    if (needed >= absence.left + least_runs_) AddAbsence(data, absence, false);
  };
  bool has_value = !LosesItsValue(data);
  for (const Use& use : UsesOf(data)) {
    if (has_value) add(use.run);
    has_value = true;
    absence.left = use.run + 1;
    if (use.changes) absence.written = use.run + 1;
  }
  add(problem_.transfers.seconds.size());
}

void GraphProblemMaker::AddMemory(const std::vector<TaskRun>& runs) {
  TransferProblem& transfers = problem_.transfers;
  std::int64_t bytes = before_;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    transfers.resting_bytes.push_back(bytes);
    bytes += taken_[run];
    transfers.running_bytes.push_back(bytes + AlgorithmOf(runs[run]).workspace);
    bytes -= given_back_[run];
  }
  transfers.resting_bytes.push_back(bytes);
  // All that is on the device before the iteration fits beside each other.
  if (!runs.empty()) {
    transfers.running_bytes.front() = std::max(transfers.running_bytes.front(), before_ + dropped_);
  }
}

// Takes the reserve from the memory, and adds the part that a run cannot spare by counting less for
// that run.
void GraphProblemMaker::Reserve() {
  TransferProblem& transfers = problem_.transfers;
  const std::size_t runs = transfers.seconds.size();
  std::vector<std::int64_t> leaving(runs + 1);
  for (const Absence& absence : transfers.absences) {
    leaving[absence.left] += absence.bytes;
    leaving[absence.needed] -= absence.bytes;
  }
  std::int64_t away = 0;
  std::int64_t spared_before = 0;
  for (std::size_t run = 0; run < runs; ++run) {
    away += leaving[run];
    const std::int64_t free = transfers.memory_bytes - (transfers.running_bytes[run] - away);
    const std::int64_t reserve =
        std::min(options_.reserve_bytes, std::max<std::int64_t>(free / 2, 0));
    const std::int64_t spared = options_.reserve_bytes - reserve;
    transfers.running_bytes[run] -= spared;
    transfers.resting_bytes[run] -= std::max(spared_before, spared);
    spared_before = spared;
  }
  transfers.memory_bytes -= options_.reserve_bytes;
  // At the end all that is at home on the device is there.
  std::int64_t missing = transfers.resting_bytes.back() - transfers.memory_bytes;
  for (const Absence& absence : transfers.absences)
    missing -= absence.ends_away ? absence.bytes : 0;
  transfers.resting_bytes.back() -= std::max(spared_before, missing);
}

const GraphProblem& GraphProblemMaker::Make(const std::vector<TaskRun>& runs) {
  Begin(runs.size());
  FindUses(runs);
  for (std::size_t data = 0; data < data_.size(); ++data) {
    AddLives(data);
    AddAbsences(data);
  }
  AddMemory(runs);
  if (options_.reserve_bytes > 0) Reserve();
  return problem_;
}

GraphProblem MakeGraphProblem(const TaskGraph& graph, const std::vector<TaskRun>& runs,
                              const GraphProblemOptions& options) {
  return GraphProblemMaker(graph, options).Make(runs);
}

}  // namespace tidepool::transfers
