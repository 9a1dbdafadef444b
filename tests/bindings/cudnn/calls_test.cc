// SPDX-License-Identifier: Apache-2.0
// Sequences of calls: limits, layers, changed descriptors, faults, threads, streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "dryrun/runtime/cudart/control.h"
#include "tests/bindings/cudnn/wrapped.h"

namespace tidepool::test {
namespace {

constexpr LayerShape kSmall = {.n = 8, .c = 2, .h = 4, .w = 4, .k = 2};

// Runs a layer with the plan of a look-up, and returns whether the output is right.
template <typename Handle>
bool IsRight(Handle handle, const Layer& layer, int algorithm, std::size_t workspace_bytes) {
  LayerData whole(layer);
  LayerData divided(layer);
  cudnnHandle_t plain = nullptr;
  Must(::cudnnCreate(&plain));
  Must(Convolve(plain, layer, Direction::kForward, 0, whole, {}, 0));
  const cudnnStatus_t status =
      Convolve(handle, layer, Direction::kForward, algorithm, divided, {}, workspace_bytes);
  const bool is_right = status == CUDNN_STATUS_SUCCESS && divided.y.Get() == whole.y.Get();
  ::cudnnDestroy(plain);
  return is_right;
}

using CudnnCallsTest = WrappedTest;

TEST_F(CudnnCallsTest, TheLookUpNamesThePlanItsTimeAndItsWorkspace) {
  Open({{"limit", "2000"}});
  const Layer layer(kSmall);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_GE(looked.algorithm, 1 << 20);
  EXPECT_EQ(looked.workspace_bytes, 2000U);
  EXPECT_FLOAT_EQ(looked.milliseconds, 4 * 0.21F);
  EXPECT_EQ(looked.count, 3);  // cuDNN's own two come after it
  std::size_t bytes = 0;
  ASSERT_EQ(cudnnGetConvolutionForwardWorkspaceSize(
                handle_, layer.x, layer.w, layer.convolution, layer.y,
                static_cast<cudnnConvolutionFwdAlgo_t>(looked.algorithm), &bytes),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(bytes, 2000U);
}

TEST_F(CudnnCallsTest, TheBufferOfFindExIsTheLimit) {
  Open({});
  const Layer layer(kSmall);
  LayerData data(layer);
  cudnnConvolutionFwdAlgoPerf_t result = {};
  int count = 0;
  for (const std::size_t given :
       {std::size_t{0}, std::size_t{1000}, std::size_t{4999}, std::size_t{8000}}) {
    ASSERT_EQ(cudnnFindConvolutionForwardAlgorithmEx(
                  handle_, layer.x, data.x.get(), layer.w, data.w.get(), layer.convolution, layer.y,
                  data.y.get(), 1, &count, &result, data.workspace.get(), given),
              CUDNN_STATUS_SUCCESS);
    EXPECT_LE(result.memory, given);
    EXPECT_TRUE(IsRight(handle_, layer, static_cast<int>(result.algo), result.memory));
  }
  EXPECT_EQ(result.memory, 8000U);
  EXPECT_EQ(Statistics().measured, 4);  // 1, 2, 4 and 8, once
}

TEST_F(CudnnCallsTest, AlgorithmsOfCudnnRunAsTheyAre) {
  Open({});
  const Layer layer(kSmall);
  EXPECT_TRUE(IsRight(handle_, layer, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0));
  EXPECT_EQ(Statistics().convolutions, 0);
}

TEST_F(CudnnCallsTest, ASmallerWorkspaceThanPlannedFallsBack) {
  Open({{"limit", "4000"}});
  const Layer layer(kSmall);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(looked.workspace_bytes, 4000U);
  EXPECT_TRUE(IsRight(handle_, layer, looked.algorithm, 3999));
  EXPECT_TRUE(IsRight(handle_, layer, looked.algorithm, 0));
  EXPECT_EQ(Statistics().fallbacks, 2);
}

TEST_F(CudnnCallsTest, ALimitOfZeroRunsWithoutAWorkspace) {
  Open({{"limit", "0"}});
  const Layer layer(kSmall);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(looked.workspace_bytes, 0U);
  EXPECT_TRUE(IsRight(handle_, layer, looked.algorithm, 0));
}

TEST_F(CudnnCallsTest, LayersOfOneShapeAreMeasuredOnce) {
  Open({{"policy", "all"}});
  const Layer one(kSmall);
  const Layer other(kSmall);
  LookUp(handle_, one, Direction::kForward, CudnnLayer("one"));
  LookUp(handle_, other, Direction::kForward, CudnnLayer("other"));
  EXPECT_EQ(Statistics().measured, 8);
  EXPECT_EQ(Statistics().kernels, 2);
}

// The batch of the last iteration of an epoch is smaller.
TEST_F(CudnnCallsTest, OtherDescriptorsThanThoseOfTheLookUpArePlannedAnew) {
  Open({{"limit", "2000"}});
  Layer layer(kSmall);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  layer.SetBatch(3);
  EXPECT_TRUE(IsRight(handle_, layer, looked.algorithm, looked.workspace_bytes));
  EXPECT_EQ(Statistics().changed, 1);
  // Under the id of a layer, another shape takes the place of the first.
  LookUp(handle_, layer, Direction::kForward, 7);
  layer.SetBatch(5);
  const Looked again = LookUp(handle_, layer, Direction::kForward, 7);
  EXPECT_TRUE(IsRight(handle_, layer, again.algorithm, again.workspace_bytes));
  EXPECT_EQ(Statistics().changed, 2);
  EXPECT_EQ(Statistics().kernels, 2);
}

TEST_F(CudnnCallsTest, BadArgumentsAreErrors) {
  Open({});
  const Layer layer(kSmall);
  LayerData data(layer);
  const int unknown = (1 << 20) + 77;
  EXPECT_EQ(Convolve(handle_, layer, Direction::kForward, unknown, data, {}, 0),
            CUDNN_STATUS_BAD_PARAM);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(Convolve(handle_, layer, Direction::kData, looked.algorithm, data, {}, 0),
            CUDNN_STATUS_BAD_PARAM);
  int count = 0;
  EXPECT_NE(cudnnGetConvolutionForwardAlgorithm_v7(handle_, layer.x, layer.w, layer.convolution,
                                                   layer.y, 0, &count, nullptr),
            CUDNN_STATUS_SUCCESS);
  EXPECT_NE(cudnnConvolutionForward(CudnnHandle(), nullptr, nullptr, nullptr, nullptr, nullptr,
                                    nullptr, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, nullptr, 0, nullptr,
                                    nullptr, nullptr),
            CUDNN_STATUS_SUCCESS);
  EXPECT_NE(tidepoolCudnnSetOption("policy", "sometimes"), CUDNN_STATUS_SUCCESS);
  EXPECT_NE(tidepoolCudnnSetOption("polcy", "all"), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnCallsTest, ADestroyedHandleIsRefused) {
  Open({});
  const Layer layer(kSmall);
  LayerData data(layer);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  const CudnnHandle gone = handle_;
  Close();
  EXPECT_EQ(Convolve(gone, layer, Direction::kForward, looked.algorithm, data, {}, 0),
            CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(LookUp(gone, layer, Direction::kForward).status, CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cudnnSetStream(gone, nullptr), CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cudnnDestroy(gone), CUDNN_STATUS_NOT_INITIALIZED);
  TidepoolCudnnStatistics statistics = {};
  EXPECT_EQ(tidepoolCudnnGetStatistics(gone, &statistics), CUDNN_STATUS_NOT_INITIALIZED);
}

// Half data may run by an algorithm that computes in float, which has FFTs.
TEST_F(CudnnCallsTest, HalfArithmeticTakesMorePreciseAlgorithms) {
  cudnnHostSetTable(nullptr);
  Open({});
  const LayerShape shape = {.n = 8,
                            .c = 16,
                            .h = 27,
                            .w = 27,
                            .k = 16,
                            .r = 5,
                            .s = 5,
                            .pad = 2,
                            .type = CUDNN_DATA_HALF,
                            .compute_type = CUDNN_DATA_HALF};
  const Layer layer(shape);
  EXPECT_GT(LookUp(handle_, layer, Direction::kForward).count, 1);
  Close();
  // Float arithmetic alone: none of cuDNN's own algorithms for the program's arithmetic is left.
  Open({{"precision", "PSEUDO_HALF"}});
  EXPECT_EQ(LookUp(handle_, layer, Direction::kForward).count, 1);
}

// The answer of all sizes from few measurements: 7 samples have room for the fast algorithm.
TEST_F(CudnnCallsTest, AnAdaptivePolicyMeasuresFewMicroBatches) {
  const Layer layer({.n = 21, .c = 2, .h = 4, .w = 4, .k = 2});
  Open({{"policy", "all"}, {"limit", "7000"}});
  const Looked all = LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(Statistics().measured, 21);
  Close();
  Open({{"policy", "adaptive"}});
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_FLOAT_EQ(looked.milliseconds, all.milliseconds);
  EXPECT_EQ(looked.workspace_bytes, 7000U);
  EXPECT_LE(Statistics().measured, 9);
  EXPECT_TRUE(IsRight(handle_, layer, looked.algorithm, looked.workspace_bytes));
  EXPECT_EQ(Statistics().divided, 1);
  Close();
  Open({{"limit", "100000"}});
  LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(Statistics().measured, 1);
}

// Algorithm 1 runs at most 3 samples, so a look-up of the whole batch does not know it.
TEST_F(CudnnCallsTest, AnAdaptivePolicyFindsAlgorithmsOfSmallBatches) {
  std::string csv = "pass,layer,samples,algorithm,milliseconds,workspace_bytes\n";
  for (int n = 1; n <= 12; ++n) {
    const std::string samples = std::to_string(n);
    csv += "forward,*," + samples + ",0," + samples + ",0\n";
    if (n <= 3) csv += "forward,*," + samples + ",1,0." + samples + ",0\n";
  }
  Must(cudnnHostSetTable(csv.c_str()) == 1);
  const Layer layer({.n = 12, .c = 2, .h = 4, .w = 4, .k = 2});
  Open({{"policy", "all"}});
  const Looked all = LookUp(handle_, layer, Direction::kForward);
  EXPECT_FLOAT_EQ(all.milliseconds, 1.2F);
  Close();
  Open({{"policy", "adaptive"}});
  EXPECT_FLOAT_EQ(LookUp(handle_, layer, Direction::kForward).milliseconds, 1.2F);
  EXPECT_LT(Statistics().measured, 8);
}

// Rows that are no measurements do not count.
TEST_F(CudnnCallsTest, BrokenMeasurementsAreLeftOut) {
  const std::string header = "pass,layer,samples,algorithm,milliseconds,workspace_bytes\n";
  const Layer layer(kSmall);
  // Only micro-batches of 2 have a usable row.
  Must(cudnnHostSetTable((header + "forward,*,8,0,-5,0\n"
                                   "forward,*,8,4,inf,0\n"
                                   "forward,*,4,1,1,4611686018427387904\n"
                                   "forward,*,2,0,0.5,0\n"
                                   "forward,*,1,1,1e30,0\n"
                                   "forward,*,1,2,0.001,-1\n")
                             .c_str()) == 1);
  Open({});
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_FLOAT_EQ(looked.milliseconds, 4 * 0.5F);
  EXPECT_EQ(looked.workspace_bytes, 0U);
  EXPECT_EQ(looked.count, 1);
  EXPECT_TRUE(IsRight(handle_, layer, looked.algorithm, 0));
  EXPECT_EQ(Statistics().divided, 1);
}

// Without a usable row the answer is cuDNN's own.
TEST_F(CudnnCallsTest, ALayerWithoutMeasurementsIsLeftToCudnn) {
  Must(cudnnHostSetTable("pass,layer,samples,algorithm,milliseconds,workspace_bytes\n"
                         "forward,*,3,0,1,0\n"
                         "forward,*,8,1,1,4611686018427387904\n") == 1);
  Open({});
  const Layer layer(kSmall);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(looked.status, CUDNN_STATUS_SUCCESS);
  EXPECT_LT(looked.algorithm, 1 << 20);
  EXPECT_EQ(Statistics().kernels, 0);
}

// Fused convolutions take algorithms of the forward pass.
TEST_F(CudnnCallsTest, AFusedConvolutionIsDividedToo) {
  Open({{"limit", "2000"}});
  const Layer layer(kSmall);
  LayerData data(layer);
  DeviceNumbers bias(CUDNN_DATA_FLOAT, 2);
  bias.Set({3, -2});
  cudnnTensorDescriptor_t channels = nullptr;
  Must(cudnnCreateTensorDescriptor(&channels));
  Must(cudnnSetTensor4dDescriptor(channels, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 1, 1));
  cudnnActivationDescriptor_t activation = nullptr;
  Must(cudnnCreateActivationDescriptor(&activation));
  Must(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
  const float one = 1;
  const float minus = -1;
  const auto run = [&](auto handle, cudnnTensorDescriptor_t z, int algorithm) {
    data.y.Set(WholeNumbers(layer.y_count, 3));
    return cudnnConvolutionBiasActivationForward(
        handle, &one, layer.x, data.x.get(), layer.w, data.w.get(), layer.convolution,
        static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), data.workspace.get(), 2000, &minus, z,
        data.y.get(), channels, bias.get(), activation, layer.y, data.y.get());
  };
  cudnnHandle_t plain = nullptr;
  Must(::cudnnCreate(&plain));
  Must(run(plain, layer.y, 0));
  const std::vector<double> whole = data.y.Get();
  ASSERT_EQ(run(handle_, layer.y, LookUp(handle_, layer, Direction::kForward).algorithm),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(data.y.Get(), whole);
  EXPECT_EQ(Statistics().divided, 1);
  ASSERT_EQ(run(handle_, layer.y, 0), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(data.y.Get(), whole);
  const Layer other({.n = 4, .c = 2, .h = 4, .w = 4, .k = 2});
  EXPECT_EQ(run(handle_, other.y, LookUp(handle_, layer, Direction::kForward).algorithm),
            CUDNN_STATUS_NOT_SUPPORTED);
  Must(::cudnnDestroy(plain));
  Must(cudnnDestroyActivationDescriptor(activation));
  Must(cudnnDestroyTensorDescriptor(channels));
}

// Each call of cuDNN fails once while a layer is looked up and run. The program gets an error or
// the right numbers, nothing is lost, and afterwards all is well.
class CudnnFaultsTest : public WrappedTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(CudnnFaultsTest, EveryCallMayFailOnce) {
  const std::string kind = GetParam();
  const bool has_total = kind == "wd" || kind == "shared";
  for (int n = 1; n < 1000; ++n) {
    for (const auto& [name, value] : std::vector<std::pair<const char*, std::string>>{
             {"limit", "2000"},
             {"sharing", has_total ? kind : "wd"},
             {"total", has_total ? "8192" : "none"},
             {"policy", kind == "adaptive"  ? "adaptive"
                        : kind == "engines" ? "4"
                                            : "powerOfTwo"},
             {"measuring", kind == "measuring" ? "4096" : "none"},
             {"engines", kind == "engines" ? "1" : "0"}}) {
      Must(tidepoolCudnnSetOption(name, value.c_str()));
    }
    const Layer layer(kSmall);
    LayerData whole(layer);
    LayerData data(layer);
    cudnnHandle_t plain = nullptr;
    Must(::cudnnCreate(&plain));
    Must(Convolve(plain, layer, Direction::kForward, 0, whole, {}, 0));
    Must(::cudnnDestroy(plain));
    const long long calls = cudnnHostCountCalls(nullptr);
    cudnnHostFailCall(nullptr, n, CUDNN_STATUS_INTERNAL_ERROR);
    CudnnHandle handle = nullptr;
    bool is_right = cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS;
    if (is_right) {
      const Looked looked = LookUp(handle, layer, Direction::kForward);
      is_right = looked.status == CUDNN_STATUS_SUCCESS &&
                 Convolve(handle, layer, Direction::kForward, looked.algorithm, data, {}, 65536) ==
                     CUDNN_STATUS_SUCCESS;
      if (is_right) {
        EXPECT_EQ(data.y.Get(), whole.y.Get()) << n;
      }
    }
    const bool has_failed = cudnnHostCountCalls(nullptr) - calls >= n;
    cudnnHostFailCall(nullptr, 0, 0);
    if (handle != nullptr) {
      const Looked looked = LookUp(handle, layer, Direction::kForward);
      EXPECT_EQ(looked.status, CUDNN_STATUS_SUCCESS) << n;
      EXPECT_EQ(Convolve(handle, layer, Direction::kForward, looked.algorithm, data, {}, 65536),
                CUDNN_STATUS_SUCCESS)
          << n;
      EXPECT_EQ(data.y.Get(), whole.y.Get()) << n;
      EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
    }
    if (!has_failed) {
      EXPECT_GT(n, 20);
      return;
    }
  }
  FAIL() << "the calls never end";
}
INSTANTIATE_TEST_SUITE_P(Kinds, CudnnFaultsTest,
                         ::testing::Values("", "wd", "shared", "adaptive", "measuring", "engines"));

// Totals
// ------------------------------------------------------------------------------------------

class CudnnTotalTest : public WrappedTest {
 protected:
  cudnnStatus_t Run(const Layer& layer, const Looked& looked, LayerData& data) {
    return Convolve(handle_, layer, Direction::kForward, looked.algorithm, data, {}, 0);
  }
};

TEST_F(CudnnTotalTest, ATotalIsDividedAgainForEachNewLayer) {
  Open({{"total", "6144"}});  // 12 units: two layers may have 2,048 and 4,096 bytes
  const Layer layer(kSmall);
  LayerData data(layer);
  const Looked first = LookUp(handle_, layer, Direction::kForward);
  const Looked second = LookUp(handle_, layer, Direction::kForward);
  EXPECT_NE(first.algorithm, second.algorithm);
  EXPECT_EQ(first.workspace_bytes, 0U);
  EXPECT_EQ(Run(layer, first, data), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Run(layer, second, data), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Statistics().solves, 2);
  EXPECT_EQ(Statistics().workspace_bytes, 6144);
  EXPECT_EQ(Statistics().fallbacks, 0);
  EXPECT_EQ(Statistics().divided, 2);
  // A new layer takes its part from the others.
  const Layer third_layer({.n = 4, .c = 2, .h = 5, .w = 4, .k = 2});
  LayerData third_data(third_layer);
  const Looked third = LookUp(handle_, third_layer, Direction::kForward);
  EXPECT_EQ(Run(third_layer, third, third_data), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Statistics().solves, 3);
  EXPECT_EQ(Run(layer, first, data), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Run(layer, second, data), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Statistics().solves, 3);
  EXPECT_EQ(Statistics().fallbacks, 0);
  // A look-up tells the time in the part of the layer, among the layers so far.
  EXPECT_FLOAT_EQ(first.milliseconds, 2 * 0.41F);
  EXPECT_FLOAT_EQ(third.milliseconds, 2 * 0.21F);
  // The program looks its layers up again in each iteration.
  const Looked again = LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(again.algorithm, first.algorithm);
  EXPECT_FLOAT_EQ(again.milliseconds, 4 * 0.21F);
  EXPECT_EQ(LookUp(handle_, layer, Direction::kForward).algorithm, second.algorithm);
  EXPECT_EQ(LookUp(handle_, layer, Direction::kForward).algorithm, first.algorithm);
  EXPECT_EQ(Statistics().kernels, 3);
}

TEST_F(CudnnTotalTest, HandlesOfADeviceShareOneTotal) {
  Open({{"total", "4096"}});
  CudnnHandle other = nullptr;
  Must(cudnnCreate(&other));
  const Layer layer(kSmall);
  LayerData data(layer);
  const Looked one = LookUp(handle_, layer, Direction::kForward);
  const Looked two = LookUp(other, layer, Direction::kForward);
  EXPECT_EQ(Run(layer, one, data), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Convolve(other, layer, Direction::kForward, two.algorithm, data, {}, 0),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Statistics().kernels, 2);
  EXPECT_EQ(Statistics().workspace_bytes, 4096);
  EXPECT_EQ(cudnnDestroy(other), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnTotalTest, ATotalThatIsTooSmallRunsWithoutWorkspaces) {
  Open({{"total", "0"}});
  const Layer layer(kSmall);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_TRUE(IsRight(handle_, layer, looked.algorithm, 0));
}

TEST_F(CudnnTotalTest, MemoryThatTheDeviceLacksRunsWithoutWorkspaces) {
  Open({{"total", "1TiB"}});
  const Layer layer(kSmall);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_TRUE(IsRight(handle_, layer, looked.algorithm, 0));
  EXPECT_EQ(Statistics().fallbacks, 1);
}

// Layers run on two streams at a time, so workspaces must not be shared by work that may overlap.
// The stand-in notices that (cudnnHostCountRaces).
class CudnnStreamsTest : public CudnnTotalTest,
                         public ::testing::WithParamInterface<const char*> {};

TEST_P(CudnnStreamsTest, StreamsWaitForWorkspacesOfEachOther) {
  const bool is_pool = std::string(GetParam()) == "pool";
  Open({{"limit", "4000"},
        {"total", is_pool ? "none" : "8192"},
        {"sharing", is_pool ? "wd" : GetParam()},
        {"workspace", is_pool ? "pool" : "caller"}});
  const Layer layer({.n = 8, .c = 8, .h = 16, .w = 16, .k = 8});
  LayerData whole(layer);
  cudnnHandle_t plain = nullptr;
  Must(::cudnnCreate(&plain));
  Must(Convolve(plain, layer, Direction::kForward, 0, whole, {}, 0));
  LayerData one(layer);
  LayerData two(layer);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams)
    Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 10; ++i) {
    Must(cudnnSetStream(handle_, streams[i % 2]));
    ASSERT_EQ(Run(layer, looked, i % 2 == 0 ? one : two), CUDNN_STATUS_SUCCESS);
  }
  EXPECT_EQ(one.y.Get(), whole.y.Get());
  EXPECT_EQ(two.y.Get(), whole.y.Get());
  EXPECT_EQ(Statistics().convolutions, 10);
  Must(cudnnSetStream(handle_, nullptr));
  Close();
  for (cudaStream_t& stream : streams) Must(cudaStreamDestroy(stream));
  ::cudnnDestroy(plain);
}
INSTANTIATE_TEST_SUITE_P(Kinds, CudnnStreamsTest, ::testing::Values("wd", "shared", "pool"));

// The host does not wait: copies in front of the convolution are held back, and the call returns.
TEST_F(CudnnTotalTest, NoConvolutionWaitsForTheDevice) {
  Open({{"total", "8192"}});
  const Layer layer(kSmall);
  LayerData data(layer);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  cudaStream_t stream = nullptr;
  Must(cudaStreamCreate(&stream));
  Must(cudnnSetStream(handle_, stream));
  ASSERT_EQ(Run(layer, looked, data), CUDNN_STATUS_SUCCESS);
  void* pinned = nullptr;
  Must(cudaMallocHost(&pinned, 64));
  std::memset(pinned, 0, 64);
  cudartHostHoldCopies(0);
  Must(cudaMemcpyAsync(data.workspace.get(), pinned, 64, cudaMemcpyHostToDevice, stream));
  ASSERT_EQ(Run(layer, looked, data), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  cudartHostReleaseCopies(0);
  Must(cudaStreamSynchronize(stream));
  Must(cudnnSetStream(handle_, nullptr));
  Close();
  cudaFreeHost(pinned);
  Must(cudaStreamDestroy(stream));
}

TEST_F(CudnnTotalTest, TwoThreadsMayUseOneHandle) {
  Open({{"total", "8192"}});
  const Layer layer(kSmall);
  LayerData whole(layer);
  cudnnHandle_t plain = nullptr;
  Must(::cudnnCreate(&plain));
  Must(Convolve(plain, layer, Direction::kForward, 0, whole, {}, 0));
  LayerData one(layer);
  LayerData two(layer);
  std::vector<std::thread> threads;
  for (LayerData* const data : {&one, &two}) {
    threads.emplace_back([&, data] {
      for (int i = 0; i < 20; ++i) {
        const Looked looked = LookUp(handle_, layer, Direction::kForward);
        EXPECT_EQ(Run(layer, looked, *data), CUDNN_STATUS_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(one.y.Get(), whole.y.Get());
  EXPECT_EQ(two.y.Get(), whole.y.Get());
  EXPECT_EQ(Statistics().convolutions, 40);
  ::cudnnDestroy(plain);
}

}  // namespace
}  // namespace tidepool::test
