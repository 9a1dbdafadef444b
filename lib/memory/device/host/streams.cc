// SPDX-License-Identifier: Apache-2.0
// A destroyed stream is removed by its own thread when its work is done. A thread cannot join
// itself, so it leaves itself to the next thread that ends. At most one thread at a time has ended
// and is not joined, so joining the last thread joins all of them.
#include "lib/memory/device/host/streams.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tidepool::host {
namespace {

absl::Status NoStream(Stream stream) {
  return absl::NotFoundError(absl::StrCat("the device has no stream ", stream.id));
}

}  // namespace

Streams::~Streams() {
  std::vector<Stream> streams;
  {
    const locks::MutexLock lock(&mutex_);
    for (const auto& [name, entry] : entries_) {
      if (!entry.is_destroyed) streams.push_back({.id = name});
    }
  }
  for (const Stream stream : streams) Destroy(stream).IgnoreError();
  std::thread last;
  {
    const locks::MutexLock lock(&mutex_);
    while (!entries_.empty()) was_removed_.Wait(&mutex_);
    last.swap(last_ended_);
  }
  if (last.joinable()) last.join();
}

Stream Streams::Create() {
  const locks::MutexLock lock(&mutex_);
  const std::uint64_t name = names_.Next();
  entries_[name].queue = std::make_shared<WorkQueue>(
      [this, name](std::thread thread) { Remove(name, std::move(thread)); });
  return {.id = name};
}

absl::Status Streams::Destroy(Stream stream) {
  const locks::MutexLock lock(&mutex_);
  const auto found = entries_.find(stream.id);
  if (found == entries_.end() || found->second.is_destroyed) return NoStream(stream);
  found->second.is_destroyed = true;
  if (!found->second.queue->Close()) entries_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<WorkQueue>> Streams::Find(Stream stream) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = entries_.find(stream.id);
  if (found == entries_.end() || found->second.is_destroyed) return NoStream(stream);
  return found->second.queue;
}

absl::StatusOr<QueuePosition> Streams::EndOf(Stream stream) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = entries_.find(stream.id);
  if (found != entries_.end()) return found->second.queue->End();
  if (names_.HasGiven(stream.id)) return QueuePosition();
  return NoStream(stream);
}

std::vector<QueuePosition> Streams::EndsOfAll() const {
  std::vector<QueuePosition> ends;
  const locks::MutexLock lock(&mutex_);
  for (const auto& [name, entry] : entries_) ends.push_back(entry.queue->End());
  return ends;
}

void Streams::Remove(std::uint64_t name, std::thread thread) {
  {
    const locks::MutexLock lock(&mutex_);
    entries_.erase(name);
    last_ended_.swap(thread);
    was_removed_.SignalAll();
  }
  if (thread.joinable()) thread.join();
}

}  // namespace tidepool::host
