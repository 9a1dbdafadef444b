// SPDX-License-Identifier: Apache-2.0
// Recorder: recording calls put records into a queue. A thread writes them when a chunk is full,
// when a caller flushes, and at regular intervals.
#include "tidepool/recorder.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/locks/thread.h"
#include "lib/base/text/quote.h"
#include "lib/trace/native/native_format.h"
#include "lib/trace/recorder/record_encoder.h"
#include "lib/trace/recorder/record_queue.h"
#include "lib/trace/recorder/recording_file.h"
#include "lib/trace/recorder/tick_clock.h"
#include "tidepool/log.h"

namespace tidepool {

namespace recorder {

// Numbers names of marks, or of regions, in the order of first use. Recording threads number them,
// and the writer thread writes them. Thread-safe.
class NumberedNames {
 public:
  // Returns the number of `name`, cut to the longest text of the format.
  std::uint64_t Number(std::string_view name) ABSL_LOCKS_EXCLUDED(mutex_) {
    name = name.substr(0, native::kLongestText);
    const locks::MutexLock lock(&mutex_);
    const auto [found, is_new] = numbers_.try_emplace(std::string(name), numbers_.size());
    if (is_new) new_names_.emplace_back(name);
    return found->second;
  }

  // Returns the names added since the last call, in the order of their numbers.
  std::vector<std::string> TakeNew() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    return std::exchange(new_names_, {});
  }

 private:
  locks::Mutex mutex_;
  absl::flat_hash_map<std::string, std::uint64_t> numbers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> new_names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recorder

namespace {

using recorder::Record;
using Kind = TraceEvent::Kind;

constexpr std::int64_t kLeastBuffer = std::int64_t{1} << 12;
// A crash loses no more than this much of a recording. Ten writes a second take no time.
constexpr std::chrono::milliseconds kFlushInterval(100);
constexpr std::int64_t kLargestBuffer = std::int64_t{1} << 34;

// A forked child has the memory of its parent and none of its threads, so waiting for such a thread
// would never end there.
std::atomic<std::uint64_t> fork_count = 0;

// Returns the number of forks between this process and the process that first called CountForks.
// Costs a memory read, while getpid() is a system call.
std::uint64_t ForkCount() { return fork_count.load(std::memory_order_relaxed); }

// Starts to count forks with the first call, and returns the count. Thread-safe.
std::uint64_t CountForks() {
  [[maybe_unused]] static const int is_counting =
      pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  return ForkCount();
}

// Returns the id of the calling thread, as the system's tools show it.
std::uint32_t ThisThread() {
  thread_local const auto thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
  return thread;
}

// Blocks all signals: they are meant for the program's threads. A blocked SIGXFSZ (file too long)
// becomes an error of the write instead of ending the program.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

absl::Status CheckOptions(const RecorderOptions& options) {
  if (!native::IsAlignment(options.alignment)) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment ", options.alignment, ", expected a power of two up to 1 GiB"));
  }
  if (options.buffer_bytes < kLeastBuffer || options.buffer_bytes > kLargestBuffer) {
    return absl::InvalidArgumentError(
        absl::StrCat("a buffer of ", options.buffer_bytes, " bytes, expected 4 KiB to 16 GiB"));
  }
  if (absl::EndsWith(options.path, ".gz")) {
    return text::AboutFile(
        options.path,
        absl::InvalidArgumentError("a recording cannot be compressed: choose a name without .gz"));
  }
  return absl::OkStatus();
}

}  // namespace

class Recorder::Writer {
 public:
  Writer(const RecorderOptions& options, recorder::RecordingFile file)
      : queue_(options.buffer_bytes), encoder_(options.alignment), file_(std::move(file)) {}

  ~Writer() {
    queue_.Stop();
    if (thread_.joinable()) thread_.join();
    const locks::MutexLock lock(&mutex_);
    if (status_.ok() || was_reported_) return;
    Log(LogLevel::kError, std::string(status_.message()));
  }

  // Whether this process is a forked child. There the writer thread is missing, and a lock that it
  // held stays locked for ever.
  bool IsInChild() const { return ForkCount() != forks_; }
  // Prints that the child's records are lost, unless a call returned that.
  void ReportLoss() const {
    if (has_unreported_loss_.load(std::memory_order_relaxed))
      Log(LogLevel::kError, std::string(OtherProcess().message()));
  }

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Writes the header and starts the thread.
  absl::Status Start() {
    Write();
    if (has_failed_) return ReportError();
    absl::StatusOr<std::thread> thread = locks::StartThread([this] { Run(); });
    if (!thread.ok()) {
      return absl::Status(
          thread.status().code(),
          absl::StrCat("the recording thread cannot be started: ", thread.status().message()));
    }
    thread_ = *std::move(thread);
    return absl::OkStatus();
  }

  void Add(Kind kind, std::uint64_t subject, std::int64_t bytes, Hint hint, Stream stream,
           TraceRegion region = 0) {
    if (!TakesRecords()) return;
    queue_.Add({.ticks = recorder::Ticks(),
                .subject = subject,
                .stream = stream.id,
                .bytes = bytes,
                .thread = ThisThread(),
                .kind = kind,
                .hint = hint,
                .region = region});
  }

  void AddIn(std::string_view region, Kind kind, std::uint64_t subject, std::int64_t bytes,
             Hint hint, Stream stream) {
    if (TakesRecords()) Add(kind, subject, bytes, hint, stream, RegionOf(region));
  }

  void AddMark(std::string_view name) {
    if (!TakesRecords()) return;
    Add(Kind::kMark, marks_.Number(name), 0, Hint::kResident, {});
  }

  absl::Status Flush() {
    if (IsInChild()) return ReportForkedChild();
    queue_.AwaitTaken();
    return ReportError();
  }

  absl::Status Close() {
    if (IsInChild()) return ReportForkedChild();
    queue_.Stop();
    queue_.AwaitFinish();
    return ReportError();
  }

 private:
  // Returns the number of a region; 0 for one that a trace cannot name.
  TraceRegion RegionOf(std::string_view name) {
    if (name.empty() || name.size() > kMostRegionNameBytes) return 0;
    const std::uint64_t number = regions_.Number(name) + 1;
    return number <= kMostTraceRegions ? static_cast<TraceRegion>(number) : TraceRegion{0};
  }

  bool TakesRecords() {
    if (IsInChild()) [[unlikely]] {
      has_unreported_loss_.store(true, std::memory_order_relaxed);
      return false;
    }
    return !queue_.is_stopped();
  }

  absl::Status OtherProcess() const {
    return absl::FailedPreconditionError(absl::StrCat(
        "the recorder belongs to process ", process_, ", and this is process ", getpid(),
        ", forked from it: nothing is recorded here; create another recorder after the fork"));
  }
  absl::Status ReportForkedChild() {
    has_unreported_loss_.store(false, std::memory_order_relaxed);
    return OtherProcess();
  }

  void Run() {
    BlockSignals();
    bool is_last = false;
    while (!is_last) {
      queue_.AwaitWork(kFlushInterval);
      is_last = queue_.is_stopped();
      WriteAdded();
    }
    encoder_.End();
    Write();
    KeepError(file_.Close());
    queue_.Finish();
  }

  // Writes all records added so far.
  void WriteAdded() {
    const std::uint64_t end = queue_.added();
    clock_.Advance();
    for (absl::Span<const Record> records = queue_.Front(end); !records.empty();
         records = queue_.Front(end)) {
      encoder_.Encode(records, {.marks = marks_.TakeNew(), .regions = regions_.TakeNew()}, clock_);
      Write();
      queue_.Take(records.size());
    }
  }

  // Moves encoded bytes to the file, unless a write has failed.
  void Write() {
    if (!has_failed_) KeepError(file_.Append(encoder_.output()));
    encoder_.Clear();
  }

  void KeepError(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (status.ok() || has_failed_) return;
    has_failed_ = true;
    {
      const locks::MutexLock lock(&mutex_);
      status_ = std::move(status);
    }
    queue_.Stop();
  }

  absl::Status ReportError() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    was_reported_ |= !status_.ok();
    return status_;
  }

  const pid_t process_ = getpid();
  const std::uint64_t forks_ = CountForks();
  std::atomic<bool> has_unreported_loss_ = false;  // in a child

  recorder::RecordQueue queue_;
  recorder::NumberedNames marks_;
  recorder::NumberedNames regions_;

  // Used by the writer thread.
  recorder::TickClock clock_;
  recorder::RecordEncoder encoder_;
  recorder::RecordingFile file_;
  bool has_failed_ = false;

  locks::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // first error
  bool was_reported_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Recorder>> Recorder::Create(const RecorderOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  absl::StatusOr<recorder::RecordingFile> file = recorder::RecordingFile::Create(options.path);
  if (!file.ok()) return file.status();
  auto writer = std::make_unique<Writer>(options, *std::move(file));
  if (absl::Status status = writer->Start(); !status.ok()) return status;
  return std::unique_ptr<Recorder>(new Recorder(std::move(writer)));
}

Recorder::Recorder(std::unique_ptr<Writer> writer) : writer_(std::move(writer)) {}

// Leaks the writer in a child, where its thread can neither be joined nor destroyed.
Recorder::~Recorder() {
  if (!writer_->IsInChild()) return;
  writer_->ReportLoss();
  static_cast<void>(writer_.release());
}

void Recorder::Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) {
  assert(bytes >= 1 && bytes <= kMaxRequestBytes);
  writer_->Add(Kind::kAllocate, reinterpret_cast<std::uintptr_t>(address), bytes, hint, stream);
}

void Recorder::Free(const void* address, Stream stream) {
  writer_->Add(Kind::kFree, reinterpret_cast<std::uintptr_t>(address), 0, Hint::kResident, stream);
}

void Recorder::Failure(std::int64_t bytes, Hint hint, Stream stream) {
  assert(bytes >= 0);
  writer_->Add(Kind::kFailure, 0, bytes, hint, stream);
}

void Recorder::Wait(Stream stream, Stream awaited) {
  writer_->Add(Kind::kWait, awaited.id, 0, Hint::kResident, stream);
}

void Recorder::Mark(std::string_view name) { writer_->AddMark(name); }

void Recorder::AllocateIn(std::string_view region, const void* address, std::int64_t bytes,
                          Hint hint, Stream stream) {
  assert(bytes >= 1 && bytes <= kMaxRequestBytes);
  writer_->AddIn(region, Kind::kAllocate, reinterpret_cast<std::uintptr_t>(address), bytes, hint,
                 stream);
}

void Recorder::FailureIn(std::string_view region, std::int64_t bytes, Hint hint, Stream stream) {
  assert(bytes >= 0);
  writer_->AddIn(region, Kind::kFailure, 0, bytes, hint, stream);
}

void Recorder::Pause(std::string_view region, SleepMode mode, Stream stream) {
  writer_->AddIn(region, Kind::kPause, 0, static_cast<std::int64_t>(mode), Hint::kResident, stream);
}

void Recorder::Resume(std::string_view region, Stream stream) {
  writer_->AddIn(region, Kind::kResume, 0, 0, Hint::kResident, stream);
}

absl::Status Recorder::Flush() { return writer_->Flush(); }

absl::Status Recorder::Close() { return writer_->Close(); }

}  // namespace tidepool
