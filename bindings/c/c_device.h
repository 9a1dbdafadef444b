// SPDX-License-Identifier: Apache-2.0
// The two kinds of devices that the C interface has, with streams as C programs know them.
#ifndef TIDEPOOL_BINDINGS_C_C_DEVICE_H_
#define TIDEPOOL_BINDINGS_C_C_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/support/settings.h"
#include "tidepool/device.h"
#include "tidepool/pool.h"

namespace tidepool::c_api {

// A stream's handle is a tidepool_stream. Thread-safe.
class CDevice {
 public:
  virtual ~CDevice() = default;

  virtual Device& device() = 0;
  // Returns the number of a CUDA device, or -1.
  virtual int ordinal() const = 0;
  // Returns the name by which all processes know the device, for file names.
  virtual absl::StatusOr<std::string> NameForProcesses() const = 0;
  // Returns the bytes that the device has left, counting all users.
  virtual std::int64_t FreeBytes() const = 0;
  // Returns the owner of the device's memory, for errors.
  virtual std::string owner() const = 0;

  // Returns the device's name of a stream. NotFound, or the device's error, for an unknown handle.
  virtual absl::StatusOr<Stream> NameOf(void* native) = 0;
  // Does the same for a stream that may be destroyed after any call that names it.
  virtual absl::StatusOr<Stream> NameOfEnding(void* native) = 0;
  // Returns whether the handle stands for a different stream in each thread.
  virtual bool IsOfThread(const void* native) const = 0;
  // Returns the handle of a stream that the device made.
  virtual absl::StatusOr<void*> NativeOf(Stream stream) const = 0;
  // Forgets all streams of the caller without using their handles, before the device ends.
  virtual absl::Status ForgetStreams() = 0;
  // Forgets a stream of the caller after its work so far. InvalidArgument for a stream that the
  // device made.
  virtual absl::Status Unwrap(Stream stream) = 0;
  // Notes that a stream of the device captures from now on, or no longer.
  virtual void NoteCapture(bool begins) = 0;
  // Returns whether a stream captures a graph.
  virtual absl::StatusOr<bool> IsCapturing(void* native) const = 0;
  // Returns the number of a stream that does not capture, which a later stream with the same handle
  // does not have; 0 where that is unknown.
  virtual std::uint64_t NumberOf(void* native) const = 0;
  // Returns the result of `call`, which may wait for the device and take memory of it although a
  // stream captures.
  virtual absl::Status InRelaxedCapture(absl::FunctionRef<absl::Status()> call) const = 0;
  // Makes an observer that tells a tool of the memory of a pool and then calls `next`, which may be
  // null. Null when no tool is attached.
  virtual std::unique_ptr<PoolObserver> MakeToolObserver(PoolObserver* next) const = 0;
  // Returns whether the memory of `pool` is gone already, so that neither may be destroyed.
  virtual bool HasLost(const Pool& pool) const = 0;
};

// Makes the device that the settings ask for. Unavailable if it does not exist.
absl::StatusOr<std::unique_ptr<CDevice>> MakeCDevice(const bindings::Settings& settings);

// The parts of MakeCDevice. The second is Unavailable in a build without CUDA.
absl::StatusOr<std::unique_ptr<CDevice>> MakeHostSide(const bindings::Settings& settings);
absl::StatusOr<std::unique_ptr<CDevice>> MakeCudaSide(const bindings::Settings& settings);
// Returns whether there is a CUDA device that can be used.
bool HasCudaDevice();

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_C_DEVICE_H_
