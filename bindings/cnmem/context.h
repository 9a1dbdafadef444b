// SPDX-License-Identifier: Apache-2.0
// The state between cnmemInit and the last cnmemRelease: a manager for each device.
#ifndef TIDEPOOL_BINDINGS_CNMEM_CONTEXT_H_
#define TIDEPOOL_BINDINGS_CNMEM_CONTEXT_H_

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/cnmem/device_manager.h"
#include "bindings/cnmem/settings.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cnmem {

// At most one context exists in a process. Begin, Retain and Release are thread-safe; no call may
// use the context while the last Release runs. A forked process has neither CUDA nor the threads of
// its parent. There the last Release only forgets the context, because calls of CUDA would fail or
// hang. It does the same after CUDA has shut down.
class Context {
 public:
  // Makes the context. InvalidArgument if one exists; otherwise the first error of a manager, and
  // then no context exists.
  static absl::Status Begin(const std::vector<DeviceRequest>& requests, const Settings& settings);
  // Returns the context, or null.
  static Context* Current() { return current_.load(std::memory_order_acquire); }
  // Adds a reference. Returns false if no context exists.
  static bool Retain();
  // Drops a reference. Returns false if no context exists. The last call destroys the context;
  // `*status` says whether all memory was given back.
  static bool Release(absl::Status* status);

  // Returns the manager of the calling thread's current device. InvalidArgument if it has none.
  absl::StatusOr<DeviceManager*> CurrentDevice() const;
  bool prints_errors() const { return prints_errors_; }

 private:
  bool IsOfThisProcess() const { return process_ == getpid(); }

  void Report() const;
  // Reports at the end of a process that never made the last Release.
  [[gnu::destructor]] static void ReportAtExit();

  static locks::Mutex mutex_;
  static std::atomic<Context*> current_;

  const pid_t process_ = getpid();
  int references_ ABSL_GUARDED_BY(mutex_) = 1;
  bool prints_errors_ = false;
  // The only device of the machine, so that CUDA need not be asked which one is current. -1: there
  // are several devices.
  int only_ordinal_ = -1;
  std::vector<std::unique_ptr<DeviceManager>> by_ordinal_;  // null for devices without a request
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_CONTEXT_H_
