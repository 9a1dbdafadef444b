// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "dryrun/cudnn/computes/control.h"
#include "dryrun/runtime/cudart/control.h"
#include "tests/support/cudnn_layer.h"

namespace tidepool::test {
namespace {

using ::testing::ElementsAre;

class CudnnHostTest : public ::testing::Test {
 protected:
  CudnnHostTest() { Must(cudnnCreate(&handle_)); }
  ~CudnnHostTest() override {
    cudnnDestroy(handle_);
    cudnnHostSetTable(nullptr);
    EXPECT_EQ(cudnnHostCountRaces(), 0);
  }

  cudnnHandle_t handle_ = nullptr;
  const float one_ = 1;
  const float zero_ = 0;
};

// One channel, a row of three, a filter of two, no padding.
constexpr LayerShape kRow = {.n = 1, .c = 1, .h = 1, .w = 3, .k = 1, .r = 1, .s = 2, .pad = 0};

TEST_F(CudnnHostTest, ComputesAllDirections) {
  const Layer layer(kRow);
  DeviceNumbers x(CUDNN_DATA_FLOAT, 3);
  DeviceNumbers w(CUDNN_DATA_FLOAT, 2);
  DeviceNumbers y(CUDNN_DATA_FLOAT, 2);
  x.Set({1, 2, 3});
  w.Set({10, 1});
  y.Set({100, 200});
  const float two = 2;
  ASSERT_EQ(cudnnConvolutionForward(handle_, &two, layer.x, x.get(), layer.w, w.get(),
                                    layer.convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                    nullptr, 0, &one_, layer.y, y.get()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(y.Get(), ElementsAre(2 * 12 + 100, 2 * 23 + 200));
  y.Set({1, 2});
  ASSERT_EQ(cudnnConvolutionBackwardData(handle_, &one_, layer.w, w.get(), layer.y, y.get(),
                                         layer.convolution, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
                                         nullptr, 0, &zero_, layer.x, x.get()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(x.Get(), ElementsAre(10, 21, 2));
  x.Set({1, 2, 3});
  ASSERT_EQ(cudnnConvolutionBackwardFilter(handle_, &one_, layer.x, x.get(), layer.y, y.get(),
                                           layer.convolution, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                                           nullptr, 0, &one_, layer.w, w.get()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(w.Get(), ElementsAre(10 + 5, 1 + 8));
}

TEST_F(CudnnHostTest, MirrorsTheFilterOfATrueConvolution) {
  const Layer layer(kRow);
  Must(cudnnSetConvolution2dDescriptor(layer.convolution, 0, 0, 1, 1, 1, 1, CUDNN_CONVOLUTION,
                                       CUDNN_DATA_FLOAT));
  DeviceNumbers x(CUDNN_DATA_FLOAT, 3);
  DeviceNumbers w(CUDNN_DATA_FLOAT, 2);
  DeviceNumbers y(CUDNN_DATA_FLOAT, 2);
  x.Set({1, 2, 3});
  w.Set({10, 1});
  Must(cudnnConvolutionForward(handle_, &one_, layer.x, x.get(), layer.w, w.get(),
                               layer.convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr,
                               0, &zero_, layer.y, y.get()));
  EXPECT_THAT(y.Get(), ElementsAre(21, 32));
}

TEST_F(CudnnHostTest, AFusedConvolutionAddsABiasAndClamps) {
  const Layer layer(kRow);
  DeviceNumbers x(CUDNN_DATA_FLOAT, 3);
  DeviceNumbers w(CUDNN_DATA_FLOAT, 2);
  DeviceNumbers y(CUDNN_DATA_FLOAT, 2);
  DeviceNumbers z(CUDNN_DATA_FLOAT, 2);
  DeviceNumbers bias(CUDNN_DATA_FLOAT, 1);
  x.Set({1, 2, 3});
  w.Set({10, 1});
  z.Set({-40, 1});
  bias.Set({5});
  cudnnTensorDescriptor_t channels = nullptr;
  Must(cudnnCreateTensorDescriptor(&channels));
  Must(cudnnSetTensor4dDescriptor(channels, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
  cudnnActivationDescriptor_t activation = nullptr;
  Must(cudnnCreateActivationDescriptor(&activation));
  const auto run = [&](cudnnActivationMode_t mode) {
    Must(cudnnSetActivationDescriptor(activation, mode, CUDNN_NOT_PROPAGATE_NAN, 0));
    return cudnnConvolutionBiasActivationForward(
        handle_, &one_, layer.x, x.get(), layer.w, w.get(), layer.convolution,
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &one_, layer.y, z.get(), channels,
        bias.get(), activation, layer.y, y.get());
  };
  ASSERT_EQ(run(CUDNN_ACTIVATION_RELU), CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(y.Get(), ElementsAre(0, 23 + 1 + 5));
  ASSERT_EQ(run(CUDNN_ACTIVATION_IDENTITY), CUDNN_STATUS_SUCCESS);
  EXPECT_THAT(y.Get(), ElementsAre(12 - 40 + 5, 23 + 1 + 5));
  EXPECT_EQ(run(CUDNN_ACTIVATION_TANH), CUDNN_STATUS_BAD_PARAM);
  cudnnDestroyActivationDescriptor(activation);
  cudnnDestroyTensorDescriptor(channels);
}

// Both layouts have the same numbers, in another order.
TEST_F(CudnnHostTest, LayoutsAgree) {
  LayerShape shape = {
      .n = 2, .c = 4, .h = 5, .w = 6, .k = 6, .stride = 2, .dilation = 2, .groups = 2};
  shape.pad = 2;
  const Layer rows(shape);
  shape.format = CUDNN_TENSOR_NHWC;
  const Layer channels(shape);
  const auto reordered = [](const std::vector<double>& from, std::size_t n, std::size_t c,
                            std::size_t hw) {
    std::vector<double> to(from.size());
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < c; ++j) {
        for (std::size_t k = 0; k < hw; ++k) to[(i * hw + k) * c + j] = from[(i * c + j) * hw + k];
      }
    }
    return to;
  };
  std::vector<double> x_numbers = WholeNumbers(rows.x_count, 1);
  std::vector<double> w_numbers = WholeNumbers(rows.w_count, 2);
  std::vector<std::vector<double>> results;
  for (const Layer* const layer : {&rows, &channels}) {
    DeviceNumbers x(CUDNN_DATA_FLOAT, layer->x_count);
    DeviceNumbers w(CUDNN_DATA_FLOAT, layer->w_count);
    DeviceNumbers y(CUDNN_DATA_FLOAT, layer->y_count);
    x.Set(x_numbers);
    w.Set(w_numbers);
    Must(cudnnConvolutionForward(handle_, &one_, layer->x, x.get(), layer->w, w.get(),
                                 layer->convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                 nullptr, 0, &zero_, layer->y, y.get()));
    results.push_back(y.Get());
    x_numbers = reordered(x_numbers, 2, 4, 30);
    w_numbers = reordered(w_numbers, 6, 2, 9);
  }
  const auto out = static_cast<std::size_t>(rows.out_h) * static_cast<std::size_t>(rows.out_w);
  EXPECT_EQ(reordered(results[0], 2, 6, out), results[1]);
}

// The figures of AlexNet's second layer: Oyama et al., section IV.
TEST_F(CudnnHostTest, FftOfConv2NeedsTheWorkspaceOfThePaper) {
  Layer conv2({.n = 256, .c = 48, .h = 27, .w = 27, .k = 128, .r = 5, .s = 5, .pad = 2});
  std::size_t bytes = 0;
  Must(cudnnGetConvolutionForwardWorkspaceSize(handle_, conv2.x, conv2.w, conv2.convolution,
                                               conv2.y, CUDNN_CONVOLUTION_FWD_ALGO_FFT, &bytes));
  EXPECT_EQ(bytes, static_cast<std::size_t>(212.5 * 1048576));
  conv2.SetBatch(32);
  Must(cudnnGetConvolutionForwardWorkspaceSize(handle_, conv2.x, conv2.w, conv2.convolution,
                                               conv2.y, CUDNN_CONVOLUTION_FWD_ALGO_FFT, &bytes));
  EXPECT_EQ(bytes, static_cast<std::size_t>(48.875 * 1048576));
}

TEST_F(CudnnHostTest, FindsAlgorithmsByTimeAndNamesThoseWithoutRoom) {
  const Layer layer({.n = 8});
  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t found[16] = {};
  Must(cudnnFindConvolutionForwardAlgorithm(handle_, layer.x, layer.w, layer.convolution, layer.y,
                                            16, &count, found));
  ASSERT_EQ(count, 8);
  EXPECT_EQ(found[7].status, CUDNN_STATUS_NOT_SUPPORTED);
  for (int i = 1; i < 7; ++i) EXPECT_LE(found[i - 1].time, found[i].time);
  Must(cudnnFindConvolutionForwardAlgorithmEx(handle_, layer.x, nullptr, layer.w, nullptr,
                                              layer.convolution, layer.y, nullptr, 16, &count,
                                              found, nullptr, 0));
  EXPECT_EQ(found[0].algo, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  EXPECT_EQ(found[1].status, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
}

TEST_F(CudnnHostTest, HalfDataHaveTensorCoresAndHalfArithmeticNoFft) {
  LayerShape shape = {.n = 2, .type = CUDNN_DATA_HALF, .compute_type = CUDNN_DATA_HALF};
  const Layer layer(shape);
  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t found[16] = {};
  Must(cudnnFindConvolutionForwardAlgorithm(handle_, layer.x, layer.w, layer.convolution, layer.y,
                                            16, &count, found));
  ASSERT_EQ(count, 10);
  EXPECT_EQ(found[0].mathType, CUDNN_TENSOR_OP_MATH);
  for (int i = 0; i < count; ++i) {
    if (found[i].status != CUDNN_STATUS_SUCCESS) continue;
    EXPECT_NE(found[i].algo, CUDNN_CONVOLUTION_FWD_ALGO_FFT);
  }
}

TEST_F(CudnnHostTest, ATableReplacesTheFormulas) {
  ASSERT_EQ(cudnnHostSetTable("pass,layer,samples,algorithm,milliseconds,workspace_bytes\n"
                              "forward,c4h6w5k6r3s3,8,2,1.5,1000\n"),
            1);
  Layer layer({.n = 8});
  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t found[16] = {};
  Must(cudnnFindConvolutionForwardAlgorithm(handle_, layer.x, layer.w, layer.convolution, layer.y,
                                            16, &count, found));
  EXPECT_EQ(found[0].algo, CUDNN_CONVOLUTION_FWD_ALGO_GEMM);
  EXPECT_EQ(found[0].time, 1.5F);
  EXPECT_EQ(found[0].memory, 1000U);
  EXPECT_EQ(found[1].status, CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cudnnHostSetTable("header\nsideways,*,1,1,1,1\n"), 0);
}

TEST_F(CudnnHostTest, ChecksArguments) {
  Layer layer(kRow);
  DeviceNumbers numbers(CUDNN_DATA_FLOAT, 3);
  const auto forward = [&](cudnnConvolutionFwdAlgo_t algorithm, void* y) {
    return cudnnConvolutionForward(handle_, &one_, layer.x, numbers.get(), layer.w, numbers.get(),
                                   layer.convolution, algorithm, nullptr, 0, &zero_, layer.y, y);
  };
  EXPECT_EQ(forward(CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, numbers.get()), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(forward(CUDNN_CONVOLUTION_FWD_ALGO_FFT, numbers.get()),
            CUDNN_STATUS_BAD_PARAM);  // no workspace
  EXPECT_EQ(forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr), CUDNN_STATUS_BAD_PARAM);
  Must(cudnnSetTensor4dDescriptor(layer.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 7));
  EXPECT_EQ(forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, numbers.get()),
            CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnHostTest, ACallFailsOnceWhenOrdered) {
  cudnnHostFailCall("cudnnSetStream", 2, CUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(cudnnSetStream(handle_, nullptr), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnSetStream(handle_, nullptr), CUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(cudnnSetStream(handle_, nullptr), CUDNN_STATUS_SUCCESS);
}

// The copy to the device is held back, so the convolution after it in the stream must wait.
TEST_F(CudnnHostTest, RunsInItsStream) {
  const Layer layer(kRow);
  DeviceNumbers x(CUDNN_DATA_FLOAT, 3);
  DeviceNumbers w(CUDNN_DATA_FLOAT, 2);
  DeviceNumbers y(CUDNN_DATA_FLOAT, 2);
  x.Set({0, 0, 0});
  w.Set({10, 1});
  y.Set({-1, -1});
  cudaStream_t stream = nullptr;
  Must(cudaStreamCreate(&stream));
  Must(cudnnSetStream(handle_, stream));
  void* pinned = nullptr;
  Must(cudaMallocHost(&pinned, 12));
  const float numbers[] = {1, 2, 3};
  std::memcpy(pinned, numbers, sizeof numbers);
  cudartHostHoldCopies(0);
  Must(cudaMemcpyAsync(x.get(), pinned, 12, cudaMemcpyHostToDevice, stream));
  Must(cudnnConvolutionForward(handle_, &one_, layer.x, x.get(), layer.w, w.get(),
                               layer.convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr,
                               0, &zero_, layer.y, y.get()));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  cudartHostReleaseCopies(0);
  Must(cudaStreamSynchronize(stream));
  EXPECT_THAT(y.Get(), ElementsAre(12, 23));
  cudaFreeHost(pinned);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace tidepool::test
