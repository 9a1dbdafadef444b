// Worker pool: a queue of tasks under a mutex.
#include "lib/zvc/worker_pool.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tidepool::zvc {

// State of one call of RunWithAll. Outlives the call: threads that join too late find `task` null.
struct WorkerPool::Run {
  std::mutex mutex;
  std::condition_variable is_left;
  const std::function<void()>* task = nullptr;  // null when no more threads may begin
  int running = 0;

  void Join() {
    const std::function<void()>* work = nullptr;
    {
      const std::lock_guard lock(mutex);
      if (task == nullptr) return;
      work = task;
      ++running;
    }
    (*work)();
    const std::lock_guard lock(mutex);
    if (--running == 0) is_left.notify_all();
  }

  void Finish() {
    std::unique_lock lock(mutex);
    task = nullptr;
    is_left.wait(lock, [this] { return running == 0; });
  }
};

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Create(int threads) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool());
  pool->threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    try {
      pool->threads_.emplace_back([p = pool.get()] { p->Work(); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat("thread ", i + 1, " cannot be started (",
                                                       error.what(), "), expected ", threads,
                                                       " threads"));
    }
  }
  return pool;
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

void WorkerPool::Submit(std::function<void()> task) {
  if (threads_.empty()) return task();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void WorkerPool::RunWithAll(const std::function<void()>& task) {
  if (threads_.empty()) return task();
  const auto run = std::make_shared<Run>();
  run->task = &task;
  for (int i = 0; i < threads(); ++i) Submit([run] { run->Join(); });
  task();
  run->Finish();
}

}  // namespace tidepool::zvc
