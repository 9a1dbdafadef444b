// SPDX-License-Identifier: Apache-2.0
// Sets values of graphs by key.
#include "lib/graph/graph_file_builder.h"

#include "lib/graph/parse_number.h"
#include "lib/io/json_number.h"

namespace tidepool::graph {
namespace {

// Finds the value up to `last` that has the name `text`.
template <typename Value>
bool FromName(std::string_view text, Value last, std::string_view (*name_of)(Value), Value* value) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (text != name_of(static_cast<Value>(i))) continue;
    *value = static_cast<Value>(i);
    return true;
  }
  return false;
}

bool TypeFrom(std::string_view text, DataType* type) {
  return FromName(text, DataType::kUint8, DataTypeName, type);
}

bool HomeFrom(std::string_view text, DataHome* home) {
  return FromName(text, DataHome::kNowhere, DataHomeName, home);
}

}  // namespace

void GraphFileBuilder::StartDatum(std::int64_t line) {
  file_.graph.data.emplace_back();
  file_.bytes_per_sample.push_back(0);
  file_.data_lines.push_back(line);
}

void GraphFileBuilder::StartTask(std::int64_t line) {
  file_.graph.tasks.emplace_back();
  file_.task_lines.push_back(line);
}

std::string* GraphFileBuilder::PlainText(const ObjectKeys& object, Key key) {
  switch (key) {
    case Key::kGpu:
      return &file_.graph.gpu;
    case Key::kLayer:
      return &task().layer;
    case Key::kOperation:
      return &task().operation;
    case Key::kAlgorithm:
      return &algorithm().micro_batches.back().algorithm;
    case Key::kName:
      if (&object == &kDataKeys) return &datum().name;
      if (&object == &kTaskKeys) return &task().name;
      return &object == &kAlgorithmKeys ? &algorithm().name : &file_.graph.name;
    default:
      return nullptr;
  }
}

bool GraphFileBuilder::SetText(const ObjectKeys& object, Key key, std::string_view text) {
  switch (key) {
    case Key::kKind:
      return FromName(text, DataKind::kOptimizerState, DataKindName, &datum().kind);
    case Key::kBefore:
      return HomeFrom(text, &datum().before);
    case Key::kAfter:
      return HomeFrom(text, &datum().after);
    case Key::kType:
      return TypeFrom(text, &datum().type);
    case Key::kDataType:
      return TypeFrom(text, &task().data_type);
    case Key::kComputeType:
      return TypeFrom(text, &task().compute_type);
    case Key::kPhase:
      return FromName(text, TaskPhase::kUpdate, TaskPhaseName, &task().phase);
    case Key::kGradients:
      return FromName(text, TaskGradients::kWeights, TaskGradientsName, &task().gradients);
    default:
      break;
  }
  std::string* const plain = PlainText(object, key);
  if (plain != nullptr) plain->assign(text);
  return plain != nullptr;
}

bool GraphFileBuilder::SetNumber(Key key, std::string_view number) {
  switch (key) {
    case Key::kVersion:
      return (number == "1" || number == "2") && io::ParseWholeNumber(number, &version_);
    case Key::kBatch:
      return io::ParseWholeNumber(number, &file_.graph.batch);
    case Key::kLink:
      return ParseLink(number, &file_.graph.link_bytes_per_second);
    case Key::kBytes:
      return io::ParseWholeNumber(number, &datum().bytes);
    case Key::kBytesPerSample:
      return io::ParseWholeNumber(number, &file_.bytes_per_sample.back());
    case Key::kSeconds:
      return ParseSeconds(number, &algorithm().seconds);
    case Key::kWorkspace:
      return io::ParseWholeNumber(number, &algorithm().workspace_bytes);
    case Key::kSamples:
      return io::ParseWholeNumber(number, &algorithm().micro_batches.back().samples);
    default:
      return false;
  }
}

bool GraphFileBuilder::SetFlag(Key key, bool flag) {
  if (key == Key::kMayRerun) task().may_rerun = flag;
  return key == Key::kMayRerun;
}

void GraphFileBuilder::SawFamilyPart(std::int64_t line) {
  if (file_.family_line == 0) file_.family_line = line;
}

void GraphFileBuilder::StartCosts(Key key, std::int64_t line) {
  SawFamilyPart(line);
  std::vector<GraphFile::CostLists>& lists = file_.cost_lists;
  const std::size_t at_task = file_.graph.tasks.size() - 1;
  const std::size_t at_algorithm = task().algorithms.size() - 1;
  if (lists.empty() || lists.back().task != at_task || lists.back().algorithm != at_algorithm) {
    lists.push_back({at_task, at_algorithm});
  }
  (key == Key::kSeconds ? lists.back().has_seconds : lists.back().has_workspaces) = true;
}

bool GraphFileBuilder::AddBatch(std::string_view number) {
  return io::ParseWholeNumber(number, &file_.batches.emplace_back());
}

bool GraphFileBuilder::AddCost(Key key, std::string_view number) {
  GraphFile::CostLists& lists = file_.cost_lists.back();
  if (key == Key::kSeconds) return ParseSeconds(number, &lists.seconds.emplace_back());
  return io::ParseWholeNumber(number, &lists.workspaces.emplace_back());
}

void GraphFileBuilder::AddMissingCost(Key key) {
  GraphFile::CostLists& lists = file_.cost_lists.back();
  if (key == Key::kSeconds) {
    lists.seconds.push_back(-1);
  } else {
    lists.workspaces.push_back(-1);
  }
}

void GraphFileBuilder::AddUse(Key uses, std::string_view name) {
  std::vector<std::size_t>& list = uses == Key::kReads    ? task().reads
                                   : uses == Key::kWrites ? task().writes
                                                          : task().updates;
  list.push_back(file_.names.Number(name));
}

bool GraphFileBuilder::AddLayerNumber(std::string_view name) {
  for (const auto& [other, number] : layer_.numbers) {
    if (other == name) return false;
  }
  layer_.numbers.emplace_back(name, 0);
  return true;
}

bool GraphFileBuilder::SetLayerNumber(std::string_view number) {
  return io::ParseWholeNumber(number, &layer_.numbers.back().second);
}

void GraphFileBuilder::EndDatum(KeySet seen) {
  if ((seen & Bit(Key::kBefore)) == 0) datum().before = HomeBefore(datum().kind);
  if ((seen & Bit(Key::kAfter)) == 0) datum().after = HomeAfter(datum().kind);
}

absl::Status GraphFileBuilder::EndParameters() {
  absl::StatusOr<LayerParameters> parameters = ToLayerParameters(layer_);
  if (!parameters.ok()) return parameters.status();
  task().parameters = *std::move(parameters);
  return absl::OkStatus();
}

}  // namespace tidepool::graph
