// SPDX-License-Identifier: Apache-2.0
// The whole stand-in: its devices, its handles, and the state of each thread.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_RUNTIME_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "dryrun/runtime/cudart/call_counts.h"
#include "dryrun/runtime/cudart/capture.h"
#include "dryrun/runtime/cudart/control.h"
#include "dryrun/runtime/cudart/handle_table.h"
#include "dryrun/runtime/cudart/known_bytes.h"
#include "dryrun/runtime/cudart/memory_map.h"
#include "dryrun/runtime/cudart/memory_record.h"
#include "dryrun/runtime/cudart/stand_in_device.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {

// The parts of a stream that a call needs.
struct StreamRef {
  std::shared_ptr<StandInDevice> device;
  Stream stream;
  StreamKind kind = StreamKind::kBlocking;
  unsigned flags = 0;
  int priority = 0;
  // Where a node of a graph is queued: when the nodes that it depends on end, on the clock.
  std::int64_t* of_node = nullptr;

  template <typename Queue>
  absl::Status Enqueue(Queue queue) const {
    return device->Enqueue(stream, kind, queue);
  }
  HostDevice& host() const { return device->host(); }
  // Work in the stream takes some time on the clock of events.
  void PassTime(Engine engine, std::int64_t nanoseconds) const {
    if (of_node != nullptr) {
      *of_node = device->clock().RunAfter(engine, *of_node, nanoseconds);
    } else {
      device->clock().Run(engine, stream.id, kind, nanoseconds);
    }
  }
};

// One recording of an event. Each record makes another, so a wait keeps the recording that it
// found.
struct Recorded {
  ~Recorded() { device->host().DestroyEvent(event).IgnoreError(); }

  std::shared_ptr<StandInDevice> device;
  Event event;
  std::int64_t assumed_ns = 0;  // when the work before it ends, on the clock of the device
  // How often PyTorch's watchdog asked for its end since the last launch, of this number. Guarded
  // by the event's mutex.
  int questions = 0;
  std::int64_t launches = 0;
};

struct EventState {
  std::shared_ptr<StandInDevice> device;
  unsigned flags = 0;
  locks::Mutex mutex;
  std::shared_ptr<Recorded> last ABSL_GUARDED_BY(mutex);  // null: never recorded
  // Null: last recorded outside of captures.
  std::shared_ptr<CapturedRecord> captured ABSL_GUARDED_BY(mutex);
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
  // Returns the runtime of the process. It is never destroyed, since programs call CUDA until their
  // very end. At the end of the process its devices are destroyed, unless work still hangs there;
  // all later calls are refused.
  static Runtime& Get();
  bool has_ended() const { return has_ended_.load(); }

  // Returns a device, or null if it does not exist.
  std::shared_ptr<StandInDevice> FindDevice(int ordinal) const;
  int device_count() const { return device_count_.load(); }
  CudartHostConfig config() const;
  // Returns the calling thread's current device.
  std::shared_ptr<StandInDevice> CurrentDevice() const;

  // Replaces a device by a fresh one.
  void ResetDevice(int ordinal);
  void Configure(const CudartHostConfig& config);

  // Finds a stream by its handle, or a default stream of the current device.
  std::optional<StreamRef> FindStream(cudaStream_t handle);

  CallCounts counts;
  CallCounts kernels;                   // launches, by the names of kernels
  std::atomic<std::int64_t> spins = 0;  // waits for events without cudaEventBlockingSync
  Captures captures;
  MemoryMap memory;
  MemoryRecord record;
  KnownBytes known;  // of devices without data
  HandleTable<StreamRef> streams{0x11};
  HandleTable<std::shared_ptr<EventState>> events{0x12};
  HandleTable<MemoryPool> pools{0x13};
  HandleTable<PhysicalHandle> physical_handles{0x14};
  HandleTable<std::shared_ptr<Graph>> graphs{0x15};
  HandleTable<std::shared_ptr<Graph>> graph_execs{0x16};
  locks::Mutex reservations_mutex;
  std::vector<Reservation> reservations ABSL_GUARDED_BY(reservations_mutex);
  locks::Mutex driver_mutex;  // one call about virtual memory at a time

 private:
  Runtime();
  void EndIfIdle();
  void DropAllOf(const std::shared_ptr<StandInDevice>& device);

  std::atomic<bool> has_ended_ = false;
  std::atomic<int> device_count_ = 0;
  mutable locks::Mutex mutex_;
  CudartHostConfig config_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<StandInDevice>> devices_ ABSL_GUARDED_BY(mutex_);
};

// The runtime's state of one thread. A context that is bound goes before the device that the thread
// has set.
struct ThreadState {
  static constexpr int kNone = -1;
  int current() const { return bound == kNone ? device : bound; }

  int device = 0;
  int bound = kNone;  // the device of the current context
  int last_error = 0;
  bool is_in_host_function = false;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
};
ThreadState& ThisThread();

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_RUNTIME_H_
