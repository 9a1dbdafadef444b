// SPDX-License-Identifier: Apache-2.0
// Random pauses and resumes of several regions on several streams, with faults of the device at
// every kind of call: contents and addresses stay, and the budget holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/memory/pool/memory_store.h"
#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/region_checker.h"
#include "tests/support/temporary_files.h"
#include "tidepool/copies/contents_stores.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

constexpr std::int64_t kSharedBudget = 4 * kMiB;
constexpr std::array kTags = {"weights", "optimizer", "cache"};
constexpr std::size_t kUntagged = kTags.size();

// The calls that pauses, resumes and the requests between them make.
constexpr std::array kCalls = {Call::kCreateEvent,
                               Call::kDestroyEvent,
                               Call::kRecordEvent,
                               Call::kRecordAll,
                               Call::kWaitEvent,
                               Call::kQueryEvent,
                               Call::kSynchronizeEvent,
                               Call::kCopy,
                               Call::kAllocatePinned,
                               Call::kFreePinned,
                               Call::kCreatePhysical,
                               Call::kReleasePhysical,
                               Call::kMap,
                               Call::kUnmap,
                               Call::kReserveAddresses};

struct RandomCase {
  std::uint64_t seed = 0;
  bool has_faults = false;
  bool remap = false;
  const char* placement = "best-fit";
};

void PrintTo(const RandomCase& test, std::ostream* out) {
  *out << "seed " << test.seed << (test.has_faults ? " with faults" : "")
       << (test.remap ? " remapping " : " ") << test.placement;
}

// Plays one pool. Work of the regions is ordered by events between the streams, never by the host.
class RandomRegions : public PoolFixture, public ::testing::WithParamInterface<RandomCase> {
 protected:
  struct Live {
    std::int64_t bytes = 0;
    int value = 0;
    std::int64_t registered_bytes = 0;  // at its beginning
  };
  struct Region {
    Pool* pool = nullptr;
    bool is_asleep = false;
    bool is_lost = false;  // the contents at the pause
    std::map<void*, Live> live;
  };

  static auto FirstRegistered(Region& region) {
    return std::ranges::find_if(region.live,
                                [](const auto& each) { return each.second.registered_bytes > 0; });
  }
  static bool IsRegistered(Region& region) { return FirstRegistered(region) != region.live.end(); }

  RandomRegions() : PoolFixture({.memory_bytes = 2 * kSharedBudget}), random_(GetParam().seed) {}

  std::int64_t Draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  Stream AnyStream() { return streams_[static_cast<std::size_t>(Draw(0, 2))]; }
  Region& AnyRegion() { return regions_[static_cast<std::size_t>(Draw(0, kUntagged))]; }

  // Makes all streams wait for each other.
  void OrderStreams() {
    for (const Stream from : streams_) {
      ASSERT_TRUE(device_->RecordEvent(event_, from).ok());
      for (const Stream to : streams_) ASSERT_TRUE(device_->WaitEvent(to, event_).ok());
    }
  }
  // Orders a fault of the device, or of stores, for the next operation now and then.
  void MaybeFail() {
    is_failing_ = GetParam().has_faults && Draw(0, 2) == 0;
    if (!is_failing_) return;
    const std::int64_t call = Draw(1, Draw(0, 3) > 0 ? 2 : 20);
    const auto kind = static_cast<std::size_t>(Draw(0, kCalls.size()));
    if (kind == kCalls.size()) {
      store_fault_.call = call;
    } else {
      device_->FailCall(kCalls[kind], call);
    }
  }
  // Ends the order, and checks the error of the operation.
  bool Succeeded(const absl::Status& status, absl::StatusCode allowed) {
    store_fault_.call = 0;
    if (is_failing_) {
      for (const Call call : kCalls) device_->FailCall(call, 0);
    }
    const bool is_fault = is_failing_ && absl::IsUnavailable(status);
    EXPECT_TRUE(status.ok() || is_fault || status.code() == allowed) << status;
    faults_ += is_fault ? 1 : 0;
    return status.ok();
  }

  void Allocate() {
    Region& region = AnyRegion();
    const std::int64_t bytes = Draw(0, 3) == 0 ? Draw(1, kSharedBudget / 2) : Draw(1, 200 * kKiB);
    const Stream stream = AnyStream();
    MaybeFail();
    const Hint hint = Draw(0, 1) == 0 ? Hint::kResident : Hint::kOffloadable;
    const absl::StatusOr<void*> p =
        region.pool->Allocate(static_cast<std::size_t>(bytes), stream, hint);
    const auto allowed = region.is_asleep ? absl::StatusCode::kFailedPrecondition
                                          : absl::StatusCode::kResourceExhausted;
    if (!Succeeded(p.status(), allowed)) return;
    ASSERT_FALSE(region.is_asleep);
    const int value = static_cast<int>(Draw(0, 255));
    ASSERT_TRUE(device_->Fill(*p, static_cast<std::uint8_t>(value), bytes, stream).ok());
    ASSERT_TRUE(region.live.try_emplace(*p, Live{bytes, value}).second);
    OrderStreams();
  }
  auto AnyLive(Region& region) {
    return std::next(region.live.begin(),
                     Draw(0, static_cast<std::int64_t>(region.live.size()) - 1));
  }
  // Begins a registration of a part of an allocation, or ends one: few hold a region awake.
  void Register(std::size_t index) {
    Region& region = regions_[index];
    if (region.live.empty()) return;
    const auto registered = FirstRegistered(region);
    const auto it =
        registered == region.live.end() || Draw(0, 3) == 0 ? AnyLive(region) : registered;
    Live& live = it->second;
    if (live.registered_bytes > 0) {
      EXPECT_TRUE(pool_->EndRegistration(it->first, live.registered_bytes).ok());
      live.registered_bytes = 0;
      return;
    }
    if (Draw(0, 2) > 0) return;
    const std::int64_t bytes = Draw(1, live.bytes);
    const absl::Status status = pool_->BeginRegistration(it->first, bytes);
    EXPECT_EQ(status.ok(), !region.is_asleep) << status;
    if (status.ok()) live.registered_bytes = bytes;
  }
  void Free() {
    Region& region = AnyRegion();
    if (region.live.empty()) return;
    const auto it = AnyLive(region);
    MaybeFail();
    Pool& through = Draw(0, 1) == 0 ? *pool_ : *region.pool;
    const bool is_registered = it->second.registered_bytes > 0;
    const auto allowed =
        is_registered ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kOk;
    if (!Succeeded(through.Free(it->first, AnyStream()), allowed)) return;
    ASSERT_FALSE(is_registered);
    region.live.erase(it);
  }
  std::unique_ptr<ContentsStore> NewStore(std::int64_t kind) {
    if (kind == 2) return MakeFileStore(TemporaryFolder()).value();
    if (kind == 3) return MakeCompressedStore({}).value();
    return std::make_unique<MemoryStore>(Draw(0, 1) == 0 ? 4 * kKiB + 13 : 256 * kKiB,
                                         store_fault_);
  }
  // Returns one region or several that differ.
  std::vector<std::size_t> AnyTags() {
    std::vector<std::size_t> indices(kTags.size());
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    std::shuffle(indices.begin(), indices.end(), random_);
    indices.resize(Draw(0, 1) > 0 ? 1 : static_cast<std::size_t>(Draw(2, kTags.size())));
    return indices;
  }
  bool AllOf(const std::vector<std::size_t>& indices, bool are_asleep) {
    return std::ranges::all_of(
        indices, [&](std::size_t index) { return regions_[index].is_asleep == are_asleep; });
  }
  // Keeps the contents of each in one of the ways that there are; 0 loses them.
  RegionPause PauseBy(std::int64_t way, std::size_t index) {
    return {kTags[index], way == 0 ? PauseMode::kDiscard : PauseMode::kHost,
            way < 2 ? nullptr : NewStore(way)};
  }
  void Pause() {
    const std::vector<std::size_t> indices = AnyTags();
    std::vector<std::int64_t> ways;
    std::vector<RegionPause> pauses;
    bool are_free = AllOf(indices, false);
    for (const std::size_t index : indices) {
      ways.push_back(Draw(0, 5));
      pauses.push_back(PauseBy(ways.back(), index));
      are_free = are_free && !IsRegistered(regions_[index]);
    }
    const Stream stream = AnyStream();
    MaybeFail();
    const absl::Status status = pool_->PauseRegions(pauses, stream);
    const auto allowed = are_free ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition;
    if (!Succeeded(status, allowed)) {
      // Copies that it queued may still read the region. Their results are dropped, but a sanitizer
      // would report a race with the next writer.
      OrderStreams();
      return;
    }
    ASSERT_TRUE(are_free);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      regions_[indices[i]].is_asleep = true;
      regions_[indices[i]].is_lost = ways[i] == 0;
    }
    pauses_ += static_cast<std::int64_t>(indices.size());
    pauses_of_several_ += indices.size() > 1 ? 1 : 0;
  }
  void Resume() {
    const std::vector<std::size_t> indices = AnyTags();
    std::vector<std::string_view> tags;
    for (const std::size_t index : indices) tags.emplace_back(kTags[index]);
    const bool are_asleep = AllOf(indices, true);
    const Stream stream = AnyStream();
    MaybeFail();
    const absl::Status status = pool_->ResumeRegions(tags, stream);
    const auto allowed =
        are_asleep ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kFailedPrecondition;
    if (!Succeeded(status, allowed)) return;
    ASSERT_TRUE(are_asleep);
    resumes_of_several_ += indices.size() > 1 ? 1 : 0;
    const bool is_ordered = Draw(0, 1) == 0;
    if (is_ordered) OrderStreams();
    for (const std::size_t index : indices) {
      Region& region = regions_[index];
      region.is_asleep = false;
      if (!region.is_lost && !is_ordered) WriteAsContentsCome(region);
    }
    if (!is_ordered) OrderStreams();
    for (const std::size_t index : indices) {
      if (regions_[index].is_lost) Write(regions_[index]);
    }
  }
  void Limit(std::size_t index) {
    const std::int64_t least = Draw(0, 2) == 0 ? 0 : Draw(0, kSharedBudget / 2);
    const std::int64_t most = Draw(0, 2) == 0 ? std::int64_t{1} << 62 : Draw(least, kSharedBudget);
    MaybeFail();
    const absl::Status status = pool_->LimitRegion(kTags[index], least, most);
    Succeeded(status, absl::IsResourceExhausted(status) ? absl::StatusCode::kResourceExhausted
                                                        : absl::StatusCode::kFailedPrecondition);
  }
  // Compares the books of the observer with those of the test and of the pool.
  void CheckObserver() {
    const std::vector<RegionStats> stats = pool_->RegionStatistics();
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      const auto& books = observer_.BooksOf(i == kUntagged ? "" : kTags[i]);
      ASSERT_EQ(books.live.size(), regions_[i].live.size());
      for (const auto& [address, live] : regions_[i].live)
        ASSERT_TRUE(books.live.contains(address));
      if (i == kUntagged) continue;
      ASSERT_EQ(books.is_asleep, regions_[i].is_asleep);
      ASSERT_EQ(books.pauses, stats[i].pauses);
      ASSERT_EQ(books.resumes, stats[i].resumes);
    }
  }
  // Gives everything live in a region other contents.
  void Write(Region& region) {
    if (region.is_asleep) return;
    const Stream stream = AnyStream();
    for (auto& [address, live] : region.live) {
      live.value = static_cast<int>(Draw(0, 255));
      const auto value = static_cast<std::uint8_t>(live.value);
      ASSERT_TRUE(device_->Fill(address, value, live.bytes, stream).ok());
    }
    region.is_lost = false;
    OrderStreams();
  }
  // Writes to each allocation by work that waits for its contents alone, which would overwrite the
  // new ones if they came later.
  void WriteAsContentsCome(Region& region) {
    for (auto& [address, live] : region.live) {
      const Stream stream = AnyStream();
      ASSERT_TRUE(pool_->AwaitContents(address, live.bytes, stream).ok());
      live.value = static_cast<int>(Draw(0, 255));
      const auto value = static_cast<std::uint8_t>(live.value);
      ASSERT_TRUE(device_->Fill(address, value, live.bytes, stream).ok());
    }
    OrderStreams();
  }
  void Check() {
    for (const Stream stream : streams_) ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
    for (const Region& region : regions_) {
      if (region.is_asleep) continue;
      for (const auto& [address, live] : region.live) {
        const std::string expected(static_cast<std::size_t>(live.bytes),
                                   static_cast<char>(live.value));
        ASSERT_EQ(std::memcmp(address, expected.data(), expected.size()), 0);
      }
    }
  }
  // Ends an iteration: its plan may then need memory, or leave some.
  void MarkIteration() {
    MaybeFail();
    pool_->MarkIteration();
    Succeeded(absl::OkStatus(), absl::StatusCode::kOk);
    pool_->AwaitPlans();
  }
  void Step() {
    if (GetParam().placement == std::string("planned") && Draw(0, 20) == 0) MarkIteration();
    switch (Draw(0, 9)) {
      case 0:
      case 1:
        return Allocate();
      case 2:
      case 3:
      case 4:
        return Free();
      case 5:
      case 6:
        return Pause();
      case 7:
      case 8:
        return Resume();
      default:
        if (Draw(0, 3) == 0) return Register(static_cast<std::size_t>(Draw(0, kTags.size() - 1)));
        if (Draw(0, 2) == 0) return Limit(static_cast<std::size_t>(Draw(0, kTags.size() - 1)));
        if (Draw(0, 3) > 0) return Write(AnyRegion());
        MaybeFail();
        Succeeded(pool_->Trim().status(), absl::StatusCode::kOk);
    }
  }

  std::mt19937_64 random_;
  const std::array<Stream, 3> streams_ = {NewStream(), NewStream(), NewStream()};
  const Event event_ = device_->CreateEvent().value();
  std::unique_ptr<Pool> pool_;
  std::array<Region, kTags.size() + 1> regions_;
  testing::RegionChecker observer_{kSharedBudget};  // outlives the pool
  bool is_failing_ = false;
  StoreFault store_fault_;
  std::int64_t pauses_ = 0;
  std::int64_t pauses_of_several_ = 0;
  std::int64_t resumes_of_several_ = 0;
  std::int64_t faults_ = 0;
};

TEST_P(RandomRegions, KeepContentsAndBudget) {
  PoolOptions options = {.max_bytes = kSharedBudget,
                         .placement = GetParam().placement,
                         .plan_seconds = 0,
                         .remap = GetParam().remap};
  if (GetParam().seed % 2 == 0) options.recorder = &observer_;
  pool_ = NewPool(options);
  for (std::size_t i = 0; i < kTags.size(); ++i) regions_[i].pool = *pool_->Region(kTags[i]);
  regions_[kUntagged].pool = pool_.get();
  for (int i = 0; i < 2500; ++i) {
    Step();
    if (HasFatalFailure()) return;
    ASSERT_LE(device_->used_bytes(), kSharedBudget);
    const absl::Status status = pool_->CheckInvariants();
    ASSERT_TRUE(status.ok()) << status;
    if (i % 20 == 0) Check();
    if (options.recorder != nullptr) CheckObserver();
    if (HasFailure()) return;
  }
  Check();
  EXPECT_GT(pauses_, 100);
  EXPECT_GT(pauses_of_several_, 5);
  EXPECT_GT(resumes_of_several_, 5);
  EXPECT_EQ(faults_ > 0, GetParam().has_faults);
  for (Region& region : regions_) {
    for (const auto& [address, live] : region.live) {
      if (live.registered_bytes > 0) {
        EXPECT_TRUE(pool_->EndRegistration(address, live.registered_bytes).ok());
      }
      EXPECT_TRUE(pool_->Free(address, AnyStream()).ok());
    }
  }
  pool_.reset();
  EXPECT_EQ(device_->used_bytes(), 0);
}

std::vector<RandomCase> RandomCases() {
  std::vector<RandomCase> cases;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    for (const bool has_faults : {false, true}) {
      for (const bool remap : {false, true}) cases.push_back({seed, has_faults, remap});
    }
  }
  for (const char* const placement : {"high-end-offload", "exact-fit-first", "planned"}) {
    for (const bool has_faults : {false, true}) {
      cases.push_back({5, has_faults, false, placement});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRegions, ::testing::ValuesIn(RandomCases()));

class RegionThreads : public PoolFixture {
 protected:
  void UseAndPauseAtOnce(PoolObserver* observer);
};

TEST_F(RegionThreads, UseAndPauseAtOnce) { UseAndPauseAtOnce(nullptr); }

// The pool and its regions have locks of their own, and yet tell an observer one at a time.
TEST_F(RegionThreads, UseAndPauseAtOnceBeforeAnObserver) {
  testing::RegionChecker observer(8 * kMiB);
  UseAndPauseAtOnce(&observer);
  for (const char* const tag : {"", "weights", "optimizer", "cache"}) {
    EXPECT_EQ(observer.BooksOf(tag).live_bytes, 0) << tag;
  }
}

// Threads use regions while others let them sleep. Users of contents hold a region awake.
void RegionThreads::UseAndPauseAtOnce(PoolObserver* observer) {
  const auto pool = NewPool({.max_bytes = 8 * kMiB, .recorder = observer});
  std::array<std::shared_mutex, kTags.size()> awake;
  std::array<Pool*, kTags.size()> regions;
  for (std::size_t i = 0; i < kTags.size(); ++i) regions[i] = *pool->Region(kTags[i]);
  std::atomic<int> running = 0;
  const auto use = [&](std::size_t index) {
    const Stream stream = NewStream();
    Pool* const region = index < kTags.size() ? regions[index] : pool.get();
    std::mt19937_64 random(index);
    std::vector<std::pair<void*, char>> live;
    std::vector<char> read(64 * kKiB);
    for (int i = 0; i < 300; ++i) {
      const absl::StatusOr<void*> p = region->Allocate(read.size(), stream);
      if (p.ok()) {
        std::shared_lock<std::shared_mutex> lock;
        if (index < kTags.size()) lock = std::shared_lock(awake[index]);
        const char value = static_cast<char>(random());
        EXPECT_TRUE(device_
                        ->Fill(*p, static_cast<std::uint8_t>(value),
                               static_cast<std::int64_t>(read.size()), stream)
                        .ok());
        EXPECT_TRUE(device_->SynchronizeStream(stream).ok());
        live.emplace_back(*p, value);
      }
      if (live.empty() || (live.size() < 12 && random() % 2 == 0)) continue;
      const auto [address, value] = live[random() % live.size()];
      std::shared_lock<std::shared_mutex> lock;
      if (index < kTags.size()) lock = std::shared_lock(awake[index]);
      EXPECT_TRUE(device_
                      ->Copy(read.data(), address, static_cast<std::int64_t>(read.size()),
                             CopyDirection::kFromDevice, stream)
                      .ok());
      EXPECT_TRUE(device_->SynchronizeStream(stream).ok());
      EXPECT_EQ(read, std::vector<char>(read.size(), value));
      EXPECT_TRUE(pool->Free(address, stream).ok());
      std::erase_if(live, [&](const auto& each) { return each.first == address; });
    }
    for (const auto& [address, value] : live) EXPECT_TRUE(pool->Free(address, stream).ok());
    --running;
  };
  std::vector<std::thread> threads;
  running = static_cast<int>(kTags.size()) + 1;
  for (std::size_t i = 0; i <= kTags.size(); ++i) threads.emplace_back(use, i);
  const auto pause = [&](std::uint64_t seed) {
    const Stream stream = NewStream();
    std::mt19937_64 random(seed);
    while (running > 0) {
      const std::size_t index = random() % kTags.size();
      const std::unique_lock lock(awake[index]);
      ASSERT_TRUE(pool->PauseRegion(kTags[index], PauseMode::kHost, stream).ok());
      if (random() % 2 == 0) {
        EXPECT_TRUE(pool->Trim().ok());
      }
      ASSERT_EQ(pool->RegionStatistics().size(), kTags.size());
      const absl::Status status = pool->ResumeRegion(kTags[index], stream);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
    }
  };
  for (const std::uint64_t seed : {1, 2}) threads.emplace_back(pause, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

}  // namespace
}  // namespace tidepool
