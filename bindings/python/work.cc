// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/work.h"

#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/python/errors.h"
#include "bindings/python/gil.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::python {
namespace {

namespace nb = nanobind;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::nanoseconds kTick = std::chrono::milliseconds(100);
constexpr std::chrono::nanoseconds kForEver = std::chrono::hours(24 * 365);
constexpr std::chrono::nanoseconds kGrace = std::chrono::milliseconds(500);

// The state that a thread and the caller share.
class Task {
 public:
  struct Progress {
    std::string text;
    double part = -1;
    bool is_known = false;
  };

  void Run(const Work& work) {
    absl::Status status;
    try {
      work({.stop = stop_.get_token(),
            .show_progress = [this](const std::string& text, double part) {
              locks::MutexLock lock(&mutex_);
              progress_ = {text, part, true};
            }});
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("not enough memory, expected a smaller input");
    } catch (const std::exception& error) {
      status = absl::InternalError(error.what());
    }
    locks::MutexLock lock(&mutex_);
    status_ = std::move(status);
    is_done_ = true;
    changed_.SignalAll();
  }

  // Waits for the end of the work, at most so long; returns whether it has ended.
  bool Wait(std::chrono::nanoseconds duration) {
    const auto end = Clock::now() + duration;
    locks::MutexLock lock(&mutex_);
    while (!is_done_ && Clock::now() < end) changed_.WaitFor(&mutex_, end - Clock::now());
    return is_done_;
  }

  Progress progress() {
    locks::MutexLock lock(&mutex_);
    return progress_;
  }
  absl::Status status() {
    locks::MutexLock lock(&mutex_);
    return status_;
  }
  void Stop() { stop_.request_stop(); }

 private:
  std::stop_source stop_;
  locks::Mutex mutex_;
  locks::CondVar changed_;
  Progress progress_ ABSL_GUARDED_BY(mutex_);
  bool is_done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// Threads that run. Those of the call of another process are gone.
struct Running {
  pid_t process;
  std::shared_ptr<Task> task;
  std::shared_ptr<std::thread> thread;
};
// The GIL guards the list.
std::vector<Running>& RunningWork() {
  static auto* const work = new std::vector<Running>;  // never destroyed: see FinishWork
  return *work;
}

// Joins the thread of a task that has ended, unless FinishWork does.
void Join(const std::shared_ptr<Task>& task) {
  std::vector<Running>& running = RunningWork();
  const auto found = std::ranges::find(running, task, &Running::task);
  if (found == running.end()) return;
  const std::shared_ptr<std::thread> thread = found->thread;
  running.erase(found);
  thread->join();
}

void Show(nb::handle show, Task& task, Clock::time_point begin) {
  const Task::Progress progress = task.progress();
  if (show.is_none() || !progress.is_known) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  CallPython(show, nb::make_tuple(progress.text, progress.part, seconds));
}

// Waits for the end. Passes on exceptions of signal handlers and of `show`.
void Await(Task& task, nb::handle show) {
  const auto begin = Clock::now();
  const auto most = show.is_none() && !IsMainThread() ? kForEver : kTick;
  while (!WithoutGil([&] { return task.Wait(most); })) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    Show(show, task, begin);
  }
  Show(show, task, begin);
}

// Stops the work, and returns whether it ended in time.
bool StopInTime(const std::shared_ptr<Task>& task) {
  task->Stop();
  const bool is_done = WithoutGil([&] { return task->Wait(kGrace); });
  if (is_done) Join(task);
  return is_done;
}

// Throws the exception with an attribute. Python before 3.12 has no object for an exception that
// was raised a moment ago, so it is made first.
[[noreturn]] void ThrowWithAnswer(nb::python_error& error, const nb::object& answer) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  error.restore();
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (PyObject_SetAttrString(value, "answer", answer.ptr()) != 0) {
    PyErr_Clear();  // an exception without attributes
  }
  PyErr_Restore(type, value, traceback);
  throw nb::python_error();
}

}  // namespace

void RunWork(Work work, nb::handle show, const std::function<nb::object()>& answer) {
  if (IsEnding()) StayWithoutGil();
  const auto task = std::make_shared<Task>();
  RunningWork().push_back(
      {getpid(), task,
       std::make_shared<std::thread>([task, work = std::move(work)] { task->Run(work); })});
  try {
    Await(*task, show);
  } catch (nb::python_error& error) {
    const bool is_done = StopInTime(task);
    ThrowWithAnswer(error, is_done && answer ? answer() : nb::none());
  } catch (...) {
    StopInTime(task);
    throw;
  }
  Join(task);
  Check(task->status());
}

void FinishWork() {
  BeginEnd();
  const std::vector<Running> all = std::exchange(RunningWork(), {});
  for (const Running& running : all) running.task->Stop();
  for (const Running& running : all) {
    if (running.process != getpid()) {
      running.thread->detach();  // a thread of the parent
    } else {
      WithoutGil([&] { return running.thread->join(), true; });
    }
  }
}

}  // namespace tidepool::python
