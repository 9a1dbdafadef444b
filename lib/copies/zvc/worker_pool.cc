// SPDX-License-Identifier: Apache-2.0
// Worker pool: a queue of tasks under a mutex.
#include "lib/copies/zvc/worker_pool.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/locks/thread.h"

namespace tidepool::zvc {

// State of one call of RunWithAll. Outlives the call: threads that join too late find no task.
class WorkerPool::Run {
 public:
  explicit Run(const std::function<void()>& task) : task_(&task) {}

  void Join() ABSL_LOCKS_EXCLUDED(mutex_) {
    const std::function<void()>* const task = Begin();
    if (task == nullptr) return;
    (*task)();
    const locks::MutexLock lock(&mutex_);
    if (--running_ == 0) is_left_.SignalAll();
  }

  void Finish() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    task_ = nullptr;
    while (running_ > 0) is_left_.Wait(&mutex_);
  }

 private:
  const std::function<void()>* Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    const locks::MutexLock lock(&mutex_);
    if (task_ != nullptr) ++running_;
    return task_;
  }

  locks::Mutex mutex_;
  locks::CondVar is_left_;
  // Null when no more threads may begin.
  const std::function<void()>* task_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Create(int threads) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool());
  pool->threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    absl::StatusOr<std::thread> thread = locks::StartThread([p = pool.get()] { p->Work(); });
    if (!thread.ok()) {
      return absl::Status(thread.status().code(),
                          absl::StrCat("thread ", i + 1, " of ", threads,
                                       " cannot be started: ", thread.status().message()));
    }
    pool->threads_.push_back(*std::move(thread));
  }
  return pool;
}

WorkerPool::~WorkerPool() {
  {
    const locks::MutexLock lock(&mutex_);
    is_ending_ = true;
    has_work_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Work() {
  while (const std::function<void()> task = NextTask()) task();
}

std::function<void()> WorkerPool::NextTask() {
  const locks::MutexLock lock(&mutex_);
  while (!is_ending_ && tasks_.empty()) has_work_.Wait(&mutex_);
  if (tasks_.empty()) return nullptr;
  std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

void WorkerPool::Submit(std::function<void()> task) {
  if (threads_.empty()) return task();
  {
    const locks::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  has_work_.Signal();
}

void WorkerPool::RunWithAll(const std::function<void()>& task) {
  if (threads_.empty()) return task();
  const auto run = std::make_shared<Run>(task);
  for (int i = 0; i < threads(); ++i) Submit([run] { run->Join(); });
  task();
  run->Finish();
}

}  // namespace tidepool::zvc
