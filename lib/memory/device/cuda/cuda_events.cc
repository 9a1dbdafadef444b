// SPDX-License-Identifier: Apache-2.0
// Guards each event by a lock of its own: recording calls CUDA, and must not block other events.
#include "lib/memory/device/cuda/cuda_events.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/peers.h"

namespace tidepool::cuda {
namespace {

absl::Status NoEvent(Event event) {
  return absl::NotFoundError(absl::StrCat("the device has no event ", event.id));
}

using CudaEventPeers = device::Peers<CudaEvents>;

}  // namespace

CudaEvents::CudaEvents(NativeEventPools* pools) : pools_(*pools) {
  CudaEventPeers::OfProcess().Add(this);
}

CudaEvents::~CudaEvents() { CudaEventPeers::OfProcess().Remove(this); }

Event CudaEvents::Create(EventKind kind) {
  const locks::MutexLock lock(&mutex_);
  const std::uint64_t name = names_.Next();
  states_.emplace(name, std::make_shared<State>(pools_.of(kind)));
  return {.id = name};
}

absl::Status CudaEvents::Destroy(Event event) {
  const locks::MutexLock lock(&mutex_);
  return states_.erase(event.id) == 1 ? absl::OkStatus() : NoEvent(event);
}

absl::Status CudaEvents::SetShared(Event event, SharedRecording recording) {
  const absl::StatusOr<std::shared_ptr<State>> state = Find(event);
  if (!state.ok()) return state.status();
  const locks::MutexLock lock(&(*state)->mutex);
  (*state)->recording = std::move(recording);
  return absl::OkStatus();
}

absl::StatusOr<SharedRecording> CudaEvents::Get(Event event) const {
  const absl::StatusOr<std::shared_ptr<State>> state = Find(event);
  if (!state.ok()) return state.status();
  const locks::MutexLock lock(&(*state)->mutex);
  return (*state)->recording;
}

absl::StatusOr<SharedRecording> CudaEvents::GetOfAny(Event event) const {
  absl::StatusOr<SharedRecording> own = Get(event);
  if (own.ok()) return own;
  return CudaEventPeers::OfProcess().Ask([&](const CudaEvents& other) { return other.Get(event); },
                                         std::move(own));
}

absl::StatusOr<std::shared_ptr<CudaEvents::State>> CudaEvents::Find(Event event) const {
  const locks::MutexLock lock(&mutex_);
  const auto found = states_.find(event.id);
  if (found == states_.end()) return NoEvent(event);
  return found->second;
}

}  // namespace tidepool::cuda
