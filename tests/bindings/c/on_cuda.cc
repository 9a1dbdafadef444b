// SPDX-License-Identifier: Apache-2.0
// The C interface on the stand-in for the CUDA runtime: streams of the caller, and devices that
// end.
#include <gmock/gmock.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "tests/bindings/c/fixture.h"
#include "tests/memory/device/cuda/stand_in.h"
#include "tests/support/temporary_files.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

class CApiOnCudaTest : public ::testing::Test {
 protected:
  CApiOnCudaTest() { ConfigureStandIn({}); }
  ~CApiOnCudaTest() override {
    ExpectOnlyStreamsAreLive();
    ConfigureStandIn({});
  }

  static cudaStream_t NewStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static void Destroy(cudaStream_t stream) { EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess); }
  static std::ptrdiff_t CountThreads() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  }
  // Waits until few threads of destroyed streams are left: they hold memory until they have ended.
  static void AwaitThreads() {
    constexpr std::ptrdiff_t kFew = 16;
    for (int i = 0; i < 1'000'000 && CountThreads() > kFew; ++i) std::this_thread::yield();
    EXPECT_LE(CountThreads(), kFew);
  }

  // Returns whether memory that `reader` copies from keeps its bytes until the copy has ended, when
  // `free` frees it meanwhile and `writer` fills it.
  static bool IsIntactAfterReuse(const CPool& pool, cudaStream_t reader,
                                 const std::function<void(void*)>& free, cudaStream_t writer) {
    constexpr std::size_t kBytes = 64 << 10;
    void* pinned = nullptr;
    EXPECT_EQ(cudaMallocHost(&pinned, kBytes), cudaSuccess);
    void* const read = pool.Allocate(kBytes, reader);
    EXPECT_EQ(cudaMemsetAsync(read, 1, kBytes, reader), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(reader), cudaSuccess);
    cudartHostHoldCopies(0);
    EXPECT_EQ(cudaMemcpyAsync(pinned, read, kBytes, cudaMemcpyDeviceToHost, reader), cudaSuccess);
    free(read);
    void* const written = pool.Allocate(kBytes, writer);
    EXPECT_EQ(written, read);
    EXPECT_EQ(cudaMemsetAsync(written, 2, kBytes, writer), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(writer), cudaErrorNotReady) << "it waits, on the device";
    cudartHostReleaseCopies(0);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    pool.Free(written, writer);
    const auto* const bytes = static_cast<const char*>(pinned);
    const bool is_intact = std::count(bytes, bytes + kBytes, 1) == kBytes;
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
    return is_intact;
  }
  // Checks the reuse of memory that is freed on `freed_on`.
  static bool IsIntactAfterReuse(const CPool& pool, cudaStream_t reader, cudaStream_t freed_on,
                                 cudaStream_t writer) {
    const auto free = [&](void* read) {
      if (freed_on != reader) {
        EXPECT_EQ(tidepool_record_use(pool.get(), read, reader), TIDEPOOL_OK);
      }
      pool.Free(read, freed_on);
    };
    return IsIntactAfterReuse(pool, reader, free, writer);
  }
};

TEST_F(CApiOnCudaTest, StreamsNeedNoRegistration) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  {
    const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
    EXPECT_TRUE(IsIntactAfterReuse(pool, first, first, second));
    EXPECT_TRUE(IsIntactAfterReuse(pool, second, first, nullptr));
    EXPECT_TRUE(IsIntactAfterReuse(pool, nullptr, nullptr, first));
    EXPECT_TRUE(IsIntactAfterReuse(pool, cudaStreamPerThread, cudaStreamPerThread, first));
    void* const address = pool.Allocate(1000, first);
    EXPECT_EQ(pool.Blocks().front().stream, first);
    pool.Free(address, first);
  }
  Destroy(first);
  Destroy(second);
}

// Other streams are asked whether they capture, and whether they are the ones that had their
// handle.
TEST_F(CApiOnCudaTest, KnownStreamsThatStayCauseNoCallsOfCuda) {
  const cudaStream_t stream = NewStream();
  for (const bool stays : {true, false}) {
    const CPool pool(stays ? "device=cuda:0,streams=stay" : "device=cuda:0");
    pool.Free(pool.Allocate(1000, stream), stream);
    const long long calls = cudartHostCountCalls(nullptr);
    for (int i = 0; i < 1000; ++i) pool.Free(pool.Allocate(1000, stream), stream);
    EXPECT_EQ(cudartHostCountCalls(nullptr) - calls, stays ? 0 : 2000);
  }
  Destroy(stream);
}

TEST_F(CApiOnCudaTest, MemoryOfADestroyedStreamIsFreedLate) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
  for (const bool is_forgotten : {false, true}) {
    const cudaStream_t other = NewStream();
    const cudaStream_t stream = NewStream();
    const auto free = [&](void* read) {
      Destroy(stream);
      if (is_forgotten) {
        EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
      }
      EXPECT_EQ(tidepool_free_late(pool.get(), read), TIDEPOOL_OK);
      EXPECT_EQ(tidepool_free_late(pool.get(), read), TIDEPOOL_INVALID_ARGUMENT);
    };
    EXPECT_TRUE(IsIntactAfterReuse(pool, stream, free, other));
    Destroy(other);
    for (const cudaStream_t ended : {stream, other}) {
      EXPECT_EQ(tidepool_stream_forget(pool.get(), ended), TIDEPOOL_OK);
    }
  }
}

// Two users share the pool: one keeps its streams, and the other may destroy its own.
TEST_F(CApiOnCudaTest, AStreamMayEndInAPoolWhoseOtherStreamsStay) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments,streams=stay");
  const cudaStream_t stays = NewStream();
  const cudaStream_t ends = NewStream();
  EXPECT_EQ(tidepool_stream_may_end(pool.get(), ends), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_stream_may_end(pool.get(), nullptr), TIDEPOOL_OK);
  for (const cudaStream_t used : {stays, ends}) pool.Free(pool.Allocate(1000, used), used);
  EXPECT_EQ(tidepool_stream_may_end(pool.get(), ends), TIDEPOOL_OK);
  Destroy(ends);
  pool.Free(pool.Allocate(64 << 10, stays), stays);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), ends), TIDEPOOL_OK);
  pool.Free(pool.Allocate(64 << 10, stays), stays);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), stays), TIDEPOOL_OK);
  Destroy(stays);
}

// The pool is not told that the first stream has ended.
TEST_F(CApiOnCudaTest, AStreamWithTheHandleOfADestroyedOneIsAnotherStream) {
  for (const bool stays : {false, true}) {
    const CPool pool(std::string("device=cuda:0,budget=64KiB,memory=segments,streams=") +
                     (stays ? "stay" : "end"));
    const cudaStream_t stream = NewStream();
    if (stays) {
      EXPECT_EQ(tidepool_stream_may_end(pool.get(), stream), TIDEPOOL_OK);
    }
    const auto free = [&](void* read) {
      pool.Free(read, stream);
      Destroy(stream);
      EXPECT_EQ(NewStream(), stream) << "the stand-in gives the handle out again";
    };
    EXPECT_TRUE(IsIntactAfterReuse(pool, stream, free, stream));
    EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
    Destroy(stream);
  }
}

TEST_F(CApiOnCudaTest, StreamsThatEndLeaveNothingBehind) {
  const CPool pool("device=cuda:0,budget=1MiB,memory=segments");
  const auto use = [&](int streams) {
    for (int i = 0; i < streams; ++i) {
      const cudaStream_t stream = NewStream();
      pool.Free(pool.Allocate(i % 2 == 0 ? 1000 : 1 << 20, stream), stream);
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      Destroy(stream);
    }
    AwaitThreads();
    return mallinfo2().uordblks;
  };
  const std::size_t before = use(500);
  EXPECT_LT(use(10000), before + (64 << 10)) << "8 bytes for each name would be more";
}

TEST_F(CApiOnCudaTest, AFreeOnTheOwnStreamOfAnotherThreadWaitsForBoth) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
  const cudaStream_t other = NewStream();
  pool.Free(pool.Allocate(1000, other), other);
  void* pinned = nullptr;
  EXPECT_EQ(cudaMallocHost(&pinned, 64 << 10), cudaSuccess);
  void* const read = pool.Allocate(64 << 10, cudaStreamPerThread);
  EXPECT_EQ(cudaMemsetAsync(read, 1, 64 << 10, cudaStreamPerThread), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  cudartHostHoldCopies(0);
  EXPECT_EQ(cudaMemcpyAsync(pinned, read, 64 << 10, cudaMemcpyDeviceToHost, cudaStreamPerThread),
            cudaSuccess);
  std::thread([&] { pool.Free(read, cudaStreamPerThread); }).join();
  void* const written = pool.Allocate(64 << 10, other);
  EXPECT_EQ(cudaMemsetAsync(written, 2, 64 << 10, other), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(other), cudaErrorNotReady) << "it waits, on the device";
  cudartHostReleaseCopies(0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  pool.Free(written, other);
  const auto* const bytes = static_cast<const char*>(pinned);
  EXPECT_EQ(std::count(bytes, bytes + (64 << 10), 1), 64 << 10);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  Destroy(other);
}

// A program that captures a graph on a stream of its own.
class GraphMemoryTest : public CApiOnCudaTest {
 protected:
  static constexpr std::size_t kBytes = 40 << 10;

  static void BeginCapture(cudaStream_t stream) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  }
  static cudaGraphExec_t EndCapture(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return exec;
  }
  static std::size_t EndGraph(const CPool& pool, cudaStream_t stream) {
    std::size_t number = 0;
    EXPECT_EQ(tidepool_end_graph(pool.get(), stream, &number), TIDEPOOL_OK);
    return number;
  }
  static int FirstByte(const void* memory) {
    unsigned char byte = 0;
    EXPECT_EQ(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    return byte;
  }
};

TEST_F(GraphMemoryTest, ALaunchFindsItsMemoryAndHarmsNobodyElse) {
  for (const char* const options :
       {"device=cuda:0,budget=8MiB,memory=segments", "device=cuda:0,budget=8MiB,streams=stay"}) {
    SCOPED_TRACE(options);
    const CPool pool(options);
    const cudaStream_t stream = NewStream();
    const cudaStream_t other = NewStream();
    for (const cudaStream_t used : {stream, other}) pool.Free(pool.Allocate(kBytes, used), used);
    ASSERT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
    BeginCapture(stream);
    void* const passing = pool.Allocate(kBytes, stream);
    EXPECT_EQ(cudaMemsetAsync(passing, 2, kBytes, stream), cudaSuccess);
    pool.Free(passing, stream);
    void* const kept = pool.Allocate(kBytes, stream);
    EXPECT_EQ(kept, passing) << "in the order of the stream";
    EXPECT_EQ(cudaMemsetAsync(kept, 3, kBytes, stream), cudaSuccess);
    void* const large = pool.Allocate(3 << 20, stream);  // a segment of its own, in the capture
    pool.Free(large, stream);
    const cudaGraphExec_t exec = EndCapture(stream);
    const std::size_t graph = EndGraph(pool, stream);
    pool.Free(kept, stream);

    void* const all = pool.Allocate(1 << 20, other);
    EXPECT_EQ(cudaMemsetAsync(all, 7, 1 << 20, other), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(exec, other), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(FirstByte(all), 7);
    EXPECT_EQ(FirstByte(kept), 3);
    pool.Free(all, other);
    EXPECT_EQ(pool.Try(8 << 20, other), TIDEPOOL_OUT_OF_MEMORY);

    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    EXPECT_EQ(tidepool_release_graph(pool.get(), graph), TIDEPOOL_OK);
    EXPECT_EQ(tidepool_release_graph(pool.get(), graph), TIDEPOOL_NOT_FOUND);
    EXPECT_EQ(pool.Try(8 << 20, other), TIDEPOOL_OK);
    EXPECT_EQ(pool.Statistics().live_bytes, 0U);
    if (std::string_view(options).find("stay") != std::string_view::npos) {
      for (const cudaStream_t used : {stream, other}) {
        EXPECT_EQ(tidepool_stream_forget(pool.get(), used), TIDEPOOL_OK);
      }
    }
    Destroy(stream);
    Destroy(other);
  }
}

TEST_F(GraphMemoryTest, LiveMemoryOutlivesTheReleaseOfItsGraph) {
  const CPool pool("device=cuda:0,budget=8MiB,memory=segments");
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
  void* const before = pool.Allocate(kBytes, stream);
  EXPECT_EQ(tidepool_record_use(pool.get(), before, nullptr), TIDEPOOL_OK);
  pool.Free(before, stream);
  EXPECT_EQ(tidepool_free(pool.get(), before, stream), TIDEPOOL_INVALID_ARGUMENT);
  void* const result = pool.Allocate(kBytes, stream);
  EXPECT_NE(result, before) << "another stream uses it";
  void* const large = pool.Allocate(3 << 20, stream);  // in a segment of its own
  EXPECT_EQ(tidepool_release_graph(pool.get(), 1), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(tidepool_release_graph(pool.get(), EndGraph(pool, stream)), TIDEPOOL_OK);
  for (void* const live : {result, large}) {
    EXPECT_EQ(pool.Try(8 << 20), TIDEPOOL_OUT_OF_MEMORY);
    pool.Free(live, stream);
    EXPECT_EQ(tidepool_free(pool.get(), live, stream), TIDEPOOL_INVALID_ARGUMENT);
  }
  EXPECT_EQ(pool.Try(8 << 20), TIDEPOOL_OK);
  Destroy(stream);
}

// A function that frees memory would need the lock under which a graph takes its own.
TEST_F(GraphMemoryTest, ItsRequestsDoNotCallFunctionsThatMakeRoom) {
  const CPool pool("device=cuda:0,budget=8MiB");
  const cudaStream_t stream = NewStream();
  void* const kept = pool.Allocate(6 << 20);
  int calls = 0;
  const auto count = [](const char*, std::size_t, tidepool_stream, int, void* data) {
    ++*static_cast<int*>(data);
    return 0;
  };
  std::size_t number = 0;
  ASSERT_EQ(tidepool_begin_make_room(pool.get(), nullptr, count, &calls, &number), TIDEPOOL_OK);
  ASSERT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
  EXPECT_EQ(pool.Try(4 << 20, stream), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(pool.Try(4 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(tidepool_release_graph(pool.get(), EndGraph(pool, stream)), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_end_make_room(pool.get(), number), TIDEPOOL_OK);
  pool.Free(kept);
  Destroy(stream);
}

TEST_F(GraphMemoryTest, MemoryOfThePoolThatIsFreedInACaptureIsFreeAfterIt) {
  const CPool pool("device=cuda:0,budget=8MiB,memory=segments");
  const cudaStream_t stream = NewStream();
  void* const earlier = pool.Allocate(5 << 20, stream);
  ASSERT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
  BeginCapture(stream);
  pool.Free(earlier, stream);
  EXPECT_EQ(pool.Try(5 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(cudaGraphExecDestroy(EndCapture(stream)), cudaSuccess);
  const std::size_t graph = EndGraph(pool, stream);
  EXPECT_EQ(pool.Try(5 << 20), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_release_graph(pool.get(), graph), TIDEPOOL_OK);
  Destroy(stream);
}

// Streams end, other graphs begin and released memory comes back meanwhile: the capture lives on.
TEST_F(GraphMemoryTest, OtherCallsDoNotEndACapture) {
  const CPool pool("device=cuda:0,budget=32MiB,memory=segments");
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaStream_t ends = NewStream();
  ASSERT_EQ(tidepool_begin_graph(pool.get(), second), TIDEPOOL_OK);
  void* const late = pool.Allocate(kBytes, second);
  EXPECT_EQ(tidepool_release_graph(pool.get(), EndGraph(pool, second)), TIDEPOOL_OK);
  void* const of_ends = pool.Allocate(kBytes, ends);
  pool.Free(pool.Allocate(kBytes));

  ASSERT_EQ(tidepool_begin_graph(pool.get(), first), TIDEPOOL_OK);
  BeginCapture(first);
  pool.Allocate(kBytes, first);
  Destroy(ends);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), ends), TIDEPOOL_OK);
  pool.Free(late, second);
  ASSERT_EQ(tidepool_begin_graph(pool.get(), second), TIDEPOOL_OK);
  BeginCapture(second);
  void* const large = pool.Allocate(3 << 20, second);
  EXPECT_NE(large, nullptr);
  std::size_t refused = 0;
  EXPECT_EQ(tidepool_end_graph(pool.get(), second, &refused), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(cudaGraphExecDestroy(EndCapture(second)), cudaSuccess);
  EXPECT_EQ(tidepool_release_graph(pool.get(), EndGraph(pool, second)), TIDEPOOL_OK);
  EXPECT_EQ(cudaGraphExecDestroy(EndCapture(first)), cudaSuccess);
  EXPECT_EQ(tidepool_release_graph(pool.get(), EndGraph(pool, first)), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_free_late(pool.get(), of_ends), TIDEPOOL_OK);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  Destroy(first);
  Destroy(second);
}

// The memory of a stream that ended needs a record of all streams, which no capture survives.
TEST_F(GraphMemoryTest, ACaptureOfOthersLivesOn) {
  const CPool pool("device=cuda:0,budget=1MiB,memory=segments");
  const cudaStream_t captures = NewStream();
  const cudaStream_t before = NewStream();
  const cudaStream_t ends = NewStream();
  const cudaStream_t next = NewStream();
  pool.Free(pool.Allocate(1 << 20, before), before);
  Destroy(before);
  ASSERT_EQ(tidepool_note_capture(pool.get(), 1), TIDEPOOL_OK);
  ASSERT_EQ(cudaStreamBeginCapture(captures, cudaStreamCaptureModeRelaxed), cudaSuccess);
  void* const of_ends = pool.Allocate(1 << 20, ends);
  Destroy(ends);
  EXPECT_EQ(tidepool_free_late(pool.get(), of_ends), TIDEPOOL_OK);
  void* address = nullptr;
  EXPECT_EQ(tidepool_allocate(pool.get(), 1 << 20, next, TIDEPOOL_RESIDENT, &address),
            TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(cudaGraphExecDestroy(EndCapture(captures)), cudaSuccess);
  ASSERT_EQ(tidepool_note_capture(pool.get(), 0), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_note_capture(pool.get(), 0), TIDEPOOL_FAILED_PRECONDITION);
  pool.Free(pool.Allocate(1 << 20, next), next);
  Destroy(captures);
  Destroy(next);
}

// Two branches of a capture have no order: a block that one frees does not go to the other.
TEST_F(GraphMemoryTest, AFreeOnAnotherStreamOfTheCaptureKeepsTheBlock) {
  const CPool pool("device=cuda:0,budget=8MiB,memory=segments");
  const cudaStream_t stream = NewStream();
  const cudaStream_t branch = NewStream();
  ASSERT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
  void* const shared = pool.Allocate(kBytes, stream);
  pool.Free(shared, branch);
  void* const next = pool.Allocate(kBytes, stream);
  EXPECT_NE(next, shared);
  pool.Free(next, stream);
  EXPECT_EQ(tidepool_release_graph(pool.get(), EndGraph(pool, stream)), TIDEPOOL_OK);
  EXPECT_EQ(pool.Try(8 << 20), TIDEPOOL_OK);
  Destroy(stream);
  Destroy(branch);
}

TEST_F(GraphMemoryTest, AStreamThatIsForgottenEndsItsGraph) {
  const CPool pool("device=cuda:0,budget=8MiB,memory=segments");
  const cudaStream_t stream = NewStream();
  void* const earlier = pool.Allocate(kBytes, stream);
  ASSERT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
  pool.Free(earlier, stream);
  EXPECT_EQ(tidepool_free(pool.get(), earlier, stream), TIDEPOOL_INVALID_ARGUMENT);
  Destroy(stream);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
  EXPECT_EQ(pool.Try(8 << 20), TIDEPOOL_OK);
}

TEST_F(GraphMemoryTest, SnapshotsShowTheMemoryOfGraphs) {
  const CPool pool("device=cuda:0,budget=32MiB,memory=segments");
  const cudaStream_t stream = NewStream();
  void* const other = pool.Allocate(kBytes);
  ASSERT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
  void* const address = pool.Allocate(3 << 20, stream);
  std::map<void*, void*> streams;
  for (const tidepool_block& block : pool.Blocks()) {
    if (block.is_live != 0) streams[block.address] = block.stream;
  }
  EXPECT_EQ(streams.size(), 3U);
  EXPECT_EQ(streams[other], nullptr);
  EXPECT_EQ(streams[address], stream);
  const std::string path = TemporaryFile("graph_snapshot.json");
  EXPECT_EQ(tidepool_write_snapshot(pool.get(), path.c_str()), TIDEPOOL_OK);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::size_t graphs = 0;
  for (std::size_t at = 0; (at = text.find("\"graph\": 1}", at)) != std::string::npos; ++at)
    ++graphs;
  EXPECT_EQ(graphs, 2U) << text;
  pool.Free(other);
  pool.Free(address, stream);
  EXPECT_EQ(tidepool_release_graph(pool.get(), EndGraph(pool, stream)), TIDEPOOL_OK);
  EXPECT_EQ(pool.Blocks().front().stream, nullptr);
  Destroy(stream);
}

// A stream gets a new name with each graph, and the pool keeps those of its blocks alone.
TEST_F(GraphMemoryTest, GraphsLeaveNothingBehind) {
  const CPool pool("device=cuda:0,budget=8MiB,memory=segments");
  const cudaStream_t stream = NewStream();
  const auto use = [&](int graphs) {
    for (int i = 0; i < graphs; ++i) {
      EXPECT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
      EXPECT_EQ(tidepool_release_graph(pool.get(), EndGraph(pool, stream)), TIDEPOOL_OK);
      pool.Free(pool.Allocate(kBytes, stream), stream);
    }
    AwaitThreads();
    return mallinfo2().uordblks;
  };
  void* const earlier = pool.Allocate(kBytes, stream);
  const std::size_t before = use(500);
  EXPECT_LT(use(10000), before + (64 << 10)) << "8 bytes for each name would be more";
  EXPECT_EQ(pool.Blocks().front().stream, stream) << "of its first name";
  pool.Free(earlier, stream);
  Destroy(stream);
}

// A stream that may end does so after a graph too, also where other streams stay.
TEST_F(GraphMemoryTest, AStreamThatMayEndEndsAfterItsGraph) {
  for (const bool is_late : {false, true}) {
    const CPool pool("device=cuda:0,budget=8MiB,memory=segments,streams=stay");
    const cudaStream_t stream = NewStream();
    const auto may_end = [&] {
      EXPECT_EQ(tidepool_stream_may_end(pool.get(), stream), TIDEPOOL_OK);
    };
    if (!is_late) may_end();
    ASSERT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
    if (is_late) may_end();
    EXPECT_EQ(tidepool_release_graph(pool.get(), EndGraph(pool, stream)), TIDEPOOL_OK);
    pool.Free(pool.Allocate(kBytes, stream), stream);
    Destroy(stream);
    EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
    EXPECT_EQ(pool.Try(8 << 20), TIDEPOOL_OK);
  }
}

TEST_F(GraphMemoryTest, RefusesACaptureOnAStreamThatMayEndWhereOthersStay) {
  const CPool pool("device=cuda:0,budget=8MiB,streams=stay");
  const cudaStream_t stream = NewStream();
  EXPECT_EQ(tidepool_stream_may_end(pool.get(), stream), TIDEPOOL_OK);
  BeginCapture(stream);
  EXPECT_EQ(pool.Try(kBytes, stream), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(cudaGraphExecDestroy(EndCapture(stream)), cudaSuccess) << "the capture lives on";
  EXPECT_EQ(pool.Try(kBytes, stream), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
  Destroy(stream);
}

// The event of a free would belong to the graph.
TEST_F(GraphMemoryTest, AFreeInACaptureWithoutAGraphHarmsNobody) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
  const cudaStream_t stream = NewStream();
  const cudaStream_t other = NewStream();
  for (const cudaStream_t used : {stream, other}) pool.Free(pool.Allocate(kBytes, used), used);
  void* const earlier = pool.Allocate(64 << 10, stream);
  BeginCapture(stream);
  pool.Free(earlier, stream);
  EXPECT_EQ(cudaGraphExecDestroy(EndCapture(stream)), cudaSuccess);
  pool.Free(pool.Allocate(64 << 10, other), other);
  Destroy(stream);
  Destroy(other);
}

// The copies would belong to the graph, or the capture would end.
TEST_F(GraphMemoryTest, RefusesToPauseAndResumeInACapture) {
  const CPool pool("device=cuda:0,budget=16MiB");
  const cudaStream_t stream = NewStream();
  void* kept = nullptr;
  ASSERT_EQ(tidepool_allocate_in(pool.get(), "kv", kBytes, stream, TIDEPOOL_RESIDENT, &kept),
            TIDEPOOL_OK);
  const auto pause = [&] { return tidepool_pause(pool.get(), "kv", TIDEPOOL_PAUSE_HOST, stream); };
  const auto await = [&] { return tidepool_await_contents(pool.get(), kept, 1, stream); };
  const auto expect_refused_by = [&](auto call, const char* part) {
    for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                            cudaStreamCaptureModeRelaxed}) {
      ASSERT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
      EXPECT_EQ(call(), TIDEPOOL_FAILED_PRECONDITION);
      EXPECT_THAT(tidepool_last_error(), HasSubstr(part));
      EXPECT_EQ(cudaMemsetAsync(kept, 3, kBytes, stream), cudaSuccess);
      const cudaGraphExec_t exec = EndCapture(stream);
      EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess) << "the capture lives on";
    }
  };
  const char* const text = "captures a graph";
  expect_refused_by(pause, text);
  EXPECT_EQ(pause(), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_resume(pool.get(), "kv", stream), TIDEPOOL_OK);
  expect_refused_by(pause, text);
  expect_refused_by(await, text);
  expect_refused_by(
      [&] { return tidepool_pause(pool.get(), "kv", TIDEPOOL_PAUSE_COMPRESSED, stream); }, text);
  expect_refused_by([&] { return tidepool_pause_to_disk(pool.get(), "kv", "/tmp", stream); }, text);
  EXPECT_EQ(pause(), TIDEPOOL_OK);
  expect_refused_by([&] { return tidepool_resume(pool.get(), "kv", stream); }, text);
  EXPECT_EQ(tidepool_resume(pool.get(), "kv", stream), TIDEPOOL_OK);
  pool.Free(kept, stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  Destroy(stream);
}

TEST_F(GraphMemoryTest, RefusesACaptureThatHasBegunNoGraph) {
  const CPool pool("device=cuda:0,budget=8MiB");
  const cudaStream_t stream = NewStream();
  BeginCapture(stream);
  EXPECT_EQ(pool.Try(kBytes, stream), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_THAT(tidepool_last_error(),
              HasSubstr("call tidepool_begin_graph, or capture() in Python, before the capture"));
  EXPECT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(cudaGraphExecDestroy(EndCapture(stream)), cudaSuccess) << "the capture lives on";
  std::size_t graph = 0;
  EXPECT_EQ(tidepool_end_graph(pool.get(), stream, &graph), TIDEPOOL_NOT_FOUND);
  for (const cudaStream_t of_cuda :
       {cudaStream_t{nullptr}, cudaStreamLegacy, cudaStreamPerThread}) {
    EXPECT_EQ(tidepool_begin_graph(pool.get(), of_cuda), TIDEPOOL_INVALID_ARGUMENT);
  }
  const CPool aligned("device=cuda:0,budget=8MiB,alignment=4096");
  EXPECT_EQ(tidepool_begin_graph(aligned.get(), stream), TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(tidepool_begin_graph(pool.get(), pool.NewStream()), TIDEPOOL_INVALID_ARGUMENT);
  ASSERT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_begin_graph(pool.get(), stream), TIDEPOOL_FAILED_PRECONDITION);
  Destroy(stream);
}

// The stand-in ends the process of a program that names a destroyed stream.
TEST_F(CApiOnCudaTest, StreamsMayBeDestroyedAfterAnyCall) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
  for (const bool is_forgotten : {false, true}) {
    for (int i = 0; i < 3; ++i) {
      const cudaStream_t stream = NewStream();
      void* const freed = pool.Allocate(32 << 10, stream);
      void* const left = pool.Allocate(16 << 10, stream);
      pool.Free(freed, stream);
      Destroy(stream);
      if (is_forgotten) {
        EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
      }
      pool.Free(pool.Allocate(32 << 10));
      pool.Free(left);
    }
    EXPECT_EQ(pool.Try(64 << 10), TIDEPOOL_OK);
  }
  EXPECT_EQ(pool.Statistics().live_bytes, 0U);
}

TEST_F(CApiOnCudaTest, AStreamThatIsDestroyedEndsItsWorkBeforeOthersGetItsMemory) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
  const cudaStream_t other = NewStream();
  pool.Free(pool.Allocate(1000, other), other);
  for (const bool is_forgotten : {false, true}) {
    const cudaStream_t stream = NewStream();
    const auto free = [&](void* read) {
      pool.Free(read, stream);
      Destroy(stream);
      if (is_forgotten) {
        EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
      }
    };
    EXPECT_TRUE(IsIntactAfterReuse(pool, stream, free, other));
  }
  Destroy(other);
}

TEST_F(CApiOnCudaTest, FreesOfStreamsThatStayRecordNothing) {
  for (const bool stays : {false, true}) {
    const CPool pool(stays ? "device=cuda:0,streams=stay" : "device=cuda:0");
    const cudaStream_t stream = NewStream();
    for (const cudaStream_t used : {stream, cudaStream_t{nullptr}, stream}) {
      pool.Free(pool.Allocate(1000, used), used);
    }
    const long long records = cudartHostCountCalls("cudaEventRecord");
    for (int i = 0; i < 10; ++i) pool.Free(pool.Allocate(1000, stream), stream);
    EXPECT_EQ(cudartHostCountCalls("cudaEventRecord") - records, stays ? 0 : 10);
    Destroy(stream);
  }
}

TEST_F(CApiOnCudaTest, ForgottenStreamsGetNewNames) {
  const CPool pool("device=cuda:0,budget=64KiB,memory=segments");
  const cudaStream_t stream = NewStream();
  void* const freed_late = pool.Allocate(1000, stream);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
  pool.Free(pool.Allocate(1000, stream), stream);  // known again
  pool.Free(freed_late, stream);
  Destroy(stream);
  EXPECT_EQ(tidepool_stream_forget(pool.get(), stream), TIDEPOOL_OK);
  // The stand-in gives the handle to the next stream at once.
  const cudaStream_t next = NewStream();
  EXPECT_EQ(next, stream);
  EXPECT_TRUE(IsIntactAfterReuse(pool, next, next, nullptr));
  Destroy(next);
}

TEST_F(CApiOnCudaTest, StreamsOfThePoolAreStreamsOfCuda) {
  const CPool pool("device=cuda:0");
  const tidepool_stream stream = pool.NewStream();
  void* const address = pool.Allocate(1000, stream);
  EXPECT_EQ(cudaMemsetAsync(address, 1, 1000, static_cast<cudaStream_t>(stream)), cudaSuccess);
  EXPECT_EQ(tidepool_stream_synchronize(pool.get(), stream), TIDEPOOL_OK);
  pool.Free(address, stream);
  EXPECT_EQ(tidepool_stream_destroy(pool.get(), stream), TIDEPOOL_OK);
}

TEST_F(CApiOnCudaTest, DevicesAreChosenAndChecked) {
  const auto ordinal_of = [](const CPool& pool) {
    int ordinal = -2;
    EXPECT_EQ(tidepool_get_device(pool.get(), &ordinal), TIDEPOOL_OK);
    return ordinal;
  };
  EXPECT_EQ(ordinal_of(CPool("device=cuda:1")), 1);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(ordinal_of(CPool("")), 1);
  EXPECT_EQ(ordinal_of(CPool("device=cuda")), 1);
  EXPECT_EQ(ordinal_of(CPool("device=host")), -1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_THAT(CreationError("device=cuda:2", TIDEPOOL_UNAVAILABLE), HasSubstr("2"));
  ConfigureStandIn({.devices = 0});
  EXPECT_EQ(ordinal_of(CPool("")), -1);
  CreationError("device=cuda", TIDEPOOL_UNAVAILABLE);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CApiOnCudaTest, ABudgetIsAPartOfTheDevice) {
  const CPool part("device=cuda:0,budget=50%,memory=segments");
  EXPECT_EQ(part.Statistics().max_bytes, 32U << 20);
  EXPECT_EQ(part.Try(40 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("the limit of cuda:0 is 33554432: raise option"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  const CPool whole("device=cuda:0,budget=8GiB,memory=segments");
  EXPECT_EQ(whole.Statistics().max_bytes, 64U << 20);
  void* taken = nullptr;
  ASSERT_EQ(cudaMalloc(&taken, 60 << 20), cudaSuccess);
  EXPECT_EQ(whole.Try(8 << 20), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("CUDA has 4194304 bytes of the device left"));
  EXPECT_EQ(cudaFree(taken), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CApiOnCudaTest, AResetDeviceHasTheMemoryAlready) {
  CPool pool("device=cuda:0,memory=segments");
  pool.Allocate(1000);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(tidepool_pool_destroy(pool.get()), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_pool_destroy(pool.Release()), TIDEPOOL_FAILED_PRECONDITION);
}

TEST_F(CApiOnCudaTest, ErrorsOfCudaArePassedOn) {
  const CPool pool("device=cuda:0,memory=segments");
  cudartHostFailCall("cudaMalloc", 1, cudaErrorUnknown);
  EXPECT_NE(pool.Try(1000), TIDEPOOL_OK);
  EXPECT_THAT(tidepool_last_error(), HasSubstr("cudaMalloc"));
  EXPECT_EQ(pool.Try(1000), TIDEPOOL_OK);
}

TEST_F(CApiOnCudaTest, AStreamThatCannotBeUsedIsDestroyed) {
  const CPool pool("device=cuda:0,memory=segments");
  const auto count_streams = [] {
    CudartHostLive live;
    cudartHostCountLive(&live);
    return live.streams;
  };
  const auto before = count_streams();
  tidepool_stream stream = nullptr;
  int failed = 0;
  for (;; ++failed) {
    cudartHostFailCall(nullptr, failed + 1, cudaErrorUnknown);
    if (tidepool_stream_create(pool.get(), &stream) == TIDEPOOL_OK) break;
    EXPECT_EQ(count_streams(), before) << "call " << failed + 1;
  }
  cudartHostFailCall(nullptr, 0, cudaSuccess);
  EXPECT_GT(failed, 1);
  EXPECT_EQ(tidepool_stream_destroy(pool.get(), stream), TIDEPOOL_OK);
}

TEST_F(CApiOnCudaTest, ThreadsMayUseNewStreamsAtOnce) {
  const CPool pool("device=cuda:0");
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < 24; ++i) streams.push_back(NewStream());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        for (const cudaStream_t stream : streams) pool.Free(pool.Allocate(1000, stream), stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.Statistics().allocations, 4U * 20 * 24);
  for (const cudaStream_t stream : streams) Destroy(stream);
}

}  // namespace
}  // namespace tidepool
