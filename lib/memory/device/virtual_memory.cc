// SPDX-License-Identifier: Apache-2.0
// Changes the books only after the backing succeeded, so a failed call leaves both as they were.
#include "lib/memory/device/virtual_memory.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tidepool::device {
namespace {

// Makes a call, and repeats it once if it fails. For destructors, which cannot report an error.
template <typename Call>
void TryTwice(Call call) {
  if (!call().ok()) call().IgnoreError();
}

absl::Status NoPhysical(PhysicalMemory memory) {
  return absl::NotFoundError(absl::StrCat("the device has no physical memory ", memory.id));
}

}  // namespace

VirtualMemory::~VirtualMemory() {
  VirtualBacking& backing = *backing_;
  for (const auto& [address, name] : physical_at_) {
    const Physical& memory = physical_.at(name);
    TryTwice([&, at = address] { return backing.Unmap(at, memory.handle, memory.bytes); });
  }
  for (const auto& [name, physical] : physical_) {
    const std::uint64_t handle = physical.handle;
    if (!physical.is_released) TryTwice([&] { return backing.ReleaseHandle(handle); });
    backing.Reclaim(handle, physical.bytes);
  }
  reserved_.ForEach([&](void* address, std::int64_t bytes) {
    TryTwice([&] { return backing.Release(address, bytes); });
  });
}

absl::StatusOr<void*> VirtualMemory::ReserveAddresses(std::int64_t bytes) {
  if (absl::Status status = CheckBytes(bytes); !status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  absl::StatusOr<void*> address = backing_->Reserve(bytes);
  if (address.ok()) reserved_.Insert(*address, bytes);
  return address;
}

absl::Status VirtualMemory::ReleaseAddresses(void* address, std::int64_t bytes) {
  const locks::MutexLock lock(&mutex_);
  const std::int64_t reserved = reserved_.BytesAt(address);
  if (reserved == 0) return absl::NotFoundError("no reserved range begins at the address");
  if (reserved != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked for ", bytes, " bytes, the range has ", reserved));
  }
  if (mapped_.Overlap(address, bytes)) {
    return absl::InvalidArgumentError("memory is mapped in the range, unmap it first");
  }
  absl::Status status = backing_->Release(address, bytes);
  if (status.ok()) reserved_.Erase(address);
  return status;
}

absl::StatusOr<PhysicalMemory> VirtualMemory::CreatePhysical(std::int64_t bytes) {
  if (absl::Status status = CheckBytes(bytes); !status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  const absl::StatusOr<std::uint64_t> handle = backing_->Create(bytes);
  if (!handle.ok()) return handle.status();
  const std::uint64_t name = names_.Next();
  physical_.emplace(name, Physical{.handle = *handle, .bytes = bytes});
  return PhysicalMemory{.id = name};
}

absl::Status VirtualMemory::ReleasePhysical(PhysicalMemory memory) {
  const locks::MutexLock lock(&mutex_);
  const auto found = physical_.find(memory.id);
  if (found == physical_.end() || found->second.is_released) return NoPhysical(memory);
  absl::Status status = backing_->ReleaseHandle(found->second.handle);
  if (!status.ok()) return status;
  found->second.is_released = true;
  DropIfUnreachable(found);
  return absl::OkStatus();
}

absl::Status VirtualMemory::Map(void* address, PhysicalMemory memory) {
  const locks::MutexLock lock(&mutex_);
  const auto found = physical_.find(memory.id);
  if (found == physical_.end() || found->second.is_released) return NoPhysical(memory);
  Physical& physical = found->second;
  if (reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(granularity_) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address is not a multiple of ", granularity_, " bytes"));
  }
  if (!reserved_.Contain(address, physical.bytes)) {
    return absl::InvalidArgumentError("the addresses do not lie in one reserved range");
  }
  if (mapped_.Overlap(address, physical.bytes)) {
    return absl::InvalidArgumentError(
        "memory is mapped at some of the addresses already, unmap it first");
  }
  absl::Status status = backing_->Map(address, physical.handle, physical.bytes);
  if (!status.ok()) return status;
  mapped_.Insert(address, physical.bytes);
  physical_at_.emplace(address, memory.id);
  ++physical.mappings;
  return absl::OkStatus();
}

absl::Status VirtualMemory::Unmap(void* address) {
  const locks::MutexLock lock(&mutex_);
  const auto found = physical_at_.find(address);
  if (found == physical_at_.end()) return absl::NotFoundError("nothing is mapped at the address");
  const auto physical = physical_.find(found->second);
  const Physical& memory = physical->second;
  absl::Status status = backing_->Unmap(address, memory.handle, memory.bytes);
  if (!status.ok()) return status;
  mapped_.Erase(address);
  physical_at_.erase(found);
  --physical->second.mappings;
  DropIfUnreachable(physical);
  return absl::OkStatus();
}

bool VirtualMemory::IsMapped(const void* address, std::int64_t bytes) const {
  const locks::MutexLock lock(&mutex_);
  return mapped_.Cover(address, bytes);
}

bool VirtualMemory::OverlapsReserved(const void* address, std::int64_t bytes) const {
  const locks::MutexLock lock(&mutex_);
  return reserved_.Overlap(address, bytes);
}

absl::Status VirtualMemory::CheckBytes(std::int64_t bytes) const {
  if (bytes > 0 && bytes % granularity_ == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("asked for ", bytes, " bytes, expected a positive multiple of ", granularity_));
}

void VirtualMemory::DropIfUnreachable(PhysicalMap::iterator physical) {
  const Physical& memory = physical->second;
  if (!memory.is_released || memory.mappings > 0) return;
  backing_->Reclaim(memory.handle, memory.bytes);
  physical_.erase(physical);
}

}  // namespace tidepool::device
