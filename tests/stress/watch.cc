// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/support/rounds.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace tidepool::stress {
namespace {

constexpr std::size_t kMostWorkers = 64;

// Fixed slots, so that a signal handler can read them.
struct {
  std::array<char, 4096> program;
  std::array<char, 64> part;
  std::array<char, 1024> description;
  std::atomic<std::uint64_t> seed;
  std::array<std::atomic<const char*>, kMostWorkers> doing;
  std::atomic<std::int64_t> progress;  // operations that began or ended
} watched;

void PrintAndDie(int signal) {
  std::signal(signal, SIG_DFL);
  PrintRound();
  raise(signal);
}

}  // namespace

std::atomic<const char*>* TakePlace() {
  for (std::atomic<const char*>& place : watched.doing) {
    const char* none = nullptr;
    if (place.compare_exchange_strong(none, "begin")) return &place;
  }
  std::abort();
}

void ShowLife() { ++watched.progress; }

void SetProgram(std::string program) {
  program.resize(std::min(program.size(), watched.program.size() - 1));
  std::memcpy(watched.program.data(), program.c_str(), program.size() + 1);
}

void SetRound(std::string_view part, std::uint64_t seed) {
  watched.part.fill(0);
  part.copy(watched.part.data(), watched.part.size() - 1);
  watched.description.fill(0);
  watched.seed = seed;
  ++watched.progress;
}

void AddDescription(std::string_view description) {
  const std::size_t used = std::strlen(watched.description.data());
  description.copy(watched.description.data() + used, watched.description.size() - 1 - used);
}

void PrintRound() {
  // A round of the recorder may have set a limit on the size of files, and stderr may be a file.
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  const auto seed = static_cast<unsigned long long>(watched.seed.load());
  std::fprintf(stderr, "stress: part %s, seed %llu: %s\n", watched.part.data(), seed,
               watched.description.data());
  for (std::size_t i = 0; i < kMostWorkers; ++i) {
    if (const char* const doing = watched.doing[i].load()) {
      std::fprintf(stderr, "stress: thread %zu: %s\n", i, doing);
    }
  }
  std::fprintf(stderr, "stress: again with: %s --part %s --seed %llu --rounds 20\n",
               watched.program.data(), watched.part.data(), seed);
}

void PrintRoundWhenKilled() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  __sanitizer_set_death_callback(PrintRound);
#else
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    std::signal(signal, PrintAndDie);
  }
#endif
  static_cast<void>(PrintAndDie);
}

Watchdog::Watchdog() : thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

void Watchdog::Watch() {
  constexpr int kMostSeconds = testing::kHasSanitizer ? 300 : 60;
  std::unique_lock lock(mutex_);
  std::int64_t before = -1;
  int idle_seconds = 0;
  while (!ends_.wait_for(lock, std::chrono::seconds(1), [this] { return has_ended_; })) {
    const std::int64_t now = watched.progress.load();
    idle_seconds = now == before ? idle_seconds + 1 : 0;
    before = now;
    if (idle_seconds < kMostSeconds) continue;
    std::fprintf(stderr, "stress: nothing went on for %d s\n", kMostSeconds);
    PrintRound();
    std::_Exit(3);
  }
}

}  // namespace tidepool::stress
