// SPDX-License-Identifier: Apache-2.0
#include "tidepool/log.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Takes the messages of its scope.
class Taken {
 public:
  explicit Taken(LogLevel most = LogLevel::kInfo) {
    SetLog([this](LogLevel level, std::string_view text) { messages.emplace_back(level, text); },
           most);
  }
  ~Taken() { SetLog(nullptr); }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  std::vector<std::pair<LogLevel, std::string>> messages;
};

std::string Printed(LogLevel level, const std::string& text) {
  ::testing::internal::CaptureStderr();
  Log(level, text);
  return ::testing::internal::GetCapturedStderr();
}

TEST(LogTest, PrintsOnStderrUntilAFunctionTakesIt) {
  EXPECT_EQ(Printed(LogLevel::kInfo, "a"), "tidepool: a\n");
  {
    const Taken taken;
    EXPECT_EQ(Printed(LogLevel::kError, "b"), "");
    EXPECT_THAT(taken.messages, ElementsAre(Pair(LogLevel::kError, "b")));
  }
  EXPECT_EQ(Printed(LogLevel::kInfo, "c"), "tidepool: c\n");
}

TEST(LogTest, DropsMessagesAboveTheLevel) {
  const Taken taken(LogLevel::kWarning);
  Log(LogLevel::kInfo, "a");
  Log(LogLevel::kWarning, "b");
  Log(LogLevel::kError, "c");
  EXPECT_THAT(taken.messages,
              ElementsAre(Pair(LogLevel::kWarning, "b"), Pair(LogLevel::kError, "c")));
}

TEST(LogTest, LimitsStderrToo) {
  SetLog(nullptr, LogLevel::kError);
  EXPECT_EQ(Printed(LogLevel::kWarning, "a"), "");
  EXPECT_EQ(Printed(LogLevel::kError, "b"), "tidepool: b\n");
  SetLog(nullptr);
}

}  // namespace
}  // namespace tidepool
