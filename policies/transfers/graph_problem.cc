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
  ProblemMaker(const TaskGraph& graph, const std::vector<TaskRun>& runs, std::int64_t memory_bytes,
               std::int64_t granule, const CopyRates& rates)
      : graph_(graph),
        runs_(runs),
        granule_(granule),
        rates_(rates),
        uses_(graph.data.size()),
        taken_(runs.size() + 1),
        given_back_(runs.size() + 1) {
    made_.ends.resize(runs.size());
    made_.problem.memory_bytes = memory_bytes;
    made_.problem.full_duplex = rates.full_duplex;
  }

  GraphProblem Make();

 private:
  void FindUses();
  void AddLives(std::size_t data);
  void End(std::size_t data, std::size_t run, bool is_made_again);
  void AddAbsences(std::size_t data);
  void AddAbsence(std::size_t data, std::size_t written, const Use& from, const Use& to,
                  bool clean);
  void AddMemory();

  std::int64_t Rounded(std::int64_t bytes) const {
    return (bytes + granule_ - 1) / granule_ * granule_;
  }
  const TaskAlgorithm& AlgorithmOf(const TaskRun& run) const {
    return graph_.tasks[run.task].algorithms[run.algorithm];
  }

  const TaskGraph& graph_;
  const std::vector<TaskRun>& runs_;
  const std::int64_t granule_;
  const CopyRates& rates_;
  std::vector<std::vector<Use>> uses_;  // by data
  std::int64_t before_ = 0;             // bytes at the start
  std::vector<std::int64_t> taken_;     // bytes that a run takes when it starts, for its data
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

// Adds the times in which a datum takes memory. It is there before the iteration, or from the run
// that makes it on.
void ProblemMaker::AddLives(std::size_t data) {
  const GraphData& datum = graph_.data[data];
  const std::vector<Use>& uses = uses_[data];
  const std::int64_t bytes = Rounded(datum.bytes);
  if (ExistsBefore(datum)) {
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

void ProblemMaker::AddAbsence(std::size_t data, std::size_t written, const Use& from, const Use& to,
                              bool clean) {
  const auto bytes = static_cast<double>(graph_.data[data].bytes);
  if (to.run - from.run <= kLeastAbsenceRuns) return;
  const double out = clean ? 0 : rates_.latency_seconds + bytes / rates_.out_bytes_per_second;
  const double in = rates_.latency_seconds + bytes / rates_.in_bytes_per_second;
  made_.problem.absences.push_back(
      {Rounded(graph_.data[data].bytes), written, from.run + 1, to.run, out, in, false});
  made_.moved.push_back({data, clean});
}

void ProblemMaker::AddAbsences(std::size_t data) {
  const GraphData& datum = graph_.data[data];
  const std::vector<Use>& uses = uses_[data];
  if (uses.empty() || ExistsAfter(datum)) return;
  const bool is_on_host = datum.before == DataHome::kHost;
  if (is_on_host) {
    const double in =
        rates_.latency_seconds + static_cast<double>(datum.bytes) / rates_.in_bytes_per_second;
    made_.problem.absences.push_back({Rounded(datum.bytes), 0, 0, uses.front().run, 0, in, true});
    made_.moved.push_back({data, true});
  }
  if (datum.bytes < kLeastAbsenceBytes) return;
  std::size_t written = 0;
  bool clean = is_on_host;
  for (std::size_t k = 0; k + 1 < uses.size(); ++k) {
    if (uses[k].changes) {
      written = uses[k].run + 1;
      clean = false;
    }
    if (!uses[k + 1].makes) AddAbsence(data, written, uses[k], uses[k + 1], clean);
  }
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
}

GraphProblem ProblemMaker::Make() {
  FindUses();
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    AddLives(data);
    AddAbsences(data);
  }
  AddMemory();
  return std::move(made_);
}

}  // namespace

GraphProblem MakeGraphProblem(const TaskGraph& graph, const std::vector<TaskRun>& runs,
                              std::int64_t memory_bytes, std::int64_t granule,
                              const CopyRates& rates) {
  return ProblemMaker(graph, runs, memory_bytes, granule, rates).Make();
}

}  // namespace tidepool::transfers
