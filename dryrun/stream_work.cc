// SPDX-License-Identifier: Apache-2.0
#include "dryrun/stream_work.h"

#include <memory>
#include <utility>
#include <vector>

#include "dryrun/runtime/cudart/control.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {
namespace {

using QueuedWork = std::function<void()>;

void RunOnce(void* data) {
  const std::unique_ptr<QueuedWork> work(static_cast<QueuedWork*>(data));
  (*work)();
}
void RunAgain(void* data) { (*static_cast<const QueuedWork*>(data))(); }

// Keeps captured work: a graph may be launched until the process ends.
void KeepForever(std::unique_ptr<QueuedWork> work) {
  static auto& mutex = *new locks::Mutex();
  static auto& kept = *new std::vector<std::unique_ptr<QueuedWork>>();
  const locks::MutexLock lock(&mutex);
  kept.push_back(std::move(work));
}

}  // namespace

bool QueueWork(cudaStream_t stream, std::function<void()> work) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess) return false;
  const bool is_captured = capture == cudaStreamCaptureStatusActive;
  auto owned = std::make_unique<QueuedWork>(std::move(work));
  QueuedWork* const queued = owned.get();
  if (is_captured) KeepForever(std::move(owned));
  if (cudartHostLaunchWork(stream, is_captured ? RunAgain : RunOnce, queued) != cudaSuccess) {
    return false;
  }
  if (!is_captured) static_cast<void>(owned.release());  // it runs, and deletes itself
  return true;
}

}  // namespace tidepool::cudart_host
