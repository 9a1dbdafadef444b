// SPDX-License-Identifier: Apache-2.0
// Pools of several processes with one budget. A process begins before this one has threads, and
// does its part step by step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/temporary_files.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kBudget = 8 * kMiB;

// The bytes of the device that all processes have, and the most so far.
struct Held {
  std::atomic<std::int64_t> bytes = 0;
  std::atomic<std::int64_t> peak_bytes = 0;

  void Add(std::int64_t more) {
    const std::int64_t now = bytes.fetch_add(more) + more;
    std::int64_t peak = peak_bytes;
    while (now > peak && !peak_bytes.compare_exchange_weak(peak, now)) {
    }
  }
};

// Counts the memory that a pool has of a device of its own.
class CountedDevice final : public testing::ForwardingDevice {
 public:
  explicit CountedDevice(Held& held)
      : CountedDevice(HostDevice::Create({.memory_bytes = 64 * kMiB}).value(), held) {}

  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes) override {
    const absl::StatusOr<PhysicalMemory> memory = ForwardingDevice::CreatePhysical(bytes);
    if (memory.ok()) Take(memory->id, bytes);
    if (const auto call = std::exchange(after_create, nullptr)) call();
    return memory;
  }
  absl::Status ReleasePhysical(PhysicalMemory memory) override {
    Give(memory.id);
    return ForwardingDevice::ReleasePhysical(memory);
  }
  absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) override {
    const absl::StatusOr<void*> address = ForwardingDevice::AllocateMemory(bytes);
    if (address.ok()) Take(reinterpret_cast<std::uintptr_t>(*address), bytes);
    return address;
  }
  absl::Status FreeMemory(void* address) override {
    Give(reinterpret_cast<std::uintptr_t>(address));
    return ForwardingDevice::FreeMemory(address);
  }

  // Called once.
  std::function<void()> after_create;

 private:
  CountedDevice(std::unique_ptr<HostDevice> device, Held& held)
      : ForwardingDevice(*device), device_(std::move(device)), held_(held) {}

  void Take(std::uint64_t memory, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_[memory] = bytes;
    held_.Add(bytes);
  }
  // Comes before the call: at its end another process may have the bytes.
  void Give(std::uint64_t memory) {
    const std::lock_guard lock(mutex_);
    held_.Add(-sizes_.at(memory));
    sizes_.erase(memory);
  }

  std::mutex mutex_;
  std::map<std::uint64_t, std::int64_t> sizes_;
  const std::unique_ptr<HostDevice> device_;
  Held& held_;
};

// An engine: a pool of one process, and its stream.
struct Engine {
  Engine(const std::string& path, Held& held, PoolOptions options = {})
      : device(held), stream(device.CreateStream().value()) {
    options.max_bytes = kBudget;
    options.shared_budget = path;
    pool = Pool::Create(&device, options).value();
  }

  absl::StatusOr<void*> Take(std::int64_t bytes) {
    return pool->Allocate(static_cast<std::size_t>(bytes), stream);
  }
  void FreeAndTrim(void* address) {
    EXPECT_TRUE(pool->Free(address, stream).ok());
    EXPECT_TRUE(pool->Trim().ok());
  }

  CountedDevice device;
  Stream stream;
  std::unique_ptr<Pool> pool;
};

// A forked process that runs `steps` in turn: each Step waits until the next one has ended.
class Process {
 public:
  template <typename Steps>
  explicit Process(Steps steps) {
    EXPECT_EQ(pipe(orders_), 0);
    EXPECT_EQ(pipe(answers_), 0);
    id_ = fork();
    if (id_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    steps([this] {
      static_cast<void>(write(answers_[1], "x", 1));
      AwaitOrder();
    });
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  ~Process() {
    if (id_ > 0) Kill();
    for (const int descriptor : {orders_[0], orders_[1], answers_[0], answers_[1]}) {
      close(descriptor);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  // Waits until the process is between two steps.
  void AwaitStep() {
    char byte = 0;
    EXPECT_EQ(read(answers_[0], &byte, 1), 1);
  }
  void Order() { EXPECT_EQ(write(orders_[1], "x", 1), 1); }
  void Step() {
    Order();
    AwaitStep();
  }
  void Kill() {
    kill(id_, SIGKILL);
    waitpid(std::exchange(id_, -1), nullptr, 0);
  }
  void AwaitEnd() {
    int status = -1;
    EXPECT_EQ(waitpid(id_, &status, 0), id_);
    EXPECT_EQ(status, 0);
    id_ = -1;
  }

 private:
  void AwaitOrder() {
    char byte = 0;
    if (read(orders_[0], &byte, 1) != 1) _exit(2);
  }

  int orders_[2];
  int answers_[2];
  pid_t id_ = -1;
};

class SharedBudgetOfPoolsTest : public ::testing::TestWithParam<PoolKind> {
 protected:
  SharedBudgetOfPoolsTest()
      : held_(*new (mmap(nullptr, sizeof(Held), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0)) Held) {}
  ~SharedBudgetOfPoolsTest() override {
    EXPECT_LE(held_.peak_bytes, kBudget);
    munmap(&held_, sizeof(Held));
    std::filesystem::remove_all(path_);
  }

  Engine NewEngine() {
    return Engine(path_, held_, {.memory = GetParam().memory, .remap = GetParam().remap});
  }
  // Returns a process that takes memory, and at its next step gives it back.
  Process Holding(std::int64_t bytes) {
    return Process([this, bytes](auto step) {
      Engine engine = NewEngine();
      void* const buffer = engine.Take(bytes).value();
      step();
      engine.FreeAndTrim(buffer);
      step();
    });
  }
  // Waits until a request of the pool sleeps.
  static void AwaitBlocked(const Pool& pool) {
    while (pool.Stats().blocked == 0) std::this_thread::yield();
  }
  auto Waiting(Engine& engine, std::int64_t bytes) {
    return std::async(std::launch::async, [&engine, bytes] {
      return engine.pool->AllocateBlocking(static_cast<std::size_t>(bytes), engine.stream);
    });
  }

  Held& held_;
  const std::string path_ = TemporaryFile("budget");
};

INSTANTIATE_TEST_SUITE_P(Kinds, SharedBudgetOfPoolsTest, ::testing::ValuesIn(kPoolKinds),
                         [](const auto& test) { return test.param.name; });

TEST_P(SharedBudgetOfPoolsTest, ARefusalNamesTheHolders) {
  Process other = Holding(6 * kMiB);
  other.AwaitStep();
  Engine engine = NewEngine();
  const absl::Status refused = engine.Take(3 * kMiB).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.ToString(),
              AllOf(HasSubstr("the pool is within its budget but cannot grow: 3.0 MiB"),
                    HasSubstr(absl::StrCat("process ", other.id(), " holds 6.0 MiB"))));
  void* const buffer = engine.Take(kMiB).value();
  other.Step();
  EXPECT_TRUE(engine.Take(5 * kMiB).ok());
  EXPECT_TRUE(engine.pool->CheckInvariants().ok());
  EXPECT_TRUE(engine.pool->Free(buffer, engine.stream).ok());
}

TEST_P(SharedBudgetOfPoolsTest, ARequestWaitsForAnotherProcess) {
  Process other = Holding(kBudget);
  other.AwaitStep();
  Engine engine = NewEngine();  // has nothing that it could free itself
  auto waiting = Waiting(engine, 3 * kMiB);
  AwaitBlocked(*engine.pool);
  other.Step();
  EXPECT_TRUE(waiting.get().ok());
}

TEST_P(SharedBudgetOfPoolsTest, ARequestGetsTheMemoryOfAKilledProcess) {
  Process other = Holding(kBudget);
  other.AwaitStep();
  Engine engine = NewEngine();
  auto waiting = Waiting(engine, kBudget);
  AwaitBlocked(*engine.pool);
  held_.bytes = 0;  // with the process its memory ends
  other.Kill();
  EXPECT_TRUE(waiting.get().ok());
}

TEST_P(SharedBudgetOfPoolsTest, ARequestWaitsUntilItsDeadlineAndNamesTheHolders) {
  Process other = Holding(kBudget);
  other.AwaitStep();
  Engine engine = NewEngine();
  const absl::Status late = engine.pool
                                ->AllocateBlocking(kMiB, engine.stream, Hint::kResident,
                                                   absl::Now() + absl::Milliseconds(30))
                                .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late));
  EXPECT_THAT(late.ToString(), HasSubstr(absl::StrCat("process ", other.id(), " holds 8.0 MiB")));
}

TEST_P(SharedBudgetOfPoolsTest, AProcessSeesWhatAnotherWants) {
  Process other([&](auto step) {
    Engine engine = NewEngine();
    EXPECT_EQ(engine.pool->TakeWantedByOthers(), 0);
    void* const buffer = engine.Take(kBudget).value();
    step();
    EXPECT_EQ(engine.pool->TakeWantedByOthers(), 3 * kMiB);
    EXPECT_EQ(engine.pool->TakeWantedByOthers(), 0);
    engine.FreeAndTrim(buffer);
    step();
  });
  other.AwaitStep();
  Engine engine = NewEngine();
  auto waiting = Waiting(engine, 3 * kMiB);
  AwaitBlocked(*engine.pool);
  other.Step();
  EXPECT_TRUE(waiting.get().ok());
  other.Order();
  other.AwaitEnd();
}

// A growth that was refused is no refusal of the request.
TEST_P(SharedBudgetOfPoolsTest, ARequestThatItsOwnProcessServesIsNotWanted) {
  if (GetParam().memory == PoolMemory::kSegments) return;
  Engine other = NewEngine();
  Engine engine = NewEngine();
  ASSERT_TRUE(other.Take(4 * kMiB).ok());
  Pool* const region = engine.pool->Region("cache").value();
  void* const unused = region->Allocate(4 * kMiB, engine.stream).value();
  ASSERT_TRUE(region->Free(unused, engine.stream).ok());
  void* const buffer = engine.Take(4 * kMiB).value();
  EXPECT_EQ(other.pool->TakeWantedByOthers(), 0);
  auto waiting = Waiting(engine, 4 * kMiB);
  AwaitBlocked(*engine.pool);
  EXPECT_TRUE(engine.pool->Free(buffer, engine.stream).ok());
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_EQ(other.pool->TakeWantedByOthers(), 0);  // it has it meanwhile
}

TEST_P(SharedBudgetOfPoolsTest, AResumeThatWasRefusedIsWanted) {
  if (GetParam().memory == PoolMemory::kSegments) return;
  Engine other = NewEngine();
  Engine engine = NewEngine();
  Pool* const region = engine.pool->Region("weights").value();
  void* const weights = region->Allocate(4 * kMiB, engine.stream).value();
  ASSERT_TRUE(engine.pool->PauseRegion("weights", PauseMode::kDiscard, engine.stream).ok());
  ASSERT_TRUE(engine.pool->Trim().ok());
  ASSERT_TRUE(other.Take(6 * kMiB).ok());
  EXPECT_FALSE(engine.pool->ResumeRegion("weights", engine.stream).ok());
  EXPECT_EQ(other.pool->TakeWantedByOthers(), 4 * kMiB);
  EXPECT_TRUE(region->Free(weights, engine.stream).ok());
}

TEST_P(SharedBudgetOfPoolsTest, PoolsOfOneProcessShareToo) {
  Engine first = NewEngine();
  Engine second = NewEngine();
  void* const buffer = first.Take(kBudget).value();
  EXPECT_FALSE(second.Take(kMiB).ok());
  auto waiting = Waiting(second, kMiB);
  AwaitBlocked(*second.pool);
  first.FreeAndTrim(buffer);
  EXPECT_TRUE(waiting.get().ok());
}

TEST_P(SharedBudgetOfPoolsTest, PoolsWithAnotherBudgetAreRefused) {
  const Engine engine = NewEngine();
  CountedDevice device(held_);
  const auto other = Pool::Create(&device, {.max_bytes = 2 * kBudget, .shared_budget = path_});
  EXPECT_TRUE(absl::IsFailedPrecondition(other.status()));
  EXPECT_THAT(other.status().ToString(), HasSubstr("give all of them the same max_bytes"));
}

// The budget that they share is in whole granules, and each rounds it alike.
TEST_P(SharedBudgetOfPoolsTest, PoolsOfAnyKindShareAnUnevenBudget) {
  CountedDevice device(held_);
  std::vector<std::unique_ptr<Pool>> pools;
  for (const auto& kind : kPoolKinds) {
    auto pool = Pool::Create(&device, {.max_bytes = kBudget + 4 * kKiB,
                                       .memory = kind.memory,
                                       .shared_budget = path_,
                                       .remap = kind.remap});
    ASSERT_TRUE(pool.ok()) << pool.status();
    pools.push_back(*std::move(pool));
  }
}

// Memory that is taken in pieces counts before the first one, so two requests do not refuse each
// other.
TEST_P(SharedBudgetOfPoolsTest, OneOfTwoRequestsAtOnceIsServed) {
  if (GetParam().memory == PoolMemory::kSegments) return;  // have no pieces
  Engine other = NewEngine();
  Engine engine = NewEngine();
  engine.device.after_create = [&] { EXPECT_FALSE(other.Take(6 * kMiB).ok()); };
  EXPECT_TRUE(engine.Take(6 * kMiB).ok());
  EXPECT_EQ(engine.device.after_create, nullptr);
  EXPECT_TRUE(other.Take(2 * kMiB).ok());  // and no more counts than it holds
}

// Likewise where a region wakes.
TEST_P(SharedBudgetOfPoolsTest, AResumeTakesAllOrNothing) {
  if (GetParam().memory == PoolMemory::kSegments) return;
  Engine other = NewEngine();
  Engine engine = NewEngine();
  Pool* const region = engine.pool->Region("weights").value();
  void* const weights = region->Allocate(6 * kMiB, engine.stream).value();
  ASSERT_TRUE(engine.pool->PauseRegion("weights", PauseMode::kDiscard, engine.stream).ok());
  ASSERT_TRUE(engine.pool->Trim().ok());
  engine.device.after_create = [&] { EXPECT_FALSE(other.Take(6 * kMiB).ok()); };
  EXPECT_TRUE(engine.pool->ResumeRegion("weights", engine.stream).ok());
  EXPECT_EQ(engine.device.after_create, nullptr);
  EXPECT_TRUE(region->Free(weights, engine.stream).ok());
}

TEST_P(SharedBudgetOfPoolsTest, AResumeOfSeveralRegionsTakesAllOrNothing) {
  if (GetParam().memory == PoolMemory::kSegments) return;
  Engine other = NewEngine();
  Engine engine = NewEngine();
  const std::vector<std::string_view> tags = {"first", "second"};
  std::vector<void*> taken;
  for (const std::string_view tag : tags) {
    Pool* const region = engine.pool->Region(tag).value();
    taken.push_back(region->Allocate(3 * kMiB, engine.stream).value());
    ASSERT_TRUE(engine.pool->PauseRegion(tag, PauseMode::kDiscard, engine.stream).ok());
  }
  ASSERT_TRUE(engine.pool->Trim().ok());
  void* const held = other.Take(4 * kMiB).value();
  engine.device.after_create = [] { ADD_FAILURE() << "no memory is taken"; };
  const absl::Status status = engine.pool->ResumeRegions(tags, engine.stream);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(other.pool->TakeWantedByOthers(), 6 * kMiB);
  other.FreeAndTrim(held);
  engine.device.after_create = [&] { EXPECT_FALSE(other.Take(4 * kMiB).ok()); };
  ASSERT_TRUE(engine.pool->ResumeRegions(tags, engine.stream).ok());
  EXPECT_EQ(engine.device.after_create, nullptr);
  EXPECT_TRUE(other.Take(2 * kMiB).ok());  // and no more counts than they hold
  for (void* const address : taken) EXPECT_TRUE(engine.pool->Free(address, engine.stream).ok());
}

// Without memory elsewhere no give-back can come.
TEST_P(SharedBudgetOfPoolsTest, ARequestThatOnlyTheDeviceLacksIsRefused) {
  Engine idle = NewEngine();
  Engine engine = NewEngine();
  void* const filler = engine.device.AllocateMemory(60 * kMiB).value();
  held_.bytes = 0;
  EXPECT_TRUE(
      absl::IsResourceExhausted(engine.pool->AllocateBlocking(6 * kMiB, engine.stream).status()));
  EXPECT_TRUE(engine.device.FreeMemory(filler).ok());
  held_.bytes = held_.peak_bytes = 0;
}

// A charge that the device refuses is no change, so a wait for the device sleeps and ends.
TEST_P(SharedBudgetOfPoolsTest, AWaitForTheDeviceEndsAtItsDeadline) {
  Engine other = NewEngine();
  ASSERT_TRUE(other.Take(kMiB).ok());
  Engine engine = NewEngine();
  void* const filler = engine.device.ForwardingDevice::AllocateMemory(60 * kMiB).value();
  std::stop_source stop;
  auto waiting = std::async(std::launch::async, [&] {
    return engine.pool->AllocateBlocking(6 * kMiB, engine.stream, Hint::kResident,
                                         absl::InfiniteFuture(), stop.get_token());
  });
  AwaitBlocked(*engine.pool);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(waiting.get().status()));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(engine.pool
                                   ->AllocateBlocking(6 * kMiB, engine.stream, Hint::kResident,
                                                      absl::Now() + absl::Milliseconds(30))
                                   .status()));
  EXPECT_TRUE(engine.device.ForwardingDevice::FreeMemory(filler).ok());
}

// The other one holds nothing when the request looks for memory, and nothing when it sleeps. The
// last call of the function is in between, and no later one wakes the request.
TEST_P(SharedBudgetOfPoolsTest, ARequestSeesAGiveBackBetweenItsLookAndItsSleep) {
  Engine other = NewEngine();
  void* filler = nullptr;
  Engine* waiting = nullptr;
  const auto make_room = [&](const OutOfMemoryRequest& request) {
    if (request.attempt < Pool::kMostOutOfMemoryCalls) return true;  // looks again at once
    EXPECT_TRUE(waiting->device.ForwardingDevice::FreeMemory(filler).ok());
    other.FreeAndTrim(other.Take(kMiB).value());
    return false;
  };
  Engine engine(
      path_, held_,
      {.memory = GetParam().memory, .remap = GetParam().remap, .on_out_of_memory = make_room});
  waiting = &engine;
  void* const live = engine.Take(kMiB).value();
  filler = engine.device.ForwardingDevice::AllocateMemory(60 * kMiB).value();
  const auto buffer = engine.pool->AllocateBlocking(6 * kMiB, engine.stream);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_TRUE(engine.pool->Free(live, engine.stream).ok());
}

// A region that wakes asks for the memory of others too.
TEST_P(SharedBudgetOfPoolsTest, ARegionResumesWhenAnotherProcessGaveBack) {
  if (GetParam().memory == PoolMemory::kSegments) return;
  Process other([&](auto step) {
    step();
    Engine engine = NewEngine();
    void* const buffer = engine.Take(6 * kMiB).value();
    step();
    engine.FreeAndTrim(buffer);
    step();
  });
  other.AwaitStep();
  Engine engine = NewEngine();
  Pool* const region = engine.pool->Region("weights").value();
  void* const weights = region->Allocate(4 * kMiB, engine.stream).value();
  ASSERT_TRUE(engine.device.Fill(weights, 7, 4 * kMiB, engine.stream).ok());
  ASSERT_TRUE(engine.pool->PauseRegion("weights", PauseMode::kHost, engine.stream).ok());
  ASSERT_EQ(engine.pool->Trim().value(), 4 * kMiB);
  other.Step();
  EXPECT_THAT(engine.pool->ResumeRegion("weights", engine.stream).ToString(),
              AllOf(HasSubstr("region \"weights\" sleeps on"),
                    HasSubstr(absl::StrCat("process ", other.id(), " holds 6.0 MiB"))));
  other.Step();
  ASSERT_TRUE(engine.pool->ResumeRegion("weights", engine.stream).ok());
  ASSERT_TRUE(engine.device.SynchronizeStream(engine.stream).ok());
  const std::vector<unsigned char> expected(4 * kMiB, 7);
  EXPECT_EQ(std::memcmp(weights, expected.data(), expected.size()), 0);
  EXPECT_TRUE(engine.pool->CheckInvariants().ok());
  EXPECT_TRUE(region->Free(weights, engine.stream).ok());
}

// It needs its memory alone. The least of a region binds the pools of its own process.
TEST_P(SharedBudgetOfPoolsTest, ARegionResumesBesideALeastThatOthersHold) {
  if (GetParam().memory == PoolMemory::kSegments) return;
  Engine other = NewEngine();
  Engine engine = NewEngine();
  Pool* const region = engine.pool->Region("weights").value();
  void* const weights = region->Allocate(kMiB, engine.stream).value();
  ASSERT_TRUE(engine.pool->LimitRegion("weights", 6 * kMiB, kBudget).ok());
  ASSERT_TRUE(engine.pool->PauseRegion("weights", PauseMode::kDiscard, engine.stream).ok());
  ASSERT_TRUE(engine.pool->Trim().ok());
  ASSERT_TRUE(other.Take(4 * kMiB).ok());
  const absl::Status resumed = engine.pool->ResumeRegion("weights", engine.stream);
  EXPECT_TRUE(resumed.ok()) << resumed;
  EXPECT_TRUE(region->Free(weights, engine.stream).ok());
}

// Waiters of regions wait for other processes too.
TEST_P(SharedBudgetOfPoolsTest, ARequestOfARegionWaitsForAnotherProcess) {
  if (GetParam().memory == PoolMemory::kSegments) return;
  Process other = Holding(kBudget);
  other.AwaitStep();
  Engine engine = NewEngine();
  Pool* const region = engine.pool->Region("cache").value();
  auto waiting = std::async(std::launch::async,
                            [&] { return region->AllocateBlocking(3 * kMiB, engine.stream); });
  AwaitBlocked(*region);
  other.Step();
  const absl::StatusOr<void*> buffer = waiting.get();
  ASSERT_TRUE(buffer.ok());
  EXPECT_TRUE(region->Free(*buffer, engine.stream).ok());
}

// Takes, waits for and gives back memory at random.
void Play(Engine& engine, unsigned seed) {
  std::vector<void*> buffers;
  const auto free_all = [&] {
    for (void* const buffer : buffers) EXPECT_TRUE(engine.pool->Free(buffer, engine.stream).ok());
    buffers.clear();
  };
  for (int round = 0; round < 200; ++round) {
    seed = seed * 1664525 + 1013904223;
    const auto bytes = static_cast<std::size_t>((1 + (seed >> 20) % 12) * 256 * kKiB);
    const absl::StatusOr<void*> buffer = engine.pool->Allocate(bytes, engine.stream);
    if (buffer.ok()) {
      buffers.push_back(*buffer);
      continue;
    }
    free_all();
    EXPECT_TRUE(engine.pool->Trim().ok());
    // It holds nothing now, so no two processes wait for each other.
    const auto waited = engine.pool->AllocateBlocking(bytes, engine.stream);
    EXPECT_TRUE(waited.ok()) << waited.status();
    if (waited.ok()) buffers.push_back(*waited);
  }
  free_all();
  EXPECT_TRUE(engine.pool->CheckInvariants().ok());
}

TEST_P(SharedBudgetOfPoolsTest, ProcessesNeverExceedItTogether) {
  {
    std::vector<std::unique_ptr<Process>> others;
    for (unsigned seed = 1; seed <= 2; ++seed) {
      others.push_back(std::make_unique<Process>([&](auto step) {
        step();
        Engine engine = NewEngine();
        Play(engine, seed);
      }));
      others.back()->AwaitStep();
    }
    for (const auto& other : others) other->Order();
    {
      Engine engine = NewEngine();
      Play(engine, 3);
    }
    for (const auto& other : others) other->AwaitEnd();
  }
  EXPECT_EQ(held_.bytes, 0);
  EXPECT_GT(held_.peak_bytes, kBudget / 2);
}

}  // namespace
}  // namespace tidepool
