// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/device_clock.h"

#include <algorithm>

namespace tidepool::cudart_host {
namespace {

// PyTorch's time for an operator in the host, in nanoseconds.
constexpr std::int64_t kHostLaunch = 10'000;

}  // namespace

void DeviceClock::Run(Engine engine, std::uint64_t stream, StreamKind kind,
                      std::int64_t nanoseconds) {
  const locks::MutexLock lock(&mutex_);
  std::int64_t& end = TurnOf(stream, kind);
  end = RunLocked(engine, end, nanoseconds);
  if (engine == Engine::kKernels) LaunchLocked(end);
}

void DeviceClock::LaunchLocked(std::int64_t end) {
  std::int64_t& oldest = kernels_[static_cast<std::size_t>(launches_++) % kLaunchesAhead];
  launch_ = std::max(std::max(launch_, host_) + kHostLaunch, oldest);
  oldest = end;
}

std::int64_t DeviceClock::RunAfter(Engine engine, std::int64_t begin, std::int64_t nanoseconds) {
  const locks::MutexLock lock(&mutex_);
  return RunLocked(engine, begin, nanoseconds);
}

std::int64_t DeviceClock::RunLocked(Engine engine, std::int64_t begin, std::int64_t nanoseconds) {
  std::int64_t& of_engine = engines_[static_cast<std::size_t>(engine)];
  of_engine = std::max({begin, of_engine, host_}) + nanoseconds;
  end_ = std::max(end_, of_engine);
  sum_ += nanoseconds;
  return of_engine;
}

void DeviceClock::Pause(std::uint64_t stream, StreamKind kind, std::int64_t nanoseconds) {
  const locks::MutexLock lock(&mutex_);
  std::int64_t& end = TurnOf(stream, kind);
  end = std::max(end, host_) + nanoseconds;
  end_ = std::max(end_, end);
  sum_ += nanoseconds;
}

std::int64_t DeviceClock::EndOf(std::uint64_t stream, StreamKind kind) {
  const locks::MutexLock lock(&mutex_);
  return std::max(TurnOf(stream, kind), host_);
}

void DeviceClock::Wait(std::uint64_t stream, StreamKind kind, std::int64_t until) {
  const locks::MutexLock lock(&mutex_);
  std::int64_t& end = TurnOf(stream, kind);
  end = std::max(end, until);
}

void DeviceClock::WaitOnHost(std::int64_t until) {
  const locks::MutexLock lock(&mutex_);
  host_ = std::max(host_, until);
}

bool DeviceClock::HasEndedForHost(std::int64_t until) const {
  const locks::MutexLock lock(&mutex_);
  return until <= std::max(launch_, host_);
}

std::int64_t DeviceClock::launches() const {
  const locks::MutexLock lock(&mutex_);
  return launches_;
}

void DeviceClock::DestroyStream(std::uint64_t stream, StreamKind kind) {
  const locks::MutexLock lock(&mutex_);
  if (kind == StreamKind::kBlocking) destroyed_ = std::max(destroyed_, TurnOf(stream, kind));
  streams_.erase(stream);
}

std::int64_t DeviceClock::end() const {
  const locks::MutexLock lock(&mutex_);
  return end_;
}

std::int64_t DeviceClock::sum() const {
  const locks::MutexLock lock(&mutex_);
  return sum_;
}

// Returns the end of a stream's work, with that of the streams that it waits for.
std::int64_t& DeviceClock::TurnOf(std::uint64_t stream, StreamKind kind) {
  if (kind == StreamKind::kLegacy) {
    legacy_ = std::max(legacy_, destroyed_);
    for (const auto& [name, other] : streams_) {
      if (other.kind == StreamKind::kBlocking) legacy_ = std::max(legacy_, other.end);
    }
    return legacy_;
  }
  OfStream& found = streams_[stream];
  found.kind = kind;
  if (kind == StreamKind::kBlocking) found.end = std::max(found.end, legacy_);
  return found.end;
}

}  // namespace tidepool::cudart_host
