// SPDX-License-Identifier: Apache-2.0
// Convolutions in the older interface of cuDNN, which PyTorch takes with
// TORCH_CUDNN_V8_API_DISABLED.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "dryrun/libraries/answers.h"
#include "dryrun/libraries/convolution.h"
#include "dryrun/libraries/cudnn_types.h"

namespace {

using tidepool::cudart_host::Algorithm;
using tidepool::cudart_host::AlgorithmKind;
using tidepool::cudart_host::AssumedGpu;
using tidepool::cudart_host::Convolution;
using tidepool::cudart_host::OutputBytes;
using tidepool::cudart_host::Pass;
using tidepool::cudart_host::Run;
using tidepool::cudart_host::cudnn::Delete;
using tidepool::cudart_host::cudnn::Handle;
using tidepool::cudart_host::cudnn::kBadParameter;
using tidepool::cudart_host::cudnn::kFloat;
using tidepool::cudart_host::cudnn::Make;
using tidepool::cudart_host::cudnn::Tensor;

// cudnnMathType_t.
constexpr int kDefaultMath = 0;  // TF32 for floats
constexpr int kTensorMath = 1;
constexpr int kFmaMath = 3;

struct Order {
  std::vector<int> padding;
  std::vector<int> stride;
  std::vector<int> dilation;
  int groups = 1;
  int math = kDefaultMath;
};

// cudnnConvolutionFwdAlgoPerf_t, and those of the other passes.
struct Performance {
  int algorithm;
  int status;
  float milliseconds;
  std::size_t bytes;
  int determinism;
  int math;
  int reserved[3];
};

// The numbers of algorithms in cudnnConvolutionFwdAlgo_t and those of the other passes, by
// AlgorithmKind; -1: the pass does not have it.
constexpr std::array<std::array<int, 7>, 3> kNumbers = {{
    {0, 1, 2, 7, 4, 5, 1},
    {0, 1, -1, 5, 2, 3, 1},
    {0, 1, -1, 5, 2, 6, 1},
}};

int NumberOf(Pass pass, AlgorithmKind kind) {
  return kNumbers[static_cast<std::size_t>(pass)][static_cast<std::size_t>(kind)];
}

int MathOf(const Convolution& convolution, const Algorithm& algorithm) {
  if (algorithm.kind == AlgorithmKind::kTensorGemm) {
    return convolution.type == kFloat ? kDefaultMath : kTensorMath;
  }
  return convolution.type == kFloat ? kFmaMath : kDefaultMath;
}

template <typename Numbers>
std::vector<std::int64_t> Wide(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

Convolution ConvolutionOf(Pass pass, const void* x, const void* w, const void* y,
                          const void* order) {
  const auto& input = *static_cast<const Tensor*>(x);
  const auto& how = *static_cast<const Order*>(order);
  return {.pass = pass,
          .type = input.type,
          .is_channels_last = input.strides.size() > 2 && input.strides[1] == 1 &&
                              (input.sizes[1] > 1 || input.strides.back() != 1),
          .may_use_tensor_cores = how.math != kFmaMath,
          .x = Wide(input.sizes),
          .w = Wide(static_cast<const Tensor*>(w)->sizes),
          .y = Wide(static_cast<const Tensor*>(y)->sizes),
          .padding = Wide(how.padding),
          .stride = Wide(how.stride),
          .dilation = Wide(how.dilation)};
}

// Stores the algorithms that need no more than `most_bytes`, the fastest first.
int Propose(const Convolution& convolution, std::size_t most_bytes, int wanted, int* count,
            Performance* results) {
  *count = 0;
  for (const Algorithm& one : OfferedAlgorithms(convolution)) {
    const int number = NumberOf(convolution.pass, one.kind);
    const auto bytes = static_cast<std::size_t>(one.workspace_bytes);
    if (number < 0 || bytes > most_bytes || *count >= wanted) continue;
    NoteWorkspace(one.workspace_bytes, convolution);
    const double seconds = AssumedGpu().Seconds(one.work);
    results[(*count)++] = {.algorithm = number,
                           .status = 0,
                           .milliseconds = static_cast<float>(seconds * 1e3),
                           .bytes = bytes,
                           .determinism = 1,
                           .math = MathOf(convolution, one),
                           .reserved = {}};
  }
  return 0;
}

// Returns the algorithm of a number, the one for the descriptor's units where there are two.
std::optional<Algorithm> Find(const Convolution& convolution, int number, int math) {
  std::optional<Algorithm> found;
  for (const Algorithm& one : OfferedAlgorithms(convolution)) {
    if (NumberOf(convolution.pass, one.kind) != number) continue;
    if (MathOf(convolution, one) == math) return one;
    if (!found.has_value()) found = one;
  }
  return found;
}

int StoreWorkspace(const Convolution& convolution, const void* order, int number,
                   std::size_t* bytes) {
  const std::optional<Algorithm> found =
      Find(convolution, number, static_cast<const Order*>(order)->math);
  if (!found.has_value()) return kBadParameter;
  NoteWorkspace(found->workspace_bytes, convolution);
  *bytes = static_cast<std::size_t>(found->workspace_bytes);
  return 0;
}

int Execute(const char* name, void* handle, const Convolution& convolution, const void* order,
            int number, void* output) {
  const std::optional<Algorithm> found =
      Find(convolution, number, static_cast<const Order*>(order)->math);
  if (!found.has_value()) return kBadParameter;
  Run(name, static_cast<Handle*>(handle)->stream, found->work, output, OutputBytes(convolution));
  return 0;
}

}  // namespace

// Descriptors
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cudnnCreateFilterDescriptor(void** made) { return Make<Tensor>(made); }
TIDEPOOL_ANSWER int cudnnDestroyFilterDescriptor(void* object) { return Delete<Tensor>(object); }
TIDEPOOL_ANSWER int cudnnSetFilterNdDescriptor(void* object, int type, int format, int count,
                                               const int* sizes) {
  *static_cast<Tensor*>(object) = {type, {sizes, sizes + count}, {}, format};
  return 0;
}
TIDEPOOL_ANSWER int cudnnGetFilterNdDescriptor(const void* object, int most, int* type, int* format,
                                               int* count, int* sizes) {
  const auto& filter = *static_cast<const Tensor*>(object);
  *type = filter.type;
  *format = filter.format;
  *count = static_cast<int>(std::ssize(filter.sizes));
  std::copy_n(filter.sizes.begin(), std::min<std::ptrdiff_t>(most, std::ssize(filter.sizes)),
              sizes);
  return 0;
}

TIDEPOOL_ANSWER int cudnnCreateConvolutionDescriptor(void** made) { return Make<Order>(made); }
TIDEPOOL_ANSWER int cudnnDestroyConvolutionDescriptor(void* object) {
  return Delete<Order>(object);
}
TIDEPOOL_ANSWER int cudnnSetConvolutionNdDescriptor(void* object, int count, const int* padding,
                                                    const int* stride, const int* dilation,
                                                    int /*mode*/, int /*type*/) {
  auto& order = *static_cast<Order*>(object);
  order.padding.assign(padding, padding + count);
  order.stride.assign(stride, stride + count);
  order.dilation.assign(dilation, dilation + count);
  return 0;
}
TIDEPOOL_ANSWER int cudnnSetConvolutionGroupCount(void* object, int groups) {
  static_cast<Order*>(object)->groups = groups;
  return 0;
}
TIDEPOOL_ANSWER int cudnnSetConvolutionMathType(void* object, int math) {
  static_cast<Order*>(object)->math = math;
  return 0;
}

// Choices
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cudnnGetConvolutionForwardAlgorithm_v7(void* /*handle*/, const void* x,
                                                           const void* w, const void* order,
                                                           const void* y, int wanted, int* count,
                                                           Performance* results) {
  return Propose(ConvolutionOf(Pass::kForward, x, w, y, order), SIZE_MAX, wanted, count, results);
}
TIDEPOOL_ANSWER int cudnnGetConvolutionBackwardDataAlgorithm_v7(void* /*handle*/, const void* w,
                                                                const void* y, const void* order,
                                                                const void* x, int wanted,
                                                                int* count, Performance* results) {
  return Propose(ConvolutionOf(Pass::kBackwardData, x, w, y, order), SIZE_MAX, wanted, count,
                 results);
}
TIDEPOOL_ANSWER int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void* /*handle*/, const void* x,
                                                                  const void* y, const void* order,
                                                                  const void* w, int wanted,
                                                                  int* count,
                                                                  Performance* results) {
  return Propose(ConvolutionOf(Pass::kBackwardFilter, x, w, y, order), SIZE_MAX, wanted, count,
                 results);
}

TIDEPOOL_ANSWER int cudnnFindConvolutionForwardAlgorithmEx(
    void* /*handle*/, const void* x, const void* /*x_data*/, const void* w, const void* /*w_data*/,
    const void* order, const void* y, void* /*y_data*/, int wanted, int* count,
    Performance* results, void* /*workspace*/, std::size_t bytes) {
  return Propose(ConvolutionOf(Pass::kForward, x, w, y, order), bytes, wanted, count, results);
}
TIDEPOOL_ANSWER int cudnnFindConvolutionBackwardDataAlgorithmEx(
    void* /*handle*/, const void* w, const void* /*w_data*/, const void* y, const void* /*y_data*/,
    const void* order, const void* x, void* /*x_data*/, int wanted, int* count,
    Performance* results, void* /*workspace*/, std::size_t bytes) {
  return Propose(ConvolutionOf(Pass::kBackwardData, x, w, y, order), bytes, wanted, count, results);
}
TIDEPOOL_ANSWER int cudnnFindConvolutionBackwardFilterAlgorithmEx(
    void* /*handle*/, const void* x, const void* /*x_data*/, const void* y, const void* /*y_data*/,
    const void* order, const void* w, void* /*w_data*/, int wanted, int* count,
    Performance* results, void* /*workspace*/, std::size_t bytes) {
  return Propose(ConvolutionOf(Pass::kBackwardFilter, x, w, y, order), bytes, wanted, count,
                 results);
}

TIDEPOOL_ANSWER int cudnnGetConvolutionForwardWorkspaceSize(void* /*handle*/, const void* x,
                                                            const void* w, const void* order,
                                                            const void* y, int algorithm,
                                                            std::size_t* bytes) {
  return StoreWorkspace(ConvolutionOf(Pass::kForward, x, w, y, order), order, algorithm, bytes);
}
TIDEPOOL_ANSWER int cudnnGetConvolutionBackwardDataWorkspaceSize(void* /*handle*/, const void* w,
                                                                 const void* y, const void* order,
                                                                 const void* x, int algorithm,
                                                                 std::size_t* bytes) {
  return StoreWorkspace(ConvolutionOf(Pass::kBackwardData, x, w, y, order), order, algorithm,
                        bytes);
}
TIDEPOOL_ANSWER int cudnnGetConvolutionBackwardFilterWorkspaceSize(void* /*handle*/, const void* x,
                                                                   const void* y, const void* order,
                                                                   const void* w, int algorithm,
                                                                   std::size_t* bytes) {
  return StoreWorkspace(ConvolutionOf(Pass::kBackwardFilter, x, w, y, order), order, algorithm,
                        bytes);
}

// Execution
// ------------------------------------------------------------------------------------------

TIDEPOOL_ANSWER int cudnnConvolutionForward(void* handle, const void* /*alpha*/, const void* x,
                                            const void* /*x_data*/, const void* w,
                                            const void* /*w_data*/, const void* order,
                                            int algorithm, void* /*workspace*/,
                                            std::size_t /*bytes*/, const void* /*beta*/,
                                            const void* y, void* output) {
  return Execute("cudnnConvolutionForward", handle, ConvolutionOf(Pass::kForward, x, w, y, order),
                 order, algorithm, output);
}
TIDEPOOL_ANSWER int cudnnConvolutionBackwardData(void* handle, const void* /*alpha*/, const void* w,
                                                 const void* /*w_data*/, const void* y,
                                                 const void* /*y_data*/, const void* order,
                                                 int algorithm, void* /*workspace*/,
                                                 std::size_t /*bytes*/, const void* /*beta*/,
                                                 const void* x, void* output) {
  return Execute("cudnnConvolutionBackwardData", handle,
                 ConvolutionOf(Pass::kBackwardData, x, w, y, order), order, algorithm, output);
}
TIDEPOOL_ANSWER int cudnnConvolutionBackwardFilter(
    void* handle, const void* /*alpha*/, const void* x, const void* /*x_data*/, const void* y,
    const void* /*y_data*/, const void* order, int algorithm, void* /*workspace*/,
    std::size_t /*bytes*/, const void* /*beta*/, const void* w, void* output) {
  return Execute("cudnnConvolutionBackwardFilter", handle,
                 ConvolutionOf(Pass::kBackwardFilter, x, w, y, order), order, algorithm, output);
}
