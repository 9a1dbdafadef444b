// Worker pool: a few threads that wait for tasks.
#ifndef TIDEPOOL_LIB_ZVC_WORKER_POOL_H_
#define TIDEPOOL_LIB_ZVC_WORKER_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

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
  void Submit(std::function<void()> task);

  // Runs `task` on the caller's thread and on all pool threads that become free meanwhile. Returns
  // when all of these runs have returned.
  // `task` must split the work through its captured state, and must not wait for runs that have not
  // begun. When any run returns, no work may be left to begin.
  void RunWithAll(const std::function<void()>& task);

 private:
  struct Run;
  WorkerPool() = default;
  void Work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_ZVC_WORKER_POOL_H_
