// SPDX-License-Identifier: Apache-2.0
// Changes the context of a thread, and not its device: since CUDA 12 cudaSetDevice makes a context
// on the device that it names. Going back by it would take hundreds of MB of a device that the
// process may never use. A thread without a context gets none, and keeps the device that it set.
#include "lib/memory/device/cuda/device_guard.h"

#include <atomic>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/cuda/driver.h"

namespace tidepool::cuda {
namespace {

// The contexts that the runtime uses too. They are kept until the process ends, because the runtime
// does not keep a context that it did not make.
class PrimaryContexts {
 public:
  // Lets the calling thread use the context of a device, and makes it if need be.
  absl::Status Bind(const SwitchDriver& driver, int ordinal) {
    const locks::MutexLock lock(&mutex_);
    unsigned flags = 0;
    int is_active = 0;
    absl::Status status = driver.Check(driver.get_state(ordinal, &flags, &is_active),
                                       "cuDevicePrimaryCtxGetState", ordinal);
    if (!status.ok()) return status;
    CUcontext& context = contexts_[ordinal];
    if (context != nullptr && is_active != 0) {
      const CUresult result = driver.set_current(context);
      if (!HasEnded(result)) return driver.Check(result, "cuCtxSetCurrent", context);
    }
    context = nullptr;
    status = driver.Check(driver.retain(&context, ordinal), "cuDevicePrimaryCtxRetain", ordinal);
    if (!status.ok()) return status;
    return driver.Check(driver.set_current(context), "cuCtxSetCurrent", context);
  }

 private:
  // A reset of the device ends its context.
  static bool HasEnded(CUresult result) {
    return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }

  locks::Mutex mutex_;
  absl::flat_hash_map<int, CUcontext> contexts_ ABSL_GUARDED_BY(mutex_);
};

// Finds the functions once. An error is no reason to fail for ever.
absl::StatusOr<const SwitchDriver*> TheDriver() {
  static std::atomic<const SwitchDriver*> kept = nullptr;
  if (const SwitchDriver* const found = kept.load(std::memory_order_acquire)) return found;
  const absl::StatusOr<SwitchDriver> loaded = SwitchDriver::Load();
  if (!loaded.ok()) return loaded.status();
  auto made = std::make_unique<const SwitchDriver>(*loaded);
  const SwitchDriver* first = nullptr;
  return kept.compare_exchange_strong(first, made.get()) ? made.release() : first;
}

PrimaryContexts& Contexts() {
  static PrimaryContexts* const contexts = new PrimaryContexts();
  return *contexts;
}

}  // namespace

void DeviceGuard::Enter(int ordinal) {
  const absl::StatusOr<const SwitchDriver*> found = TheDriver();
  status_ = found.status();
  if (!status_.ok()) return;
  const SwitchDriver& driver = **found;
  status_ = driver.Check(driver.get_current(&previous_), "cuCtxGetCurrent");
  if (status_.ok()) status_ = Contexts().Bind(driver, ordinal);
  if (status_.ok()) driver_ = &driver;
}

void DeviceGuard::Leave() const {
  TryTwice([this] { return static_cast<cudaError_t>(driver_->set_current(previous_)); });
}

}  // namespace tidepool::cuda
