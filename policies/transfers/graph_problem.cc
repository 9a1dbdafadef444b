// SPDX-License-Identifier: Apache-2.0
// Walks through the runs of tasks with the lives of all data.
#include "policies/transfers/graph_problem.h"

#include <algorithm>

namespace tidepool::transfers {
namespace {

// One use of a datum.
struct Use {
  std::size_t run = 0;
  bool changes = false;  // writes or updates it
  bool makes = false;    // writes it
};

class ProblemMaker {
 public:
  ProblemMaker(const TaskGraph& graph, const std::vector<TaskRun>& runs,
               const GraphProblemOptions& options)
      : graph_(graph),
        runs_(runs),
        options_(options),
        uses_(graph.data.size()),
        taken_(runs.size() + 1),
        given_back_(runs.size() + 1) {
    const auto is_update = [](const GraphTask& task) { return task.phase == TaskPhase::kUpdate; };
    sends_data_at_home_ = options.sends_data_at_home &&
                          std::any_of(graph.tasks.begin(), graph.tasks.end(), is_update);
    made_.ends.resize(runs.size());
    made_.problem.memory_bytes = options.memory_bytes;
    made_.problem.full_duplex = options.rates.full_duplex;
  }

  GraphProblem Make();

 private:
  void FindUses();
  bool LosesItsValue(std::size_t data) const;
  void AddLives(std::size_t data);
  void End(std::size_t data, std::size_t run, bool is_made_again);
  void AddAbsences(std::size_t data);
  void AddAbsencesAtHome(std::size_t data);
  void AddAbsence(std::size_t data, const Absence& uses, bool clean);
  void AddPart(const GraphProblem::Moved& moved, Absence absence);
  void AddMemory();
  void Reserve();

  std::int64_t Rounded(std::int64_t bytes) const {
    return (bytes + options_.granule - 1) / options_.granule * options_.granule;
  }
  std::int64_t PartBytes(std::int64_t bytes) const {
    if (options_.part_bytes == 0) return bytes;
    return Rounded(std::max(options_.part_bytes, (bytes + kMostParts - 1) / kMostParts));
  }
  double DensityOf(const GraphProblem::Moved& moved) const {
    return options_.densities.empty() ? -1 : options_.densities[moved.data];
  }
  const TaskAlgorithm& AlgorithmOf(const TaskRun& run) const {
    return graph_.tasks[run.task].algorithms[run.algorithm];
  }

  const TaskGraph& graph_;
  const std::vector<TaskRun>& runs_;
  const GraphProblemOptions& options_;
  std::vector<std::vector<Use>> uses_;  // by data
  std::int64_t before_ = 0;             // bytes at the start
  bool sends_data_at_home_ = false;
  std::int64_t dropped_ = 0;         // bytes that are given back at the start
  std::vector<std::int64_t> taken_;  // bytes that a run takes when it starts, for its data
  std::vector<std::int64_t> given_back_;
  GraphProblem made_;
};

void ProblemMaker::FindUses() {
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    const GraphTask& task = graph_.tasks[runs_[run].task];
    for (const std::size_t data : task.reads) uses_[data].push_back({run, false, false});
    for (const std::size_t data : task.updates) uses_[data].push_back({run, true, false});
    for (const std::size_t data : task.writes) uses_[data].push_back({run, true, true});
    made_.problem.seconds.push_back(AlgorithmOf(runs_[run]).seconds);
  }
}

// Whether a datum is on the device when the iteration starts, and is written over before any task
// reads it. Gradients that no update reads have a sum of several rounds.
bool ProblemMaker::LosesItsValue(std::size_t data) const {
  const GraphData& datum = graph_.data[data];
  const std::vector<Use>& uses = uses_[data];
  if (datum.kind != DataKind::kWeightGradient || datum.before != DataHome::kDevice) return false;
  return !uses.empty() && uses.front().makes &&
         graph_.tasks[runs_[uses.back().run].task].phase == TaskPhase::kUpdate;
}

// Adds the times in which a datum takes memory. It is there before the iteration, or from the run
// that makes it on.
void ProblemMaker::AddLives(std::size_t data) {
  const GraphData& datum = graph_.data[data];
  const std::vector<Use>& uses = uses_[data];
  const std::int64_t bytes = Rounded(datum.bytes);
  if (LosesItsValue(data)) {
    made_.dropped.push_back(data);
    dropped_ += bytes;
  } else if (ExistsBefore(datum)) {
    before_ += bytes;
    if (!ExistsAfter(datum) && !uses.empty()) End(data, uses.back().run, false);
    return;
  }
  for (std::size_t k = 0; k < uses.size(); ++k) {
    if (uses[k].makes) taken_[uses[k].run] += bytes;
    const bool is_last = k + 1 == uses.size();
    const bool ends = is_last ? !ExistsAfter(datum) : uses[k + 1].makes;
    if (ends) End(data, uses[k].run, !is_last);
  }
}

void ProblemMaker::End(std::size_t data, std::size_t run, bool is_made_again) {
  given_back_[run] += Rounded(graph_.data[data].bytes);
  made_.ends[run].push_back({data, is_made_again});
}

// Adds the absence of a datum with the uses of `uses`, or one for each part.
void ProblemMaker::AddAbsence(std::size_t data, const Absence& uses, bool clean) {
  const std::int64_t bytes = graph_.data[data].bytes;
  const std::int64_t part = PartBytes(bytes);
  if (part >= bytes) return AddPart({.data = data, .is_clean = clean}, uses);
  for (std::int64_t begin = 0; begin < bytes; begin += part) {
    const std::int64_t end = std::min(begin + part, bytes);
    AddPart({.data = data, .is_clean = clean, .begin = begin, .end = end}, uses);
  }
}

void ProblemMaker::AddPart(const GraphProblem::Moved& moved, Absence absence) {
  const std::int64_t end = moved.end < 0 ? graph_.data[moved.data].bytes : moved.end;
  const std::int64_t bytes = end - moved.begin;
  const CopyRates& rates = options_.rates;
  absence.bytes = Rounded(bytes);
  const double density = DensityOf(moved);
  absence.out_seconds = moved.is_clean ? 0 : rates.OutSeconds(bytes, density);
  absence.in_seconds = rates.InSeconds(bytes, density);
  made_.problem.absences.push_back(absence);
  made_.moved.push_back(moved);
}

void ProblemMaker::AddAbsences(std::size_t data) {
  const GraphData& datum = graph_.data[data];
  const std::vector<Use>& uses = uses_[data];
  if (uses.empty()) return;
  if (ExistsAfter(datum)) return AddAbsencesAtHome(data);
  const bool is_on_host = datum.before == DataHome::kHost;
  if (is_on_host) {
    AddPart({.data = data, .is_clean = true}, {.needed = uses.front().run, .begins_away = true});
  }
  if (datum.bytes < kLeastAbsenceBytes) return;
  std::size_t written = 0;
  bool clean = is_on_host;
  for (std::size_t k = 0; k + 1 < uses.size(); ++k) {
    if (uses[k].changes) {
      written = uses[k].run + 1;
      clean = false;
    }
    const std::size_t left = uses[k].run + 1;
    const std::size_t needed = uses[k + 1].run;
    if (uses[k + 1].makes || needed < left + options_.least_absence_runs) continue;
    AddAbsence(data, {.written = written, .left = left, .needed = needed}, clean);
  }
}

// Adds the absences of data that is on the device before and after the iteration: also those before
// the first use and after the last. Rounds have no updates; their data stays.
void ProblemMaker::AddAbsencesAtHome(std::size_t data) {
  const GraphData& datum = graph_.data[data];
  const bool is_home = datum.before == DataHome::kDevice && datum.after == DataHome::kDevice;
  if (!is_home || !sends_data_at_home_ || datum.bytes < kLeastAbsenceBytes) return;
  Absence absence = {.is_at_home = true};
  const auto add = [&](std::size_t needed) {
    absence.needed = needed;
    if (needed >= absence.left + options_.least_absence_runs) AddAbsence(data, absence, false);
  };
  bool has_value = !LosesItsValue(data);
  for (const Use& use : uses_[data]) {
    if (has_value) add(use.run);
    has_value = true;
    absence.left = use.run + 1;
    if (use.changes) absence.written = use.run + 1;
  }
  add(runs_.size());
}

void ProblemMaker::AddMemory() {
  TransferProblem& problem = made_.problem;
  std::int64_t bytes = before_;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    problem.resting_bytes.push_back(bytes);
    bytes += taken_[run];
    problem.running_bytes.push_back(bytes + Rounded(AlgorithmOf(runs_[run]).workspace_bytes));
    bytes -= given_back_[run];
  }
  problem.resting_bytes.push_back(bytes);
  // All that is on the device before the iteration fits beside each other.
  if (!runs_.empty()) {
    problem.running_bytes.front() = std::max(problem.running_bytes.front(), before_ + dropped_);
  }
}

// Takes the reserve from the memory, and adds the part that a run cannot spare by counting less for
// that run.
void ProblemMaker::Reserve() {
  TransferProblem& problem = made_.problem;
  std::vector<std::int64_t> leaving(runs_.size() + 1);
  for (const Absence& absence : problem.absences) {
    leaving[absence.left] += absence.bytes;
    leaving[absence.needed] -= absence.bytes;
  }
  std::int64_t away = 0;
  std::int64_t spared_before = 0;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    away += leaving[run];
    const std::int64_t free = problem.memory_bytes - (problem.running_bytes[run] - away);
    const std::int64_t reserve =
        std::min(options_.reserve_bytes, std::max<std::int64_t>(free / 2, 0));
    const std::int64_t spared = options_.reserve_bytes - reserve;
    problem.running_bytes[run] -= spared;
    problem.resting_bytes[run] -= std::max(spared_before, spared);
    spared_before = spared;
  }
  problem.memory_bytes -= options_.reserve_bytes;
  // At the end all that is at home on the device is there.
  const std::int64_t missing = problem.resting_bytes.back() - problem.memory_bytes;
  problem.resting_bytes.back() -= std::max(spared_before, missing);
}

GraphProblem ProblemMaker::Make() {
  FindUses();
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    AddLives(data);
    AddAbsences(data);
  }
  AddMemory();
  if (options_.reserve_bytes > 0) Reserve();
  return std::move(made_);
}

}  // namespace

GraphProblem MakeGraphProblem(const TaskGraph& graph, const std::vector<TaskRun>& runs,
                              const GraphProblemOptions& options) {
  return ProblemMaker(graph, runs, options).Make();
}

}  // namespace tidepool::transfers
