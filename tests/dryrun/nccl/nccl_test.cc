// SPDX-License-Identifier: Apache-2.0
// The ranks of these tests are threads, each with a device of its own.
#include "dryrun/nccl/nccl.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dryrun/nccl/communicator_record.h"
#include "tests/dryrun/runtime/fixture.h"
#include "tests/support/temporary_files.h"

namespace tidepool {
namespace {

constexpr int kRanks = 3;

// A rank with its communicator, its stream, and memory of its device.
struct Rank {
  int rank;
  ncclComm_t comm;
  cudaStream_t stream;
  char* memory;

  template <typename Number>
  Number* Give(const std::vector<Number>& numbers) const {
    EXPECT_EQ(cudaMemcpyAsync(memory, numbers.data(), numbers.size() * sizeof(Number),
                              cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    return reinterpret_cast<Number*>(memory);
  }
  template <typename Number>
  Number* Output() const {
    return reinterpret_cast<Number*>(memory + (1 << 16));
  }
  template <typename Number>
  std::vector<Number> Take(const Number* from, std::size_t count) const {
    std::vector<Number> numbers(count, Number(99));
    EXPECT_EQ(cudaMemcpyAsync(numbers.data(), from, count * sizeof(Number), cudaMemcpyDeviceToHost,
                              stream),
              cudaSuccess);
    return numbers;
  }
};

// With and without data in device memory.
class NcclTest : public CudartHost, public ::testing::WithParamInterface<int> {
 protected:
  NcclTest() : CudartHost(kRanks) {
    CudartHostConfig config = Config(kRanks);
    config.has_data = GetParam();
    config.has_kernels = 1;
    EXPECT_EQ(cudartHostConfigure(&config), 1);
  }

  static ncclUniqueId NewId() {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    return id;
  }

  static void OnRanks(int ranks, const std::function<void(const Rank&)>& body) {
    const ncclUniqueId id = NewId();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
        Rank own = {rank, nullptr, NewStream(), NewMemory(1 << 17)};
        ASSERT_EQ(ncclCommInitRank(&own.comm, ranks, id, rank), ncclSuccess);
        body(own);
        EXPECT_EQ(ncclCommDestroy(own.comm), ncclSuccess);
        EXPECT_EQ(cudaStreamDestroy(own.stream), cudaSuccess);
        EXPECT_EQ(cudaFree(own.memory), cudaSuccess);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

INSTANTIATE_TEST_SUITE_P(Data, NcclTest, ::testing::Values(0, 1));

TEST_P(NcclTest, Reductions) {
  OnRanks(kRanks, [](const Rank& own) {
    const float* const from = own.Give<float>({static_cast<float>(own.rank + 1), 4});
    float* const to = own.Output<float>();
    const auto reduced = [&](ncclRedOp_t op) {
      EXPECT_EQ(ncclAllReduce(from, to, 2, ncclFloat32, op, own.comm, own.stream), ncclSuccess);
      return own.Take(to, 2);
    };
    EXPECT_EQ(reduced(ncclSum), (std::vector<float>{6, 12}));
    EXPECT_EQ(reduced(ncclProd), (std::vector<float>{6, 64}));
    EXPECT_EQ(reduced(ncclMin), (std::vector<float>{1, 4}));
    EXPECT_EQ(reduced(ncclMax), (std::vector<float>{3, 4}));
    EXPECT_EQ(reduced(ncclAvg), (std::vector<float>{2, 4}));
    ncclRedOp_t half = ncclSum;
    float factor = 0.5F;
    ASSERT_EQ(
        ncclRedOpCreatePreMulSum(&half, &factor, ncclFloat32, ncclScalarHostImmediate, own.comm),
        ncclSuccess);
    EXPECT_EQ(reduced(half), (std::vector<float>{3, 6}));
    EXPECT_EQ(ncclRedOpDestroy(half, own.comm), ncclSuccess);
    ASSERT_EQ(ncclReduce(from, to, 1, ncclFloat32, ncclSum, 1, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 1)[0], own.rank == 1 ? 6 : 3);  // only the root's output changes
  });
}

TEST_P(NcclTest, ReductionsOfEachType) {
  OnRanks(2, [](const Rank& own) {
    const auto sum = [&](auto one, ncclDataType_t type) {
      using Number = decltype(one);
      const Number* const from = own.Give<Number>({one});
      Number* const to = own.Output<Number>();
      EXPECT_EQ(ncclAllReduce(from, to, 1, type, ncclSum, own.comm, own.stream), ncclSuccess);
      return own.Take(to, 1)[0];
    };
    EXPECT_EQ(sum(std::int8_t{-3}, ncclInt8), -6);
    EXPECT_EQ(sum(std::uint8_t{100}, ncclUint8), 200);
    EXPECT_EQ(sum(std::int32_t{-7}, ncclInt32), -14);
    EXPECT_EQ(sum(std::uint32_t{7}, ncclUint32), 14U);
    EXPECT_EQ(sum(std::int64_t{1} << 40, ncclInt64), std::int64_t{1} << 41);
    EXPECT_EQ(sum(std::uint64_t{1} << 62, ncclUint64), std::uint64_t{1} << 63);
    EXPECT_EQ(sum(0.25, ncclFloat64), 0.5);
    EXPECT_EQ(sum(std::uint16_t{0x3c00}, ncclFloat16), 0x4000);   // 1 + 1
    EXPECT_EQ(sum(std::uint16_t{0x3f80}, ncclBfloat16), 0x4000);  // 1 + 1
  });
}

TEST_P(NcclTest, Movements) {
  OnRanks(kRanks, [](const Rank& own) {
    const int r = own.rank;
    const std::int32_t* const from = own.Give<std::int32_t>({10 * r, 10 * r + 1, 10 * r + 2});
    std::int32_t* const to = own.Output<std::int32_t>();
    using Numbers = std::vector<std::int32_t>;
    ASSERT_EQ(ncclAllGather(from, to, 1, ncclInt32, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 3), (Numbers{0, 10, 20}));
    ASSERT_EQ(ncclAlltoAll(from, to, 1, ncclInt32, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 3), (Numbers{r, 10 + r, 20 + r}));
    ASSERT_EQ(ncclReduceScatter(from, to, 1, ncclInt32, ncclSum, own.comm, own.stream),
              ncclSuccess);
    EXPECT_EQ(own.Take(to, 1), (Numbers{30 + 3 * r}));
    ASSERT_EQ(ncclBroadcast(from, to, 2, ncclInt32, 2, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 2), (Numbers{20, 21}));
    ASSERT_EQ(ncclScatter(from, to, 1, ncclInt32, 1, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 1), (Numbers{10 + r}));
    ASSERT_EQ(ncclGather(from, to, 1, ncclInt32, 0, own.comm, own.stream), ncclSuccess);
    if (r != 0) return;
    EXPECT_EQ(own.Take(to, 3), (Numbers{0, 10, 20}));
  });
}

// Messages in a group pass each other in every order.
TEST_P(NcclTest, MessagesInAGroup) {
  OnRanks(kRanks, [](const Rank& own) {
    const std::int32_t* const from = own.Give<std::int32_t>({10 * own.rank, 10 * own.rank + 1});
    std::int32_t* const to = own.Output<std::int32_t>();
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < kRanks; ++peer) {
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(ncclSend(from + i, 1, ncclInt32, peer, own.comm, own.stream), ncclSuccess);
      }
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(ncclRecv(to + 2 * peer + i, 1, ncclInt32, peer, own.comm, own.stream),
                  ncclSuccess);
      }
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(own.Take(to, 6), (std::vector<std::int32_t>{0, 1, 10, 11, 20, 21}));
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  });
}

// One communicator may be used on several streams. Its operations keep the order of the calls.
TEST_P(NcclTest, SeveralStreams) {
  OnRanks(2, [](const Rank& own) {
    const cudaStream_t other = NewStream();
    const std::int32_t* const from = own.Give<std::int32_t>({1, 2});
    ASSERT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
    std::int32_t* const to = own.Output<std::int32_t>();
    for (int i = 0; i < 20; ++i) {
      const cudaStream_t stream = i % 2 == 0 ? own.stream : other;
      ASSERT_EQ(ncclAllReduce(from + i % 2, to + i, 1, ncclInt32, ncclSum, own.comm, stream),
                ncclSuccess);
    }
    ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
    const std::vector<std::int32_t> sums = own.Take(to, 20);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(sums[static_cast<std::size_t>(i)], 2 + i % 2 * 2);
    EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  });
}

// The default streams of several devices, used by one thread, have the same handle.
TEST_P(NcclTest, OneThreadUsesTheDefaultStreamOfEachDevice) {
  std::vector<ncclComm_t> comms(kRanks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), kRanks, nullptr), ncclSuccess);
  std::vector<Rank> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    ranks.push_back(
        {rank, comms[static_cast<std::size_t>(rank)], cudaStreamLegacy, NewMemory(1 << 17)});
    ranks.back().Give<std::int32_t>({rank + 1});
  }
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (const Rank& own : ranks) {
    ASSERT_EQ(ncclAllReduce(own.memory, own.Output<std::int32_t>(), 1, ncclInt32, ncclSum, own.comm,
                            nullptr),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  int device = 0;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  for (const Rank& own : ranks) {
    ASSERT_EQ(cudaSetDevice(own.rank), cudaSuccess);
    EXPECT_EQ(own.Take(own.Output<std::int32_t>(), 1)[0], 6);
    EXPECT_EQ(ncclCommDestroy(own.comm), ncclSuccess);
    EXPECT_EQ(cudaFree(own.memory), cudaSuccess);
  }
}

// Operations are kernels on a GPU: one that waits for another of its communicator leaves the thread
// of host functions to others.
TEST_P(NcclTest, OperationsTakeNoTurnsWithHostFunctions) {
  CudartHostConfig config = Config(kRanks);
  config.has_one_host_thread = 1;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess);
  char* const memory = NewMemory(1 << 17);
  const std::int32_t number = 3;
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  for (cudaStream_t* const stream : {&first, &second}) {
    ASSERT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
  }
  for (int i = 0; i < 20; ++i) {
    cudartHostHoldCopies(0);
    ASSERT_EQ(cudaMemcpyAsync(memory, &number, sizeof(number), cudaMemcpyHostToDevice, first),
              cudaSuccess);
    for (const cudaStream_t stream : {first, second}) {
      ASSERT_EQ(ncclAllReduce(memory, memory, 1, ncclInt32, ncclSum, comm, stream), ncclSuccess);
    }
    ASSERT_EQ(cudaLaunchHostFunc(
                  cudaStreamPerThread, [](void*) {}, nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
    cudartHostReleaseCopies(0);
    ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  }
  for (const cudaStream_t stream : {first, second})
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_P(NcclTest, ACapturedOperationRunsWithItsGraph) {
  OnRanks(2, [](const Rank& own) {
    const std::int32_t* const from = own.Give<std::int32_t>({own.rank + 1});
    std::int32_t* const to = own.Output<std::int32_t>();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launched = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(ncclAllReduce(from, to, 1, ncclInt32, ncclSum, own.comm, own.stream), ncclSuccess);
    ASSERT_EQ(cudaStreamEndCapture(own.stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&launched, graph, 0), cudaSuccess);
    for (int i = 1; i < 4; ++i) {
      own.Give<std::int32_t>({i});
      ASSERT_EQ(cudaGraphLaunch(launched, own.stream), cudaSuccess);
      EXPECT_EQ(own.Take(to, 1)[0], 2 * i);
    }
    EXPECT_EQ(cudaGraphExecDestroy(launched), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  });
}

TEST_P(NcclTest, Split) {
  OnRanks(kRanks, [](const Rank& own) {
    // Ranks 2 and 0, in this order, and no communicator for rank 1.
    ncclComm_t pair = nullptr;
    ASSERT_EQ(
        ncclCommSplit(own.comm, own.rank == 1 ? NCCL_SPLIT_NOCOLOR : 5, -own.rank, &pair, nullptr),
        ncclSuccess);
    EXPECT_EQ(pair == nullptr, own.rank == 1);
    if (own.rank == 1) return;
    int count = 0;
    int rank = -1;
    EXPECT_EQ(ncclCommCount(pair, &count), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(pair, &rank), ncclSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(rank, own.rank == 2 ? 0 : 1);
    const std::int32_t* const from = own.Give<std::int32_t>({own.rank});
    std::int32_t* const to = own.Output<std::int32_t>();
    ASSERT_EQ(ncclAllGather(from, to, 1, ncclInt32, pair, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 2), (std::vector<std::int32_t>{2, 0}));
    EXPECT_EQ(ncclCommDestroy(pair), ncclSuccess);
  });
}

TEST_P(NcclTest, Shrink) {
  OnRanks(kRanks, [](const Rank& own) {
    int gone = 1;
    ncclComm_t rest = nullptr;
    if (own.rank == gone) {
      EXPECT_EQ(ncclCommShrink(own.comm, &gone, 1, &rest, nullptr, 0), ncclInvalidArgument);
      return;
    }
    ASSERT_EQ(ncclCommShrink(own.comm, &gone, 1, &rest, nullptr, 0), ncclSuccess);
    int rank = -1;
    EXPECT_EQ(ncclCommUserRank(rest, &rank), ncclSuccess);
    EXPECT_EQ(rank, own.rank / 2);
    EXPECT_EQ(ncclCommDestroy(rest), ncclSuccess);
  });
}

// A rank that has gone counts as absent: the others get their own data, and do not wait.
TEST_P(NcclTest, NoRankWaitsForOneThatHasGone) {
  OnRanks(2, [](const Rank& own) {
    const std::int32_t* const from = own.Give<std::int32_t>({5});
    std::int32_t* const to = own.Output<std::int32_t>();
    if (own.rank == 1) return;
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(ncclAllReduce(from, to, 1, ncclInt32, ncclSum, own.comm, own.stream), ncclSuccess);
      EXPECT_EQ(own.Take(to, 1)[0], 5);
      ASSERT_EQ(ncclRecv(to, 1, ncclInt32, 1, own.comm, own.stream), ncclSuccess);
      EXPECT_EQ(own.Take(to, 1)[0], 0);
    }
  });
}

TEST_P(NcclTest, AbortEndsTheWait) {
  std::vector<ncclComm_t> comms(2);
  std::vector<int> devices = {0, 1};
  ASSERT_EQ(ncclCommInitAll(comms.data(), 2, devices.data()), ncclSuccess);
  char* const memory = NewMemory(1024);
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(ncclAllReduce(memory, memory, 1, ncclInt32, ncclSum, comms[0], stream), ncclSuccess);
  ncclResult_t error = ncclInProgress;
  EXPECT_EQ(ncclCommGetAsyncError(comms[0], &error), ncclSuccess);
  EXPECT_EQ(error, ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(ncclCommGetAsyncError(comms[0], &error), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comms[1]), ncclSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_P(NcclTest, LargeDataArrivesWhole) {
  constexpr std::size_t kCount = 3 << 20;
  OnRanks(2, [](const Rank& own) {
    char* const large = NewMemory(3 * kCount);
    const std::string data(kCount, static_cast<char>('a' + own.rank));
    EXPECT_EQ(cudaMemcpyAsync(large, data.data(), kCount, cudaMemcpyHostToDevice, own.stream),
              cudaSuccess);
    EXPECT_EQ(ncclAllGather(large, large + kCount, kCount, ncclInt8, own.comm, own.stream),
              ncclSuccess);
    std::vector<char> both(kCount, 'a');
    both.resize(2 * kCount, 'b');
    EXPECT_TRUE(own.Take(large + kCount, 2 * kCount) == both);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclSend(large, kCount, ncclInt8, 1 - own.rank, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(ncclRecv(large + kCount, kCount, ncclInt8, 1 - own.rank, own.comm, own.stream),
              ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_TRUE(own.Take(large + kCount, kCount) ==
                std::vector<char>(kCount, static_cast<char>('b' - own.rank)));
    EXPECT_EQ(cudaFree(large), cudaSuccess);
  });
}

TEST_P(NcclTest, LargeOperationsEnd) {
  constexpr std::size_t kCount = 3 << 20;
  OnRanks(2, [](const Rank& own) {
    char* const large = NewMemory(2 * kCount);
    EXPECT_EQ(ncclAllReduce(large, large, kCount, ncclInt8, ncclSum, own.comm, own.stream),
              ncclSuccess);
    EXPECT_EQ(ncclAllGather(large, large, kCount, ncclInt8, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
    EXPECT_EQ(cudaFree(large), cudaSuccess);
  });
}

TEST_P(NcclTest, ChecksArguments) {
  OnRanks(2, [](const Rank& own) {
    std::int32_t on_host = 0;
    char* const memory = own.memory;
    const auto all_reduce = [&](const void* from, int type, int op, ncclComm_t comm) {
      return ncclAllReduce(from, memory, 1, static_cast<ncclDataType_t>(type),
                           static_cast<ncclRedOp_t>(op), comm, own.stream);
    };
    EXPECT_EQ(all_reduce(memory, ncclInt32, ncclSum, nullptr), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(memory, ncclNumTypes, ncclSum, own.comm), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(memory, -1, ncclSum, own.comm), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(memory, ncclInt32, ncclNumOps, own.comm), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(memory, ncclInt32, 77, own.comm), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(nullptr, ncclInt32, ncclSum, own.comm), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(&on_host, ncclInt32, ncclSum, own.comm), ncclInvalidArgument);
    EXPECT_STRNE(ncclGetLastError(own.comm), "");
    EXPECT_EQ(ncclBroadcast(memory, memory, 1, ncclInt32, 2, own.comm, own.stream),
              ncclInvalidArgument);
    EXPECT_EQ(ncclBroadcast(memory, memory, 1, ncclInt32, -1, own.comm, own.stream),
              ncclInvalidArgument);
    EXPECT_EQ(ncclSend(memory, 1, ncclInt32, 2, own.comm, own.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt32, ncclSum, own.comm, own.stream),
              ncclSuccess);
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(own.comm, &device), ncclSuccess);
    EXPECT_EQ(device, own.rank);
  });
  const ncclUniqueId id = NewId();
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, ncclUniqueId{}, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
}

// One rank of 1,024 without processes of the others, which are taken to bring the same.
class AloneTest : public NcclTest {
 protected:
  static constexpr int kWorld = 1024;

  static std::string NotesOf(pid_t process) {
    return TemporaryFile("communicators-" + std::to_string(process));
  }

  static void OnRankAlone(int rank, const std::function<void(const Rank&)>& body) {
    ASSERT_EQ(setenv("NCCL_HOST_PEERS", "missing", 1), 0);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    Rank own = {rank, nullptr, NewStream(), NewMemory(1 << 17)};
    EXPECT_EQ(ncclCommInitRank(&own.comm, kWorld, NewId(), rank), ncclSuccess);
    body(own);
    EXPECT_EQ(ncclCommDestroy(own.comm), ncclSuccess);
    EXPECT_EQ(cudaStreamDestroy(own.stream), cudaSuccess);
    EXPECT_EQ(cudaFree(own.memory), cudaSuccess);
    EXPECT_EQ(unsetenv("NCCL_HOST_PEERS"), 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Data, AloneTest, ::testing::Values(0, 1));

TEST_P(AloneTest, CollectivesEndAndHaveItsOwnValues) {
  OnRankAlone(3, [](const Rank& own) {
    int number = 0;
    EXPECT_EQ(ncclCommCount(own.comm, &number), ncclSuccess);
    EXPECT_EQ(number, kWorld);
    EXPECT_EQ(ncclCommUserRank(own.comm, &number), ncclSuccess);
    EXPECT_EQ(number, 3);
    const int* const from = own.Give<int>({5, 6});
    int* const to = own.Output<int>();
    ASSERT_EQ(ncclAllReduce(from, to, 2, ncclInt32, ncclSum, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 2), (std::vector<int>{5 * kWorld, 6 * kWorld}));
    ASSERT_EQ(ncclAllReduce(from, to, 2, ncclInt32, ncclMax, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 2), (std::vector<int>{5, 6}));
    ASSERT_EQ(ncclAllGather(from, to, 2, ncclInt32, own.comm, own.stream), ncclSuccess);
    const std::vector<int> gathered = own.Take(to, 2 * kWorld);
    EXPECT_EQ(gathered[0], 5);
    EXPECT_EQ(gathered[2 * kWorld - 1], 6);
    // The buffer of a missing root is this rank's own.
    ASSERT_EQ(ncclBcast(to, 2, ncclInt32, 0, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 2), (std::vector<int>{5, 6}));
  });
}

TEST_P(AloneTest, MessagesOfMissingPeers) {
  OnRankAlone(1, [](const Rank& own) {
    const int* const from = own.Give<int>({1, 2, 3});
    int* const to = own.Output<int>();
    // An exchange among three ranks: each brings this one's message to itself.
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(ncclSend(from + peer, 1, ncclInt32, peer, own.comm, own.stream), ncclSuccess);
      EXPECT_EQ(ncclRecv(to + peer, 1, ncclInt32, peer, own.comm, own.stream), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(own.Take(to, 3), (std::vector<int>{2, 2, 2}));
    // A message that nothing of this rank answers is zero.
    ASSERT_EQ(ncclRecv(to, 2, ncclInt32, 7, own.comm, own.stream), ncclSuccess);
    EXPECT_EQ(own.Take(to, 3), (std::vector<int>{0, 0, 2}));
    ncclComm_t made = nullptr;
    EXPECT_EQ(ncclCommSplit(own.comm, 0, 1, &made, nullptr), ncclInvalidUsage);
    EXPECT_STREQ(ncclGetLastError(own.comm), "a rank without its peers does not know their colors");
  });
}

// NCCL makes messages of an exchange among all, and a ring for a sum.
TEST_P(AloneTest, AnExchangeIsNotedWithItsPeers) {
  const std::string& folder = TemporaryFolder();
  ASSERT_EQ(setenv("NCCL_HOST_FOLDER", folder.c_str(), 1), 0);
  OnRankAlone(1, [](const Rank& own) {
    ASSERT_EQ(ncclAlltoAll(own.memory, own.Output<int>(), 1, ncclInt32, own.comm, own.stream),
              ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
  });
  OnRankAlone(2, [](const Rank& own) {
    ASSERT_EQ(ncclAllReduce(own.memory, own.memory, 1, ncclInt32, ncclSum, own.comm, own.stream),
              ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
  });
  EXPECT_EQ(unsetenv("NCCL_HOST_FOLDER"), 0);
  const std::string path = NotesOf(getpid());
  cudart_host::CommunicatorEntry entry = {};
  FILE* const file = fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(fread(&entry, sizeof(entry), 1, file), 1);
  fclose(file);
  EXPECT_EQ((std::vector<int>{entry.ranks, entry.peers, entry.has_collective, entry.is_live}),
            (std::vector<int>{kWorld, kWorld - 1, 1, 0}));
}

// The entries of the file, of which the test has one for each communicator that it makes.
TEST_P(AloneTest, CommunicatorsAreNoted) {
  const std::string& folder = TemporaryFolder();
  ASSERT_EQ(setenv("NCCL_HOST_FOLDER", folder.c_str(), 1), 0);
  const pid_t child = fork();
  if (child == 0) {
    using cudart_host::CommunicatorRecord;
    CommunicatorRecord& record = CommunicatorRecord::Get();
    const std::size_t first = record.Add(8, 0);
    const bool has_room = record.SetPeers(first, 7) && record.SetPeers(first, 2) &&
                          record.SetCollective(record.Add(2, 0));
    record.Remove(first);
    record.Add(8, 0);  // in the place of the first one
    record.Add(8, 1);
    _exit(has_room ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const std::string path = NotesOf(child);
  using cudart_host::CommunicatorEntry;
  CommunicatorEntry entries[4] = {};
  FILE* const file = fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(fread(entries, sizeof(CommunicatorEntry), 4, file), 3);
  fclose(file);
  EXPECT_EQ((std::vector<int>{entries[0].ranks, entries[0].peers, entries[0].is_live}),
            (std::vector<int>{8, 7, 1}));
  EXPECT_EQ((std::vector<int>{entries[0].has_collective, entries[1].has_collective}),
            (std::vector<int>{0, 1}));
  EXPECT_EQ((std::vector<int>{entries[1].ranks, entries[2].ranks, entries[2].device}),
            (std::vector<int>{2, 8, 1}));
  EXPECT_EQ(unsetenv("NCCL_HOST_FOLDER"), 0);
}

// The first use takes the memory of the buffers, which a destroyed communicator gives back.
TEST_P(NcclTest, BuffersTakeMemoryOfTheDevice) {
  constexpr std::size_t kPair = 1 << 20;
  constexpr std::size_t kRing = 8 << 20;
  ASSERT_EQ(setenv("NCCL_HOST_MEMORY", "1048576,8388608,1", 1), 0);
  const auto taken = [] {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    return total_bytes - free_bytes;
  };
  OnRanks(kRanks, [&](const Rank& own) {
    const std::size_t before = taken();
    const auto reduce = [&] {
      return ncclAllReduce(own.memory, own.memory, 1, ncclInt32, ncclSum, own.comm, own.stream);
    };
    const auto exchange = [&] {
      return ncclAlltoAll(own.memory, own.Output<int>(), 1, ncclInt32, own.comm, own.stream);
    };
    ASSERT_EQ(reduce(), ncclSuccess);
    EXPECT_EQ(taken() - before, kRing);
    ASSERT_EQ(reduce(), ncclSuccess);
    EXPECT_EQ(taken() - before, kRing);
    ASSERT_EQ(exchange(), ncclSuccess);
    EXPECT_EQ(taken() - before, kRing + kPair) << "one of two peers is on the node";
    ASSERT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
  });
  OnRanks(2, [&](const Rank& own) {
    const std::size_t before = taken();
    EXPECT_LT(before, kPair) << "the memory was given back";
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    char* const rest = NewMemory(free_bytes - kPair + 1);
    EXPECT_EQ(ncclAllReduce(own.memory, own.memory, 1, ncclInt32, ncclSum, own.comm, own.stream),
              ncclUnhandledCudaError);
    EXPECT_STREQ(ncclGetLastError(own.comm), "Cuda failure 2 'out of memory'");
    EXPECT_EQ(cudaFree(rest), cudaSuccess);
    char* const smaller = NewMemory(free_bytes - kPair);
    EXPECT_EQ(ncclAllReduce(own.memory, own.memory, 1, ncclInt32, ncclSum, own.comm, own.stream),
              ncclSuccess);
    EXPECT_EQ(taken(), total_bytes);
    void* none = nullptr;
    EXPECT_EQ(cudaMalloc(&none, 1), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaFree(smaller), cudaSuccess);
  });
  EXPECT_EQ(unsetenv("NCCL_HOST_MEMORY"), 0);
}

// A node has two devices, so the link of three ranks is the network.
TEST_P(NcclTest, OperationsTakeTheTimeOfTheirLink) {
  ASSERT_EQ(setenv("NCCL_HOST_LINKS", "1e8,1e7,2", 1), 0);
  CudartHostConfig config = Config(kRanks);
  config.has_data = GetParam();
  config.has_kernels = 1;
  config.assumed_bytes_per_second = 1e12;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  constexpr std::size_t kBytes = 20'000;
  constexpr double kLaunch = 0.005;
  const auto milliseconds = [](const Rank& own, auto queue) {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const long long begin = cudartHostAssumedEnd(own.rank);
    EXPECT_EQ(queue(), ncclSuccess);
    return static_cast<double>(cudartHostAssumedEnd(own.rank) - begin) / 1e6 - kLaunch;
  };
  const auto reduce = [](const Rank& own) {
    return ncclAllReduce(own.memory, own.memory, kBytes, ncclInt8, ncclSum, own.comm, own.stream);
  };
  OnRanks(2, [&](const Rank& own) {
    EXPECT_NEAR(milliseconds(own, [&] { return reduce(own); }), 0.2, 0.001);
    EXPECT_NEAR(milliseconds(own,
                             [&] {
                               return ncclAllGather(own.memory, own.Output<char>(), kBytes / 2,
                                                    ncclInt8, own.comm, own.stream);
                             }),
                0.1, 0.001);
    EXPECT_NEAR(milliseconds(own,
                             [&] {
                               ncclGroupStart();
                               ncclSend(own.memory, kBytes, ncclInt8, 1 - own.rank, own.comm,
                                        own.stream);
                               ncclRecv(own.Output<char>(), kBytes, ncclInt8, 1 - own.rank,
                                        own.comm, own.stream);
                               return ncclGroupEnd();
                             }),
                0.2, 0.001)
        << "in both directions at once";
    const cudaStream_t kernels = NewStream();
    EXPECT_NEAR(milliseconds(own,
                             [&] {
                               cudartHostRunKernel("kernel", kernels, 1e-3, nullptr, 0);
                               return reduce(own);
                             }),
                1, 0.001)
        << "beside kernels";
    EXPECT_EQ(cudaStreamDestroy(kernels), cudaSuccess);
  });
  OnRanks(kRanks, [&](const Rank& own) {
    EXPECT_NEAR(milliseconds(own, [&] { return reduce(own); }), 8.0 / 3, 0.001);
  });
  EXPECT_EQ(unsetenv("NCCL_HOST_LINKS"), 0);
}

TEST_P(NcclTest, TwoRanksNeedTwoDevices) {
  std::vector<ncclComm_t> comms(2);
  const std::vector<int> devices = {1, 1};
  EXPECT_EQ(ncclCommInitAll(comms.data(), 2, devices.data()), ncclInvalidUsage);
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
}  // namespace tidepool
