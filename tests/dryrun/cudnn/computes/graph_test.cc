// SPDX-License-Identifier: Apache-2.0
// The graph interface of the stand-in: its convolutions are those of the other interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "dryrun/cudnn/computes/control.h"
#include "tests/support/cudnn_graph.h"

namespace tidepool::test {
namespace {

using PlainGraph = GraphLayer<cudnnBackendDescriptor_t, cudnnHandle_t>;

constexpr LayerShape kGraphShapes[] = {
    {.n = 3},
    {.n = 2, .stride = 2, .format = CUDNN_TENSOR_NHWC},
    {.n = 2, .c = 6, .k = 4, .dilation = 2, .groups = 2},
    {.n = 2, .type = CUDNN_DATA_DOUBLE, .compute_type = CUDNN_DATA_DOUBLE},
    {.n = 2, .type = CUDNN_DATA_HALF},
};

class BackendTest : public ::testing::TestWithParam<LayerShape> {
 protected:
  BackendTest() : live_(cudnnHostCountLive()) { Must(cudnnCreate(&handle_)); }
  ~BackendTest() override {
    cudaDeviceSynchronize();
    cudnnHostSetTable(nullptr);
    cudnnDestroy(handle_);
    EXPECT_EQ(cudnnHostCountLive(), live_);
  }

  // Queues the convolution by the other interface.
  void ConvolvePlainly(const Layer& layer, const GraphOptions& its, void* x, void* w, void* y) {
    const auto single_alpha = static_cast<float>(its.alpha);
    const auto single_beta = static_cast<float>(its.beta);
    const bool is_double = layer.shape().type == CUDNN_DATA_DOUBLE;
    const void* const alpha = is_double ? static_cast<const void*>(&its.alpha) : &single_alpha;
    const void* const beta = is_double ? static_cast<const void*>(&its.beta) : &single_beta;
    if (its.pass == 0) {
      Must(cudnnConvolutionForward(handle_, alpha, layer.x, x, layer.w, w, layer.convolution,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, beta,
                                   layer.y, y));
    } else if (its.pass == 1) {
      Must(cudnnConvolutionBackwardData(handle_, alpha, layer.w, w, layer.y, y, layer.convolution,
                                        CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, beta,
                                        layer.x, x));
    } else {
      Must(cudnnConvolutionBackwardFilter(handle_, alpha, layer.x, x, layer.y, y, layer.convolution,
                                          CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, nullptr, 0, beta,
                                          layer.w, w));
    }
  }

  cudnnHandle_t handle_ = nullptr;
  long long live_;
};

TEST_P(BackendTest, AGraphComputesAsTheOtherInterface) {
  const Layer layer(GetParam());
  for (int pass = 0; pass < 3; ++pass) {
    const GraphOptions options = {.pass = pass, .alpha = 2, .beta = -1, .engine = 0};
    std::vector<std::vector<double>> outputs;
    for (const bool is_graph : {false, true}) {
      DeviceNumbers x(layer.shape().type, layer.x_count);
      DeviceNumbers w(layer.shape().type, layer.w_count);
      DeviceNumbers y(layer.shape().type, layer.y_count);
      x.Set(WholeNumbers(layer.x_count, 1));
      w.Set(WholeNumbers(layer.w_count, 2));
      y.Set(WholeNumbers(layer.y_count, 3));
      if (is_graph) {
        PlainGraph graph(handle_, layer, options);
        ASSERT_EQ(graph.status(), CUDNN_STATUS_SUCCESS);
        graph.KeepPlanAlone();
        ASSERT_EQ(graph.Execute(handle_, x.get(), w.get(), y.get(), nullptr), CUDNN_STATUS_SUCCESS);
      } else {
        ConvolvePlainly(layer, options, x.get(), w.get(), y.get());
      }
      outputs.push_back((pass == 0 ? y : pass == 1 ? x : w).Get());
    }
    EXPECT_EQ(outputs[0], outputs[1]) << pass;
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, BackendTest, ::testing::ValuesIn(kGraphShapes));

using BackendCallsTest = BackendTest;

TEST_P(BackendCallsTest, PlansTakeWorkspacesFromTheTable) {
  Must(cudnnHostSetTable("pass,layer,samples,algorithm,milliseconds,workspace_bytes\n"
                         "forward,*,3,1,0.5,4096\n"
                         "forward,*,3,0,2,0\n") == 1);
  const Layer layer(GetParam());
  PlainGraph fast(handle_, layer, {.engine = 1});
  EXPECT_EQ(fast.workspace_bytes(), 4096);
  PlainGraph slow(handle_, layer, {.engine = 0, .chooses_by_index = true});
  EXPECT_EQ(slow.status(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(slow.workspace_bytes(), 0);
  // The table has no such algorithm.
  EXPECT_EQ(PlainGraph(handle_, layer, {.engine = 4, .chooses_by_index = true}).status(),
            CUDNN_STATUS_NOT_SUPPORTED);
  // A plan that needs a workspace refuses to run without one.
  DeviceNumbers data(CUDNN_DATA_FLOAT, 4096);
  EXPECT_EQ(fast.Execute(handle_, data.get(), data.get(), data.get(), nullptr),
            CUDNN_STATUS_BAD_PARAM);
}

TEST_P(BackendCallsTest, WrongUseIsRefused) {
  const Layer layer(GetParam());
  const PlainGraph graph(handle_, layer, {.engine = 0});
  cudnnBackendDescriptor_t tensor = nullptr;
  Must(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor));
  EXPECT_EQ(cudnnBackendFinalize(tensor), CUDNN_STATUS_BAD_PARAM);  // nothing is set
  EXPECT_EQ(cudnnBackendFinalize(graph.plan()), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnBackendSetAttribute(graph.plan(), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor),
            CUDNN_STATUS_BAD_PARAM);  // final
  std::int64_t number = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(graph.plan(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_FLOAT, 1, nullptr, &number),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnBackendExecute(handle_, graph.plan(), graph.plan()), CUDNN_STATUS_BAD_PARAM);
  Must(cudnnBackendDestroyDescriptor(tensor));
}
INSTANTIATE_TEST_SUITE_P(OneShape, BackendCallsTest, ::testing::Values(LayerShape{.n = 3}));

}  // namespace
}  // namespace tidepool::test
