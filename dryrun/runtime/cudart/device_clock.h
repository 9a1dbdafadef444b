// SPDX-License-Identifier: Apache-2.0
// DeviceClock: when the work of a device ends, by the times that it is assumed to take.
//
// A device has one engine for kernels, one for copies in each direction, and one for data of
// libraries that passes between devices. The work of an engine
// runs one after the other, after the earlier work of its stream, and after all that the stream or
// the host waited for before. Nothing waits for these times.
//
// The host is taken to launch kernels faster than the device runs them, as programs do that train
// on a GPU, however long the launches take here.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_DEVICE_CLOCK_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_DEVICE_CLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {

// The legacy stream waits for the earlier work of blocking streams, and their later work for its.
enum class StreamKind : std::uint8_t { kBlocking, kNonBlocking, kLegacy };

// Kernels also copy and fill memory of the device.
enum class Engine : std::uint8_t { kKernels, kOut, kIn, kPeers };

// Times are nanoseconds from the start of the device on. Streams have the names of the host device.
// Thread-safe.
class DeviceClock {
 public:
  void Run(Engine engine, std::uint64_t stream, StreamKind kind, std::int64_t nanoseconds);
  // Runs work that begins at a time or later, in no stream. Returns when it ends.
  std::int64_t RunAfter(Engine engine, std::int64_t begin, std::int64_t nanoseconds);
  // Lets a stream do nothing for some time.
  void Pause(std::uint64_t stream, StreamKind kind, std::int64_t nanoseconds);
  // Returns when the work of a stream so far ends.
  std::int64_t EndOf(std::uint64_t stream, StreamKind kind);
  // Later work of the stream, or of all, begins at this time or later.
  void Wait(std::uint64_t stream, StreamKind kind, std::int64_t until);
  void WaitOnHost(std::int64_t until);
  void DestroyStream(std::uint64_t stream, StreamKind kind);

  // Returns whether work that ends at a time has ended for the host, which launches kernels
  // meanwhile.
  bool HasEndedForHost(std::int64_t until) const;
  // Returns the number of kernels so far.
  std::int64_t launches() const;

  // Returns when all work so far ends.
  std::int64_t end() const;
  // Returns the sum of the times of all work so far.
  std::int64_t sum() const;

 private:
  static constexpr std::size_t kEngines = 4;
  static constexpr std::size_t kLaunchesAhead = 1024;  // the next one waits, as with CUDA

  struct OfStream {
    StreamKind kind = StreamKind::kBlocking;
    std::int64_t end = 0;
  };

  std::int64_t RunLocked(Engine engine, std::int64_t begin, std::int64_t nanoseconds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LaunchLocked(std::int64_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::int64_t& TurnOf(std::uint64_t stream, StreamKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable locks::Mutex mutex_;
  // All but the legacy stream.
  absl::flat_hash_map<std::uint64_t, OfStream> streams_ ABSL_GUARDED_BY(mutex_);
  std::array<std::int64_t, kEngines> engines_ ABSL_GUARDED_BY(mutex_) = {};
  std::int64_t legacy_ ABSL_GUARDED_BY(mutex_) = 0;
  // The end of the work of blocking streams that were destroyed.
  std::int64_t destroyed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t host_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t launch_ ABSL_GUARDED_BY(mutex_) = 0;  // the time of the host's last launch
  std::int64_t launches_ ABSL_GUARDED_BY(mutex_) = 0;
  // The ends of the last kernels in a ring.
  std::array<std::int64_t, kLaunchesAhead> kernels_ ABSL_GUARDED_BY(mutex_) = {};
  std::int64_t end_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t sum_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_DEVICE_CLOCK_H_
