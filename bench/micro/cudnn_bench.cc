// SPDX-License-Identifier: Apache-2.0
// Claim: a convolution through tidepool::CudnnHandle takes at most 1 us more of the calling thread
// than the same call of cuDNN, after the first. Both take turns in one run on the stand-in for
// cuDNN; each row is the fastest of 40 rounds, in nanoseconds of the thread. Plans of graphs and
// look-ups of many layers follow.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cudnn/include/tidepool/cudnn.h"
#include "dryrun/cudnn/computes/control.h"
#include "tests/support/cudnn_graph.h"
#include "tests/support/cudnn_layer.h"

namespace tidepool::bench {
namespace {

using test::Layer;
using test::Must;

constexpr int kRounds = 40;
constexpr int kCalls = 500;

double ThreadNanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct Data {
  explicit Data(const Layer& layer)
      : x(layer.shape().type, layer.x_count),
        w(layer.shape().type, layer.w_count),
        y(layer.shape().type, layer.y_count),
        workspace(CUDNN_DATA_FLOAT, 1024) {}
  test::DeviceNumbers x, w, y, workspace;
};

// Lets the stream wait as long as calls queue work: the stand-in would free memory meanwhile, which
// slows the calls down as luck has it.
class WaitingStream {
 public:
  WaitingStream() {
    Must(cudaDeviceSynchronize());
    Must(cudaLaunchHostFunc(
        nullptr, [](void* its) { static_cast<WaitingStream*>(its)->may_run_.wait(false); }, this));
  }
  ~WaitingStream() {
    may_run_ = true;
    may_run_.notify_one();
    Must(cudaDeviceSynchronize());
  }
  WaitingStream(const WaitingStream&) = delete;
  WaitingStream& operator=(const WaitingStream&) = delete;

 private:
  std::atomic<bool> may_run_ = false;
};

// Returns the time of a call, without that of the work that it queues.
template <typename Handle>
double NanosecondsOfRound(Handle handle, const Layer& layer, const Data& data, int algorithm) {
  const float one = 1;
  const float zero = 0;
  const WaitingStream stream;
  const double begin = ThreadNanoseconds();
  for (int i = 0; i < kCalls; ++i) {
    Must(cudnnConvolutionForward(handle, &one, layer.x, data.x.get(), layer.w, data.w.get(),
                                 layer.convolution,
                                 static_cast<cudnnConvolutionFwdAlgo_t>(algorithm),
                                 data.workspace.get(), 4096, &zero, layer.y, data.y.get()));
  }
  return (ThreadNanoseconds() - begin) / kCalls;
}

int LookUp(CudnnHandle handle, const Layer& layer, std::uint64_t id) {
  cudnnConvolutionFwdAlgoPerf_t result = {};
  int count = 0;
  Must(cudnnGetConvolutionForwardAlgorithm_v7(handle, layer.x, layer.w, layer.convolution, layer.y,
                                              1, &count, &result, id));
  return static_cast<int>(result.algo);
}

using Choices = std::vector<std::pair<const char*, const char*>>;

CudnnHandle Open(const Choices& options) {
  for (const auto& [name, value] : options) Must(tidepoolCudnnSetOption(name, value));
  CudnnHandle handle = nullptr;
  Must(cudnnCreate(&handle));
  return handle;
}

void CompareCalls(const char* name, const Choices& options) {
  const Layer layer({.n = 1, .c = 1, .h = 1, .w = 1, .k = 1, .r = 1, .s = 1, .pad = 0});
  const Data data(layer);
  cudnnHandle_t plain = nullptr;
  Must(::cudnnCreate(&plain));
  const CudnnHandle handle = Open(options);
  const int algorithm = LookUp(handle, layer, 0);
  double fastest_plain = 1e9;
  double fastest = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    fastest_plain = std::min(fastest_plain, NanosecondsOfRound(plain, layer, data, 1));
    fastest = std::min(fastest, NanosecondsOfRound(handle, layer, data, algorithm));
  }
  std::printf("%-42s cuDNN's call %5.0f ns, with tidepool %5.0f ns: %4.0f ns more\n", name,
              fastest_plain, fastest, fastest - fastest_plain);
  Must(cudnnDestroy(handle));
  Must(::cudnnDestroy(plain));
}

using PlainGraph = test::GraphLayer<cudnnBackendDescriptor_t, cudnnHandle_t>;
using WrappedGraph = test::GraphLayer<CudnnBackendDescriptor, CudnnHandle>;

// This number of calls in turn have workspaces at different addresses.
template <typename Graph, typename Handle>
double NanosecondsOfGraph(Graph& graph, Handle handle, const Data& data, int addresses) {
  const WaitingStream stream;
  const double begin = ThreadNanoseconds();
  for (int i = 0; i < kCalls; ++i) {
    Must(graph.Execute(handle, data.x.get(), data.w.get(), data.y.get(),
                       static_cast<char*>(data.workspace.get()) + i % addresses));
  }
  return (ThreadNanoseconds() - begin) / kCalls;
}

// A call of a graph's plan makes a variant pack, sets its three attributes, and destroys it.
void CompareGraphs(const char* name, const char* limit, int addresses) {
  const Layer layer({.n = 1, .c = 1, .h = 1, .w = 1, .k = 1, .r = 1, .s = 1, .pad = 0});
  const Data data(layer);
  cudnnHandle_t plain = nullptr;
  Must(::cudnnCreate(&plain));
  const CudnnHandle handle = Open({{"limit", limit}, {"total", "none"}, {"workspace", "caller"}});
  PlainGraph plain_graph(plain, layer, {});
  WrappedGraph graph(handle, layer, {});
  double fastest_plain = 1e9;
  double fastest = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    fastest_plain =
        std::min(fastest_plain, NanosecondsOfGraph(plain_graph, plain, data, addresses));
    fastest = std::min(fastest, NanosecondsOfGraph(graph, handle, data, addresses));
  }
  std::printf("%-42s cuDNN's call %5.0f ns, with tidepool %5.0f ns: %4.0f ns more\n", name,
              fastest_plain, fastest, fastest - fastest_plain);
  Must(cudnnDestroy(handle));
  Must(::cudnnDestroy(plain));
}

// A network asks for each of its layers in each iteration.
void TimeLookUps(int layers, bool has_ids) {
  const Layer layer({.n = 1, .c = 1, .h = 1, .w = 1, .k = 1, .r = 1, .s = 1, .pad = 0});
  const Data data(layer);
  const CudnnHandle handle = Open({{"total", "1MiB"}, {"sharing", "wd"}});
  const auto look = [&](int i) {
    return LookUp(handle, layer, has_ids ? static_cast<std::uint64_t>(i) + 1 : 0);
  };
  int algorithm = 0;
  for (int i = 0; i < layers; ++i) algorithm = look(i);
  NanosecondsOfRound(handle, layer, data, algorithm);
  double fastest = 1e12;
  for (int round = 0; round < 5; ++round) {
    const double begin = ThreadNanoseconds();
    for (int i = 0; i < layers; ++i) look(i);
    fastest = std::min(fastest, (ThreadNanoseconds() - begin) / layers);
  }
  std::printf("look-ups of %4d layers, %-20s %6.0f ns each\n", layers,
              has_ids ? "with ids:" : "without ids, in turn:", fastest);
  Must(cudnnDestroy(handle));
}

int Main() {
  Must(cudnnHostSetTable("pass,layer,samples,algorithm,milliseconds,workspace_bytes\n"
                         "forward,*,1,0,2,0\nforward,*,1,1,1,1024\n") == 1);
  CompareCalls("workspace of the caller:", {{"total", "none"}, {"workspace", "caller"}});
  CompareCalls("a workspace of the pool for each call:", {{"workspace", "pool"}});
  CompareCalls("a divided total:", {{"total", "1MiB"}, {"sharing", "wd"}});
  CompareCalls("a shared total:", {{"total", "1MiB"}, {"sharing", "shared"}});
  CompareGraphs("a graph's plan that is left to cuDNN:", "64MiB", 1);
  CompareGraphs("a graph's plan that was taken over:", "1000", 1);
  CompareGraphs("the same, data always at new addresses:", "1000", kCalls);
  for (const int layers : {16, 159, 1000}) {
    for (const bool has_ids : {true, false}) TimeLookUps(layers, has_ids);
  }
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main() { return tidepool::bench::Main(); }
