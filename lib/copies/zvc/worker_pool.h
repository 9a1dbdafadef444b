// SPDX-License-Identifier: Apache-2.0
// Worker pool: a few threads that wait for tasks.
#ifndef TIDEPOOL_LIB_COPIES_ZVC_WORKER_POOL_H_
#define TIDEPOOL_LIB_COPIES_ZVC_WORKER_POOL_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::zvc {

// Threads that run submitted tasks. Tasks begin in the order of submission and must not throw.
// Thread-safe.
class WorkerPool {
 public:
  // Starts the threads; `threads` may be 0. Returns ResourceExhausted when the system cannot start
  // a thread.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(int threads);
  // Waits for all submitted tasks.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(threads_.size()); }

  // Runs `task` on a thread of the pool, or in this call if the pool has no threads.
  void Submit(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs `task` on the caller's thread and on all pool threads that become free meanwhile. Returns
  // when all of these runs have returned.
  // `task` must split the work through its captured state, and must not wait for runs that have not
  // begun. When any run returns, no work may be left to begin.
  void RunWithAll(const std::function<void()>& task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Run;
  WorkerPool() = default;
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for a task. Returns an empty one when the pool ends.
  std::function<void()> NextTask() ABSL_LOCKS_EXCLUDED(mutex_);

  locks::Mutex mutex_;
  locks::CondVar has_work_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_COPIES_ZVC_WORKER_POOL_H_
