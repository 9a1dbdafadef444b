// SPDX-License-Identifier: Apache-2.0
// Stores of contents: blocks come back, full disks and bad folders have clear errors.
#include "tidepool/copies/contents_stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "tests/support/sizes.h"
#include "tests/support/temporary_files.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

std::string NewFolder() {
  std::string name = TemporaryFile("contents.XXXXXX");
  return mkdtemp(name.data());
}

// Zeros and other words, in the halves of each 64.
std::vector<std::byte> Contents(std::int64_t bytes) {
  std::mt19937 random(1);
  std::vector<std::byte> contents(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (i % 64 < 32) contents[i] = static_cast<std::byte>(random());
  }
  return contents;
}

absl::Span<const std::byte> Block(const ContentsStore& store, const std::vector<std::byte>& all,
                                  std::int64_t index) {
  return absl::MakeConstSpan(all).subspan(static_cast<std::size_t>(index * store.block_bytes()),
                                          static_cast<std::size_t>(store.block_bytes()));
}

// Keeps two blocks and a part of a third, and reads them in another order.
void ExpectKept(ContentsStore& store) {
  const std::vector<std::byte> contents = Contents(2 * store.block_bytes() + 777);
  ASSERT_TRUE(store.Begin(static_cast<std::int64_t>(contents.size())).ok());
  for (std::int64_t i = 0; i < 3; ++i) ASSERT_TRUE(store.Put(i, Block(store, contents, i)).ok());
  for (const std::int64_t i : {2, 0, 1, 1}) {
    const absl::Span<const std::byte> block = Block(store, contents, i);
    std::vector<std::byte> read(block.size());
    ASSERT_TRUE(store.Get(i, absl::MakeSpan(read)).ok());
    EXPECT_TRUE(read == std::vector(block.begin(), block.end()));
  }
}

// Returns the open files of this process in a folder, with or without a name.
std::int64_t CountOpenIn(const std::string& folder) {
  std::int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    count += target.starts_with(folder) ? 1 : 0;
  }
  return count;
}

// Returns a path of the open file of this process in a folder.
std::string PathOfFileIn(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(entry.path(), ignored).string().starts_with(folder)) {
      return entry.path();
    }
  }
  return "";
}

void Overwrite(const std::string& folder, std::size_t offset, std::byte byte) {
  std::fstream file(PathOfFileIn(folder), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte));
  EXPECT_TRUE(file.flush());
}

// A child that has the file open too would keep its space on the disk.
TEST(FileStoreTest, AForkedChildHasNoPartOfTheFile) {
  const std::string folder = NewFolder();
  auto store = MakeFileStore(folder).value();
  EXPECT_EQ(CountOpenIn(folder), 1);
  const pid_t child = fork();
  if (child == 0) {
    const std::int64_t inherited = CountOpenIn(folder);
    const auto own = MakeFileStore(folder).value();
    store.reset();  // closes nothing of this process
    _exit(inherited == 0 && CountOpenIn(folder) == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ExpectKept(*store);
  store.reset();
  EXPECT_EQ(CountOpenIn(folder), 0);
  std::filesystem::remove(folder);
}

TEST(FileStoreTest, AKilledProcessLeavesNoFile) {
  const std::string folder = NewFolder();
  const pid_t child = fork();
  if (child == 0) {
    const auto store = MakeFileStore(folder).value();
    ExpectKept(*store);
    raise(SIGKILL);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(std::filesystem::remove(folder));  // which is empty
}

TEST(FileStoreTest, KeepsBlocksInAFileWithoutAName) {
  const std::string folder = NewFolder();
  const auto store = MakeFileStore(folder).value();
  ExpectKept(*store);
  EXPECT_EQ(store->held_bytes(), 2 * store->block_bytes() + 777);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_TRUE(std::filesystem::remove(folder));  // the contents stay
  std::vector<std::byte> last(777);
  EXPECT_TRUE(store->Get(2, absl::MakeSpan(last)).ok());
}

// A disk, or another process, may change or cut the file.
TEST(FileStoreTest, RefusesOtherBytesThanWereWritten) {
  const std::string folder = NewFolder();
  const auto store = MakeFileStore(folder).value();
  const std::vector<std::byte> contents = Contents(store->block_bytes() + 777);
  ASSERT_TRUE(store->Begin(static_cast<std::int64_t>(contents.size())).ok());
  for (std::int64_t i = 0; i < 2; ++i) ASSERT_TRUE(store->Put(i, Block(*store, contents, i)).ok());
  std::vector<std::byte> last(777);
  for (const std::size_t at : {0, 31, 32, 775, 776}) {
    const std::size_t offset = contents.size() - 777 + at;
    Overwrite(folder, offset, contents[offset] ^ std::byte{1});
    const absl::Status refused = store->Get(1, absl::MakeSpan(last));
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("a file of 4.0 MiB (4195081 bytes) in the folder " + folder +
                          " has other bytes than were written, between 4194304 and 4195081"));
    Overwrite(folder, offset, contents[offset]);
    EXPECT_TRUE(store->Get(1, absl::MakeSpan(last)).ok());
  }
  std::filesystem::resize_file(PathOfFileIn(folder), contents.size() - 1);
  EXPECT_THAT(std::string(store->Get(1, absl::MakeSpan(last)).message()),
              HasSubstr("cannot be read at byte 4195080: "));
}

// Parts of a block are read by several threads.
TEST(FileStoreTest, NamesTheFirstPartWithOtherBytes) {
  const std::string folder = NewFolder();
  const auto store = MakeFileStore(folder).value();
  const std::vector<std::byte> contents = Contents(store->block_bytes());
  ASSERT_TRUE(store->Begin(store->block_bytes()).ok());
  ASSERT_TRUE(store->Put(0, contents).ok());
  for (const std::size_t offset : {3 * kMiB, 2 * kMiB - 1}) {
    Overwrite(folder, offset, contents[offset] ^ std::byte{1});
  }
  std::vector<std::byte> read(contents.size());
  EXPECT_THAT(std::string(store->Get(0, absl::MakeSpan(read)).message()),
              HasSubstr("has other bytes than were written, between 1048576 and 2097152"));
}

TEST(FileStoreTest, RefusesFoldersThatTakeNoFile) {
  const std::string missing = NewFolder() + "/missing";
  for (const std::string& folder : {missing, std::string("/proc"), std::string()}) {
    const absl::Status refused = MakeFileStore(folder).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("the folder " + folder));
  }
  EXPECT_THAT(std::string(MakeFileStore(missing + "\n\xff").status().message()),
              HasSubstr("/missing\\n\\xff takes no file: "));
}

TEST(FileStoreTest, SaysHowManyBytesAFullDiskLacks) {
  const auto store = MakeFileStore(NewFolder()).value();
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = kMiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status refused = store->Begin(3 * kMiB);
  const absl::Status at_a_block = store->Put(0, Contents(2 * kMiB));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  for (const absl::Status& status : {refused, at_a_block}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("3.0 MiB (3145728 bytes)"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("folder of another disk"));
  }
}

TEST(CompressedStoreTest, KeepsBlocksInLessMemory) {
  for (const ZeroValueWord word : {ZeroValueWord::k16Bits, ZeroValueWord::k32Bits}) {
    const auto store = MakeCompressedStore({.word = word, .threads = 2}).value();
    ExpectKept(*store);
    EXPECT_LT(store->held_bytes(), 3 * store->block_bytes() / 2);
    EXPECT_GT(store->held_bytes(), store->block_bytes() / 2);
  }
}

TEST(CompressedStoreTest, TakesOptionsOfTheCodec) {
  EXPECT_EQ(MakeCompressedStore({.threads = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tidepool
