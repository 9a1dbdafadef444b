// SPDX-License-Identifier: Apache-2.0
// The text of emitted programs with kernels: updates of weights.
#include "lib/training/emit/program_parts.h"

namespace tidepool::emit {

std::string_view UpdateText() {
  return R"cpp(
    // Updates
    // -------------------------------------------------------------------------------------------

    float rate = 0.01F;
    constexpr float kMomentum = 0.9F;
    // Adam (Kingma and Ba, arXiv:1412.6980).
    constexpr float kFirstDecay = 0.9F;
    constexpr float kSecondDecay = 0.999F;
    constexpr double kAdamEpsilon = 1e-12;  // inside of the root
    float adam_rate = 0;                    // of this iteration
    cudnnOpTensorDescriptor_t product = nullptr;
    constexpr int kMostNumbers = 1 << 20;  // of a call for Adam
    float* ones = nullptr;
    float* zeros = nullptr;

    void StartUpdates() {
      CHECK(cudnnCreateOpTensorDescriptor(&product));
      CHECK(cudnnSetOpTensorDescriptor(product, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT,
                                       CUDNN_PROPAGATE_NAN));
      if (!kHasAdam) return;
      constexpr std::size_t kBytes = kMostNumbers * sizeof(float);
      CHECK(cudaMalloc(reinterpret_cast<void**>(&zeros), kBytes));
      CHECK(cudaMalloc(reinterpret_cast<void**>(&ones), kBytes));
      CHECK(cudaMemset(zeros, 0, kBytes));
      CHECK(cudnnSetTensor(dnn, Describe(x_layout, {1, kMostNumbers, 1, 1}), ones, &one));
      CHECK(cudaDeviceSynchronize());
    }

    void EndUpdates() {
      CHECK(cudaFree(ones));
      CHECK(cudaFree(zeros));
      CHECK(cudnnDestroyOpTensorDescriptor(product));
    }

    // The moments begin with 0, so the first iterations take longer steps.
    void StartIteration(int iteration) {
      adam_rate = static_cast<float>(static_cast<double>(rate) *
                                     std::sqrt(1 - std::pow(kSecondDecay, iteration)) /
                                     (1 - std::pow(kFirstDecay, iteration)));
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

    // cuDNN divides by roots in batch normalisation: weight -= adam_rate x first / sqrt(second + e)
    // is the normalisation of each number by a variance of its own, added to the weight.
    [[maybe_unused]] void DescendWithAdam(int count, const void* gradient, void* weight,
                                          void* first, void* second) {
      const float fresh = 1 - kFirstDecay;
      const float fresh_square = 1 - kSecondDecay;
      const float step = -adam_rate;
      CHECK(cublasSscal(blas, count, &kFirstDecay, static_cast<float*>(first), 1));
      CHECK(cublasSaxpy(blas, count, &fresh, static_cast<const float*>(gradient), 1,
                        static_cast<float*>(first), 1));
      for (int i = 0; i < count; i += kMostNumbers) {
        const int numbers = count - i < kMostNumbers ? count - i : kMostNumbers;
        const float* g = static_cast<const float*>(gradient) + i;
        float* variance = static_cast<float*>(second) + i;
        Describe(x_layout, {1, numbers, 1, 1});
        CHECK(cudnnOpTensor(dnn, product, &fresh_square, x_layout, g, &one, x_layout, g,
                            &kSecondDecay, x_layout, variance));
        CHECK(cudnnBatchNormalizationForwardInference(
            dnn, CUDNN_BATCHNORM_PER_ACTIVATION, &step, &one, x_layout,
            static_cast<const float*>(first) + i, x_layout, static_cast<float*>(weight) + i,
            Channels(numbers), ones, zeros, zeros, variance, kAdamEpsilon));
      }
    }
  )cpp";
}

}  // namespace tidepool::emit
