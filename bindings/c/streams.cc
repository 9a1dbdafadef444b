// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/streams.h"

namespace tidepool::c_api {

absl::StatusOr<Stream> Streams::Keep(void* native, absl::StatusOr<Stream> name) {
  if (!name.ok()) return name;
  // A capture does not survive the question for the number.
  const bool is_asked = native != nullptr && !device_.IsCapturing(native).value_or(true);
  const std::uint64_t number = is_asked ? device_.NumberOf(native) : 0;
  const locks::MutexLock lock(&mutex_);
  FindOrAdd(native, *name).number.store(number, std::memory_order_relaxed);
  return name;
}

absl::StatusOr<Stream> Streams::RegisterEnding(void* native) {
  absl::StatusOr<Stream> name = Keep(native, device_.NameOfEnding(native));
  if (name.ok()) LetEnd(native);
  return name;
}

void Streams::LetEnd(void* native) {
  if (Entry* const entry = Find(native)) entry->may_end.store(true, std::memory_order_relaxed);
}

Streams::Entry& Streams::FindOrAdd(void* native, Stream name) {
  if (Entry* const entry = Find(native)) {
    if (!entry->WasNamed(name)) ++renamed_;
    entry->Rename(name);
    return *entry;
  }
  entries_.push_back(std::make_unique<Entry>(native, name, device_.IsOfThread(native)));
  Entry* const entry = entries_.back().get();
  if (native == nullptr) {
    default_.store(entry, std::memory_order_release);
  } else {
    table_.Add(native, entry);
  }
  return *entry;
}

bool Streams::MayEnd(void* native) const {
  const Entry* const entry = Find(native);
  return entry != nullptr && entry->may_end.load(std::memory_order_relaxed);
}

bool Streams::WasReplaced(void* native) const {
  const Entry* const entry = Find(native);
  if (entry == nullptr || entry->is_of_thread) return false;
  const std::uint64_t number = entry->number.load(std::memory_order_relaxed);
  return number != 0 && device_.NumberOf(native) != number;
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

bool Streams::HasManyNames() const {
  constexpr std::size_t kMany = 64;
  const locks::MutexLock lock(&mutex_);
  return renamed_ > entries_.size() + kMany;
}

void Streams::KeepUsed(absl::FunctionRef<bool(Stream)> is_used) {
  const locks::MutexLock lock(&mutex_);
  for (const auto& entry : entries_) entry->KeepUsed(is_used);
  renamed_ = 0;
}

}  // namespace tidepool::c_api
