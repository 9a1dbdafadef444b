// SPDX-License-Identifier: Apache-2.0
// A program that knows cuDNN alone, and runs a convolution by its graph interface, alone and with a
// residual, a bias and a ReLU in one graph. Prints the workspaces of the plans, and the sums of the
// outputs.
#include <cstdio>

#include "tests/support/cudnn_graph.h"

using tidepool::test::DeviceNumbers;
using tidepool::test::GraphLayer;
using tidepool::test::GraphOptions;
using tidepool::test::Layer;
using tidepool::test::Must;
using tidepool::test::WholeNumbers;

namespace {

void Run(cudnnHandle_t handle, bool is_fused) {
  const Layer layer({.n = 8, .c = 2, .h = 4, .w = 4, .k = 2});
  DeviceNumbers x(CUDNN_DATA_FLOAT, layer.x_count);
  DeviceNumbers w(CUDNN_DATA_FLOAT, layer.w_count);
  DeviceNumbers y(CUDNN_DATA_FLOAT, layer.y_count);
  DeviceNumbers z(CUDNN_DATA_FLOAT, layer.y_count);
  x.Set(WholeNumbers(layer.x_count, 1));
  w.Set(WholeNumbers(layer.w_count, 2));
  y.Set(WholeNumbers(layer.y_count, 3));
  z.Set(WholeNumbers(layer.y_count, 4));
  GraphOptions options = {.beta = is_fused ? 0.0 : 1.0};
  if (is_fused) options.z = options.bias = z.get();
  GraphLayer<cudnnBackendDescriptor_t, cudnnHandle_t> graph(handle, layer, options);
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

}  // namespace

int main() {
  cudnnHandle_t handle = nullptr;
  Must(cudnnCreate(&handle));
  Run(handle, false);
  Run(handle, true);
  Must(cudnnDestroy(handle));
  return 0;
}
