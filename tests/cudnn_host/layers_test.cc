// SPDX-License-Identifier: Apache-2.0
// Layers of the stand-in for cuDNN: each gradient is that of finite differences, and products of
// the stand-in for cuBLAS are sums.
#include <cublas_v2.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
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
