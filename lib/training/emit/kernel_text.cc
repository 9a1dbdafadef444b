// SPDX-License-Identifier: Apache-2.0
// The text of emitted programs with kernels: cuDNN, cuBLAS, convolutions and products.
#include "lib/training/emit/program_parts.h"

namespace tidepool::emit {

std::string_view KernelText() {
  return R"cpp(
    // Kernels
    // -------------------------------------------------------------------------------------------

    cudnnHandle_t dnn = nullptr;
    cublasHandle_t blas = nullptr;
    // Each call sets its descriptors: cuDNN reads them when the call is queued.
    cudnnTensorDescriptor_t x_layout = nullptr;
    cudnnTensorDescriptor_t y_layout = nullptr;
    cudnnTensorDescriptor_t channel_layout = nullptr;
    cudnnFilterDescriptor_t filter_layout = nullptr;
    cudnnConvolutionDescriptor_t convolution = nullptr;
    const float one = 1;
    const float zero = 0;

    void StartKernels() {
      CHECK(cudnnCreate(&dnn));
      CHECK(cublasCreate(&blas));
      CHECK(cudnnCreateTensorDescriptor(&x_layout));
      CHECK(cudnnCreateTensorDescriptor(&y_layout));
      CHECK(cudnnCreateTensorDescriptor(&channel_layout));
      CHECK(cudnnCreateFilterDescriptor(&filter_layout));
      CHECK(cudnnCreateConvolutionDescriptor(&convolution));
    }

    void EndKernels() {
      CHECK(cudnnDestroyConvolutionDescriptor(convolution));
      CHECK(cudnnDestroyFilterDescriptor(filter_layout));
      CHECK(cudnnDestroyTensorDescriptor(channel_layout));
      CHECK(cudnnDestroyTensorDescriptor(y_layout));
      CHECK(cudnnDestroyTensorDescriptor(x_layout));
      CHECK(cublasDestroy(blas));
      CHECK(cudnnDestroy(dnn));
    }

    // Makes the next calls go to a stream.
    [[maybe_unused]] void On(int stream) {
      CHECK(cudnnSetStream(dnn, streams[stream]));
      CHECK(cublasSetStream(blas, streams[stream]));
    }

    struct Shape {
      int n, c, h, w;
    };

    cudnnTensorDescriptor_t Describe(cudnnTensorDescriptor_t layout, const Shape& shape) {
      CHECK(cudnnSetTensor4dDescriptor(layout, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, shape.n,
                                       shape.c, shape.h, shape.w));
      return layout;
    }
    [[maybe_unused]] cudnnTensorDescriptor_t Channels(int count) {
      return Describe(channel_layout, {1, count, 1, 1});
    }
    [[maybe_unused]] const float* Beta(bool adds) { return adds ? &one : &zero; }

    // Returns the address of number `first` of a tensor: of a micro-batch.
    [[maybe_unused]] void* From(void* tensor, std::int64_t first) {
      return static_cast<float*>(tensor) + first;
    }

    struct Convolution {
      Shape x;
      int k, r, s;
      int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
      int groups;

      Shape y() const {
        return {x.n, k, (x.h + 2 * pad_h - dilation_h * (r - 1) - 1) / stride_h + 1,
                (x.w + 2 * pad_w - dilation_w * (s - 1) - 1) / stride_w + 1};
      }
      void Describe() const {
        ::Describe(x_layout, x);
        ::Describe(y_layout, y());
        CHECK(cudnnSetFilter4dDescriptor(filter_layout, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, k,
                                         x.c / groups, r, s));
        CHECK(cudnnSetConvolution2dDescriptor(convolution, pad_h, pad_w, stride_h, stride_w,
                                              dilation_h, dilation_w, CUDNN_CROSS_CORRELATION,
                                              CUDNN_DATA_FLOAT));
        CHECK(cudnnSetConvolutionGroupCount(convolution, groups));
      }
    };

    // Returns the planned algorithm where this cuDNN runs it in the planned workspace, and
    // otherwise the first that fits.
    template <typename Algorithm, typename WorkspaceOf>
    Algorithm Fitting(int planned, int count, std::int64_t bytes, WorkspaceOf workspace_of) {
      for (int i = -1; i < count; ++i) {
        const Algorithm algorithm = static_cast<Algorithm>(i < 0 ? planned : i);
        std::size_t needed = 0;
        const bool is_there = workspace_of(algorithm, &needed) == CUDNN_STATUS_SUCCESS;
        if (is_there && needed <= static_cast<std::size_t>(bytes)) return algorithm;
      }
      std::fprintf(stderr, "no algorithm of a convolution fits %lld bytes of workspace\n",
                   static_cast<long long>(bytes));
      std::exit(1);
    }

    struct Workspace {
      void* memory;
      std::int64_t bytes;
      std::size_t size() const { return static_cast<std::size_t>(bytes); }
    };

    // A null bias: none.
    [[maybe_unused]] void Convolve(const Convolution& shape, int planned, const void* x,
                                   const void* w, const void* bias, void* y, bool adds,
                                   const Workspace& workspace) {
      shape.Describe();
      const auto algorithm = Fitting<cudnnConvolutionFwdAlgo_t>(
          planned, CUDNN_CONVOLUTION_FWD_ALGO_COUNT, workspace.bytes,
          [](cudnnConvolutionFwdAlgo_t candidate, std::size_t* bytes) {
            return cudnnGetConvolutionForwardWorkspaceSize(dnn, x_layout, filter_layout,
                                                           convolution, y_layout, candidate, bytes);
          });
      CHECK(cudnnConvolutionForward(dnn, &one, x_layout, x, filter_layout, w, convolution,
                                    algorithm, workspace.memory, workspace.size(), Beta(adds),
                                    y_layout, y));
      if (bias != nullptr) CHECK(cudnnAddTensor(dnn, &one, Channels(shape.k), bias, &one, y_layout, y));
    }

    [[maybe_unused]] void ConvolveWeights(const Convolution& shape, int planned, const void* x,
                                          const void* dy, void* dw, void* dbias, bool adds,
                                          const Workspace& workspace) {
      shape.Describe();
      const auto algorithm = Fitting<cudnnConvolutionBwdFilterAlgo_t>(
          planned, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, workspace.bytes,
          [](cudnnConvolutionBwdFilterAlgo_t candidate, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardFilterWorkspaceSize(
                dnn, x_layout, y_layout, convolution, filter_layout, candidate, bytes);
          });
      CHECK(cudnnConvolutionBackwardFilter(dnn, &one, x_layout, x, y_layout, dy, convolution,
                                           algorithm, workspace.memory, workspace.size(),
                                           Beta(adds), filter_layout, dw));
      if (dbias == nullptr) return;
      CHECK(cudnnConvolutionBackwardBias(dnn, &one, y_layout, dy, Beta(adds), Channels(shape.k),
                                         dbias));
    }

    [[maybe_unused]] void ConvolveData(const Convolution& shape, int planned, const void* w,
                                       const void* dy, void* dx, bool adds,
                                       const Workspace& workspace) {
      shape.Describe();
      const auto algorithm = Fitting<cudnnConvolutionBwdDataAlgo_t>(
          planned, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, workspace.bytes,
          [](cudnnConvolutionBwdDataAlgo_t candidate, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardDataWorkspaceSize(
                dnn, filter_layout, y_layout, convolution, x_layout, candidate, bytes);
          });
      CHECK(cudnnConvolutionBackwardData(dnn, &one, filter_layout, w, y_layout, dy, convolution,
                                         algorithm, workspace.memory, workspace.size(), Beta(adds),
                                         x_layout, dx));
    }

    // A transposed convolution is the gradient of a convolution from its output to its input.
    // `shape` is that convolution's.
    [[maybe_unused]] void ConvolveTransposed(const Convolution& shape, int planned, const void* x,
                                             const void* w, const void* bias, void* y, bool adds,
                                             const Workspace& workspace) {
      ConvolveData(shape, planned, w, x, y, adds, workspace);
      if (bias == nullptr) return;
      CHECK(cudnnAddTensor(dnn, &one, Channels(shape.x.c), bias, &one, x_layout, y));
    }

    [[maybe_unused]] void ConvolveTransposedWeights(const Convolution& shape, int planned,
                                                    const void* x, const void* dy, void* dw,
                                                    void* dbias, bool adds,
                                                    const Workspace& workspace) {
      ConvolveWeights(shape, planned, dy, x, dw, nullptr, adds, workspace);
      if (dbias == nullptr) return;
      CHECK(cudnnConvolutionBackwardBias(dnn, &one, x_layout, dy, Beta(adds), Channels(shape.x.c),
                                         dbias));
    }

    [[maybe_unused]] void ConvolveTransposedData(const Convolution& shape, int planned,
                                                 const void* w, const void* dy, void* dx, bool adds,
                                                 const Workspace& workspace) {
      Convolve(shape, planned, dy, w, nullptr, dx, adds, workspace);
    }

    // Linear layers: rows of x by a weight of [inputs, outputs]. cuBLAS counts by columns, so it
    // gets the transposes.
    struct Linear {
      int rows, inputs, outputs;
    };

    [[maybe_unused]] void Multiply(const Linear& shape, const void* x, const void* w,
                                   const void* bias, void* y) {
      CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, shape.outputs, shape.rows, shape.inputs,
                        &one, static_cast<const float*>(w), shape.outputs,
                        static_cast<const float*>(x), shape.inputs, &zero, static_cast<float*>(y),
                        shape.outputs));
      if (bias == nullptr) return;
      CHECK(cudnnAddTensor(dnn, &one, Channels(shape.outputs), bias, &one,
                           Describe(y_layout, {shape.rows, shape.outputs, 1, 1}), y));
    }

    [[maybe_unused]] void MultiplyWeights(const Linear& shape, const void* x, const void* dy,
                                          void* dw, void* dbias, bool adds) {
      CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, shape.outputs, shape.inputs, shape.rows,
                        &one, static_cast<const float*>(dy), shape.outputs,
                        static_cast<const float*>(x), shape.inputs, Beta(adds),
                        static_cast<float*>(dw), shape.outputs));
      if (dbias == nullptr) return;
      CHECK(cudnnConvolutionBackwardBias(dnn, &one,
                                         Describe(y_layout, {shape.rows, shape.outputs, 1, 1}), dy,
                                         Beta(adds), Channels(shape.outputs), dbias));
    }

    [[maybe_unused]] void MultiplyData(const Linear& shape, const void* w, const void* dy, void* dx,
                                       bool adds) {
      CHECK(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, shape.inputs, shape.rows, shape.outputs,
                        &one, static_cast<const float*>(w), shape.outputs,
                        static_cast<const float*>(dy), shape.outputs, Beta(adds),
                        static_cast<float*>(dx), shape.inputs));
    }
  )cpp";
}

}  // namespace tidepool::emit
