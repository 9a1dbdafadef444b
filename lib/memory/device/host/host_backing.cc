// SPDX-License-Identifier: Apache-2.0
// Reserved addresses have no memory and fault. Physical memory is a range of a file in memory, and
// its handle is the offset of the range. Neither costs memory of the host until a mapped page is
// touched.
#include "lib/memory/device/host/host_backing.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "lib/memory/device/host/memory_file.h"
#include "lib/memory/device/host/parked_pages.h"
#include "lib/memory/device/host/reserved_addresses.h"

namespace tidepool::host {

absl::StatusOr<void*> TakeAddresses(std::uintptr_t bytes, std::uintptr_t alignment) {
  void* taken = mmap(nullptr, bytes + alignment, PROT_NONE, kWithoutMemory, -1, 0);
  if (taken == MAP_FAILED) return absl::ErrnoToStatus(errno, "the host has no addresses left");
  const auto begin = reinterpret_cast<std::uintptr_t>(taken);
  const std::uintptr_t skipped = (alignment - begin % alignment) % alignment;
  char* address = static_cast<char*>(taken) + skipped;
  if (skipped > 0) munmap(taken, skipped);
  if (skipped < alignment) munmap(address + bytes, alignment - skipped);
  return address;
}

namespace {

class HostBacking final : public device::VirtualBacking {
 public:
  HostBacking(std::int64_t granularity, MemoryBudget* budget, std::unique_ptr<MemoryFile> file)
      : granularity_(granularity),
        budget_(*budget),
        file_(std::move(file)),
        parked_(budget->total_bytes() & -granularity, granularity) {}

  absl::StatusOr<void*> Reserve(std::int64_t bytes) override {
    return TakeAddresses(static_cast<std::uintptr_t>(bytes),
                         static_cast<std::uintptr_t>(granularity_));
  }

  absl::Status Release(void* address, std::int64_t bytes) override {
    if (munmap(address, static_cast<std::size_t>(bytes)) != 0) {
      return absl::ErrnoToStatus(errno, "the host could not unmap the addresses");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::uint64_t> Create(std::int64_t bytes) override {
    if (absl::Status status = budget_.Take(bytes); !status.ok()) return status;
    const absl::StatusOr<std::int64_t> offset = file_->Allocate(bytes);
    if (offset.ok()) return static_cast<std::uint64_t>(*offset);
    budget_.Return(bytes);
    return offset.status();
  }

  absl::Status ReleaseHandle(std::uint64_t /*handle*/) override { return absl::OkStatus(); }

  void Reclaim(std::uint64_t handle, std::int64_t bytes) override {
    file_->Free(static_cast<std::int64_t>(handle), bytes);
    parked_.Forget(static_cast<std::int64_t>(handle));
    budget_.Return(bytes);
  }

  absl::Status Map(void* address, std::uint64_t handle, std::int64_t bytes) override {
    const auto offset = static_cast<std::int64_t>(handle);
    if (parked_.MoveTo(address, offset, bytes)) return absl::OkStatus();
    return file_->MapAt(address, offset, bytes);
  }

  absl::Status Unmap(void* address, std::uint64_t handle, std::int64_t bytes) override {
    parked_.Park(address, static_cast<std::int64_t>(handle), bytes);
    if (mmap(address, static_cast<std::size_t>(bytes), PROT_NONE, kWithoutMemory | MAP_FIXED, -1,
             0) == MAP_FAILED) {
      return absl::ErrnoToStatus(errno, "the host could not unmap the memory");
    }
    return absl::OkStatus();
  }

 private:
  const std::int64_t granularity_;
  MemoryBudget& budget_;
  const std::unique_ptr<MemoryFile> file_;
  ParkedPages parked_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<device::VirtualBacking>> MakeHostBacking(std::int64_t granularity,
                                                                        MemoryBudget* budget) {
  absl::StatusOr<std::unique_ptr<MemoryFile>> file = MemoryFile::Create();
  if (!file.ok()) return file.status();
  return std::make_unique<HostBacking>(granularity, budget, *std::move(file));
}

}  // namespace tidepool::host
