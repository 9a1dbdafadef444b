// SPDX-License-Identifier: Apache-2.0
// One device of the stand-in: a host device, and the order between CUDA's streams.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_STAND_IN_DEVICE_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_STAND_IN_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dryrun/runtime/cudart/control.h"
#include "dryrun/runtime/cudart/device_clock.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/host_device.h"

namespace tidepool::cudart_host {

// Thread-safe. The destructor releases held copies and finishes queued work.
class StandInDevice {
 public:
  StandInDevice(int ordinal, const CudartHostConfig& config);
  StandInDevice(const StandInDevice&) = delete;
  StandInDevice& operator=(const StandInDevice&) = delete;

  int ordinal() const { return ordinal_; }
  HostDevice& host() { return *host_; }
  // Returns the memory of the device, of which a context takes a part that the host device lacks.
  std::int64_t memory_bytes() const { return memory_bytes_; }
  std::int64_t free_bytes();

  // Return ResourceExhausted where the rest is too small, of which libraries take a part.
  absl::StatusOr<void*> AllocateMemory(std::int64_t bytes);
  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes);
  // Takes memory for a library: the program does not have it. Negative bytes are given back.
  absl::Status TakeForLibrary(std::int64_t bytes);

  // Returns the error with which the device broke, or 0. Every call on a broken device returns it.
  int broken_with() const { return broken_with_.load(); }
  void Break(int error) { broken_with_.store(error); }

  // A GPU takes hundreds of MB for the context of a process, in the first call that needs it.
  bool has_context() const { return has_context_.load(); }
  void MakeContext() { has_context_.store(true); }
  // Returns the handle of its context, which no other device of the process has or had: a program
  // may still hold that of a device that was replaced.
  std::uintptr_t context_handle() const { return context_handle_; }

  DeviceClock& clock() { return clock_; }

  // Streams. The legacy stream is ordered with all blocking streams: its work waits for their
  // earlier work, and their later work waits for it.
  absl::StatusOr<Stream> CreateStream(StreamKind kind);
  absl::Status DestroyStream(Stream stream, StreamKind kind);
  Stream legacy_stream() const { return legacy_; }
  // Returns the calling thread's own stream.
  absl::StatusOr<Stream> PerThreadStream();
  // Calls `queue` in the stream's turn, under the lock. It queues work and returns a status.
  template <typename Queue>
  absl::Status Enqueue(Stream stream, StreamKind kind, Queue queue) {
    const locks::MutexLock lock(&mutex_);
    if (absl::Status status = TakeTurn(stream, kind); !status.ok()) return status;
    return queue();
  }
  // Returns whether all work queued on the stream so far has finished.
  absl::StatusOr<bool> IsIdle(Stream stream, StreamKind kind);
  absl::Status Synchronize(Stream stream, StreamKind kind);
  // Waits for all streams, including destroyed streams with work left.
  absl::Status SynchronizeAll();

  bool IsAllIdle();

  // Frees memory after all work that the stream was given so far.
  absl::Status FreeLater(void* address, Stream stream, StreamKind kind);
  // Frees the memory of FreeLater that is no longer in use.
  void FreeDueMemory();

  // Change which devices this one may access, by ordinal. Return whether that changed anything.
  bool EnablePeer(int ordinal);
  bool DisablePeer(int ordinal);
  bool HasPeer(int ordinal);

 private:
  struct Ended {
    Event event;
    StreamKind kind;
  };
  struct LateFree {
    void* address;
    Event event;
  };

  absl::Status TakeTurn(Stream stream, StreamKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(std::int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mutex_);
  absl::Status Join(Stream from, Stream to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int ordinal_;
  const std::uintptr_t context_handle_;
  const std::int64_t memory_bytes_;
  const std::unique_ptr<HostDevice> host_;
  std::atomic<int> broken_with_ = 0;
  std::atomic<bool> has_context_ = false;
  DeviceClock clock_;
  locks::Mutex memory_mutex_;
  std::int64_t library_bytes_ ABSL_GUARDED_BY(memory_mutex_) = 0;
  locks::Mutex mutex_;  // held while work is queued, never while waiting for it
  const Stream legacy_;
  const Event scratch_;  // recorded under mutex_
  absl::flat_hash_map<std::uint64_t, StreamKind> streams_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::thread::id, Stream> per_thread_ ABSL_GUARDED_BY(mutex_);
  std::vector<Ended> ended_ ABSL_GUARDED_BY(mutex_);  // the ends of destroyed streams
  std::vector<LateFree> late_frees_ ABSL_GUARDED_BY(mutex_);
  std::set<int> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_STAND_IN_DEVICE_H_
