// SPDX-License-Identifier: Apache-2.0
#include "lib/emit/program_parts.h"

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
    cudnnPoolingDescriptor_t pooling = nullptr;
    cudnnActivationDescriptor_t activation = nullptr;
    float rate = 0.01F;
    constexpr float kMomentum = 0.9F;
    constexpr double kEpsilon = 1e-5;       // of batch normalisation
    constexpr double kRunningFactor = 0.1;  // of its running statistics
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
      CHECK(cudnnCreatePoolingDescriptor(&pooling));
      CHECK(cudnnCreateActivationDescriptor(&activation));
    }

    void EndKernels() {
      CHECK(cudnnDestroyActivationDescriptor(activation));
      CHECK(cudnnDestroyPoolingDescriptor(pooling));
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
                                   const void* w, const void* bias, void* y,
                                   const Workspace& workspace) {
      shape.Describe();
      const auto algorithm = Fitting<cudnnConvolutionFwdAlgo_t>(
          planned, CUDNN_CONVOLUTION_FWD_ALGO_COUNT, workspace.bytes,
          [](cudnnConvolutionFwdAlgo_t candidate, std::size_t* bytes) {
            return cudnnGetConvolutionForwardWorkspaceSize(dnn, x_layout, filter_layout,
                                                           convolution, y_layout, candidate, bytes);
          });
      CHECK(cudnnConvolutionForward(dnn, &one, x_layout, x, filter_layout, w, convolution,
                                    algorithm, workspace.memory, workspace.size(), &zero, y_layout,
                                    y));
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

    [[maybe_unused]] void Activate(cudnnActivationMode_t mode, const Shape& shape, const void* x,
                                   void* y) {
      CHECK(cudnnSetActivationDescriptor(activation, mode, CUDNN_PROPAGATE_NAN, 0));
      Describe(x_layout, shape);
      CHECK(cudnnActivationForward(dnn, activation, &one, x_layout, x, &zero, x_layout, y));
    }

    [[maybe_unused]] void ActivateData(cudnnActivationMode_t mode, const Shape& shape,
                                       const void* y, const void* dy, const void* x, void* dx,
                                       bool adds) {
      CHECK(cudnnSetActivationDescriptor(activation, mode, CUDNN_PROPAGATE_NAN, 0));
      Describe(x_layout, shape);
      CHECK(cudnnActivationBackward(dnn, activation, &one, x_layout, y, x_layout, dy, x_layout, x,
                                    Beta(adds), x_layout, dx));
    }

    struct Pooling {
      cudnnPoolingMode_t mode;
      Shape x;
      int r, s, pad_h, pad_w, stride_h, stride_w;

      void Describe() const {
        ::Describe(x_layout, x);
        ::Describe(y_layout, {x.n, x.c, (x.h + 2 * pad_h - r) / stride_h + 1,
                              (x.w + 2 * pad_w - s) / stride_w + 1});
        CHECK(cudnnSetPooling2dDescriptor(pooling, mode, CUDNN_PROPAGATE_NAN, r, s, pad_h, pad_w,
                                          stride_h, stride_w));
      }
    };

    [[maybe_unused]] void Pool(const Pooling& shape, const void* x, void* y) {
      shape.Describe();
      CHECK(cudnnPoolingForward(dnn, pooling, &one, x_layout, x, &zero, y_layout, y));
    }

    // An average needs neither x nor y: any address will do.
    [[maybe_unused]] void PoolData(const Pooling& shape, const void* y, const void* dy,
                                   const void* x, void* dx, bool adds) {
      shape.Describe();
      CHECK(cudnnPoolingBackward(dnn, pooling, &one, y_layout, y, y_layout, dy, x_layout, x,
                                 Beta(adds), x_layout, dx));
    }

    // Statistics are the means, and then the deviations (inverse), or the variances of running
    // ones.
    [[maybe_unused]] void Normalize(const Shape& shape, const void* x, const void* scale,
                                    const void* shift, void* y, void* statistics, void* running) {
      Describe(x_layout, shape);
      const auto second = [&](void* first) { return static_cast<float*>(first) + shape.c; };
      CHECK(cudnnBatchNormalizationForwardTraining(
          dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, x_layout, x, x_layout, y, Channels(shape.c),
          scale, shift, kRunningFactor, running, second(running), kEpsilon, statistics,
          second(statistics)));
    }

    [[maybe_unused]] void NormalizeGradients(const Shape& shape, const void* x, const void* dy,
                                             void* dx, bool adds_data, const void* scale,
                                             const void* statistics, void* dscale, void* dshift,
                                             bool adds_weights) {
      Describe(x_layout, shape);
      CHECK(cudnnBatchNormalizationBackward(
          dnn, CUDNN_BATCHNORM_SPATIAL, &one, Beta(adds_data), &one, Beta(adds_weights), x_layout,
          x, x_layout, dy, x_layout, dx, Channels(shape.c), scale, dscale, dshift, kEpsilon,
          statistics, static_cast<const float*>(statistics) + shape.c));
    }

    [[maybe_unused]] void Softmax(cudnnSoftmaxAlgorithm_t kind, const Shape& shape, const void* x,
                                  void* y) {
      Describe(x_layout, shape);
      CHECK(cudnnSoftmaxForward(dnn, kind, CUDNN_SOFTMAX_MODE_CHANNEL, &one, x_layout, x, &zero,
                                x_layout, y));
    }

    [[maybe_unused]] void SoftmaxData(cudnnSoftmaxAlgorithm_t kind, const Shape& shape,
                                      const void* y, const void* dy, void* dx, bool adds) {
      Describe(x_layout, shape);
      CHECK(cudnnSoftmaxBackward(dnn, kind, CUDNN_SOFTMAX_MODE_CHANNEL, &one, x_layout, y, x_layout,
                                 dy, Beta(adds), x_layout, dx));
    }

    // Rows of `columns` numbers, each `pitch` numbers after the one before, from number `first` on.
    struct Rows {
      void* memory;
      int pitch;
      int first;
    };

    // Copies or adds rows to rows: sums of tensors, and parts of a concatenation.
    [[maybe_unused]] void Transform(int rows, int columns, const Rows& from, const Rows& to,
                                    bool adds) {
      const auto describe = [&](cudnnTensorDescriptor_t layout, int pitch) {
        CHECK(cudnnSetTensor4dDescriptorEx(layout, CUDNN_DATA_FLOAT, rows, columns, 1, 1, pitch, 1,
                                           1, 1));
      };
      describe(x_layout, from.pitch);
      describe(y_layout, to.pitch);
      CHECK(cudnnTransformTensor(dnn, &one, x_layout,
                                 static_cast<const float*>(from.memory) + from.first, Beta(adds),
                                 y_layout, static_cast<float*>(to.memory) + to.first));
    }

    [[maybe_unused]] void Descend(int count, const void* gradient, void* weight) {
      const float step = -rate;
      CHECK(cublasSaxpy(blas, count, &step, static_cast<const float*>(gradient), 1,
                        static_cast<float*>(weight), 1));
    }

    [[maybe_unused]] void DescendWithMomentum(int count, const void* gradient, void* weight,
                                              void* momentum) {
      CHECK(cublasSscal(blas, count, &kMomentum, static_cast<float*>(momentum), 1));
      CHECK(cublasSaxpy(blas, count, &one, static_cast<const float*>(gradient), 1,
                        static_cast<float*>(momentum), 1));
      Descend(count, momentum, weight);
    }

    // The loss is the mean of -log(p) of the labels, and y is log(p). So its gradient by y is a
    // constant of the labels, which the host knows, and it reads y to tell the loss.
    [[maybe_unused]] void Lose(int stream, const Pass& pass, std::int64_t samples, const void* y,
                               void* dy) {
      const std::int64_t sample_bytes =
          kClasses * kPositions * static_cast<std::int64_t>(sizeof(float));
      const std::int64_t first = pass.first * sample_bytes;
      CopyIn(stream, dy, Host(kTargetsAt + first), samples * sample_bytes);
      CopyOut(stream, Host(kResultsAt + first), y, samples * sample_bytes);
    }

    // Data
    // ----------------------------------------------------------------------------------------------

    // Returns a number of -1 to 1 that is the same for the same arguments (splitmix64, Steele et
    // al., OOPSLA 2014).
    double Noise(std::uint64_t a, std::uint64_t b) {
      std::uint64_t z = a * 0x9e3779b97f4a7c15U + b * 0xbf58476d1ce4e5b9U + 0x94d049bb133111ebU;
      z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
      z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
      z ^= z >> 31U;
      return static_cast<double>(z >> 11U) / static_cast<double>(1ULL << 52U) - 1;
    }

    // Fills memory with numbers of a mean of 0 and this deviation, or with one value.
    [[maybe_unused]] void FillNoise(void* memory, std::int64_t count, double deviation, unsigned seed) {
      for (std::int64_t i = 0; i < count; ++i) {
        const double number = deviation * std::sqrt(3.0) * Noise(seed, static_cast<std::uint64_t>(i));
        static_cast<float*>(memory)[i] = static_cast<float>(number);
      }
    }
    [[maybe_unused]] void Fill(void* memory, std::int64_t count, float value) {
      for (std::int64_t i = 0; i < count; ++i) static_cast<float*>(memory)[i] = value;
    }

    // Writes the samples of a batch, and the label of each position. REPLACE THIS BY YOUR DATA.
    // Here a sample is the pattern of its label and noise.
    void LoadBatch(int iteration, float* inputs, std::int32_t* labels) {
      for (std::int64_t sample = 0; sample < kBatch; ++sample) {
        const std::uint64_t number = static_cast<std::uint64_t>(iteration * kBatch + sample);
        for (std::int64_t position = 0; position < kPositions; ++position) {
          const double place = (Noise(number, ~static_cast<std::uint64_t>(position)) + 1) / 2;
          labels[sample * kPositions + position] = static_cast<std::int32_t>(place * kClasses);
        }
        const std::uint64_t label = static_cast<std::uint64_t>(labels[sample * kPositions]);
        for (std::int64_t i = 0; i < kInputs; ++i) {
          const std::uint64_t element = static_cast<std::uint64_t>(i);
          inputs[sample * kInputs + i] =
              static_cast<float>(Noise(label + 1000003, element) + 0.5 * Noise(number, element));
        }
      }
    }

    void StartBatch(int iteration) {
      const std::int32_t* labels = static_cast<std::int32_t*>(Host(kLabelsAt));
      LoadBatch(iteration, static_cast<float*>(Host(kInputAt)),
                static_cast<std::int32_t*>(Host(kLabelsAt)));
      float* targets = static_cast<float*>(Host(kTargetsAt));
      Fill(targets, kBatch * kClasses * kPositions, 0);
      for (std::int64_t i = 0; i < kBatch * kPositions; ++i) {
        const std::int64_t sample = i / kPositions;
        const std::int64_t at = (sample * kClasses + labels[i]) * kPositions + i % kPositions;
        targets[at] = -1 / static_cast<float>(kBatch * kPositions);
      }
    }

    double Loss() {
      const std::int32_t* labels = static_cast<std::int32_t*>(Host(kLabelsAt));
      const float* results = static_cast<float*>(Host(kResultsAt));
      double sum = 0;
      for (std::int64_t i = 0; i < kBatch * kPositions; ++i) {
        const std::int64_t sample = i / kPositions;
        sum -= static_cast<double>(
            results[(sample * kClasses + labels[i]) * kPositions + i % kPositions]);
      }
      return sum / static_cast<double>(kBatch * kPositions);
    }
  )cpp";
}

std::string_view KernelMainText() {
  return R"cpp(
    int main(int argc, char** argv) {
      const int iterations = argc > 1 ? std::atoi(argv[1]) : 20;
      if (argc > 2) rate = static_cast<float>(std::atof(argv[2]));
      if (!Start()) return 2;
      StartKernels();
      FillHomes();
      for (int iteration = 1; iteration <= iterations; ++iteration) {
        StartBatch(iteration);
        Iterate();
        CHECK(cudaDeviceSynchronize());
        std::printf("iteration %d loss %.9g\n", iteration, Loss());
      }
      EndKernels();
      End();
      return 0;
    }
  )cpp";
}

}  // namespace tidepool::emit
