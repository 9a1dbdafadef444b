// SPDX-License-Identifier: Apache-2.0
// Layers of the stand-in for cuDNN: each gradient is that of finite differences, and products of
// the stand-in for cuBLAS are sums.
#include <cublas_v2.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tidepool {
namespace {

using Numbers = std::vector<double>;

constexpr double kOne = 1;
constexpr double kZero = 0;
constexpr float kOneFloat = 1;
constexpr float kTwoFloat = 2;

// Returns numbers that are all different, positive and negative.
Numbers SomeNumbers(std::size_t count, double phase) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = std::sin(phase + 1.7 * static_cast<double>(i));
  return numbers;
}

class LayersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    ASSERT_EQ(cudnnSetStream(handle_, stream_), CUDNN_STATUS_SUCCESS);
    for (cudnnTensorDescriptor_t* layout : {&x_layout_, &y_layout_, &channels_}) {
      ASSERT_EQ(cudnnCreateTensorDescriptor(layout), CUDNN_STATUS_SUCCESS);
    }
    ASSERT_EQ(cudnnCreatePoolingDescriptor(&pooling_), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnCreateActivationDescriptor(&activation_), CUDNN_STATUS_SUCCESS);
    Describe(x_layout_, 2, 3, 5, 4);
    Describe(y_layout_, 2, 3, 5, 4);
    Describe(channels_, 1, 3, 1, 1);
  }
  void TearDown() override {
    cudnnDestroyActivationDescriptor(activation_);
    cudnnDestroyPoolingDescriptor(pooling_);
    for (cudnnTensorDescriptor_t layout : {x_layout_, y_layout_, channels_}) {
      cudnnDestroyTensorDescriptor(layout);
    }
    cudaStreamDestroy(stream_);
    cudnnDestroy(handle_);
  }

  static void Describe(cudnnTensorDescriptor_t layout, int n, int c, int h, int w) {
    ASSERT_EQ(cudnnSetTensor4dDescriptor(layout, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, n, c, h, w),
              CUDNN_STATUS_SUCCESS);
  }
  // Waits for a call's work.
  void Done(cudnnStatus_t status) {
    ASSERT_EQ(status, CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  // Expects that `gradient` is that of sum(weights * forward(x)) by finite differences.
  static void ExpectGradient(const std::function<Numbers(const Numbers&)>& forward,
                             const Numbers& weights, Numbers x, const Numbers& gradient) {
    constexpr double kStep = 1e-5;
    const auto sum = [&] {
      const Numbers y = forward(x);
      double total = 0;
      for (std::size_t i = 0; i < y.size(); ++i) total += weights[i] * y[i];
      return total;
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double before = x[i];
      x[i] = before + kStep;
      const double above = sum();
      x[i] = before - kStep;
      const double below = sum();
      x[i] = before;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-8) << "element " << i;
    }
  }

  static constexpr std::size_t kElements = 120;  // of x_layout_
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudnnTensorDescriptor_t x_layout_ = nullptr;
  cudnnTensorDescriptor_t y_layout_ = nullptr;
  cudnnTensorDescriptor_t channels_ = nullptr;
  cudnnPoolingDescriptor_t pooling_ = nullptr;
  cudnnActivationDescriptor_t activation_ = nullptr;
};

TEST_F(LayersTest, GradientsOfPools) {
  constexpr std::size_t kOutputs = 36;
  Describe(y_layout_, 2, 3, 3, 2);
  for (const cudnnPoolingMode_t mode :
       {CUDNN_POOLING_MAX, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
        CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, CUDNN_POOLING_MAX_DETERMINISTIC}) {
    ASSERT_EQ(cudnnSetPooling2dDescriptor(pooling_, mode, CUDNN_PROPAGATE_NAN, 3, 3, 1, 1, 2, 2),
              CUDNN_STATUS_SUCCESS);
    const auto forward = [&](const Numbers& x) {
      Numbers y(kOutputs);
      Done(cudnnPoolingForward(handle_, pooling_, &kOne, x_layout_, x.data(), &kZero, y_layout_,
                               y.data()));
      return y;
    };
    const Numbers x = SomeNumbers(kElements, 1);
    const Numbers dy = SomeNumbers(kOutputs, 2);
    const Numbers y = forward(x);
    Numbers dx(kElements);
    Done(cudnnPoolingBackward(handle_, pooling_, &kOne, y_layout_, y.data(), y_layout_, dy.data(),
                              x_layout_, x.data(), &kZero, x_layout_, dx.data()));
    ExpectGradient(forward, dy, x, dx);
  }
}

// The windows begin inside of the image, and the last ones end beyond it.
TEST_F(LayersTest, GradientsOfMaximaBeyondTheEdge) {
  constexpr std::size_t kOutputs = 2 * 3 * 3 * 2;
  Describe(y_layout_, 2, 3, 3, 2);
  ASSERT_EQ(cudnnSetPooling2dDescriptor(pooling_, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 3, 0,
                                        0, 2, 2),
            CUDNN_STATUS_SUCCESS);
  const auto forward = [&](const Numbers& x) {
    Numbers y(kOutputs);
    Done(cudnnPoolingForward(handle_, pooling_, &kOne, x_layout_, x.data(), &kZero, y_layout_,
                             y.data()));
    return y;
  };
  const Numbers x = SomeNumbers(kElements, 1);
  const Numbers dy = SomeNumbers(kOutputs, 2);
  const Numbers y = forward(x);
  EXPECT_EQ(y[4], std::fmax(x[16], std::fmax(x[17], x[18])));
  Numbers dx(kElements);
  Done(cudnnPoolingBackward(handle_, pooling_, &kOne, y_layout_, y.data(), y_layout_, dy.data(),
                            x_layout_, x.data(), &kZero, x_layout_, dx.data()));
  ExpectGradient(forward, dy, x, dx);
}

TEST_F(LayersTest, GradientsOfLocalResponseNormalization) {
  cudnnLRNDescriptor_t response = nullptr;
  ASSERT_EQ(cudnnCreateLRNDescriptor(&response), CUDNN_STATUS_SUCCESS);
  for (const unsigned channels : {1U, 2U, 5U}) {
    ASSERT_EQ(cudnnSetLRNDescriptor(response, channels, 0.9, 0.75, 2), CUDNN_STATUS_SUCCESS);
    const auto forward = [&](const Numbers& x) {
      Numbers y(kElements);
      Done(cudnnLRNCrossChannelForward(handle_, response, CUDNN_LRN_CROSS_CHANNEL_DIM1, &kOne,
                                       x_layout_, x.data(), &kZero, y_layout_, y.data()));
      return y;
    };
    const Numbers x = SomeNumbers(kElements, 1);
    const Numbers dy = SomeNumbers(kElements, 2);
    const Numbers y = forward(x);
    if (channels == 1) {
      EXPECT_DOUBLE_EQ(y[0], x[0] * std::pow(2 + 0.9 * x[0] * x[0], -0.75));
    }
    Numbers dx(kElements);
    Done(cudnnLRNCrossChannelBackward(handle_, response, CUDNN_LRN_CROSS_CHANNEL_DIM1, &kOne,
                                      y_layout_, y.data(), y_layout_, dy.data(), x_layout_,
                                      x.data(), &kZero, x_layout_, dx.data()));
    ExpectGradient(forward, dy, x, dx);
  }
  EXPECT_EQ(cudnnSetLRNDescriptor(response, 17, 1, 1, 1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnDestroyLRNDescriptor(response), CUDNN_STATUS_SUCCESS);
}

TEST_F(LayersTest, DropoutDropsItsShareAndGradientsAreDroppedAlike) {
  constexpr std::size_t kNumbers = 2400;
  Describe(x_layout_, 4, 600, 1, 1);
  std::size_t states_bytes = 0;
  std::size_t mask_bytes = 0;
  ASSERT_EQ(cudnnDropoutGetStatesSize(handle_, &states_bytes), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnDropoutGetReserveSpaceSize(x_layout_, &mask_bytes), CUDNN_STATUS_SUCCESS);
  EXPECT_LE(mask_bytes, kNumbers);
  cudnnDropoutDescriptor_t dropout = nullptr;
  ASSERT_EQ(cudnnCreateDropoutDescriptor(&dropout), CUDNN_STATUS_SUCCESS);
  std::vector<std::uint64_t> states(states_bytes / sizeof(std::uint64_t));
  std::vector<std::uint8_t> mask(mask_bytes);
  const auto seed = [&](unsigned long long number) {
    Done(cudnnSetDropoutDescriptor(dropout, handle_, 0.75F, states.data(), states_bytes, number));
  };
  const Numbers x(kNumbers, 1);
  const auto drop = [&] {
    Numbers y(kNumbers);
    Done(cudnnDropoutForward(handle_, dropout, x_layout_, x.data(), x_layout_, y.data(),
                             mask.data(), mask_bytes));
    return y;
  };
  seed(7);
  const Numbers first = drop();
  const auto kept = static_cast<double>(std::ranges::count(first, 4));
  EXPECT_EQ(std::ranges::count(first, 0), kNumbers - static_cast<std::size_t>(kept));
  EXPECT_NEAR(kept / kNumbers, 0.25, 0.05);
  Numbers dx = x;  // in place
  Done(cudnnDropoutBackward(handle_, dropout, x_layout_, dx.data(), x_layout_, dx.data(),
                            mask.data(), mask_bytes));
  EXPECT_EQ(dx, first);
  EXPECT_NE(drop(), first);
  seed(7);
  EXPECT_EQ(drop(), first);
  seed(8);
  EXPECT_NE(drop(), first);
  EXPECT_EQ(cudnnDropoutForward(handle_, dropout, x_layout_, x.data(), x_layout_, dx.data(),
                                mask.data(), mask_bytes - 1),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnDestroyDropoutDescriptor(dropout), CUDNN_STATUS_SUCCESS);
}

TEST_F(LayersTest, ProductsAndNormalizationOfEachNumber) {
  cudnnOpTensorDescriptor_t product = nullptr;
  ASSERT_EQ(cudnnCreateOpTensorDescriptor(&product), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnSetOpTensorDescriptor(product, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_DOUBLE,
                                       CUDNN_PROPAGATE_NAN),
            CUDNN_STATUS_SUCCESS);
  constexpr double kTwo = 2;
  const Numbers a = {1, 2, 3};
  const Numbers b = {4, 5, 6};
  Numbers c = {1, 1, 1};
  Done(cudnnOpTensor(handle_, product, &kTwo, channels_, a.data(), &kTwo, channels_, b.data(),
                     &kOne, channels_, c.data()));
  EXPECT_EQ(c, (Numbers{17, 41, 73}));
  Numbers ones(3);
  Done(cudnnSetTensor(handle_, channels_, ones.data(), &kOne));
  Done(cudnnBatchNormalizationForwardInference(
      handle_, CUDNN_BATCHNORM_PER_ACTIVATION, &kTwo, &kOne, channels_, b.data(), channels_,
      c.data(), channels_, ones.data(), a.data(), a.data(), ones.data(), 3));
  EXPECT_EQ(c, (Numbers{17 + 5, 41 + 7, 73 + 9}));
  EXPECT_EQ(cudnnDestroyOpTensorDescriptor(product), CUDNN_STATUS_SUCCESS);
}

TEST_F(LayersTest, GradientsOfActivations) {
  for (const cudnnActivationMode_t mode : {CUDNN_ACTIVATION_SIGMOID, CUDNN_ACTIVATION_RELU,
                                           CUDNN_ACTIVATION_TANH, CUDNN_ACTIVATION_IDENTITY}) {
    ASSERT_EQ(cudnnSetActivationDescriptor(activation_, mode, CUDNN_PROPAGATE_NAN, 0),
              CUDNN_STATUS_SUCCESS);
    const auto forward = [&](const Numbers& x) {
      Numbers y(kElements);
      Done(cudnnActivationForward(handle_, activation_, &kOne, x_layout_, x.data(), &kZero,
                                  y_layout_, y.data()));
      return y;
    };
    const Numbers x = SomeNumbers(kElements, 1);
    const Numbers dy = SomeNumbers(kElements, 2);
    const Numbers y = forward(x);
    Numbers dx = dy;  // in place
    Done(cudnnActivationBackward(handle_, activation_, &kOne, y_layout_, y.data(), y_layout_,
                                 dx.data(), x_layout_, x.data(), &kZero, x_layout_, dx.data()));
    ExpectGradient(forward, dy, x, dx);
  }
}

TEST_F(LayersTest, GradientsOfSoftmax) {
  for (const cudnnSoftmaxAlgorithm_t algorithm : {CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_LOG}) {
    for (const cudnnSoftmaxMode_t mode :
         {CUDNN_SOFTMAX_MODE_CHANNEL, CUDNN_SOFTMAX_MODE_INSTANCE}) {
      const auto forward = [&](const Numbers& x) {
        Numbers y(kElements);
        Done(cudnnSoftmaxForward(handle_, algorithm, mode, &kOne, x_layout_, x.data(), &kZero,
                                 y_layout_, y.data()));
        return y;
      };
      const Numbers x = SomeNumbers(kElements, 1);
      const Numbers dy = SomeNumbers(kElements, 2);
      const Numbers y = forward(x);
      Numbers dx(kElements);
      Done(cudnnSoftmaxBackward(handle_, algorithm, mode, &kOne, y_layout_, y.data(), y_layout_,
                                dy.data(), &kZero, x_layout_, dx.data()));
      ExpectGradient(forward, dy, x, dx);
    }
  }
}

TEST_F(LayersTest, GradientsOfBatchNormalizationAndItsRunningStatistics) {
  const Numbers scale = {0.5, -2, 3};
  const Numbers shift = {1, 2, 3};
  Numbers mean(3);
  Numbers inverse(3);
  Numbers running_mean;
  Numbers running_variance;
  const auto normalize = [&](const Numbers& x, const Numbers& its_scale, const Numbers& its_shift) {
    Numbers y(kElements);
    running_mean.assign(3, 10);
    running_variance.assign(3, 20);
    Done(cudnnBatchNormalizationForwardTraining(
        handle_, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, x_layout_, x.data(), y_layout_, y.data(),
        channels_, its_scale.data(), its_shift.data(), 0.25, running_mean.data(),
        running_variance.data(), 1e-3, mean.data(), inverse.data()));
    return y;
  };
  const Numbers x = SomeNumbers(kElements, 1);
  const Numbers dy = SomeNumbers(kElements, 2);
  normalize(x, scale, shift);
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    if (i / 20 % 3 != 1) continue;
    sum += x[i];
    squares += x[i] * x[i];
  }
  const double variance = (squares - sum * sum / 40) / 39;
  EXPECT_NEAR(running_mean[1], 0.75 * 10 + 0.25 * sum / 40, 1e-12);
  EXPECT_NEAR(running_variance[1], 0.75 * 20 + 0.25 * variance, 1e-12);
  Numbers dx(kElements);
  Numbers dscale = {1, 1, 1};
  Numbers dshift = {1, 1, 1};
  Done(cudnnBatchNormalizationBackward(handle_, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, &kOne,
                                       &kOne, x_layout_, x.data(), y_layout_, dy.data(), x_layout_,
                                       dx.data(), channels_, scale.data(), dscale.data(),
                                       dshift.data(), 1e-3, mean.data(), inverse.data()));
  for (std::size_t c = 0; c < 3; ++c) {
    dscale[c] -= 1;  // they were added to
    dshift[c] -= 1;
  }
  ExpectGradient([&](const Numbers& v) { return normalize(v, scale, shift); }, dy, x, dx);
  ExpectGradient([&](const Numbers& v) { return normalize(x, v, shift); }, dy, scale, dscale);
  ExpectGradient([&](const Numbers& v) { return normalize(x, scale, v); }, dy, shift, dshift);
}

TEST_F(LayersTest, BiasesAreAddedToChannelsAndTheirGradientsAreSums) {
  const Numbers bias = {1, 2, 3};
  Numbers y(kElements, 1);
  Done(cudnnAddTensor(handle_, &kOne, channels_, bias.data(), &kOne, y_layout_, y.data()));
  EXPECT_EQ(y[0], 2);
  EXPECT_EQ(y[59], 4);
  Numbers gradient = {1, 1, 1};
  Done(cudnnConvolutionBackwardBias(handle_, &kOne, y_layout_, y.data(), &kOne, channels_,
                                    gradient.data()));
  EXPECT_EQ(gradient, (Numbers{81, 121, 161}));
}

TEST_F(LayersTest, TensorsAreCopiedIntoPartsOfOthers) {
  ASSERT_EQ(cudnnSetTensor4dDescriptorEx(x_layout_, CUDNN_DATA_DOUBLE, 2, 3, 1, 1, 3, 1, 1, 1),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnSetTensor4dDescriptorEx(y_layout_, CUDNN_DATA_DOUBLE, 2, 3, 1, 1, 5, 1, 1, 1),
            CUDNN_STATUS_SUCCESS);
  const Numbers x = {1, 2, 3, 4, 5, 6};
  Numbers y(10, 7);
  Done(cudnnTransformTensor(handle_, &kOne, x_layout_, x.data(), &kZero, y_layout_, &y[1]));
  EXPECT_EQ(y, (Numbers{7, 1, 2, 3, 7, 7, 4, 5, 6, 7}));
  Done(cudnnTransformTensor(handle_, &kOne, x_layout_, x.data(), &kOne, y_layout_, &y[1]));
  EXPECT_EQ(y, (Numbers{7, 2, 4, 6, 7, 7, 8, 10, 12, 7}));
}

TEST_F(LayersTest, WrongArgumentsAreRefused) {
  Numbers x(kElements);
  Describe(y_layout_, 2, 3, 5, 5);
  EXPECT_EQ(cudnnTransformTensor(handle_, &kOne, x_layout_, x.data(), &kZero, y_layout_, x.data()),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnAddTensor(handle_, &kOne, y_layout_, x.data(), &kZero, x_layout_, nullptr),
            CUDNN_STATUS_BAD_PARAM);
  ASSERT_EQ(cudnnSetPooling2dDescriptor(pooling_, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0,
                                        0, 2, 2),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnPoolingForward(handle_, pooling_, &kOne, x_layout_, x.data(), &kZero, y_layout_,
                                x.data()),
            CUDNN_STATUS_BAD_PARAM);
}

TEST(ProductsTest, MatricesAreByColumnsAndMayBeTransposed) {
  cublasHandle_t handle = nullptr;
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  // a is 2 x 3 and b is 3 x 2.
  const std::vector<float> a = {1, 4, 2, 5, 3, 6};
  const std::vector<float> a_transposed = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {7, 9, 11, 8, 10, 12};
  const std::vector<float> b_transposed = {7, 8, 9, 10, 11, 12};
  for (const bool transposes : {false, true}) {
    std::vector<float> c = {1, 1, 1, 1};
    const cublasOperation_t operation = transposes ? CUBLAS_OP_T : CUBLAS_OP_N;
    ASSERT_EQ(cublasSgemm(handle, operation, operation, 2, 2, 3, &kOneFloat,
                          transposes ? a_transposed.data() : a.data(), transposes ? 3 : 2,
                          transposes ? b_transposed.data() : b.data(), transposes ? 2 : 3,
                          &kTwoFloat, c.data(), 2),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(c, (std::vector<float>{60, 141, 66, 156}));
  }
  std::vector<float> sum = {1, 2, 3};
  ASSERT_EQ(cublasSscal(handle, 3, &kTwoFloat, sum.data(), 1), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSaxpy(handle, 3, &kTwoFloat, a.data(), 1, sum.data(), 1), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(sum, (std::vector<float>{4, 12, 10}));
  EXPECT_EQ(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &kOneFloat, a.data(), 1,
                        b.data(), 3, &kTwoFloat, sum.data(), 2),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace tidepool
