// SPDX-License-Identifier: Apache-2.0
// The time that work of libraries takes on the clock of events. Launches and records count besides,
// so times are compared with least times alone.
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "dryrun/runtime/cudart/control.h"

extern "C" {
int cublasCreate_v2(void** handle);
int cublasDestroy_v2(void* handle);
int cublasSetStream_v2(void* handle, void* stream);
int cublasGemmEx(void* handle, int a_as, int b_as, int m, int n, int k, const void* alpha,
                 const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                 const void* beta, void* c, int c_type, int ldc, int compute, int algorithm);
int cublasSgemm_v2(void* handle, int a_as, int b_as, int m, int n, int k, const void* alpha,
                   const void* a, int lda, const void* b, int ldb, const void* beta, void* c,
                   int ldc);
int cublasDgemmStridedBatched(void* handle, int a_as, int b_as, int m, int n, int k,
                              const void* alpha, const void* a, int lda, long long a_stride,
                              const void* b, int ldb, long long b_stride, const void* beta, void* c,
                              int ldc, long long stride, int count);
int cublasLtMatrixLayoutCreate(void** made, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t leading);
int cublasLtMatrixLayoutDestroy(void* layout);
int cublasLtMatmulDescCreate(void** made, int compute, int scale_type);
int cublasLtMatmulDescDestroy(void* operation);
int cublasLtMatmulDescSetAttribute(void* object, int name, const void* value, std::size_t bytes);
int cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                   void* d, void* d_layout, const void* algorithm, void* workspace,
                   std::size_t bytes, void* stream);
int cudnnCreateRNNDataDescriptor(void** made);
int cudnnDestroyRNNDataDescriptor(void* object);
int cudnnSetRNNDataDescriptor(void* object, int type, int layout, int steps, int batch, int width,
                              const int* lengths, void* padding);
int cudnnCreateRNNDescriptor(void** made);
int cudnnDestroyRNNDescriptor(void* object);
int cudnnSetRNNDescriptor_v8(void* object, int algorithm, int cell, int bias, int direction,
                             int input_mode, int type, int precision, int math, std::int32_t input,
                             std::int32_t hidden, std::int32_t projected, std::int32_t layers,
                             void* dropout, std::uint32_t flags);
int cudnnRNNForward(void* handle, void* layers, int mode, const std::int32_t* lengths, void* x,
                    const void* x_data, void* y, void* y_data, void* h, const void* hx, void* hy,
                    void* c, const void* cx, void* cy, std::size_t weight_bytes,
                    const void* weights, std::size_t bytes, void* workspace,
                    std::size_t reserve_bytes, void* reserve);
int cublasDtrsm_v2(void* handle, int side, int part, int turned, int diagonal, int m, int n,
                   const void* alpha, const void* a, int lda, void* b, int ldb);
int cusolverDnCreate(void** handle);
int cusolverDnDestroy(void* handle);
int cusolverDnSetStream(void* handle, void* stream);
int cusolverDnSgetrf(void* handle, int m, int n, void* a, int lda, void* workspace, int* pivots,
                     int* info);
}

namespace {

constexpr int kHalf = 2;
constexpr double kEfficiency = 0.8;

class KernelTime : public ::testing::Test {
 protected:
  KernelTime() {
    CudartHostConfig config;
    cudartHostDefaultConfig(&config);
    config.has_kernels = 1;
    config.has_data = 0;
    EXPECT_EQ(cudartHostConfigure(&config), 1);
    EXPECT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    EXPECT_EQ(cublasCreate_v2(&blas_), 0);
    EXPECT_EQ(cublasSetStream_v2(blas_, stream_), 0);
    EXPECT_EQ(cudaMalloc(&memory_, 1 << 20), cudaSuccess);
  }
  ~KernelTime() override {
    cublasDestroy_v2(blas_);
    cudaFree(memory_);
    cudaStreamDestroy(stream_);
  }

  // Returns the milliseconds of the work on the clock of events.
  template <typename Work>
  float Milliseconds(Work work) {
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    EXPECT_EQ(cudaEventCreate(&begin), cudaSuccess);
    EXPECT_EQ(cudaEventCreate(&end), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(begin, stream_), cudaSuccess);
    work();
    EXPECT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
    float found = -1;
    EXPECT_EQ(cudaEventElapsedTime(&found, begin, end), cudaSuccess);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return found;
  }

  int Product(int side, void* output) {
    return cublasSgemm_v2(blas_, 0, 0, side, side, side, nullptr, nullptr, side, nullptr, side,
                          nullptr, output, side);
  }

  cudaStream_t stream_ = nullptr;
  void* blas_ = nullptr;
  void* memory_ = nullptr;
};

double MillisecondsOf(double operations, double rate) {
  return operations / (rate * kEfficiency) * 1e3;
}

TEST_F(KernelTime, ProductsTakeTheTimeOfTheirOperations) {
  constexpr int kSide = 100'000;
  constexpr double kOperations = 2.0 * kSide * kSide * kSide;
  EXPECT_GE(Milliseconds([&] { Product(kSide, memory_); }), MillisecondsOf(kOperations, 20e12));
  EXPECT_GE(Milliseconds([&] {
              cublasGemmEx(blas_, 0, 0, kSide, kSide, kSide, nullptr, nullptr, kHalf, kSide,
                           nullptr, kHalf, kSide, nullptr, memory_, kHalf, kSide, 68, -1);
            }),
            MillisecondsOf(kOperations, 100e12));
  EXPECT_GE(Milliseconds([&] {
              cublasDgemmStridedBatched(blas_, 0, 0, 1000, 1000, 1000, nullptr, nullptr, 1000, 0,
                                        nullptr, 1000, 0, nullptr, memory_, 1000, 1'000'000, 5000);
            }),
            MillisecondsOf(2e9 * 5000, 10e12));
}

TEST_F(KernelTime, LightProductsTakeTheInnerSizeFromTheFirstMatrix) {
  void *a = nullptr, *d = nullptr, *operation = nullptr;
  cublasLtMatrixLayoutCreate(&a, kHalf, 500'000, 1000, 500'000);
  cublasLtMatrixLayoutCreate(&d, kHalf, 1000, 1'000'000, 1000);
  cublasLtMatmulDescCreate(&operation, 68, 0);
  const std::int32_t turned = 1;
  cublasLtMatmulDescSetAttribute(operation, 3, &turned, sizeof turned);
  EXPECT_GE(Milliseconds([&] {
              cublasLtMatmul(nullptr, operation, nullptr, nullptr, a, nullptr, a, nullptr, nullptr,
                             d, memory_, d, nullptr, nullptr, 0, stream_);
            }),
            MillisecondsOf(2e9 * 500'000, 100e12));
  cublasLtMatrixLayoutDestroy(a);
  cublasLtMatrixLayoutDestroy(d);
  cublasLtMatmulDescDestroy(operation);
}

TEST_F(KernelTime, ConvolutionsTakeTheTimeOfTheirAlgorithm) {
  cudnnHandle_t dnn = nullptr;
  cudnnTensorDescriptor_t x = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t order = nullptr;
  cudnnCreate(&dnn);
  cudnnSetStream(dnn, stream_);
  cudnnCreateTensorDescriptor(&x);
  cudnnCreateFilterDescriptor(&w);
  cudnnCreateConvolutionDescriptor(&order);
  const std::array<int, 4> sizes = {1024, 512, 64, 64};
  const std::array<int, 4> strides = {512 * 4096, 4096, 64, 1};
  const std::array<int, 4> filter = {512, 512, 3, 3};
  const std::array<int, 2> ones = {1, 1};
  cudnnSetTensorNdDescriptor(x, CUDNN_DATA_FLOAT, 4, sizes.data(), strides.data());
  cudnnSetFilterNdDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, filter.data());
  cudnnSetConvolutionNdDescriptor(order, 2, ones.data(), ones.data(), ones.data(),
                                  CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  const auto run = [&](cudnnConvolutionFwdAlgo_t algorithm) {
    return Milliseconds([&] {
      EXPECT_EQ(cudnnConvolutionForward(dnn, nullptr, x, nullptr, w, nullptr, order, algorithm,
                                        nullptr, 0, nullptr, x, memory_),
                0);
    });
  };
  constexpr double kOperations = 2.0 * 1024 * 512 * 4096 * 512 * 9;
  EXPECT_GE(run(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), kOperations / (20e12 * 0.4) * 1e3);
  EXPECT_GE(run(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED),
            kOperations / 4 / (20e12 * 0.25) * 1e3);
  cudnnDestroyTensorDescriptor(x);
  cudnnDestroyFilterDescriptor(w);
  cudnnDestroyConvolutionDescriptor(order);
  cudnnDestroy(dnn);
}

TEST_F(KernelTime, NormalizationsTakeTheTimeOfTheirMemory) {
  cudnnHandle_t dnn = nullptr;
  cudnnTensorDescriptor_t x = nullptr;
  cudnnCreate(&dnn);
  cudnnSetStream(dnn, stream_);
  cudnnCreateTensorDescriptor(&x);
  const std::array<int, 4> sizes = {1000, 1000, 100, 10};
  const std::array<int, 4> strides = {1'000'000, 1000, 10, 1};
  cudnnSetTensorNdDescriptor(x, CUDNN_DATA_FLOAT, 4, sizes.data(), strides.data());
  EXPECT_GE(Milliseconds([&] {
              cudnnBatchNormalizationForwardInference(dnn, CUDNN_BATCHNORM_SPATIAL, nullptr,
                                                      nullptr, x, nullptr, x, nullptr, x, nullptr,
                                                      nullptr, nullptr, nullptr, 0);
            }),
            2 * 4e9 / 1e12 * 1e3);
  cudnnDestroyTensorDescriptor(x);
  cudnnDestroy(dnn);
}

TEST_F(KernelTime, RecurrentLayersTakeTheTimeOfTheirProducts) {
  cudnnHandle_t dnn = nullptr;
  void *layers = nullptr, *x = nullptr;
  constexpr int kLstm = 2;
  constexpr int kSide = 1000;
  cudnnCreate(&dnn);
  cudnnSetStream(dnn, stream_);
  cudnnCreateRNNDescriptor(&layers);
  cudnnCreateRNNDataDescriptor(&x);
  cudnnSetRNNDescriptor_v8(layers, 0, kLstm, 1, 0, 0, 0, 0, 0, kSide, kSide, kSide, 2, nullptr, 0);
  cudnnSetRNNDataDescriptor(x, 0, 0, 500, 4000, kSide, nullptr, nullptr);
  EXPECT_GE(Milliseconds([&] {
              cudnnRNNForward(dnn, layers, 1, nullptr, x, nullptr, x, nullptr, nullptr, nullptr,
                              nullptr, nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, 0,
                              nullptr);
            }),
            MillisecondsOf(2.0 * 500 * 4000 * (2.0 * 4 * 2 * kSide * kSide), 20e12));
  cudnnDestroyRNNDescriptor(layers);
  cudnnDestroyRNNDataDescriptor(x);
  cudnnDestroy(dnn);
}

TEST_F(KernelTime, SolversTakeTheTimeOfTheirOperations) {
  constexpr int kSide = 20'000;
  constexpr double kCube = 1.0 * kSide * kSide * kSide;
  EXPECT_GE(Milliseconds([&] {
              cublasDtrsm_v2(blas_, 0, 0, 0, 0, kSide, 2 * kSide, nullptr, nullptr, kSide, memory_,
                             kSide);
            }),
            2 * kCube / (10e12 * 0.5) * 1e3);
  void* solver = nullptr;
  cusolverDnCreate(&solver);
  cusolverDnSetStream(solver, stream_);
  EXPECT_GE(Milliseconds([&] {
              cusolverDnSgetrf(solver, kSide, kSide, nullptr, kSide, nullptr, nullptr, nullptr);
            }),
            2 * kCube / 3 / (20e12 * 0.5) * 1e3);
  cusolverDnDestroy(solver);
}

// Each launch of a graph passes the time again.
TEST_F(KernelTime, CapturedProductsTakeTheirTimeWhenTheGraphIsLaunched) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  constexpr int kSide = 100'000;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  Product(kSide, memory_);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_GE(Milliseconds([&] {
              cudaGraphLaunch(executable, stream_);
              cudaGraphLaunch(executable, stream_);
            }),
            2 * MillisecondsOf(2.0 * kSide * kSide * kSide, 20e12));
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

// Data that was copied to the device stays known, but not where a product is written.
TEST_F(KernelTime, ProductsForgetTheirOutputAlone) {
  const std::array<int, 2> sent = {3, 4};
  auto* const numbers = static_cast<int*>(memory_);
  ASSERT_EQ(cudaMemcpy(numbers, &sent[0], sizeof(int), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(numbers + 100, &sent[1], sizeof(int), cudaMemcpyHostToDevice), cudaSuccess);
  Product(2, numbers);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  std::array<int, 2> found = {};
  ASSERT_EQ(cudaMemcpy(&found[0], numbers, sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(&found[1], numbers + 100, sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(found, (std::array<int, 2>{0, 4}));
}

// The clock without a record of its own: two readings differ by the work between them alone.
TEST_F(KernelTime, TheClockOfADeviceCanBeRead) {
  const long long begin = cudartHostAssumedTime(0);
  Product(10'000, memory_);
  const long long end = cudartHostAssumedTime(0);
  EXPECT_GE(static_cast<double>(end - begin) / 1e6, MillisecondsOf(2e12, 20e12));
  EXPECT_EQ(cudartHostAssumedTime(0), end);
  EXPECT_EQ(cudartHostAssumedTime(-1), 0);
}

TEST_F(KernelTime, LaunchesAreCounted) {
  Product(2, memory_);
  EXPECT_EQ(cudartHostCountKernels("cublasSgemm_v2"), 1);
}

}  // namespace
