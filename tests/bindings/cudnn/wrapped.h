// SPDX-License-Identifier: Apache-2.0
// The parts that tests of divided convolutions share: a handle, options, a table of times, and all
// directions as one function.
#ifndef TIDEPOOL_TESTS_BINDINGS_CUDNN_WRAPPED_H_
#define TIDEPOOL_TESTS_BINDINGS_CUDNN_WRAPPED_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cudnn/include/tidepool/cudnn.h"
#include "dryrun/cudnn/computes/control.h"
#include "tests/support/cudnn_layer.h"

namespace tidepool::test {

enum class Direction : std::uint8_t { kForward, kData, kFilter };
inline constexpr Direction kDirections[] = {Direction::kForward, Direction::kData,
                                            Direction::kFilter};

// The first result of a look-up.
struct Looked {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  int algorithm = 0;
  std::size_t workspace_bytes = 0;
  float milliseconds = 0;
  int count = 0;
};

template <typename Handle>
Looked LookUp(Handle handle, const Layer& layer, Direction direction, std::uint64_t id = 0) {
  Looked looked;
  const auto read = [&](const auto& results) {
    looked.algorithm = static_cast<int>(results[0].algo);
    looked.workspace_bytes = results[0].memory;
    looked.milliseconds = results[0].time;
  };
  if (direction == Direction::kForward) {
    cudnnConvolutionFwdAlgoPerf_t results[8] = {};
    looked.status = cudnnGetConvolutionForwardAlgorithm_v7(
        handle, layer.x, layer.w, layer.convolution, layer.y, 8, &looked.count, results, id);
    read(results);
  } else if (direction == Direction::kData) {
    cudnnConvolutionBwdDataAlgoPerf_t results[8] = {};
    looked.status = cudnnGetConvolutionBackwardDataAlgorithm_v7(
        handle, layer.w, layer.y, layer.convolution, layer.x, 8, &looked.count, results, id);
    read(results);
  } else {
    cudnnConvolutionBwdFilterAlgoPerf_t results[8] = {};
    looked.status = cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        handle, layer.x, layer.y, layer.convolution, layer.w, 8, &looked.count, results, id);
    read(results);
  }
  return looked;
}

// Memory of a layer, with whole numbers in it.
struct LayerData {
  explicit LayerData(const Layer& layer)
      : x(layer.shape().type, layer.x_count),
        w(layer.shape().type, layer.w_count),
        y(layer.shape().type, layer.y_count),
        workspace(CUDNN_DATA_DOUBLE, 1 << 16) {
    x.Set(WholeNumbers(layer.x_count, 1));
    w.Set(WholeNumbers(layer.w_count, 2));
    y.Set(WholeNumbers(layer.y_count, 3));
  }
  DeviceNumbers& OutputOf(Direction direction) {
    return direction == Direction::kForward ? y : direction == Direction::kData ? x : w;
  }

  DeviceNumbers x;
  DeviceNumbers w;
  DeviceNumbers y;
  DeviceNumbers workspace;
};

struct Scales {
  double alpha = 1;
  double beta = 0;
};

// Queues a convolution with a handle of cuDNN or of tidepool.
template <typename Handle>
cudnnStatus_t Convolve(Handle handle, const Layer& layer, Direction direction, int algorithm,
                       LayerData& data, Scales scales, std::size_t workspace_bytes) {
  const auto alpha = static_cast<float>(scales.alpha);
  const auto beta = static_cast<float>(scales.beta);
  const bool is_double = layer.shape().type == CUDNN_DATA_DOUBLE;
  const void* const a = is_double ? static_cast<const void*>(&scales.alpha) : &alpha;
  const void* const b = is_double ? static_cast<const void*>(&scales.beta) : &beta;
  if (direction == Direction::kForward) {
    return cudnnConvolutionForward(handle, a, layer.x, data.x.get(), layer.w, data.w.get(),
                                   layer.convolution,
                                   static_cast<cudnnConvolutionFwdAlgo_t>(algorithm),
                                   data.workspace.get(), workspace_bytes, b, layer.y, data.y.get());
  }
  if (direction == Direction::kData) {
    return cudnnConvolutionBackwardData(
        handle, a, layer.w, data.w.get(), layer.y, data.y.get(), layer.convolution,
        static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), data.workspace.get(),
        workspace_bytes, b, layer.x, data.x.get());
  }
  return cudnnConvolutionBackwardFilter(
      handle, a, layer.x, data.x.get(), layer.y, data.y.get(), layer.convolution,
      static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), data.workspace.get(),
      workspace_bytes, b, layer.w, data.w.get());
}

// A table for all layers: algorithm 0 takes a millisecond a sample and no workspace, algorithm 1 a
// tenth of it, and 1,000 bytes a sample.
inline std::string PlainTable(int most_samples = 64) {
  std::string csv = "pass,layer,samples,algorithm,milliseconds,workspace_bytes\n";
  for (const char* const pass : {"forward", "data", "filter"}) {
    for (int n = 1; n <= most_samples; ++n) {
      const std::string samples = std::to_string(n);
      csv += std::string(pass) + ",*," + samples + ",0," + samples + ",0\n";
      csv += std::string(pass) + ",*," + samples + ",1," + std::to_string(0.01 + 0.1 * n) + "," +
             samples + "000\n";
    }
  }
  return csv;
}

// The options of these tests, and a handle that is made with them.
class WrappedTest : public ::testing::Test {
 protected:
  WrappedTest() {
    live_ = cudnnHostCountLive();
    Must(cudnnHostSetTable(PlainTable().c_str()) == 1);
  }
  ~WrappedTest() override {
    Close();
    cudaDeviceSynchronize();
    cudnnHostSetTable(nullptr);
    cudnnHostFailCall(nullptr, 0, 0);
    EXPECT_EQ(cudnnHostCountRaces(), 0);
    EXPECT_EQ(cudnnHostCountLive(), live_);
    for (const auto& [name, value] : kDefaults) Must(tidepoolCudnnSetOption(name, value));
  }

  void Open(const std::vector<std::pair<const char*, std::string>>& options) {
    for (const auto& [name, value] : options) Must(tidepoolCudnnSetOption(name, value.c_str()));
    Must(cudnnCreate(&handle_));
  }
  void Close() {
    if (handle_ != nullptr) {
      EXPECT_EQ(cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
    }
    handle_ = nullptr;
  }
  TidepoolCudnnStatistics Statistics() {
    TidepoolCudnnStatistics statistics = {};
    Must(tidepoolCudnnGetStatistics(handle_, &statistics));
    return statistics;
  }

  CudnnHandle handle_ = nullptr;

 private:
  static constexpr std::pair<const char*, const char*> kDefaults[] = {
      {"policy", "powerOfTwo"}, {"limit", "64MiB"},         {"workspace", "caller"},
      {"sharing", "wd"},        {"precision", "TRUE_HALF"}, {"total", "none"},
      {"database", ""},         {"statistics", "0"},        {"errors", "0"},
      {"devices", "0"},         {"engines", "0"},           {"measuring", "none"}};
  long long live_ = 0;
};

}  // namespace tidepool::test

#endif  // TIDEPOOL_TESTS_BINDINGS_CUDNN_WRAPPED_H_
