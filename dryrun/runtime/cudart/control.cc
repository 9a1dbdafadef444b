// SPDX-License-Identifier: Apache-2.0
// Passes the calls of tests on to the runtime.
#include "dryrun/runtime/cudart/control.h"

#include <cstring>

#include "dryrun/runtime/cudart/runtime.h"
#include "dryrun/runtime/cudart/settings.h"
#include "lib/base/locks/mutex.h"

using tidepool::cudart_host::KnownBytes;
using tidepool::cudart_host::MemoryKind;
using tidepool::cudart_host::Region;
using tidepool::cudart_host::Runtime;

extern "C" {

void cudartHostDefaultConfig(CudartHostConfig* config) {
  *config = tidepool::cudart_host::ConfigOfEnvironment();
}

int cudartHostConfigure(const CudartHostConfig* config) {
  if (!tidepool::cudart_host::IsValid(*config)) return 0;
  Runtime::Get().Configure(*config);
  return 1;
}

void cudartHostFailCall(const char* function, long long n, int error) {
  Runtime::Get().counts.Order(function == nullptr ? "" : function, n, error);
}

long long cudartHostCountCalls(const char* function) {
  return Runtime::Get().counts.Count(function == nullptr ? "" : function);
}

long long cudartHostCountKernels(const char* name) {
  return Runtime::Get().kernels.Count(name == nullptr ? "" : name);
}

long long cudartHostCountSpins(void) { return Runtime::Get().spins; }

long long cudartHostCountKnown(const void* from, long long bytes) {
  Runtime& runtime = Runtime::Get();
  if (runtime.config().has_data != 0) return bytes;
  return runtime.known.CountIn(static_cast<const char*>(from), bytes);
}

long long cudartHostReadData(const void* from, void* to, long long bytes) {
  Runtime& runtime = Runtime::Get();
  const auto size = static_cast<std::size_t>(bytes);
  if (runtime.config().has_data == 0) {
    std::memset(to, 0, size);
    return runtime.known.Read(static_cast<const char*>(from), static_cast<char*>(to), bytes);
  }
  std::memcpy(to, from, size);
  return bytes;
}

void cudartHostWriteData(void* to, const void* from, long long bytes) {
  Runtime& runtime = Runtime::Get();
  auto* const begin = static_cast<char*>(to);
  const auto size = static_cast<std::size_t>(bytes);
  if (runtime.config().has_data != 0) {
    from == nullptr ? std::memset(begin, 0, size) : std::memcpy(begin, from, size);
  } else if (from == nullptr) {
    runtime.known.Forget(begin, bytes);
  } else {
    runtime.known.Write(begin, {static_cast<const char*>(from), size});
  }
}

void cudartHostExpectData(void) { Runtime::Get().known.Expect(); }

void cudartHostHoldData(int begins) {
  KnownBytes& known = Runtime::Get().known;
  begins != 0 ? known.Hold() : known.Release();
}

long long cudartHostAssumedTime(int device) {
  const auto found = Runtime::Get().FindDevice(device);
  return found == nullptr ? 0 : found->clock().sum();
}

long long cudartHostAssumedEnd(int device) {
  const auto found = Runtime::Get().FindDevice(device);
  return found == nullptr ? 0 : found->clock().end();
}

void cudartHostBreakDevice(int device, int error) {
  const auto found = Runtime::Get().FindDevice(device);
  if (found != nullptr) found->Break(error);
}

int cudartHostTakeForLibrary(int device, long long bytes) {
  Runtime& runtime = Runtime::Get();
  const auto found = runtime.FindDevice(device);
  if (found == nullptr) return 0;
  found->FreeDueMemory();
  if (found->TakeForLibrary(bytes).ok()) return 1;
  runtime.record.Refused(device, bytes);
  return 0;
}

int cudartHostHasContext(int device) {
  const auto found = Runtime::Get().FindDevice(device);
  return found != nullptr && found->has_context() ? 1 : 0;
}

long long cudartHostFreeBytes(int device) {
  const auto found = Runtime::Get().FindDevice(device);
  if (found == nullptr) return -1;
  if (!found->has_context()) return found->memory_bytes();
  found->FreeDueMemory();
  return found->free_bytes();
}

void cudartHostHoldCopies(int device) {
  const auto found = Runtime::Get().FindDevice(device);
  if (found != nullptr) found->host().HoldCopies();
}

void cudartHostReleaseCopies(int device) {
  const auto found = Runtime::Get().FindDevice(device);
  if (found != nullptr) found->host().ReleaseCopies();
}

void cudartHostCountLive(CudartHostLive* live) {
  Runtime& runtime = Runtime::Get();
  const tidepool::locks::MutexLock lock(&runtime.reservations_mutex);
  live->streams = runtime.streams.size();
  live->events = runtime.events.size();
  live->allocations = runtime.memory.CountIf(
      [](const Region& region) { return region.kind != MemoryKind::kMapped; });
  live->reservations = static_cast<long long>(runtime.reservations.size());
  live->physical_handles = runtime.physical_handles.size();
  live->network_handles = 0;
  runtime.physical_handles.ForEach([&](const tidepool::cudart_host::PhysicalHandle& handle) {
    live->network_handles += handle.physical->is_for_network ? 1 : 0;
  });
  live->mappings = runtime.memory.CountIf(
      [](const Region& region) { return region.kind == MemoryKind::kMapped; });
}

}  // extern "C"
