// SPDX-License-Identifier: Apache-2.0
// Profiles: keys, the file, two processes, and medians on the clock of a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/virtual_clock_device.h"
#include "tidepool/training/task_profile.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::VirtualClockDevice;

class Profiles : public ::testing::Test {
 protected:
  Profiles()
      : folder_(std::filesystem::temp_directory_path() / absl::StrCat("tidepool-prof-", getpid())),
        path_(folder_ / "profile.sqlite") {
    std::filesystem::create_directories(folder_);
  }
  ~Profiles() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<ProfileStore> Open() { return *ProfileStore::Open(path_); }
  std::string OpenError() {
    const absl::Status status = ProfileStore::Open(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWith(path_.string() + ": "));
    return std::string(status.message());
  }
  // Runs SQL on the file, as another program would.
  void Run(const std::string& sql) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sql;
    sqlite3_close(database);
  }

  // Returns the first column of the first row.
  std::string Ask(const std::string& sql) const {
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    std::string answer;
    const auto keep = [](void* text, int, char** values, char**) {
      *static_cast<std::string*>(text) = values[0];
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), keep, &answer, nullptr), SQLITE_OK) << sql;
    sqlite3_close(database);
    return answer;
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

const ProfiledMachine kMachine = {"gpu", "cudnn 9.1, driver 550"};  // NOLINT

ProfileKey Key(std::int64_t samples) {
  return {kMachine, "conv forward all convolution c=3", "", "float32 float32", "fft", samples};
}

TaskGraph ConvolutionGraph() {
  TaskGraph graph;
  graph.batch = 8;
  graph.data = {{"x", 100, DataKind::kInput}, {"y", 200}};
  graph.tasks = {{.name = "f",
                  .operation = "conv",
                  .reads = {0},
                  .writes = {1},
                  .algorithms = {{"gemm", 1, 0}, {"fft", 2, 64}},
                  .parameters =
                      ConvolutionParameters{
                          .n = 8, .c = 6, .h = 5, .w = 4, .k = 2, .r = 3, .s = 3, .groups = 2},
                  .data_type = DataType::kFloat16,
                  .compute_type = DataType::kFloat32}};
  return graph;
}

TEST(ProfileKeys, HaveTheLayerAndNotItsName) {
  TaskGraph graph = ConvolutionGraph();
  const ProfileKey key = KeyOf(graph, 0, 1, kMachine);
  EXPECT_EQ(key.layer,
            "conv forward all convolution c=6 h=5 w=4 k=2 r=3 s=3 stride_height=1 stride_width=1 "
            "padding_height=0 padding_width=0 dilation_height=1 dilation_width=1 groups=2");
  EXPECT_EQ(key.types, "float16 float32");
  EXPECT_EQ(key.algorithm, "fft");
  EXPECT_EQ(key.samples, 8);
  EXPECT_EQ(key.machine.device, "gpu");
  graph.tasks[0].name = "g";
  graph.data[0].bytes = 9;
  EXPECT_EQ(KeyOf(graph, 0, 1, kMachine).layer, key.layer);
}

TEST(ProfileKeys, OfUnknownLayersHaveNameAndSizes) {
  TaskGraph graph = ConvolutionGraph();
  graph.tasks[0].parameters = {};
  const ProfileKey key = KeyOf(graph, 0, 0, kMachine);
  EXPECT_EQ(key.layer, "conv forward all task=f reads=100 writes=200 updates=");
  EXPECT_EQ(key.samples, 8);
  graph.tasks[0].parameters = ElementwiseParameters{.elements = 7};
  EXPECT_EQ(KeyOf(graph, 0, 0, kMachine).samples, 0);
}

// One of them makes the tables.
TEST_F(Profiles, ManyMayOpenANewFileAtOnce) {
  for (int round = 0; round < 100; ++round) {
    std::filesystem::remove(path_);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const absl::Status status = ProfileStore::Open(path_).status();
        EXPECT_TRUE(status.ok()) << status;
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (HasFailure()) return;
  }
}

TEST_F(Profiles, AreKeptInTheFile) {
  {
    const auto store = Open();
    EXPECT_EQ(*store->Find(Key(4)), std::nullopt);
    ASSERT_TRUE(store->Put(Key(4), {1.0 / 3, 512, 5}).ok());
    ASSERT_TRUE(store->Put(Key(8), {2, 1024, 5}).ok());
    ASSERT_TRUE(store->Put(Key(8), {3, 2048, 7}).ok());
    ASSERT_TRUE(store->PutLink(kMachine, CopyDirection::kToDevice, {1e-5, 12e9}).ok());
  }
  const auto store = Open();
  EXPECT_EQ(*store->Find(Key(4)), (TaskTime{1.0 / 3, 512, 5}));
  EXPECT_EQ(*store->Find(Key(8)), (TaskTime{3, 2048, 7}));
  EXPECT_EQ(*store->FindLink(kMachine, CopyDirection::kToDevice), (LinkTime{1e-5, 12e9}));
  EXPECT_EQ(*store->FindLink(kMachine, CopyDirection::kFromDevice), std::nullopt);
}

TEST_F(Profiles, EveryPartOfTheKeyCounts) {
  const auto store = Open();
  ASSERT_TRUE(store->Put(Key(4), {1, 0, 1}).ok());
  std::vector<ProfileKey> others(7, Key(4));
  others[0].machine.device = "other";
  others[1].machine.library = "other";
  others[2].layer = "other";
  others[3].layout = "nhwc";
  others[4].types = "other";
  others[5].algorithm = "fft'; DROP TABLE task_time; --";
  others[6].samples = 5;
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(*store->Find(others[i]), std::nullopt) << i;
    ASSERT_TRUE(store->Put(others[i], {static_cast<double>(i + 2), 0, 1}).ok());
  }
  EXPECT_EQ((*store->Find(Key(4)))->seconds, 1);
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ((*store->Find(others[i]))->seconds, static_cast<double>(i + 2));
  }
}

TEST_F(Profiles, TwoProcessesWriteOneFile) {
  constexpr int kRows = 50;
  const auto write = [this](std::int64_t first) {
    const auto store = ProfileStore::Open(path_);
    if (!store.ok()) return false;
    for (int i = 0; i < kRows; ++i) {
      if (!(*store)->Put(Key(first + i), {1, 0, 1}).ok()) return false;
    }
    return true;
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(write(1000) ? 0 : 1);
  EXPECT_TRUE(write(2000));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto store = Open();
  for (int i = 0; i < kRows; ++i) {
    EXPECT_TRUE(store->Find(Key(1000 + i))->has_value());
    EXPECT_TRUE(store->Find(Key(2000 + i))->has_value());
  }
  EXPECT_FALSE(std::filesystem::exists(path_.string() + "-wal"));
}

TEST_F(Profiles, FindAllMeasurementsOfALayer) {
  const auto store = Open();
  ProfileKey gemm = Key(8);
  gemm.algorithm = "gemm";
  ProfileKey other = Key(8);
  other.types = "float16 float32";
  ASSERT_TRUE(
      store
          ->PutAll(
              {{gemm, {3, 0, 1}}, {Key(8), {2, 64, 1}}, {Key(4), {1, 32, 1}}, {other, {9, 9, 9}}})
          .ok());
  EXPECT_THAT(*store->FindAll(gemm), ::testing::ElementsAre(LayerTime{"fft", 4, {1, 32, 1}},
                                                            LayerTime{"fft", 8, {2, 64, 1}},
                                                            LayerTime{"gemm", 8, {3, 0, 1}}));
  other.layer = "other";
  EXPECT_THAT(*store->FindAll(other), ::testing::IsEmpty());
}

TEST_F(Profiles, WriteAllMeasurementsOrNone) {
  const auto store = Open();
  const double broken = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(store->PutAll({{Key(4), {1, 0, 1}}, {Key(8), {broken, 0, 1}}}).ok());
  EXPECT_EQ(*store->Find(Key(4)), std::nullopt);
  EXPECT_TRUE(store->PutAll({{Key(4), {1, 0, 1}}}).ok());
}

TEST_F(Profiles, OfSeveralNodesAreMerged) {
  const std::filesystem::path node = folder_ / "node.sqlite";
  {
    const auto its = *ProfileStore::Open(node);
    ASSERT_TRUE(its->PutAll({{Key(2), {2, 0, 5}}, {Key(4), {4, 0, 9}}, {Key(8), {8, 0, 1}}}).ok());
    ASSERT_TRUE(its->PutLink(kMachine, CopyDirection::kToDevice, {1e-5, 1e9}).ok());
    ASSERT_TRUE(its->PutLink(kMachine, CopyDirection::kFromDevice, {1e-5, 2e9}).ok());
  }
  const auto store = Open();
  ASSERT_TRUE(store->PutAll({{Key(4), {5, 0, 1}}, {Key(8), {9, 0, 1}}}).ok());
  ASSERT_TRUE(store->PutLink(kMachine, CopyDirection::kToDevice, {0, 3e9}).ok());
  // One layer is new, one has more runs there, and one link is new.
  EXPECT_EQ(*store->Merge(node), 3);
  EXPECT_EQ((*store->Find(Key(2)))->seconds, 2);
  EXPECT_EQ((*store->Find(Key(4)))->seconds, 4);
  EXPECT_EQ((*store->Find(Key(8)))->seconds, 9);
  EXPECT_EQ((*store->FindLink(kMachine, CopyDirection::kToDevice))->bytes_per_second, 3e9);
  EXPECT_EQ((*store->FindLink(kMachine, CopyDirection::kFromDevice))->bytes_per_second, 2e9);
  EXPECT_EQ(*store->Merge(node), 0);
  EXPECT_EQ(*store->Merge(path_), 0);
}

TEST_F(Profiles, ABrokenFileIsNotMerged) {
  const auto store = Open();
  const std::filesystem::path node = folder_ / "node.sqlite";
  EXPECT_THAT(std::string(store->Merge(node).status().message()), HasSubstr("no such file"));
  EXPECT_FALSE(std::filesystem::exists(node));
  const auto its = *ProfileStore::Open(node);
  ASSERT_TRUE(its->PutAll({{Key(2), {2, 0, 1}}, {Key(4), {-1, 0, 1}}}).ok());
  EXPECT_THAT(std::string(store->Merge(node).status().message()),
              HasSubstr("node.sqlite: a time of -1 seconds"));
  EXPECT_EQ(*store->Find(Key(2)), std::nullopt);
}

TEST_F(Profiles, AFileThatIsHeldIsUnavailable) {
  const auto store = *ProfileStore::Open(path_, absl::Milliseconds(1));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  const absl::Status status = store->PutAll({{Key(4), {1, 0, 1}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected the lock of the file within 1ms"));
  ASSERT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  EXPECT_TRUE(store->PutAll({{Key(4), {1, 0, 1}}}).ok());
}

TEST_F(Profiles, OtherFilesAreRefused) {
  std::ofstream(path_) << "task,algorithm,seconds\n and more text than a header has, so that it is "
                          "read as a database and refused as one that is broken";
  EXPECT_THAT(OpenError(), HasSubstr("file is not a database"));
  std::filesystem::remove(path_);
  Run("CREATE TABLE notes (text TEXT)");
  EXPECT_THAT(OpenError(), HasSubstr("a database of another program, expected a profile"));
  std::filesystem::remove(path_);
  Open();
  Run("PRAGMA user_version = 2");
  EXPECT_THAT(OpenError(), HasSubstr("a profile of version 2, expected version 1"));
  path_ = folder_ / "no" / "such" / "folder";
  EXPECT_THAT(OpenError(), HasSubstr("unable to open"));
}

TEST_F(Profiles, EmptyFilesOfOthersAreRefusedAndStayAsTheyAre) {
  Run("PRAGMA application_id = 7; PRAGMA journal_mode = WAL");
  EXPECT_THAT(OpenError(), HasSubstr("a database of another program, expected a profile"));
  EXPECT_EQ(Ask("PRAGMA application_id"), "7");
  EXPECT_EQ(Ask("PRAGMA journal_mode"), "wal");
  std::filesystem::remove(path_);
  Run("PRAGMA user_version = 2");
  EXPECT_THAT(OpenError(), HasSubstr("a database of another program, expected a profile"));
  Run("PRAGMA application_id = 1953064037");
  EXPECT_THAT(OpenError(), HasSubstr("a profile of version 2, expected version 1"));
  EXPECT_EQ(Ask("SELECT count(*) FROM sqlite_schema"), "0");
}

TEST_F(Profiles, AnEmptyPathIsRefused) {
  const absl::Status status = ProfileStore::Open("").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "no file for the profile, expected a path");
}

// SQLite takes this name for a database in memory.
TEST_F(Profiles, EveryOtherPathIsAFile) {
  std::filesystem::current_path(folder_);
  path_ = ":memory:";
  ASSERT_TRUE(Open()->Put(Key(4), {1, 0, 1}).ok());
  EXPECT_TRUE(Open()->Find(Key(4))->has_value());
}

TEST_F(Profiles, TriggersOfAFileDoNotRun) {
  Open();
  Run("CREATE TABLE victim (text); INSERT INTO victim VALUES ('kept');"
      "CREATE TRIGGER on_task AFTER INSERT ON task_time BEGIN DELETE FROM victim; END;"
      "CREATE TRIGGER on_link AFTER INSERT ON link_time BEGIN DELETE FROM victim; END;");
  const auto store = Open();
  ASSERT_TRUE(store->Put(Key(4), {1, 0, 1}).ok());
  ASSERT_TRUE(store->PutLink(kMachine, CopyDirection::kToDevice, {0, 1}).ok());
  EXPECT_EQ(Ask("SELECT text FROM victim"), "kept");
}

TEST_F(Profiles, ViewsOfAFileAreNotRead) {
  Open();
  Run("ALTER TABLE task_time RENAME TO other; CREATE VIEW task_time AS SELECT * FROM other");
  const auto store = Open();
  EXPECT_THAT(std::string(store->Find(Key(4)).status().message()),
              HasSubstr("access to view \"task_time\" prohibited"));
}

TEST_F(Profiles, ExpressionsOfAFileHaveBoundedMemory) {
  Open();
  Run("CREATE INDEX hostile ON link_time (hex(zeroblob(400000000)))");
  const auto store = Open();
  EXPECT_THAT(std::string(store->PutLink(kMachine, CopyDirection::kToDevice, {0, 1}).message()),
              HasSubstr("string or blob too big"));
}

TEST_F(Profiles, BrokenRowsAreRefused) {
  auto store = Open();
  ASSERT_TRUE(store->Put(Key(4), {1, 0, 1}).ok());
  ASSERT_TRUE(store->PutLink(kMachine, CopyDirection::kToDevice, {0, 1}).ok());
  const auto error = [&] { return std::string(store->Find(Key(4)).status().message()); };
  Run("UPDATE task_time SET seconds = -1");
  EXPECT_THAT(error(), HasSubstr("a time of -1 seconds"));
  Run("UPDATE task_time SET seconds = 1, workspace_bytes = -5");
  EXPECT_THAT(error(), HasSubstr("a workspace of -5 bytes"));
  Run("UPDATE link_time SET bytes_per_second = 0");
  EXPECT_THAT(std::string(store->FindLink(kMachine, CopyDirection::kToDevice).status().message()),
              HasSubstr("a link of 0 bytes a second"));
  Run("DROP TABLE task_time");
  EXPECT_THAT(error(), HasSubstr("no such table"));
}

TEST_F(Profiles, GiveTimesToGraphs) {
  const auto store = Open();
  TaskGraph graph = ConvolutionGraph();
  ASSERT_TRUE(store->Put(KeyOf(graph, 0, 0, kMachine), {0.25, 128, 5}).ok());
  EXPECT_EQ(*UseProfile(*store, kMachine, graph), 1);
  EXPECT_THAT(graph.tasks[0].algorithms, ::testing::ElementsAre(TaskAlgorithm{"fft", 2, 64},
                                                                TaskAlgorithm{"gemm", 0.25, 128}));
  EXPECT_EQ(*UseProfile(*store, {"other", ""}, graph), 0);
}

TEST(Measurements, AreMediansWithoutTheFirstRun) {
  VirtualClockDevice device({});
  const Stream stream = *device.CreateStream();
  std::vector<double> seconds;  // of runs to come, the next one last
  const auto launch = [&] {
    device.Work(stream, seconds.back());
    seconds.pop_back();
    return absl::OkStatus();
  };
  seconds = {2, 1, 3, 100};  // the first run warms up
  EXPECT_EQ(*MedianSeconds(device, stream, 3, launch), 2);
  EXPECT_TRUE(seconds.empty());
  seconds = {1, 4, 100};
  EXPECT_EQ(*MedianSeconds(device, stream, 2, launch), 2.5);
  EXPECT_EQ(MedianSeconds(device, stream, 0, launch).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MedianSeconds(device, stream, 1, [] { return absl::InternalError("broken"); }).status(),
            absl::InternalError("broken"));
}

TEST(Measurements, OfLinksAreALine) {
  VirtualClockDevice device(
      {.out_bytes_per_second = 1000, .in_bytes_per_second = 500, .latency_seconds = 2});
  const auto measure = [&](CopyDirection direction) {
    return MeasureLink(
        device, {.direction = direction, .small_bytes = 1000, .large_bytes = 3000, .runs = 2});
  };
  EXPECT_EQ(*measure(CopyDirection::kFromDevice), (LinkTime{2, 1000}));
  EXPECT_EQ(*measure(CopyDirection::kToDevice), (LinkTime{2, 500}));
  EXPECT_EQ(device.used_bytes(), 0);
  EXPECT_EQ(MeasureLink(device, {.small_bytes = 10, .large_bytes = 10}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MeasureLink(device, {.large_bytes = std::int64_t{1} << 40}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tidepool
