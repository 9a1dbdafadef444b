// Reserved addresses are mapped to nothing and fault; physical memory is a stretch of a file in
// memory. Both cost the host nothing, and a mapping joins them until a page is touched. The books
// change only after the system did what was asked.
#include "lib/device/host/virtual_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tidepool::host {
namespace {

constexpr int kWithoutMemory = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Takes addresses, the first of which is a multiple of `alignment`, that fault.
absl::StatusOr<char*> TakeAddresses(std::uintptr_t bytes, std::uintptr_t alignment) {
  void* taken = mmap(nullptr, bytes + alignment, PROT_NONE, kWithoutMemory, -1, 0);
  if (taken == MAP_FAILED) return absl::ErrnoToStatus(errno, "the host has no such addresses");
  const auto begin = reinterpret_cast<std::uintptr_t>(taken);
  const std::uintptr_t skipped = (alignment - begin % alignment) % alignment;
  char* address = static_cast<char*>(taken) + skipped;
  if (skipped > 0) munmap(taken, skipped);
  if (skipped < alignment) munmap(address + bytes, alignment - skipped);
  return address;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VirtualMemory>> VirtualMemory::Create(std::int64_t granularity,
                                                                     MemoryBudget* budget) {
  absl::StatusOr<std::unique_ptr<MemoryFile>> file = MemoryFile::Create();
  if (!file.ok()) return file.status();
  return std::unique_ptr<VirtualMemory>(new VirtualMemory(granularity, budget, *std::move(file)));
}

VirtualMemory::VirtualMemory(std::int64_t granularity, MemoryBudget* budget,
                             std::unique_ptr<MemoryFile> file)
    : granularity_(granularity), budget_(*budget), file_(std::move(file)) {}

VirtualMemory::~VirtualMemory() {
  reserved_.ForEach(
      [](void* address, std::int64_t bytes) { munmap(address, static_cast<std::size_t>(bytes)); });
}

absl::StatusOr<void*> VirtualMemory::ReserveAddresses(std::int64_t bytes) {
  if (absl::Status status = CheckBytes(bytes); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  absl::StatusOr<char*> address =
      TakeAddresses(static_cast<std::uintptr_t>(bytes), static_cast<std::uintptr_t>(granularity_));
  if (!address.ok()) return address.status();
  reserved_.Insert(*address, bytes);
  return *address;
}

absl::Status VirtualMemory::ReleaseAddresses(void* address, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::int64_t reserved = reserved_.BytesAt(address);
  if (reserved == 0) return absl::NotFoundError("no reserved range begins at the address");
  if (reserved != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked for ", bytes, " bytes, the range has ", reserved));
  }
  if (mapped_.Overlap(address, bytes)) {
    return absl::InvalidArgumentError("memory is mapped in the range");
  }
  if (munmap(address, static_cast<std::size_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno, "the host keeps the addresses");
  }
  reserved_.Erase(address);
  return absl::OkStatus();
}

absl::StatusOr<PhysicalMemory> VirtualMemory::CreatePhysical(std::int64_t bytes) {
  if (absl::Status status = CheckBytes(bytes); !status.ok()) return status;
  if (absl::Status status = budget_.Take(bytes); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  absl::StatusOr<std::int64_t> offset = file_->Allocate(bytes);
  if (!offset.ok()) {
    budget_.Return(bytes);
    return offset.status();
  }
  const std::uint64_t name = names_.Next();
  physical_.emplace(name, Physical{.offset = *offset, .bytes = bytes});
  return PhysicalMemory{.id = name};
}

absl::Status VirtualMemory::ReleasePhysical(PhysicalMemory memory) {
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(memory.id);
  if (found == physical_.end() || found->second.is_released) {
    return absl::NotFoundError(absl::StrCat("the device has no physical memory ", memory.id));
  }
  found->second.is_released = true;
  DropIfUnreachable(found);
  return absl::OkStatus();
}

absl::Status VirtualMemory::Map(void* address, PhysicalMemory memory) {
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(memory.id);
  if (found == physical_.end() || found->second.is_released) {
    return absl::NotFoundError(absl::StrCat("the device has no physical memory ", memory.id));
  }
  Physical& physical = found->second;
  if (reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(granularity_) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address is no multiple of ", granularity_, " bytes"));
  }
  if (!reserved_.Contain(address, physical.bytes)) {
    return absl::InvalidArgumentError("the addresses are not in one reserved range");
  }
  if (mapped_.Overlap(address, physical.bytes)) {
    return absl::InvalidArgumentError("memory is mapped there already");
  }
  if (absl::Status status = file_->MapAt(address, physical.offset, physical.bytes); !status.ok()) {
    return status;
  }
  mapped_.Insert(address, physical.bytes);
  physical_at_.emplace(address, memory.id);
  ++physical.mappings;
  return absl::OkStatus();
}

absl::Status VirtualMemory::Unmap(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = physical_at_.find(address);
  if (found == physical_at_.end()) return absl::NotFoundError("nothing is mapped at the address");
  const auto physical = physical_.find(found->second);
  const auto bytes = static_cast<std::size_t>(physical->second.bytes);
  if (mmap(address, bytes, PROT_NONE, kWithoutMemory | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, "the host cannot unmap");
  }
  mapped_.Erase(address);
  physical_at_.erase(found);
  --physical->second.mappings;
  DropIfUnreachable(physical);
  return absl::OkStatus();
}

bool VirtualMemory::IsMapped(const void* address, std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return mapped_.Cover(address, bytes);
}

bool VirtualMemory::OverlapsReserved(const void* address, std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
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
  file_->Free(memory.offset, memory.bytes);
  budget_.Return(memory.bytes);
  physical_.erase(physical);
}

}  // namespace tidepool::host
