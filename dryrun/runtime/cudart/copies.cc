// SPDX-License-Identifier: Apache-2.0
// Copies and fills. The stream's host device runs those that touch its memory, so that they can be
// slow or held. The rest, from host to host and between other devices, is a host function.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "dryrun/runtime/cudart/assumed_time.h"
#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/errors.h"
#include "dryrun/runtime/cudart/known_copies.h"
#include "dryrun/runtime/cudart/memory_operations.h"

namespace tidepool::cudart_host {
namespace {

bool IsOfDevices(const Region& region) {
  return region.kind == MemoryKind::kDevice || region.kind == MemoryKind::kManaged ||
         region.kind == MemoryKind::kMapped;
}

bool IsOfHost(const Region& region) {
  return region.kind == MemoryKind::kPageable || region.kind == MemoryKind::kPinned ||
         region.kind == MemoryKind::kRegistered || region.kind == MemoryKind::kManaged;
}

bool KindFits(cudaMemcpyKind kind, const Region& to, const Region& from) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return IsOfHost(to) && IsOfHost(from);
    case cudaMemcpyHostToDevice:
      return IsOfDevices(to) && IsOfHost(from);
    case cudaMemcpyDeviceToHost:
      return IsOfHost(to) && IsOfDevices(from);
    case cudaMemcpyDeviceToDevice:
      return IsOfDevices(to) && IsOfDevices(from);
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

// Returns the bytes from the first to the last byte of a shape, including the gaps between rows.
std::int64_t Span(std::size_t pitch, const CopyShape& shape) {
  return static_cast<std::int64_t>(pitch * (shape.height - 1) + shape.width);
}

absl::Status QueueRow(const StreamRef& stream, char* to, bool to_is_here, const char* from,
                      bool from_is_here, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  if (to_is_here && from_is_here) {
    return stream.host().Copy(to, from, size, CopyDirection::kOnDevice, stream.stream);
  }
  if (to_is_here) {
    return stream.host().Copy(to, from, size, CopyDirection::kToDevice, stream.stream);
  }
  if (from_is_here) {
    return stream.host().Copy(to, from, size, CopyDirection::kFromDevice, stream.stream);
  }
  return stream.host().CallHost(stream.stream, [=] { std::memmove(to, from, bytes); });
}

// Reads the source at once, into memory that is freed when the copy has finished.
CopyShape Stage(const CopyShape& shape, std::shared_ptr<std::vector<char>>& staged) {
  staged = std::make_shared<std::vector<char>>(shape.width * shape.height);
  for (std::size_t row = 0; row < shape.height; ++row) {
    std::memcpy(staged->data() + row * shape.width, shape.from + row * shape.from_pitch,
                shape.width);
  }
  CopyShape copy = shape;
  copy.from = staged->data();
  copy.from_pitch = shape.width;
  return copy;
}

bool IsWithinReach(StandInDevice& device, const Region& region) {
  if (region.kind == MemoryKind::kMapped) return (region.access >> device.ordinal() & 1) != 0;
  return region.kind == MemoryKind::kManaged || region.device.get() == &device ||
         device.HasPeer(region.device->ordinal());
}

// Whether memory lies on two devices, and only calls that name both can copy it: one side is
// virtual memory, and the stream's device lacks access.
bool NeedsDevices(const StreamRef& stream, const Region& to, const Region& from) {
  if (!IsOfDevices(to) || !IsOfDevices(from) || to.device == from.device) return false;
  if (to.kind != MemoryKind::kMapped && from.kind != MemoryKind::kMapped) return false;
  return !IsWithinReach(*stream.device, to) || !IsWithinReach(*stream.device, from);
}

// Returns the error of a copy that CUDA refuses.
cudaError_t CheckCopy(Runtime& runtime, const StreamRef& stream, const CopyShape& asked,
                      cudaMemcpyKind kind) {
  if (asked.to == nullptr || asked.from == nullptr || asked.width > SIZE_MAX / 4) {
    return cudaErrorInvalidValue;
  }
  if (asked.height > 1 && (asked.width > asked.to_pitch || asked.width > asked.from_pitch)) {
    return cudaErrorInvalidPitchValue;
  }
  const Region to = runtime.memory.Classify(asked.to, Span(asked.to_pitch, asked));
  const Region from = runtime.memory.Classify(asked.from, Span(asked.from_pitch, asked));
  if (to.kind == MemoryKind::kInvalid || from.kind == MemoryKind::kInvalid ||
      !KindFits(kind, to, from)) {
    return cudaErrorInvalidValue;
  }
  if (!asked.has_devices && NeedsDevices(stream, to, from)) return cudaErrorInvalidValue;
  return cudaSuccess;
}

// Whether the memory holds no data, because the configuration has none.
bool IsEmpty(const Region& region) {
  return region.kind == MemoryKind::kDevice || region.kind == MemoryKind::kMapped;
}

cudaError_t QueueWithoutData(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                             const Region& to, const Region& from) {
  absl::Status status;
  if (!IsEmpty(to)) {
    status = QueueReadOfKnown(runtime, stream, shape, to.kind == MemoryKind::kPinned);
  } else if (IsEmpty(from)) {
    status = QueueCopyOfKnown(runtime, stream, shape);
  } else {
    status = QueueWriteOfKnown(runtime, stream, shape);
  }
  if (status.ok() && to.kind == MemoryKind::kPageable) {
    status = stream.device->Synchronize(stream.stream, stream.kind);
  }
  return ErrorOf(status, cudaErrorInvalidResourceHandle);
}

// Lets a copy or fill take its time: that of the device's memory, or of the link to the host.
void PassTime(const Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
              bool from_is_host, bool to_is_host) {
  const auto bytes = static_cast<double>(shape.width) * static_cast<double>(shape.height);
  if (from_is_host == to_is_host) {
    // A copy reads and writes; a fill writes.
    const double moved = shape.from == nullptr ? bytes : 2 * bytes;
    stream.PassTime(Engine::kKernels, AssumedTime(runtime.config(), moved));
  } else {
    stream.PassTime(to_is_host ? Engine::kOut : Engine::kIn,
                    AssumedTimeOfLink(runtime.config(), bytes));
  }
}

cudaError_t QueueChecked(Runtime& runtime, const StreamRef& stream, const CopyShape& asked) {
  const Region to = runtime.memory.Classify(asked.to, Span(asked.to_pitch, asked));
  const Region from = runtime.memory.Classify(asked.from, Span(asked.from_pitch, asked));
  PassTime(runtime, stream, asked, !IsOfDevices(from), !IsOfDevices(to));
  if (runtime.config().has_data == 0 && (IsEmpty(to) || IsEmpty(from))) {
    return QueueWithoutData(runtime, stream, asked, to, from);
  }
  CopyShape shape = asked;
  std::shared_ptr<std::vector<char>> staged;
  if (from.kind == MemoryKind::kPageable) shape = Stage(asked, staged);
  const bool to_is_here = IsOfDevices(to) && to.device == stream.device;
  const bool from_is_here = IsOfDevices(from) && from.device == stream.device;
  absl::Status status = stream.Enqueue([&] {
    absl::Status queued;
    for (std::size_t row = 0; row < shape.height && queued.ok(); ++row) {
      queued = QueueRow(stream, shape.to + row * shape.to_pitch, to_is_here,
                        shape.from + row * shape.from_pitch, from_is_here, shape.width);
    }
    if (staged == nullptr) return queued;
    queued.Update(stream.host().CallHost(stream.stream, [staged] {}));
    return queued;
  });
  if (status.ok() && to.kind == MemoryKind::kPageable) {
    status = stream.device->Synchronize(stream.stream, stream.kind);
  }
  return ErrorOf(status, cudaErrorInvalidResourceHandle);
}

cudaError_t CheckFill(Runtime& runtime, const CopyShape& shape) {
  if (shape.to == nullptr || shape.width > SIZE_MAX / 4) return cudaErrorInvalidValue;
  if (shape.height > 1 && shape.width > shape.to_pitch) return cudaErrorInvalidPitchValue;
  const Region region = runtime.memory.Classify(shape.to, Span(shape.to_pitch, shape));
  return region.kind == MemoryKind::kInvalid || region.kind == MemoryKind::kPageable
             ? cudaErrorInvalidValue
             : cudaSuccess;
}

cudaError_t QueueCheckedFill(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                             int value) {
  PassTime(runtime, stream, shape, false, false);
  const Region region = runtime.memory.Classify(shape.to, Span(shape.to_pitch, shape));
  if (runtime.config().has_data == 0 && IsEmpty(region)) {
    return ErrorOf(QueueFillOfKnown(runtime, stream, shape, value), cudaErrorInvalidResourceHandle);
  }
  const bool is_here = IsOfDevices(region) && region.device == stream.device;
  return ErrorOf(stream.Enqueue([&] {
    absl::Status queued;
    for (std::size_t row = 0; row < shape.height && queued.ok(); ++row) {
      char* const begin = shape.to + row * shape.to_pitch;
      const std::size_t width = shape.width;
      queued = is_here ? stream.host().Fill(begin, static_cast<std::uint8_t>(value),
                                            static_cast<std::int64_t>(width), stream.stream)
                       : stream.host().CallHost(stream.stream,
                                                [=] { std::memset(begin, value, width); });
    }
    return queued;
  }),
                 cudaErrorInvalidResourceHandle);
}

}  // namespace

cudaError_t QueueCopy(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                      cudaMemcpyKind kind) {
  if (shape.width == 0 || shape.height == 0) return cudaSuccess;
  const cudaError_t error = CheckCopy(runtime, stream, shape, kind);
  if (error != cudaSuccess) return error;
  return QueueOrCapture(runtime, stream, cudaGraphNodeTypeMemcpy,
                        [=](Runtime& again, const StreamRef& on) {
                          // A graph may be launched after its memory was freed.
                          const cudaError_t refusal = CheckCopy(again, on, shape, kind);
                          return refusal != cudaSuccess ? refusal : QueueChecked(again, on, shape);
                        });
}

cudaError_t QueueFill(Runtime& runtime, const StreamRef& stream, void* to, std::size_t pitch,
                      int value, std::size_t width, std::size_t height) {
  if (width == 0 || height == 0) return cudaSuccess;
  const CopyShape shape = {static_cast<char*>(to), pitch, nullptr, 0, width, height};
  const cudaError_t error = CheckFill(runtime, shape);
  if (error != cudaSuccess) return error;
  return QueueOrCapture(
      runtime, stream, cudaGraphNodeTypeMemset, [=](Runtime& again, const StreamRef& on) {
        const cudaError_t refusal = CheckFill(again, shape);
        return refusal != cudaSuccess ? refusal : QueueCheckedFill(again, on, shape, value);
      });
}

cudaError_t CopyNow(const char* function, cudaStream_t handle, const CopyShape& shape,
                    cudaMemcpyKind kind) {
  return CallOnStream(function, handle, [&](Runtime& runtime, const StreamRef& stream) {
    const cudaError_t refusal = runtime.captures.RefuseQuery(stream);
    if (refusal != cudaSuccess) return refusal;
    const cudaError_t error = QueueCopy(runtime, stream, shape, kind);
    if (error != cudaSuccess) return error;
    return ErrorOf(stream.device->Synchronize(stream.stream, stream.kind),
                   cudaErrorInvalidResourceHandle);
  });
}

}  // namespace tidepool::cudart_host
