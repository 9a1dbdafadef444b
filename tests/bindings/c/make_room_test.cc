// SPDX-License-Identifier: Apache-2.0
// Functions of a program that make room before a pool refuses a request.
#include <gmock/gmock.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/bindings/c/fixture.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StrEq;

constexpr std::size_t kMebi = 1 << 20;
constexpr char kFourMebi[] = "device=host,device_memory=64MiB,budget=4MiB";

struct Asked {
  std::string tag;
  std::size_t bytes;
  tidepool_stream stream;
  int attempt;

  bool operator==(const Asked&) const = default;
};

// A function of a pool until the end of its scope.
class Maker {
 public:
  Maker(const CPool& pool, const char* tag, std::function<bool()> make)
      : pool_(pool), make_(std::move(make)) {
    EXPECT_EQ(tidepool_begin_make_room(pool.get(), tag, &Maker::Make, this, &number_), TIDEPOOL_OK)
        << tidepool_last_error();
  }
  ~Maker() {
    if (number_ > 0) End();
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  void End() {
    EXPECT_EQ(tidepool_end_make_room(pool_.get(), number_), TIDEPOOL_OK);
    number_ = 0;
  }
  std::vector<Asked> asked;

 private:
  static int Make(const char* tag, std::size_t bytes, tidepool_stream stream, int attempt,
                  void* data) {
    auto& maker = *static_cast<Maker*>(data);
    maker.asked.push_back({tag == nullptr ? "none" : tag, bytes, stream, attempt});
    return maker.make_() ? 1 : 0;
  }

  const CPool& pool_;
  const std::function<bool()> make_;
  std::size_t number_ = 0;
};

tidepool_status TryIn(const CPool& pool, const char* tag, std::size_t bytes) {
  void* address = nullptr;
  const tidepool_status status =
      tidepool_allocate_in(pool.get(), tag, bytes, nullptr, TIDEPOOL_RESIDENT, &address);
  if (status == TIDEPOOL_OK) pool.Free(address);
  return status;
}

TEST(MakeRoomTest, FreesMemoryUntilTheRequestFits) {
  const CPool pool(kFourMebi);
  const tidepool_stream stream = pool.NewStream();
  std::vector<void*> kept = {pool.Allocate(kMebi), pool.Allocate(kMebi), pool.Allocate(kMebi)};
  Maker maker(pool, nullptr, [&] {
    if (kept.empty()) return false;
    pool.Free(kept.back());
    kept.pop_back();
    return true;
  });
  EXPECT_EQ(pool.Try(kMebi, stream), TIDEPOOL_OK);
  EXPECT_THAT(maker.asked, IsEmpty());
  EXPECT_EQ(pool.Try(3 * kMebi, stream), TIDEPOOL_OK);
  EXPECT_THAT(maker.asked, ElementsAre(Asked{"none", 3 * kMebi, stream, 1},
                                       Asked{"none", 3 * kMebi, stream, 2}));
  EXPECT_EQ(pool.Statistics().failures, 0U);
  void* const all = pool.Allocate(3 * kMebi);
  maker.asked.clear();
  EXPECT_EQ(pool.Try(2 * kMebi, stream), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(maker.asked, ElementsAre(Asked{"none", 2 * kMebi, stream, 1},
                                       Asked{"none", 2 * kMebi, stream, 2}));
  maker.End();
  maker.asked.clear();
  EXPECT_EQ(pool.Try(2 * kMebi), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(maker.asked, IsEmpty());
  pool.Free(all);
}

TEST(MakeRoomTest, AFunctionOfARegionHearsOfItsRequestsAlone) {
  const CPool pool(kFourMebi);
  void* const weights = pool.Allocate(3 * kMebi);
  Maker anywhere(pool, nullptr, [] { return false; });
  Maker cache(pool, "cache", [&] {
    pool.Free(weights);
    return true;
  });
  EXPECT_EQ(pool.Try(2 * kMebi), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(TryIn(pool, "states", 2 * kMebi), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(cache.asked, IsEmpty());
  EXPECT_EQ(TryIn(pool, "cache", 2 * kMebi), TIDEPOOL_OK);
  EXPECT_THAT(cache.asked, ElementsAre(Asked{"cache", 2 * kMebi, nullptr, 1}));
  EXPECT_THAT(anywhere.asked, ElementsAre(Asked{"none", 2 * kMebi, nullptr, 1},
                                          Asked{"states", 2 * kMebi, nullptr, 1},
                                          Asked{"cache", 2 * kMebi, nullptr, 1}));
}

TEST(MakeRoomTest, AFunctionMayPauseARegion) {
  const CPool pool(kFourMebi);
  void* weights = nullptr;
  ASSERT_EQ(
      tidepool_allocate_in(pool.get(), "weights", 3 * kMebi, nullptr, TIDEPOOL_RESIDENT, &weights),
      TIDEPOOL_OK);
  const Maker maker(pool, "cache", [&] {
    return tidepool_pause(pool.get(), "weights", TIDEPOOL_PAUSE_HOST, nullptr) == TIDEPOOL_OK;
  });
  EXPECT_EQ(TryIn(pool, "cache", 3 * kMebi), TIDEPOOL_OK);
  EXPECT_EQ(tidepool_resume(pool.get(), "weights", nullptr), TIDEPOOL_OK);
  pool.Free(weights);
}

TEST(MakeRoomTest, FunctionsTakeTurnsABoundedNumberOfTimes) {
  const CPool pool(kFourMebi);
  void* const kept = pool.Allocate(3 * kMebi);
  const Maker first(pool, nullptr, [] { return true; });
  const Maker second(pool, nullptr, [] { return true; });
  EXPECT_EQ(pool.Try(2 * kMebi), TIDEPOOL_OUT_OF_MEMORY);
  ASSERT_EQ(first.asked.size(), 50U);
  ASSERT_EQ(second.asked.size(), 50U);
  EXPECT_EQ(first.asked.back().attempt, 99);
  EXPECT_EQ(second.asked.back().attempt, 100);
  pool.Free(kept);
}

TEST(MakeRoomTest, RequestsOfAFunctionDoNotCallItAgain) {
  const CPool pool(kFourMebi);
  void* const kept = pool.Allocate(3 * kMebi);
  const Maker maker(pool, nullptr, [&] {
    EXPECT_EQ(pool.Try(2 * kMebi), TIDEPOOL_OUT_OF_MEMORY);
    EXPECT_EQ(pool.Try(kMebi), TIDEPOOL_OK);
    return false;
  });
  EXPECT_EQ(pool.Try(2 * kMebi), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(maker.asked.size(), 1U);
  pool.Free(kept);
}

TEST(MakeRoomTest, RequestsBeyondTheBudgetDoNotAsk) {
  const CPool pool(kFourMebi);
  const Maker maker(pool, nullptr, [] { return true; });
  EXPECT_EQ(pool.Try(8 * kMebi), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_THAT(maker.asked, IsEmpty());
}

TEST(MakeRoomTest, ServesRequestsThatWouldWait) {
  const CPool pool(std::string(kFourMebi) + ",wait=inf");
  void* weights = nullptr;
  ASSERT_EQ(
      tidepool_allocate_in(pool.get(), "weights", 3 * kMebi, nullptr, TIDEPOOL_RESIDENT, &weights),
      TIDEPOOL_OK);
  Maker maker(pool, "cache", [&] {
    EXPECT_EQ(pool.Try(2 * kMebi), TIDEPOOL_OUT_OF_MEMORY) << "requests of a function do not wait";
    return tidepool_pause(pool.get(), "weights", TIDEPOOL_PAUSE_HOST, nullptr) == TIDEPOOL_OK;
  });
  EXPECT_EQ(TryIn(pool, "cache", 3 * kMebi), TIDEPOOL_OK);
  EXPECT_THAT(maker.asked, ElementsAre(Asked{"cache", 3 * kMebi, nullptr, 1}));
  EXPECT_EQ(tidepool_resume(pool.get(), "weights", nullptr), TIDEPOOL_OK);
  pool.Free(weights);
}

// Each function is asked before a request waits and at the end of its wait.
TEST(MakeRoomTest, RequestsThatWaitInVainEndAtTheirTime) {
  const CPool pool(std::string(kFourMebi) + ",wait=1ms");
  void* const kept = pool.Allocate(3 * kMebi);
  const Maker maker(pool, nullptr, [] { return false; });
  EXPECT_EQ(pool.Try(2 * kMebi), TIDEPOOL_DEADLINE_EXCEEDED);
  EXPECT_EQ(maker.asked.size(), 2U);
  pool.Free(kept);
}

TEST(MakeRoomTest, AFunctionMayEndItself) {
  const CPool pool(kFourMebi);
  void* const kept = pool.Allocate(3 * kMebi);
  Maker* self = nullptr;
  Maker maker(pool, nullptr, [&] {
    self->End();
    return true;
  });
  self = &maker;
  EXPECT_EQ(pool.Try(2 * kMebi), TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(maker.asked.size(), 1U);
  pool.Free(kept);
}

TEST(MakeRoomTest, AnEndWaitsForOtherThreads) {
  const CPool pool(kFourMebi);
  void* const kept = pool.Allocate(3 * kMebi);
  std::atomic<bool> is_inside = false, may_leave = false, has_left = false;
  Maker maker(pool, nullptr, [&] {
    is_inside = true;
    is_inside.notify_one();
    may_leave.wait(false);
    has_left = true;
    return false;
  });
  std::thread asking([&] { EXPECT_EQ(pool.Try(2 * kMebi), TIDEPOOL_OUT_OF_MEMORY); });
  is_inside.wait(false);
  std::thread ending([&] {
    maker.End();
    EXPECT_TRUE(has_left);
  });
  EXPECT_EQ(pool.Try(kMebi), TIDEPOOL_OK) << "no lock is held meanwhile";
  EXPECT_FALSE(has_left);
  may_leave = true;
  may_leave.notify_one();
  asking.join();
  ending.join();
  pool.Free(kept);
}

TEST(MakeRoomTest, ErrorsSayWhatToDo) {
  const CPool pool(kFourMebi);
  std::size_t number = 0;
  const auto none = [](const char*, std::size_t, tidepool_stream, int, void*) { return 0; };
  EXPECT_EQ(tidepool_begin_make_room(pool.get(), "", none, nullptr, &number),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), StrEq("a tag of 0 bytes, expected 1 to 255"));
  EXPECT_EQ(tidepool_begin_make_room(pool.get(), nullptr, nullptr, nullptr, &number),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), StrEq("function is NULL"));
  EXPECT_EQ(tidepool_begin_make_room(pool.get(), nullptr, none, nullptr, nullptr),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), StrEq("number is NULL"));
  EXPECT_EQ(tidepool_end_make_room(pool.get(), 7), TIDEPOOL_NOT_FOUND);
  EXPECT_THAT(tidepool_last_error(),
              StrEq("the pool calls no function of number 7, expected one of "
                    "tidepool_begin_make_room"));
}

}  // namespace
}  // namespace tidepool
