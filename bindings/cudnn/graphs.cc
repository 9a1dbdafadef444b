// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/graphs.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "absl/hash/hash.h"
#include "bindings/cudnn/engines.h"
#include "bindings/cudnn/fusion.h"
#include "bindings/cudnn/graph_convolution.h"
#include "bindings/cudnn/handles.h"
#include "bindings/cudnn/planner.h"
#include "bindings/cudnn/recorded.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudnn {

// A plan that was taken over. The planner is that of the last handle.
struct GraphPlan {
  GraphConvolution its;
  std::int64_t workspace_bytes = 0;  // that the program was told
  locks::Mutex mutex;
  std::int64_t planner ABSL_GUARDED_BY(mutex) = 0;
  int algorithm ABSL_GUARDED_BY(mutex) = 0;
};

namespace {

// Scales as cuDNN's other interface takes them.
class CallScales {
 public:
  CallScales(const Convolution& convolution, const Scales& scales)
      : is_double_(convolution.x.type == CUDNN_DATA_DOUBLE),
        double_(scales),
        alpha_(static_cast<float>(scales.alpha)),
        beta_(static_cast<float>(scales.beta)) {}
  const void* alpha() const {
    return is_double_ ? static_cast<const void*>(&double_.alpha) : &alpha_;
  }
  const void* beta() const { return is_double_ ? static_cast<const void*>(&double_.beta) : &beta_; }

 private:
  bool is_double_;
  Scales double_;
  float alpha_;
  float beta_;
};

// Returns the handle that a plan or its graph, unless that is null, has; null: none.
cudnnHandle_t HandleOf(const Recorded* graph, const Recorded& plan) {
  for (const RecordedAttribute* const handle :
       {graph == nullptr ? nullptr : graph->Find(CUDNN_ATTR_OPERATIONGRAPH_HANDLE),
        plan.Find(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)}) {
    if (handle != nullptr) return static_cast<cudnnHandle_t>(handle->First<void*>(nullptr));
  }
  return nullptr;
}

// Measuring waits for the device, which a capture prohibits.
bool IsCapturing(const Functions& functions, cudnnHandle_t handle) {
  cudaStream_t stream = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return functions.get_stream(handle, &stream) != CUDNN_STATUS_SUCCESS ||
         cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
         status != cudaStreamCaptureStatusNone;
}

// Returns the notes of the engine that a program chose for a plan.
std::optional<std::uint32_t> NotesOfPlan(const Functions& functions, const Recorded& plan) {
  const RecordedRef configuration = plan.Child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (configuration == nullptr || configuration->address == nullptr) return std::nullopt;
  const BackendDescriptor engine = EngineOfConfiguration(functions, configuration->address);
  return engine == nullptr ? std::nullopt : NotesOf(functions, engine.get());
}

// Plans of one convolution share a kernel: programs make several and keep the fastest.
std::uint64_t LayerOf(const Convolution& convolution) { return absl::HashOf(convolution) | 1; }

// Returns the workspace of a plan of micro-batches, or nothing where none fits.
std::optional<std::int64_t> LookUp(Planner& planner, cudnnHandle_t handle, GraphPlan& plan)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(plan.mutex) {
  const Convolution& convolution = plan.its.convolution;
  const std::optional<LookedUp> found =
      planner.LookUp(handle, convolution, LayerOf(convolution), std::nullopt);
  if (!found.has_value()) return std::nullopt;
  const CallScales scales(convolution, plan.its.scales);
  Call call;
  call.handle = handle;
  call.alpha = scales.alpha();
  call.beta = scales.beta();
  if (!planner.CanRun(convolution, found->algorithm, call)) return std::nullopt;
  plan.planner = planner.id();
  plan.algorithm = found->algorithm;
  return found->workspace_bytes;
}

// Returns the plan of micro-batches for a program's plan, or null.
std::shared_ptr<GraphPlan> Divided(const Functions& functions, const Recorded& recorded,
                                   const Recorded& graph, cudnnHandle_t handle, Planner& planner) {
  const std::optional<GraphConvolution> its = ReadGraph(graph);
  const std::optional<std::uint32_t> notes = NotesOfPlan(functions, recorded);
  if (!its.has_value() || !notes.has_value() || IsCapturing(functions, handle)) return nullptr;
  auto plan = std::make_shared<GraphPlan>();
  plan->its = *its;
  // Engines with other notes would give other numbers, or not always the same ones.
  plan->its.convolution.notes = *notes;
  const locks::MutexLock lock(&plan->mutex);
  const std::optional<std::int64_t> bytes = LookUp(planner, handle, *plan);
  if (!bytes.has_value()) return nullptr;
  plan->workspace_bytes = *bytes;
  return plan;
}

// A plan without a handle counts on the current device. One from JSON has no graph.
std::shared_ptr<GraphPlan> TakeOver(const Functions& functions, const RecordedRef& recorded) {
  std::int64_t bytes = 0;
  if (functions.get_attribute(recorded->address, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                              CUDNN_TYPE_INT64, 1, nullptr, &bytes) != CUDNN_STATUS_SUCCESS) {
    return nullptr;
  }
  const RecordedRef graph = GraphOf(recorded);
  const cudnnHandle_t handle = HandleOf(graph.get(), *recorded);
  if (graph == nullptr || handle == nullptr) {
    Handles::Get().CountGraphLeft(bytes);
    return nullptr;
  }
  HandleState& state = Handles::Get().Find(functions, handle);
  Planner* const planner = state.planner.load(std::memory_order_acquire);
  if (planner == nullptr || bytes <= planner->MostOfOwnPlans()) return nullptr;
  const locks::MutexLock lock(&state.mutex);
  std::shared_ptr<GraphPlan> plan = Divided(functions, *recorded, *graph, handle, *planner);
  planner->CountGraph(plan != nullptr);
  return plan;
}

// Remembers the graph of descriptors that cuDNN filled.
void Link(cudnnBackendDescriptor_t from, std::int64_t count,
          const cudnnBackendDescriptor_t* filled) {
  RecordedDescriptors& all = RecordedDescriptors::Get();
  const RecordedRef graph = GraphOf(all.Find(from));
  if (graph == nullptr) return;
  for (std::int64_t i = 0; i < count; ++i) {
    const RecordedRef its = all.Find(filled[i]);
    if (its != nullptr) its->graph = graph;
  }
}

// Returns the pointer of a tensor in a variant pack; null: none.
char* PointerOf(const Recorded& pack, std::int64_t id) {
  const RecordedAttribute* const ids = pack.Find(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const RecordedAttribute* const pointers = pack.Find(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids == nullptr || pointers == nullptr) return nullptr;
  const std::size_t count = ids->Count<std::int64_t>();
  for (std::size_t i = 0; i < count; ++i) {
    if (ids->At<std::int64_t>(i, 0) == id) return pointers->At<char*>(i, nullptr);
  }
  return nullptr;
}

// Finds the data of all tensors that have memory. Returns false where a pack lacks one.
bool FindData(const GraphConvolution& its, const Recorded& pack, ConvolutionData& data) {
  for (std::size_t i = 0; i < its.ids.size(); ++i) {
    if (!its.ids[i].has_value()) continue;
    char*& found = i == 0   ? data.x
                   : i == 1 ? data.w
                   : i == 2 ? data.y
                            : data.fused[i - kFirstFusedTensor];
    found = PointerOf(pack, *its.ids[i]);
    if (found == nullptr) return false;
  }
  return true;
}

cudnnStatus_t Run(const Functions& functions, GraphPlan& plan, cudnnHandle_t handle,
                  const Recorded& pack) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  HandleState& state = Handles::Get().Find(functions, handle);
  Planner* const planner = state.planner.load(std::memory_order_acquire);
  if (planner == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const CallScales scales(plan.its.convolution, plan.its.scales);
  Call call;
  call.handle = handle;
  if (!FindData(plan.its, pack, call.data)) return CUDNN_STATUS_BAD_PARAM;
  call.alpha = scales.alpha();
  call.beta = scales.beta();
  const RecordedAttribute* const workspace = pack.Find(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  call.workspace = workspace == nullptr ? nullptr : workspace->First<void*>(nullptr);
  call.workspace_bytes =
      call.workspace == nullptr ? 0 : static_cast<std::size_t>(plan.workspace_bytes);
  const locks::MutexLock lock(&state.mutex);
  int algorithm = 0;
  {
    const locks::MutexLock plan_lock(&plan.mutex);
    // Another device's handle, or a new planner after the last handle was destroyed.
    const bool is_known = plan.planner == planner->id();
    if (!is_known && !LookUp(*planner, handle, plan).has_value()) return CUDNN_STATUS_NOT_SUPPORTED;
    algorithm = plan.algorithm;
  }
  return planner->Run(plan.its.convolution, algorithm, call);
}

}  // namespace

cudnnStatus_t CreateBackend(cudnnBackendDescriptorType_t type,
                            cudnnBackendDescriptor_t* descriptor) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const cudnnStatus_t status = functions->create_backend(type, descriptor);
  if (status == CUDNN_STATUS_SUCCESS) RecordedDescriptors::Get().Add(*descriptor, type);
  return status;
}

cudnnStatus_t DestroyBackend(cudnnBackendDescriptor_t descriptor) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  RecordedDescriptors::Get().Remove(descriptor);
  return functions->destroy_backend(descriptor);
}

cudnnStatus_t FinalizeBackend(cudnnBackendDescriptor_t descriptor) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const cudnnStatus_t status = functions->finalize_backend(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const RecordedRef its = RecordedDescriptors::Get().Find(descriptor);
  if (its != nullptr && its->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    its->plan = TakeOver(*functions, its);
  }
  return status;
}

cudnnStatus_t SetBackend(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, std::int64_t count,
                         const void* elements) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const cudnnStatus_t status = functions->set_attribute(descriptor, name, type, count, elements);
  if (status == CUDNN_STATUS_SUCCESS && elements != nullptr) {
    RecordedDescriptors::Get().Set(descriptor, name, type, count, elements);
  }
  return status;
}

cudnnStatus_t GetBackend(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, std::int64_t wanted, std::int64_t* count,
                         void* elements) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  std::int64_t stored = wanted;
  const cudnnStatus_t status =
      functions->get_attribute(descriptor, name, type, wanted, &stored, elements);
  if (count != nullptr) *count = stored;
  if (status != CUDNN_STATUS_SUCCESS || elements == nullptr) return status;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    Link(descriptor, std::min(wanted, stored), static_cast<cudnnBackendDescriptor_t*>(elements));
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && wanted > 0) {
    const RecordedRef its = RecordedDescriptors::Get().Find(descriptor);
    if (its != nullptr && its->plan != nullptr) {
      *static_cast<std::int64_t*>(elements) = its->plan->workspace_bytes;
    }
  }
  return status;
}

cudnnStatus_t Execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                      cudnnBackendDescriptor_t pack) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const RecordedRef its = RecordedDescriptors::Get().Find(plan);
  if (its == nullptr || its->plan == nullptr) return functions->execute(handle, plan, pack);
  const RecordedRef its_pack = RecordedDescriptors::Get().Find(pack);
  if (its_pack == nullptr) return CUDNN_STATUS_BAD_PARAM;
  return Run(*functions, *its->plan, handle, *its_pack);
}

cudnnStatus_t PlanIntoGraph(PlanToGraph Functions::*function, cudnnHandle_t handle,
                            cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,
                            cudaGraph_t graph) {
  const Functions* const functions = Functions::Get();
  if (functions == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  const RecordedRef its = RecordedDescriptors::Get().Find(plan);
  const bool is_taken = its != nullptr && its->plan != nullptr;
  if (is_taken || functions->*function == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
  return (functions->*function)(handle, plan, pack, graph);
}

}  // namespace tidepool::cudnn
