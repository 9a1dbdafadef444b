// SPDX-License-Identifier: Apache-2.0
// Graphs of cuDNN 8 and 9: descriptors with attributes, of which those of convolutions are
// understood. An engine stands for each algorithm. Other graphs have one engine, without a
// workspace.
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dryrun/libraries/answers.h"
#include "dryrun/libraries/convolution.h"
#include "dryrun/libraries/cudnn_types.h"

namespace {

using tidepool::cudart_host::Algorithm;
using tidepool::cudart_host::AlgorithmKind;
using tidepool::cudart_host::Convolution;
using tidepool::cudart_host::OutputBytes;
using tidepool::cudart_host::Pass;
using tidepool::cudart_host::Run;
namespace cudnn = tidepool::cudart_host::cudnn;

struct Descriptor {
  int type = 0;
  std::map<int, std::vector<std::int64_t>> numbers;
  std::map<int, std::vector<std::shared_ptr<const Descriptor>>> parts;

  std::vector<std::int64_t> NumbersOf(int name) const {
    const auto found = numbers.find(name);
    return found == numbers.end() ? std::vector<std::int64_t>() : found->second;
  }
  // Returns the first descriptor of an attribute, or null.
  const Descriptor* PartOf(int name) const {
    const auto found = parts.find(name);
    return found == parts.end() || found->second.empty() ? nullptr : found->second.front().get();
  }
};

// The object that a program holds. A descriptor lives as long as another one uses it.
using Held = std::shared_ptr<Descriptor>;

Held& HeldBy(void* object) { return *static_cast<Held*>(object); }

// The attributes of the operation for a pass.
struct Names {
  Pass pass;
  int convolution, w, x, y;
};

std::optional<Names> NamesOf(int operation) {
  switch (operation) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return Names{Pass::kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return Names{Pass::kBackwardData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return Names{Pass::kBackwardFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
    default:
      return std::nullopt;
  }
}

// Tensors of images have the stride 1 at the channels, or at the last direction.
bool IsChannelsLast(const Descriptor& tensor) {
  const std::vector<std::int64_t> strides = tensor.NumbersOf(CUDNN_ATTR_TENSOR_STRIDES);
  const std::vector<std::int64_t> sizes = tensor.NumbersOf(CUDNN_ATTR_TENSOR_DIMENSIONS);
  return strides.size() > 2 && strides[1] == 1 && (sizes[1] > 1 || strides.back() != 1);
}

std::optional<Convolution> ConvolutionOf(const Descriptor& operation) {
  const std::optional<Names> names = NamesOf(operation.type);
  if (!names.has_value()) return std::nullopt;
  const Descriptor* const x = operation.PartOf(names->x);
  const Descriptor* const w = operation.PartOf(names->w);
  const Descriptor* const y = operation.PartOf(names->y);
  const Descriptor* const how = operation.PartOf(names->convolution);
  if (x == nullptr || w == nullptr || y == nullptr || how == nullptr) return std::nullopt;
  const std::vector<std::int64_t> type = x->NumbersOf(CUDNN_ATTR_TENSOR_DATA_TYPE);
  Convolution made = {.pass = names->pass,
                      .type = type.empty() ? cudnn::kFloat : static_cast<int>(type[0]),
                      .is_channels_last = IsChannelsLast(*x),
                      .x = x->NumbersOf(CUDNN_ATTR_TENSOR_DIMENSIONS),
                      .w = w->NumbersOf(CUDNN_ATTR_TENSOR_DIMENSIONS),
                      .y = y->NumbersOf(CUDNN_ATTR_TENSOR_DIMENSIONS),
                      .padding = how->NumbersOf(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                      .stride = how->NumbersOf(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
                      .dilation = how->NumbersOf(CUDNN_ATTR_CONVOLUTION_DILATIONS)};
  const std::size_t directions = made.padding.size();
  const bool is_whole = directions > 0 && made.x.size() == directions + 2 &&
                        made.w.size() == made.x.size() && made.y.size() == made.x.size();
  return is_whole ? std::optional(std::move(made)) : std::nullopt;
}

// Returns the convolution of a graph. Other operations around it are computed with it.
std::optional<Convolution> ConvolutionOfGraph(const Descriptor* graph) {
  if (graph == nullptr) return std::nullopt;
  const auto operations = graph->parts.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations == graph->parts.end()) return std::nullopt;
  for (const auto& operation : operations->second) {
    if (std::optional<Convolution> found = ConvolutionOf(*operation)) return found;
  }
  return std::nullopt;
}

// Returns the tensor that the convolution of a graph writes, or null.
const Descriptor* OutputOfGraph(const Descriptor* graph) {
  const auto operations = graph->parts.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations == graph->parts.end()) return nullptr;
  for (const auto& operation : operations->second) {
    const std::optional<Names> names = NamesOf(operation->type);
    if (!names.has_value()) continue;
    if (names->pass == Pass::kForward) return operation->PartOf(names->y);
    return operation->PartOf(names->pass == Pass::kBackwardData ? names->x : names->w);
  }
  return nullptr;
}

// Returns the memory of a tensor, or null: the convolution's output is the input of an operation
// that is computed with it.
void* MemoryOf(const Descriptor* tensor, const Descriptor& pack) {
  if (tensor == nullptr) return nullptr;
  const std::vector<std::int64_t> identifier = tensor->NumbersOf(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  const std::vector<std::int64_t> identifiers = pack.NumbersOf(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const std::vector<std::int64_t> pointers = pack.NumbersOf(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (std::size_t i = 0; i < std::min(identifiers.size(), pointers.size()); ++i) {
    if (identifier.empty() || identifiers[i] != identifier[0]) continue;
    void* memory = nullptr;
    std::memcpy(&memory, &pointers[i], sizeof memory);
    return memory;
  }
  return nullptr;
}

// A plan's convolution, and the algorithm of its engine. Programs number engines themselves too:
// numbers without an algorithm stand for the one that needs least.
struct Choice {
  Convolution convolution;
  Algorithm algorithm;
};

std::optional<Choice> ChoiceOfEngine(const Descriptor* engine) {
  if (engine == nullptr) return std::nullopt;
  std::optional<Convolution> convolution =
      ConvolutionOfGraph(engine->PartOf(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  if (!convolution.has_value()) return std::nullopt;
  const std::vector<std::int64_t> number = engine->NumbersOf(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const std::vector<Algorithm> algorithms = OfferedAlgorithms(*convolution);
  const auto with = [&](std::int64_t kind) {
    return std::find_if(algorithms.begin(), algorithms.end(), [&](const Algorithm& one) {
      return static_cast<std::int64_t>(one.kind) == kind;
    });
  };
  auto found = with(number.empty() ? 0 : number[0]);
  if (found == algorithms.end()) found = with(0);
  return Choice{std::move(*convolution), *found};
}

const Descriptor* EngineOfPlan(const Descriptor& plan) {
  const Descriptor* const config = plan.PartOf(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  return config == nullptr ? nullptr : config->PartOf(CUDNN_ATTR_ENGINECFG_ENGINE);
}

std::optional<Choice> ChoiceOfPlan(const Descriptor& plan) {
  return ChoiceOfEngine(EngineOfPlan(plan));
}

// Returns the configurations that the heuristics propose, the fastest first.
std::vector<Descriptor> Configurations(const Descriptor& heuristics) {
  std::vector<std::int64_t> engines = {0};
  const auto graph = heuristics.parts.find(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (graph == heuristics.parts.end()) return {};
  if (const auto convolution =
          ConvolutionOfGraph(heuristics.PartOf(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH))) {
    engines.clear();
    for (const Algorithm& one : OfferedAlgorithms(*convolution)) {
      engines.push_back(static_cast<std::int64_t>(one.kind));
    }
  }
  std::vector<Descriptor> made;
  for (const std::int64_t number : engines) {
    const auto engine = std::make_shared<const Descriptor>(
        Descriptor{CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                   {{CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {number}}},
                   {{CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph->second}}});
    made.push_back(
        {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, {}, {{CUDNN_ATTR_ENGINECFG_ENGINE, {engine}}}});
  }
  return made;
}

std::int64_t WorkspaceOfPlan(const Descriptor& plan) {
  const std::optional<Choice> choice = ChoiceOfPlan(plan);
  if (!choice.has_value()) return 0;
  NoteWorkspace(choice->algorithm.workspace_bytes, choice->convolution);
  return choice->algorithm.workspace_bytes;
}

// TF32 alone: programs that refuse it leave out engines with this note.
bool HasTensorCoreNote(const Descriptor& engine) {
  const std::optional<Choice> choice = ChoiceOfEngine(&engine);
  return choice.has_value() && choice->convolution.type == cudnn::kFloat &&
         choice->algorithm.kind == AlgorithmKind::kTensorGemm;
}

// Copies the descriptors into those that the program has made. Returns how many there are.
std::int64_t Give(const std::vector<Descriptor>& given, std::int64_t wanted, void* values) {
  auto* const objects = static_cast<void**>(values);
  const auto count = static_cast<std::int64_t>(given.size());
  if (objects == nullptr) return count;
  const std::int64_t stored = std::min(count, wanted);
  for (std::int64_t i = 0; i < stored; ++i) {
    *HeldBy(objects[i]) = given[static_cast<std::size_t>(i)];
  }
  return stored;
}

std::int64_t GiveDescriptors(const Descriptor& from, int name, std::int64_t wanted, void* values) {
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) return Give(Configurations(from), wanted, values);
  const Descriptor* const part = from.PartOf(name);
  return part == nullptr ? 0 : Give({*part}, wanted, values);
}

std::int64_t GiveNotes(const Descriptor& engine, std::int64_t wanted, void* values) {
  if (!HasTensorCoreNote(engine)) return 0;
  if (values != nullptr && wanted > 0)
    *static_cast<std::int32_t*>(values) = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  return 1;
}

// Unknown numbers are zero.
std::int64_t GiveNumbers(const Descriptor& from, int name, std::int64_t wanted, void* values) {
  std::vector<std::int64_t> numbers = from.NumbersOf(name);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) numbers = {WorkspaceOfPlan(from)};
  if (numbers.empty()) numbers = {0};
  const std::int64_t count = std::min(wanted, static_cast<std::int64_t>(numbers.size()));
  if (values == nullptr || count <= 0) return 0;
  std::memcpy(values, numbers.data(), static_cast<std::size_t>(count) * sizeof(std::int64_t));
  return count;
}

}  // namespace

TIDEPOOL_ANSWER cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                           cudnnBackendDescriptor_t* made) {
  *made = new Held(std::make_shared<Descriptor>(Descriptor{type, {}, {}}));
  return CUDNN_STATUS_SUCCESS;
}
TIDEPOOL_ANSWER cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t object) {
  delete static_cast<Held*>(object);
  return CUDNN_STATUS_SUCCESS;
}

TIDEPOOL_ANSWER cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t object,
                                                       cudnnBackendAttributeName_t name,
                                                       cudnnBackendAttributeType_t type,
                                                       std::int64_t count, const void* values) {
  Descriptor& to = *HeldBy(object);
  if (type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR) {
    static_assert(sizeof(void*) == sizeof(std::int64_t));
    const auto* const numbers = static_cast<const std::int64_t*>(values);
    to.numbers[name].assign(numbers, numbers + count);
  } else if (type == CUDNN_TYPE_DATA_TYPE) {
    const auto* const types = static_cast<const std::int32_t*>(values);
    to.numbers[name].assign(types, types + count);
  } else if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    auto* const* const objects = static_cast<void* const*>(values);
    std::vector<std::shared_ptr<const Descriptor>>& parts = to.parts[name];
    parts.clear();
    std::transform(objects, objects + count, std::back_inserter(parts), HeldBy);
  }
  return CUDNN_STATUS_SUCCESS;
}

TIDEPOOL_ANSWER cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const object,
                                                       cudnnBackendAttributeName_t name,
                                                       cudnnBackendAttributeType_t type,
                                                       std::int64_t wanted, std::int64_t* count,
                                                       void* values) {
  const Descriptor& from = *HeldBy(object);
  std::int64_t given = 0;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) given = GiveDescriptors(from, name, wanted, values);
  if (type == CUDNN_TYPE_NUMERICAL_NOTE && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
    given = GiveNotes(from, wanted, values);
  if (type == CUDNN_TYPE_INT64) given = GiveNumbers(from, name, wanted, values);
  if (count != nullptr) *count = given;
  return CUDNN_STATUS_SUCCESS;
}

TIDEPOOL_ANSWER cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                                  cudnnBackendDescriptor_t plan,
                                                  cudnnBackendDescriptor_t pack) {
  const Descriptor& planned = *HeldBy(plan);
  const std::optional<Choice> choice = ChoiceOfPlan(planned);
  if (!choice.has_value()) return CUDNN_STATUS_SUCCESS;
  const Descriptor* const output =
      OutputOfGraph(EngineOfPlan(planned)->PartOf(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  Run("cudnnBackendExecute", reinterpret_cast<cudnn::Handle*>(handle)->stream,
      choice->algorithm.work, MemoryOf(output, *HeldBy(pack)), OutputBytes(choice->convolution));
  return CUDNN_STATUS_SUCCESS;
}
