// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/measurements.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bindings/cudnn/plan.h"
#include "bindings/support/variables.h"
#include "tidepool/schedule/workspace_policy.h"

namespace tidepool::cudnn {
namespace {

// More results than cuDNN has for a direction.
constexpr int kMostResults = 32;

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

KernelTable Measure(const Functions& functions, cudnnHandle_t handle,
                    const Convolution& convolution, std::int64_t samples,
                    cudnnFilterDescriptor_t filter) {
  KernelTable rows;
  const TensorDescriptor x = WithBatch(functions, convolution, convolution.x, samples);
  const TensorDescriptor y = WithBatch(functions, convolution, convolution.y, samples);
  if (x == nullptr || y == nullptr) return rows;
  for (const cudnnDataType_t compute_type : ComputeTypesOf(convolution)) {
    const ConvolutionDescriptor arithmetic =
        WithArithmetic(functions, convolution, compute_type, convolution.math);
    if (arithmetic == nullptr) continue;
    const Descriptors its = {x.get(), filter, arithmetic.get(), y.get()};
    const std::array<void*, 3> of = its.InOrder(convolution.pass);
    std::vector<Performance> results(kMostResults);
    int count = 0;
    const auto& pass = functions.passes[static_cast<std::size_t>(convolution.pass)];
    if (pass.find(handle, of[0], of[1], its.convolution, of[2], kMostResults, &count,
                  results.data()) != CUDNN_STATUS_SUCCESS) {
      continue;
    }
    results.resize(static_cast<std::size_t>(std::clamp(count, 0, kMostResults)));
    AddRows(convolution, compute_type, samples, results, rows);
  }
  return rows;
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

// Returns the rows with the workspaces that they need with so many samples. Asks cuDNN, which runs
// nothing. Leaves out those that cuDNN does not have there.
KernelTable WorkspacesAt(const Functions& functions, cudnnHandle_t handle,
                         const Convolution& convolution, const KernelTable& rows,
                         std::int64_t samples, cudnnFilterDescriptor_t filter) {
  KernelTable found;
  const TensorDescriptor x = WithBatch(functions, convolution, convolution.x, samples);
  const TensorDescriptor y = WithBatch(functions, convolution, convolution.y, samples);
  if (x == nullptr || y == nullptr) return found;
  found.reserve(rows.size());
  for (KernelRow row : rows) {
    const Algorithm algorithm = Algorithm::Of(row.algorithm);
    const ConvolutionDescriptor arithmetic = WithArithmetic(
        functions, convolution, ComputeTypeOf(convolution, row.precision), algorithm.math);
    if (arithmetic == nullptr) continue;
    const Descriptors its = {x.get(), filter, arithmetic.get(), y.get()};
    const std::array<void*, 3> of = its.InOrder(convolution.pass);
    std::size_t bytes = 0;
    const auto& pass = functions.passes[static_cast<std::size_t>(convolution.pass)];
    if (pass.size(handle, of[0], of[1], its.convolution, of[2], algorithm.number, &bytes) !=
            CUDNN_STATUS_SUCCESS ||
        bytes > static_cast<std::size_t>(kMostDataBytes)) {
      continue;
    }
    row.micro_batch = samples;
    row.workspace_bytes = static_cast<std::int64_t>(bytes);
    found.push_back(row);
  }
  return found;
}

// The text of an algorithm in a profile, such as "4 FLOAT math=0 deterministic".
std::string AlgorithmText(const KernelRow& row) {
  const Algorithm algorithm = Algorithm::Of(row.algorithm);
  return absl::StrCat(algorithm.number, " ", std::string(KernelPrecisionName(row.precision)),
                      " math=", static_cast<int>(algorithm.math),
                      algorithm.is_deterministic ? " deterministic" : "");
}

// Parses such a text. Returns false for another one.
bool ParseAlgorithm(const std::string& text, KernelRow& row) {
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
    bindings::PrintOnce({absl::StrCat("tidepool: measurements of convolutions are not kept: ",
                                      store.status().message())});
  }
}

// A device of another kind would give other times.
void Measurements::StartHelpers(int ordinal) {
  for (const int other : options_.devices) {
    if (other == ordinal) continue;
    const std::string name = NameOfDevice(other);
    if (name != machine_.device || name.empty()) {
      bindings::PrintOnce(
          {absl::StrCat("tidepool: device ", other, " (", name,
                        ") does not measure convolutions, expected ", machine_.device)});
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
  const auto found = store_->FindAll(convolution.KeyOf(machine_, 0));
  if (!found.ok()) {
    bindings::PrintOnce({absl::StrCat("tidepool: measurements of convolutions are not read: ",
                                      found.status().message())});
    store_.reset();
    return {};
  }
  KernelTable rows;
  rows.reserve(found->size());
  for (const LayerTime& its : *found) {
    KernelRow row = {.micro_batch = its.samples,
                     .seconds = its.time.seconds,
                     .workspace_bytes = its.time.workspace_bytes};
    if (ParseAlgorithm(its.algorithm, row)) rows.push_back(row);
  }
  return rows;
}

void Measurements::Write(const Convolution& convolution, const KernelTable& rows) {
  if (store_ == nullptr || !is_written_ || rows.empty()) return;
  std::vector<std::pair<ProfileKey, TaskTime>> times;
  for (const KernelRow& row : rows) {
    ProfileKey key = convolution.KeyOf(machine_, row.micro_batch);
    key.algorithm = AlgorithmText(row);
    times.emplace_back(std::move(key), TaskTime{row.seconds, row.workspace_bytes, 1});
  }
  const absl::Status status = store_->PutAll(times);
  if (status.ok()) return;
  is_written_ = false;
  bindings::PrintOnce(
      {absl::StrCat("tidepool: measurements of convolutions are not kept: ", status.message())});
}

std::vector<KernelTable> Measurements::MeasureAll(cudnnHandle_t handle,
                                                  const Convolution& convolution,
                                                  const std::vector<std::int64_t>& sizes) {
  std::vector<KernelTable> tables(sizes.size());
  // A filter's descriptor has no batch, so all devices share it.
  const FilterDescriptor filter = FilterOf(functions_, convolution);
  if (filter == nullptr) return tables;
  const std::size_t workers = helpers_.size() + 1;
  const auto work = [&](std::size_t worker, cudnnHandle_t its) {
    for (std::size_t i = worker; i < sizes.size(); i += workers) {
      tables[i] = Measure(functions_, its, convolution, sizes[i], filter.get());
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
  KernelProbe probe;
  probe.measure = [&](std::int64_t samples) {
    return samples == batch ? whole : TableOf(handle, convolution, {samples});
  };
  probe.workspaces = [&](std::int64_t samples) {
    return WorkspacesAt(functions_, handle, convolution, whole, samples, filter.get());
  };
  return MeasureAdaptively(batch, limit_bytes, probe).table;
}

KernelTable Measurements::TableOf(cudnnHandle_t handle, const Convolution& convolution,
                                  const std::vector<std::int64_t>& sizes) {
  KernelTable all = RowsInFile(convolution);
  std::erase_if(all, [&](const KernelRow& row) {
    return !std::binary_search(sizes.begin(), sizes.end(), row.micro_batch);
  });
  std::vector<std::int64_t> unknown;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(unknown), [&](std::int64_t size) {
    return std::none_of(all.begin(), all.end(),
                        [&](const KernelRow& row) { return row.micro_batch == size; });
  });
  // The largest first: they take longest.
  std::reverse(unknown.begin(), unknown.end());
  KernelTable measured;
  for (const KernelTable& rows : MeasureAll(handle, convolution, unknown)) {
    measured.insert(measured.end(), rows.begin(), rows.end());
  }
  Write(convolution, measured);
  all.insert(all.end(), measured.begin(), measured.end());
  std::erase_if(all, [&](const KernelRow& row) {
    return !Allows(convolution.math, Algorithm::Of(row.algorithm).math) ||
           !IsPreciseEnough(convolution, options_.precision, row);
  });
  return all;
}

}  // namespace tidepool::cudnn
