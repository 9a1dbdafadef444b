// SPDX-License-Identifier: Apache-2.0
// Tests of recordings: every recorded event is in the file, even after errors of the disk, after a
// crash, and with threads that flush and close meanwhile.
#include "tidepool/recorder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/shared_files.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Kind = TraceEvent::Kind;

const void* Address(std::uint64_t address) { return reinterpret_cast<const void*>(address); }

class Recordings : public ::testing::Test {
 protected:
  Recordings()
      : folder_(std::filesystem::temp_directory_path() /
                ("tidepool-recorder-" + std::to_string(getpid()))),
        path_(folder_ / "x.tide") {
    std::filesystem::create_directories(folder_);
  }
  ~Recordings() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Recorder> Create() { return Create({.path = path_}); }
  std::unique_ptr<Recorder> Create(const RecorderOptions& options) {
    auto recorder = Recorder::Create(options);
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    return *std::move(recorder);
  }

  Trace Read() {
    auto trace = ReadTrace(path_);
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.ok() ? *std::move(trace) : Trace();
  }

  std::filesystem::path folder_;
  std::string path_;
};

// Records an allocation and its free, `count` times.
void RecordPairs(Recorder& recorder, int count) {
  for (int i = 0; i < count; ++i) {
    recorder.Allocate(Address(0x7f0000000000 + i % 100 * 512), i % 1000 + 1, Hint::kResident, {1});
    recorder.Free(Address(0x7f0000000000 + i % 100 * 512), {1});
  }
}

// Counts the pairs, and checks that all are as RecordPairs makes them.
std::size_t CountPairs(const Trace& trace) {
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    EXPECT_EQ(trace.events[i].kind, i % 2 == 0 ? Kind::kAllocate : Kind::kFree);
    EXPECT_EQ(trace.events[i].index, i / 2);
  }
  for (std::size_t i = 0; i < trace.allocations.size(); ++i)
    EXPECT_EQ(trace.allocations[i].bytes, static_cast<std::int64_t>(i % 1000 + 1));
  return trace.events.size() / 2;
}

TEST_F(Recordings, HoldWhatWasRecorded) {
  auto recorder = Create({.path = path_, .alignment = 256});
  recorder->Mark("step");
  recorder->Free(Address(0x1000), {7});
  recorder->Allocate(Address(0x7f12345600), 1000, Hint::kOffloadable, {7});
  recorder->Failure(1 << 20, Hint::kOffloadable, {7});
  recorder->Wait({9}, {7});
  recorder->Free(Address(0x7f12345600), {9});
  recorder->Mark("end");
  recorder->Mark("step");
  ASSERT_TRUE(recorder->Close().ok());
  const Trace trace = Read();
  EXPECT_EQ(trace.format, TraceFormat::kNative);
  EXPECT_EQ(trace.default_alignment, 256);
  EXPECT_FALSE(trace.ended_early);
  EXPECT_EQ(trace.unmatched_frees, 1);
  std::vector<Kind> kinds;
  std::vector<std::uint32_t> indices;
  for (const TraceEvent& event : trace.events) {
    kinds.push_back(event.kind);
    indices.push_back(event.index);
    EXPECT_EQ(trace.thread_names[event.thread], std::to_string(syscall(SYS_gettid)));
  }
  EXPECT_EQ(kinds, (std::vector{Kind::kMark, Kind::kAllocate, Kind::kFailure, Kind::kWait,
                                Kind::kFree, Kind::kMark, Kind::kMark}));
  EXPECT_EQ(indices[0], indices[6]);
  EXPECT_EQ(trace.mark_names[indices[0]], "step");
  EXPECT_EQ(trace.mark_names[indices[5]], "end");
  EXPECT_EQ(trace.allocation_ids[0], "0x7f12345600");
  EXPECT_EQ(trace.allocations[0].bytes, 1000);
  EXPECT_EQ(trace.allocations[0].hint, Hint::kOffloadable);
  EXPECT_EQ(trace.failures[0].bytes, 1 << 20);
  EXPECT_EQ(trace.failures[0].hint, Hint::kOffloadable);
  EXPECT_EQ(trace.stream_names[trace.events[1].stream], "7");
  EXPECT_EQ(trace.stream_names[trace.events[3].stream], "9");
  EXPECT_EQ(trace.stream_names[indices[3]], "7");
  EXPECT_EQ(trace.stream_names[trace.events[4].stream], "9");
}

// Returns a line for each event: its kind, the region, and the mode of a pause.
std::vector<std::string> RegionLines(const Trace& trace) {
  std::vector<std::string> lines;
  const auto name = [&](TraceRegion region) {
    return region == 0 ? std::string("-") : std::string(trace.region_names[region - 1]);
  };
  for (const TraceEvent& event : trace.events) {
    switch (event.kind) {
      case Kind::kAllocate:
        lines.push_back("allocate " + name(trace.allocations[event.index].region));
        break;
      case Kind::kFree:
        lines.push_back("free " + name(trace.allocations[event.index].region));
        break;
      case Kind::kFailure:
        lines.push_back("failure " + name(trace.failures[event.index].region));
        break;
      case Kind::kPause:
        lines.push_back("pause " + name(trace.pauses[event.index].region) + " " +
                        std::string(SleepModeName(trace.pauses[event.index].mode)));
        break;
      case Kind::kResume:
        lines.push_back("resume " + name(trace.pauses[event.index].region));
        break;
      default:
        lines.emplace_back("other");
    }
  }
  return lines;
}

TEST_F(Recordings, HoldTheRegionsOfAPool) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const auto device = *HostDevice::Create({.memory_bytes = 16 * kMiB});
  const Stream stream = *device->CreateStream();
  const auto recorder = Create();
  const auto pool =
      *Pool::Create(device.get(), {.max_bytes = 8 * kMiB, .recorder = recorder.get()});
  Pool* const weights = *pool->Region("weights");
  void* const p = *weights->Allocate(4 * kMiB, stream);
  void* const q = *pool->Allocate(kMiB, stream);
  EXPECT_FALSE(weights->Allocate(5 * kMiB, stream).ok());
  ASSERT_TRUE(pool->PauseRegion("weights", PauseMode::kHost, stream).ok());
  void* const r = *(*pool->Region("cache"))->Allocate(6 * kMiB, stream);
  EXPECT_FALSE(pool->ResumeRegion("weights", stream).ok());
  EXPECT_TRUE(pool->Free(r, stream).ok());
  ASSERT_TRUE(pool->ResumeRegion("weights", stream).ok());
  EXPECT_TRUE(pool->Free(p, stream).ok());
  ASSERT_TRUE(pool->PauseRegion("weights", PauseMode::kDiscard, stream).ok());
  EXPECT_TRUE(pool->Free(q, stream).ok());
  ASSERT_TRUE(recorder->Close().ok());
  EXPECT_THAT(
      RegionLines(Read()),
      ::testing::ElementsAre("allocate weights", "allocate -", "failure weights",
                             "pause weights host", "allocate cache", "free cache", "resume weights",
                             "free weights", "pause weights discard", "free -"));
}

// A trace of the C interface may begin while a region sleeps.
TEST_F(Recordings, LeaveOutResumesWithoutAPause) {
  const auto recorder = Create();
  recorder->Resume("weights", {1});
  recorder->Pause("weights", SleepMode::kDisk, {1});
  recorder->Pause("weights", SleepMode::kHost, {1});
  recorder->AllocateIn("weights", Address(0x200), 10, Hint::kResident, {1});
  recorder->Resume("weights", {1});
  recorder->AllocateIn(std::string(255, 'x'), Address(0x400), 10, Hint::kResident, {1});
  recorder->AllocateIn(std::string(256, 'x'), Address(0x600), 10, Hint::kResident, {1});
  recorder->Pause("", SleepMode::kHost, {1});
  ASSERT_TRUE(recorder->Close().ok());
  EXPECT_THAT(RegionLines(Read()),
              ::testing::ElementsAre("pause weights disk", "allocate -", "resume weights",
                                     "allocate " + std::string(255, 'x'), "allocate -"));
}

TEST_F(Recordings, NameAsManyRegionsAsATraceMay) {
  const auto recorder = Create();
  for (std::size_t i = 0; i < kMostTraceRegions + 2; ++i) {
    recorder->Pause("r" + std::to_string(i), SleepMode::kHost, {1});
  }
  ASSERT_TRUE(recorder->Close().ok());
  EXPECT_EQ(Read().region_names.size(), kMostTraceRegions);
  EXPECT_EQ(Read().pauses.size(), kMostTraceRegions);
}

TEST_F(Recordings, HaveTimesBetweenWhichTheyWereMade) {
  using std::chrono::steady_clock;
  const auto elapsed = [begin = steady_clock::now()] {
    return std::chrono::nanoseconds(steady_clock::now() - begin).count();
  };
  const auto recorder = Create();
  std::vector<std::int64_t> latest;
  for (int i = 0; i < 1000; ++i) {
    recorder->Mark("");
    latest.push_back(elapsed());
    if (i % 10 == 0) {
      ASSERT_TRUE(recorder->Flush().ok());
    }
  }
  const Trace trace = Read();
  std::int64_t before = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    EXPECT_GE(trace.events[i].time, before);
    EXPECT_LE(trace.events[i].time, latest[i]);
    before = trace.events[i].time;
  }
  EXPECT_GT(before, 0);
}

TEST_F(Recordings, AreInTheFileOnceFlushed) {
  const auto recorder = Create();
  EXPECT_TRUE(Read().events.empty());
  EXPECT_TRUE(Read().ended_early);
  for (int flushes = 1; flushes < 5; ++flushes) {
    RecordPairs(*recorder, 1);
    ASSERT_TRUE(recorder->Flush().ok());
    EXPECT_EQ(Read().events.size(), 2 * flushes);
    EXPECT_TRUE(Read().ended_early);
  }
}

TEST_F(Recordings, ReachTheFileByThemselves) {
  const auto recorder = Create();
  RecordPairs(*recorder, 1);
  while (Read().events.empty()) std::this_thread::yield();
  EXPECT_EQ(CountPairs(Read()), 1);
}

TEST_F(Recordings, ReplaceWhatWasThere) {
  std::ofstream(path_) << std::string(100'000, 'x');
  ASSERT_TRUE(Create()->Close().ok());
  EXPECT_TRUE(Read().events.empty());
  EXPECT_FALSE(Read().ended_early);
}

// The smallest buffer is full again and again.
TEST_F(Recordings, WaitForTheWriterWhenTheBufferIsFull) {
  const auto recorder = Create({.path = path_, .buffer_bytes = 4096});
  RecordPairs(*recorder, 20'000);
  ASSERT_TRUE(recorder->Close().ok());
  EXPECT_EQ(CountPairs(Read()), 20'000);
}

TEST_F(Recordings, EndWithTheRecorder) {
  RecordPairs(*Create(), 10);
  EXPECT_EQ(CountPairs(Read()), 10);
  EXPECT_FALSE(Read().ended_early);
}

TEST_F(Recordings, TakeNothingAfterTheyWereClosed) {
  const auto recorder = Create();
  RecordPairs(*recorder, 3);
  ASSERT_TRUE(recorder->Close().ok());
  const std::string closed = testing::Contents(path_);
  RecordPairs(*recorder, 100'000);
  recorder->Mark("late");
  EXPECT_TRUE(recorder->Flush().ok());
  EXPECT_TRUE(recorder->Close().ok());
  EXPECT_EQ(testing::Contents(path_), closed);
}

TEST_F(Recordings, MayHaveLongNames) {
  const auto recorder = Create();
  const std::string name(3 << 20, 'x');
  recorder->Mark(name);
  recorder->Mark(std::string("\0\n", 2));
  ASSERT_TRUE(recorder->Close().ok());
  const Trace trace = Read();
  EXPECT_EQ(trace.mark_names[0], name.substr(0, 1 << 20));
  EXPECT_EQ(trace.mark_names[1], std::string("\0\n", 2));
}

TEST_F(Recordings, RefuseOptionsOutOfRange) {
  const auto error = [](const RecorderOptions& options) {
    const auto recorder = Recorder::Create(options);
    EXPECT_EQ(recorder.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(recorder.status().message());
  };
  EXPECT_THAT(error({.path = path_, .alignment = 0}), StartsWith("alignment 0"));
  EXPECT_THAT(error({.path = path_, .alignment = 768}), StartsWith("alignment 768"));
  EXPECT_THAT(error({.path = path_, .buffer_bytes = 4095}), StartsWith("a buffer of 4095 bytes"));
  EXPECT_THAT(error({.path = path_, .buffer_bytes = -1}), StartsWith("a buffer of -1 bytes"));
  EXPECT_THAT(error({.path = path_ + ".gz"}),
              HasSubstr("x.tide.gz: a recording cannot be compressed"));
  EXPECT_THAT(error({.path = "/dev/null"}), StartsWith("/dev/null: not a regular file"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Recordings, SayWhatTheSystemSaysAboutAPath) {
  const auto error = [](const std::string& path) {
    return Recorder::Create({.path = path}).status();
  };
  EXPECT_EQ(error(folder_ / "no" / "where.tide").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(error(folder_ / "no" / "where.tide").message()),
              HasSubstr("where.tide: cannot be created"));
  EXPECT_FALSE(error(folder_).ok());
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(error(fifo).ok());
}

// Returns the standard error of a child process that runs `body`. Its files are limited to
// `most_bytes`.
std::string InChild(std::int64_t most_bytes, const std::function<void()>& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    const rlimit limit = {static_cast<rlim_t>(most_bytes), static_cast<rlim_t>(most_bytes)};
    setrlimit(RLIMIT_FSIZE, &limit);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string output;
  char piece[256];
  for (ssize_t got = 0; (got = read(ends[0], piece, sizeof(piece))) > 0;) {
    output.append(piece, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << output;
  return output;
}

constexpr std::int64_t kSmallDisk = 100'000;
constexpr std::int64_t kLargeDisk = INT64_MAX;

// A child has the recorder but not its thread, so waiting for that thread would hang.
TEST_F(Recordings, AreNotContinuedByAForkedChild) {
  std::unique_ptr<Recorder> recorder = Create({.path = path_, .buffer_bytes = 4096});
  RecordPairs(*recorder, 1000);
  const std::string parent = std::to_string(getpid());
  const std::string printed = InChild(kLargeDisk, [&] {
    alarm(60);  // ends the child instead of hanging
    const absl::Status flushed = recorder->Flush();
    if (flushed.code() != absl::StatusCode::kFailedPrecondition) _exit(1);
    const std::string message(flushed.message());
    if (message.find("belongs to process " + parent + ",") == std::string::npos) _exit(2);
    if (message.find("process " + std::to_string(getpid()) + ",") == std::string::npos) _exit(3);
    RecordPairs(*recorder, 1000);
    recorder->Mark("child");
    if (recorder->Close().code() != absl::StatusCode::kFailedPrecondition) _exit(4);
    recorder.reset();
  });
  EXPECT_THAT(printed, IsEmpty());
  RecordPairs(*recorder, 1000);
  EXPECT_TRUE(recorder->Close().ok());
  const Trace trace = Read();
  EXPECT_EQ(CountPairs(trace), 2000);
  EXPECT_FALSE(trace.ended_early);
}

TEST_F(Recordings, MayBeMadeByAForkedChildOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer lets no thread start after such a fork";
#endif
  const std::unique_ptr<Recorder> parents = Create();
  const std::string own_path = folder_ / "child.tide";
  const std::string printed = InChild(kLargeDisk, [&] {
    alarm(60);
    const auto own = Recorder::Create({.path = own_path});
    if (!own.ok()) _exit(1);
    RecordPairs(**own, 5);
    if (!(*own)->Close().ok()) _exit(2);
  });
  EXPECT_THAT(printed, IsEmpty());
  const auto trace = ReadTrace(own_path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(CountPairs(*trace), 5);
}

TEST_F(Recordings, SayThatAForkedChildsAreLost) {
  std::unique_ptr<Recorder> recorder = Create();
  const std::string quiet = InChild(kLargeDisk, [&] {
    alarm(60);
    recorder.reset();
  });
  EXPECT_THAT(quiet, IsEmpty());
  const std::string printed = InChild(kLargeDisk, [&] {
    alarm(60);
    recorder->Mark("child");
    recorder.reset();
  });
  EXPECT_THAT(printed, StartsWith("tidepool: the recorder belongs to process "));
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
  EXPECT_TRUE(recorder->Close().ok());
  EXPECT_FALSE(Read().ended_early);
}

TEST_F(Recordings, AreReadableUpToWhereTheDiskWasFull) {
  const std::string printed = InChild(kSmallDisk, [&] {
    const auto recorder = Create({.path = path_, .buffer_bytes = 1 << 16});
    RecordPairs(*recorder, 200'000);
  });
  EXPECT_THAT(printed, StartsWith("tidepool: " + path_ + ": cannot be written: File too large"));
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
  EXPECT_EQ(std::filesystem::file_size(path_), kSmallDisk);
  const Trace trace = Read();
  EXPECT_TRUE(trace.ended_early);
  EXPECT_GT(CountPairs(trace), 1000);
}

TEST_F(Recordings, TellWhoAsksThatTheDiskIsFull) {
  const std::string printed = InChild(kSmallDisk, [&] {
    const auto recorder = Create();
    RecordPairs(*recorder, 200'000);
    if (recorder->Flush().ok()) _exit(1);
    RecordPairs(*recorder, 200'000);
    if (recorder->Flush().ok() || recorder->Close().ok()) _exit(2);
  });
  EXPECT_THAT(printed, IsEmpty());
  EXPECT_GT(CountPairs(Read()), 1000);
}

TEST_F(Recordings, CannotBeginOnAFullDisk) {
  const std::string printed = InChild(10, [&] {
    signal(SIGXFSZ, SIG_IGN);
    const auto recorder = Recorder::Create({.path = path_});
    if (recorder.ok()) _exit(1);
  });
  EXPECT_THAT(printed, IsEmpty());
  EXPECT_FALSE(ReadTrace(path_).ok());
}

TEST_F(Recordings, OutliveTheProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto recorder = Create();
    RecordPairs(*recorder, 1000);
    if (!recorder->Flush().ok()) _exit(1);
    RecordPairs(*recorder, 10);
    if (write(ends[1], "x", 1) != 1) _exit(2);
    pause();
  }
  close(ends[1]);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  close(ends[0]);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Trace trace = Read();
  EXPECT_TRUE(trace.ended_early);
  EXPECT_GE(CountPairs(trace), 1000);
  EXPECT_LE(CountPairs(trace), 1010);
}

// The pool records under its lock, from any thread, while other threads flush and close.
TEST_F(Recordings, MayBeFlushedAndClosedByOthersMeanwhile) {
  const auto recorder = Create({.path = path_, .buffer_bytes = 4096});
  constexpr int kPairs = 5000;
  std::mutex pool;
  std::atomic<int> recording = 2;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPairs; ++i) {
        const std::lock_guard lock(pool);
        RecordPairs(*recorder, 1);
      }
      --recording;
    });
  }
  threads.emplace_back([&] {
    while (recording > 0) EXPECT_TRUE(recorder->Flush().ok());
  });
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(recorder->Close().ok());
  const Trace trace = Read();
  EXPECT_EQ(trace.events.size(), 2 * 2 * kPairs);
  EXPECT_EQ(trace.thread_names.size(), 2);
}

TEST_F(Recordings, MayBeClosedInTheMiddleOfACall) {
  const auto recorder = Create({.path = path_, .buffer_bytes = 4096});
  std::atomic<bool> stop = false;
  std::thread records([&] {
    while (!stop) RecordPairs(*recorder, 100);
  });
  while (Read().events.empty()) ASSERT_TRUE(recorder->Flush().ok());
  std::vector<std::thread> closes;
  for (int thread = 0; thread < 3; ++thread) {
    closes.emplace_back([&] {
      EXPECT_TRUE(recorder->Close().ok());
      EXPECT_TRUE(recorder->Flush().ok());
    });
  }
  for (std::thread& thread : closes) thread.join();
  const std::string closed = testing::Contents(path_);
  stop = true;
  records.join();
  EXPECT_EQ(testing::Contents(path_), closed);
  EXPECT_FALSE(Read().ended_early);
}

}  // namespace
}  // namespace tidepool
