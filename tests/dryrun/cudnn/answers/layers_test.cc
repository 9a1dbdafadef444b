// SPDX-License-Identifier: Apache-2.0
// Sizes of cuDNN's layers other than convolutions, as an H200 gave them to PyTorch.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

extern "C" {
int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void* handle, int mode, int operations,
                                                             void* x, void* z, void* y, void* scale,
                                                             void* activation, std::size_t* bytes);
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void* handle, int mode, int operations,
                                                         void* activation, void* x,
                                                         std::size_t* bytes);
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void* handle, int mode, int operations,
                                                      void* x, void* y, void* dy, void* dz,
                                                      void* dx, void* scale, void* activation,
                                                      std::size_t* bytes);
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
int cudnnGetRNNTempSpaceSizes(void* handle, void* descriptor, int mode, void* sequences,
                              std::size_t* work, std::size_t* reserve);
}

namespace {

constexpr std::size_t BlocksOf(std::size_t bytes) { return (bytes + 511) / 512; }

TEST(CudnnLayers, DropoutHasAGeneratorForEachThreadOfTheGpu) {
  std::size_t bytes = 0;
  EXPECT_EQ(cudnnDropoutGetStatesSize(nullptr, &bytes), 0);
  EXPECT_EQ(bytes, 6'488'064U);
}

TEST(CudnnLayers, NormalizationTakesMemoryInItsPersistentModeAlone) {
  for (const int mode : {0, 1, 2}) {
    std::size_t forward = 1, reserve = 1, backward = 1;
    cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(nullptr, mode, 0, nullptr, nullptr,
                                                             nullptr, nullptr, nullptr, &forward);
    cudnnGetBatchNormalizationTrainingExReserveSpaceSize(nullptr, mode, 0, nullptr, nullptr,
                                                         &reserve);
    cudnnGetBatchNormalizationBackwardExWorkspaceSize(
        nullptr, mode, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &backward);
    EXPECT_EQ(forward > 0, mode == 2);
    EXPECT_EQ(reserve > 0, mode == 2);
    EXPECT_EQ(backward > 0, mode == 2);
  }
}

// nn.LSTM(1500, 1500, 2, dropout=0.5) for 64 sequences of 35.
TEST(CudnnLayers, AnLstmNeedsTheMemoryOfAnH200) {
  constexpr int kLstm = 2, kSide = 1500;
  void *layers = nullptr, *x = nullptr;
  cudnnDropoutDescriptor_t dropout = nullptr;
  cudnnCreateRNNDescriptor(&layers);
  cudnnCreateRNNDataDescriptor(&x);
  cudnnCreateDropoutDescriptor(&dropout);
  cudnnSetRNNDataDescriptor(x, 0, 0, 35, 64, kSide, nullptr, nullptr);
  std::size_t work = 0, plain_reserve = 0, reserve = 0;
  cudnnSetRNNDescriptor_v8(layers, 0, kLstm, 1, 0, 0, 0, 0, 0, kSide, kSide, kSide, 2, dropout, 0);
  cudnnGetRNNTempSpaceSizes(nullptr, layers, 1, x, &work, &plain_reserve);
  cudnnSetDropoutDescriptor(dropout, nullptr, 0.5, nullptr, 0, 0);
  cudnnSetRNNDescriptor_v8(layers, 0, kLstm, 1, 0, 0, 0, 0, 0, kSide, kSide, kSide, 2, dropout, 0);
  cudnnGetRNNTempSpaceSizes(nullptr, layers, 1, x, &work, &reserve);
  EXPECT_EQ(BlocksOf(reserve), BlocksOf(148'260'256));
  EXPECT_EQ(reserve - plain_reserve, 35 * 64 * 1500 / 8);
  EXPECT_NEAR(static_cast<double>(work), 262'537'984, 0.05 * 262'537'984);
  cudnnDestroyRNNDescriptor(layers);
  cudnnDestroyRNNDataDescriptor(x);
  cudnnDestroyDropoutDescriptor(dropout);
}

}  // namespace
