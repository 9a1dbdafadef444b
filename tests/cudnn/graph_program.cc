// SPDX-License-Identifier: Apache-2.0
// A program that knows cuDNN alone, and runs one convolution by its graph interface. Prints the
// workspace of its plan, and the sums of its output.
#include <cstdio>

#include "tests/support/cudnn_graph.h"

using tidepool::test::DeviceNumbers;
using tidepool::test::GraphLayer;
using tidepool::test::Layer;
using tidepool::test::Must;
using tidepool::test::WholeNumbers;

int main() {
  cudnnHandle_t handle = nullptr;
  Must(cudnnCreate(&handle));
  {
    const Layer layer({.n = 8, .c = 2, .h = 4, .w = 4, .k = 2});
    DeviceNumbers x(CUDNN_DATA_FLOAT, layer.x_count);
    DeviceNumbers w(CUDNN_DATA_FLOAT, layer.w_count);
    DeviceNumbers y(CUDNN_DATA_FLOAT, layer.y_count);
    x.Set(WholeNumbers(layer.x_count, 1));
    w.Set(WholeNumbers(layer.w_count, 2));
    y.Set(WholeNumbers(layer.y_count, 3));
    GraphLayer<cudnnBackendDescriptor_t, cudnnHandle_t> graph(handle, layer, {.beta = 1});
    Must(graph.status());
    graph.KeepPlanAlone();
    std::printf("%lld bytes of workspace\n", static_cast<long long>(graph.workspace_bytes()));
    const DeviceNumbers workspace(CUDNN_DATA_FLOAT,
                                  static_cast<std::size_t>(graph.workspace_bytes() / 4 + 1));
    Must(graph.Execute(handle, x.get(), w.get(), y.get(), workspace.get()));
    double sum = 0;
    double weight = 1;
    for (const double number : y.Get()) sum += number * weight++;
    std::printf("the output sums up to %.0f\n", sum);
  }
  Must(cudnnDestroy(handle));
  return 0;
}
