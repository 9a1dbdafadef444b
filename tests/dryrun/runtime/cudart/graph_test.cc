// SPDX-License-Identifier: Apache-2.0
// Captures and graphs of the stand-in, by CUDA's rules.
#include <pthread.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/dryrun/runtime/fixture.h"

namespace tidepool {
namespace {

class GraphTest : public CudartHost {
 protected:
  static void Begin(cudaStream_t stream,
                    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  }
  static cudaGraph_t End(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    return graph;
  }
  static cudaError_t EndError(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    EXPECT_EQ(graph, nullptr);
    return error;
  }
  static cudaGraphExec_t Instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    return exec;
  }
  static void Launch(cudaGraphExec_t exec, cudaStream_t stream) {
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  static std::size_t Nodes(cudaGraph_t graph) {
    std::size_t count = 99;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
    return count;
  }
  static cudaStreamCaptureStatus Status(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    return status;
  }
  static void Add(void* count) { ++*static_cast<std::atomic<int>*>(count); }

  const cudaStream_t stream_ = NewStream();
  const cudaStream_t other_ = NewStream();
  const cudaEvent_t event_ = NewEvent();
  char* const memory_ = NewMemory(4096);
  char* const pinned_ = NewPinned(4096);
  std::atomic<int> calls_ = 0;
};

// The answers of an H200 with driver 580.
TEST_F(GraphTest, DoesNotSurviveQuestionsAboutItsStream) {
  int device = 0;
  unsigned flags = 0;
  unsigned long long id = 0;
  for (int question = 0; question < 3; ++question) {
    Begin(stream_);
    const cudaError_t error = question == 0   ? cudaStreamGetDevice(stream_, &device)
                              : question == 1 ? cudaStreamGetFlags(stream_, &flags)
                                              : cudaStreamGetId(stream_, &id);
    EXPECT_EQ(error, cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);
    EXPECT_STREQ(cudaGetErrorName(cudaErrorStreamCaptureInvalidated),
                 "cudaErrorStreamCaptureInvalidated");
  }
}

TEST_F(GraphTest, DoesNotSurviveAWaitForAnyStreamInGlobalMode) {
  Begin(stream_, cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(GraphTest, QueuesItsWorkAtEachLaunchOnly) {
  Begin(stream_);
  EXPECT_EQ(Status(stream_), cudaStreamCaptureStatusActive);
  ASSERT_EQ(cudaMemsetAsync(memory_, 7, 4096, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned_, memory_, 4096, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Add, &calls_), cudaSuccess);
  pinned_[5] = 1;
  const cudaGraph_t graph = End(stream_);
  EXPECT_EQ(Status(stream_), cudaStreamCaptureStatusNone);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(pinned_[5], 1) << "a capture runs nothing";
  EXPECT_EQ(Nodes(graph), 3);
  const cudaGraphExec_t exec = Instantiate(graph);
  for (int i = 1; i <= 3; ++i) {
    pinned_[5] = 1;
    Launch(exec, i == 2 ? other_ : stream_);
    EXPECT_EQ(pinned_[5], 7);
    EXPECT_EQ(calls_, i);
  }
}

TEST_F(GraphTest, AnExecutableOutlivesItsGraphUntilItIsDestroyed) {
  Begin(stream_);
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Add, &calls_), cudaSuccess);
  const cudaGraph_t graph = End(stream_);
  const cudaGraphExec_t exec = Instantiate(graph);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaErrorInvalidValue);
  Launch(exec, stream_);
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaErrorInvalidValue);
  cudaGraphExec_t none = nullptr;
  EXPECT_EQ(cudaGraphInstantiateWithFlags(&none, graph, 0), cudaErrorInvalidValue);
}

TEST_F(GraphTest, LaunchesWithFreedMemoryFail) {
  Begin(stream_);
  ASSERT_EQ(cudaMemsetAsync(memory_, 7, 4096, stream_), cudaSuccess);
  const cudaGraphExec_t exec = Instantiate(End(stream_));
  ASSERT_EQ(cudaFree(memory_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaErrorInvalidValue);
}

TEST_F(GraphTest, StreamsForkAndJoinByEvents) {
  const cudaEvent_t joined = NewEvent();
  Begin(stream_);
  ASSERT_EQ(cudaMemsetAsync(memory_, 3, 4096, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  EXPECT_EQ(Status(other_), cudaStreamCaptureStatusActive);
  ASSERT_EQ(cudaMemcpyAsync(pinned_, memory_, 4096, cudaMemcpyDeviceToHost, other_), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Add, &calls_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(joined, other_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, joined, 0), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Add, &calls_), cudaSuccess);
  const cudaGraph_t graph = End(stream_);
  EXPECT_EQ(Status(other_), cudaStreamCaptureStatusNone) << "it leaves with the end";

  std::vector<cudaGraphNode_t> nodes(4);
  std::size_t count = nodes.size();
  ASSERT_EQ(cudaGraphGetNodes(graph, nodes.data(), &count), cudaSuccess);
  ASSERT_EQ(count, 4);
  const auto dependencies = [](cudaGraphNode_t node) {
    std::size_t found = 0;
    EXPECT_EQ(cudaGraphNodeGetDependencies(node, nullptr, nullptr, &found), cudaSuccess);
    return found;
  };
  EXPECT_EQ(dependencies(nodes[0]), 0);
  EXPECT_EQ(dependencies(nodes[1]), 1);
  EXPECT_EQ(dependencies(nodes[2]), 1);
  EXPECT_EQ(dependencies(nodes[3]), 2) << "both branches";
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  EXPECT_EQ(cudaGraphNodeGetType(nodes[1], &type), cudaSuccess);
  EXPECT_EQ(type, cudaGraphNodeTypeMemcpy);
  Launch(Instantiate(graph), other_);
  EXPECT_EQ(pinned_[9], 3);
  EXPECT_EQ(calls_, 2);
}

TEST_F(GraphTest, BranchesThatDoNotJoinAreRefused) {
  Begin(stream_);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(other_, Add, &calls_), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(other_, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(Status(stream_), cudaStreamCaptureStatusNone);
  EXPECT_EQ(Status(other_), cudaStreamCaptureStatusNone);
}

TEST_F(GraphTest, OnlyTheFirstStreamEndsACapture) {
  EXPECT_EQ(EndError(stream_), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
  Begin(stream_);
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  EXPECT_EQ(EndError(other_), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(GraphTest, QueriesInvalidateACapture) {
  Begin(stream_);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorCapturedEvent);
  EXPECT_EQ(Status(stream_), cudaStreamCaptureStatusInvalidated);
  EXPECT_EQ(cudaMemsetAsync(memory_, 3, 4096, stream_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaErrorCapturedEvent) << "until it is recorded again";
  EXPECT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaErrorCapturedEvent);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  for (cudaError_t (*query)(cudaStream_t) : {&cudaStreamQuery, &cudaStreamSynchronize}) {
    Begin(stream_);
    EXPECT_EQ(query(stream_), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);
  }
}

TEST_F(GraphTest, DependenciesStayInsideOneCapture) {
  ASSERT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
  Begin(stream_);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);
  Begin(stream_);
  Begin(other_);
  ASSERT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(EndError(other_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(GraphTest, TheLegacyStreamMayNotWaitForACapture) {
  const cudaStream_t blocking = NewStream(cudaStreamDefault);
  Begin(blocking);
  auto status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(cudaStreamLegacy, &status), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(Status(blocking), cudaStreamCaptureStatusActive) << "it survives the question";
  EXPECT_EQ(cudaMemset(memory_, 1, 8), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(EndError(blocking), cudaErrorStreamCaptureInvalidated);
  Begin(stream_);
  EXPECT_EQ(cudaMemset(memory_, 1, 8), cudaSuccess) << "a capture without blocking streams";
  End(stream_);
}

TEST_F(GraphTest, ModesProhibitCallsThatMayWait) {
  void* address = nullptr;
  Begin(stream_, cudaStreamCaptureModeGlobal);
  std::thread([&] {
    void* from_other = nullptr;
    EXPECT_EQ(cudaMalloc(&from_other, 8), cudaErrorStreamCaptureUnsupported);
  }).join();
  EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);

  Begin(stream_, cudaStreamCaptureModeThreadLocal);
  std::thread([&] {
    void* from_other = nullptr;
    EXPECT_EQ(cudaMalloc(&from_other, 8), cudaSuccess);
    EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureWrongThread);
  }).join();
  EXPECT_EQ(Status(stream_), cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaMalloc(&address, 8), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);

  Begin(stream_, cudaStreamCaptureModeGlobal);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaMalloc(&address, 8), cudaSuccess) << "this thread takes the risk";
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
  End(stream_);
}

TEST_F(GraphTest, NoModeAllowsAWaitForTheDevice) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  for (const auto of_capture : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed}) {
    Begin(stream_, of_capture);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(EndError(stream_), cudaErrorStreamCaptureInvalidated);
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
}

TEST_F(GraphTest, AGraphLaunchedInACaptureBecomesANode) {
  Begin(stream_);
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Add, &calls_), cudaSuccess);
  const cudaGraphExec_t inner = Instantiate(End(stream_));
  Begin(stream_);
  ASSERT_EQ(cudaGraphLaunch(inner, stream_), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(inner, stream_), cudaSuccess);
  const cudaGraph_t graph = End(stream_);
  EXPECT_EQ(Nodes(graph), 2);
  Launch(Instantiate(graph), stream_);
  EXPECT_EQ(calls_, 2);
}

TEST_F(GraphTest, CaptureInfoNamesTheCapture) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  ASSERT_EQ(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, nullptr, nullptr, nullptr),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  Begin(stream_);
  ASSERT_EQ(cudaLaunchHostFunc(stream_, Add, &calls_), cudaSuccess);
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(cudaStreamGetCaptureInfo(stream_, &status, &id, &graph, &dependencies, nullptr, &count),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0);
  EXPECT_EQ(count, 1);
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  EXPECT_EQ(cudaGraphNodeGetType(dependencies[0], &type), cudaSuccess);
  EXPECT_EQ(type, cudaGraphNodeTypeHost);
  EXPECT_EQ(End(stream_), graph);
}

// Kernels that do nothing
// --------------------------------------------------------------------------

class KernelTest : public GraphTest {
 protected:
  static void Configure(long long nanoseconds) {
    CudartHostConfig config = Config(1);
    config.has_kernels = 1;
    config.kernel_nanoseconds = nanoseconds;
    ASSERT_EQ(cudartHostConfigure(&config), 1);
  }
  // Lets a kernel for one thread take 5 us on the clock of events, and a copy over the link 1 ms
  // for each 1,000,000 bytes.
  static void ConfigureClock() {
    CudartHostConfig config = Config(1);
    config.has_kernels = 1;
    config.assumed_bytes_per_second = 1e12;
    config.assumed_link_bytes_per_second = 1e9;
    ASSERT_EQ(cudartHostConfigure(&config), 1);
  }
  static cudaError_t LaunchKernel(const void* kernel, cudaStream_t stream) {
    return cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, stream);
  }
};

extern "C" void __cudaRegisterFunction(void** handle, const char* host, char* device,
                                       const char* name, int limit, uint3* thread, uint3* block,
                                       dim3* block_size, dim3* grid_size, int* warp_size);

TEST_F(KernelTest, AreCountedByName) {
  Configure(0);
  const cudaStream_t stream = NewStream();
  static const char kAdd = 0;
  static const char kOther = 0;
  __cudaRegisterFunction(nullptr, &kAdd, nullptr, "add", 0, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  EXPECT_EQ(LaunchKernel(&kAdd, stream), cudaSuccess);
  EXPECT_EQ(LaunchKernel(&kOther, nullptr), cudaSuccess);
  EXPECT_EQ(cudartHostCountKernels("add"), 1);
  EXPECT_EQ(cudartHostCountKernels(nullptr), 2);
  Begin(stream);
  EXPECT_EQ(LaunchKernel(&kAdd, stream), cudaSuccess);
  const cudaGraphExec_t exec = Instantiate(End(stream));
  EXPECT_EQ(cudartHostCountKernels("add"), 1) << "a capture runs nothing";
  Launch(exec, stream);
  Launch(exec, stream);
  EXPECT_EQ(cudartHostCountKernels("add"), 3);
}

TEST_F(KernelTest, TakeTheirTimeInTheirStream) {
  constexpr long long kNanoseconds = 3'000'000;
  Configure(kNanoseconds);
  const cudaStream_t stream = NewStream();
  const cudaEvent_t start = NewEvent(cudaEventDefault);
  const cudaEvent_t end = NewEvent(cudaEventDefault);
  static const char kKernel = 0;
  BusyStream busy(stream);
  ASSERT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  ASSERT_EQ(LaunchKernel(&kKernel, stream), cudaSuccess);
  ASSERT_EQ(LaunchKernel(&kKernel, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady) << "in the order of the stream";
  busy.Stop();
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  float milliseconds = 0;
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 2 * kNanoseconds / 1e6F) << "never less than their time";
}

// PyTorch's watchdog lets go of the tensors of a collective that has ended.
TEST_F(KernelTest, EndForTheWatchdogAsOnADeviceThatTheHostIsAheadOf) {
  constexpr int kAhead = 1024;
  constexpr int kPatience = 10;
  CudartHostConfig config = Config(1);
  config.has_kernels = 1;
  config.assumed_bytes_per_second = 1e12;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  static const char kKernel = 0;
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  const auto launch = [&](unsigned blocks) {  // a block takes 16 ns
    ASSERT_EQ(cudaLaunchKernel(&kKernel, dim3(blocks), dim3(1000), nullptr, 0, stream),
              cudaSuccess);
  };
  const auto ask = [&](const char* name) {
    cudaError_t answer = cudaErrorUnknown;
    std::thread([&] {
      ASSERT_EQ(pthread_setname_np(pthread_self(), name), 0);
      answer = cudaEventQuery(event);
    }).join();
    return answer;
  };
  const auto record = [&] {
    launch(100'000'000);
    ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    while (cudaEventQuery(event) == cudaErrorNotReady) std::this_thread::yield();
  };
  record();
  EXPECT_EQ(ask("pt_nccl_watchdg"), cudaErrorNotReady);
  EXPECT_EQ(ask("other"), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(ask("pt_nccl_watchdg"), cudaSuccess) << "the host waited";
  record();
  for (int i = 1; i < kAhead; ++i) {
    launch(1);
    ASSERT_EQ(ask("pt_nccl_watchdg"), cudaErrorNotReady) << i;
  }
  launch(1);
  EXPECT_EQ(ask("pt_nccl_watchdg"), cudaSuccess) << "no host is further ahead";
  record();
  for (int i = 0; i < kPatience; ++i) ASSERT_EQ(ask("pt_nccl_watchdg"), cudaErrorNotReady) << i;
  EXPECT_EQ(ask("pt_nccl_watchdg"), cudaSuccess) << "the host does something else";
}

TEST_F(KernelTest, TakeAnAssumedTimeOnTheClockOfEvents) {
  CudartHostConfig config = Config(1);
  config.has_kernels = 1;
  config.assumed_bytes_per_second = 1e9;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  const cudaStream_t stream = NewStream();
  const cudaEvent_t start = NewEvent(cudaEventDefault);
  const cudaEvent_t end = NewEvent(cudaEventDefault);
  static const char kKernel = 0;
  const auto launch = [&] {
    float milliseconds = 0;
    EXPECT_EQ(cudaEventRecord(start, stream), cudaSuccess);
    EXPECT_EQ(cudaLaunchKernel(&kKernel, dim3(1'000'000), dim3(1000), nullptr, 0, stream),
              cudaSuccess);
    EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
    return milliseconds;
  };
  // A launch takes 5 us, and a record 1 us. The clock of the host has no part in it.
  EXPECT_FLOAT_EQ(launch(), 16'000.006F) << "16 bytes for each of 10^9 threads";
  cudartHostKernelsMove(2'000'000);
  EXPECT_FLOAT_EQ(launch(), 2.006F) << "the bytes that the caller knows";
  std::thread([&] { EXPECT_FLOAT_EQ(launch(), 16'000.006F) << "another thread"; }).join();
  cudartHostKernelsMove(-1);
  EXPECT_FLOAT_EQ(launch(), 16'000.006F);
}

// Copies take the time of the link, one after the other in each direction, and kernels run beside
// them. Streams wait for events, and the host for streams.
TEST_F(KernelTest, RunBesideCopiesOnTheClockOfEvents) {
  constexpr std::size_t kBytes = 1'000'000;  // 1 ms over the link
  ConfigureClock();
  const cudaStream_t kernels = NewStream();
  const cudaStream_t out = NewStream();
  const cudaStream_t in = NewStream();
  constexpr std::size_t kCopies = 16;  // each has memory of its own
  char* device = NewMemory(kCopies * kBytes);
  char* host = NewPinned(kCopies * kBytes);
  const auto milliseconds = [](auto work) {
    const long long begin = cudartHostAssumedEnd(0);
    work();
    return static_cast<double>(cudartHostAssumedEnd(0) - begin) / 1e6;
  };
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind, cudaStream_t stream) {
    ASSERT_EQ(cudaMemcpyAsync(to, from, kBytes, kind, stream), cudaSuccess);
    host += kBytes;
    device += kBytes;
  };
  const auto send = [&](cudaStream_t stream) {
    copy(host, device, cudaMemcpyDeviceToHost, stream);
  };
  const auto fetch = [&](cudaStream_t stream) {
    copy(device, host, cudaMemcpyHostToDevice, stream);
  };
  // 500 kernels for one thread take 5 us each.
  const auto compute = [&](cudaStream_t stream) {
    static const char kKernel = 0;
    for (int i = 0; i < 500; ++i) ASSERT_EQ(LaunchKernel(&kKernel, stream), cudaSuccess);
  };
  const long long sum = cudartHostAssumedTime(0);
  EXPECT_NEAR(milliseconds([&] {
                send(out);
                fetch(in);
                compute(kernels);
              }),
              2.5, 0.01)
      << "all at once";
  EXPECT_NEAR(static_cast<double>(cudartHostAssumedTime(0) - sum) / 1e6, 4.5, 0.02);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_NEAR(milliseconds([&] {
                send(out);
                send(in);
              }),
              2, 0.02)
      << "one link in this direction";
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_NEAR(milliseconds([&] {
                send(out);
                compute(out);
              }),
              3.5, 0.01)
      << "one stream";
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const cudaEvent_t sent = NewEvent(cudaEventDisableTiming);
  EXPECT_NEAR(milliseconds([&] {
                send(out);
                ASSERT_EQ(cudaEventRecord(sent, out), cudaSuccess);
                ASSERT_EQ(cudaStreamWaitEvent(kernels, sent, 0), cudaSuccess);
                compute(kernels);
              }),
              3.5, 0.01)
      << "a stream that waits for an event";
  EXPECT_NEAR(milliseconds([&] {
                send(out);
                ASSERT_EQ(cudaStreamSynchronize(out), cudaSuccess);
                fetch(in);
              }),
              0, 0.01)
      << "beside the kernels of before, which end later";
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_NEAR(milliseconds([&] {
                send(out);
                ASSERT_EQ(cudaStreamSynchronize(out), cudaSuccess);
                compute(kernels);
              }),
              3.5, 0.01)
      << "a host that waits for a stream";
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::array<cudaStream_t, 2> blocking = {};
  for (cudaStream_t& stream : blocking) ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  EXPECT_NEAR(milliseconds([&] {
                send(blocking[0]);
                compute(nullptr);
                fetch(blocking[1]);
              }),
              4.5, 0.02)
      << "the legacy stream, which waits for others, and others for it";
  for (const cudaStream_t stream : blocking) ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudartHostAssumedEnd(-1), 0);
}

// Branches of a graph run beside each other, and a node after those that it depends on.
TEST_F(KernelTest, OfAGraphRunBesideItsCopiesOnTheClockOfEvents) {
  constexpr std::size_t kBytes = 1'000'000;  // 1 ms over the link
  ConfigureClock();
  const cudaStream_t kernels = NewStream();
  const cudaStream_t out = NewStream();
  const cudaEvent_t fork = NewEvent();
  const cudaEvent_t join = NewEvent();
  char* const device = NewMemory(kBytes);
  char* const host = NewPinned(kBytes);
  static const char kKernel = 0;
  // 500 kernels for one thread take 5 us each.
  const auto compute = [&] {
    for (int i = 0; i < 500; ++i) ASSERT_EQ(LaunchKernel(&kKernel, kernels), cudaSuccess);
  };
  const auto milliseconds_of_a_launch = [&](bool joins_before_kernels) {
    EXPECT_EQ(cudaStreamBeginCapture(kernels, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(fork, kernels), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(out, fork, 0), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, out), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(join, out), cudaSuccess);
    if (!joins_before_kernels) compute();
    EXPECT_EQ(cudaStreamWaitEvent(kernels, join, 0), cudaSuccess);
    if (joins_before_kernels) compute();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(kernels, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    const long long begin = cudartHostAssumedEnd(0);
    EXPECT_EQ(cudaGraphLaunch(exec, kernels), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(exec, kernels), cudaSuccess);
    return static_cast<double>(cudartHostAssumedEnd(0) - begin) / 1e6;
  };
  EXPECT_NEAR(milliseconds_of_a_launch(false), 2 * 2.5, 0.02);
  EXPECT_NEAR(milliseconds_of_a_launch(true), 2 * 3.5, 0.02);
}

TEST_F(KernelTest, TellTheirAttributes) {
  Configure(0);
  cudaFuncAttributes attributes;
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, nullptr), cudaSuccess);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_EQ(attributes.ptxVersion, 75) << "the default capability is 7.0";
  int blocks = 0;
  ASSERT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nullptr, 256, 0), cudaSuccess);
  EXPECT_EQ(blocks, 8);
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nullptr, 0, 0),
            cudaErrorInvalidValue);
  CudartHostConfig config = Config(1);
  config.has_kernels = 1;
  config.capability = 89;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, nullptr), cudaSuccess);
  EXPECT_EQ(attributes.ptxVersion, 86) << "libraries have no code of their own for 8.9";
  int major = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(major, 8);
}

}  // namespace
}  // namespace tidepool
