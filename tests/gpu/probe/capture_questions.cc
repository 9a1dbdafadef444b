// SPDX-License-Identifier: Apache-2.0
// Captures of streams: questions about them, and calls of other threads meanwhile.
#include <thread>
#include <utility>

#include "tests/gpu/probe/driver.h"
#include "tests/gpu/probe/gate.h"
#include "tests/gpu/probe/probe.h"

namespace tidepool::probe {
namespace {

void AskIdOfCapturing() {
  cudaStream_t stream = NewStream();
  Code("begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  int device = -1;
  unsigned long long id = 0;
  unsigned flags = 0;
  Code("get_device", cudaStreamGetDevice(stream, &device));
  Code("get_id", cudaStreamGetId(stream, &id));
  Code("get_flags", cudaStreamGetFlags(stream, &flags));
  cudaGraph_t graph = nullptr;
  Code("end", cudaStreamEndCapture(stream, &graph));
  Code("last", cudaGetLastError());
}

// Asks about the legacy stream while another stream is captured.
void AskLegacy(unsigned flags) {
  cudaStream_t stream = NewStream(flags);
  cudaEvent_t event = NewEvent();
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  Code("is_capturing_legacy", cudaStreamIsCapturing(nullptr, &status));
  Say("status", status);
  Code("record_on_legacy", cudaEventRecord(event, nullptr));
  cudaGraph_t graph = nullptr;
  Code("end", cudaStreamEndCapture(stream, &graph));
}

using Call = std::function<int()>;

int QueryEvent() {
  static cudaEvent_t event = [] {
    cudaEvent_t made = NewEvent();
    cudaStream_t stream = NewStream();
    cudaEventRecord(made, stream);
    cudaStreamSynchronize(stream);
    return made;
  }();
  return cudaEventQuery(event);
}

int SynchronizeEvent() {
  cudaEvent_t event = NewEvent();
  cudaEventRecord(event, NewStream());
  return cudaEventSynchronize(event);
}

int Free() {
  void* memory = nullptr;
  cudaMalloc(&memory, 1 << 20);
  return cudaFree(memory);
}

int Fill() {
  static void* memory = [] {
    void* made = nullptr;
    cudaMalloc(&made, 4096);
    return made;
  }();
  return cudaMemsetAsync(memory, 0, 4096, NewStream());
}

int CreateMemory() {
  const CUmemAllocationProp properties = PropertiesOfMemory();
  CUmemGenericAllocationHandle handle;
  return TheDriver().create(&handle, Granule(), &properties, 0);
}

int AskPointer() {
  cudaPointerAttributes attributes = {};
  return cudaPointerGetAttributes(&attributes, &attributes);
}

int CreateEvent() {
  cudaEvent_t event = nullptr;
  return cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
}

int CreateStream() {
  cudaStream_t stream = nullptr;
  return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
}

int Malloc() {
  void* memory = nullptr;
  return cudaMalloc(&memory, 1 << 20);
}

int HostAlloc() {
  void* memory = nullptr;
  return cudaHostAlloc(&memory, 1 << 20, cudaHostAllocPortable);
}

int FreeHost() {
  void* memory = nullptr;
  cudaHostAlloc(&memory, 1 << 20, cudaHostAllocPortable);
  return cudaFreeHost(memory);
}

int GetInfo() {
  std::size_t free = 0;
  std::size_t total = 0;
  return cudaMemGetInfo(&free, &total);
}

int UnmapMemory() {
  const Pieces memory(1, Granule());
  return TheDriver().unmap(memory.address, Granule());
}

std::vector<std::pair<std::string, Call>> Calls() {
  return {{"event_query", QueryEvent},
          {"event_record", [] { return int{cudaEventRecord(NewEvent(), NewStream())}; }},
          {"event_create", CreateEvent},
          {"event_synchronize", SynchronizeEvent},
          {"device_synchronize", [] { return int{cudaDeviceSynchronize()}; }},
          {"stream_create", CreateStream},
          {"stream_synchronize", [] { return int{cudaStreamSynchronize(NewStream())}; }},
          {"stream_destroy", [] { return int{cudaStreamDestroy(NewStream())}; }},
          {"malloc", Malloc},
          {"free", Free},
          {"host_alloc", HostAlloc},
          {"free_host", FreeHost},
          {"mem_get_info", GetInfo},
          {"vmm_create", CreateMemory},
          {"vmm_reserve", [] { return Reserve(Granule()) == 0 ? 1 : 0; }},
          {"vmm_map", [] { return Pieces(1, Granule()).address == 0 ? 1 : 0; }},
          {"vmm_unmap", UnmapMemory},
          {"memset_async", Fill},
          {"host_func", [] { return int{cudaLaunchHostFunc(NewStream(), Nothing, nullptr)}; }},
          {"pointer_attributes", AskPointer}};
}

// Makes a call in another thread during a capture in global mode. A relaxed thread allows itself
// unsafe calls (bindings/torch/inside.h AllowInCapture).
void AskDuringCapture(const Call& call, bool relaxed) {
  call();  // warms up, so that its own effect alone is seen
  cudaGetLastError();
  cudaStream_t stream = NewStream();
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  int result = -1;
  std::thread([&] {
    cudaSetDevice(0);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    if (relaxed) cudaThreadExchangeStreamCaptureMode(&mode);
    result = call();
  }).join();
  Code("call", static_cast<cudaError_t>(result));
  cudaGraph_t graph = nullptr;
  Code("end", cudaStreamEndCapture(stream, &graph));
}

}  // namespace

void AskAboutCaptures() {
  Ask("stream_id_in_capture", AskIdOfCapturing);
  Ask("legacy_in_capture", [] { AskLegacy(cudaStreamNonBlocking); });
  Ask("legacy_in_blocking_capture", [] { AskLegacy(cudaStreamDefault); });
  for (const auto& [name, call] : Calls()) {
    Ask("in_capture_" + name + "_global", [call = call] { AskDuringCapture(call, false); });
    Ask("in_capture_" + name + "_relaxed", [call = call] { AskDuringCapture(call, true); });
  }
}

}  // namespace tidepool::probe
