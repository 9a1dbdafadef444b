// SPDX-License-Identifier: Apache-2.0
// Starts threads. The standard library throws when the system has no thread left; the library's
// other code needs no exceptions.
#ifndef TIDEPOOL_LIB_BASE_LOCKS_THREAD_H_
#define TIDEPOOL_LIB_BASE_LOCKS_THREAD_H_

#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidepool::locks {

// Starts a std::thread or std::jthread that runs `work`. ResourceExhausted with the system's reason
// when it cannot be started. Compiled without exceptions, it ends the program instead.
template <typename Thread = std::thread, typename Work>
absl::StatusOr<Thread> StartThread(Work work) {
#if defined(__cpp_exceptions)
  try {
    return Thread(std::move(work));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(error.what());
  }
#else
  return Thread(std::move(work));
#endif
}

}  // namespace tidepool::locks

#endif  // TIDEPOOL_LIB_BASE_LOCKS_THREAD_H_
