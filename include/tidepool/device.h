// SPDX-License-Identifier: Apache-2.0
// The interface between a memory pool and a GPU.
//
// A device has memory, *streams* and *events*. A stream runs its work in order, and streams run
// independently of each other. No function that queues work waits for that work. Memory comes in
// two forms: whole allocations, and *virtual memory*. With virtual memory, a range of addresses is
// reserved, physical memory is created separately, and the physical memory is mapped at addresses
// of the range until it is unmapped.
//
// All functions are thread-safe. Error messages name the call and the argument at fault. NotFound:
// a stream, event or address that the device does not know. InvalidArgument: a size or address that
// the device cannot take. ResourceExhausted: memory is used up. Internal or Unavailable: the device
// itself failed. A call that fails has changed nothing.
//
// A device of your own implements the pure functions: with them pools run. The others have a
// default, which their comments tell, and are implemented where the device can do more.
#ifndef TIDEPOOL_DEVICE_H_
#define TIDEPOOL_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"

namespace tidepool {

// The name of a queue of work. All streams of a process have different names, also across devices.
// The name 0 is never given.
struct Stream {
  std::uint64_t id = 0;

  friend bool operator==(Stream a, Stream b) { return a.id == b.id; }
  template <typename H>
  friend H AbslHashValue(H state, Stream stream) {
    return H::combine(std::move(state), stream.id);
  }
};

// The name of an event, which can be recorded in streams any number of times. Unique like the names
// of streams.
struct Event {
  std::uint64_t id = 0;

  friend bool operator==(Event a, Event b) { return a.id == b.id; }
};

// The name of physical memory of a device. The memory need not be mapped at an address.
struct PhysicalMemory {
  std::uint64_t id = 0;

  friend bool operator==(PhysicalMemory a, PhysicalMemory b) { return a.id == b.id; }
};

// Reserves `count` consecutive names that nothing else in the process has or will have, and returns
// the first. Implementations of Device call it to name streams, events and memory. Thread-safe.
TIDEPOOL_EXPORT std::uint64_t TakeDeviceNames(std::uint64_t count);

// The purpose of an event. On a GPU the second and third kind cost more.
enum class EventKind : std::uint8_t {
  kOrder,   // orders streams
  kWaited,  // threads of the host wait for it: they sleep, and do not spin
  kTimed,   // for SecondsBetween
};

enum class CopyDirection : std::uint8_t {
  kToDevice,
  kFromDevice,
  kOnDevice,
  kFromPeer,  // to this device from memory of another device of the same kind
};

class TIDEPOOL_EXPORT Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Returns a short name for messages, such as "host" or "cuda:0".
  virtual std::string name() const = 0;
  // Return the memory of the whole device, and the part of it that is in use: allocations and
  // physical memory together. Both in bytes.
  virtual std::int64_t memory_bytes() const = 0;
  virtual std::int64_t used_bytes() const = 0;

  // Streams. ------------------------------------------------------------------------------------

  // Creates a stream, which nothing is queued in. Errors: the device's.
  virtual absl::StatusOr<Stream> CreateStream() = 0;
  // Destroys the stream without waiting: work that was queued still runs. Afterwards every call but
  // RecordEvent answers NotFound for the stream. RecordEvent still takes it, at any later time, and
  // records the end of all work that was queued in it.
  virtual absl::Status DestroyStream(Stream stream) = 0;
  // Returns whether the stream belongs to this device and takes work.
  virtual bool HasStream(Stream stream) const = 0;
  // Waits until all work queued so far has finished. Default: waits for an event.
  virtual absl::Status SynchronizeStream(Stream stream) { return AwaitEvent(stream); }
  // Returns a count that grows whenever a stream is destroyed. While it is unchanged, an earlier
  // answer of HasStream is still true.
  std::uint64_t stream_epoch() const { return stream_epoch_.load(std::memory_order_acquire); }
  // Returns whether the owner of the stream may destroy it without telling the device. Such a
  // stream may be named only in calls that the owner makes with it: later its handle may be
  // invalid, or belong to another stream. False for streams of CreateStream, and by default.
  virtual bool MayEnd(Stream /*stream*/) const { return false; }
  // FailedPrecondition while work of the stream goes into a graph, which a later launch runs. The
  // capture lives on. NotFound for an unknown stream. Default: no stream captures.
  virtual absl::Status CheckNoCapture(Stream /*stream*/) const { return absl::OkStatus(); }

  // Events. -------------------------------------------------------------------------------------

  // Creates an event, which has recorded no point: a wait for it ends at once. Errors: the
  // device's.
  virtual absl::StatusOr<Event> CreateEvent(EventKind kind = EventKind::kOrder) = 0;
  // Destroys the event. Work that waits for it still waits for the point that it had recorded.
  virtual absl::Status DestroyEvent(Event event) = 0;
  // Records the end of the work queued on `stream` so far. The event forgets the point that it had
  // recorded before.
  virtual absl::Status RecordEvent(Event event, Stream stream) = 0;
  // Records the end of the work queued so far on all streams, destroyed streams included. It names
  // no stream, so it also orders after streams that MayEnd.
  virtual absl::Status RecordAll(Event event) = 0;
  // Makes work queued on `stream` from now on wait, on the device, for the point that the event has
  // recorded at this moment. Without effect for an event that was never recorded. The event may
  // belong to another device of the same kind, which is not destroyed during the call.
  virtual absl::Status WaitEvent(Stream stream, Event event) = 0;
  // Returns whether all work before the recorded point has finished. True for an event that was
  // never recorded.
  virtual absl::StatusOr<bool> QueryEvent(Event event) = 0;
  // Waits until all work before the recorded point has finished.
  virtual absl::Status SynchronizeEvent(Event event) = 0;
  // Returns the seconds from the point that `first` has recorded to that of `second`, as the device
  // reached them: negative if it reached `second` first. FailedPrecondition unless both events are
  // of kind kTimed, were recorded last by RecordEvent in a stream that took work, and all work
  // before both points has finished. Default: Unimplemented; schedules are then not measured.
  virtual absl::StatusOr<double> SecondsBetween(Event /*first*/, Event /*second*/) {
    return Lacks("SecondsBetween", "times of events");
  }

  // Work. ---------------------------------------------------------------------------------------

  // Queues a copy of `bytes` bytes. Until it finishes, the caller keeps both buffers mapped and
  // does not use them otherwise. InvalidArgument for a null address. A copy of zero bytes is valid.
  // A source on a peer is not known here, so it is not checked further.
  virtual absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                            Stream stream) = 0;
  // Queues setting each of `bytes` bytes of device memory to `value`.
  virtual absl::Status Fill(void* to, std::uint8_t value, std::int64_t bytes, Stream stream) = 0;
  // Queues work that takes `nanoseconds` (at least 0) on the device and does nothing else: it
  // stands for a kernel. The first call may wait, because a GPU loads the code. Errors:
  // InvalidArgument for less than 0 ns; Unimplemented if the driver has no functions for kernels.
  // Default: a host function sleeps.
  virtual absl::Status SpendTime(Stream stream, std::int64_t nanoseconds) {
    return Sleep(stream, nanoseconds);
  }
  // Queues a call of `function` on some host thread. Host functions of all streams may share one
  // thread, so it may run after functions of other streams. It must not call the device. The
  // function object is destroyed before the work counts as finished.
  virtual absl::Status CallHost(Stream stream, std::function<void()> function) = 0;

  // Whole allocations. --------------------------------------------------------------------------

  // Allocates at least one byte, at an address that is a multiple of 512.
  virtual absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) = 0;
  // Frees an allocation without waiting for work that uses it: the caller has waited.
  virtual absl::Status FreeMemory(void* address) = 0;
  // Allocates page-locked host memory, which copies reach asynchronously and at full speed.
  virtual absl::StatusOr<void*> AllocatePinned(std::int64_t bytes) = 0;
  virtual absl::Status FreePinned(void* address) = 0;
  // Page-locks `bytes` bytes of the caller's own host memory, until UnregisterHostMemory. The
  // memory stays mapped until then. Takes time linear in `bytes`, and less where the pages were
  // touched before. InvalidArgument for a null address, for zero bytes, for addresses without
  // memory, and if a byte is registered with this device already or is memory of the device.
  // Default: Unimplemented; a PinnedPool needs it.
  virtual absl::Status RegisterHostMemory(void* /*address*/, std::int64_t /*bytes*/) {
    return Lacks("RegisterHostMemory", "registration of host memory");
  }
  // Undoes one call of RegisterHostMemory, whole. Does not wait for work that uses the memory.
  virtual absl::Status UnregisterHostMemory(void* /*address*/) {
    return Lacks("UnregisterHostMemory", "registration of host memory");
  }

  // Virtual memory. -----------------------------------------------------------------------------

  // Returns the power of two of which all addresses and sizes below are multiples. 0: the device
  // has no virtual memory, and the calls below return Unimplemented. That is the default of all;
  // pools then take whole allocations.
  virtual std::int64_t granularity() const { return 0; }
  // Reserves a range of addresses without memory. The range may be larger than the device.
  virtual absl::StatusOr<void*> ReserveAddresses(std::int64_t /*bytes*/) {
    return Lacks("ReserveAddresses", "virtual memory");
  }
  // Releases a whole reserved range. InvalidArgument while memory is mapped in it.
  virtual absl::Status ReleaseAddresses(void* /*address*/, std::int64_t /*bytes*/) {
    return Lacks("ReleaseAddresses", "virtual memory");
  }
  // Creates physical memory of `bytes` bytes, which is not mapped yet.
  virtual absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t /*bytes*/) {
    return Lacks("CreatePhysical", "virtual memory");
  }
  // Releases physical memory. Its name is unknown at once; the device gets the memory back as soon
  // as it is mapped nowhere.
  virtual absl::Status ReleasePhysical(PhysicalMemory /*memory*/) {
    return Lacks("ReleasePhysical", "virtual memory");
  }
  // Maps all of `memory` at `address`. The addresses lie in one reserved range, and nothing is
  // mapped there yet. The same memory may be mapped at several addresses.
  virtual absl::Status Map(void* /*address*/, PhysicalMemory /*memory*/) {
    return Lacks("Map", "virtual memory");
  }
  // Unmaps the mapping that one call of Map made at `address`. Does not wait for work that uses it.
  // The physical memory keeps its contents.
  virtual absl::Status Unmap(void* /*address*/) { return Lacks("Unmap", "virtual memory"); }

 protected:
  void AdvanceStreamEpoch() { stream_epoch_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  // The defaults. Virtual functions call them in this header: so programs may derive with run-time
  // type information, which the library may lack.
  absl::Status AwaitEvent(Stream stream);
  absl::Status Sleep(Stream stream, std::int64_t nanoseconds);
  absl::Status Lacks(const char* call, const char* what) const;

  std::atomic<std::uint64_t> stream_epoch_{0};
};

}  // namespace tidepool

#endif  // TIDEPOOL_DEVICE_H_
