// One device of the stand-in: a host device, and what CUDA adds to streams.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_STAND_IN_DEVICE_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_STAND_IN_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/cudart_host/control.h"
#include "tidepool/host_device.h"

namespace tidepool::cudart_host {

enum class StreamKind : std::uint8_t { kBlocking, kNonBlocking, kLegacy };

// Thread-safe. In the end, held copies are released and what was queued is finished.
class StandInDevice {
 public:
  StandInDevice(int ordinal, const CudartHostConfig& config);
  StandInDevice(const StandInDevice&) = delete;
  StandInDevice& operator=(const StandInDevice&) = delete;

  int ordinal() const { return ordinal_; }
  HostDevice& host() { return *host_; }

  // The error that every call on the device returns since it broke; 0 while it works.
  int broken_with() const { return broken_with_.load(); }
  void Break(int error) { broken_with_.store(error); }

  // Streams. A legacy stream takes turns with the blocking ones: its work waits for all of theirs
  // before it, and theirs after it waits for it.
  absl::StatusOr<Stream> CreateStream(StreamKind kind);
  absl::Status DestroyStream(Stream stream, StreamKind kind);
  Stream legacy_stream() const { return legacy_; }
  // The calling thread's own.
  absl::StatusOr<Stream> PerThreadStream();
  // Calls `queue`, which queues work on the stream and returns a status, in its turn.
  template <typename Queue>
  absl::Status Enqueue(Stream stream, StreamKind kind, Queue queue) {
    const std::lock_guard lock(mutex_);
    if (absl::Status status = TakeTurn(stream, kind); !status.ok()) return status;
    return queue();
  }
  // Whether all that was queued on the stream so far is over.
  absl::StatusOr<bool> IsIdle(Stream stream, StreamKind kind);
  absl::Status Synchronize(Stream stream, StreamKind kind);
  // Waits for all streams, destroyed ones too.
  absl::Status SynchronizeAll();

  bool IsAllIdle();

  // Memory that is freed when what the stream was given so far is over.
  absl::Status FreeLater(void* address, Stream stream, StreamKind kind);
  // Frees what can be freed.
  void FreeWhatIsDue();

  // Devices that may be reached from here, by ordinal. Returns whether something changed.
  bool EnablePeer(int ordinal);
  bool DisablePeer(int ordinal);

 private:
  struct Ended {
    Event event;
    StreamKind kind;
  };
  struct LateFree {
    void* address;
    Event event;
  };

  absl::Status TakeTurn(Stream stream, StreamKind kind);
  absl::Status Join(Stream from, Stream to);
  void ForgetEnded();

  const int ordinal_;
  std::unique_ptr<HostDevice> host_;
  std::atomic<int> broken_with_ = 0;
  std::mutex mutex_;  // of all below; held while work is queued, never while it is waited for
  Stream legacy_;
  Event scratch_;
  absl::flat_hash_map<std::uint64_t, StreamKind> streams_;
  absl::flat_hash_map<std::thread::id, Stream> per_thread_;
  std::vector<Ended> ended_;  // the ends of destroyed streams
  std::vector<LateFree> late_frees_;
  std::set<int> peers_;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_STAND_IN_DEVICE_H_
