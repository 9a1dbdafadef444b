// SPDX-License-Identifier: Apache-2.0
// A budget in a file: how pools join, share and leave it, and which files it refuses.
#include "lib/memory/sharing/shared_budget.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/memory/sharing/ending_process.h"
#include "tests/support/sizes.h"
#include "tests/support/temporary_files.h"

namespace tidepool::sharing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kBudget = 8 * kMiB;
constexpr std::int64_t kFileBytes = 2088;

// Runs `child()` in a forked process, which it returns. The process sleeps after it has told that
// `child()` has returned.
template <typename Child>
pid_t ForkAndSleep(Child child) {
  int told[2];
  EXPECT_EQ(pipe(told), 0);
  const pid_t process = fork();
  if (process == 0) {
    child();
    static_cast<void>(write(told[1], "x", 1));
    for (;;) pause();
  }
  char byte = 0;
  EXPECT_EQ(read(told[0], &byte, 1), 1);
  close(told[0]);
  close(told[1]);
  return process;
}

void Kill(pid_t process) {
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

// Returns the exit status of `child()` in a forked process.
template <typename Child>
int InChild(Child child) {
  const pid_t process = fork();
  if (process == 0) _exit(child());
  int status = -1;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class SharedBudgetTest : public ::testing::Test {
 protected:
  ~SharedBudgetTest() override { std::filesystem::remove_all(path_); }

  std::unique_ptr<SharedBudget> Join(std::int64_t bytes = kBudget) {
    return SharedBudget::Join(path_, bytes).value();
  }
  std::string ErrorOfJoin(std::int64_t bytes = kBudget) {
    return SharedBudget::Join(path_, bytes).status().ToString();
  }
  void Write(const std::string& text, std::streamoff at = 0) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    if (!file) file.open(path_, std::ios::out | std::ios::binary);
    file.seekp(at);
    file << text;
  }

  const std::string path_ = TemporaryFile("budget");
};

TEST_F(SharedBudgetTest, ChargesOfAllPoolsStayWithinIt) {
  const auto first = Join();
  const auto second = Join();
  EXPECT_TRUE(first->Charge(5 * kMiB).ok());
  const absl::Status refused = second->Charge(4 * kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(
      refused.ToString(),
      AllOf(HasSubstr("4.0 MiB (4194304 bytes) more of the device's memory exceed the budget "
                      "of 8.0 MiB (8388608 bytes) that pools share by " +
                      path_),
            HasSubstr(absl::StrCat("process ", getpid(), " holds 5.0 MiB")),
            HasSubstr("this pool holds 0 bytes")));
  EXPECT_TRUE(second->Charge(3 * kMiB).ok());
  first->GiveBack(kMiB);
  EXPECT_TRUE(second->Charge(kMiB).ok());
  EXPECT_FALSE(second->Charge(1).ok());
  first->GiveBack(4 * kMiB);
  second->GiveBack(4 * kMiB);
}

TEST_F(SharedBudgetTest, AnUnusedFileTakesAnotherBudget) {
  {
    const auto first = Join();
    EXPECT_EQ(std::filesystem::file_size(path_), kFileBytes);
    EXPECT_THAT(ErrorOfJoin(9 * kMiB),
                AllOf(HasSubstr("FAILED_PRECONDITION: pools share 8.0 MiB (8388608 bytes) by "),
                      HasSubstr("asks to share 9.0 MiB (9437184 bytes): give all of them the same "
                                "max_bytes")));
  }
  const auto next = Join(9 * kMiB);
  EXPECT_TRUE(next->Charge(9 * kMiB).ok());
  next->GiveBack(9 * kMiB);
}

// The lock of a process ends with it, and so does its part.
TEST_F(SharedBudgetTest, AKilledProcessLeavesItsPart) {
  const pid_t child = ForkAndSleep([&] { Join().release()->Charge(6 * kMiB).IgnoreError(); });
  const auto own = Join();
  EXPECT_THAT(own->Charge(4 * kMiB).ToString(),
              HasSubstr(absl::StrCat("process ", child, " holds 6.0 MiB")));
  const auto before = own->ReadOthers();
  EXPECT_TRUE(before.hold_memory);
  Kill(child);
  const auto after = own->ReadOthers();
  EXPECT_FALSE(after.hold_memory);
  EXPECT_GT(after.changes, before.changes);
  EXPECT_TRUE(own->Charge(kBudget).ok());
  own->GiveBack(kBudget);
}

TEST_F(SharedBudgetTest, TheBudgetOfKilledProcessesAloneIsReplaced) {
  Kill(ForkAndSleep([&] { Join().release()->Charge(6 * kMiB).IgnoreError(); }));
  const auto own = Join(4 * kMiB);
  EXPECT_TRUE(own->Charge(4 * kMiB).ok());
  own->GiveBack(4 * kMiB);
}

// Closes all files of this process but one and the standard ones.
void CloseFilesBut(int kept) {
  for (int file = 3; file < 1024; ++file) {
    if (file != kept) close(file);
  }
}

// Returns whether the first thread of a process has ended.
bool HasMainEnded(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/stat"));
  std::string text;
  std::getline(file, text);
  return text.find(") Z ") != text.npos;
}

// Its driver may still have to give the memory back. Here the other thread takes the part of the
// system: the locks have ended, and the process has not.
TEST_F(SharedBudgetTest, AKilledProcessCountsUntilItHasEnded) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    Join().release()->Charge(6 * kMiB).IgnoreError();
    std::thread([] { pause(); }).detach();
    static_cast<void>(write(told[1], "x", 1));
    CloseFilesBut(told[1]);
    syscall(SYS_exit, 0);  // this thread alone
  }
  const auto own = Join();
  char byte = 0;
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  while (!HasMainEnded(child)) std::this_thread::yield();
  const auto before = own->ReadOthers();
  EXPECT_TRUE(before.hold_memory);
  EXPECT_THAT(own->Charge(4 * kMiB).ToString(),
              HasSubstr(absl::StrCat("process ", child, ", which is ending, holds 6.0 MiB")));
  Kill(child);
  EXPECT_GT(own->ReadOthers().changes, before.changes);
  EXPECT_TRUE(own->Charge(kBudget).ok());
  own->GiveBack(kBudget);
  for (const int file : told) close(file);
}

// Other pools may know the process by another number.
TEST_F(SharedBudgetTest, AProcessThatIsNotFoundCountsNoMore) {
  const pid_t child = ForkAndSleep([&] { Join().release()->Charge(6 * kMiB).IgnoreError(); });
  Kill(child);
  EXPECT_FALSE(IsEnding(child));
  EXPECT_FALSE(IsEnding(getpid()));
}

// A child that ends runs destructors, too.
TEST_F(SharedBudgetTest, AForkedChildChangesNothing) {
  auto own = Join();
  ASSERT_TRUE(own->Charge(6 * kMiB).ok());
  EXPECT_EQ(InChild([&] {
              const absl::Status refused = own->Charge(kMiB);
              own->GiveBack(6 * kMiB);
              own.reset();
              return absl::IsFailedPrecondition(refused) ? 0 : 1;
            }),
            0);
  EXPECT_EQ(InChild([&] {
              const auto childs = Join();  // of its own
              return !childs->Charge(3 * kMiB).ok() && childs->Charge(2 * kMiB).ok() ? 0 : 1;
            }),
            0);
  EXPECT_FALSE(own->Charge(3 * kMiB).ok());
  own->GiveBack(6 * kMiB);
}

// The memory of a device lives as long as a child that has the files of its driver.
TEST_F(SharedBudgetTest, AChildThatOutlivesItsParentKeepsThePart) {
  int grandchild[2];
  ASSERT_EQ(pipe(grandchild), 0);
  const pid_t parent = ForkAndSleep([&] {
    Join().release()->Charge(6 * kMiB).IgnoreError();
    const pid_t process = fork();
    if (process == 0) {
      for (;;) pause();
    }
    static_cast<void>(write(grandchild[1], &process, sizeof(process)));
  });
  pid_t process = 0;
  ASSERT_EQ(read(grandchild[0], &process, sizeof(process)), sizeof(process));
  const auto own = Join();
  Kill(parent);
  EXPECT_FALSE(own->Charge(4 * kMiB).ok());
  kill(process, SIGKILL);
  while (!own->Charge(4 * kMiB).ok()) std::this_thread::yield();
  own->GiveBack(4 * kMiB);
  close(grandchild[0]);
  close(grandchild[1]);
}

// Returns the lock of the first byte of a file.
struct flock LockOfChange(int file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  EXPECT_EQ(fcntl(file, F_OFD_GETLK, &lock), 0);
  return lock;
}

bool IsLocked(int file) { return LockOfChange(file).l_type != F_UNLCK; }

// Stops a process where it has locked the first byte of a file.
void StopInChange(pid_t process, int file) {
  for (;;) {
    kill(process, SIGSTOP);
    waitpid(process, nullptr, WUNTRACED);
    if (IsLocked(file)) return;
    kill(process, SIGCONT);
    std::this_thread::yield();
  }
}

// The lock of a change ends with the process, also where a child has the file.
TEST_F(SharedBudgetTest, AProcessKilledInAChangeLeavesNoLockToItsChild) {
  int childs[2];
  ASSERT_EQ(pipe(childs), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const auto budget = Join();
    const pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    static_cast<void>(write(childs[1], &child, sizeof(child)));
    for (;;) {
      budget->Charge(kMiB).IgnoreError();
      budget->GiveBack(kMiB);
    }
  }
  pid_t child = 0;
  ASSERT_EQ(read(childs[0], &child, sizeof(child)), sizeof(child));
  const int file = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  StopInChange(parent, file);
  Kill(parent);
  EXPECT_FALSE(IsLocked(file));
  kill(child, SIGKILL);
  for (const int descriptor : {file, childs[0], childs[1]}) close(descriptor);
}

// A lock of the process would end in the middle of a change when a reader of the file in it, or
// another copy of the library, closes the file.
TEST_F(SharedBudgetTest, AnOpenFileHasTheLockOfAChange) {
  const pid_t child = fork();
  if (child == 0) {
    const auto budget = Join();
    for (;;) budget->ReadOthers();
  }
  while (!std::filesystem::exists(path_)) std::this_thread::yield();
  const int file = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  StopInChange(child, file);
  EXPECT_EQ(LockOfChange(file).l_pid, -1);
  Kill(child);
  close(file);
}

// Memory that the device did not take back is still there.
TEST_F(SharedBudgetTest, BytesThatWereNotGivenBackStay) {
  Join()->Charge(6 * kMiB).IgnoreError();
  const auto own = Join();
  EXPECT_FALSE(own->Charge(4 * kMiB).ok());
}

TEST_F(SharedBudgetTest, TellsWhenOthersGiveBack) {
  const auto own = Join();
  const auto begin = own->ReadOthers();
  EXPECT_FALSE(begin.hold_memory);
  const auto other = Join();
  ASSERT_TRUE(other->Charge(2 * kMiB).ok());
  EXPECT_TRUE(own->ReadOthers().hold_memory);
  EXPECT_EQ(own->ReadOthers().changes, begin.changes);
  other->GiveBack(kMiB);
  EXPECT_EQ(own->ReadOthers().changes, begin.changes + 1);
  other->GiveBack(kMiB);
  EXPECT_FALSE(own->ReadOthers().hold_memory);
  EXPECT_EQ(own->ReadOthers().changes, begin.changes + 2);
  EXPECT_EQ(other->ReadOthers().changes, begin.changes);  // they were its own
}

// But for pools that the charge kept from memory.
TEST_F(SharedBudgetTest, AChargeThatIsUndoneIsNoChange) {
  const auto own = Join();
  const auto other = Join();
  const auto begin = own->ReadOthers();
  ASSERT_TRUE(other->Charge(6 * kMiB).ok());
  other->Undo(6 * kMiB);
  EXPECT_EQ(own->ReadOthers().changes, begin.changes);
  ASSERT_TRUE(other->Charge(6 * kMiB).ok());
  EXPECT_FALSE(own->Charge(3 * kMiB).ok());
  other->Undo(6 * kMiB);
  EXPECT_GT(own->ReadOthers().changes, begin.changes);
  const auto told = own->ReadOthers();
  ASSERT_TRUE(other->Charge(6 * kMiB).ok());
  other->Undo(6 * kMiB);
  EXPECT_EQ(own->ReadOthers().changes, told.changes);
  EXPECT_TRUE(own->Charge(kBudget).ok());
  own->GiveBack(kBudget);
}

TEST_F(SharedBudgetTest, TellsEachPoolOnceWhatOthersWant) {
  const auto own = Join();
  const auto third = Join();
  const auto other = Join();
  ASSERT_TRUE(own->Charge(kBudget).ok());
  EXPECT_FALSE(other->Charge(2 * kMiB).ok());
  EXPECT_EQ(own->TakeWanted(), 0);  // its own process may serve it
  EXPECT_NE(other->TellWanted(2 * kMiB, false), 0);
  EXPECT_EQ(own->TakeWanted(), 2 * kMiB);
  EXPECT_EQ(own->TakeWanted(), 0);
  EXPECT_EQ(other->TakeWanted(), 0);
  EXPECT_EQ(Join()->TakeWanted(), 0);  // refused before it came
  own->GiveBack(2 * kMiB);
  ASSERT_TRUE(other->Charge(2 * kMiB).ok());
  EXPECT_EQ(third->TakeWanted(), 0);  // it was served meanwhile
  other->GiveBack(2 * kMiB);
  own->GiveBack(6 * kMiB);
}

// Charges of other requests do not end the word of a request that waits. Its own end does.
TEST_F(SharedBudgetTest, TellsWhatARequestWantsUntilItEnds) {
  const auto own = Join();
  const auto other = Join();
  EXPECT_EQ(other->TellWanted(9 * kMiB, true), 0);  // no other pool has memory
  ASSERT_TRUE(own->Charge(6 * kMiB).ok());
  EXPECT_EQ(other->TellWanted(2 * kMiB, true), 0);  // there is room
  const std::uint64_t waiting = other->TellWanted(3 * kMiB, true);
  ASSERT_TRUE(other->Charge(kMiB).ok());
  EXPECT_EQ(own->TakeWanted(), 3 * kMiB);
  const std::uint64_t next = other->TellWanted(4 * kMiB, true);
  other->EndWanted(waiting);
  EXPECT_EQ(own->TakeWanted(), 4 * kMiB);
  const std::uint64_t last = other->TellWanted(5 * kMiB, true);
  EXPECT_GT(last, next);
  other->EndWanted(last);
  EXPECT_EQ(own->TakeWanted(), 0);
  other->GiveBack(kMiB);
  own->GiveBack(6 * kMiB);
}

TEST_F(SharedBudgetTest, RefusesMorePoolsThanTheFileHas) {
  std::vector<std::unique_ptr<SharedBudget>> pools;
  while (pools.size() < SharedBudget::kMostPools) pools.push_back(Join());
  EXPECT_THAT(ErrorOfJoin(), HasSubstr("RESOURCE_EXHAUSTED: 64 pools share the budget of "));
  pools.pop_back();
  EXPECT_NE(Join(), nullptr);
}

TEST_F(SharedBudgetTest, RefusesFilesOfSomethingElse) {
  Write(std::string(100, 'x'));
  EXPECT_THAT(ErrorOfJoin(), AllOf(HasSubstr("INVALID_ARGUMENT: the file "),
                                   HasSubstr("is not of a shared budget: name another one")));
  EXPECT_EQ(std::filesystem::file_size(path_), 100);
  const auto error_of = [](const std::string& path) {
    return SharedBudget::Join(path, kBudget).status().ToString();
  };
  EXPECT_THAT(error_of("/dev/null"), HasSubstr("/dev/null is no regular file"));
  EXPECT_THAT(error_of(TemporaryFolder()), HasSubstr("cannot be opened for reading and writing"));
  EXPECT_THAT(error_of(TemporaryFile("missing/budget")), HasSubstr("NOT_FOUND"));
}

TEST_F(SharedBudgetTest, RefusesZerosOfAnotherLength) {
  Write(std::string(kFileBytes + 1, '\0'));
  EXPECT_THAT(ErrorOfJoin(), HasSubstr("is not of a shared budget"));
  std::filesystem::resize_file(path_, kFileBytes);  // as a process that died while it made it
  EXPECT_NE(Join(), nullptr);
}

TEST_F(SharedBudgetTest, RefusesAFileThatWasCut) {
  Join();
  std::filesystem::resize_file(path_, kFileBytes - 1);
  EXPECT_THAT(ErrorOfJoin(),
              HasSubstr("has 2087 bytes, expected 2088: remove it when no pool uses"));
}

TEST_F(SharedBudgetTest, RefusesAnotherVersion) {
  Join();
  Write("\x07", 8);
  EXPECT_THAT(ErrorOfJoin(), HasSubstr("has version 7, expected 1: use one version of tidepool"));
}

TEST_F(SharedBudgetTest, RefusesAFileThatMayOnlyBeRead) {
  Join();
  std::filesystem::permissions(path_, std::filesystem::perms(0444));
  std::filesystem::permissions(TemporaryFolder(), std::filesystem::perms(0755));
  EXPECT_EQ(InChild([&] {
              if (geteuid() == 0 && seteuid(65534) != 0) return 2;
              return absl::IsPermissionDenied(SharedBudget::Join(path_, kBudget).status()) ? 0 : 1;
            }),
            0);
}

// Two files under one name would be two budgets.
TEST_F(SharedBudgetTest, RefusesGrowthAfterTheFileWasRemovedOrCut) {
  const auto own = Join();
  std::filesystem::resize_file(path_, 40);
  EXPECT_THAT(own->Charge(kMiB).ToString(), AllOf(HasSubstr("FAILED_PRECONDITION"),
                                                  HasSubstr("was removed or cut while pools use "
                                                            "it")));
  std::filesystem::remove(path_);
  const auto other = Join();
  EXPECT_THAT(own->Charge(kMiB).ToString(), HasSubstr("was removed or cut"));
  EXPECT_TRUE(other->Charge(kMiB).ok());
  other->GiveBack(kMiB);
}

// Another pool would make the file again, and have all of the budget.
TEST_F(SharedBudgetTest, RefusesPoolsAfterTheFileWasCut) {
  auto first = Join();
  auto own = Join();
  ASSERT_TRUE(own->Charge(6 * kMiB).ok());
  std::filesystem::resize_file(path_, 0);
  EXPECT_THAT(ErrorOfJoin(), HasSubstr("was removed or cut"));  // their entries are locked
  first.reset();
  EXPECT_THAT(ErrorOfJoin(), HasSubstr("was removed or cut"));
  own->GiveBack(6 * kMiB);
  EXPECT_THAT(own->Charge(kMiB).ToString(), HasSubstr("was removed or cut"));
  own.reset();
  EXPECT_NE(Join(), nullptr);
}

// A count of all charged bytes that processes share.
class Total {
 public:
  Total()
      : bytes_(new (mmap(nullptr, sizeof(*bytes_), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<std::int64_t>(0)) {}
  ~Total() { munmap(bytes_, sizeof(*bytes_)); }
  Total(const Total&) = delete;
  Total& operator=(const Total&) = delete;

  // Returns whether the total is within the budget.
  bool Add(std::int64_t bytes) { return bytes_->fetch_add(bytes) + bytes <= kBudget; }

 private:
  std::atomic<std::int64_t>* const bytes_;
};

// Returns whether no charge exceeded the budget or failed, and some were served and some refused.
bool Play(SharedBudget& budget, Total& total, unsigned seed) {
  std::int64_t held = 0;
  bool is_within = true;
  int served = 0;
  int refused = 0;
  while (served < 2000 || refused == 0) {
    seed = seed * 1664525 + 1013904223;
    const std::int64_t bytes = (1 + (seed >> 20) % 4) * kMiB;
    if (const absl::Status status = budget.Charge(bytes); status.ok()) {
      ++served;
      held += bytes;
      is_within = total.Add(bytes) && is_within;
    } else {
      is_within = absl::IsResourceExhausted(status) && is_within;
      ++refused;
      total.Add(-held);
      budget.GiveBack(std::exchange(held, 0));
    }
  }
  total.Add(-held);
  budget.GiveBack(held);
  return is_within;
}

TEST_F(SharedBudgetTest, ThreadsAndProcessesNeverExceedIt) {
  Total total;
  std::vector<pid_t> children;
  for (unsigned seed = 1; seed <= 2; ++seed) {
    children.push_back(fork());
    if (children.back() == 0) _exit(Play(*Join(), total, seed) ? 0 : 1);
  }
  const auto own = Join();
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 3; seed <= 4; ++seed) {
      threads.emplace_back([&, seed] { failures += Play(*own, total, seed) ? 0 : 1; });
    }
  }
  EXPECT_EQ(failures, 0);
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(own->Charge(kBudget).ok());  // nothing was lost
  own->GiveBack(kBudget);
}

// Where threads of both processes wait for each other's locks, the system refuses one, as if none
// of them could go on.
TEST_F(SharedBudgetTest, LocksOfOtherFilesRefuseNoChange) {
  Total total;
  const std::string other = TemporaryFile("other");
  const int file = open(other.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const pid_t child = fork();
  if (child == 0) {
    const auto budget = Join();
    bool is_within = true;
    for (unsigned seed = 1; seed <= 2; ++seed) {
      while (lockf(file, F_LOCK, 1) != 0) continue;
      is_within = Play(*budget, total, seed) && is_within;
      is_within = lockf(file, F_ULOCK, 1) == 0 && is_within;
    }
    _exit(is_within ? 0 : 1);
  }
  const auto own = Join();
  std::atomic<bool> has_ended = false;
  std::jthread locker([&] {
    while (!has_ended) {
      if (lockf(file, F_LOCK, 1) == 0) static_cast<void>(lockf(file, F_ULOCK, 1));
    }
  });
  for (unsigned seed = 3; seed <= 4; ++seed) EXPECT_TRUE(Play(*own, total, seed));
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  has_ended = true;
  locker.join();
  close(file);
  std::filesystem::remove(other);
}

}  // namespace
}  // namespace tidepool::sharing
