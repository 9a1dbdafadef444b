// A destroyed stream is removed by its own thread when its work is done. A thread cannot join
// itself, so it leaves itself to the next thread that ends. At most one thread at a time has ended
// and is not joined, so joining the last thread joins all of them.
#include "lib/device/host/streams.h"

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
  std::unique_lock lock(mutex_);
  std::vector<Stream> streams;
  for (const auto& [name, entry] : entries_) {
    if (!entry.is_destroyed) streams.push_back({.id = name});
  }
  lock.unlock();
  for (const Stream stream : streams) Destroy(stream).IgnoreError();
  lock.lock();
  was_forgotten_.wait(lock, [this] { return entries_.empty(); });
  lock.unlock();
  if (last_ended_.joinable()) last_ended_.join();
}

Stream Streams::Create() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t name = names_.Next();
  entries_[name].queue = std::make_shared<WorkQueue>(
      [this, name](std::thread thread) { Forget(name, std::move(thread)); });
  return {.id = name};
}

absl::Status Streams::Destroy(Stream stream) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(stream.id);
  if (found == entries_.end() || found->second.is_destroyed) return NoStream(stream);
  found->second.is_destroyed = true;
  if (!found->second.queue->Close()) entries_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<WorkQueue>> Streams::Find(Stream stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(stream.id);
  if (found == entries_.end() || found->second.is_destroyed) return NoStream(stream);
  return found->second.queue;
}

absl::StatusOr<Mark> Streams::EndOf(Stream stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(stream.id);
  if (found != entries_.end()) return found->second.queue->End();
  if (names_.HasGiven(stream.id)) return Mark();
  return NoStream(stream);
}

void Streams::Forget(std::uint64_t name, std::thread thread) {
  {
    const std::lock_guard lock(mutex_);
    entries_.erase(name);
    last_ended_.swap(thread);
    was_forgotten_.notify_all();
  }
  if (thread.joinable()) thread.join();
}

}  // namespace tidepool::host
