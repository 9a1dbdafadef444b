// SPDX-License-Identifier: Apache-2.0
// Both interfaces of cuDNN, as programs that were compiled with its headers call them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" {
int cudnnCreate(void** made);
int cudnnDestroy(void* object);
int cudnnSetStream(void* handle, void* stream);
int cudnnGetStream(void* handle, void** stream);
int cudnnBackendCreateDescriptor(int type, void** made);
int cudnnBackendDestroyDescriptor(void* object);
int cudnnBackendSetAttribute(void* object, int name, int type, std::int64_t count,
                             const void* values);
int cudnnBackendGetAttribute(void* object, int name, int type, std::int64_t wanted,
                             std::int64_t* count, void* values);
int cudnnCreateTensorDescriptor(void** made);
int cudnnDestroyTensorDescriptor(void* object);
int cudnnSetTensorNdDescriptor(void* object, int type, int count, const int* sizes,
                               const int* strides);
int cudnnCreateFilterDescriptor(void** made);
int cudnnDestroyFilterDescriptor(void* object);
int cudnnSetFilterNdDescriptor(void* object, int type, int format, int count, const int* sizes);
int cudnnGetFilterNdDescriptor(const void* object, int most, int* type, int* format, int* count,
                               int* sizes);
int cudnnCreateConvolutionDescriptor(void** made);
int cudnnDestroyConvolutionDescriptor(void* object);
int cudnnSetConvolutionNdDescriptor(void* object, int count, const int* padding, const int* stride,
                                    const int* dilation, int mode, int type);
struct Performance {
  int algorithm;
  int status;
  float milliseconds;
  std::size_t bytes;
  int determinism;
  int math;
  int reserved[3];
};
int cudnnGetConvolutionForwardAlgorithm_v7(void* handle, const void* x, const void* w,
                                           const void* order, const void* y, int wanted, int* count,
                                           Performance* results);
int cudnnGetConvolutionForwardWorkspaceSize(void* handle, const void* x, const void* w,
                                            const void* order, const void* y, int algorithm,
                                            std::size_t* bytes);
int tidepoolConvolutionWorkspace(int index, long long* bytes, long long* largest);
}

namespace {

constexpr int kDescriptor = 15;
constexpr int kNumber = 3;

// Descriptors of a graph with one convolution of 32 x 64 x 56 x 56 by 3 x 3.
class Graph {
 public:
  Graph() {
    void* const x = Tensor({32, 64, 56, 56});
    void* const w = Tensor({64, 64, 3, 3});
    void* const y = Tensor({32, 64, 56, 56});
    void* const how = Make(1);
    for (const int name : {102, 103, 105}) SetNumbers(how, name, {1, 1});
    void* const operation = Make(10);
    SetPart(operation, 702, how);
    SetPart(operation, 703, w);
    SetPart(operation, 704, x);
    SetPart(operation, 705, y);
    graph_ = Make(15);
    SetPart(graph_, 801, operation);
    // Programs destroy the parts as soon as the whole has been made.
    for (void* part : {x, w, y, how, operation}) Destroy(part);
  }
  ~Graph() { Destroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  static void* Make(int type) {
    void* made = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(type, &made), 0);
    return made;
  }
  static void Destroy(void* object) { EXPECT_EQ(cudnnBackendDestroyDescriptor(object), 0); }
  static void SetNumbers(void* object, int name, const std::vector<std::int64_t>& numbers) {
    EXPECT_EQ(cudnnBackendSetAttribute(object, name, kNumber,
                                       static_cast<std::int64_t>(numbers.size()), numbers.data()),
              0);
  }
  static void SetPart(void* object, int name, void* part) {
    EXPECT_EQ(cudnnBackendSetAttribute(object, name, kDescriptor, 1, &part), 0);
  }

  // Returns the workspaces of the plans that the heuristics propose.
  std::vector<std::int64_t> Workspaces() const {
    void* const heuristics = Make(4);
    SetPart(heuristics, 201, graph_);
    std::int64_t count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(heuristics, 202, kDescriptor, 0, &count, nullptr), 0);
    std::vector<void*> configurations;
    for (std::int64_t i = 0; i < count; ++i) configurations.push_back(Make(3));
    EXPECT_EQ(cudnnBackendGetAttribute(heuristics, 202, kDescriptor, count, &count,
                                       configurations.data()),
              0);
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
    void* const engine = Make(2);
    SetPart(engine, 1300, graph_);
    SetNumbers(engine, 1301, {number});
    void* const configuration = Make(3);
    SetPart(configuration, 300, engine);
    Destroy(engine);
    const std::int64_t bytes = WorkspaceOf(configuration);
    Destroy(configuration);
    return bytes;
  }

 private:
  static void* Tensor(const std::vector<std::int64_t>& sizes) {
    void* const made = Make(17);
    SetNumbers(made, 902, sizes);
    SetNumbers(made, 903, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1});
    return made;
  }
  static std::int64_t WorkspaceOf(void* configuration) {
    void* const plan = Make(5);
    SetPart(plan, 401, configuration);
    std::int64_t bytes = -1;
    EXPECT_EQ(cudnnBackendGetAttribute(plan, 402, kNumber, 1, nullptr, &bytes), 0);
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
  void* const operation = Graph::Make(13);
  void* const graph = Graph::Make(15);
  Graph::SetPart(graph, 801, operation);
  void* const heuristics = Graph::Make(4);
  Graph::SetPart(heuristics, 201, graph);
  std::int64_t count = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(heuristics, 202, kDescriptor, 0, &count, nullptr), 0);
  EXPECT_EQ(count, 1);
  for (void* one : {operation, graph, heuristics}) Graph::Destroy(one);
}

TEST(CudnnOlderInterface, ProposesTheSameWorkspaces) {
  void *x = nullptr, *w = nullptr, *order = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&x), 0);
  ASSERT_EQ(cudnnCreateFilterDescriptor(&w), 0);
  ASSERT_EQ(cudnnCreateConvolutionDescriptor(&order), 0);
  const std::array<int, 4> sizes = {32, 64, 56, 56};
  const std::array<int, 4> strides = {64 * 56 * 56, 56 * 56, 56, 1};
  const std::array<int, 4> filter = {64, 64, 3, 3};
  const std::array<int, 2> ones = {1, 1};
  cudnnSetTensorNdDescriptor(x, 0, 4, sizes.data(), strides.data());
  cudnnSetFilterNdDescriptor(w, 0, 0, 4, filter.data());
  cudnnSetConvolutionNdDescriptor(order, 2, ones.data(), ones.data(), ones.data(), 1, 0);

  std::array<Performance, 8> found = {};
  int count = 0;
  ASSERT_EQ(
      cudnnGetConvolutionForwardAlgorithm_v7(nullptr, x, w, order, x, 8, &count, found.data()), 0);
  const std::vector<std::int64_t> expected = Graph().Workspaces();
  ASSERT_EQ(count, static_cast<int>(expected.size()));
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(found[at].bytes, static_cast<std::size_t>(expected[at]));
    std::size_t bytes = 0;
    EXPECT_EQ(cudnnGetConvolutionForwardWorkspaceSize(nullptr, x, w, order, x, found[at].algorithm,
                                                      &bytes),
              0);
    EXPECT_EQ(bytes, found[at].bytes);
  }
  std::size_t none = 0;
  EXPECT_NE(cudnnGetConvolutionForwardWorkspaceSize(nullptr, x, w, order, x, 99, &none), 0);

  int type = 0, format = 0, directions = 0;
  std::array<int, 4> read = {};
  cudnnGetFilterNdDescriptor(w, 4, &type, &format, &directions, read.data());
  EXPECT_EQ(read, filter);
  cudnnDestroyTensorDescriptor(x);
  cudnnDestroyFilterDescriptor(w);
  cudnnDestroyConvolutionDescriptor(order);
}

TEST(Cudnn, HandlesKeepTheirStream) {
  void* handle = nullptr;
  ASSERT_EQ(cudnnCreate(&handle), 0);
  int stream = 0;
  void* found = nullptr;
  EXPECT_EQ(cudnnSetStream(handle, &stream), 0);
  EXPECT_EQ(cudnnGetStream(handle, &found), 0);
  EXPECT_EQ(found, &stream);
  EXPECT_EQ(cudnnDestroy(handle), 0);
}

}  // namespace
