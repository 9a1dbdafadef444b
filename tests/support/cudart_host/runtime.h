// The stand-in as a whole: its devices, its handles, and what a thread knows.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_RUNTIME_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tests/support/cudart_host/call_counts.h"
#include "tests/support/cudart_host/control.h"
#include "tests/support/cudart_host/handle_table.h"
#include "tests/support/cudart_host/memory_map.h"
#include "tests/support/cudart_host/stand_in_device.h"

namespace tidepool::cudart_host {

// A stream as a call finds it.
struct StreamRef {
  std::shared_ptr<StandInDevice> device;
  Stream stream;
  StreamKind kind = StreamKind::kBlocking;
  unsigned flags = 0;
  int priority = 0;

  template <typename Queue>
  absl::Status Enqueue(Queue queue) const {
    return device->Enqueue(stream, kind, queue);
  }
  HostDevice& host() const { return device->host(); }
};

// What an event stands for: each record is another, so that a wait keeps the one it found.
struct Recorded {
  ~Recorded() { device->host().DestroyEvent(event).IgnoreError(); }

  std::shared_ptr<StandInDevice> device;
  Event event;
  std::shared_ptr<std::atomic<std::int64_t>> reached_ns;  // null without timing
};

struct EventState {
  std::shared_ptr<StandInDevice> device;
  unsigned flags = 0;
  std::mutex mutex;
  std::shared_ptr<Recorded> last;  // null before the first record
};

struct MemoryPool {
  int device = 0;
  bool is_default = false;
  std::shared_ptr<absl::flat_hash_map<int, std::uint64_t>> attributes;
};

struct Reservation {
  std::shared_ptr<StandInDevice> device;
  char* address;
  std::int64_t bytes;
};

struct PhysicalHandle {
  std::shared_ptr<Physical> physical;
  int references = 1;
};

class Runtime {
 public:
  // The one of the process. It is never destroyed: programs call CUDA until their very end. But
  // when the process ends its devices go, unless work hangs there, and then CUDA is over.
  static Runtime& Get();
  bool is_over() const { return is_over_.load(); }

  // Null when there is no such device.
  std::shared_ptr<StandInDevice> FindDevice(int ordinal) const;
  int device_count() const;
  CudartHostConfig config() const;
  // The calling thread's device.
  std::shared_ptr<StandInDevice> CurrentDevice() const;

  // Takes everything of a device away and begins anew.
  void ResetDevice(int ordinal);
  void Configure(const CudartHostConfig& config);

  // One that CUDA knows: a handle, or a default stream of the current device.
  std::optional<StreamRef> FindStream(cudaStream_t handle);

  CallCounts counts;
  MemoryMap memory;
  HandleTable<StreamRef> streams{0x11};
  HandleTable<std::shared_ptr<EventState>> events{0x12};
  HandleTable<MemoryPool> pools{0x13};
  HandleTable<PhysicalHandle> physical_handles{0x14};
  std::mutex reservations_mutex;
  std::vector<Reservation> reservations;
  std::mutex driver_mutex;  // one call about virtual memory at a time

 private:
  Runtime();
  void EndIfIdle();
  void DropAllOf(const std::shared_ptr<StandInDevice>& device);

  std::atomic<bool> is_over_ = false;
  mutable std::mutex mutex_;
  CudartHostConfig config_;
  std::vector<std::shared_ptr<StandInDevice>> devices_;
};

// What a thread knows.
struct ThreadState {
  int device = 0;
  int last_error = 0;
  bool is_in_host_function = false;
};
ThreadState& ThisThread();

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_RUNTIME_H_
