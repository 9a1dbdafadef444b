// A few threads that wait for work.
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

// Thread-safe. Tasks are begun in the order of their submission; they throw nothing.
class WorkerPool {
 public:
  // ResourceExhausted when the system has no more threads. `threads` may be 0.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(int threads);
  // Waits for all tasks that were submitted.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(threads_.size()); }

  // Does `task` on a thread of the pool, or at once on the caller's where the pool has none.
  void Submit(std::function<void()> task);

  // Does `task` on the caller's thread and, as long as that takes, on as many of the pool's as are
  // free; returns when all of them are done. `task` takes its share of the work from what it
  // captures, and must not wait for threads that have not begun. One that has done its share
  // returns: then nothing is left to begin.
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
