// SPDX-License-Identifier: Apache-2.0
// A pool of the C interface: a device, a pool on it, and the streams by their handles.
#ifndef TIDEPOOL_BINDINGS_C_C_POOL_H_
#define TIDEPOOL_BINDINGS_C_C_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/c/c_device.h"
#include "bindings/c/graphs.h"
#include "bindings/c/owners.h"
#include "bindings/c/room_makers.h"
#include "bindings/c/streams.h"
#include "bindings/c/switched_recorder.h"
#include "bindings/support/settings.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/c_api.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"

namespace tidepool::c_api {

// Returns a size of C for functions that take signed ones: at most their largest.
inline std::int64_t Clamped(std::size_t bytes) {
  constexpr std::size_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(bytes < kMost ? bytes : kMost);
}

// The functions of c_api.h with checked arguments. Thread-safe.
class CPool {
 public:
  static absl::StatusOr<std::unique_ptr<CPool>> Create(std::string_view options);
  // Returns the error of Create for wrong options.
  static absl::Status Check(std::string_view options);
  CPool(const CPool&) = delete;
  CPool& operator=(const CPool&) = delete;

  absl::StatusOr<void*> Allocate(std::size_t bytes, void* native, Hint hint, int priority = 0) {
    if (graphs_->HasBegun() || MayCapture(native)) [[unlikely]] {
      absl::StatusOr<std::optional<void*>> in_graph = AllocateInGraph(bytes, native);
      if (!in_graph.ok()) return in_graph.status();
      if (in_graph->has_value()) return **in_graph;
    }
    const absl::StatusOr<Stream> stream = streams_.NameOf(native);
    if (!stream.ok()) [[unlikely]]
      return stream.status();
    absl::StatusOr<void*> address = TryAllocate(*pool_, bytes, *stream, hint, priority);
    if (!address.ok() && IsShortage(address.status())) [[unlikely]]
      return WithHelp(address.status(), bytes);
    return address;
  }
  // Allocates under the name of an owner.
  absl::StatusOr<void*> AllocateFor(std::size_t owner, std::size_t bytes, void* native, Hint hint);
  // Allocates in the region of a tag.
  absl::StatusOr<void*> AllocateIn(std::string_view tag, std::size_t bytes, void* native, Hint hint,
                                   int priority = 0);
  absl::Status PauseRegions(std::span<RegionPause> pauses, void* native);
  absl::Status ResumeRegions(std::span<const std::string_view> tags, void* native);
  absl::Status DiscardContents(std::string_view tag);
  absl::Status AwaitContents(const void* address, std::size_t bytes, void* native);
  absl::Status LimitRegion(std::string_view tag, std::size_t least_bytes, std::size_t most_bytes);
  // Fills the statistics of the first regions, and returns the number of all.
  absl::StatusOr<std::size_t> FillRegions(tidepool_region_statistics* regions,
                                          std::size_t capacity) const;
  // Returns whether an address lies in the pool or in one of its regions.
  bool Owns(const void* address) const;
  absl::Status Free(void* address, void* native) {
    if (owners_.HasLive()) [[unlikely]]
      return FreeOwned(address, [&] { return FreeInPool(address, native); });
    return FreeInPool(address, native);
  }
  absl::Status RecordUse(void* address, void* native);

  Owners& owners() { return owners_; }
  RoomMakers& room_makers() { return room_makers_; }
  Graphs& graphs() { return *graphs_; }
  absl::Status BeginGraph(void* native);
  absl::Status EndGraph(void* native, std::size_t& number);
  absl::Status Abandon(void* native);
  // Frees memory of a stream that may have been destroyed, after all work of the stream.
  absl::Status FreeLate(void* address);
  // Lets the stream be destroyed after any call that names it, also with option streams=stay.
  absl::Status LetStreamEnd(void* native);

  absl::StatusOr<void*> CreateStream();
  absl::Status DestroyStream(void* native);
  absl::Status SynchronizeStream(void* native);
  absl::Status ForgetStream(void* native);

  absl::Status StartTrace(const std::string& path);
  absl::Status StopTrace();

  // Returns the pool of page-locked memory, which the first call makes.
  absl::StatusOr<PinnedPool*> Pinned();

  // Returns the blocks. A segment of a graph is one, with the stream that the graph was begun on.
  std::vector<tidepool_block> Blocks() const;
  // Writes the blocks and the statistics as JSON.
  absl::Status WriteSnapshot(const std::string& path) const;

  Pool& pool() { return *pool_; }
  int ordinal() const { return device_->ordinal(); }
  bool prints_errors() const { return settings_.errors; }

  // Writes the trace, and prints the statistics if they are enabled. Makes no call of the device,
  // so it may run at the end of a process.
  void Report();
  // Ends a pool: returns its memory to the device. Keeps the objects of a pool if its memory is
  // gone already, because their handles may belong to other objects by now.
  static absl::Status End(std::unique_ptr<CPool> pool);

 private:
  CPool(bindings::Settings settings, std::unique_ptr<CDevice> device)
      : settings_(std::move(settings)), device_(std::move(device)), streams_(*device_) {}

  // Returns a pool that has a device and no memory.
  static absl::StatusOr<std::unique_ptr<CPool>> Make(std::string_view options);
  absl::Status Start();
  std::vector<tidepool_block> Blocks(const std::map<const void*, Graphs::Segment>& segments) const;
  absl::StatusOr<PoolOptions> MakeOptions() const;
  absl::StatusOr<std::unique_ptr<Pool>> MakePool(const PoolOptions& options);
  void ObserveForTool(PoolOptions& options);
  bool MakeRoom(const OutOfMemoryRequest& request);
  // The priority counts where the request waits. Those of a function that makes room do not: the
  // request that called it may hold up the others.
  absl::StatusOr<void*> TryAllocate(Pool& pool, std::size_t bytes, Stream stream, Hint hint,
                                    int priority) {
    if (settings_.wait == absl::ZeroDuration() || RoomMakers::IsInFunction()) [[likely]]
      return pool.Allocate(bytes, stream, hint);
    return AllocateBlocking(pool, bytes, stream, hint, priority);
  }
  absl::StatusOr<void*> AllocateBlocking(Pool& pool, std::size_t bytes, Stream stream, Hint hint,
                                         int priority);
  static bool IsShortage(const absl::Status& error) {
    return absl::IsResourceExhausted(error) || absl::IsDeadlineExceeded(error);
  }
  static constexpr std::uintptr_t kPerThread = 2;  // cudaStreamPerThread, where there is CUDA
  // Whether a stream is worth the question if it captures: the default stream cannot.
  bool MayCapture(void* native) const {
    if (IsDefault(native)) return false;
    if (!settings_.streams_stay) return true;
    return has_ending_.load(std::memory_order_relaxed) && streams_.MayEnd(native);
  }
  static bool IsDefault(const void* native) {
    return reinterpret_cast<std::uintptr_t>(native) <= 1;  // NULL and cudaStreamLegacy
  }
  // Forgets the stream that had the handle before, if that one was destroyed.
  absl::Status ForgetReplaced(void* native);
  void GiveNamesBack();
  // Allocates in the graph of a stream that captures. Nothing for other streams. FailedPrecondition
  // for a stream that captures and has begun no graph.
  absl::StatusOr<std::optional<void*>> AllocateInGraph(std::size_t bytes, void* native);
  absl::Status FreeInPool(void* address, void* native) {
    if (graphs_->MayConcern(address)) [[unlikely]] {
      const absl::StatusOr<bool> is_freed = graphs_->Free(address, native);
      if (!is_freed.ok() || *is_freed) return is_freed.status();
    }
    const absl::StatusOr<Stream> stream = streams_.NameOf(native);
    if (!stream.ok()) [[unlikely]]
      return stream.status();
    if (reinterpret_cast<std::uintptr_t>(native) == kPerThread && device_->IsOfThread(native))
        [[unlikely]]
      NoteOtherThread(address, *stream);
    return pool_->Free(address, *stream);
  }
  // Notes the work of the thread that allocated, where another frees on its own stream: to callers
  // the two streams are one handle.
  void NoteOtherThread(void* address, Stream stream);
  absl::Status FreeLateInPool(void* address);
  // Frees an allocation that may have an owner, and counts that.
  absl::Status FreeOwned(void* address, absl::FunctionRef<absl::Status()> free);
  absl::Status WithHelp(const absl::Status& error, std::size_t bytes) const;
  std::string DeviceName() const;
  void EndPinned();

  const bindings::Settings settings_;
  const std::unique_ptr<CDevice> device_;
  Streams streams_;
  std::atomic<bool> has_ending_ = false;  // LetStreamEnd was called for a stream
  locks::Mutex replaced_mutex_;           // of ForgetReplaced
  Owners owners_;
  RoomMakers room_makers_;
  std::unique_ptr<SwitchedRecorder> recorder_;   // null: nothing can be recorded
  std::unique_ptr<PoolObserver> tool_observer_;  // null: no tool is attached
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Graphs> graphs_;  // of the pool
  locks::Mutex pinned_mutex_;
  std::unique_ptr<PinnedPool> pinned_ ABSL_GUARDED_BY(pinned_mutex_);
};

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_C_POOL_H_
