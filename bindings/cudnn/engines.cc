// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/engines.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bindings/cudnn/fusion.h"
#include "bindings/cudnn/operation.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudnn {
namespace {

// The unique ids of the tensors of a graph. Those of a fusion follow.
constexpr std::int64_t kX = 1;
constexpr std::int64_t kW = 2;
constexpr std::int64_t kY = 3;
constexpr std::int64_t kFused = kX + kFirstFusedTensor;

using Name = cudnnBackendAttributeName_t;

// Makes a descriptor: attributes one after the other, and the end. A failure makes it null.
class Maker {
 public:
  Maker(const Functions& functions, cudnnBackendDescriptorType_t type)
      : functions_(functions), made_(nullptr, functions.destroy_backend) {
    cudnnBackendDescriptor_t raw = nullptr;
    if (functions.create_backend(type, &raw) == CUDNN_STATUS_SUCCESS) made_.reset(raw);
  }

  template <typename Element>
  Maker& Set(Name name, cudnnBackendAttributeType_t type, const Element* elements,
             std::int64_t count) {
    if (made_ != nullptr && functions_.set_attribute(made_.get(), name, type, count, elements) !=
                                CUDNN_STATUS_SUCCESS) {
      made_.reset();
    }
    return *this;
  }
  template <typename Element>
  Maker& Set(Name name, cudnnBackendAttributeType_t type, const Element& element) {
    return Set(name, type, &element, 1);
  }
  // Null children make null descriptors.
  Maker& Set(Name name, const BackendDescriptor& child) {
    if (child == nullptr) made_.reset();
    cudnnBackendDescriptor_t raw = child.get();
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
  }
  Maker& Set(Name name, const std::vector<BackendDescriptor>& children) {
    std::vector<cudnnBackendDescriptor_t> raw;
    raw.reserve(children.size());
    for (const BackendDescriptor& child : children) {
      if (child == nullptr) made_.reset();
      raw.push_back(child.get());
    }
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.data(),
               static_cast<std::int64_t>(raw.size()));
  }

  BackendDescriptor Finish() {
    if (made_ != nullptr && functions_.finalize_backend(made_.get()) != CUDNN_STATUS_SUCCESS) {
      made_.reset();
    }
    return std::move(made_);
  }

 private:
  const Functions& functions_;
  BackendDescriptor made_;
};

std::array<std::int64_t, Convolution::kMostDimensions> Wide(
    const std::array<int, Convolution::kMostDimensions>& numbers) {
  std::array<std::int64_t, Convolution::kMostDimensions> wide = {};
  std::copy(numbers.begin(), numbers.end(), wide.begin());
  return wide;
}

std::array<std::int64_t, Convolution::kMostSpatial> Wide(
    const std::array<int, Convolution::kMostSpatial>& numbers) {
  std::array<std::int64_t, Convolution::kMostSpatial> wide = {};
  std::copy(numbers.begin(), numbers.end(), wide.begin());
  return wide;
}

// A tensor of a graph.
struct TensorPart {
  std::int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::array<std::int64_t, Convolution::kMostDimensions> sizes = {};
  std::array<std::int64_t, Convolution::kMostDimensions> strides = {};
  std::int64_t alignment = Convolution::kEngineAlignment;
  bool is_virtual = false;
};

BackendDescriptor TensorOf(const Functions& functions, const TensorPart& its,
                           std::int64_t dimensions) {
  Maker tensor(functions, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, its.type)
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, its.sizes.data(), dimensions)
      .Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, its.strides.data(), dimensions)
      .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, its.id)
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, its.alignment);
  if (its.is_virtual) tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  return tensor.Finish();
}

// Returns a part for a batch of `samples`. A micro-batch begins at a multiple of a sample's bytes.
TensorPart WithSamples(const Convolution& its, std::int64_t id, const Convolution::Tensor& tensor,
                       std::int64_t samples) {
  TensorPart part = {id, tensor.type, Wide(tensor.sizes), Wide(tensor.strides), its.alignment};
  part.sizes[0] = samples;
  if (samples != its.batch()) {
    part.alignment = std::gcd(std::int64_t{its.alignment}, Convolution::StepBytesIn(tensor));
  }
  return part;
}

// Returns whether the graph of a convolution has its output, x or y, in no memory.
bool IsVirtual(const Convolution& its, Pass writer) {
  const Fusion* const fusion = FusionOf(its.fusion);
  return fusion != nullptr && !fusion->keeps_output && its.pass == writer;
}

// Makes the tensors of a graph for a batch of `samples`, by number: x, w, y and those of a fusion.
std::vector<BackendDescriptor> TensorsOf(const Functions& functions, const Convolution& its,
                                         std::int64_t samples) {
  std::vector<TensorPart> parts = {
      WithSamples(its, kX, its.x, samples),
      {kW, its.filter_type, Wide(its.filter_sizes), its.FilterStrides(), its.alignment},
      WithSamples(its, kY, its.y, samples)};
  parts[0].is_virtual = IsVirtual(its, Pass::kData);
  parts[2].is_virtual = IsVirtual(its, Pass::kForward);
  if (const Fusion* const fusion = FusionOf(its.fusion); fusion != nullptr) {
    std::int64_t id = kFused;
    for (const FusedTensor& tensor : fusion->tensors) {
      parts.push_back(WithSamples(its, id++, tensor.its, samples));
      parts.back().is_virtual = tensor.is_virtual;
      if (!tensor.has_batch) {
        parts.back().sizes[0] = 1;
        parts.back().alignment = its.alignment;
      }
    }
  }
  std::vector<BackendDescriptor> made;
  made.reserve(parts.size());
  for (const TensorPart& part : parts) made.push_back(TensorOf(functions, part, its.dimensions));
  return made;
}

void SetAll(Maker& maker, const std::vector<FixedAttribute>& attributes) {
  for (const FixedAttribute& its : attributes) {
    maker.Set(its.name, its.type, its.bytes.data(), its.count);
  }
}

BackendDescriptor FusedOperationOf(const Functions& functions, const FusedOperation& its,
                                   const std::vector<BackendDescriptor>& tensors) {
  Maker pointwise(functions, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  SetAll(pointwise, its.settings);
  const BackendDescriptor settings = pointwise.Finish();
  Maker operation(functions, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, settings);
  SetAll(operation, its.scales);
  for (const auto& [name, tensor] : its.tensors) operation.Set(name, tensors[tensor]);
  return operation.Finish();
}

// Scales are double for double data, and otherwise float.
void SetScale(Maker& maker, const Convolution& its, Name name, double scale) {
  const auto single = static_cast<float>(scale);
  if (its.x.type == CUDNN_DATA_DOUBLE) {
    maker.Set(name, CUDNN_TYPE_DOUBLE, scale);
  } else {
    maker.Set(name, CUDNN_TYPE_FLOAT, single);
  }
}

BackendDescriptor GraphOf(const Functions& functions, cudnnHandle_t handle, const Convolution& its,
                          std::int64_t samples, const Scales& scales) {
  const std::int64_t spatial = its.dimensions - 2;
  const auto pads = Wide(its.pads);
  const BackendDescriptor convolution =
      Maker(functions, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
          .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, its.compute_type)
          .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, its.mode)
          .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, spatial)
          .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pads.data(), spatial)
          .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pads.data(), spatial)
          .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Wide(its.dilations).data(),
               spatial)
          .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, Wide(its.strides).data(),
               spatial)
          .Finish();
  const std::vector<BackendDescriptor> tensors = TensorsOf(functions, its, samples);
  const Operation& names = kOperations[static_cast<std::size_t>(its.pass)];
  Maker operation(functions, names.type);
  operation.Set(names.convolution, convolution)
      .Set(names.x, tensors[0])
      .Set(names.w, tensors[1])
      .Set(names.y, tensors[2]);
  SetScale(operation, its, names.alpha, scales.alpha);
  SetScale(operation, its, names.beta, scales.beta);
  std::vector<BackendDescriptor> operations;
  operations.push_back(operation.Finish());
  if (const Fusion* const fusion = FusionOf(its.fusion); fusion != nullptr) {
    for (const FusedOperation& next : fusion->operations) {
      operations.push_back(FusedOperationOf(functions, next, tensors));
    }
  }
  return Maker(functions, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
      .Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)
      .Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle)
      .Finish();
}

// Makes empty descriptors, which cuDNN fills.
std::vector<BackendDescriptor> Empty(const Functions& functions, cudnnBackendDescriptorType_t type,
                                     std::int64_t count) {
  std::vector<BackendDescriptor> made;
  made.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    cudnnBackendDescriptor_t raw = nullptr;
    if (functions.create_backend(type, &raw) != CUDNN_STATUS_SUCCESS) return {};
    made.emplace_back(raw, functions.destroy_backend);
  }
  return made;
}

// Fills empty descriptors. Returns those that cuDNN filled.
std::vector<BackendDescriptor> Filled(const Functions& functions, cudnnBackendDescriptor_t from,
                                      Name name, cudnnBackendDescriptorType_t type,
                                      std::int64_t most) {
  std::vector<BackendDescriptor> made = Empty(functions, type, most);
  std::vector<cudnnBackendDescriptor_t> raw;
  raw.reserve(made.size());
  for (const BackendDescriptor& descriptor : made) raw.push_back(descriptor.get());
  std::int64_t count = 0;
  if (made.empty() || functions.get_attribute(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most,
                                              &count, raw.data()) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  while (static_cast<std::int64_t>(made.size()) > count) made.pop_back();
  return made;
}

// Reads an engine configuration; nothing if a call of cuDNN fails.
std::optional<Engine> ReadEngine(const Functions& functions,
                                 cudnnBackendDescriptor_t configuration) {
  const BackendDescriptor engine = EngineOfConfiguration(functions, configuration);
  if (engine == nullptr) return std::nullopt;
  Engine its;
  const std::optional<std::uint32_t> notes = NotesOf(functions, engine.get());
  if (!notes.has_value() ||
      functions.get_attribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                              nullptr, &its.index) != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  its.notes = *notes;
  for (const BackendDescriptor& knob :
       Filled(functions, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
              CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
    std::int64_t choice = 0;
    if (functions.get_attribute(knob.get(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                                1, nullptr, &type) != CUDNN_STATUS_SUCCESS ||
        functions.get_attribute(knob.get(), CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                                nullptr, &choice) != CUDNN_STATUS_SUCCESS) {
      return std::nullopt;
    }
    its.knobs.emplace_back(static_cast<int>(type), choice);
  }
  std::sort(its.knobs.begin(), its.knobs.end());
  return its;
}

// The engines of the process, by number.
struct Engines {
  locks::Mutex mutex;
  std::deque<Engine> all ABSL_GUARDED_BY(mutex);
  std::map<Engine, std::int64_t> numbers ABSL_GUARDED_BY(mutex);

  static Engines& Get() {
    static auto* const engines = new Engines();
    return *engines;
  }
};

}  // namespace

std::string EngineText(const Engine& engine) {
  return absl::StrCat("engine ", engine.index,
                      " knobs=", absl::StrJoin(engine.knobs, ",", absl::PairFormatter(":")),
                      " notes=", engine.notes);
}

std::optional<Engine> ParseEngine(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  Engine engine;
  if (words.size() != 4 || words[0] != "engine" || !absl::SimpleAtoi(words[1], &engine.index) ||
      !words[2].starts_with("knobs=") || !words[3].starts_with("notes=") ||
      !absl::SimpleAtoi(words[3].substr(6), &engine.notes)) {
    return std::nullopt;
  }
  const std::string knobs = words[2].substr(6);
  for (const std::string& knob :
       std::vector<std::string>(absl::StrSplit(knobs, ',', absl::SkipEmpty()))) {
    const std::pair<std::string, std::string> its = absl::StrSplit(knob, absl::MaxSplits(':', 1));
    std::pair<int, std::int64_t> read;
    if (!absl::SimpleAtoi(its.first, &read.first) || !absl::SimpleAtoi(its.second, &read.second)) {
      return std::nullopt;
    }
    engine.knobs.push_back(read);
  }
  return engine;
}

std::int64_t NumberOf(const Engine& engine) {
  Engines& engines = Engines::Get();
  const locks::MutexLock lock(&engines.mutex);
  const auto [found, is_new] = engines.numbers.try_emplace(
      engine, kFirstEngine + static_cast<std::int64_t>(engines.all.size()));
  if (is_new) engines.all.push_back(engine);
  return found->second;
}

const Engine& EngineOf(std::int64_t number) {
  Engines& engines = Engines::Get();
  const locks::MutexLock lock(&engines.mutex);
  return engines.all[static_cast<std::size_t>(number - kFirstEngine)];
}

std::optional<std::uint32_t> NotesOf(const Functions& functions, cudnnBackendDescriptor_t engine) {
  std::array<cudnnBackendNumericalNote_t, 32> notes = {};
  std::int64_t count = 0;
  if (functions.get_attribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                              CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                              notes.data()) != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  std::uint32_t bits = 0;
  const std::int64_t most = std::min<std::int64_t>(count, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  for (std::int64_t i = 0; i < most; ++i) bits |= 1U << notes[static_cast<std::size_t>(i)];
  return bits;
}

BackendDescriptor EngineOfConfiguration(const Functions& functions,
                                        cudnnBackendDescriptor_t configuration) {
  std::vector<BackendDescriptor> engines = Filled(
      functions, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engines.empty()) return {nullptr, functions.destroy_backend};
  return std::move(engines.front());
}

std::vector<Engine> SuggestedEngines(const Functions& functions, cudnnHandle_t handle,
                                     const Convolution& convolution, std::int64_t samples,
                                     const Scales& scales) {
  std::vector<Engine> found;
  const BackendDescriptor graph = GraphOf(functions, handle, convolution, samples, scales);
  if (graph == nullptr) return found;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const BackendDescriptor heuristic =
        Maker(functions, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
            .Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
            .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode)
            .Finish();
    if (heuristic == nullptr) continue;
    for (const BackendDescriptor& configuration :
         Filled(functions, heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostEngines / 2)) {
      const std::optional<Engine> engine = ReadEngine(functions, configuration.get());
      if (engine.has_value() && std::find(found.begin(), found.end(), *engine) == found.end()) {
        found.push_back(*engine);
      }
    }
  }
  return found;
}

std::unique_ptr<EnginePlan> EnginePlan::Make(const Functions& functions, cudnnHandle_t handle,
                                             const Convolution& convolution, std::int64_t samples,
                                             const Scales& scales, const Engine& engine) {
  const BackendDescriptor graph = GraphOf(functions, handle, convolution, samples, scales);
  const BackendDescriptor its_engine =
      Maker(functions, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
          .Set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph)
          .Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, engine.index)
          .Finish();
  std::vector<BackendDescriptor> knobs;
  for (const auto& [type, choice] : engine.knobs) {
    knobs.push_back(Maker(functions, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
                        .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                             static_cast<cudnnBackendKnobType_t>(type))
                        .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, choice)
                        .Finish());
  }
  Maker configuration(functions, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration.Set(CUDNN_ATTR_ENGINECFG_ENGINE, its_engine);
  if (!knobs.empty()) configuration.Set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  BackendDescriptor plan = Maker(functions, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                               .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.Finish())
                               .Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle)
                               .Finish();
  std::int64_t bytes = 0;
  if (plan == nullptr ||
      functions.get_attribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                              CUDNN_TYPE_INT64, 1, nullptr, &bytes) != CUDNN_STATUS_SUCCESS ||
      bytes < 0) {
    return nullptr;
  }
  return std::unique_ptr<EnginePlan>(new EnginePlan(functions, std::move(plan), bytes));
}

EnginePlan::Pack EnginePlan::PackOf(const Addresses& addresses) const {
  const locks::MutexLock lock(&mutex_);
  if (const auto found = packs_.find(addresses); found != packs_.end()) return found->second;
  std::array<std::int64_t, std::tuple_size_v<Addresses>> ids = {};
  Addresses data = {};
  std::size_t count = 0;
  for (std::size_t i = 0; i + 1 < addresses.size(); ++i) {
    if (addresses[i] == nullptr) continue;  // virtual, or no tensor
    ids[count] = kX + static_cast<std::int64_t>(i);
    data[count++] = addresses[i];
  }
  const auto all = static_cast<std::int64_t>(count);
  BackendDescriptor made =
      Maker(functions_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
          .Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), all)
          .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data.data(), all)
          .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, addresses.back())
          .Finish();
  if (made == nullptr) return nullptr;
  // Data at ever new addresses must not fill the memory.
  if (packs_.size() == kMostPacks) packs_.erase(packs_.begin());
  return packs_[addresses] = Pack(std::move(made));
}

cudnnStatus_t EnginePlan::Run(cudnnHandle_t handle, const ConvolutionData& data,
                              void* workspace) const {
  Addresses addresses = {data.x, data.w, data.y};
  std::copy(data.fused.begin(), data.fused.end(), addresses.begin() + kFirstFusedTensor);
  addresses.back() = workspace;
  const Pack pack = PackOf(addresses);
  if (pack == nullptr) return CUDNN_STATUS_INTERNAL_ERROR;
  return functions_.execute(handle, plan_.get(), pack.get());
}

}  // namespace tidepool::cudnn
