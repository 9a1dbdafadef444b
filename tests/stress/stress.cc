// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/stress.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "tests/stress/watch.h"
#include "tests/support/rounds.h"

namespace tidepool::stress {

void Fail(std::string_view what) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  PrintRound();
  std::fprintf(stderr, "stress: FAILED: %.*s\n", static_cast<int>(what.size()), what.data());
  std::_Exit(1);
}

void CheckOk(const absl::Status& status, const char* what) {
  Check(status.ok(), what, ": ", status.ToString());
}

Worker::Worker(Round& round, std::uint64_t seed)
    : counts_(round.counts()), dice_(seed), doing_(TakePlace()) {}

Worker::~Worker() { *doing_ = nullptr; }

void Worker::Begins(const char* operation) {
  *doing_ = operation;
  ++counts_.operations;
  ShowLife();
}

bool Worker::Ended(const absl::Status& status, std::initializer_list<absl::StatusCode> expected) {
  ShowLife();
  if (status.ok()) return true;
  ++counts_.errors[static_cast<std::size_t>(status.code())];
  Check(std::find(expected.begin(), expected.end(), status.code()) != expected.end(),
        doing_->load(), ": ", status.ToString());
  return false;
}

void RunWorkers(Round& round, int threads, const std::function<void(Worker&)>& work) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, seed = round.dice().Seed()] {
      Worker worker(round, seed);
      work(worker);
    });
  }
  for (std::thread& thread : running) thread.join();
}

int Steps(int usual) { return testing::kHasSanitizer ? std::max(usual / 5, 1) : usual; }

}  // namespace tidepool::stress
