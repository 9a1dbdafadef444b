// SPDX-License-Identifier: Apache-2.0
// The workspace of a convolution, for graphs of models: they have no GPU and no run of cuDNN.
#include <cstdint>
#include <vector>

#include "dryrun/cudnn/answers/algorithms.h"
#include "dryrun/libraries/answers.h"

namespace tidepool::cudart_host {
namespace {

std::vector<std::int64_t> Next(const long long*& numbers, int count) {
  const std::vector<std::int64_t> taken(numbers, numbers + count);
  numbers += count;
  return taken;
}

}  // namespace
}  // namespace tidepool::cudart_host

using tidepool::cudart_host::AlgorithmsOf;
using tidepool::cudart_host::Convolution;
using tidepool::cudart_host::Gpu;
using tidepool::cudart_host::Next;
using tidepool::cudart_host::Pass;

// Returns the bytes that a convolution takes by the algorithm that cuDNN is assumed to choose.
// `pass` is 0 for the forward pass, 1 for the gradient of X and 2 for that of W; `type` is a
// cudnnDataType_t. `sizes` has those of X, W and Y, with batch and channels before `directions`,
// then padding, strides and dilations. `rates` are bytes and operations of doubles, floats and
// 16-bit numbers a second. Thread-safe.
TIDEPOOL_ANSWER long long tidepoolWorkspaceOfConvolution(int pass, int type, int is_channels_last,
                                                         int directions, const long long* sizes,
                                                         int capability, long long multiprocessors,
                                                         const double* rates) {
  Convolution convolution;
  convolution.pass = static_cast<Pass>(pass);
  convolution.type = static_cast<cudnnDataType_t>(type);
  convolution.is_channels_last = is_channels_last != 0;
  for (auto* const tensor : {&convolution.x, &convolution.w, &convolution.y}) {
    *tensor = Next(sizes, directions + 2);
  }
  for (auto* const numbers : {&convolution.padding, &convolution.stride, &convolution.dilation}) {
    *numbers = Next(sizes, directions);
  }
  const Gpu gpu = {.capability = capability,
                   .bytes = rates[0],
                   .double_operations = rates[1],
                   .single_operations = rates[2],
                   .half_operations = rates[3],
                   .multiprocessors = multiprocessors};
  return AlgorithmsOf(convolution, gpu).front().workspace_bytes;
}
