// SPDX-License-Identifier: Apache-2.0
// A device that is a CUDA GPU, on the CUDA runtime 12 or newer. It lies in the library
// tidepool::cuda, which is built if the CUDA toolkit was found. The rest of tidepool does not need
// CUDA.
//
// Every call leaves the calling thread's current device unchanged. Errors carry the CUDA call with
// its arguments, and CUDA's name and description of the error. Out of memory is ResourceExhausted.
// A device that does not exist or is not ready is Unavailable. A device that is lost until it is
// reset is Internal. After a failed call the runtime's last error is cleared, unless it is an error
// that CUDA keeps until the device is reset.
//
// FreeMemory, FreePinned, UnregisterHostMemory and Unmap give memory back at once, since the caller
// promises that it is unused. CUDA itself may wait for the whole device in these calls, and in
// AllocateMemory and AllocatePinned.
#ifndef TIDEPOOL_CUDA_DEVICE_H_
#define TIDEPOOL_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/export.h"

namespace tidepool {

enum class CudaMemory : std::uint8_t {
  kDevice,   // cudaMalloc: can be shared between processes and with network cards
  kManaged,  // cudaMallocManaged: the host may use it, and pages move
};

struct CudaDeviceOptions {
  // The number of the device, as cudaSetDevice takes it.
  int ordinal = 0;
  // The kind of memory that AllocateMemory returns. Virtual memory is always device memory, so a
  // device with managed memory has no virtual memory: granularity() is 0.
  CudaMemory memory = CudaMemory::kDevice;
  // The numbers of other devices that may access memory mapped on this device.
  std::vector<int> peers = {};
};

// The promise of the owner of a wrapped stream.
enum class StreamPromise : std::uint8_t {
  kUnwraps,  // it unwraps the stream before it destroys it
  kNone,     // it may destroy the stream after any call that names it: Device::MayEnd
};

class TIDEPOOL_EXPORT CudaDevice : public Device {
 public:
  // Makes a device. Unavailable if the device or the driver does not exist.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const CudaDeviceOptions& options);

  // Waits for all work of the device, gives back memory that was not freed, and destroys the
  // streams that CreateStream made. The device must not be reset before.
  ~CudaDevice() override = default;

  virtual int ordinal() const = 0;
  // Returns the bytes that CUDA reports as free on the device, counting the use of all processes.
  // used_bytes(), in contrast, counts memory taken through this object only.
  virtual absl::StatusOr<std::int64_t> FreeBytes() const = 0;

  // Adds a stream that the caller created with CUDA. A stream that is known already, wrapped or
  // created here, keeps its name and its promise. `nullptr` and cudaStreamLegacy are the legacy
  // default stream of this device. cudaStreamPerThread is the calling thread's own stream. The
  // thread should unwrap it before it ends; otherwise its name is kept until the device is
  // destroyed.
  //
  // The stream exists during the call: CUDA may end the process when it is asked about a destroyed
  // one. CUDA reuses handles, so a new stream may have the handle of one that was destroyed without
  // being unwrapped. CUDA 12.8 and newer can tell the two apart. There, wrapping the new stream
  // gives it a name of its own, and the work of the whole device stands for that of the old one.
  // Before that call the reuse is not detected.
  //
  // InvalidArgument for a stream of another device, as far as CUDA can tell; it cannot while the
  // stream captures. If a thread uses another thread's own stream, its work goes to the legacy
  // stream, which is ordered with that stream.
  virtual absl::StatusOr<Stream> WrapStream(cudaStream_t native,
                                            StreamPromise promise = StreamPromise::kUnwraps) = 0;
  // Forgets a wrapped stream without destroying it; its name is then unknown like that of a
  // destroyed stream. DestroyStream does the same for wrapped streams. A stream without a promise
  // may be destroyed already: its handle is not used, and the work of the whole device stands for
  // its work. InvalidArgument for a stream that CreateStream made.
  virtual absl::Status UnwrapStream(Stream stream) = 0;
  // Waits for the whole device and forgets all wrapped streams without using their handles. For
  // callers that cannot know which of the streams still exist.
  virtual absl::Status ForgetWrappedStreams() = 0;
  // Notes that a capture begins or has ended on a stream of this device. Meanwhile RecordAll fails
  // with FailedPrecondition: the capture would not survive it.
  virtual void NoteCapture(bool begins) = 0;
  // Returns the handle to launch work with. It is valid as long as the stream is.
  virtual absl::StatusOr<cudaStream_t> NativeStream(Stream stream) const = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_CUDA_DEVICE_H_
