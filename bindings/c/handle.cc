// SPDX-License-Identifier: Apache-2.0
// The list of all handles, and the notice of forks.
#include "bindings/c/handle.h"

#include <pthread.h>

#include <cstddef>
#include <vector>

#include "bindings/c/metrics.h"
#include "lib/base/locks/mutex.h"

namespace {

using tidepool::c_api::CPool;

// Constant initialisation and no destructor: programs may use pools until their very end.
constinit tidepool::locks::Mutex list_mutex;
std::vector<tidepool_pool*>& List() ABSL_EXCLUSIVE_LOCKS_REQUIRED(list_mutex) {
  static auto& list = *new std::vector<tidepool_pool*>();
  return list;
}

}  // namespace

constinit std::atomic<unsigned> tidepool_pool::forks_of_process = 0;

tidepool_pool* tidepool_pool::Create(std::unique_ptr<CPool> pool) {
  static const int watches_forks =
      pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild);
  static_cast<void>(watches_forks);
  std::unique_ptr<tidepool_pool> handle(new tidepool_pool(std::move(pool)));
  const tidepool::locks::MutexLock lock(&list_mutex);
  List().push_back(handle.get());
  return handle.release();
}

absl::Status tidepool_pool::Gone() const {
  if (forks_ != forks_of_process.load()) {
    return absl::FailedPreconditionError(
        "the pool belongs to the process that this one was forked from: make a pool in this "
        "process");
  }
  return absl::FailedPreconditionError("the pool was destroyed");
}

// The list is held, so that no pool ends meanwhile.
std::string tidepool_pool::MetricsOfAll() {
  std::vector<tidepool::c_api::Figures> figures;
  const tidepool::locks::MutexLock lock(&list_mutex);
  for (std::size_t i = 0; i < List().size(); ++i) {
    CPool* const pool = List()[i]->pool();
    if (pool != nullptr) figures.push_back(tidepool::c_api::FiguresOf(i + 1, *pool));
  }
  return tidepool::c_api::MetricsText(figures);
}

std::unique_ptr<CPool> tidepool_pool::Take() {
  const tidepool::locks::MutexLock lock(&list_mutex);
  if (pool() == nullptr) return nullptr;
  return std::unique_ptr<CPool>(pool_.exchange(nullptr));
}

void tidepool_pool::ReportAtExit() {
  const tidepool::locks::MutexLock lock(&list_mutex);
  for (const tidepool_pool* handle : List()) {
    if (CPool* const pool = handle->pool()) pool->Report();
  }
}

// Holds the list during the fork, so that the child can use it.
void tidepool_pool::BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { list_mutex.Lock(); }
void tidepool_pool::AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS { list_mutex.Unlock(); }
void tidepool_pool::AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  forks_of_process.fetch_add(1);
  list_mutex.Unlock();
}
