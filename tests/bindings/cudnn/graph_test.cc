// SPDX-License-Identifier: Apache-2.0
// Plans of the graph interface: those that exceed the limit run in micro-batches of engines, and
// all others are cuDNN's. The clock of events takes the table's times, so choices never depend on
// load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "dryrun/runtime/cudart/control.h"
#include "tests/bindings/cudnn/wrapped.h"
#include "tests/support/cudnn_graph.h"

namespace tidepool::test {
namespace {

using PlainGraph = GraphLayer<cudnnBackendDescriptor_t, cudnnHandle_t>;
using WrappedGraph = GraphLayer<CudnnBackendDescriptor, CudnnHandle>;

constexpr LayerShape kGraphLayer = {.n = 8, .c = 2, .h = 4, .w = 4, .k = 2};

// Starts the runtime again with kernels that take time on the clock of events, or as it is.
void SetClock(bool is_assumed) {
  CudartHostConfig config = {};
  cudartHostDefaultConfig(&config);
  if (is_assumed) {
    config.has_kernels = 1;
    config.assumed_bytes_per_second = 1e12;
  }
  Must(cudartHostConfigure(&config) == 1);
}

class GraphTest : public WrappedTest {
 protected:
  GraphTest() { SetClock(true); }
  ~GraphTest() override {
    Close();
    cudaDeviceSynchronize();
    SetClock(false);
  }

  // Returns the output of a graph of cuDNN itself.
  static std::vector<double> Whole(const Layer& layer, GraphOptions options) {
    options.engine = 0;
    cudnnHandle_t plain = nullptr;
    Must(::cudnnCreate(&plain));
    LayerData data(layer);
    {
      PlainGraph graph(plain, layer, options);
      Must(graph.status());
      Must(graph.Execute(plain, data.x.get(), data.w.get(), data.y.get(), nullptr));
      std::vector<double> output = data.OutputOf(static_cast<Direction>(options.pass)).Get();
      ::cudnnDestroy(plain);
      return output;
    }
  }
  // Runs a graph, and returns its output; nothing if it fails.
  static std::vector<double> Output(WrappedGraph& graph, CudnnHandle handle, const Layer& layer,
                                    int pass) {
    LayerData data(layer);
    const cudnnStatus_t status =
        graph.Execute(handle, data.x.get(), data.w.get(), data.y.get(), data.workspace.get());
    if (status != CUDNN_STATUS_SUCCESS) return {};
    return data.OutputOf(static_cast<Direction>(pass)).Get();
  }
};

class GraphEqualTest : public GraphTest, public ::testing::WithParamInterface<LayerShape> {};

TEST_P(GraphEqualTest, AnswersAreThoseOfTheUndividedBatch) {
  Open({{"limit", "2000"}});
  const Layer layer(GetParam());
  int graphs = 0;
  for (int pass = 0; pass < 3; ++pass) {
    for (const auto& [alpha, beta] :
         {std::pair<double, double>{1, 0}, {2, 0}, {1, 1}, {-1, 2}, {0, 1}}) {
      const GraphOptions options = {
          .pass = pass, .alpha = alpha, .beta = beta, .chooses_by_index = alpha < 0};
      WrappedGraph graph(handle_, layer, options);
      ASSERT_EQ(graph.status(), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(graph.workspace_bytes(), 2000);
      graph.KeepPlanAlone();
      EXPECT_EQ(Output(graph, handle_, layer, pass), Whole(layer, options))
          << pass << " " << alpha << " " << beta;
      ++graphs;
    }
  }
  EXPECT_EQ(Statistics().graphs, graphs);
  EXPECT_EQ(Statistics().graphs_left, 0);
  EXPECT_EQ(Statistics().divided, graphs);
  EXPECT_EQ(Statistics().fallbacks, 0);
}
INSTANTIATE_TEST_SUITE_P(
    Shapes, GraphEqualTest,
    ::testing::Values(LayerShape{.n = 7}, LayerShape{.n = 6, .format = CUDNN_TENSOR_NHWC},
                      LayerShape{.n = 7, .h = 8, .w = 9, .pad = 2, .stride = 2, .dilation = 2},
                      LayerShape{.n = 5, .c = 6, .k = 6, .groups = 3},
                      LayerShape{.n = 5, .r = 1, .s = 1, .pad = 0},
                      LayerShape{
                          .n = 6, .type = CUDNN_DATA_DOUBLE, .compute_type = CUDNN_DATA_DOUBLE},
                      LayerShape{.n = 6, .type = CUDNN_DATA_HALF}));

// Operations on each element follow a convolution in its graph, and cuDNN runs all as one kernel.
// Returns the data that the graph wrote: its output, and the convolution's own.
using Written = std::pair<std::vector<double>, std::vector<double>>;

template <typename Graph, typename Handle>
Written RunFused(Handle handle, const Layer& layer, GraphOptions options) {
  LayerData data(layer);
  const std::size_t count = options.pass == 0   ? layer.y_count
                            : options.pass == 1 ? layer.x_count
                                                : layer.w_count;
  DeviceNumbers z(layer.shape().type, count);
  DeviceNumbers bias(layer.shape().type, 64);
  z.Set(WholeNumbers(count, 4));
  bias.Set(WholeNumbers(64, 5));
  options.z = z.get();
  options.bias = bias.get();
  Graph graph(handle, layer, options);
  if (graph.status() != CUDNN_STATUS_SUCCESS ||
      graph.Execute(handle, data.x.get(), data.w.get(), data.y.get(), data.workspace.get()) !=
          CUDNN_STATUS_SUCCESS) {
    return {};
  }
  return {data.OutputOf(static_cast<Direction>(options.pass)).Get(), z.Get()};
}

Written WholeFused(const Layer& layer, GraphOptions options) {
  options.engine = 0;
  cudnnHandle_t plain = nullptr;
  Must(::cudnnCreate(&plain));
  Written whole = RunFused<PlainGraph>(plain, layer, options);
  ::cudnnDestroy(plain);
  return whole;
}

class FusedTest : public GraphTest, public ::testing::WithParamInterface<LayerShape> {};

TEST_P(FusedTest, AnswersAreThoseOfTheUndividedBatch) {
  Open({{"limit", "2000"}});
  const Layer layer(GetParam());
  int graphs = 0;
  for (const int pass : {0, 1}) {
    for (GraphOptions options : {GraphOptions{},
                                 {.alpha = -1, .z_scale = 2},
                                 {.last = CUDNN_POINTWISE_MUL},
                                 {.last = CUDNN_POINTWISE_IDENTITY, .keeps_output = true}}) {
      options.pass = pass;
      const Written whole = WholeFused(layer, options);
      ASSERT_FALSE(whole.first.empty());
      EXPECT_EQ(RunFused<WrappedGraph>(handle_, layer, options), whole) << pass << " " << graphs;
      ++graphs;
    }
  }
  EXPECT_EQ(Statistics().graphs, graphs);
  EXPECT_EQ(Statistics().divided, graphs);
  // Graphs with other operations, or other scales of these, are other kernels.
  EXPECT_EQ(Statistics().kernels, graphs);
}
INSTANTIATE_TEST_SUITE_P(Shapes, FusedTest,
                         ::testing::Values(LayerShape{.n = 7},
                                           LayerShape{.n = 6, .format = CUDNN_TENSOR_NHWC},
                                           LayerShape{.n = 6,
                                                      .type = CUDNN_DATA_DOUBLE,
                                                      .compute_type = CUDNN_DATA_DOUBLE},
                                           LayerShape{.n = 6, .type = CUDNN_DATA_HALF}));

TEST_F(GraphTest, AFilterWithMoreOperationsIsLeftToCudnnAndCounted) {
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  EXPECT_EQ(RunFused<WrappedGraph>(handle_, layer, {.pass = 2}), WholeFused(layer, {.pass = 2}));
  EXPECT_EQ(Statistics().graphs, 0);
  EXPECT_EQ(Statistics().graphs_left, 1);
}

TEST_F(GraphTest, OperationsThatCudnnRefusesAreErrors) {
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  DeviceNumbers z(CUDNN_DATA_FLOAT, layer.y_count);
  const WrappedGraph graph(handle_, layer,
                           {.z = z.get(), .bias = z.get(), .last = CUDNN_POINTWISE_GEN_INDEX});
  EXPECT_EQ(graph.status(), CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(GraphTest, APlanWithinTheLimitIsCudnns) {
  Open({{"limit", "8000"}});
  const Layer layer(kGraphLayer);
  WrappedGraph graph(handle_, layer, {});
  EXPECT_EQ(graph.workspace_bytes(), 8000);
  EXPECT_EQ(Output(graph, handle_, layer, 0), Whole(layer, {}));
  EXPECT_EQ(Statistics().graphs, 0);
  EXPECT_EQ(Statistics().graphs_left, 0);
  EXPECT_EQ(Statistics().measured, 0);
}

// A filter that is not packed has no descriptor in cuDNN's other interface.
TEST_F(GraphTest, OtherGraphsAreLeftToCudnnAndCounted) {
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  const WrappedGraph graph(handle_, layer, {.filter_gap = 4});
  EXPECT_EQ(graph.status(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(graph.workspace_bytes(), 8000);
  EXPECT_EQ(Statistics().graphs, 0);
  EXPECT_EQ(Statistics().graphs_left, 1);
}

TEST_F(GraphTest, AGraphWithoutAHandleIsLeftToCudnnAndCounted) {
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  WrappedGraph graph(handle_, layer, {.has_handle = false});
  EXPECT_EQ(graph.workspace_bytes(), 8000);
  EXPECT_EQ(Output(graph, handle_, layer, 0), Whole(layer, {}));
  EXPECT_EQ(Statistics().graphs_left, 1);
}

// Nothing is known of its graph, as of that of a plan from JSON.
TEST_F(GraphTest, APlanOfAnUnknownGraphIsLeftToCudnnAndCounted) {
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  const PlainGraph graph(static_cast<cudnnHandle_t>(handle_), layer, {});
  cudnnBackendDescriptor_t configuration = graph.configuration();
  CudnnBackendDescriptor plan = nullptr;
  Must(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));
  Must(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration));
  Must(cudnnBackendFinalize(plan));
  EXPECT_EQ(Statistics().graphs_left, 1);
  Must(cudnnBackendDestroyDescriptor(plan));
}

TEST_F(GraphTest, NoPlanThatFitsIsLeftToCudnnAndCounted) {
  Must(cudnnHostSetTable("pass,layer,samples,algorithm,milliseconds,workspace_bytes\n"
                         "forward,*,8,1,0.5,4096\n"
                         "forward,*,4,1,0.3,4096\n") == 1);
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  const WrappedGraph graph(handle_, layer, {});
  EXPECT_EQ(graph.workspace_bytes(), 4096);
  EXPECT_EQ(Statistics().graphs_left, 1);
}

// The program's engine is deterministic, so that of its micro-batches is too.
TEST_F(GraphTest, EnginesHaveNoNotesThatTheProgramsEngineLacks) {
  cudnnHostSetTable(nullptr);
  Open({{"limit", "0"}, {"policy", "all"}});
  const Layer layer({.n = 4, .c = 4, .h = 8, .w = 8, .k = 4});
  // Backward data: algorithm 0 needs no workspace and adds up in any order, 1 is deterministic.
  for (const int engine : {4, 5}) {
    WrappedGraph graph(handle_, layer, {.pass = 1, .engine = engine});
    ASSERT_EQ(graph.status(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(graph.workspace_bytes(), 0);
    EXPECT_EQ(Output(graph, handle_, layer, 1), Whole(layer, {.pass = 1}));
  }
  EXPECT_EQ(Statistics().graphs, 2);
}

TEST_F(GraphTest, APlanOutlivesTheHandleItWasMadeWith) {
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  WrappedGraph graph(handle_, layer, {});
  Close();
  Must(cudnnCreate(&handle_));
  EXPECT_EQ(Output(graph, handle_, layer, 0), Whole(layer, {}));
  EXPECT_EQ(Statistics().divided, 1);
}

TEST_F(GraphTest, ADestroyedHandleAndMissingDataAreRefused) {
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  LayerData data(layer);
  WrappedGraph graph(handle_, layer, {});
  EXPECT_EQ(graph.Execute(handle_, data.x.get(), nullptr, data.y.get(), data.workspace.get()),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnBackendExecute(handle_, graph.plan(), graph.plan()), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(tidepoolCudnnBackendPopulateCudaGraph(handle_, graph.plan(), graph.plan(), nullptr),
            CUDNN_STATUS_NOT_SUPPORTED);
  const CudnnHandle gone = handle_;
  Close();
  EXPECT_EQ(graph.Execute(gone, data.x.get(), data.w.get(), data.y.get(), data.workspace.get()),
            CUDNN_STATUS_NOT_INITIALIZED);
}

// A pointer that is less aligned than the graph says would be read wrongly by an engine.
TEST_F(GraphTest, DataMustBeAlignedAsTheGraphSays) {
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  LayerData data(layer);
  auto* const odd = static_cast<char*>(data.x.get()) + 4;
  WrappedGraph graph(handle_, layer, {});
  EXPECT_EQ(graph.Execute(handle_, odd, data.w.get(), data.y.get(), data.workspace.get()),
            CUDNN_STATUS_NOT_SUPPORTED);
  WrappedGraph unaligned(handle_, layer, {.alignment = 4});
  EXPECT_EQ(unaligned.workspace_bytes(), 2000);
}

// Packs of micro-batches are made once for the same data, and few are kept for other data.
TEST_F(GraphTest, MicroBatchesUseTheirPacksAgain) {
  Open({{"limit", "2000"}});
  const Layer layer(kGraphLayer);
  LayerData data(layer);
  WrappedGraph graph(handle_, layer, {});
  const auto made = [&](int offset) {
    const long long before = cudnnHostCountCalls("cudnnBackendCreateDescriptor");
    Must(graph.Execute(handle_, data.x.get(), data.w.get(), data.y.get(),
                       static_cast<char*>(data.workspace.get()) + offset));
    return cudnnHostCountCalls("cudnnBackendCreateDescriptor") - before;
  };
  EXPECT_EQ(made(0), 5);  // the pack of the program, and those of four micro-batches
  EXPECT_EQ(made(0), 1);
  EXPECT_EQ(made(16), 5);
  EXPECT_EQ(made(16), 1);
  for (int i = 2; i < 100; ++i) made(16 * i);
  EXPECT_EQ(data.y.Get(), Whole(layer, {}));
}

TEST_F(GraphTest, WithATotalPlansNeedNoWorkspace) {
  Open({{"total", "8192"}});
  const Layer layer(kGraphLayer);
  std::vector<double> outputs[2];
  WrappedGraph one(handle_, layer, {});
  WrappedGraph other(handle_, layer, {.alpha = 2});
  EXPECT_EQ(one.workspace_bytes(), 0);
  EXPECT_EQ(Output(one, handle_, layer, 0), Whole(layer, {}));
  EXPECT_EQ(Output(other, handle_, layer, 0), Whole(layer, {.alpha = 2}));
  EXPECT_EQ(Statistics().kernels, 1);  // plans of one convolution share a kernel
  EXPECT_EQ(Statistics().workspace_bytes, 8192);
}

// Engines are the second source of algorithms for the other interface, in the same file.
class EnginesTest : public GraphTest {
 protected:
  EnginesTest()
      : file_(std::filesystem::temp_directory_path() /
              ("tidepool_engines_" + std::to_string(getpid()))) {
    std::filesystem::remove(file_);
  }
  ~EnginesTest() override { std::filesystem::remove(file_); }

  // Algorithm 0 alone is an algorithm of the other interface that the first measurement sees.
  static std::string SlowAlgorithms() {
    return "pass,layer,samples,algorithm,milliseconds,workspace_bytes\n"
           "forward,*,8,0,8,0\nforward,*,4,0,4,0\nforward,*,2,0,2,0\nforward,*,1,0,1,0\n";
  }

  const std::filesystem::path file_;
};

TEST_F(EnginesTest, LookUpsMeasureEnginesToo) {
  Open({{"limit", "2000"}, {"engines", "1"}, {"database", file_.string()}});
  const Layer layer(kGraphLayer);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(looked.status, CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(looked.count, 3);  // the plan, and cuDNN's two algorithms: no engines among them
  EXPECT_EQ(Statistics().measured, 8);  // 4 micro-batches of algorithms and of engines
  for (const Direction direction : kDirections) {
    for (const Scales scales : {Scales{1, 0}, {2, 1}, {-1, 2}}) {
      LayerData whole(layer);
      LayerData data(layer);
      cudnnHandle_t plain = nullptr;
      Must(::cudnnCreate(&plain));
      Must(Convolve(plain, layer, direction, 0, whole, scales, 0));
      ASSERT_EQ(Convolve(handle_, layer, direction, LookUp(handle_, layer, direction).algorithm,
                         data, scales, 2000),
                CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(data.OutputOf(direction).Get(), whole.OutputOf(direction).Get());
      ::cudnnDestroy(plain);
    }
  }
  Close();
  // A graph's plan finds the engines in the file.
  Must(cudnnCreate(&handle_));
  const WrappedGraph graph(handle_, layer, {});
  EXPECT_EQ(graph.workspace_bytes(), 2000);
  EXPECT_EQ(Statistics().measured, 0);
}

// Engines win where they are faster. Data that is not aligned for them runs by algorithms.
TEST_F(EnginesTest, AlgorithmsRunWhatEnginesRefuse) {
  Must(cudnnHostSetTable(SlowAlgorithms().c_str()) == 1);
  Open({{"limit", "2000"}, {"database", file_.string()}});
  const Layer layer(kGraphLayer);
  LookUp(handle_, layer, Direction::kForward);
  Close();
  Must(cudnnHostSetTable(PlainTable().c_str()) == 1);
  Open({{"engines", "1"}});
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(looked.workspace_bytes, 2000U);  // of the fast engine: the file has slow algorithms
  LayerData data(layer);
  cudnnConvolutionFwdAlgo_t algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(looked.algorithm);
  const float one = 1;
  const float zero = 0;
  const long long executed = cudnnHostCountCalls("cudnnBackendExecute");
  const auto run = [&](void* w) {
    return cudnnConvolutionForward(handle_, &one, layer.x, data.x.get(), layer.w, w,
                                   layer.convolution, algorithm, data.workspace.get(), 2000, &zero,
                                   layer.y, data.y.get());
  };
  EXPECT_EQ(run(data.w.get()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnHostCountCalls("cudnnBackendExecute") - executed, 4);
  EXPECT_EQ(run(static_cast<char*>(data.workspace.get()) + 4096 + 4), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnHostCountCalls("cudnnBackendExecute") - executed, 4);
}

// With a bound, measurements take no more memory than that for workspaces, and none by cuDNN.
TEST_F(EnginesTest, MeasurementsKeepToTheirBound) {
  const Layer layer(kGraphLayer);
  const auto look = [&](const char* bound) {
    Open({{"limit", "64000"}, {"database", file_.string()}, {"measuring", bound}});
    const Looked looked = LookUp(handle_, layer, Direction::kForward);
    const auto measured = Statistics().measured;
    Close();
    return std::pair(looked.workspace_bytes, measured);
  };
  const long long finds = cudnnHostCountCalls("cudnnFindConvolutionForwardAlgorithm");
  EXPECT_EQ(look("4096"), std::pair(std::size_t{4000}, std::int64_t{4}));
  EXPECT_EQ(cudnnHostCountCalls("cudnnFindConvolutionForwardAlgorithm"), finds);
  EXPECT_EQ(look("2048"), std::pair(std::size_t{4000}, std::int64_t{0}));
  // A higher bound, or none, measures again, once.
  EXPECT_EQ(look("none"), std::pair(std::size_t{8000}, std::int64_t{4}));
  EXPECT_EQ(look("none"), std::pair(std::size_t{8000}, std::int64_t{0}));
  EXPECT_EQ(look("4096"), std::pair(std::size_t{8000}, std::int64_t{0}));
}

// Each call of cuDNN fails once while a graph is built and run. The program gets an error or the
// right numbers, nothing is lost, and afterwards all is well.
class GraphFaultsTest : public GraphTest, public ::testing::WithParamInterface<const char*> {};

TEST_F(GraphTest, EveryCallOfAFusedGraphMayFailOnce) {
  Open({{"limit", "2000"}, {"policy", "4"}});
  Close();
  const Layer layer({.n = 8, .c = 2, .h = 4, .w = 4, .k = 2});
  const Written whole = WholeFused(layer, {});
  for (int n = 1; n < 2000; ++n) {
    Must(cudnnCreate(&handle_));
    const long long calls = cudnnHostCountCalls(nullptr);
    cudnnHostFailCall(nullptr, n, CUDNN_STATUS_INTERNAL_ERROR);
    const Written written = RunFused<WrappedGraph>(handle_, layer, {});
    const bool has_failed = cudnnHostCountCalls(nullptr) - calls >= n;
    cudnnHostFailCall(nullptr, 0, 0);
    if (!written.first.empty()) {
      EXPECT_EQ(written, whole) << n;
    }
    EXPECT_EQ(RunFused<WrappedGraph>(handle_, layer, {}), whole) << n;
    Close();
    if (!has_failed) {
      EXPECT_GT(n, 150);
      return;
    }
  }
  FAIL() << "the calls never end";
}

TEST_P(GraphFaultsTest, EveryCallMayFailOnce) {
  const bool has_total = std::string(GetParam()) == "total";
  Open({{"limit", "2000"}, {"total", has_total ? "8192" : "none"}, {"policy", "4"}});
  Close();
  const Layer layer({.n = 8, .c = 2, .h = 4, .w = 4, .k = 2});
  const std::vector<double> whole = Whole(layer, {.pass = 2, .beta = 1});
  for (int n = 1; n < 2000; ++n) {
    CudnnHandle handle = nullptr;
    Must(cudnnCreate(&handle));
    const long long calls = cudnnHostCountCalls(nullptr);
    cudnnHostFailCall(nullptr, n, CUDNN_STATUS_INTERNAL_ERROR);
    bool has_failed = false;
    {
      WrappedGraph graph(handle, layer, {.pass = 2, .beta = 1});
      LayerData data(layer);
      if (graph.status() == CUDNN_STATUS_SUCCESS &&
          graph.Execute(handle, data.x.get(), data.w.get(), data.y.get(), data.workspace.get()) ==
              CUDNN_STATUS_SUCCESS) {
        EXPECT_EQ(data.w.Get(), whole) << n;
      }
      has_failed = cudnnHostCountCalls(nullptr) - calls >= n;
      cudnnHostFailCall(nullptr, 0, 0);
    }
    WrappedGraph again(handle, layer, {.pass = 2, .beta = 1});
    EXPECT_EQ(Output(again, handle, layer, 2), whole) << n;
    EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
    if (!has_failed) {
      EXPECT_GT(n, 100);
      return;
    }
  }
  FAIL() << "the calls never end";
}
INSTANTIATE_TEST_SUITE_P(Kinds, GraphFaultsTest, ::testing::Values("limit", "total"));

}  // namespace
}  // namespace tidepool::test
