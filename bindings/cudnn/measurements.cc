// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/measurements.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bindings/cudnn/engines.h"
#include "bindings/cudnn/measuring_memory.h"
#include "bindings/cudnn/plan.h"
#include "bindings/support/variables.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool::cudnn {
namespace {

// More results than cuDNN has for a direction.
constexpr int kMostResults = 32;

// Rows that are no algorithms: with larger workspaces than theirs nothing was measured.
constexpr std::int64_t kBound = kFirstEngine - 1;
constexpr std::int64_t kEngineBound = kFirstEngine - 2;
constexpr std::string_view kBoundText = "algorithms up to this workspace";
constexpr std::string_view kEngineBoundText = "engines up to this workspace";

// A program that trains must not wait long for a file.
constexpr absl::Duration kLongestWait = absl::Seconds(2);

// Returns whether a program with arithmetic `own` may run an algorithm with arithmetic `math`:
// conversions of the data and tensor cores only where the program allows them.
bool Allows(cudnnMathType_t own, cudnnMathType_t math) {
  if (math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return own == math;
  return own != CUDNN_FMA_MATH || math != CUDNN_TENSOR_OP_MATH;
}

// Returns the arithmetics that may take the place of the program's, and its own. All are measured:
// programs with other options share the file.
std::vector<cudnnDataType_t> ComputeTypesOf(const Convolution& convolution) {
  std::vector<cudnnDataType_t> types = {convolution.compute_type};
  if (convolution.precision() == KernelPrecision::kTrueHalf) types.push_back(CUDNN_DATA_FLOAT);
  return types;
}

// Returns whether an option allows the arithmetic of a row. Half data have no more precise one than
// PSEUDO_HALF.
bool IsPreciseEnough(const Convolution& convolution, KernelPrecision least, const KernelRow& row) {
  const KernelPrecision most = convolution.precision() == KernelPrecision::kFloat
                                   ? KernelPrecision::kFloat
                                   : KernelPrecision::kPseudoHalf;
  return row.precision >= std::min(least, most);
}

// An event that has the time.
class Event {
 public:
  Event() {
    if (cudaEventCreate(&event_) != cudaSuccess) event_ = nullptr;
  }
  ~Event() {
    if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
    static_cast<void>(cudaGetLastError());
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  bool Record(cudaStream_t stream) const {
    return event_ != nullptr && cudaEventRecord(event_, stream) == cudaSuccess;
  }
  // Waits for this event.
  bool MillisecondsSince(const Event& begin, float& milliseconds) const {
    return cudaEventSynchronize(event_) == cudaSuccess &&
           cudaEventElapsedTime(&milliseconds, begin.event_, event_) == cudaSuccess;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Adds the results of one look-up to a table.
void AddRows(const Convolution& convolution, cudnnDataType_t compute_type, std::int64_t samples,
             const std::vector<Performance>& results, KernelTable& rows) {
  const KernelPrecision precision = compute_type == convolution.compute_type
                                        ? convolution.precision()
                                        : KernelPrecision::kPseudoHalf;
  for (const Performance& result : results) {
    const double seconds = static_cast<double>(result.milliseconds) / 1e3;
    const bool is_usable = result.status == CUDNN_STATUS_SUCCESS && std::isfinite(seconds) &&
                           seconds >= 0 && seconds <= kMostKernelSeconds &&
                           result.workspace_bytes <= static_cast<std::size_t>(kMostDataBytes) &&
                           result.algorithm >= 0 && result.algorithm < 256;
    if (!is_usable) continue;
    const Algorithm algorithm = {result.algorithm, result.math,
                                 result.determinism == CUDNN_DETERMINISTIC};
    rows.push_back({samples, algorithm.Encoded(), seconds,
                    static_cast<std::int64_t>(result.workspace_bytes), precision});
  }
}

// Makes the descriptor of the filter. Null if a call of cuDNN fails.
FilterDescriptor FilterOf(const Functions& functions, const Convolution& convolution) {
  cudnnFilterDescriptor_t raw = nullptr;
  const bool exists = functions.create_filter(&raw) == CUDNN_STATUS_SUCCESS;
  FilterDescriptor made(exists ? raw : nullptr, functions.destroy_filter);
  if (exists && functions.set_filter(raw, convolution.filter_type, convolution.filter_format,
                                     convolution.dimensions,
                                     convolution.filter_sizes.data()) != CUDNN_STATUS_SUCCESS) {
    made.reset();
  }
  return made;
}

// Measures engines with a scale that adds to a filter's gradient: micro-batches need that.
Scales MeasuredScales(const Convolution& convolution) {
  return {1, convolution.pass == Pass::kFilter ? 1.0 : 0.0};
}

// Returns a row's workspace for a batch of `samples`; nothing where cuDNN does not run it. Runs
// nothing.
std::optional<std::int64_t> WorkspaceAt(const Functions& functions, cudnnHandle_t handle,
                                        const Convolution& convolution, const KernelRow& row,
                                        std::int64_t samples, const Descriptors& tensors) {
  if (IsEngine(row.algorithm)) {
    const auto plan = EnginePlan::Make(functions, handle, convolution, samples,
                                       MeasuredScales(convolution), EngineOf(row.algorithm));
    if (plan == nullptr) return std::nullopt;
    return plan->workspace_bytes();
  }
  const Algorithm algorithm = Algorithm::Of(row.algorithm);
  const ConvolutionDescriptor arithmetic = WithArithmetic(
      functions, convolution, ComputeTypeOf(convolution, row.precision), algorithm.math);
  if (arithmetic == nullptr) return std::nullopt;
  const std::array<void*, 3> of = tensors.InOrder(convolution.pass);
  std::size_t bytes = 0;
  const auto& pass = functions.passes[static_cast<std::size_t>(convolution.pass)];
  if (pass.size(handle, of[0], of[1], arithmetic.get(), of[2], algorithm.number, &bytes) !=
          CUDNN_STATUS_SUCCESS ||
      bytes > static_cast<std::size_t>(kMostDataBytes)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(bytes);
}

// Returns the rows with the workspaces that they need for a batch of `samples`. Leaves out those
// that cuDNN does not have there.
KernelTable WorkspacesAt(const Functions& functions, cudnnHandle_t handle,
                         const Convolution& convolution, const KernelTable& rows,
                         std::int64_t samples, cudnnFilterDescriptor_t filter) {
  KernelTable found;
  const TensorDescriptor x = WithBatch(functions, convolution, convolution.x, samples);
  const TensorDescriptor y = WithBatch(functions, convolution, convolution.y, samples);
  if (x == nullptr || y == nullptr) return found;
  const bool asks_engines = (samples & (samples - 1)) == 0;
  found.reserve(rows.size());
  for (KernelRow row : rows) {
    if (IsEngine(row.algorithm) && !asks_engines) continue;
    const auto bytes = WorkspaceAt(functions, handle, convolution, row, samples,
                                   {x.get(), filter, nullptr, y.get()});
    if (!bytes.has_value()) continue;
    row.micro_batch = samples;
    row.workspace_bytes = *bytes;
    found.push_back(row);
  }
  return found;
}

// Returns the algorithms and engines that cuDNN has for a batch of `samples`. Runs nothing: the
// rows have no times and no workspaces.
KernelTable MethodsAt(const Functions& functions, cudnnHandle_t handle,
                      const Convolution& convolution, std::int64_t samples,
                      cudnnFilterDescriptor_t filter) {
  KernelTable rows;
  if (convolution.source != Convolution::Source::kAlgorithms) {
    for (const Engine& engine :
         SuggestedEngines(functions, handle, convolution, samples, MeasuredScales(convolution))) {
      rows.push_back({samples, NumberOf(engine), 0, 0, convolution.precision()});
    }
  }
  const TensorDescriptor x = WithBatch(functions, convolution, convolution.x, samples);
  const TensorDescriptor y = WithBatch(functions, convolution, convolution.y, samples);
  const bool has_algorithms = convolution.source != Convolution::Source::kEngines;
  if (!has_algorithms || x == nullptr || y == nullptr) return rows;
  for (const cudnnDataType_t compute_type : ComputeTypesOf(convolution)) {
    const ConvolutionDescriptor arithmetic =
        WithArithmetic(functions, convolution, compute_type, convolution.math);
    if (arithmetic == nullptr) continue;
    const Descriptors its = {x.get(), filter, arithmetic.get(), y.get()};
    const std::array<void*, 3> of = its.InOrder(convolution.pass);
    std::vector<Performance> results(kMostResults);
    int count = 0;
    const auto& pass = functions.passes[static_cast<std::size_t>(convolution.pass)];
    if (pass.look(handle, of[0], of[1], its.convolution, of[2], kMostResults, &count,
                  results.data()) != CUDNN_STATUS_SUCCESS) {
      continue;
    }
    results.resize(static_cast<std::size_t>(std::clamp(count, 0, kMostResults)));
    for (Performance& result : results) result.milliseconds = 0;
    AddRows(convolution, compute_type, samples, results, rows);
  }
  return rows;
}

// Runs an engine's plan a few times. Returns the least time, or nothing if a call fails.
std::optional<double> SecondsOf(const EnginePlan& plan, const Functions& functions,
                                cudnnHandle_t handle, const ConvolutionData& data,
                                void* workspace) {
  constexpr int kRuns = 3;  // the first one warms up
  cudaStream_t stream = nullptr;
  if (functions.get_stream(handle, &stream) != CUDNN_STATUS_SUCCESS) return std::nullopt;
  const Event begin;
  const Event end;
  std::optional<double> least;
  for (int i = 0; i < kRuns; ++i) {
    float milliseconds = 0;
    if (!begin.Record(stream) || plan.Run(handle, data, workspace) != CUDNN_STATUS_SUCCESS ||
        !end.Record(stream) || !end.MillisecondsSince(begin, milliseconds)) {
      return std::nullopt;
    }
    const double seconds = static_cast<double>(milliseconds) / 1e3;
    if (i > 0) least = std::min(least.value_or(seconds), seconds);
  }
  return least;
}

// The text of an algorithm in a profile, such as "4 FLOAT math=0 deterministic".
std::string AlgorithmText(const KernelRow& row) {
  if (row.algorithm == kBound) return std::string(kBoundText);
  if (row.algorithm == kEngineBound) return std::string(kEngineBoundText);
  if (IsEngine(row.algorithm)) return EngineText(EngineOf(row.algorithm));
  const Algorithm algorithm = Algorithm::Of(row.algorithm);
  return absl::StrCat(algorithm.number, " ", std::string(KernelPrecisionName(row.precision)),
                      " math=", static_cast<int>(algorithm.math),
                      algorithm.is_deterministic ? " deterministic" : "");
}

// Parses such a text. Returns false for another one.
bool ParseAlgorithm(const std::string& text, const Convolution& convolution, KernelRow& row) {
  if (const std::optional<Engine> engine = ParseEngine(text); engine.has_value()) {
    row.algorithm = NumberOf(*engine);
    row.precision = convolution.precision();
    return true;
  }
  if (text == kBoundText || text == kEngineBoundText) {
    row.algorithm = text == kBoundText ? kBound : kEngineBound;
    return true;
  }
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  int number = 0;
  int math = 0;
  if (words.size() < 3 || !absl::SimpleAtoi(words[0], &number) || number < 0 || number > 255 ||
      !words[2].starts_with("math=") || !absl::SimpleAtoi(words[2].substr(5), &math) || math < 0 ||
      math > 255) {
    return false;
  }
  row.algorithm = Algorithm{number, static_cast<cudnnMathType_t>(math), words.size() > 3}.Encoded();
  for (const KernelPrecision precision :
       {KernelPrecision::kTrueHalf, KernelPrecision::kPseudoHalf, KernelPrecision::kFloat}) {
    if (words[1] != KernelPrecisionName(precision)) continue;
    row.precision = precision;
    return true;
  }
  return false;
}

std::string NameOfDevice(int ordinal) {
  cudaDeviceProp properties = {};
  if (cudaGetDeviceProperties(&properties, ordinal) == cudaSuccess) return properties.name;
  static_cast<void>(cudaGetLastError());
  return {};
}

// Makes a device current as long as it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) {
    is_known_ = cudaGetDevice(&before_) == cudaSuccess;
    is_set_ = cudaSetDevice(ordinal) == cudaSuccess;
  }
  ~CurrentDevice() {
    if (is_known_) static_cast<void>(cudaSetDevice(before_));
    static_cast<void>(cudaGetLastError());
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  bool is_set() const { return is_set_; }

 private:
  int before_ = 0;
  bool is_known_ = false;
  bool is_set_ = false;
};

}  // namespace

bool Measurements::IsBound(const KernelRow& row) {
  return row.algorithm == kBound || row.algorithm == kEngineBound;
}

Measurements::Family Measurements::FamilyOf(const KernelRow& row) {
  return IsEngine(row.algorithm) || row.algorithm == kEngineBound ? Family::kEngines
                                                                  : Family::kAlgorithms;
}

KernelRow Measurements::BoundOf(Family family, std::int64_t samples, std::int64_t bytes) {
  return {samples, family == Family::kEngines ? kEngineBound : kBound, 0, bytes,
          KernelPrecision::kFloat};
}

struct Measurements::Helper {
  Helper(const Functions& its, int device) : functions(its), ordinal(device) {}
  ~Helper() {
    if (handle == nullptr) return;
    const CurrentDevice current(ordinal);
    functions.destroy(handle);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  const Functions& functions;
  const int ordinal;
  cudnnHandle_t handle = nullptr;
};

Measurements::Measurements(const Functions& functions, const Options& options, int ordinal)
    : functions_(functions), options_(options) {
  machine_.device = NameOfDevice(ordinal);
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) static_cast<void>(cudaGetLastError());
  machine_.library = absl::StrCat("cuDNN ", functions.get_version(), ", driver ", driver);
  OpenFile();
  StartHelpers(ordinal);
}

Measurements::~Measurements() = default;

void Measurements::OpenFile() {
  if (options_.database.empty()) return;
  auto store = ProfileStore::Open(options_.database, kLongestWait);
  if (store.ok()) {
    store_ = *std::move(store);
  } else {
    bindings::WarnOnce(
        {absl::StrCat("measurements of convolutions are not kept: ", store.status().message())});
  }
}

// A device of another kind would give other times.
void Measurements::StartHelpers(int ordinal) {
  for (const int other : options_.devices) {
    if (other == ordinal) continue;
    const std::string name = NameOfDevice(other);
    if (name != machine_.device || name.empty()) {
      bindings::WarnOnce(
          {absl::StrCat("device ", other, " (", name, ") does not measure convolutions, expected ",
                        machine_.device)});
      continue;
    }
    auto helper = std::make_unique<Helper>(functions_, other);
    const CurrentDevice current(other);
    if (!current.is_set() || functions_.create(&helper->handle) != CUDNN_STATUS_SUCCESS) {
      helper->handle = nullptr;
      continue;
    }
    helpers_.push_back(std::move(helper));
  }
}

// Returns the rows of all micro-batches. A file that cannot be read is not asked again.
KernelTable Measurements::RowsInFile(const Convolution& convolution) {
  if (store_ == nullptr) return {};
  KernelTable rows;
  for (const bool is_bound : {false, true}) {
    const auto found = store_->FindAll(KeyOf(convolution, 0, is_bound));
    if (!found.ok()) {
      bindings::WarnOnce(
          {absl::StrCat("measurements of convolutions are not read: ", found.status().message())});
      store_.reset();
      return {};
    }
    for (const LayerTime& its : *found) {
      KernelRow row = {.micro_batch = its.samples,
                       .seconds = its.time.seconds,
                       .workspace_bytes = its.time.workspace_bytes};
      if (ParseAlgorithm(its.algorithm, convolution, row)) rows.push_back(row);
    }
  }
  return rows;
}

// Bounds have layers of their own: readers of tables need not know them.
ProfileKey Measurements::KeyOf(const Convolution& convolution, std::int64_t samples,
                               bool is_bound) const {
  ProfileKey key = convolution.KeyOf(machine_, samples);
  if (is_bound) key.layer = absl::StrCat("bound of ", key.layer);
  return key;
}

void Measurements::Write(const Convolution& convolution, const KernelTable& rows) {
  if (store_ == nullptr || !is_written_ || rows.empty()) return;
  std::vector<std::pair<ProfileKey, TaskTime>> times;
  for (const KernelRow& row : rows) {
    ProfileKey key = KeyOf(convolution, row.micro_batch, IsBound(row));
    key.algorithm = AlgorithmText(row);
    times.emplace_back(std::move(key), TaskTime{row.seconds, row.workspace_bytes, 1});
  }
  const absl::Status status = store_->PutAll(times);
  if (status.ok()) return;
  is_written_ = false;
  bindings::WarnOnce(
      {absl::StrCat("measurements of convolutions are not kept: ", status.message())});
}

std::vector<KernelTable> Measurements::MeasureAll(cudnnHandle_t handle,
                                                  const Convolution& convolution,
                                                  const std::vector<std::int64_t>& sizes,
                                                  Measured measure) {
  std::vector<KernelTable> tables(sizes.size());
  if (sizes.empty()) return tables;
  // A filter's descriptor has no batch, so all devices share it.
  const FilterDescriptor filter = FilterOf(functions_, convolution);
  if (filter == nullptr) return tables;
  const std::size_t workers = helpers_.size() + 1;
  const auto work = [&](std::size_t worker, cudnnHandle_t its) {
    for (std::size_t i = worker; i < sizes.size(); i += workers) {
      tables[i] = (this->*measure)(its, convolution, sizes[i], filter.get());
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < helpers_.size(); ++i) {
    threads.emplace_back([&, i] {
      const CurrentDevice current(helpers_[i]->ordinal);
      work(i + 1, helpers_[i]->handle);
    });
  }
  work(0, handle);
  for (std::thread& thread : threads) thread.join();
  measured_ += static_cast<std::int64_t>(sizes.size());
  return tables;
}

KernelTable Measurements::AdaptiveTable(cudnnHandle_t handle, const Convolution& convolution,
                                        std::int64_t limit_bytes) {
  const std::int64_t batch = convolution.batch();
  KernelTable whole = TableOf(handle, convolution, {batch});
  const FilterDescriptor filter = FilterOf(functions_, convolution);
  if (filter == nullptr) return whole;
  // Some algorithms run small batches alone.
  KernelTable methods = whole;
  for (std::int64_t samples = 1; samples < batch; samples *= 2) {
    for (const KernelRow& row : MethodsAt(functions_, handle, convolution, samples, filter.get())) {
      const bool is_known =
          std::any_of(methods.begin(), methods.end(), [&](const KernelRow& other) {
            return other.algorithm == row.algorithm && other.precision == row.precision;
          });
      if (!is_known && IsAllowed(convolution, row)) methods.push_back(row);
    }
  }
  KernelProbe probe;
  probe.measure = [&](std::int64_t samples) {
    return samples == batch ? whole : TableOf(handle, convolution, {samples});
  };
  probe.workspaces = [&](std::int64_t samples) {
    return WorkspacesAt(functions_, handle, convolution, methods, samples, filter.get());
  };
  return MeasureAdaptively(batch, limit_bytes, probe).table;
}

// cuDNN measures its algorithms. With a bound for workspaces it gets memory of ours, and otherwise
// it takes memory itself.
KernelTable Measurements::MeasureAlgorithms(cudnnHandle_t handle, const Convolution& convolution,
                                            std::int64_t samples,
                                            cudnnFilterDescriptor_t filter) const {
  KernelTable rows;
  const TensorDescriptor x = WithBatch(functions_, convolution, convolution.x, samples);
  const TensorDescriptor y = WithBatch(functions_, convolution, convolution.y, samples);
  if (x == nullptr || y == nullptr) return rows;
  std::unique_ptr<MeasuringMemory> memory;
  void* workspace = nullptr;
  if (options_.measuring_bytes.has_value()) {
    memory = MeasuringMemory::Create(functions_, handle, convolution, samples);
    if (memory == nullptr) return rows;
    workspace = memory->Workspace(*options_.measuring_bytes);
    if (workspace == nullptr && *options_.measuring_bytes > 0) return rows;
  }
  for (const cudnnDataType_t compute_type : ComputeTypesOf(convolution)) {
    const ConvolutionDescriptor arithmetic =
        WithArithmetic(functions_, convolution, compute_type, convolution.math);
    if (arithmetic == nullptr) continue;
    const Descriptors its = {x.get(), filter, arithmetic.get(), y.get()};
    const std::array<void*, 3> of = its.InOrder(convolution.pass);
    std::vector<Performance> results(kMostResults);
    int count = 0;
    const auto& pass = functions_.passes[static_cast<std::size_t>(convolution.pass)];
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (memory == nullptr) {
      status = pass.find(handle, of[0], of[1], its.convolution, of[2], kMostResults, &count,
                         results.data());
    } else {
      const ConvolutionData& data = memory->data();
      char* const a = convolution.pass == Pass::kData ? data.w : data.x;
      char* const b = convolution.pass == Pass::kForward ? data.w : data.y;
      char* const c = convolution.pass == Pass::kForward ? data.y
                      : convolution.pass == Pass::kData  ? data.x
                                                         : data.w;
      status = pass.find_ex(handle, of[0], a, of[1], b, its.convolution, of[2], c, kMostResults,
                            &count, results.data(), workspace,
                            static_cast<std::size_t>(*options_.measuring_bytes));
    }
    if (status != CUDNN_STATUS_SUCCESS) continue;
    results.resize(static_cast<std::size_t>(std::clamp(count, 0, kMostResults)));
    AddRows(convolution, compute_type, samples, results, rows);
  }
  if (memory != nullptr) {
    rows.push_back(BoundOf(Family::kAlgorithms, samples, *options_.measuring_bytes));
  }
  return rows;
}

KernelTable Measurements::MeasureEngines(cudnnHandle_t handle, const Convolution& convolution,
                                         std::int64_t samples,
                                         cudnnFilterDescriptor_t /*filter*/) const {
  KernelTable rows;
  const auto memory = MeasuringMemory::Create(functions_, handle, convolution, samples);
  if (memory == nullptr) return rows;
  const Scales scales = MeasuredScales(convolution);
  const std::int64_t most = options_.measuring_bytes.value_or(kMostDataBytes);
  for (const Engine& engine : SuggestedEngines(functions_, handle, convolution, samples, scales)) {
    const auto plan = EnginePlan::Make(functions_, handle, convolution, samples, scales, engine);
    if (plan == nullptr || plan->workspace_bytes() > most) continue;
    void* const workspace = memory->Workspace(plan->workspace_bytes());
    if (workspace == nullptr && plan->workspace_bytes() > 0) continue;
    const auto seconds = SecondsOf(*plan, functions_, handle, memory->data(), workspace);
    if (!seconds.has_value()) continue;
    rows.push_back(
        {samples, NumberOf(engine), *seconds, plan->workspace_bytes(), convolution.precision()});
  }
  if (options_.measuring_bytes.has_value()) {
    rows.push_back(BoundOf(Family::kEngines, samples, most));
  }
  return rows;
}

// Returns whether rows have a micro-batch, measured with workspaces as large as are wanted now.
bool Measurements::IsKnown(const KernelTable& rows, Family family, std::int64_t samples) const {
  const auto its_bound = std::find_if(rows.begin(), rows.end(), [&](const KernelRow& row) {
    return row.micro_batch == samples && FamilyOf(row) == family && IsBound(row);
  });
  if (its_bound != rows.end()) {
    return its_bound->workspace_bytes >= options_.measuring_bytes.value_or(kMostDataBytes);
  }
  return std::any_of(rows.begin(), rows.end(), [&](const KernelRow& row) {
    return row.micro_batch == samples && FamilyOf(row) == family;
  });
}

bool Measurements::IsAllowed(const Convolution& convolution, const KernelRow& row) const {
  if (IsBound(row)) return false;
  if (IsEngine(row.algorithm)) {
    return convolution.source != Convolution::Source::kAlgorithms &&
           (EngineOf(row.algorithm).notes & ~convolution.notes) == 0;
  }
  return convolution.source != Convolution::Source::kEngines &&
         Allows(convolution.math, Algorithm::Of(row.algorithm).math) &&
         IsPreciseEnough(convolution, options_.precision, row);
}

// Measures the micro-batches that rows lack. Rows of smaller bounds go.
void Measurements::Complete(cudnnHandle_t handle, const Convolution& convolution,
                            const std::vector<std::int64_t>& sizes, Family family, KernelTable& all,
                            KernelTable& measured) {
  std::vector<std::int64_t> unknown;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(unknown),
               [&](std::int64_t size) { return !IsKnown(all, family, size); });
  std::erase_if(all, [&](const KernelRow& row) {
    const bool is_replaced = FamilyOf(row) == family &&
                             std::binary_search(unknown.begin(), unknown.end(), row.micro_batch);
    // A bound in the file is never lost, so it becomes that of the new rows.
    const bool has_file_bound =
        is_replaced && IsBound(row) && !options_.measuring_bytes.has_value();
    if (has_file_bound) measured.push_back(BoundOf(family, row.micro_batch, kMostDataBytes));
    return is_replaced;
  });
  // The largest first: they take longest.
  std::reverse(unknown.begin(), unknown.end());
  const Measured measure =
      family == Family::kEngines ? &Measurements::MeasureEngines : &Measurements::MeasureAlgorithms;
  for (const KernelTable& rows : MeasureAll(handle, convolution, unknown, measure)) {
    measured.insert(measured.end(), rows.begin(), rows.end());
  }
}

KernelTable Measurements::TableOf(cudnnHandle_t handle, const Convolution& convolution,
                                  const std::vector<std::int64_t>& sizes) {
  KernelTable all = RowsInFile(convolution);
  std::erase_if(all, [&](const KernelRow& row) {
    return !std::binary_search(sizes.begin(), sizes.end(), row.micro_batch);
  });
  KernelTable measured;
  if (convolution.source != Convolution::Source::kEngines) {
    Complete(handle, convolution, sizes, Family::kAlgorithms, all, measured);
  }
  if (convolution.source != Convolution::Source::kAlgorithms) {
    Complete(handle, convolution, sizes, Family::kEngines, all, measured);
  }
  Write(convolution, measured);
  all.insert(all.end(), measured.begin(), measured.end());
  std::erase_if(all, [&](const KernelRow& row) { return !IsAllowed(convolution, row); });
  return all;
}

}  // namespace tidepool::cudnn
