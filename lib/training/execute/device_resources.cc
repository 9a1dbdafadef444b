// SPDX-License-Identifier: Apache-2.0
#include "lib/training/execute/device_resources.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/training/execute/queue_plan.h"

namespace tidepool::execute {
namespace {

constexpr std::int64_t kDeviceAlignment = 512;  // of all allocations of a device

std::byte* RoundedUp(void* address, std::int64_t alignment) {
  const auto step = static_cast<std::uintptr_t>(alignment);
  const auto past = reinterpret_cast<std::uintptr_t>(address) % step;
  return static_cast<std::byte*>(address) + (past == 0 ? 0 : step - past);
}

absl::Status Named(const absl::Status& status, std::size_t device, std::int64_t bytes,
                   const char* in = "") {
  return absl::Status(status.code(), absl::StrCat("no ", bytes, " bytes", in, " on device ", device,
                                                  ": ", status.message()));
}

}  // namespace

DeviceResources::~DeviceResources() {
  for (std::size_t i = 0; i < allocations_.size(); ++i) {
    if (allocations_[i] != nullptr) devices_[i]->FreeMemory(allocations_[i]).IgnoreError();
  }
}

absl::Status DeviceResources::TakePages(const Program& program) {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    pages_.push_back(std::make_unique<PagedMemory>(*devices_[i]));
    absl::Status status = pages_.back()->Take(program, i);
    if (!status.ok()) return Named(status, i, program.pool_bytes[i], " of pages");
    memory_.push_back(pages_.back()->addresses());
    bytes_.push_back(program.pool_bytes[i]);
  }
  return absl::OkStatus();
}

absl::Status DeviceResources::BeginIteration(bool follows) {
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if (follows) pages_[i]->MoveHomes();
    if (absl::Status status = pages_[i]->Map(); !status.ok()) {
      return Named(status, i, bytes_[i], " of pages");
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceResources::TakeMemory(const Program& program, std::int64_t alignment) {
  if (program.memory == ScheduleMemory::kPaged) return TakePages(program);
  // Devices allocate whole blocks, and another schedule may need the rest of the last one.
  for (const std::int64_t bytes : program.pool_bytes) {
    bytes_.push_back(RoundUp(bytes, kDeviceAlignment));
  }
  alignment_ = alignment;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    allocations_.push_back(nullptr);
    memory_.push_back(nullptr);
    if (bytes_[i] == 0) continue;
    const std::int64_t slack = std::max<std::int64_t>(alignment - kDeviceAlignment, 0);
    const std::int64_t bytes = bytes_[i] + slack;
    const absl::StatusOr<void*> memory = devices_[i]->AllocateMemory(bytes);
    if (!memory.ok()) return Named(memory.status(), i, bytes);
    allocations_.back() = *memory;
    memory_.back() = RoundedUp(*memory, alignment);
  }
  return absl::OkStatus();
}

absl::Status DeviceResources::CheckMemory(const Program& program, std::int64_t alignment) const {
  if (program.memory == ScheduleMemory::kPaged || !pages_.empty()) {
    return absl::InvalidArgumentError(
        "one of the two schedules has pages, expected fixed addresses in both: make another "
        "executor");
  }
  if (alignment > alignment_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the schedule has an alignment of ", alignment, ", expected at most ",
                     alignment_, ", that of the memory which the executor holds"));
  }
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (program.pool_bytes[i] <= bytes_[i]) continue;
    return absl::ResourceExhaustedError(absl::StrCat("the schedule needs ", program.pool_bytes[i],
                                                     " bytes on device ", i, ", expected at most ",
                                                     bytes_[i], ", which the executor holds"));
  }
  return absl::OkStatus();
}

absl::Status DeviceResources::CreateStreams(const Program& program) {
  std::vector<bool> is_used(program.streams.size());
  // The first stream ends the iteration of a program without operations.
  is_used.front() = program.operations.empty();
  for (const ProgramOperation& operation : program.operations) is_used[operation.stream] = true;
  streams_.resize(program.streams.size());
  stream_devices_.clear();
  for (const ProgramStream& stream : program.streams) {
    stream_devices_.push_back(DeviceOfStream(stream));
  }
  for (std::size_t i = 0; i < program.streams.size(); ++i) {
    if (!is_used[i] || streams_[i] != Stream()) continue;
    absl::StatusOr<device::OwnedStream> stream = device::OwnedStream::Create(device_of(i));
    if (!stream.ok()) return stream.status();
    streams_[i] = stream->get();
    owned_streams_.push_back(*std::move(stream));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<HostArea>> HostArea::Take(Device& device, std::int64_t bytes) {
  std::shared_ptr<HostArea> area(new HostArea(device, bytes));
  if (bytes == 0) return area;
  const absl::StatusOr<void*> memory = device.AllocatePinned(bytes);
  if (!memory.ok()) {
    return absl::Status(
        memory.status().code(),
        absl::StrCat("no ", bytes, " bytes of pinned host memory: ", memory.status().message()));
  }
  area->memory_ = static_cast<std::byte*>(*memory);
  return area;
}

HostArea::~HostArea() {
  if (memory_ != nullptr) device_.FreePinned(memory_).IgnoreError();
}

}  // namespace tidepool::execute
