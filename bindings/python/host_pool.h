// SPDX-License-Identifier: Apache-2.0
// A pool on the host device, its streams, and allocations of it that free themselves.
#ifndef TIDEPOOL_BINDINGS_PYTHON_HOST_POOL_H_
#define TIDEPOOL_BINDINGS_PYTHON_HOST_POOL_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"
#include "tidepool/recorder.h"

namespace tidepool::python {

class Allocation;
class HostStream;

// A pool with a device of its own. Thread-safe. In a forked child every call
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

  // Makes a stream. It keeps the pool.
  absl::StatusOr<std::shared_ptr<HostStream>> CreateStream();

  // Allocates on a stream, or on the pool's own if `stream` is null. InvalidArgument for a stream
  // of another pool.
  absl::StatusOr<std::shared_ptr<Allocation>> Allocate(std::size_t bytes, Hint hint,
                                                       const std::shared_ptr<HostStream>& stream);
  // Allocates likewise, as Pool::AllocateBlocking.
  absl::StatusOr<std::shared_ptr<Allocation>> AllocateBlocking(
      std::size_t bytes, Hint hint, const std::shared_ptr<HostStream>& stream, absl::Time deadline,
      std::stop_token stop);
  absl::Status CheckProcess() const;
  // The caller has called CheckProcess.
  Pool& pool() { return *pool_; }
  // Ends the recording; later requests are not recorded. OK without one.
  absl::Status CloseTrace();

 private:
  friend class Allocation;
  friend class HostStream;
  HostPool();
  absl::Status CheckStream(const std::shared_ptr<HostStream>& stream) const;
  absl::StatusOr<std::shared_ptr<Allocation>> Own(absl::StatusOr<void*> address, std::size_t bytes,
                                                  const std::shared_ptr<HostStream>& stream);
  // Calls a function with an event that has recorded the end of a stream's work.
  absl::Status AtEndOf(Stream stream, const std::function<absl::Status(Event)>& function);
  // Returns the device's name of a stream; null stands for the pool's own.
  Stream NameOf(const std::shared_ptr<HostStream>& stream) const;

  const pid_t process_;
  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Pool> pool_;
  Stream stream_;
};

// Memory of a pool, which it returns at its end. Not thread-safe, but for its end.
class Allocation {
 public:
  Allocation(std::shared_ptr<HostPool> pool, std::shared_ptr<HostStream> stream, void* address,
             std::size_t bytes);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  void* address() const { return address_; }  // null for zero bytes
  std::size_t bytes() const { return bytes_; }

  // FailedPrecondition in a forked child, where the end of the memory changes nothing.
  absl::Status CheckProcess() const;
  // Notes that work queued on `stream` before the free uses the memory. InvalidArgument for a
  // stream of another pool.
  absl::Status RecordUse(const std::shared_ptr<HostStream>& stream);
  // Chooses the stream of the free; before, it is that of the allocation.
  absl::Status FreeOn(std::shared_ptr<HostStream> stream);

 private:
  friend class HostStream;

  const std::shared_ptr<HostPool> pool_;
  std::shared_ptr<HostStream> stream_;  // null: the pool's own
  void* const address_;
  const std::size_t bytes_;
};

// A stream of a pool's device. Thread-safe. It ends with the object; queued work still runs. With
// enable_shared_from_this a reference from C++ holds no Python object, so any thread may drop it.
class HostStream : public std::enable_shared_from_this<HostStream> {
 public:
  HostStream(std::shared_ptr<HostPool> pool, Stream name);
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  // Queue work, and note that it uses its memory: the memory returns to the pool after the work.
  // InvalidArgument for memory of another pool, and for a copy between different sizes.
  absl::Status Fill(Allocation& memory, std::uint8_t value);
  absl::Status Copy(Allocation& to, Allocation& from);
  // Makes work that is queued from now on wait for the work that `other` has by now.
  absl::Status Wait(const HostStream& other);
  // Returns whether all work queued so far has finished.
  absl::StatusOr<bool> IsIdle();
  // Waits until it has.
  absl::Status Synchronize();

 private:
  friend class HostPool;
  absl::Status RecordUse(Allocation& memory);

  const std::shared_ptr<HostPool> pool_;
  const Stream name_;
};

}  // namespace tidepool::python

#endif  // TIDEPOOL_BINDINGS_PYTHON_HOST_POOL_H_
