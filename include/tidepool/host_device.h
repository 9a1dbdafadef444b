// SPDX-License-Identifier: Apache-2.0
// A device made of the host: device memory is host memory, and a stream is a thread. It does
// everything that a GPU does, at the speed of the host. Tests can order the failures and delays
// that a GPU shows only rarely.
//
// Pinned memory, allocated or registered, is locked as far as the limit of the process
// (RLIMIT_MEMLOCK) allows, and plain memory beyond it.
//
// The device checks addresses. A copy or fill that leaves its memory at the time of queuing is
// InvalidArgument. An access to unmapped or freed memory faults. The destructor finishes all queued
// work without delay: it releases held copies and stops simulating the time of copies.
#ifndef TIDEPOOL_HOST_DEVICE_H_
#define TIDEPOOL_HOST_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/export.h"

namespace tidepool {

// Where the memory of the device lies. The first free addresses decide between free blocks of one
// size in PyTorch's allocator, and so the memory that it reserves.
enum class AddressOrder : std::uint8_t {
  kHost,       // where the host maps it
  kAscending,  // from the beginning of a range of addresses, in units of 2 MiB
  kFalling,    // from its end
};

struct HostDeviceOptions {
  // A limit. The host gives the memory on first touch.
  std::int64_t memory_bytes = std::int64_t{1} << 30;
  // The granularity of virtual memory: a power of two and a multiple of the host's page. 0: no
  // virtual memory, as on GPUs that lack it.
  std::int64_t granularity = std::int64_t{64} << 10;
  // The bandwidth of copies between device and host. Copies of one direction run one after the
  // other, and both directions run at once. Copies that were queued in time follow each other
  // without a gap. The bytes move at the end of the copy's time. 0: as fast as the host copies.
  double copy_bytes_per_second = 0;
  std::int64_t copy_latency_ns = 0;  // a delay in front of each such copy
  // Of AllocateMemory. With an order, the device reserves addresses for four times its memory.
  AddressOrder addresses = AddressOrder::kHost;
};

class TIDEPOOL_EXPORT HostDevice : public Device {
 public:
  // Makes a device. InvalidArgument if an option is out of its range.
  static absl::StatusOr<std::unique_ptr<HostDevice>> Create(const HostDeviceOptions& options);

  // The calls that a test can count and let fail. kAny stands for all of them.
  enum class Call : std::uint8_t {
    kAny,
    kCreateStream,
    kDestroyStream,
    kSynchronizeStream,
    kCreateEvent,
    kDestroyEvent,
    kRecordEvent,
    kRecordAll,
    kWaitEvent,
    kQueryEvent,
    kSynchronizeEvent,
    kSecondsBetween,
    kCopy,
    kFill,
    kSpendTime,
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
  // The functions below are for tests.
  //
  // Returns the number of calls of a kind since the device was made, including failed calls.
  virtual std::int64_t CountCalls(Call call) const = 0;
  // Lets the n-th call of a kind from now on (the next call is 1) fail with Unavailable, once.
  // Replaces an earlier call of FailCall for the same kind; 0 only cancels that one.
  virtual void FailCall(Call call, std::int64_t n) = 0;
  // Holds back copies of any direction that are queued from now on, until the next ReleaseCopies.
  virtual void HoldCopies() = 0;
  virtual void ReleaseCopies() = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_HOST_DEVICE_H_
