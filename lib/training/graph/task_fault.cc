// SPDX-License-Identifier: Apache-2.0
// Checks a task by itself.
#include "lib/training/graph/task_fault.h"

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/base/text/utf8.h"
#include "lib/training/graph/layer_fields.h"

namespace tidepool::graph {
namespace {

using text::Quoted;

std::string MicroBatchesFault(const TaskAlgorithm& algorithm, std::int64_t batch) {
  std::int64_t left = batch;
  for (const MicroBatch& part : algorithm.micro_batches) {
    if (part.algorithm.empty() || !text::IsUtf8(part.algorithm)) {
      return absl::StrCat("configuration ", Quoted(algorithm.name),
                          " has a micro-batch of algorithm ", Quoted(part.algorithm),
                          ", expected a name in UTF-8");
    }
    if (part.samples < 1 || part.samples > left) {
      return absl::StrCat("configuration ", Quoted(algorithm.name), " has a micro-batch of ",
                          part.samples, " samples where ", left, " of the batch of ", batch,
                          " are left, expected 1 or more that sum to the batch");
    }
    left -= part.samples;
  }
  if (algorithm.micro_batches.empty() || left == 0) return "";
  return absl::StrCat("the micro-batches of configuration ", Quoted(algorithm.name), " have ",
                      batch - left, " samples together, expected the batch of ", batch);
}

std::string AlgorithmFault(const TaskAlgorithm& algorithm, std::int64_t batch, NameSet& names) {
  if (std::string what = NameFault(algorithm.name, names); !what.empty()) return what;
  if (algorithm.workspace_bytes < 0 || algorithm.workspace_bytes > kMostDataBytes) {
    return BytesFault(absl::StrCat("algorithm ", Quoted(algorithm.name), " has a workspace of"),
                      algorithm.workspace_bytes, 0);
  }
  // Also refuses NaN.
  if (!(algorithm.seconds >= 0 && algorithm.seconds <= kMostTaskSeconds)) {
    return absl::StrCat("algorithm ", Quoted(algorithm.name), " takes ", algorithm.seconds,
                        " seconds, expected 0 to 10^9");
  }
  return MicroBatchesFault(algorithm, batch);
}

std::string AlgorithmsFault(const GraphTask& task, std::int64_t batch) {
  if (task.algorithms.empty()) return "no algorithm, expected at least one";
  NameSet names;
  std::int64_t before = 0;
  for (const TaskAlgorithm& algorithm : task.algorithms) {
    if (std::string what = AlgorithmFault(algorithm, batch, names); !what.empty()) return what;
    if (algorithm.workspace_bytes < before) {
      return absl::StrCat("algorithm ", Quoted(algorithm.name),
                          " has a smaller workspace than the ",
                          "one before it, expected ascending order");
    }
    before = algorithm.workspace_bytes;
  }
  return "";
}

// Groups divide the channels, or heads of queries share heads of keys evenly.
std::string DivisionFault(const LayerParameters& parameters) {
  const auto fault = [](std::string_view what, std::int64_t number, std::int64_t divisor) {
    return number % divisor == 0 ? ""
                                 : absl::StrCat(std::string(what), " is ", number,
                                                ", expected a multiple of ", divisor);
  };
  if (const auto* layer = std::get_if<ConvolutionParameters>(&parameters)) {
    const std::string what = fault("c of a convolution", layer->c, layer->groups);
    return what.empty() ? fault("k of a convolution", layer->k, layer->groups) : what;
  }
  if (const auto* layer = std::get_if<NormalizationParameters>(&parameters)) {
    return fault("c of a normalization", layer->c, layer->groups);
  }
  if (const auto* layer = std::get_if<AttentionParameters>(&parameters)) {
    return fault("heads of attention", layer->heads, layer->key_heads);
  }
  return "";
}

std::string KindsFault(const GraphTask& task) {
  if (task.phase > TaskPhase::kUpdate) return "an unknown phase, expected one of three";
  if (task.gradients > TaskGradients::kWeights) return "unknown gradients, expected one of three";
  if (task.data_type > DataType::kUint8 || task.compute_type > DataType::kUint8) {
    return "an unknown type of numbers, expected one of ten";
  }
  if (task.gradients != TaskGradients::kAll && task.phase != TaskPhase::kBackward) {
    return absl::StrCat("it computes gradients of ", std::string(TaskGradientsName(task.gradients)),
                        " in the phase ", std::string(TaskPhaseName(task.phase)),
                        ", expected the phase backward");
  }
  return "";
}

std::string RerunFault(const GraphTask& task) {
  if (!task.may_rerun) return "";
  if (task.phase == TaskPhase::kUpdate) {
    return "it may run again and is an update, expected a forward or backward task";
  }
  if (!task.updates.empty()) {
    return "it may run again and updates data in place, expected a task that only writes";
  }
  return "";
}

}  // namespace

std::string NameFault(const std::string& name, NameSet& others) {
  if (name.empty()) return "an empty name, expected a name";
  if (!text::IsUtf8(name)) {
    return absl::StrCat("the name ", Quoted(name), " is not UTF-8, expected UTF-8");
  }
  if (!others.insert(name).second) {
    return absl::StrCat("the name ", Quoted(name), " occurs twice, expected unique names");
  }
  return "";
}

std::string BytesFault(std::string_view subject, std::int64_t bytes, int least) {
  return absl::StrCat(std::string(subject), " ", bytes, " bytes, expected ", least, " to 2^50");
}

std::string LayerFault(const LayerParameters& parameters) {
  std::string fault;
  ForEachField(parameters, [&](const auto& field, std::int64_t number) {
    if (!fault.empty() || (number >= field.least && number <= field.most)) return;
    const std::string most = field.most == kMostLayerNumber ? "2^40" : absl::StrCat(field.most);
    fault =
        absl::StrCat(std::string(field.name), " of ", std::string(LayerParametersName(parameters)),
                     " parameters is ", number, ", expected ", field.least, " to ", most);
  });
  return fault.empty() ? DivisionFault(parameters) : fault;
}

std::string TaskFault(const GraphTask& task, std::int64_t batch) {
  for (const std::string* text : {&task.layer, &task.operation}) {
    if (!text::IsUtf8(*text)) {
      return absl::StrCat("the text ", Quoted(*text), " is not UTF-8, expected UTF-8");
    }
  }
  if (task.writes.empty() && task.updates.empty()) {
    return "it writes nothing and updates nothing, expected a result";
  }
  for (const auto find : {KindsFault, RerunFault}) {
    if (std::string what = find(task); !what.empty()) return what;
  }
  if (std::string what = LayerFault(task.parameters); !what.empty()) return what;
  return AlgorithmsFault(task, batch);
}

}  // namespace tidepool::graph
