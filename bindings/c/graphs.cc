// SPDX-License-Identifier: Apache-2.0
// Segments come from the pool on a stream of their own, which the host waits for: a capture cannot
// wait for work outside of it.
#include "bindings/c/graphs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/owned.h"

namespace tidepool::c_api {

absl::Status Graphs::Begin(void* native) {
  const locks::MutexLock lock(&mutex_);
  if (begun_.contains(native)) {
    return absl::FailedPreconditionError(
        "the stream has begun a graph: call tidepool_end_graph first");
  }
  if (absl::Status status = RecordBefore(); !status.ok()) return status;
  Graph graph;
  // The first segment comes before the capture: the pool then records the work of the stream so
  // far, which it could not do later.
  if (absl::Status status = AddSegment(graph, 1, native); !status.ok()) return status;
  begun_[native] = ++last_;
  graphs_[last_] = std::move(graph);
  NoteExtent();
  device_.NoteCapture(true);
  return absl::OkStatus();
}

absl::Status Graphs::NoteForeign(bool begins) {
  const locks::MutexLock lock(&mutex_);
  if (begins) {
    if (absl::Status status = RecordBefore(); !status.ok()) return status;
    ++foreign_;
  } else if (foreign_ > 0) {
    --foreign_;
  } else {
    return absl::FailedPreconditionError("no capture has begun that could end");
  }
  device_.NoteCapture(begins);
  if (!begins) GiveBackReleased();
  return absl::OkStatus();
}

absl::Status Graphs::RecordBefore() {
  return begun_.empty() && foreign_ == 0 ? pool_.RecordWork() : absl::OkStatus();
}

bool Graphs::HasBegun(void* native) const {
  if (!HasBegun()) return false;
  const locks::MutexLock lock(&mutex_);
  return begun_.contains(native);
}

absl::StatusOr<Graphs::Ended> Graphs::End(void* native) {
  const locks::MutexLock lock(&mutex_);
  const auto begun = begun_.find(native);
  if (begun == begun_.end()) {
    return absl::NotFoundError(
        "the stream has begun no graph: call tidepool_begin_graph before the capture");
  }
  Ended ended{.number = begun->second, .held = {}};
  ended.held.swap(graphs_.at(ended.number).held);
  begun_.erase(begun);
  device_.NoteCapture(false);
  GiveBackReleased();
  return ended;
}

absl::Status Graphs::Release(std::size_t number) {
  const locks::MutexLock lock(&mutex_);
  const Numbered found = graphs_.find(number);
  if (found == graphs_.end() || found->second.is_released) {
    return absl::NotFoundError(absl::StrCat("the pool has no graph ", number));
  }
  for (const auto& [native, begun] : begun_) {
    if (begun != number) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("graph ", number, " has not ended: call tidepool_end_graph first"));
  }
  Graph& graph = found->second;
  for (const auto& [address, is_freed] : graph.used_elsewhere) {
    if (is_freed) graph.memory.Free(address);
  }
  graph.used_elsewhere.clear();
  graph.is_released = true;
  GiveBackReleased();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<void*>> Graphs::Allocate(std::size_t bytes, void* native) {
  const locks::MutexLock lock(&mutex_);
  const auto begun = begun_.find(native);
  if (begun == begun_.end()) return std::nullopt;
  Graph& graph = graphs_.at(begun->second);
  const std::size_t rounded = bindings::PrivatePool::Rounded(bytes);
  if (void* const address = graph.memory.Take(rounded, native)) return address;
  if (absl::Status status = AddSegment(graph, rounded, native); !status.ok()) return status;
  return graph.memory.Take(rounded, native);
}

absl::StatusOr<bool> Graphs::Free(void* address, void* native) {
  const locks::MutexLock lock(&mutex_);
  const Numbered owner = OwnerOf(address);
  if (owner == graphs_.end()) {
    const auto begun = begun_.find(native);
    if (begun == begun_.end()) return false;
    // A record of this free would belong to the capture.
    if (absl::Status status = pool_.AllocatedOn(address).status(); !status.ok()) return status;
    if (graphs_.at(begun->second).held.insert(address).second) return true;
    return absl::InvalidArgumentError("the address was freed before");
  }
  Graph& graph = owner->second;
  // The graph need not order another stream of the capture before the next user of the block.
  const auto& block = graph.memory.state().blocks.at(static_cast<char*>(address));
  if (block.stream != native && !graph.is_released)
    graph.used_elsewhere.try_emplace(address, false);
  const auto used = graph.used_elsewhere.find(address);
  if (used != graph.used_elsewhere.end()) {
    if (used->second) return absl::InvalidArgumentError("the address was freed before");
    used->second = true;
    return true;
  }
  graph.memory.Free(address);
  if (graph.is_released) GiveBackReleased();
  return true;
}

bool Graphs::RecordUse(void* address) {
  const locks::MutexLock lock(&mutex_);
  const Numbered owner = OwnerOf(address);
  if (owner == graphs_.end()) return false;
  // A released graph is not launched again, and its memory waits for the work of all streams.
  if (!owner->second.is_released) owner->second.used_elsewhere.try_emplace(address, false);
  return true;
}

std::map<const void*, Graphs::Segment> Graphs::Segments() const {
  std::map<const void*, Segment> segments;
  const locks::MutexLock lock(&mutex_);
  for (const auto& [number, graph] : graphs_) {
    for (const auto& [address, segment] : graph.memory.state().segments) {
      segments[address] = {number, segment.stream};
    }
  }
  return segments;
}

void Graphs::Clear() {
  const locks::MutexLock lock(&mutex_);
  for (std::size_t i = 0; i < begun_.size() + foreign_; ++i) device_.NoteCapture(false);
  begun_.clear();
  foreign_ = 0;
  graphs_.clear();
  NoteExtent();
}

absl::Status Graphs::AddSegment(Graph& graph, std::size_t bytes, void* native) {
  const absl::StatusOr<Stream> service = Service();
  if (!service.ok()) return service.status();
  const std::size_t segment = bindings::PrivatePool::SegmentBytes(bytes);
  return device_.InRelaxedCapture([&]() -> absl::Status {
    absl::StatusOr<void*> address = pool_.Allocate(segment, *service);
    std::size_t taken = segment;
    if (!address.ok() && segment > bytes) {  // no room for more than was asked for
      address = pool_.Allocate(bytes, *service);
      taken = bytes;
    }
    if (!address.ok()) return address.status();
    absl::Status status = device_.device().SynchronizeStream(*service);
    if (!status.ok()) {
      pool_.Free(*address, *service).IgnoreError();
      return status;
    }
    graph.memory.AddSegment(*address, taken, native);
    return status;
  });
}

// Memory that cannot go back now, because a stream captures, goes back with the next graph that
// ends.
void Graphs::GiveBackReleased() {
  for (auto numbered = graphs_.begin(); numbered != graphs_.end();) {
    const auto current = numbered++;
    if (!current->second.is_released) continue;
    GiveBackIdle(current->second).IgnoreError();
    if (current->second.memory.is_empty()) graphs_.erase(current);
  }
  NoteExtent();
}

void Graphs::NoteExtent() {
  std::uintptr_t first = UINTPTR_MAX;
  std::uintptr_t end = 0;
  for (const auto& [number, graph] : graphs_) {
    for (const auto& [address, segment] : graph.memory.state().segments) {
      const auto begin = reinterpret_cast<std::uintptr_t>(address);
      first = std::min(first, begin);
      end = std::max(end, begin + segment.bytes);
    }
  }
  first_.store(first, std::memory_order_relaxed);
  end_.store(end, std::memory_order_relaxed);
  // Last: a thread that sees a graph end sees its addresses.
  begun_count_.store(begun_.size(), std::memory_order_release);
}

absl::Status Graphs::GiveBackIdle(Graph& graph) {
  auto idle = graph.memory.TakeIdle();
  if (idle.empty()) return absl::OkStatus();
  Device& device = device_.device();
  const absl::StatusOr<Stream> service = Service();
  absl::Status status = service.status();
  if (status.ok()) {
    device::OwnedEvent event;
    status = event.Ensure(device);
    if (status.ok()) status = device.RecordAll(event.get());
    if (status.ok()) status = device.WaitEvent(*service, event.get());
  }
  for (const auto& [address, segment] : idle) {
    if (status.ok()) status = pool_.Free(address, *service);
    if (!status.ok()) graph.memory.AddSegment(address, segment.bytes, segment.stream);
  }
  return status;
}

absl::StatusOr<Stream> Graphs::Service() {
  if (service_.id != 0) return service_;
  absl::StatusOr<Stream> created = device_.device().CreateStream();
  if (created.ok()) service_ = *created;
  return created;
}

Graphs::Numbered Graphs::OwnerOf(void* address) {
  for (auto numbered = graphs_.begin(); numbered != graphs_.end(); ++numbered) {
    const auto& blocks = numbered->second.memory.state().blocks;
    const auto found = blocks.find(static_cast<char*>(address));
    if (found != blocks.end() && found->second.is_live) return numbered;
  }
  return graphs_.end();
}

}  // namespace tidepool::c_api
