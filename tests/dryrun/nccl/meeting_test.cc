// SPDX-License-Identifier: Apache-2.0
#include "dryrun/nccl/meeting.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace tidepool::cudart_host {
namespace {

// Runs the body in a process of its own, which ends as a crash would.
template <typename Body>
pid_t RunAside(Body body) {
  const pid_t child = fork();
  if (child != 0) return child;
  body();
  kill(getpid(), SIGKILL);
  _exit(1);
}

std::string NameFor(const char* test) { return test + std::to_string(getpid()); }

TEST(MeetingTest, ProcessesExchangeData) {
  const std::string name = NameFor("exchange");
  const pid_t other = RunAside([&] {
    const auto meeting = Meeting::Open(name, 2, 1, 1);
    meeting->AwaitAll();
    meeting->Step(Meeting::Table::kStreams, {.bytes = 3}, "one");
    std::string message;
    while (!meeting->TryReceive(0, message)) meeting->AwaitChange(meeting->Now());
    message += "!";
    std::size_t sent = 0;
    while (!meeting->TrySend(0, message, sent)) meeting->AwaitChange(meeting->Now());
  });
  const auto meeting = Meeting::Open(name, 2, 0, 0);
  ASSERT_TRUE(meeting->AwaitAll());
  ASSERT_TRUE(meeting->Step(Meeting::Table::kStreams, {.bytes = 3}, "zero"));
  EXPECT_EQ(meeting->DataOf(Meeting::Table::kStreams, 0), "zero");
  EXPECT_EQ(meeting->DataOf(Meeting::Table::kStreams, 1), "one");
  std::size_t sent = 0;
  EXPECT_TRUE(meeting->TrySend(1, "hello", sent));
  std::string message;
  while (!meeting->TryReceive(1, message)) ASSERT_TRUE(meeting->AwaitChange(meeting->Now()));
  EXPECT_EQ(message, "hello!");
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
}

TEST(MeetingTest, LargeDataGoesInPieces) {
  constexpr auto kPiece = static_cast<std::size_t>(Meeting::kPieceBytes);
  const std::string name = NameFor("pieces");
  const std::string one(2 * kPiece + 5, '1');
  const std::string zero(kPiece + 1, '0');
  const pid_t other = RunAside([&] {
    const auto meeting = Meeting::Open(name, 2, 1, 1);
    meeting->AwaitAll();
    meeting->Step(Meeting::Table::kStreams, {}, one);
    std::size_t sent = 0;
    while (!meeting->TrySend(0, one, sent)) meeting->AwaitChange(meeting->Now());
    meeting->Step(Meeting::Table::kStreams, {}, one);
    meeting->Step(Meeting::Table::kStreams, {}, "small");
  });
  const auto meeting = Meeting::Open(name, 2, 0, 0);
  ASSERT_TRUE(meeting->AwaitAll());
  ASSERT_TRUE(meeting->Step(Meeting::Table::kStreams, {}, zero));
  EXPECT_TRUE(meeting->DataOf(Meeting::Table::kStreams, 0) == zero);
  EXPECT_TRUE(meeting->DataOf(Meeting::Table::kStreams, 1) == one);
  std::string message;
  while (!meeting->TryReceive(1, message)) ASSERT_TRUE(meeting->AwaitChange(meeting->Now()));
  EXPECT_TRUE(message == one);
  ASSERT_TRUE(meeting->Step(Meeting::Table::kStreams, {}, ""));
  EXPECT_EQ(meeting->DataOf(Meeting::Table::kStreams, 0), "");
  EXPECT_TRUE(meeting->DataOf(Meeting::Table::kStreams, 1) == one);
  ASSERT_TRUE(meeting->Step(Meeting::Table::kStreams, {}, "x"));
  EXPECT_EQ(meeting->DataOf(Meeting::Table::kStreams, 0), "x");
  EXPECT_EQ(meeting->DataOf(Meeting::Table::kStreams, 1), "small");
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
}

TEST(MeetingTest, TheEndOfAProcessEndsTheWaitForIt) {
  const std::string name = NameFor("end");
  const pid_t other = RunAside([&] { Meeting::Open(name, 2, 1, 1)->AwaitAll(); });
  const auto meeting = Meeting::Open(name, 2, 0, 0);
  ASSERT_TRUE(meeting->AwaitAll());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(meeting->Step(Meeting::Table::kStreams, {}, "x"));
    EXPECT_EQ(meeting->SubjectOf(Meeting::Table::kStreams, 1), nullptr);
    EXPECT_EQ(meeting->DataOf(Meeting::Table::kStreams, 1), "");
  }
  std::string message = "?";
  while (!meeting->TryReceive(1, message)) ASSERT_TRUE(meeting->AwaitChange(meeting->Now()));
  EXPECT_EQ(message, "");
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
}

TEST(MeetingTest, ChildrenOfARankDoNotKeepIt) {
  const std::string name = NameFor("children");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t other = RunAside([&] {
    const auto meeting = Meeting::Open(name, 2, 1, 1);
    meeting->AwaitAll();
    if (fork() != 0) return;
    char byte = 0;
    close(ends[1]);
    if (read(ends[0], &byte, 1) >= 0) _exit(0);  // a worker that outlives the rank
  });
  const auto meeting = Meeting::Open(name, 2, 0, 0);
  ASSERT_TRUE(meeting->AwaitAll());
  ASSERT_TRUE(meeting->Step(Meeting::Table::kStreams, {}, "x"));
  EXPECT_EQ(meeting->SubjectOf(Meeting::Table::kStreams, 1), nullptr);
  close(ends[1]);
  close(ends[0]);
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
}

TEST(MeetingTest, RanksOfOneDeviceAreFound) {
  const std::string name = NameFor("device");
  const auto first = Meeting::Open(name, 2, 0, 7);
  const auto second = Meeting::Open(name, 2, 1, 7);
  ASSERT_TRUE(first->AwaitAll() && second->AwaitAll());
  EXPECT_EQ(first->RankWithSameDevice(), -1);
  EXPECT_EQ(second->RankWithSameDevice(), 0);
}

TEST(MeetingTest, ThereIsNoMeetingWhereTheFileCannotBe) {
  setenv("NCCL_HOST_FOLDER", "/no/such/folder", 1);
  EXPECT_EQ(Meeting::Open("name", 1, 0, 0), nullptr);
  unsetenv("NCCL_HOST_FOLDER");
}

}  // namespace
}  // namespace tidepool::cudart_host
