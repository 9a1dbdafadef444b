// A device made of the host: memory is memory, a thread is a stream. Everything that a GPU does
// works here, at the speed of the host; and what a GPU does only on bad days can be ordered.
//
// Pinned memory, allocated or registered, is memory that is locked where the limits of the process
// (RLIMIT_MEMLOCK) allow it, and plain memory beyond.
//
// It knows its memory: a copy or a fill that leaves it when it is queued is InvalidArgument, and
// whoever touches what is not mapped, or not any more, faults. To destroy the device is to finish
// what was queued, without delay: held copies are released, and no time is simulated any more.
#ifndef TIDEPOOL_HOST_DEVICE_H_
#define TIDEPOOL_HOST_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/export.h"

namespace tidepool {

struct HostDeviceOptions {
  std::int64_t memory_bytes = std::int64_t{1} << 30;  // enforced; taken from the host when touched
  // Of virtual memory: a power of two that is a multiple of the host's page. 0: there is none, as
  // on GPUs that lack it.
  std::int64_t granularity = std::int64_t{64} << 10;
  // Of copies to and from the device: those of one direction take their time one after the other,
  // both directions at once, without a gap between those that were queued in time. 0 is as fast as
  // the host copies. The bytes move at the end.
  double copy_bytes_per_second = 0;
  std::int64_t copy_latency_ns = 0;  // before the bytes of each such copy
};

class TIDEPOOL_EXPORT HostDevice : public Device {
 public:
  // InvalidArgument when an option is out of its range.
  static absl::StatusOr<std::unique_ptr<HostDevice>> Create(const HostDeviceOptions& options);

  // What can be told to fail.
  enum class Call : std::uint8_t {
    kAny,
    kCreateStream,
    kDestroyStream,
    kSynchronizeStream,
    kCreateEvent,
    kDestroyEvent,
    kRecordEvent,
    kWaitEvent,
    kQueryEvent,
    kSynchronizeEvent,
    kCopy,
    kFill,
    kCallHost,
    kAllocateMemory,
    kFreeMemory,
    kAllocatePinned,
    kFreePinned,
    kRegisterHostMemory,
    kUnregisterHostMemory,
    kReserveAddresses,
    kReleaseAddresses,
    kCreatePhysical,
    kReleasePhysical,
    kMap,
    kUnmap,
  };
  // How many calls of a kind there were since the device was made, those that failed included.
  virtual std::int64_t CountCalls(Call call) const = 0;
  // Lets the n-th call of a kind from now on (the next is 1) fail with Unavailable, once. Takes the
  // place of an order before it for the same kind; 0 only takes that back.
  virtual void FailCall(Call call, std::int64_t n) = 0;
  // Copies that are queued from here on, of any direction, do not end before the next
  // ReleaseCopies.
  virtual void HoldCopies() = 0;
  virtual void ReleaseCopies() = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_HOST_DEVICE_H_
