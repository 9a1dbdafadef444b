// SPDX-License-Identifier: Apache-2.0
// A pool on the host device, and allocations of it that free themselves.
#ifndef TIDEPOOL_BINDINGS_PYTHON_HOST_POOL_H_
#define TIDEPOOL_BINDINGS_PYTHON_HOST_POOL_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"

namespace tidepool::python {

class Allocation;

// A pool with a device of its own, and one stream. Thread-safe. In a forked child every call
// returns FailedPrecondition, and the memory of the parent's pool stays as it is.
class HostPool : public std::enable_shared_from_this<HostPool> {
 public:
  // Records the requests into the file `trace`, unless it is empty. Errors are those of
  // HostDevice, Recorder and Pool.
  static absl::StatusOr<std::shared_ptr<HostPool>> Create(PoolOptions options,
                                                          const std::string& trace);
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  // Waits for memory until the deadline; without one it does not wait.
  absl::StatusOr<std::shared_ptr<Allocation>> Allocate(std::size_t bytes, Hint hint,
                                                       std::optional<absl::Time> deadline);
  absl::Status CheckProcess() const;
  // The caller has called CheckProcess.
  Pool& pool() { return *pool_; }
  // Ends the recording; later requests are not recorded. OK without one.
  absl::Status CloseTrace();

 private:
  friend class Allocation;
  HostPool();
  void Free(void* address);

  const pid_t process_;
  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Pool> pool_;
  Stream stream_;
};

// Memory of a pool, which it returns at its end.
class Allocation {
 public:
  Allocation(std::shared_ptr<HostPool> pool, void* address, std::size_t bytes);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  void* address() const { return address_; }  // null for zero bytes
  std::size_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<HostPool> pool_;
  void* const address_;
  const std::size_t bytes_;
};

}  // namespace tidepool::python

#endif  // TIDEPOOL_BINDINGS_PYTHON_HOST_POOL_H_
