// SPDX-License-Identifier: Apache-2.0
// Streams and events of the stand-in: which work is ordered, and which is not.
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/dryrun/runtime/fixture.h"

namespace tidepool {
namespace {

class StreamTest : public CudartHost {
 protected:
  static bool IsIdle(cudaStream_t stream) {
    const cudaError_t error = cudaStreamQuery(stream);
    EXPECT_TRUE(error == cudaSuccess || error == cudaErrorNotReady);
    static_cast<void>(cudaGetLastError());
    return error == cudaSuccess;
  }
};

TEST_F(StreamTest, HandlesAreCheckedAndReused) {
  const cudaStream_t stream = NewStream();
  unsigned flags = 0;
  int device = -1;
  EXPECT_EQ(cudaStreamGetFlags(stream, &flags), cudaSuccess);
  EXPECT_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
  EXPECT_EQ(cudaStreamGetDevice(stream, &device), cudaSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(cudaStreamPerThread), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(NewStream(), stream) << "as CUDA may";
  cudaStream_t refused = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&refused, 99), cudaErrorInvalidValue);
  const cudaEvent_t event = NewEvent();
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamTest, ALegacyStreamTakesTurnsWithBlockingStreams) {
  const cudaStream_t blocking = NewStream(cudaStreamDefault);
  const cudaStream_t non_blocking = NewStream();
  {
    BusyStream busy(blocking);
    EXPECT_FALSE(IsIdle(nullptr)) << "its work would wait";
    EXPECT_FALSE(IsIdle(cudaStreamLegacy));
    EXPECT_EQ(cudaStreamSynchronize(non_blocking), cudaSuccess);
    EXPECT_FALSE(IsIdle(cudaStreamPerThread)) << "behind the turns above";
  }
  {
    BusyStream busy(nullptr);
    EXPECT_FALSE(IsIdle(blocking));
    EXPECT_FALSE(IsIdle(cudaStreamPerThread));
    EXPECT_EQ(cudaStreamSynchronize(non_blocking), cudaSuccess);
  }
  {
    BusyStream busy(non_blocking);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess) << "which does not wait";
    EXPECT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
  }
}

TEST_F(StreamTest, ALegacyStreamWaitsForDestroyedStreams) {
  const cudaStream_t blocking = NewStream(cudaStreamDefault);
  BusyStream busy(blocking);
  ASSERT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  EXPECT_FALSE(IsIdle(nullptr));
  busy.Stop();
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
}

TEST_F(StreamTest, EveryThreadHasAStreamOfItsOwn) {
  BusyStream busy(cudaStreamPerThread);
  std::thread([] {
    const cudaError_t error = cudaStreamQuery(cudaStreamPerThread);
    EXPECT_EQ(error, cudaSuccess);
  }).join();
  EXPECT_FALSE(IsIdle(cudaStreamPerThread));
}

TEST_F(StreamTest, EventsMeasureTime) {
  const cudaStream_t stream = NewStream();
  const cudaEvent_t start = NewEvent(cudaEventDefault);
  const cudaEvent_t end = NewEvent(cudaEventDefault);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  BusyStream busy(stream);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady);
  busy.Stop();
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, NewEvent()), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamTest, AWaitKeepsTheRecordItFoundAndCrossesDevices) {
  const cudaStream_t here = NewStream();
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const cudaStream_t there = NewStream();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const cudaEvent_t event = NewEvent();
  EXPECT_EQ(cudaEventRecord(event, there), cudaErrorInvalidResourceHandle) << "of another device";
  BusyStream busy(here);
  ASSERT_EQ(cudaEventRecord(event, here), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(there, event, 0), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, NewStream()), cudaSuccess);
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_FALSE(IsIdle(there));
  busy.Stop();
  EXPECT_EQ(cudaStreamSynchronize(there), cudaSuccess);
}

TEST_F(StreamTest, HostFunctionsMayNotCallCuda) {
  const cudaStream_t stream = NewStream();
  cudaError_t inside = cudaSuccess;
  ASSERT_EQ(cudaLaunchHostFunc(
                stream,
                [](void* result) {
                  void* address = nullptr;
                  *static_cast<cudaError_t*>(result) = cudaMalloc(&address, 1);
                },
                &inside),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(inside, cudaErrorNotPermitted);
  EXPECT_EQ(Live().allocations, 0);
}

// Random work on all kinds of streams, compared with CUDA's rules as sets: the work that must have
// finished before other work begins.
class OrderModel {
 public:
  using Works = std::set<int>;

  // Returns the work that has finished before work queued now on the stream begins.
  Works Before(std::size_t stream) {
    TakeTurn(stream);
    return done_[stream];
  }
  void Queue(std::size_t stream, int work) { done_[stream].insert(work); }
  Works Record(std::size_t stream) { return Before(stream); }
  void Wait(std::size_t stream, const Works& works) {
    TakeTurn(stream);
    done_[stream].insert(works.begin(), works.end());
  }

 private:
  void TakeTurn(std::size_t stream) {
    if (stream == 0) {
      for (const std::size_t blocking : {1, 2})
        done_[0].insert(done_[blocking].begin(), done_[blocking].end());
    } else if (stream <= 2) {
      done_[stream].insert(done_[0].begin(), done_[0].end());
    }
  }

  Works done_[5];  // the legacy stream, two blocking streams, two non-blocking streams
};

TEST_F(StreamTest, KeepsTheOrderOfCuda) {
  struct Log {
    std::mutex mutex;
    OrderModel::Works over;
    int violations = 0;
  };
  struct Work {
    Log* log;
    int number;
    OrderModel::Works before;
  };
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Log log;
    OrderModel model;
    const cudaStream_t streams[5] = {nullptr, NewStream(cudaStreamDefault),
                                     NewStream(cudaStreamDefault), NewStream(), NewStream()};
    std::vector<cudaEvent_t> events;
    std::vector<std::optional<OrderModel::Works>> recorded(4);
    for (int i = 0; i < 4; ++i) events.push_back(NewEvent());
    std::vector<std::unique_ptr<Work>> works;
    for (int step = 0; step < 150; ++step) {
      const std::size_t stream = random() % 5;
      const std::size_t event = random() % 4;
      switch (random() % 4) {
        case 0:
          ASSERT_EQ(cudaEventRecord(events[event], streams[stream]), cudaSuccess);
          recorded[event] = model.Record(stream);
          break;
        case 1:
          ASSERT_EQ(cudaStreamWaitEvent(streams[stream], events[event], 0), cudaSuccess);
          if (recorded[event].has_value()) model.Wait(stream, *recorded[event]);
          break;
        default:
          works.push_back(std::make_unique<Work>(Work{&log, step, model.Before(stream)}));
          ASSERT_EQ(cudaLaunchHostFunc(
                        streams[stream],
                        [](void* data) {
                          const Work& work = *static_cast<Work*>(data);
                          const std::lock_guard lock(work.log->mutex);
                          for (const int before : work.before) {
                            if (work.log->over.count(before) == 0) ++work.log->violations;
                          }
                          work.log->over.insert(work.number);
                        },
                        works.back().get()),
                    cudaSuccess);
          model.Queue(stream, step);
      }
    }
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(log.violations, 0) << seed;
    EXPECT_EQ(log.over.size(), works.size());
    for (const cudaEvent_t event : events) ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
    for (int i = 1; i < 5; ++i) ASSERT_EQ(cudaStreamDestroy(streams[i]), cudaSuccess);
  }
  EXPECT_EQ(Live().streams + Live().events, 0);
}

TEST_F(StreamTest, ACallOnADestroyedStreamMayEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // A forked child cannot use CUDA.
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  CudartHostConfig config = Config(1);
  config.dies_of_destroyed_streams = 1;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  EXPECT_DEATH(cudaStreamQuery(stream), "cudaStreamQuery: stream .* does not exist");
}

// cuCtxRecordEvent, which programs find by its name.
TEST_F(StreamTest, AContextRecordsTheWorkOfAllItsStreams) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuCtxRecordEvent", &entry, 12000, 0, &result),
            cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointVersionNotSufficent);
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuCtxRecordEvent", &entry, 12050, 0, &result),
            cudaSuccess);
  const auto record = reinterpret_cast<int (*)(void*, cudaEvent_t)>(entry);
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &entry, 12050, 0, &result),
            cudaSuccess);
  const auto get_current = reinterpret_cast<int (*)(void**)>(entry);
  const cudaEvent_t event = NewEvent();
  const cudaStream_t stream = NewStream();
  void* context = nullptr;
  std::thread([&] {
    EXPECT_EQ(get_current(&context), 0);
    EXPECT_EQ(context, nullptr) << "the runtime binds it in a call that needs it";
    EXPECT_EQ(record(context, event), cudaErrorDeviceUninitialized);
  }).join();
  ASSERT_EQ(get_current(&context), 0);
  std::latch latch(1);
  ASSERT_EQ(cudaLaunchHostFunc(
                stream, [](void* data) { static_cast<std::latch*>(data)->wait(); }, &latch),
            cudaSuccess);
  ASSERT_EQ(record(context, event), 0);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  latch.count_down();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(record(nullptr, event), cudaErrorDeviceUninitialized);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(record(context, event), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace tidepool
