// What there is between cnmemInit and the last cnmemRelease: a manager for each device.
#ifndef TIDEPOOL_BINDINGS_CNMEM_CONTEXT_H_
#define TIDEPOOL_BINDINGS_CNMEM_CONTEXT_H_

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/cnmem/device_manager.h"
#include "bindings/cnmem/settings.h"

namespace tidepool::cnmem {

// One at a time in a process. Begin, Retain and Release are thread-safe; nobody may use the context
// beside the last Release. A process that was forked has neither CUDA nor the threads of this one:
// there the last Release forgets the context and asks nothing of anybody; and so it does where CUDA
// has ended with this one.
class Context {
 public:
  // InvalidArgument when there is one; otherwise the first manager's error, and there is none.
  static absl::Status Begin(const std::vector<DeviceRequest>& requests, const Settings& settings);
  // Null when there is none.
  static Context* Current() { return current_.load(std::memory_order_acquire); }
  // False when there is none.
  static bool Retain();
  // The last one ends it: `*status` says whether everything was given back.
  static bool Release(absl::Status* status);

  // Of the device that is current in the calling thread. InvalidArgument when it has none.
  absl::StatusOr<DeviceManager*> CurrentDevice() const;
  bool speaks_of_errors() const { return speaks_of_errors_; }

 private:
  bool IsOfThisProcess() const { return process_ == getpid(); }

  void Report() const;
  // A process may end without the last Release.
  [[gnu::destructor]] static void ReportAtExit();

  static std::mutex mutex_;  // of beginning, counting and ending
  static std::atomic<Context*> current_;

  const pid_t process_ = getpid();
  int references_ = 1;
  bool speaks_of_errors_ = false;
  // Where there is one device no other can be current, and CUDA is not asked; -1 where there are
  // several.
  int only_ordinal_ = -1;
  std::vector<std::unique_ptr<DeviceManager>> by_ordinal_;  // null for those that nobody asked for
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_CONTEXT_H_
