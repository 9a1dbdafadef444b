// SPDX-License-Identifier: Apache-2.0
// Graphs of cuDNN 8 and 9, of which convolutions are understood. An engine stands for each
// algorithm. Other graphs have one engine, without a workspace.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dryrun/cudnn/answers/algorithms.h"
#include "dryrun/cudnn/backend.h"
#include "dryrun/cudnn/library.h"
#include "dryrun/libraries/gpu.h"

namespace tidepool::cudart_host {
namespace {

std::optional<Convolution> ConvolutionOf(const BackendObject& operation) {
  const OperationNames* const names = NamesOf(operation.type);
  if (names == nullptr) return std::nullopt;
  const BackendObject* const x = operation.Child(names->x);
  const BackendObject* const w = operation.Child(names->w);
  const BackendObject* const y = operation.Child(names->y);
  const BackendObject* const how = operation.Child(names->convolution);
  if (x == nullptr || w == nullptr || y == nullptr || how == nullptr) return std::nullopt;
  using Numbers = std::int64_t;
  Convolution made = {
      .pass = names->pass,
      .type = x->Get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT),
      .is_channels_last = IsChannelsLast(x->All<Numbers>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                                         x->All<Numbers>(CUDNN_ATTR_TENSOR_STRIDES)),
      .x = x->All<Numbers>(CUDNN_ATTR_TENSOR_DIMENSIONS),
      .w = w->All<Numbers>(CUDNN_ATTR_TENSOR_DIMENSIONS),
      .y = y->All<Numbers>(CUDNN_ATTR_TENSOR_DIMENSIONS),
      .padding = how->All<Numbers>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
      .stride = how->All<Numbers>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
      .dilation = how->All<Numbers>(CUDNN_ATTR_CONVOLUTION_DILATIONS)};
  const std::size_t directions = made.padding.size();
  const bool is_whole = directions > 0 && made.x.size() == directions + 2 &&
                        made.w.size() == made.x.size() && made.y.size() == made.x.size();
  return is_whole ? std::optional(std::move(made)) : std::nullopt;
}

// Returns the operation of a graph that is a convolution, or null. Other operations around it are
// computed with it.
const BackendObject* OperationOf(const BackendObject* graph) {
  if (graph == nullptr) return nullptr;
  const auto operations = graph->attributes.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations == graph->attributes.end()) return nullptr;
  for (const BackendRef& operation : operations->second.children) {
    if (ConvolutionOf(*operation).has_value()) return operation.get();
  }
  return nullptr;
}

// The convolution of a plan with its operation, and the algorithm of its engine.
struct Choice {
  const BackendObject* operation;
  Convolution convolution;
  Algorithm algorithm;
};

// Programs number engines themselves too: numbers without an algorithm stand for the one that needs
// least.
std::optional<Choice> ChoiceOfEngine(const BackendObject* engine) {
  if (engine == nullptr) return std::nullopt;
  const BackendObject* const operation =
      OperationOf(engine->Child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  if (operation == nullptr) return std::nullopt;
  const Convolution convolution = *ConvolutionOf(*operation);
  const std::vector<Algorithm> algorithms = OfferedAlgorithms(convolution);
  const auto with = [&](std::int64_t kind) {
    return std::find_if(algorithms.begin(), algorithms.end(), [&](const Algorithm& one) {
      return static_cast<std::int64_t>(one.kind) == kind;
    });
  };
  auto found = with(engine->Get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0));
  if (found == algorithms.end()) found = with(0);
  return Choice{operation, convolution, *found};
}

std::optional<Choice> ChoiceOfPlan(const BackendObject& plan) {
  const BackendObject* const configuration = plan.Child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  return configuration == nullptr
             ? std::nullopt
             : ChoiceOfEngine(configuration->Child(CUDNN_ATTR_ENGINECFG_ENGINE));
}

// Returns the configurations that the heuristics propose, the fastest first.
std::vector<BackendRef> Configurations(const BackendObject& heuristics) {
  const auto found = heuristics.attributes.find(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (found == heuristics.attributes.end() || found->second.children.empty()) return {};
  const BackendRef& graph = found->second.children.front();
  std::vector<std::int64_t> engines = {0};
  if (const BackendObject* const operation = OperationOf(graph.get())) {
    engines.clear();
    for (const Algorithm& one : OfferedAlgorithms(*ConvolutionOf(*operation))) {
      engines.push_back(static_cast<std::int64_t>(one.kind));
    }
  }
  std::vector<BackendRef> made;
  for (const std::int64_t number : engines) {
    made.push_back(MakeFinal(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    made.back()->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = AttributeOf({MakeEngine(graph, number)});
  }
  return made;
}

std::int64_t WorkspaceOfPlan(const BackendObject& plan) {
  const std::optional<Choice> choice = ChoiceOfPlan(plan);
  if (!choice.has_value()) return 0;
  NoteWorkspace(choice->algorithm.workspace_bytes, choice->convolution);
  return choice->algorithm.workspace_bytes;
}

// TF32 alone: programs that refuse it leave out engines with this note.
std::vector<cudnnBackendNumericalNote_t> NotesOf(const BackendObject& engine) {
  const std::optional<Choice> choice = ChoiceOfEngine(&engine);
  if (!choice.has_value() || choice->convolution.type != CUDNN_DATA_FLOAT ||
      choice->algorithm.kind != AlgorithmKind::kTensorGemm) {
    return {};
  }
  return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
}

// Returns the memory of the tensor that a convolution writes, or null: its output may be the input
// of an operation that is computed with it.
void* OutputOf(const BackendObject& operation, const BackendObject& pack) {
  const OperationNames& names = *NamesOf(operation.type);
  const BackendObject& output = *operation.Child(names.pass == Pass::kForward ? names.y
                                                 : names.pass == Pass::kData  ? names.x
                                                                              : names.w);
  return PointerOf(pack, output.Get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, -1));
}

}  // namespace

cudnnStatus_t CheckFinal(const BackendObject& /*object*/) { return CUDNN_STATUS_SUCCESS; }

std::optional<BackendAttribute> DerivedAttribute(const BackendObject& object,
                                                 cudnnBackendAttributeName_t name) {
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return AttributeOf(Configurations(object));
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return AttributeOf(CUDNN_TYPE_NUMERICAL_NOTE, NotesOf(object));
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return AttributeOf(CUDNN_TYPE_INT64, std::vector{WorkspaceOfPlan(object)});
    default:
      return std::nullopt;
  }
}

// A number is zero, and other attributes are empty.
cudnnStatus_t GiveUnknown(cudnnBackendAttributeType_t type, std::int64_t wanted,
                          std::int64_t* count, void* elements) {
  const bool has_number = type == CUDNN_TYPE_INT64 && wanted > 0 && elements != nullptr;
  if (has_number) *static_cast<std::int64_t*>(elements) = 0;
  if (count != nullptr) *count = has_number ? 1 : 0;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace tidepool::cudart_host

extern "C" cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                             cudnnBackendDescriptor_t pack) {
  using namespace tidepool::cudart_host;  // NOLINT: the function uses all of it
  const std::optional<Choice> choice = ChoiceOfPlan(**ObjectOf(plan));
  if (!choice.has_value()) return CUDNN_STATUS_SUCCESS;
  Run("cudnnBackendExecute", handle->stream, choice->algorithm.work,
      OutputOf(*choice->operation, **ObjectOf(pack)), OutputBytes(choice->convolution));
  return CUDNN_STATUS_SUCCESS;
}
