// SPDX-License-Identifier: Apache-2.0
// Chooses a point of a convolution's front for each call: within the limit of the look-up, within
// the caller's workspace, or within the kernel's part of the total.
#include "bindings/cudnn/planner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bindings/support/variables.h"
#include "lib/base/arithmetic.h"
#include "tidepool/log.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool::cudnn {
namespace {

// The alignment of the pool: a part of the total is a whole number of units.
constexpr std::int64_t kUnit = 512;

// Returns a front with rounded workspaces, of equal ones the fastest.
std::vector<KernelConfiguration> InUnits(const std::vector<KernelConfiguration>& front) {
  std::vector<KernelConfiguration> rounded;
  for (const KernelConfiguration& point : front) {
    const std::int64_t bytes = RoundUp(point.workspace_bytes, kUnit);
    if (!rounded.empty() && rounded.back().workspace_bytes == bytes) rounded.pop_back();
    rounded.push_back({point.seconds, bytes, {}});
  }
  return rounded;
}

std::int64_t NextId() {
  static std::atomic<std::int64_t> last = 0;
  return last.fetch_add(1) + 1;
}

// Returns the algorithms of cuDNN that programs can name.
KernelTable OfWholeBatch(const KernelTable& rows, std::int64_t batch) {
  KernelTable whole;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(whole), [&](const KernelRow& row) {
    return row.micro_batch == batch && !IsEngine(row.algorithm);
  });
  std::stable_sort(whole.begin(), whole.end(), [](const KernelRow& one, const KernelRow& other) {
    return one.seconds < other.seconds;
  });
  return whole;
}

}  // namespace

Planner::Planner(const Functions& functions, const Options& options, int ordinal)
    : functions_(functions),
      options_(options),
      ordinal_(ordinal),
      id_(NextId()),
      measurements_(functions, options, ordinal) {}

Planner::~Planner() {
  PrintStatistics();
  const locks::MutexLock lock(&mutex_);
  for (Kernel& kernel : kernels_) FreeSegment(kernel);
}

// Plans
// ------------------------------------------------------------------------------------------

// Measures a convolution. Stores the micro-batches that may run.
KernelTable Planner::TableOf(cudnnHandle_t handle, const Convolution& convolution,
                             std::int64_t limit_bytes, std::vector<std::int64_t>& sizes) {
  if (options_.policy == kAdaptive) {
    sizes = MicroBatchSizes("all", convolution.batch()).value();
    return measurements_.AdaptiveTable(handle, convolution, limit_bytes);
  }
  auto allowed = MicroBatchSizes(options_.policy, convolution.batch());
  if (!allowed.ok()) return {};
  sizes = *std::move(allowed);
  std::erase_if(sizes, [&](std::int64_t size) { return size > convolution.batch(); });
  return measurements_.TableOf(handle, convolution, sizes);
}

// The first limit of a convolution decides which micro-batches are measured adaptively.
Planner::Shape& Planner::ShapeOf(cudnnHandle_t handle, const Convolution& convolution,
                                 std::int64_t limit_bytes) {
  std::unique_ptr<Shape>& shape = shapes_[convolution];
  if (shape != nullptr && !shape->front.empty()) return *shape;
  if (shape == nullptr) shape = std::make_unique<Shape>();
  shape->convolution = convolution;
  std::vector<std::int64_t> sizes;
  const KernelTable table = TableOf(handle, convolution, limit_bytes, sizes);
  shape->front = ConfigurationFront(table, sizes, convolution.batch(), kMostWorkspaceBytes);
  shape->plans.resize(shape->front.size());
  shape->whole = OfWholeBatch(table, convolution.batch());
  return *shape;
}

// Returns a convolution with the algorithms that options allow. A graph's has engines alone.
Convolution Planner::Sourced(const Convolution& convolution) const {
  Convolution its = convolution;
  if (options_.engines && its.source == Convolution::Source::kAlgorithms) {
    its.source = Convolution::Source::kBoth;
    if (its.math == CUDNN_FMA_MATH) its.notes = ~(1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  }
  return its;
}

// Returns the shape itself, or that without engines where engines refuse the call: they have fixed
// scales, and data must be aligned.
Planner::Shape& Planner::RunnableShape(Shape& shape, std::int64_t most_bytes, const Call& call) {
  if (shape.convolution.source != Convolution::Source::kBoth) return shape;
  const Point point = PointWithin(shape, most_bytes);
  const Plan* const plan = point.has_value() ? PlanAt(shape, *point) : nullptr;
  if (plan == nullptr || plan->CanRun(call)) return shape;
  Convolution algorithms = shape.convolution;
  algorithms.source = Convolution::Source::kAlgorithms;
  return ShapeOf(call.handle, algorithms, most_bytes);
}

bool Planner::CanRun(const Convolution& convolution, int algorithm, const Call& call) {
  const locks::MutexLock lock(&mutex_);
  const Kernel* const kernel = Find(algorithm);
  if (kernel == nullptr) return false;
  Shape& shape = ShapeOf(call.handle, Sourced(convolution), kernel->granted_bytes);
  const Point point = PointWithin(shape, kernel->granted_bytes);
  const Plan* const plan = point.has_value() ? PlanAt(shape, *point) : nullptr;
  return plan != nullptr && plan->CanRun(call);
}

Planner::Point Planner::PointWithin(const Shape& shape, std::int64_t bytes) {
  const auto above = std::upper_bound(shape.front.begin(), shape.front.end(), bytes,
                                      [](std::int64_t limit, const KernelConfiguration& point) {
                                        return limit < point.workspace_bytes;
                                      });
  if (above == shape.front.begin()) return std::nullopt;
  return static_cast<std::size_t>(above - shape.front.begin()) - 1;
}

const Plan* Planner::PlanAt(Shape& shape, std::size_t point) {
  std::unique_ptr<Plan>& plan = shape.plans[point];
  if (plan == nullptr) plan = Plan::Make(functions_, shape.convolution, shape.front[point]);
  return plan.get();
}

// Kernels
// ------------------------------------------------------------------------------------------

// A kernel of a layer is found by the layer. Without layers, kernels of one shape are given out in
// turn once convolutions have run: then the program goes through its layers again. With a workspace
// of its own in each call, one kernel serves all layers of a shape.
std::optional<std::size_t> Planner::FindKernel(const Shape& shape, std::uint64_t layer,
                                               std::int64_t granted_bytes) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const Kernel& kernel = kernels_[i];
    if (kernel.layer != layer || kernel.shape->convolution.pass != shape.convolution.pass) continue;
    const bool is_same = layer != 0 || kernel.shape == &shape;
    const bool has_limit =
        options_.kind() != WorkspaceKind::kReuse || kernel.granted_bytes == granted_bytes;
    if (is_same && has_limit) found.push_back(i);
  }
  if (found.empty()) return std::nullopt;
  if (layer != 0 || options_.kind() != WorkspaceKind::kDivision) return found.front();
  if (!has_run_) return std::nullopt;
  return found[last_given_[&shape]++ % found.size()];
}

// A new kernel, or one with another shape, changes the parts of all in a total.
std::size_t Planner::KernelOf(Shape& shape, std::uint64_t layer, std::int64_t granted_bytes) {
  const std::optional<std::size_t> found = FindKernel(shape, layer, granted_bytes);
  if (found.has_value() && kernels_[*found].shape == &shape) return *found;
  if (found.has_value()) {
    changed_.fetch_add(1, std::memory_order_relaxed);
    kernels_[*found].shape = &shape;
  } else {
    Kernel kernel;
    kernel.shape = &shape;
    kernel.layer = layer;
    kernel.granted_bytes = granted_bytes;
    kernels_.push_back(kernel);
  }
  if (options_.kind() == WorkspaceKind::kDivision) Divide();
  return found.value_or(kernels_.size() - 1);
}

Planner::Kernel* Planner::Find(int algorithm) {
  const auto index = static_cast<std::size_t>(algorithm - kFirstVirtual);
  return index < kernels_.size() ? &kernels_[index] : nullptr;
}

std::optional<LookedUp> Planner::LookUp(cudnnHandle_t handle, const Convolution& convolution,
                                        std::uint64_t layer,
                                        std::optional<std::int64_t> limit_bytes) {
  const locks::MutexLock lock(&mutex_);
  const bool has_total = options_.kind() != WorkspaceKind::kReuse;
  const std::int64_t granted = has_total              ? *options_.total_bytes
                               : options_.uses_pool() ? options_.limit_bytes
                                                      : limit_bytes.value_or(options_.limit_bytes);
  Shape& shape = ShapeOf(handle, Sourced(convolution), granted);
  if (!PointWithin(shape, granted).has_value()) return std::nullopt;
  const std::size_t kernel = KernelOf(shape, layer, granted);
  const Point point = PointWithin(shape, kernels_[kernel].granted_bytes);
  if (!point.has_value()) return std::nullopt;
  const Plan* const plan = PlanAt(shape, *point);
  if (plan == nullptr) return std::nullopt;
  LookedUp answer;
  answer.algorithm = kFirstVirtual + static_cast<int>(kernel);
  answer.seconds = plan->seconds();
  answer.workspace_bytes = options_.uses_pool() ? 0 : plan->workspace_bytes();
  answer.is_deterministic = plan->is_deterministic();
  answer.whole = shape.whole;
  return answer;
}

std::optional<std::int64_t> Planner::WorkspaceOf(cudnnHandle_t handle,
                                                 const Convolution& convolution, int algorithm) {
  const locks::MutexLock lock(&mutex_);
  const Kernel* const kernel = Find(algorithm);
  if (kernel == nullptr) return std::nullopt;
  if (options_.uses_pool()) return 0;
  const Shape& shape = ShapeOf(handle, Sourced(convolution), kernel->granted_bytes);
  const Point point = PointWithin(shape, kernel->granted_bytes);
  if (!point.has_value()) return std::nullopt;
  return shape.front[*point].workspace_bytes;
}

// Divides the total between all kernels. Parts of before are given back in the order of their
// streams.
void Planner::Divide() {
  std::vector<std::vector<KernelConfiguration>> fronts;
  for (Kernel& kernel : kernels_) {
    FreeSegment(kernel);
    fronts.push_back(InUnits(kernel.shape->front));
  }
  const absl::StatusOr<WorkspaceAnswer> answer = DivideWorkspace(fronts, *options_.total_bytes);
  if (answer.ok()) {
    solves_.fetch_add(1, std::memory_order_relaxed);
  } else {
    Tell(absl::StrCat("the total of workspaces is too small: ", answer.status().message()));
  }
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    kernels_[i].granted_bytes = answer.ok() ? answer->kernels[i].workspace_bytes : 0;
  }
}

// Memory
// ------------------------------------------------------------------------------------------

void Planner::FreeSegment(Kernel& kernel) {
  if (kernel.segment == nullptr || workspaces_ == nullptr) return;
  workspaces_->FreeLate(kernel.segment, kernel.segment_stream);
  kernel.segment = nullptr;
}

bool Planner::HasWorkspaces() {
  if (workspaces_ != nullptr || has_no_workspaces_) return workspaces_ != nullptr;
  const std::int64_t total = options_.total_bytes.value_or(0) / kUnit * kUnit;
  auto made = options_.total_bytes.has_value() && total == 0
                  ? absl::StatusOr<std::unique_ptr<Workspaces>>(
                        absl::ResourceExhaustedError("a total of less than 512 bytes"))
                  : Workspaces::Create(ordinal_, total);
  has_no_workspaces_ = !made.ok();
  if (has_no_workspaces_) {
    Tell(absl::StrCat("convolutions run without workspaces: ", made.status().message()));
    return false;
  }
  workspaces_ = *std::move(made);
  return true;
}

std::optional<Stream> Planner::StreamOf(cudnnHandle_t handle) {
  cudaStream_t native = nullptr;
  if (functions_.get_stream(handle, &native) != CUDNN_STATUS_SUCCESS) return std::nullopt;
  const auto found = streams_.find(native);
  // Each thread has its own stream of this handle.
  if (found != streams_.end() && native != cudaStreamPerThread) return found->second;
  const absl::StatusOr<Stream> name = workspaces_->NameOf(native);
  if (!name.ok()) return std::nullopt;
  streams_[native] = *name;
  return *name;
}

void Planner::ForgetStream(cudaStream_t native) {
  const locks::MutexLock lock(&mutex_);
  streams_.erase(native);
}

// Returns the part of a kernel, for work in a stream. Another stream waits for the last one.
void* Planner::SegmentOf(Kernel& kernel, std::int64_t bytes, Stream stream) {
  const bool is_here =
      kernel.segment != nullptr && kernel.segment_stream == stream && kernel.segment_bytes >= bytes;
  if (is_here) return kernel.segment;
  FreeSegment(kernel);
  const absl::StatusOr<void*> segment = workspaces_->Allocate(kernel.granted_bytes, stream);
  if (!segment.ok()) return nullptr;
  kernel.segment = *segment;
  kernel.segment_bytes = kernel.granted_bytes;
  kernel.segment_stream = stream;
  return kernel.segment;
}

// Runs
// ------------------------------------------------------------------------------------------

cudnnStatus_t Planner::RunPlan(const Plan& plan, const Call& call, void* workspace,
                               std::size_t bytes) {
  convolutions_.fetch_add(1, std::memory_order_relaxed);
  if (plan.is_divided()) divided_.fetch_add(1, std::memory_order_relaxed);
  return plan.Run(call, workspace, bytes);
}

// Runs with a workspace of the pool. Where the pool has none, runs without a workspace.
cudnnStatus_t Planner::RunWithOwn(Kernel& kernel, Shape& shape, std::size_t point,
                                  const Call& call) {
  const std::int64_t bytes = shape.front[point].workspace_bytes;
  if (bytes > 0 && HasWorkspaces()) {
    const std::optional<Stream> stream = StreamOf(call.handle);
    const Plan* const plan = PlanAt(shape, point);
    if (plan == nullptr) return CUDNN_STATUS_INTERNAL_ERROR;
    const bool is_divided = options_.kind() == WorkspaceKind::kDivision;
    void* workspace = nullptr;
    if (stream.has_value() && is_divided) workspace = SegmentOf(kernel, bytes, *stream);
    if (stream.has_value() && !is_divided) {
      workspace = workspaces_->Allocate(bytes, *stream).value_or(nullptr);
    }
    if (workspace != nullptr) {
      const cudnnStatus_t status = RunPlan(*plan, call, workspace, static_cast<std::size_t>(bytes));
      if (!is_divided) workspaces_->Free(workspace, *stream);
      return status;
    }
  }
  const Point without = PointWithin(shape, 0);
  if (!without.has_value()) return CUDNN_STATUS_NOT_SUPPORTED;
  const Plan* const plan = PlanAt(shape, *without);
  if (plan == nullptr) return CUDNN_STATUS_INTERNAL_ERROR;
  if (bytes > 0) fallbacks_.fetch_add(1, std::memory_order_relaxed);
  return RunPlan(*plan, call, nullptr, 0);
}

cudnnStatus_t Planner::Run(const Convolution& asked, int algorithm, const Call& call) {
  const Convolution convolution = Sourced(asked);
  const Plan* plan = nullptr;
  {
    const locks::MutexLock lock(&mutex_);
    Kernel* const kernel = Find(algorithm);
    if (kernel == nullptr || kernel->shape->convolution.pass != convolution.pass) {
      return CUDNN_STATUS_BAD_PARAM;
    }
    has_run_ = true;
    Shape* shape = kernel->shape;
    if (!(shape->convolution == convolution)) {
      changed_.fetch_add(1, std::memory_order_relaxed);
      shape = &ShapeOf(call.handle, convolution, kernel->granted_bytes);
    }
    const auto given =
        call.workspace == nullptr ? 0 : static_cast<std::int64_t>(call.workspace_bytes);
    const std::int64_t most =
        options_.uses_pool() ? kernel->granted_bytes : std::min(kernel->granted_bytes, given);
    shape = &RunnableShape(*shape, most, call);
    Point point = PointWithin(*shape, kernel->granted_bytes);
    if (!point.has_value()) return CUDNN_STATUS_NOT_SUPPORTED;
    if (options_.uses_pool()) return RunWithOwn(*kernel, *shape, *point, call);
    if (shape->front[*point].workspace_bytes > given) {
      fallbacks_.fetch_add(1, std::memory_order_relaxed);
      point = PointWithin(*shape, given);
      if (!point.has_value()) return CUDNN_STATUS_BAD_PARAM;
    }
    plan = PlanAt(*shape, *point);
  }
  if (plan == nullptr) return CUDNN_STATUS_INTERNAL_ERROR;
  return RunPlan(*plan, call, call.workspace, call.workspace_bytes);
}

// Reports
// ------------------------------------------------------------------------------------------

void Planner::Tell(const std::string& text) const {
  bindings::WarnOnce({absl::StrCat("cuda:", ordinal_, ": ", text)});
}

TidepoolCudnnStatistics Planner::Statistics() const {
  const locks::MutexLock lock(&mutex_);
  TidepoolCudnnStatistics statistics = {};
  statistics.convolutions = convolutions_.load();
  statistics.divided = divided_.load();
  statistics.fallbacks = fallbacks_.load();
  statistics.changed = changed_.load();
  statistics.kernels = static_cast<std::int64_t>(kernels_.size());
  statistics.measured = measurements_.measured();
  statistics.solves = solves_.load();
  statistics.graphs = graphs_.load();
  statistics.graphs_left = graphs_left_.load();
  if (workspaces_ != nullptr) statistics.workspace_bytes = workspaces_->Stats().reserved_bytes;
  return statistics;
}

void Planner::PrintStatistics() const {
  if (!options_.statistics) return;
  const TidepoolCudnnStatistics its = Statistics();
  Log(LogLevel::kInfo,
      absl::StrCat("cuda:", ordinal_, ": ", its.convolutions, " convolutions, ", its.divided,
                   " in micro-batches, ", its.fallbacks, " with a slower plan; ", its.kernels,
                   " kernels, ", its.measured, " micro-batches measured, ", its.workspace_bytes,
                   " bytes of workspaces held; ", its.graphs, " plans of graphs taken over, ",
                   its.graphs_left, " larger than the limit left"));
}

void Planner::ForgetMemoryAfterReset() {
  const locks::MutexLock lock(&mutex_);
  if (workspaces_ == nullptr || !workspaces_->WasReset()) return;
  // Destroying handles and addresses that CUDA may have given to other objects would be wrong.
  static_cast<void>(workspaces_.release());
}

}  // namespace tidepool::cudnn
