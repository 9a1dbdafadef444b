// SPDX-License-Identifier: Apache-2.0
// The memory of graphs that a program captures. A launch of a graph writes to the addresses that
// the capture was given, so the graph keeps them until it is released.
#ifndef TIDEPOOL_BINDINGS_C_GRAPHS_H_
#define TIDEPOOL_BINDINGS_C_GRAPHS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/c/c_device.h"
#include "bindings/support/private_pool.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/pool.h"

namespace tidepool::c_api {

// Graphs have the numbers from 1 on. Thread-safe. The device and the pool outlive it.
class Graphs {
 public:
  Graphs(CDevice& device, Pool& pool) : device_(device), pool_(pool) {}
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  // Whether a graph has begun that has not ended. Allocations matter here then alone.
  bool HasBegun() const { return begun_count_.load(std::memory_order_acquire) != 0; }
  // Whether memory may belong to a graph, or its free concern one that has begun. Takes no lock:
  // the thread that frees a block of an ended graph has seen the graph begin or end, and so a range
  // of addresses that has the block.
  bool MayConcern(const void* address) const {
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    return HasBegun() || (number >= first_.load(std::memory_order_relaxed) &&
                          number < end_.load(std::memory_order_relaxed));
  }

  // Begins the graph of a stream, to which later allocations on the stream belong. The pool has
  // forgotten the stream, so that it records nothing in it. FailedPrecondition if the stream has
  // begun a graph.
  absl::Status Begin(void* native);
  bool HasBegun(void* native) const;
  // An ended graph, and the frees of other memory that came on its stream meanwhile.
  struct Ended {
    std::size_t number = 0;
    absl::flat_hash_set<void*> held;
  };
  // NotFound if the stream has not begun a graph.
  absl::StatusOr<Ended> End(void* native);
  // Gives the memory of an ended graph back to the pool, after all work that the device has now;
  // live blocks follow when they are freed, and all of it after the captures of other streams.
  // NotFound for a graph that is not there.
  absl::Status Release(std::size_t number);

  // Notes that a capture with memory of others begins, or has ended. FailedPrecondition for an end
  // without a beginning.
  absl::Status NoteForeign(bool begins);

  // Allocates in the graph that the stream has begun; returns nothing for other streams.
  absl::StatusOr<std::optional<void*>> Allocate(std::size_t bytes, void* native);
  // Frees memory of a graph, and keeps a free on a stream with a graph until the graph ends.
  // Returns false for other memory, which the pool frees.
  absl::StatusOr<bool> Free(void* address, void* native);
  // Notes that another stream uses memory of a graph, which then serves no other request of the
  // graph. Returns false for other memory.
  bool RecordUse(void* address);
  // A block of the pool that a graph has.
  struct Segment {
    std::size_t graph = 0;
    void* stream = nullptr;
  };
  // Returns the segments of all graphs by address.
  std::map<const void*, Segment> Segments() const;
  // Forgets all graphs: the pool ends.
  void Clear();

 private:
  struct Graph {
    bindings::PrivatePool memory;
    // Blocks that other streams use, and whether they were freed.
    absl::flat_hash_map<void*, bool> used_elsewhere;
    absl::flat_hash_set<void*> held;  // frees of the pool's memory on the stream during the graph
    bool is_released = false;
  };
  using Numbered = std::map<std::size_t, Graph>::iterator;

  absl::Status AddSegment(Graph& graph, std::size_t bytes, void* native)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records the work of all streams before the first capture, which could not do that later.
  absl::Status RecordBefore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes the graphs that have begun and the addresses of all, after a change.
  void NoteExtent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBackReleased() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status GiveBackIdle(Graph& graph) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Stream> Service() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Numbered OwnerOf(void* address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CDevice& device_;
  Pool& pool_;
  std::atomic<std::size_t> begun_count_ = 0;  // of begun_
  std::atomic<std::uintptr_t> first_ = 0;     // of the addresses of all segments
  std::atomic<std::uintptr_t> end_ = 0;
  mutable locks::Mutex mutex_;
  std::map<std::size_t, Graph> graphs_ ABSL_GUARDED_BY(mutex_);
  std::map<void*, std::size_t> begun_ ABSL_GUARDED_BY(mutex_);  // graphs by stream
  std::size_t foreign_ ABSL_GUARDED_BY(mutex_) = 0;             // captures of NoteForeign
  std::size_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  Stream service_ ABSL_GUARDED_BY(mutex_);  // hands segments over; none before the first
};

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_GRAPHS_H_
