// Devices: what a pool needs of a GPU.
//
// A device has memory, queues of work and events that mark places in them. *Streams* run their work
// in order and independently of each other; nothing that queues work waits for it. Memory comes in
// two forms: whole allocations, and *virtual memory*: a range of addresses is reserved, physical
// memory is created apart from it, and one is mapped to the other for as long as the owner likes.
//
// All functions are thread-safe. Errors name the call and what was wrong with it: NotFound for a
// stream, event or address that the device does not know, InvalidArgument for sizes and addresses
// that it cannot take, ResourceExhausted when memory is used up, Internal or Unavailable when the
// device itself fails. A call that fails has done nothing.
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

// Names a queue of work. No two streams of a process ever have the same name, of one device or of
// several, and 0 is none.
struct Stream {
  std::uint64_t id = 0;

  friend bool operator==(Stream a, Stream b) { return a.id == b.id; }
  template <typename H>
  friend H AbslHashValue(H state, Stream stream) {
    return H::combine(std::move(state), stream.id);
  }
};

// Names a mark that can be recorded in a stream, again and again. Unique like streams.
struct Event {
  std::uint64_t id = 0;

  friend bool operator==(Event a, Event b) { return a.id == b.id; }
};

// Names physical memory of a device that need not have an address.
struct PhysicalMemory {
  std::uint64_t id = 0;

  friend bool operator==(PhysicalMemory a, PhysicalMemory b) { return a.id == b.id; }
};

// For who implements a device: the first of `count` consecutive names that nothing else in the
// process has or will have. Thread-safe.
TIDEPOOL_EXPORT std::uint64_t TakeDeviceNames(std::uint64_t count);

enum class CopyDirection : std::uint8_t { kToDevice, kFromDevice, kOnDevice };

class TIDEPOOL_EXPORT Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // As people know it, for messages.
  virtual std::string name() const = 0;
  // Of the whole device, and what is in use of it: allocations and physical memory together.
  virtual std::int64_t memory_bytes() const = 0;
  virtual std::int64_t used_bytes() const = 0;

  // Streams. ------------------------------------------------------------------------------------

  virtual absl::StatusOr<Stream> CreateStream() = 0;
  // Does not wait: what was queued still runs. From then on the stream is unknown to every call but
  // RecordEvent: events may be recorded in it for ever, for all that it was ever given.
  virtual absl::Status DestroyStream(Stream stream) = 0;
  // Whether the stream is one of this device and takes work.
  virtual bool HasStream(Stream stream) const = 0;
  // Waits until all that was queued so far is over.
  virtual absl::Status SynchronizeStream(Stream stream) = 0;
  // Grows whenever a stream is destroyed: as long as it stands still, what HasStream once said of a
  // stream still holds.
  std::uint64_t stream_epoch() const { return stream_epoch_.load(std::memory_order_acquire); }

  // Events. -------------------------------------------------------------------------------------

  virtual absl::StatusOr<Event> CreateEvent() = 0;
  // Waits that were queued on it stay as they are.
  virtual absl::Status DestroyEvent(Event event) = 0;
  // Marks the work queued on `stream` so far: from here on the event stands for that and for
  // nothing that it stood for before.
  virtual absl::Status RecordEvent(Event event, Stream stream) = 0;
  // Lets work queued on `stream` from here on wait, on the device, for what the event stands for
  // now. An event that was never recorded stands for nothing.
  virtual absl::Status WaitEvent(Stream stream, Event event) = 0;
  // Whether all that the event stands for is over.
  virtual absl::StatusOr<bool> QueryEvent(Event event) = 0;
  virtual absl::Status SynchronizeEvent(Event event) = 0;

  // Work. ---------------------------------------------------------------------------------------

  // Queues a copy. The memory stays mapped, and untouched by others, until it is over. No address
  // is null; no bytes are a copy as well.
  virtual absl::Status Copy(void* to, const void* from, std::int64_t bytes, CopyDirection direction,
                            Stream stream) = 0;
  // Queues setting each of `bytes` bytes of device memory.
  virtual absl::Status Fill(void* to, std::uint8_t value, std::int64_t bytes, Stream stream) = 0;
  // Queues a function that runs on some host thread, perhaps after those of other streams. It must
  // not call the device. It is gone, with what it holds, when it is over.
  virtual absl::Status CallHost(Stream stream, std::function<void()> function) = 0;

  // Whole allocations. --------------------------------------------------------------------------

  // At least one byte, at a multiple of 512.
  virtual absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) = 0;
  // Does not wait for work that uses the memory: the caller has.
  virtual absl::Status FreeMemory(void* address) = 0;
  // Host memory that copies reach at full speed and asynchronously.
  virtual absl::StatusOr<void*> AllocatePinned(std::int64_t bytes) = 0;
  virtual absl::Status FreePinned(void* address) = 0;
  // Makes memory of the host that the caller has as good as pinned memory, until it is
  // unregistered: it stays mapped that long. It takes time in proportion to the bytes, and less
  // where they were touched before. InvalidArgument for null, for no bytes, for addresses without
  // memory, and where a byte is registered with this device or is memory of it.
  virtual absl::Status RegisterHostMemory(void* address, std::int64_t bytes) = 0;
  // Takes back one call of RegisterHostMemory, whole. Does not wait for work that uses the memory.
  virtual absl::Status UnregisterHostMemory(void* address) = 0;

  // Virtual memory. -----------------------------------------------------------------------------

  // Addresses and sizes below are multiples of this power of two. 0: the device has no virtual
  // memory, and the calls below return Unimplemented.
  virtual std::int64_t granularity() const = 0;
  // Takes addresses, not memory: a range may be larger than the device.
  virtual absl::StatusOr<void*> ReserveAddresses(std::int64_t bytes) = 0;
  // Takes back a whole range in which nothing is mapped.
  virtual absl::Status ReleaseAddresses(void* address, std::int64_t bytes) = 0;
  virtual absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes) = 0;
  // Gives the memory back to the device as soon as it is mapped nowhere. Its name is gone at once.
  virtual absl::Status ReleasePhysical(PhysicalMemory memory) = 0;
  // Maps all of `memory` to addresses of one reserved range from `address` on, where nothing is
  // mapped. It may be mapped to several places.
  virtual absl::Status Map(void* address, PhysicalMemory memory) = 0;
  // Unmaps what one call of Map mapped at `address`. Does not wait for work that uses it. The
  // contents stay with the physical memory.
  virtual absl::Status Unmap(void* address) = 0;

 protected:
  void AdvanceStreamEpoch() { stream_epoch_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  std::atomic<std::uint64_t> stream_epoch_{0};
};

}  // namespace tidepool

#endif  // TIDEPOOL_DEVICE_H_
