// SPDX-License-Identifier: Apache-2.0
// Tests of output files: each appears whole or not at all.
#include "tidepool/trace/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/support/shared_files.h"

namespace tidepool {
namespace {

using testing::Contents;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class OutputFile : public ::testing::Test {
 protected:
  OutputFile()
      : folder_(std::filesystem::temp_directory_path() /
                ("tidepool-output-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~OutputFile() override { std::filesystem::remove_all(folder_); }

  static absl::Status Write(const std::string& path, const std::string& text) {
    return WriteFile(path, [&](std::ostream& out) {
      out << text;
      return absl::OkStatus();
    });
  }
  std::ptrdiff_t Files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

  std::filesystem::path folder_;
};

TEST_F(OutputFile, HoldsWhatWasWritten) {
  const std::string path = folder_ / "x";
  EXPECT_TRUE(Write(path, "first").ok());
  EXPECT_TRUE(Write(path, "second").ok());
  EXPECT_EQ(Contents(path), "second");
  EXPECT_EQ(Files(), 1);
}

TEST_F(OutputFile, IsAsBeforeWhenTheWriterFails) {
  const std::string path = folder_ / "x";
  const auto fail = [](std::ostream& out) {
    out << std::string(1 << 20, 'x');
    return absl::InternalError("broken, expected better");
  };
  EXPECT_FALSE(WriteFile(path, fail).ok());
  EXPECT_EQ(Files(), 0);
  EXPECT_TRUE(Write(path, "before").ok());
  const absl::Status status = WriteFile(path, fail);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), path + ": broken, expected better");
  EXPECT_EQ(Contents(path), "before");
  EXPECT_EQ(Files(), 1);
}

TEST_F(OutputFile, LeavesNothingOfAProcessThatIsKilled) {
  const int nameless = open(folder_.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (nameless < 0) GTEST_SKIP() << "the file system of " << folder_ << " has no nameless files";
  close(nameless);
  const std::string path = folder_ / "x";
  EXPECT_TRUE(Write(path, "before").ok());
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status status = WriteFile(path, [](std::ostream& out) {
      out << std::string(1 << 20, 'x');
      kill(getpid(), SIGKILL);
      return absl::OkStatus();
    });
    _exit(status.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(Contents(path), "before");
  EXPECT_EQ(Files(), 1);
}

TEST_F(OutputFile, NeedsAPlace) {
  const absl::Status status = Write(folder_ / "none" / "x", "text");
  EXPECT_THAT(std::string(status.message()), HasSubstr(": cannot be created: "));
}

TEST_F(OutputFile, ErrorsNamePathsThatAreEmptyOrTooLong) {
  const auto write = [](std::ostream&) { return absl::OkStatus(); };
  EXPECT_THAT(std::string(WriteFile("", write).message()), StartsWith("'': cannot be "));
  const absl::Status status = WriteFile(std::string(std::size_t{1} << 20, 'x'), write);
  EXPECT_THAT(std::string(status.message()), HasSubstr("xxx...: cannot be created"));
  EXPECT_LT(status.message().size(), 5000U);
}

}  // namespace
}  // namespace tidepool
