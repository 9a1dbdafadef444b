// SPDX-License-Identifier: Apache-2.0
// A convolution for tests: its descriptors, and its data on the stand-in for CUDA.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDNN_LAYER_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDNN_LAYER_H_

#include <cuda_fp16.h>
#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace tidepool::test {

struct LayerShape {
  int n = 4, c = 4, h = 6, w = 5, k = 6, r = 3, s = 3;
  int pad = 1, stride = 1, dilation = 1, groups = 1;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
};

// Fails the whole test for a call that must work.
inline void Must(bool holds) {
  if (!holds) std::abort();
}
inline void Must(cudnnStatus_t status) { Must(status == CUDNN_STATUS_SUCCESS); }
inline void Must(cudaError_t error) { Must(error == cudaSuccess); }

// Memory of the device that holds numbers of a type.
class DeviceNumbers {
 public:
  DeviceNumbers(cudnnDataType_t type, std::size_t count) : type_(type), count_(count) {
    Must(cudaMalloc(&address_, count * bytes()));
  }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;
  ~DeviceNumbers() { cudaFree(address_); }

  void* get() const { return address_; }
  std::size_t bytes() const {
    return type_ == CUDNN_DATA_HALF ? 2 : type_ == CUDNN_DATA_DOUBLE ? 8 : 4;
  }

  void Set(const std::vector<double>& numbers) {
    std::vector<char> raw(count_ * bytes());
    for (std::size_t i = 0; i < count_; ++i) Write(numbers[i], raw.data() + i * bytes());
    Must(cudaMemcpy(address_, raw.data(), raw.size(), cudaMemcpyHostToDevice));
  }
  // Waits for the whole device.
  std::vector<double> Get() const {
    std::vector<char> raw(count_ * bytes());
    Must(cudaDeviceSynchronize());
    Must(cudaMemcpy(raw.data(), address_, raw.size(), cudaMemcpyDeviceToHost));
    std::vector<double> numbers(count_);
    for (std::size_t i = 0; i < count_; ++i) numbers[i] = Read(raw.data() + i * bytes());
    return numbers;
  }

 private:
  void Write(double number, char* to) const {
    if (type_ == CUDNN_DATA_HALF) {
      const __half half = __float2half(static_cast<float>(number));
      std::memcpy(to, &half, sizeof half);
    } else if (type_ == CUDNN_DATA_DOUBLE) {
      std::memcpy(to, &number, sizeof number);
    } else {
      const auto single = static_cast<float>(number);
      std::memcpy(to, &single, sizeof single);
    }
  }
  double Read(const char* from) const {
    __half half{};
    float single = 0;
    double number = 0;
    if (type_ == CUDNN_DATA_HALF) {
      std::memcpy(&half, from, sizeof half);
      return __half2float(half);
    }
    if (type_ == CUDNN_DATA_DOUBLE) {
      std::memcpy(&number, from, sizeof number);
      return number;
    }
    std::memcpy(&single, from, sizeof single);
    return single;
  }

  cudnnDataType_t type_;
  std::size_t count_;
  void* address_ = nullptr;
};

// Returns small whole numbers, so that sums of products are exact in any order in float.
inline std::vector<double> WholeNumbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> numbers(count);
  for (double& number : numbers) number = static_cast<int>(random() % 7) - 3;
  return numbers;
}

// Descriptors and data of a layer. The output's size follows from the rest.
class Layer {
 public:
  explicit Layer(const LayerShape& shape) : shape_(shape) {
    Must(cudnnCreateTensorDescriptor(&x));
    Must(cudnnCreateTensorDescriptor(&y));
    Must(cudnnCreateFilterDescriptor(&w));
    Must(cudnnCreateConvolutionDescriptor(&convolution));
    Must(cudnnSetFilter4dDescriptor(w, shape.type, shape.format, shape.k, shape.c / shape.groups,
                                    shape.r, shape.s));
    Must(cudnnSetConvolution2dDescriptor(convolution, shape.pad, shape.pad, shape.stride,
                                         shape.stride, shape.dilation, shape.dilation,
                                         CUDNN_CROSS_CORRELATION, shape.compute_type));
    Must(cudnnSetConvolutionGroupCount(convolution, shape.groups));
    SetBatch(shape.n);
    const auto count = [](int a, int b, int c, int d) {
      return static_cast<std::size_t>(a) * b * c * d;
    };
    x_count = count(shape.n, shape.c, shape.h, shape.w);
    w_count = count(shape.k, shape.c / shape.groups, shape.r, shape.s);
    y_count = count(shape.n, shape.k, out_h, out_w);
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ~Layer() {
    cudnnDestroyTensorDescriptor(x);
    cudnnDestroyTensorDescriptor(y);
    cudnnDestroyFilterDescriptor(w);
    cudnnDestroyConvolutionDescriptor(convolution);
  }

  // Changes the descriptors alone.
  void SetBatch(int n) {
    Must(
        cudnnSetTensor4dDescriptor(x, shape_.format, shape_.type, n, shape_.c, shape_.h, shape_.w));
    int batch = 0;
    int channels = 0;
    Must(cudnnGetConvolution2dForwardOutputDim(convolution, x, w, &batch, &channels, &out_h,
                                               &out_w));
    Must(cudnnSetTensor4dDescriptor(y, shape_.format, shape_.type, n, shape_.k, out_h, out_w));
  }

  const LayerShape& shape() const { return shape_; }

  cudnnTensorDescriptor_t x = nullptr;
  cudnnTensorDescriptor_t y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  int out_h = 0;
  int out_w = 0;
  std::size_t x_count = 0;
  std::size_t w_count = 0;
  std::size_t y_count = 0;

 private:
  LayerShape shape_;
};

}  // namespace tidepool::test

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDNN_LAYER_H_
