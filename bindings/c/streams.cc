// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/streams.h"

namespace tidepool::c_face {

absl::StatusOr<Stream> Streams::Keep(void* native, absl::StatusOr<Stream> name) {
  if (!name.ok()) return name;
  const locks::MutexLock lock(&mutex_);
  if (Entry* const entry = Find(native)) {
    entry->Rename(*name);
    return name;
  }
  entries_.push_back(std::make_unique<Entry>(native, *name, device_.IsOfThread(native)));
  Entry* const entry = entries_.back().get();
  if (native == nullptr) {
    default_.store(entry, std::memory_order_release);
  } else {
    table_.Add(native, entry);
  }
  return name;
}

Stream Streams::LastNameOf(void* native) const {
  const Entry* const entry = Find(native);
  if (entry == nullptr) return {};
  const Stream name = entry->name();
  return name.id != 0 ? name : entry->names().back();
}

void Streams::Forget(void* native) {
  if (Entry* const entry = Find(native)) entry->Forget();
}

absl::flat_hash_map<std::uint64_t, void*> Streams::Handles() const {
  absl::flat_hash_map<std::uint64_t, void*> handles;
  const locks::MutexLock lock(&mutex_);
  for (const auto& entry : entries_) {
    for (const Stream name : entry->names()) handles.emplace(name.id, entry->native);
  }
  return handles;
}

}  // namespace tidepool::c_face
