// A device that is a CUDA GPU, on the CUDA runtime (12 or newer). In the library tidepool::cuda,
// where the toolkit was found; nothing else of tidepool needs CUDA.
//
// Whatever device is current for the calling thread stays so. Errors carry the CUDA call with its
// arguments, and CUDA's name and words for what went wrong: no memory is ResourceExhausted, a
// device that is not there or not ready is Unavailable, one that is lost until it is reset is
// Internal. What a failed call left as the runtime's last error is taken away again, unless it
// cannot be.
//
// Memory that the caller of FreeMemory, FreePinned, UnregisterHostMemory and Unmap says is unused
// is given back at once; CUDA itself may wait for the whole device in these and in AllocateMemory
// and AllocatePinned.
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
  // As in cudaSetDevice.
  int ordinal = 0;
  // What AllocateMemory gives. Virtual memory is always of the device, so a device with managed
  // memory has none: granularity() is 0.
  CudaMemory memory = CudaMemory::kDevice;
  // Other devices that may use what is mapped here.
  std::vector<int> peers = {};
};

class TIDEPOOL_EXPORT CudaDevice : public Device {
 public:
  // Unavailable when there is no such device or no driver.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const CudaDeviceOptions& options);

  // Waits for the work of the device, gives back all that was not, and destroys the streams that
  // were created here. The device must not be reset before.
  ~CudaDevice() override = default;

  virtual int ordinal() const = 0;
  // What CUDA says is free on the device, whoever uses the rest. (used_bytes is what was taken
  // here.)
  virtual absl::StatusOr<std::int64_t> FreeBytes() const = 0;

  // Lets a stream that somebody else created take part; a stream that is known already keeps its
  // name, be it wrapped or created here. `nullptr` and cudaStreamLegacy are the legacy default
  // stream of this device, cudaStreamPerThread the calling thread's own, which the thread unwraps
  // before it ends, or its name is kept until the device goes.
  //
  // A wrapped stream is unwrapped before it is destroyed with CUDA: CUDA gives handles out again,
  // and a new stream must not be taken for the old one. Where CUDA can tell them apart (12.8 and
  // newer), wrapping the new one notices, waits for the whole device and gives it a name of its
  // own; it is not noticed before that.
  //
  // InvalidArgument for a stream of another device, as far as CUDA can tell. When a stream that is
  // one thread's own is used by another thread, the work goes to the legacy stream, which is in
  // order with it.
  virtual absl::StatusOr<Stream> WrapStream(cudaStream_t native) = 0;
  // Forgets a wrapped stream, which stays as it is: it is then as unknown as a destroyed one. So
  // does DestroyStream, for wrapped streams. InvalidArgument for a stream that was created here.
  virtual absl::Status UnwrapStream(Stream stream) = 0;
  // Forgets the wrapped streams that CUDA does not know any more, because somebody destroyed them
  // before they were unwrapped, and waits for the whole device if there are any; says how many. A
  // stream that got the handle of another one counts where CUDA can tell them apart.
  virtual absl::StatusOr<int> ForgetLostStreams() = 0;
  // Waits for the whole device and forgets all wrapped streams without a use of their handles: for
  // who cannot know which of them are still there.
  virtual absl::Status ForgetWrappedStreams() = 0;
  // To launch work with. It is good for as long as the stream is.
  virtual absl::StatusOr<cudaStream_t> NativeStream(Stream stream) const = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_CUDA_DEVICE_H_
