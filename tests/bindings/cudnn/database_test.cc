// SPDX-License-Identifier: Apache-2.0
// Measurements that are kept in a file: by other runs, by other devices, and in files that are
// broken, held or read-only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/bindings/cudnn/wrapped.h"

namespace tidepool::test {
namespace {

using ::testing::HasSubstr;

constexpr LayerShape kEight = {.n = 8, .c = 2, .h = 4, .w = 4, .k = 2};

// The stand-in reads its devices when it is first used.
const int kTwoDevices = setenv("CUDART_HOST_DEVICES", "2", 1);

class CudnnDatabaseTest : public WrappedTest {
 protected:
  CudnnDatabaseTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("tidepool-cudnn-" + std::to_string(getpid()))),
        path_(folder_ / ("times-" + std::to_string(++count_) + ".sqlite")) {
    std::filesystem::create_directories(folder_);
  }
  ~CudnnDatabaseTest() override { std::filesystem::remove_all(folder_); }

  // Makes a handle of a new planner, as another process would.
  void OpenWithFile(std::vector<std::pair<const char*, std::string>> options = {}) {
    Close();
    options.emplace_back("database", path_.string());
    Open(options);
  }
  // Returns the micro-batches that a look-up of a layer measures.
  std::int64_t MeasuredFor(const Layer& layer, Direction direction = Direction::kForward) {
    const std::int64_t before = Statistics().measured;
    EXPECT_EQ(LookUp(handle_, layer, direction).status, CUDNN_STATUS_SUCCESS);
    return Statistics().measured - before;
  }
  void Run(const std::string& sql) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sql;
    sqlite3_close(database);
  }
  // Works as without a file, and says why exactly once.
  void ExpectToGoOnWithout(const std::string& reason) {
    const Layer layer(kEight);
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) {
      OpenWithFile({{"policy", "powerOfTwo"}});
      EXPECT_EQ(MeasuredFor(layer), 4);
      EXPECT_EQ(MeasuredFor(layer, Direction::kFilter), 4);
    }
    Close();
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("tidepool: measurements of convolutions are not "));
    EXPECT_THAT(said, HasSubstr(path_.string() + ": "));
    EXPECT_THAT(said, HasSubstr(reason));
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }

  static inline int count_ = 0;
  const std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST_F(CudnnDatabaseTest, ALaterRunMeasuresNothing) {
  const Layer layer(kEight);
  OpenWithFile({{"limit", "0"}});
  EXPECT_EQ(MeasuredFor(layer), 4);
  // All algorithms are kept, also those above the limit of the first run.
  OpenWithFile({{"limit", "2000"}});
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_EQ(Statistics().measured, 0);
  EXPECT_EQ(looked.workspace_bytes, 2000U);
  EXPECT_FLOAT_EQ(looked.milliseconds, 4 * 0.21F);
  EXPECT_EQ(looked.count, 3);
  // Another policy measures the sizes that the file lacks.
  OpenWithFile({{"policy", "all"}});
  EXPECT_EQ(MeasuredFor(layer), 4);
}

TEST_F(CudnnDatabaseTest, LayersThatDifferShareNoMeasurement) {
  OpenWithFile({{"policy", "undivided"}});
  LayerShape shape = {.n = 4, .c = 4, .h = 6, .w = 6, .k = 4, .pad = 2};
  std::vector<LayerShape> shapes = {shape};
  const auto add = [&](auto change) {
    shapes.push_back(shape);
    change(shapes.back());
  };
  add([](LayerShape& its) { its.c = 8; });
  add([](LayerShape& its) { its.k = 8; });
  add([](LayerShape& its) { its.w = 7; });
  add([](LayerShape& its) { its.r = 2; });
  add([](LayerShape& its) { its.pad = 1; });
  add([](LayerShape& its) { its.stride = 2; });
  add([](LayerShape& its) { its.dilation = 2; });
  add([](LayerShape& its) { its.groups = 2; });
  add([](LayerShape& its) { its.format = CUDNN_TENSOR_NHWC; });
  add([](LayerShape& its) { its.type = CUDNN_DATA_HALF; });
  for (const LayerShape& each : shapes) {
    const Layer layer(each);
    for (const Direction direction : kDirections) EXPECT_EQ(MeasuredFor(layer, direction), 1);
  }
  OpenWithFile({{"policy", "undivided"}});
  for (const LayerShape& each : shapes) {
    const Layer layer(each);
    for (const Direction direction : kDirections) EXPECT_EQ(MeasuredFor(layer, direction), 0);
  }
}

// Float algorithms of half layers are kept with the others.
TEST_F(CudnnDatabaseTest, PrecisionIsAFilterOfOneFile) {
  const Layer layer({.n = 4,
                     .c = 4,
                     .h = 6,
                     .w = 6,
                     .k = 4,
                     .type = CUDNN_DATA_HALF,
                     .compute_type = CUDNN_DATA_HALF});
  OpenWithFile({{"precision", "FLOAT"}});
  EXPECT_EQ(MeasuredFor(layer), 3);
  OpenWithFile({{"precision", "TRUE_HALF"}});
  EXPECT_EQ(LookUp(handle_, layer, Direction::kForward).count, 3);
  EXPECT_EQ(Statistics().measured, 0);
}

// Devices
// ------------------------------------------------------------------------------------------

TEST_F(CudnnDatabaseTest, DevicesOfOneKindMeasureTogether) {
  setenv("CUDART_HOST_NAME", "one kind", 1);
  const Layer layer(kEight);
  OpenWithFile({{"devices", "0,1"}, {"policy", "all"}});
  EXPECT_EQ(MeasuredFor(layer), 8);
  const Looked looked = LookUp(handle_, layer, Direction::kForward);
  EXPECT_FLOAT_EQ(looked.milliseconds, 0.01F + 0.8F);
  int device = 1;
  Must(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  // A handle of the second device finds the times of the first.
  Close();
  Must(cudaSetDevice(1));
  Open({{"devices", "0"}});
  EXPECT_EQ(MeasuredFor(layer), 0);
  Close();
  Must(cudaSetDevice(0));
  unsetenv("CUDART_HOST_NAME");
}

TEST_F(CudnnDatabaseTest, AnUnlikeOrMissingDeviceDoesNotMeasure) {
  const Layer layer(kEight);
  ::testing::internal::CaptureStderr();
  OpenWithFile({{"devices", "0,1,7"}});
  EXPECT_EQ(MeasuredFor(layer), 4);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("device 1 (tidepool stand-in, no GPU (1)) does not measure"));
  EXPECT_THAT(said, HasSubstr("device 7 () does not measure"));
}

// Files that cannot be used
// ------------------------------------------------------------------------------------------

TEST_F(CudnnDatabaseTest, AFileOfAnotherProgramOrVersionIsLeft) {
  Run("CREATE TABLE notes (text TEXT)");
  ExpectToGoOnWithout("a database of another program, expected a profile");
  path_ = folder_ / "newer.sqlite";
  OpenWithFile();
  Run("PRAGMA user_version = 2");
  ExpectToGoOnWithout("a profile of version 2, expected version 1");
}

TEST_F(CudnnDatabaseTest, ATruncatedFileIsLeft) {
  OpenWithFile({{"policy", "all"}});
  const Layer large({.n = 64, .c = 2, .h = 4, .w = 4, .k = 2});
  for (const Direction direction : kDirections) MeasuredFor(large, direction);
  Close();
  // The first page still names all pages of the tables.
  ASSERT_GT(std::filesystem::file_size(path_), 8192U);
  std::filesystem::resize_file(path_, 5000);
  ExpectToGoOnWithout("malformed");
  path_ = folder_ / "short.sqlite";
  OpenWithFile();
  Close();
  std::filesystem::resize_file(path_, 60);
  ExpectToGoOnWithout("malformed");
}

TEST_F(CudnnDatabaseTest, AFileThatAnotherProgramHoldsIsLeft) {
  OpenWithFile();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  const Layer layer(kEight);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(MeasuredFor(layer), 4);
  EXPECT_EQ(MeasuredFor(layer, Direction::kFilter), 4);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("database is locked"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  sqlite3_close(other);
}

// Root may write every file, so the test gives up its rights meanwhile.
TEST_F(CudnnDatabaseTest, AReadOnlyFileIsReadAndNotWritten) {
  const Layer known(kEight);
  const Layer unknown({.n = 8, .c = 4, .h = 4, .w = 4, .k = 2});
  OpenWithFile();
  MeasuredFor(known);
  Close();
  std::filesystem::permissions(path_, std::filesystem::perms(0444));
  std::filesystem::permissions(folder_, std::filesystem::perms(0555));
  const uid_t user = geteuid();
  if (user == 0 && seteuid(65534) != 0) {
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));
    GTEST_SKIP() << "root cannot become another user here";
  }
  ::testing::internal::CaptureStderr();
  OpenWithFile();
  EXPECT_EQ(MeasuredFor(known), 0);
  EXPECT_EQ(MeasuredFor(unknown), 4);
  EXPECT_EQ(MeasuredFor(unknown, Direction::kData), 4);
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_EQ(seteuid(user), 0);
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  EXPECT_THAT(said, HasSubstr("readonly database"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

}  // namespace
}  // namespace tidepool::test
