// SPDX-License-Identifier: Apache-2.0
// Collects the values of a graph file, key by key, in any order.
#ifndef TIDEPOOL_LIB_GRAPH_GRAPH_FILE_BUILDER_H_
#define TIDEPOOL_LIB_GRAPH_GRAPH_FILE_BUILDER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lib/graph/graph_json_keys.h"
#include "lib/graph/graph_json_reader.h"
#include "lib/graph/layer_numbers.h"

namespace tidepool::graph {

class GraphFileBuilder {
 public:
  void StartDatum(std::int64_t line);
  void StartTask(std::int64_t line);
  void StartAlgorithm() { task().algorithms.emplace_back(); }
  void StartMicroBatch() { algorithm().micro_batches.emplace_back(); }
  void StartParameters() { layer_ = {}; }

  // Each sets the value of a key of the last begun object. Returns false for a value that the key
  // cannot have.
  bool SetText(const ObjectKeys& object, Key key, std::string_view text);
  bool SetNumber(Key key, std::string_view number);
  bool SetFlag(Key key, bool flag);

  // Begin the lists of a family: its batches, or the seconds or workspaces of the last algorithm.
  void StartBatches() { file_.has_batches = true; }
  void StartCosts(Key key, std::int64_t line);
  // Each adds an element. AddCost returns false for a number that `key`, seconds or workspace,
  // cannot have.
  bool AddBatch(std::string_view number);
  bool AddCost(Key key, std::string_view number);
  void AddMissingCost(Key key);
  void SawFamilyPart(std::int64_t line);

  // Adds a name to the list `uses` (reads, writes or updates) of the last task.
  void AddUse(Key uses, std::string_view name);

  // Parameters have a kind and the numbers of that kind. AddLayerNumber returns false when the last
  // task has that number already; `name` is a LayerFieldCalled.
  void SetLayerKind(std::string_view kind) { layer_.kind = kind; }
  bool AddLayerNumber(std::string_view name);
  bool SetLayerNumber(std::string_view number);

  // Each completes the last begun object; `seen` has its keys.
  void EndDatum(KeySet seen);
  absl::Status EndParameters();

  std::int64_t version() const { return version_; }
  GraphFile&& Take() { return std::move(file_); }

 private:
  GraphData& datum() { return file_.graph.data.back(); }
  GraphTask& task() { return file_.graph.tasks.back(); }
  TaskAlgorithm& algorithm() { return task().algorithms.back(); }
  std::string* PlainText(const ObjectKeys& object, Key key);

  GraphFile file_;
  LayerNumbers layer_;
  std::int64_t version_ = 0;
};

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_GRAPH_GRAPH_FILE_BUILDER_H_
