// SPDX-License-Identifier: Apache-2.0
// The loop of a thread that finishes copies out.
#include "lib/copies/offload/release_threads.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/locks/thread.h"

namespace tidepool::offload {

absl::Status ReleaseThreads::Start(bool can_compress) {
  absl::Status status = StartThread(raw_, false);
  return status.ok() && can_compress ? StartThread(compressed_, true) : status;
}

absl::Status ReleaseThreads::StartThread(std::thread& thread, bool is_compressed) {
  absl::StatusOr<std::thread> started =
      locks::StartThread([this, is_compressed] { Run(is_compressed); });
  if (!started.ok()) {
    return absl::Status(
        started.status().code(),
        absl::StrCat("cannot start a thread for the ends of copies: ", started.status().message()));
  }
  thread = *std::move(started);
  return absl::OkStatus();
}

ReleaseThreads::~ReleaseThreads() {
  {
    const locks::MutexLock lock(&state_.mutex);
    is_ending_ = true;
    state_.changes.Note();
  }
  if (raw_.joinable()) raw_.join();
  if (compressed_.joinable()) compressed_.join();
}

void ReleaseThreads::Run(bool is_compressed) {
  const StateLock lock(state_);
  for (;;) {
    const std::uint64_t seen = state_.changes.count();
    state_.books.CollectEnded();
    // A compressed copy in keeps the memory of a freed buffer until it is settled.
    if (is_compressed) state_.books.SettleUnawaited();
    if (const CopyPointer next = state_.books.in_flight().FirstOut(is_compressed)) {
      state_.AwaitAndSettle(next);
    } else if (is_ending_) {
      return;
    } else {
      state_.AwaitChange(seen, locks::SteadyTime::max());
    }
  }
}

}  // namespace tidepool::offload
