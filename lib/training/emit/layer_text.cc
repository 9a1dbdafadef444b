// SPDX-License-Identifier: Apache-2.0
// The text of emitted programs with kernels: all layers but convolutions and products.
#include "lib/training/emit/program_parts.h"

namespace tidepool::emit {

std::string_view LayerText() {
  return R"cpp(
    // Layers besides products
    // ---------------------------------------------------------------------------

    cudnnPoolingDescriptor_t pooling = nullptr;
    cudnnActivationDescriptor_t activation = nullptr;
    cudnnLRNDescriptor_t response = nullptr;
    // Each layer with dropout has random numbers of its own, so the order of layers changes
    // nothing.
    cudnnDropoutDescriptor_t dropouts[kDropouts > 0 ? kDropouts : 1];
    void* random_states = nullptr;
    constexpr double kEpsilon = 1e-5;       // of batch normalisation
    constexpr double kRunningFactor = 0.1;  // of its running statistics
    constexpr float kDropout = 0.5F;        // the share of numbers that dropout sets to 0
    constexpr unsigned long long kSeed = 1;
    // Local response normalisation of Krizhevsky et al. 2012: channels, alpha, beta, k.
    constexpr unsigned kResponseChannels = 5;
    constexpr double kResponseAlpha = 1e-4;
    constexpr double kResponseBeta = 0.75;
    constexpr double kResponseK = 2;

    void StartLayers() {
      CHECK(cudnnCreatePoolingDescriptor(&pooling));
      CHECK(cudnnCreateActivationDescriptor(&activation));
      CHECK(cudnnCreateLRNDescriptor(&response));
      CHECK(cudnnSetLRNDescriptor(response, kResponseChannels, kResponseAlpha, kResponseBeta,
                                  kResponseK));
      std::size_t bytes = 0;
      CHECK(cudnnDropoutGetStatesSize(dnn, &bytes));
      if (kDropouts > 0) CHECK(cudaMalloc(&random_states, kDropouts * bytes));
      for (int i = 0; i < kDropouts; ++i) {
        CHECK(cudnnCreateDropoutDescriptor(&dropouts[i]));
        CHECK(cudnnSetDropoutDescriptor(dropouts[i], dnn, kDropout,
                                        static_cast<char*>(random_states) + i * bytes, bytes,
                                        kSeed + static_cast<unsigned>(i)));
      }
      CHECK(cudaDeviceSynchronize());
    }

    void EndLayers() {
      for (int i = 0; i < kDropouts; ++i) CHECK(cudnnDestroyDropoutDescriptor(dropouts[i]));
      CHECK(cudaFree(random_states));
      CHECK(cudnnDestroyLRNDescriptor(response));
      CHECK(cudnnDestroyActivationDescriptor(activation));
      CHECK(cudnnDestroyPoolingDescriptor(pooling));
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
      int y_h, y_w;

      void Describe() const {
        ::Describe(x_layout, x);
        ::Describe(y_layout, {x.n, x.c, y_h, y_w});
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

    // The mask says which numbers stay.
    struct Mask {
      void* memory;
      std::int64_t bytes;
      std::size_t size() const { return static_cast<std::size_t>(bytes); }
    };

    [[maybe_unused]] void Drop(int layer, const Shape& shape, const void* x, void* y,
                               const Mask& mask) {
      Describe(x_layout, shape);
      std::size_t needed = 0;
      CHECK(cudnnDropoutGetReserveSpaceSize(x_layout, &needed));
      if (needed > mask.size()) {
        std::fprintf(stderr, "dropout needs %zu bytes for its mask, and the graph has %zu\n",
                     needed, mask.size());
        std::exit(1);
      }
      CHECK(cudnnDropoutForward(dnn, dropouts[layer], x_layout, x, x_layout, y, mask.memory,
                                mask.size()));
    }

    [[maybe_unused]] void DropData(int layer, const Shape& shape, const void* dy, void* dx,
                                   const Mask& mask) {
      Describe(x_layout, shape);
      CHECK(cudnnDropoutBackward(dnn, dropouts[layer], x_layout, dy, x_layout, dx, mask.memory,
                                 mask.size()));
    }

    [[maybe_unused]] void NormalizeResponse(const Shape& shape, const void* x, void* y) {
      Describe(x_layout, shape);
      CHECK(cudnnLRNCrossChannelForward(dnn, response, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, x_layout,
                                        x, &zero, x_layout, y));
    }

    [[maybe_unused]] void NormalizeResponseData(const Shape& shape, const void* y, const void* dy,
                                                const void* x, void* dx, bool adds) {
      Describe(x_layout, shape);
      CHECK(cudnnLRNCrossChannelBackward(dnn, response, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one,
                                         x_layout, y, x_layout, dy, x_layout, x, Beta(adds),
                                         x_layout, dx));
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

    // Images in memory: number `first` is the first; the other members are the numbers from one
    // sample, channel and row to the next.
    struct Images {
      void* memory;
      int sample, channel, row, first;
    };

    [[maybe_unused]] void Clear(int stream, void* memory, std::int64_t bytes) {
      CHECK(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), streams[stream]));
    }

    // Copies or adds images to images: parts of a concatenation that are cropped.
    [[maybe_unused]] void Crop(const Shape& shape, const Images& from, const Images& to, bool adds) {
      const auto describe = [&](cudnnTensorDescriptor_t layout, const Images& images) {
        CHECK(cudnnSetTensor4dDescriptorEx(layout, CUDNN_DATA_FLOAT, shape.n, shape.c, shape.h,
                                           shape.w, images.sample, images.channel, images.row, 1));
      };
      describe(x_layout, from);
      describe(y_layout, to);
      CHECK(cudnnTransformTensor(dnn, &one, x_layout,
                                 static_cast<const float*>(from.memory) + from.first, Beta(adds),
                                 y_layout, static_cast<float*>(to.memory) + to.first));
    }
  )cpp";
}

}  // namespace tidepool::emit
