// SPDX-License-Identifier: Apache-2.0
// Messages of the library, taken by a program.
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/bindings/c/fixture.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

using Messages = std::vector<std::pair<tidepool_log_level, std::string>>;

void Take(tidepool_log_level level, const char* text, void* data) {
  static_cast<Messages*>(data)->emplace_back(level, text);
}

// Ends a pool with live memory, after an error.
void MakeMessages() {
  tidepool_pool* pool = nullptr;
  void* address = nullptr;
  ASSERT_EQ(tidepool_pool_create("device=host,budget=1MiB,errors=1,statistics=1", &pool),
            TIDEPOOL_OK);
  ASSERT_EQ(tidepool_allocate(pool, 512, nullptr, TIDEPOOL_RESIDENT, &address), TIDEPOOL_OK);
  ASSERT_EQ(tidepool_owns(pool, address, nullptr), TIDEPOOL_INVALID_ARGUMENT);
  ASSERT_EQ(tidepool_pool_destroy(pool), TIDEPOOL_OK);
}

TEST(CLogTest, SendsMessagesOfEachLevelToAFunction) {
  Messages messages;
  ASSERT_EQ(tidepool_set_log(Take, &messages, TIDEPOOL_LOG_INFO), TIDEPOOL_OK);
  MakeMessages();
  ASSERT_EQ(tidepool_set_log(nullptr, nullptr, TIDEPOOL_LOG_INFO), TIDEPOOL_OK);
  EXPECT_THAT(
      messages,
      ElementsAre(
          Pair(TIDEPOOL_LOG_ERROR, "tidepool_owns: TIDEPOOL_INVALID_ARGUMENT: owns is NULL"),
          Pair(TIDEPOOL_LOG_INFO, StartsWith("pool on host: 1 allocations, 0 frees, ")),
          Pair(TIDEPOOL_LOG_WARNING,
               StartsWith("a pool is destroyed with 512 bytes live in 1 allocation\n  0x"))));
}

TEST(CLogTest, DropsMessagesAboveTheLevel) {
  Messages messages;
  ASSERT_EQ(tidepool_set_log(Take, &messages, TIDEPOOL_LOG_ERROR), TIDEPOOL_OK);
  MakeMessages();
  ASSERT_EQ(tidepool_set_log(nullptr, nullptr, TIDEPOOL_LOG_ERROR), TIDEPOOL_OK);
  ::testing::internal::CaptureStderr();
  MakeMessages();
  const std::string printed = ::testing::internal::GetCapturedStderr();
  ASSERT_EQ(tidepool_set_log(nullptr, nullptr, TIDEPOOL_LOG_INFO), TIDEPOOL_OK);
  EXPECT_THAT(messages, ElementsAre(Pair(TIDEPOOL_LOG_ERROR, HasSubstr("owns is NULL"))));
  EXPECT_EQ(printed, "tidepool: tidepool_owns: TIDEPOOL_INVALID_ARGUMENT: owns is NULL\n");
}

TEST(CLogTest, RefusesAnUnknownLevel) {
  EXPECT_EQ(tidepool_set_log(nullptr, nullptr, static_cast<tidepool_log_level>(3)),
            TIDEPOOL_INVALID_ARGUMENT);
  EXPECT_THAT(tidepool_last_error(), StartsWith("most is 3, expected a level from "));
}

}  // namespace
}  // namespace tidepool
