// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/check/data_versions.h"

namespace tidepool::schedule {

DataVersions::DataVersions(const TaskGraph& graph) : data_(graph.data.size()) {
  first_need_.reserve(graph.tasks.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) Count(graph.tasks[i], i);
}

void DataVersions::Count(const GraphTask& task, std::size_t index) {
  first_need_.push_back(needs_.size());
  const int is_of_round = task.phase == TaskPhase::kUpdate ? 0 : 1;
  for (const std::size_t data : task.reads) {
    needs_.push_back({data_[data].after_iteration, 0});
    ++data_[data].uses;
  }
  for (const std::size_t data : task.updates) {
    Datum& datum = data_[data];
    needs_.push_back({datum.after_iteration, datum.uses});
    ++datum.uses;
    ++datum.after_iteration;
    datum.after_round += is_of_round;
  }
  for (const std::size_t data : task.writes) {
    Datum& datum = data_[data];
    datum.writer = index;
    ++datum.after_iteration;
    datum.after_round += is_of_round;
  }
}

}  // namespace tidepool::schedule
