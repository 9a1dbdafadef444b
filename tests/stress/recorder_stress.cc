// SPDX-License-Identifier: Apache-2.0
// The recorder: threads that record, flush and close at the same time, on full disks, and processes
// that fork meanwhile. The file holds the recorded events in order, up to its end.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/stress/scratch_file.h"
#include "tests/stress/stress.h"
#include "tests/stress/watch.h"
#include "tidepool/recorder.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::stress {
namespace {

using Kind = TraceEvent::Kind;

struct Recorded {
  Kind kind = Kind::kMark;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  Hint hint = Hint::kResident;
  Stream stream = {};
  Stream awaited = {};
  std::string name = {};
};

// The limit on the size of files of this process.
class FileLimit {
 public:
  explicit FileLimit(std::int64_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {static_cast<rlim_t>(bytes), before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_ = {};
};

// The events given to the recorder, by threads that take turns as the threads of a pool do.
class Log {
 public:
  explicit Log(Recorder& recorder) : recorder_(recorder) {}

  void RecordOne(Dice& dice) {
    const std::lock_guard lock(mutex_);
    Recorded event = Draw(dice);
    Tell(event);
    events_.push_back(std::move(event));
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return events_.size();
  }
  const std::vector<Recorded>& events() const { return events_; }
  // Runs while no thread records.
  template <typename Function>
  auto Between(Function function) {
    const std::lock_guard lock(mutex_);
    return function();
  }

 private:
  Recorded Draw(Dice& dice) {
    const Stream stream = {1 + dice.Below(4)};
    const Hint hint = dice.Chance(0.5) ? Hint::kResident : Hint::kOffloadable;
    const std::size_t choice = dice.Below(20);
    if (choice < 9 || live_.empty()) {
      const std::uint64_t address = next_address_ += 512 * (1 + dice.Below(100));
      live_.push_back(address);
      return {Kind::kAllocate, address, dice.Between(1, kMaxRequestBytes), hint, stream};
    }
    if (choice < 17) {
      std::swap(live_[dice.Below(live_.size())], live_.back());
      const std::uint64_t address = live_.back();
      live_.pop_back();
      return {Kind::kFree, address, 0, Hint::kResident, stream};
    }
    if (choice == 17) return {Kind::kFailure, 0, dice.Bytes(1 << 20), hint, stream};
    if (choice == 18) return {Kind::kWait, 0, 0, hint, stream, {1 + dice.Below(4)}};
    return {Kind::kMark, 0, 0, hint, {}, {}, absl::StrCat("mark ", dice.Below(5))};
  }
  void Tell(const Recorded& event) {
    const auto* const address = reinterpret_cast<const void*>(event.address);
    switch (event.kind) {
      case Kind::kAllocate:
        return recorder_.Allocate(address, event.bytes, event.hint, event.stream);
      case Kind::kFree:
        return recorder_.Free(address, event.stream);
      case Kind::kFailure:
        return recorder_.Failure(event.bytes, event.hint, event.stream);
      case Kind::kWait:
        return recorder_.Wait(event.stream, event.awaited);
      default:
        return recorder_.Mark(event.name);
    }
  }

  Recorder& recorder_;
  std::mutex mutex_;
  std::vector<Recorded> events_;
  std::vector<std::uint64_t> live_;
  std::uint64_t next_address_ = 0x7f0000000000;
};

bool Holds(const Trace& trace, std::size_t at, const Recorded& recorded) {
  const TraceEvent& event = trace.events[at];
  if (event.kind != recorded.kind) return false;
  if (event.kind == Kind::kMark) return trace.mark_names[event.index] == recorded.name;
  const auto is_stream = [&](std::uint32_t index, Stream stream) {
    return trace.stream_names[index] == std::to_string(stream.id);
  };
  if (!is_stream(event.stream, recorded.stream)) return false;
  if (event.kind == Kind::kWait) return is_stream(event.index, recorded.awaited);
  if (event.kind == Kind::kFailure) {
    const TraceAllocation& failure = trace.failures[event.index];
    return failure.bytes == recorded.bytes && failure.hint == recorded.hint;
  }
  const std::string id = absl::StrCat("0x", absl::Hex(recorded.address));
  if (trace.allocation_ids[event.index] != id) return false;
  const TraceAllocation& allocation = trace.allocations[event.index];
  return event.kind == Kind::kFree ||
         (allocation.bytes == recorded.bytes && allocation.hint == recorded.hint);
}

// Expects that the file holds the first events of the log, at least `least` of them.
void CheckFile(const std::string& path, const Log& log, std::size_t least) {
  const auto trace = ReadTrace(path);
  CheckOk(trace.status(), "ReadTrace");
  const std::vector<Recorded>& events = log.events();
  const std::size_t count = trace->events.size();
  Check(count >= least && count <= events.size(), "recorded were ", events.size(),
        " events, at least ", least, " before the recorder was closed, and the file has ", count);
  for (std::size_t i = 0; i < count; ++i) {
    Check(Holds(*trace, i, events[i]), "event ", i, " of the file is not what was recorded");
  }
}

// The operations of a child process, which may or may not use the recorder that it inherited.
void ForkOnce(Worker& worker, Log& log, Recorder& recorder) {
#if !defined(__SANITIZE_THREAD__)
  worker.Begins("fork, and wait for the child");
  const std::size_t choice = worker.dice().Below(4);
  const pid_t child = log.Between([] { return fork(); });
  Check(child >= 0, "fork failed");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (choice >= 1) {
      for (int i = 0; i < 10'000; ++i) recorder.Mark("child");
    }
    if (choice >= 2) recorder.Flush().IgnoreError();
    if (choice >= 3) recorder.Close().IgnoreError();
    _exit(0);
  }
  int status = 0;
  Check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "a child did not end well, but with ", status);
#else
  static_cast<void>(worker);
  static_cast<void>(log);
  static_cast<void>(recorder);
#endif
}

// Files that must not grow: their events are in order, and an error was reported if some are
// missing.
struct Closing {
  std::mutex mutex;
  bool has_closed = false;
  std::size_t least = 0;  // events recorded before it was closed
  absl::Status status;
};

void Close(Worker& worker, Log& log, Recorder& recorder, Closing& closing) {
  const std::lock_guard lock(closing.mutex);
  if (!closing.has_closed) closing.least = log.size();
  worker.Begins("Recorder::Close");
  const absl::Status status = recorder.Close();
  if (!closing.has_closed) closing.status = status;
  closing.has_closed = true;
}

}  // namespace

void RunRecorderRound(Round& round) {
  Dice& dice = round.dice();
  const ScratchFile file(".tide");
  auto made = Recorder::Create({.path = file.path(), .buffer_bytes = 4096 << dice.Below(6)});
  CheckOk(made.status(), "Recorder::Create");
  Recorder& recorder = **made;
  Log log(recorder);
  Closing closing;
  const bool closes_early = dice.Chance(0.3);
  const bool forks = dice.Chance(0.2);
  const int threads = static_cast<int>(dice.Between(1, 6));
  const bool is_full = dice.Chance(0.4);
  AddDescription(absl::StrCat(threads, " threads", closes_early ? ", closed early" : "",
                              forks ? ", forks" : "", is_full ? ", a full disk" : ""));
  std::optional<FileLimit> limit;
  if (is_full) limit.emplace(dice.Between(200, 100'000));
  std::atomic<bool> has_failed = false;
  RunWorkers(round, threads, [&](Worker& worker) {
    for (int i = Steps(10'000) / threads; i > 0; --i) {
      Dice& own = worker.dice();
      worker.Begins("record");
      log.RecordOne(own);
      if (own.Chance(0.001)) {
        worker.Begins("Recorder::Flush");
        if (!recorder.Flush().ok()) has_failed = true;
      }
      if (forks && own.Chance(0.0005)) ForkOnce(worker, log, recorder);
      if (closes_early && own.Chance(0.0005)) Close(worker, log, recorder, closing);
    }
  });
  Worker worker(round, dice.Seed());
  Close(worker, log, recorder, closing);
  limit.reset();
  if (has_failed || !closing.status.ok()) {
    Check(is_full, "the recorder failed: ", closing.status.ToString());
    ++round.counts().faults;
    ++round.counts().errors[static_cast<std::size_t>(closing.status.code())];
    closing.least = 0;
  }
  ++round.counts().checks;
  CheckFile(file.path(), log, closing.least);
}

}  // namespace tidepool::stress
