// SPDX-License-Identifier: Apache-2.0
// A small program that uses cuDNN as Caffe does: layers look their algorithms up when the network
// is made, take the workspaces that cuDNN asks for, and run forward and backward. Three lines make
// its convolutions run in micro-batches: they are marked with "tidepool". Without
// TIDEPOOL_MICRO_BATCHES it is a plain program of cuDNN, and libtidepool_cudnn.so under LD_PRELOAD
// does the same to it. It takes the limit of each workspace from TIDEPOOL_CUDNN_LIMIT and prints
// the results of its look-ups.
#include <cuda_runtime_api.h>
#include <cudnn.h>
// [three-lines]
#ifdef TIDEPOOL_MICRO_BATCHES
#include "tidepool/cudnn.h"                // tidepool: 1
using HandleType = tidepool::CudnnHandle;  // tidepool: 2, where it was cudnnHandle_t
#else
using HandleType = cudnnHandle_t;
#endif
// [/three-lines]

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void Check(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::fprintf(stderr, "cuDNN: %s\n", cudnnGetErrorString(status));
  std::exit(1);
}
void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

struct Shape {
  int n, c, h, w, k, r, pad;
};

// A convolution, as a layer of Caffe has it.
class ConvolutionLayer {
 public:
  ConvolutionLayer(HandleType handle, const Shape& shape) : handle_(handle), shape_(shape) {
    Check(cudnnCreateTensorDescriptor(&x_));
    Check(cudnnCreateTensorDescriptor(&y_));
    Check(cudnnCreateFilterDescriptor(&w_));
    Check(cudnnCreateConvolutionDescriptor(&convolution_));
    Check(cudnnSetTensor4dDescriptor(x_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, shape.n, shape.c,
                                     shape.h, shape.w));
    Check(cudnnSetTensor4dDescriptor(y_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, shape.n, shape.k,
                                     shape.h, shape.w));
    Check(cudnnSetFilter4dDescriptor(w_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, shape.k, shape.c,
                                     shape.r, shape.r));
    Check(cudnnSetConvolution2dDescriptor(convolution_, shape.pad, shape.pad, 1, 1, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    LookUp();
    Allocate();
  }
  ConvolutionLayer(const ConvolutionLayer&) = delete;
  ConvolutionLayer& operator=(const ConvolutionLayer&) = delete;
  ~ConvolutionLayer() {
    for (void* const memory : {x_data_, dx_data_, y_data_, w_data_, dw_data_, workspace_})
      cudaFree(memory);
    cudnnDestroyTensorDescriptor(x_);
    cudnnDestroyTensorDescriptor(y_);
    cudnnDestroyFilterDescriptor(w_);
    cudnnDestroyConvolutionDescriptor(convolution_);
  }

  void Train() {
    const float one = 1;
    const float zero = 0;
    Check(cudnnConvolutionForward(handle_, &one, x_, x_data_, w_, w_data_, convolution_,
                                  forward_.algo, workspace_, workspace_bytes_, &zero, y_, y_data_));
    Check(cudnnConvolutionBackwardFilter(handle_, &one, x_, x_data_, y_, y_data_, convolution_,
                                         filter_.algo, workspace_, workspace_bytes_, &zero, w_,
                                         dw_data_));
    Check(cudnnConvolutionBackwardData(handle_, &one, w_, w_data_, y_, y_data_, convolution_,
                                       data_.algo, workspace_, workspace_bytes_, &zero, x_,
                                       dx_data_));
  }

  // Returns the sum of the gradients of the filter, which depends on all outputs.
  double SumOfGradients() const {
    std::vector<float> gradients(FilterCount());
    Check(cudaMemcpy(gradients.data(), dw_data_, gradients.size() * sizeof(float),
                     cudaMemcpyDeviceToHost));
    double sum = 0;
    for (const float gradient : gradients) sum += static_cast<double>(gradient);
    return sum;
  }

  void Print(int number) const {
    std::printf("layer %d: %.3f ms, %zu bytes of workspace\n", number,
                static_cast<double>(forward_.time + data_.time + filter_.time), workspace_bytes_);
  }

 private:
  // Caffe takes the first result of each look-up that has room; a cuDNN of today has these
  // functions.
  void LookUp() {
    int count = 0;
    Check(cudnnFindConvolutionForwardAlgorithm(handle_, x_, w_, convolution_, y_, 1, &count,
                                               &forward_));
    Check(cudnnFindConvolutionBackwardDataAlgorithm(handle_, w_, y_, convolution_, x_, 1, &count,
                                                    &data_));
    Check(cudnnFindConvolutionBackwardFilterAlgorithm(handle_, x_, y_, convolution_, w_, 1, &count,
                                                      &filter_));
    workspace_bytes_ = std::max({forward_.memory, data_.memory, filter_.memory});
  }

  std::size_t FilterCount() const {
    return static_cast<std::size_t>(shape_.k) * static_cast<std::size_t>(shape_.c) *
           static_cast<std::size_t>(shape_.r) * static_cast<std::size_t>(shape_.r);
  }

  void Allocate() {
    const auto image =
        static_cast<std::size_t>(shape_.n) * static_cast<std::size_t>(shape_.h * shape_.w);
    const auto take = [](void** memory, std::size_t count, float first) {
      std::vector<float> numbers(count);
      for (std::size_t i = 0; i < count; ++i) numbers[i] = first * static_cast<float>(i % 5) - 1;
      Check(cudaMalloc(memory, count * sizeof(float)));
      Check(cudaMemcpy(*memory, numbers.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    };
    const std::size_t inputs = image * static_cast<std::size_t>(shape_.c);
    take(&x_data_, inputs, 1);
    take(&dx_data_, inputs, 0);
    take(&y_data_, image * static_cast<std::size_t>(shape_.k), 0);
    take(&w_data_, FilterCount(), 0.5F);
    take(&dw_data_, FilterCount(), 0);
    if (workspace_bytes_ > 0) Check(cudaMalloc(&workspace_, workspace_bytes_));
  }

  HandleType handle_;
  Shape shape_;
  cudnnTensorDescriptor_t x_ = nullptr;
  cudnnTensorDescriptor_t y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  cudnnConvolutionFwdAlgoPerf_t forward_ = {};
  cudnnConvolutionBwdDataAlgoPerf_t data_ = {};
  cudnnConvolutionBwdFilterAlgoPerf_t filter_ = {};
  void* x_data_ = nullptr;
  void* dx_data_ = nullptr;
  void* y_data_ = nullptr;
  void* w_data_ = nullptr;
  void* dw_data_ = nullptr;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

int main() {
  HandleType handle = nullptr;
  Check(cudnnCreate(&handle));
  {
    ConvolutionLayer first(handle, {16, 3, 14, 14, 8, 5, 2});
    ConvolutionLayer second(handle, {16, 8, 7, 7, 8, 3, 1});
    for (int iteration = 0; iteration < 2; ++iteration) {
      first.Train();
      second.Train();
    }
    Check(cudaDeviceSynchronize());
    first.Print(1);
    second.Print(2);
    std::printf("gradients: %.1f %.1f\n", first.SumOfGradients(), second.SumOfGradients());
  }
  Check(cudnnDestroy(handle));
  return 0;
}
