// SPDX-License-Identifier: Apache-2.0
// Both interfaces of cuDNN, as programs that were compiled with its headers call them.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" int tidepoolConvolutionWorkspace(int index, long long* bytes, long long* largest);

namespace {

// Descriptors of a graph with one convolution of 32 x 64 x 56 x 56 by 3 x 3.
class Graph {
 public:
  Graph() {
    void* const x = Tensor({32, 64, 56, 56});
    void* const w = Tensor({64, 64, 3, 3});
    void* const y = Tensor({32, 64, 56, 56});
    void* const how = Make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    for (const cudnnBackendAttributeName_t name :
         {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
          CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS})
      SetNumbers(how, name, {1, 1});
    Finish(how);
    void* const operation = Make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    SetPart(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how);
    SetPart(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    SetPart(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    SetPart(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    Finish(operation);
    graph_ = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    SetPart(graph_, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    Finish(graph_);
    // Programs destroy the parts as soon as the whole has been made.
    for (void* part : {x, w, y, how, operation}) Destroy(part);
  }
  ~Graph() { Destroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  static void* Make(cudnnBackendDescriptorType_t type) {
    void* made = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(type, &made), 0);
    return made;
  }
  static void Finish(void* object) {
    EXPECT_EQ(cudnnBackendFinalize(object), CUDNN_STATUS_SUCCESS);
  }
  static void Destroy(void* object) { EXPECT_EQ(cudnnBackendDestroyDescriptor(object), 0); }
  static void SetNumbers(void* object, cudnnBackendAttributeName_t name,
                         const std::vector<std::int64_t>& numbers) {
    EXPECT_EQ(cudnnBackendSetAttribute(object, name, CUDNN_TYPE_INT64,
                                       static_cast<std::int64_t>(numbers.size()), numbers.data()),
              0);
  }
  static void SetPart(void* object, cudnnBackendAttributeName_t name, void* part) {
    EXPECT_EQ(cudnnBackendSetAttribute(object, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part), 0);
  }

  // Returns the workspaces of the plans that the heuristics propose, of `most` plans at most.
  std::vector<std::int64_t> Workspaces(std::int64_t most = 100) const {
    void* const heuristics = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    SetPart(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
    Finish(heuristics);
    std::int64_t count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
              0);
    const std::int64_t wanted = std::min(count, most);
    std::vector<void*> configurations;
    for (std::int64_t i = 0; i < wanted; ++i)
      configurations.push_back(Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    EXPECT_EQ(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, wanted, &count,
                                       configurations.data()),
              0);
    EXPECT_EQ(count, wanted);  // PyTorch 2.15 asks for fewer than there are, and uses `count`
    Destroy(heuristics);
    std::vector<std::int64_t> found;
    for (void* configuration : configurations) {
      found.push_back(WorkspaceOf(configuration));
      Destroy(configuration);
    }
    return found;
  }

  // Returns the workspace of an engine that the program chose by a number.
  std::int64_t WorkspaceOfEngine(std::int64_t number) const {
    void* const engine = Make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    SetPart(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_);
    SetNumbers(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {number});
    Finish(engine);
    void* const configuration = Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    SetPart(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    Finish(configuration);
    Destroy(engine);
    const std::int64_t bytes = WorkspaceOf(configuration);
    Destroy(configuration);
    return bytes;
  }

 private:
  static void* Tensor(const std::vector<std::int64_t>& sizes) {
    void* const made = Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    SetNumbers(made, CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
    SetNumbers(made, CUDNN_ATTR_TENSOR_STRIDES,
               {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1});
    Finish(made);
    return made;
  }
  static std::int64_t WorkspaceOf(void* configuration) {
    void* const plan = Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    SetPart(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    Finish(plan);
    std::int64_t bytes = -1;
    EXPECT_EQ(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, nullptr, &bytes),
              0);
    Destroy(plan);
    return bytes;
  }

  void* graph_ = nullptr;
};

TEST(CudnnGraph, HeuristicsProposeTheAlgorithmsOfTheConvolution) {
  std::vector<std::int64_t> found = Graph().Workspaces();
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<std::int64_t>{0, 5 * 512 - 1, 64 * 9 * 56 * 56 * 4 - 1,
                                              9 * 32 * 2 * 64 * 56 * 56 + 16 * 64 * 64 * 9 - 1}));
}

TEST(CudnnGraph, ProgramsMayAskForTheFirstPlanAlone) { EXPECT_EQ(Graph().Workspaces(1).size(), 1); }

TEST(CudnnGraph, EnginesWithoutAnAlgorithmNeedLeast) {
  const Graph graph;
  EXPECT_EQ(graph.WorkspaceOfEngine(1), 5 * 512 - 1);
  EXPECT_EQ(graph.WorkspaceOfEngine(28), 0);
}

TEST(CudnnGraph, WorkspacesAreNotedWithTheLargestOfTheConvolution) {
  const std::vector<std::int64_t> workspaces = Graph().Workspaces();
  long long bytes = 0;
  long long largest = 0;
  const int count = tidepoolConvolutionWorkspace(0, &bytes, &largest);
  ASSERT_GE(count, 4);
  EXPECT_EQ(bytes, 0);
  EXPECT_EQ(largest, *std::max_element(workspaces.begin(), workspaces.end()));
  EXPECT_EQ(tidepoolConvolutionWorkspace(count, &bytes, &largest), count);
}

TEST(CudnnGraph, OtherGraphsHaveOneEngineWithoutAWorkspace) {
  void* const operation = Graph::Make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  Graph::Finish(operation);
  void* const graph = Graph::Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  Graph::SetPart(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  Graph::Finish(graph);
  void* const heuristics = Graph::Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  Graph::SetPart(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  Graph::Finish(heuristics);
  std::int64_t count = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
            0);
  EXPECT_EQ(count, 1);
  for (void* one : {operation, graph, heuristics}) Graph::Destroy(one);
}

// Graphs of attention have attributes that no convolution has, of types of every size.
TEST(CudnnGraph, OtherAttributesAreTakenAndEmpty) {
  constexpr auto kReduction = static_cast<cudnnBackendAttributeType_t>(18);
  constexpr auto kOperator = static_cast<cudnnBackendAttributeName_t>(1250);
  void* const object = Graph::Make(static_cast<cudnnBackendDescriptorType_t>(24));
  const char one_byte = 1;
  EXPECT_EQ(cudnnBackendSetAttribute(object, kOperator, kReduction, 1, &one_byte), 0);
  EXPECT_EQ(cudnnBackendSetAttribute(object, kOperator, CUDNN_TYPE_INT64, 0, nullptr), 0);
  Graph::Finish(object);
  std::int64_t count = -1;
  std::int64_t number = -1;
  EXPECT_EQ(cudnnBackendGetAttribute(object, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                     &count, &number),
            0);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(number, 0);
  EXPECT_EQ(cudnnBackendGetAttribute(object, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
            0);
  EXPECT_EQ(count, 0);
  Graph::Destroy(object);
}

TEST(CudnnOlderInterface, ProposesTheSameWorkspaces) {
  cudnnTensorDescriptor_t x = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t order = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&x), 0);
  ASSERT_EQ(cudnnCreateFilterDescriptor(&w), 0);
  ASSERT_EQ(cudnnCreateConvolutionDescriptor(&order), 0);
  const std::array<int, 4> sizes = {32, 64, 56, 56};
  const std::array<int, 4> strides = {64 * 56 * 56, 56 * 56, 56, 1};
  const std::array<int, 4> filter = {64, 64, 3, 3};
  const std::array<int, 2> ones = {1, 1};
  cudnnSetTensorNdDescriptor(x, CUDNN_DATA_FLOAT, 4, sizes.data(), strides.data());
  cudnnSetFilterNdDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, filter.data());
  cudnnSetConvolutionNdDescriptor(order, 2, ones.data(), ones.data(), ones.data(),
                                  CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);

  std::array<cudnnConvolutionFwdAlgoPerf_t, 8> found = {};
  int count = 0;
  ASSERT_EQ(
      cudnnGetConvolutionForwardAlgorithm_v7(nullptr, x, w, order, x, 8, &count, found.data()), 0);
  const std::vector<std::int64_t> expected = Graph().Workspaces();
  ASSERT_EQ(count, static_cast<int>(expected.size()));
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(found[at].memory, static_cast<std::size_t>(expected[at]));
    std::size_t bytes = 0;
    EXPECT_EQ(
        cudnnGetConvolutionForwardWorkspaceSize(nullptr, x, w, order, x, found[at].algo, &bytes),
        0);
    EXPECT_EQ(bytes, found[at].memory);
  }
  std::size_t none = 0;
  EXPECT_NE(cudnnGetConvolutionForwardWorkspaceSize(nullptr, x, w, order, x,
                                                    CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, &none),
            0);

  cudnnDataType_t type = CUDNN_DATA_HALF;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NHWC;
  int directions = 0;
  std::array<int, 4> read = {};
  cudnnGetFilterNdDescriptor(w, 4, &type, &format, &directions, read.data());
  EXPECT_EQ(read, filter);
  EXPECT_EQ(type, CUDNN_DATA_FLOAT);
  EXPECT_EQ(format, CUDNN_TENSOR_NCHW);
  cudnnDestroyTensorDescriptor(x);
  cudnnDestroyFilterDescriptor(w);
  cudnnDestroyConvolutionDescriptor(order);
}

TEST(Cudnn, HandlesKeepTheirStream) {
  cudnnHandle_t handle = nullptr;
  ASSERT_EQ(cudnnCreate(&handle), 0);
  int place = 0;
  auto* const stream = reinterpret_cast<cudaStream_t>(&place);
  cudaStream_t found = nullptr;
  EXPECT_EQ(cudnnSetStream(handle, stream), 0);
  EXPECT_EQ(cudnnGetStream(handle, &found), 0);
  EXPECT_EQ(found, stream);
  EXPECT_EQ(cudnnDestroy(handle), 0);
}

}  // namespace
