// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/home_copies.h"

#include "absl/status/statusor.h"
#include "lib/training/schedule/steps/begin_on_host.h"

namespace tidepool::execute {
namespace {

// Data begins at such multiples, as allocations of devices do.
constexpr std::int64_t kHomeAlignment = 512;

absl::Status Create(Device& device, Event& event) {
  const absl::StatusOr<Event> made = device.CreateEvent();
  if (made.ok()) event = *made;
  return made.status();
}

}  // namespace

HomeCopies::~HomeCopies() {
  for (const Home& home : homes_) {
    if (home.arrival != Event()) device_.DestroyEvent(home.arrival).IgnoreError();
  }
  if (queued_ != Event()) device_.DestroyEvent(queued_).IgnoreError();
  if (memory_ != nullptr) device_.FreePinned(memory_).IgnoreError();
}

absl::Status HomeCopies::Start() {
  homes_.resize(graph_.data.size());
  const std::vector<bool> are_on_host = schedule::BeginOnHost(graph_);
  std::vector<std::int64_t> offsets(graph_.data.size());
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    if (!are_on_host[i]) continue;
    offsets[i] = bytes_;
    bytes_ += (graph_.data[i].bytes + kHomeAlignment - 1) & -kHomeAlignment;
  }
  if (bytes_ == 0) return absl::OkStatus();
  const absl::StatusOr<void*> memory = device_.AllocatePinned(bytes_);
  if (!memory.ok()) return memory.status();
  memory_ = *memory;
  absl::Status status = Create(device_, queued_);
  for (std::size_t i = 0; i < homes_.size() && status.ok(); ++i) {
    if (!are_on_host[i]) continue;
    homes_[i].address = static_cast<std::byte*>(memory_) + offsets[i];
    status = Create(device_, homes_[i].arrival);
  }
  return status;
}

absl::Status HomeCopies::Fetch(std::size_t data, void* to, Stream compute, Stream in,
                               const CopyWatch& watch) {
  Home& home = homes_[data];
  absl::Status status = device_.RecordEvent(queued_, compute);
  if (status.ok()) status = device_.WaitEvent(in, queued_);
  if (status.ok() && watch.begins != Event()) status = device_.RecordEvent(watch.begins, in);
  if (status.ok()) {
    status = device_.Copy(to, home.address, graph_.data[data].bytes, CopyDirection::kToDevice, in);
  }
  if (status.ok() && watch.ends != Event()) status = device_.RecordEvent(watch.ends, in);
  if (status.ok()) status = device_.RecordEvent(home.arrival, in);
  home.is_arriving = status.ok();
  return status;
}

absl::Status HomeCopies::Await(std::size_t data, Stream compute) {
  Home& home = homes_[data];
  if (!home.is_arriving) return absl::OkStatus();
  home.is_arriving = false;
  return device_.WaitEvent(compute, home.arrival);
}

absl::Status HomeCopies::AwaitAll(Stream compute) {
  absl::Status status;
  for (std::size_t i = 0; i < homes_.size() && status.ok(); ++i) status = Await(i, compute);
  return status;
}

}  // namespace tidepool::execute
