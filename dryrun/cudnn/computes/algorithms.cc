// SPDX-License-Identifier: Apache-2.0
#include "dryrun/cudnn/computes/algorithms.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "dryrun/cudnn/computes/control.h"
#include "dryrun/spectra.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {
namespace {

enum class Method : std::uint8_t {
  kNone,
  kImplicit,
  kIndexed,
  kProduct,
  kFft,
  kFftTiles,
  kWinograd,
  kWinogradApart,
};

// The methods by the numbers of cuDNN's algorithms.
constexpr std::array<Method, 8> kForwardMethods = {
    Method::kImplicit, Method::kIndexed,  Method::kProduct,  Method::kNone,
    Method::kFft,      Method::kFftTiles, Method::kWinograd, Method::kWinogradApart};
constexpr std::array<Method, 6> kDataMethods = {Method::kImplicit, Method::kImplicit,
                                                Method::kFft,      Method::kFftTiles,
                                                Method::kWinograd, Method::kWinogradApart};
constexpr std::array<Method, 7> kFilterMethods = {
    Method::kImplicit, Method::kImplicit,      Method::kFft,     Method::kIndexed,
    Method::kNone,     Method::kWinogradApart, Method::kFftTiles};

Method MethodOf(Pass pass, int algorithm) {
  if (algorithm < 0 || algorithm >= AlgorithmCount(pass)) return Method::kNone;
  const auto at = static_cast<std::size_t>(algorithm);
  if (pass == Pass::kForward) return kForwardMethods[at];
  return pass == Pass::kData ? kDataMethods[at] : kFilterMethods[at];
}

bool IsPlain(const ConvolutionShape& s) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (s.strides[i] != 1 || s.dilations[i] != 1) return false;
  }
  return s.x.sizes[2] == 1 && s.w.sizes[2] == 1;
}

// Returns the side of the spectrum that holds an image, or 0 if it is too large.
std::int64_t SideOf(const ConvolutionShape& s) {
  return SpectrumSide(std::max(s.x.sizes[3] + 2 * s.pads[1], s.x.sizes[4] + 2 * s.pads[2]));
}

bool Supports(Method method, const ConvolutionShape& s) {
  const bool is_square3 = s.w.sizes[3] == 3 && s.w.sizes[4] == 3;
  const bool is_square5 = s.w.sizes[3] == 5 && s.w.sizes[4] == 5;
  switch (method) {
    case Method::kNone:
      return false;
    case Method::kFft:
    case Method::kFftTiles:
      // Table I of the paper on micro-batches: no FFT with half arithmetic.
      return IsPlain(s) && s.compute_type != CUDNN_DATA_HALF &&
             (method == Method::kFftTiles
                  ? s.w.sizes[3] <= kSpectrumTile && s.w.sizes[4] <= kSpectrumTile
                  : SideOf(s) > 0);
    case Method::kWinograd:
      return IsPlain(s) && is_square3;
    case Method::kWinogradApart:
      return IsPlain(s) && (is_square3 || is_square5);
    default:
      return true;
  }
}

std::int64_t ElementsOf(const TensorShape& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.sizes) elements *= size;
  return elements;
}

// Returns the bytes of the spectra of all tensors, with `images` images of each sample.
std::int64_t FftBytes(const ConvolutionShape& s, std::int64_t images, std::int64_t side) {
  const std::int64_t c = s.x.sizes[1];
  const std::int64_t k = s.w.sizes[0];
  const std::int64_t samples = s.x.sizes[0] * images;
  return (samples * c + samples * k + c / s.groups * k) * SpectrumNumbers(side) * kComplexBytes;
}

std::int64_t TilesOf(const ConvolutionShape& s) {
  return TilesAlong(s.y.sizes[3], s.w.sizes[3]) * TilesAlong(s.y.sizes[4], s.w.sizes[4]);
}

std::size_t BytesOfMethod(Method method, const ConvolutionShape& s) {
  const std::int64_t element = BytesOfNumber(s.x.type);
  const std::int64_t taps = s.w.sizes[1] * s.w.sizes[2] * s.w.sizes[3] * s.w.sizes[4];
  const std::int64_t outputs = s.y.sizes[2] * s.y.sizes[3] * s.y.sizes[4];
  std::int64_t bytes = 0;
  if (method == Method::kIndexed) bytes = taps * 4;
  if (method == Method::kProduct) bytes = taps * outputs * element;
  if (method == Method::kFft) bytes = FftBytes(s, 1, SideOf(s));
  if (method == Method::kFftTiles) bytes = FftBytes(s, TilesOf(s), kSpectrumTile);
  if (method == Method::kWinograd) bytes = 16 * s.x.sizes[1] / s.groups * s.w.sizes[0] * 4;
  if (method == Method::kWinogradApart) {
    bytes = (ElementsOf(s.x) + ElementsOf(s.y)) * element * 9 / 4;
  }
  return static_cast<std::size_t>(bytes);
}

// Returns a time that is plausible, and never depends on the machine.
float MillisecondsOf(Method method, const ConvolutionShape& s, cudnnMathType_t math) {
  constexpr double kProductsPerMillisecond = 2.5e9;
  constexpr double kLaunch = 0.01;
  const double products = static_cast<double>(ElementsOf(s.y)) *
                          static_cast<double>(ElementsOf(s.w)) / static_cast<double>(s.w.sizes[0]);
  double factor = 1;
  if (method == Method::kIndexed) factor = 0.7;
  if (method == Method::kProduct) factor = 0.9;
  if (method == Method::kFft) factor = 0.35;
  if (method == Method::kFftTiles) factor = 0.4;
  if (method == Method::kWinograd) factor = 0.5;
  if (method == Method::kWinogradApart) factor = 0.3;
  if (math == CUDNN_TENSOR_OP_MATH) factor *= 0.4;
  return static_cast<float>(kLaunch + factor * products / kProductsPerMillisecond);
}

bool HasTensorCores(Method method) {
  return method == Method::kIndexed || method == Method::kProduct;
}

std::vector<AlgorithmCost> CostsByFormula(Pass pass, const ConvolutionShape& shape) {
  std::vector<AlgorithmCost> costs;
  for (int algorithm = 0; algorithm < AlgorithmCount(pass); ++algorithm) {
    const Method method = MethodOf(pass, algorithm);
    if (!Supports(method, shape)) continue;
    AlgorithmCost cost;
    cost.algorithm = algorithm;
    cost.milliseconds = MillisecondsOf(method, shape, CUDNN_DEFAULT_MATH);
    cost.workspace_bytes = BytesOfMethod(method, shape);
    // cuDNN's algorithms 0 and 3 add up in any order.
    cost.is_deterministic = pass == Pass::kForward || (algorithm != 0 && algorithm != 3) ||
                            (pass == Pass::kData && algorithm == 3);
    costs.push_back(cost);
    if (shape.x.type == CUDNN_DATA_HALF && HasTensorCores(method)) {
      cost.math = CUDNN_TENSOR_OP_MATH;
      cost.milliseconds = MillisecondsOf(method, shape, cost.math);
      costs.push_back(cost);
    }
  }
  return costs;
}

// The table of a user: rows by pass and layer. Thread-safe.
class Table {
 public:
  static Table& Get() {
    static auto* const table = new Table();
    return *table;
  }

  bool Set(const std::string& csv) {
    std::map<Key, std::vector<Row>> rows;
    std::istringstream lines(csv);
    std::string line;
    for (bool is_header = true; std::getline(lines, line); is_header = false) {
      if (!is_header && !line.empty() && !Add(line, rows)) return false;
    }
    const locks::MutexLock lock(&mutex_);
    rows_ = std::move(rows);
    return true;
  }

  // Returns the costs of a layer, or nothing where the table has no row for it.
  std::optional<std::vector<AlgorithmCost>> Find(Pass pass, const ConvolutionShape& shape) const {
    const locks::MutexLock lock(&mutex_);
    auto found = rows_.find({pass, LayerOf(shape)});
    if (found == rows_.end()) found = rows_.find({pass, "*"});
    if (found == rows_.end()) return std::nullopt;
    std::vector<AlgorithmCost> costs;
    for (const Row& row : found->second) {
      if (row.samples == shape.x.sizes[0]) costs.push_back(row.cost);
    }
    return costs;
  }

 private:
  using Key = std::pair<Pass, std::string>;
  struct Row {
    std::int64_t samples = 0;
    AlgorithmCost cost;
  };

  Table() {
    const char* const path = std::getenv("CUDNN_HOST_TABLE");
    if (path == nullptr) return;
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    if (file && Set(text.str())) return;
    std::fprintf(stderr, "cudnn_host: CUDNN_HOST_TABLE=%s is ignored, expected a table\n", path);
  }

  static bool Add(const std::string& line, std::map<Key, std::vector<Row>>& rows) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    if (cells.size() != 6) return false;
    constexpr std::array<const char*, 3> kNames = {"forward", "data", "filter"};
    const auto* const name = std::find(kNames.begin(), kNames.end(), cells[0]);
    Row row;
    std::int64_t bytes = 0;
    if (name == kNames.end() || !absl::SimpleAtoi(cells[2], &row.samples) ||
        !absl::SimpleAtoi(cells[3], &row.cost.algorithm) ||
        !absl::SimpleAtof(cells[4], &row.cost.milliseconds) ||
        !absl::SimpleAtoi(cells[5], &bytes)) {
      return false;
    }
    row.cost.workspace_bytes = static_cast<std::size_t>(bytes);
    rows[{static_cast<Pass>(name - kNames.begin()), cells[1]}].push_back(row);
    return true;
  }

  mutable locks::Mutex mutex_;
  std::map<Key, std::vector<Row>> rows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

int AlgorithmCount(Pass pass) {
  if (pass == Pass::kForward) return CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  if (pass == Pass::kData) return CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
}

std::vector<AlgorithmCost> CostsOf(Pass pass, const ConvolutionShape& shape) {
  std::optional<std::vector<AlgorithmCost>> costs = Table::Get().Find(pass, shape);
  if (!costs.has_value()) costs = CostsByFormula(pass, shape);
  std::stable_sort(costs->begin(), costs->end(),
                   [](const AlgorithmCost& one, const AlgorithmCost& other) {
                     return one.milliseconds < other.milliseconds;
                   });
  return *std::move(costs);
}

std::optional<AlgorithmCost> CostOf(Pass pass, const ConvolutionShape& shape, int algorithm) {
  std::optional<AlgorithmCost> found;
  for (const AlgorithmCost& cost : CostsOf(pass, shape)) {
    if (cost.algorithm != algorithm) continue;
    if (!found.has_value() || cost.math == shape.math) found = cost;
  }
  return found;
}

}  // namespace tidepool::cudart_host

extern "C" int cudnnHostSetTable(const char* csv) {
  return tidepool::cudart_host::Table::Get().Set(csv == nullptr ? "" : csv) ? 1 : 0;
}
