// SPDX-License-Identifier: Apache-2.0
// Calls that wait while a stream is held up, by a host function that waits
// (tests/memory/device/conformance.h Blocker, lib/copies/offload/compressed_copies.cc) or by a
// value in memory.
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/gpu/probe/driver.h"
#include "tests/gpu/probe/gate.h"
#include "tests/gpu/probe/probe.h"

namespace tidepool::probe {
namespace {

constexpr std::size_t kBytes = 1 << 20;

// The objects of the calls.
struct Objects {
  cudaStream_t blocked = NewStream();
  cudaStream_t other = NewStream();
  cudaEvent_t event = NewEvent();
  Pieces virtual_memory{1, Granule()};
  void* memory = nullptr;
  void* pinned = nullptr;
  void* pageable = std::aligned_alloc(4096, kBytes);

  Objects() {
    cudaMalloc(&memory, kBytes);
    cudaHostAlloc(&pinned, kBytes, cudaHostAllocPortable);
    std::memset(pageable, 1, kBytes);
    cudaMemsetAsync(memory, 0, 4096, other);
    cudaDeviceSynchronize();
  }
};

using Call = std::function<int(Objects&)>;
using Calls = std::vector<std::pair<std::string, Call>>;

int LaunchOnOther(Objects& its) { return cudaLaunchHostFunc(its.other, Nothing, nullptr); }
int LaunchOnBlocked(Objects& its) { return cudaLaunchHostFunc(its.blocked, Nothing, nullptr); }

int Malloc(Objects&) {
  void* memory = nullptr;
  return cudaMalloc(&memory, std::size_t{64} << 20);
}

int HostAlloc(Objects&) {
  void* memory = nullptr;
  return cudaHostAlloc(&memory, std::size_t{64} << 20, cudaHostAllocPortable);
}

int RecordAndQuery(Objects& its) {
  cudaEvent_t event = NewEvent();
  cudaEventRecord(event, its.other);
  Eventually([&] { return cudaEventQuery(event) != cudaErrorNotReady; });
  return cudaEventQuery(event);
}

int DestroyRecorded(Objects& its) {
  cudaEventRecord(its.event, its.blocked);
  return cudaEventDestroy(its.event);
}

int CopyAndWait(Objects& its) {
  cudaMemcpyAsync(its.pinned, its.memory, kBytes, cudaMemcpyDeviceToHost, its.other);
  return cudaStreamSynchronize(its.other);
}

int CopyPageable(Objects& its) {
  return cudaMemcpyAsync(its.pageable, its.memory, kBytes, cudaMemcpyDeviceToHost, its.other);
}

int CreateStream(Objects&) {
  cudaStream_t stream = nullptr;
  return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
}

int DestroyBlocked(Objects& its) { return cudaStreamDestroy(its.blocked); }

int GetInfo(Objects&) {
  std::size_t free = 0;
  std::size_t total = 0;
  return cudaMemGetInfo(&free, &total);
}

int Map(Objects&) { return Pieces(1, Granule()).address == 0 ? 1 : 0; }
int Unmap(Objects& its) { return TheDriver().unmap(its.virtual_memory.address, Granule()); }

int Release(Objects& its) {
  Unmap(its);
  return TheDriver().release(its.virtual_memory.handles[0]);
}

int FillBlocked(Objects& its) { return cudaMemsetAsync(its.memory, 1, kBytes, its.blocked); }

// More work than a queue of the GPU holds.
int FillBlockedOften(Objects& its) {
  int error = 0;
  for (int i = 0; i < 4000; ++i) error |= cudaMemsetAsync(its.memory, 1, 4096, its.blocked);
  return error;
}

int RegisterHost(Objects& its) {
  return cudaHostRegister(its.pageable, kBytes, cudaHostRegisterPortable);
}

int RunsOnOther(Objects& its) {
  static std::atomic<bool> ran{false};
  cudaLaunchHostFunc(its.other, SetFlag, &ran);
  return Eventually([] { return ran.load(); }) ? 0 : 1;
}

Calls BesideAHostFunction() {
  return {{"host_func_other_stream", LaunchOnOther},
          {"host_func_same_stream", LaunchOnBlocked},
          {"host_func_same_stream_twice",
           [](Objects& its) {
             LaunchOnBlocked(its);
             return LaunchOnBlocked(its);
           }},
          {"malloc", Malloc},
          {"free", [](Objects& its) { return int{cudaFree(its.memory)}; }},
          {"host_alloc", HostAlloc},
          {"free_host", [](Objects& its) { return int{cudaFreeHost(its.pinned)}; }},
          {"host_register", RegisterHost},
          {"event_create_record_query", RecordAndQuery},
          {"event_destroy", DestroyRecorded},
          {"stream_create", CreateStream},
          {"stream_destroy_other", [](Objects& its) { return int{cudaStreamDestroy(its.other)}; }},
          {"stream_destroy_blocked", DestroyBlocked},
          {"memset_blocked", FillBlocked},
          {"copy_other_and_wait", CopyAndWait},
          {"copy_pageable_other", CopyPageable},
          {"mem_get_info", GetInfo},
          {"vmm_create_map", Map},
          {"vmm_unmap", Unmap},
          {"vmm_release", Release},
          {"legacy_memset", [](Objects& its) { return int{cudaMemset(its.memory, 0, 4096)}; }},
          {"thousand_memsets_blocked", FillBlockedOften}};
}

Calls BesideAValue() {
  return {{"host_func_other_stream", LaunchOnOther},
          {"host_func_same_stream", LaunchOnBlocked},
          {"memset_blocked", FillBlocked},
          {"malloc", Malloc},
          {"host_alloc", HostAlloc},
          {"event_create_record_query", RecordAndQuery},
          {"copy_other_and_wait", CopyAndWait},
          {"vmm_create_map", Map},
          {"vmm_unmap", Unmap},
          {"host_func_runs_on_other", RunsOnOther},
          {"stream_destroy_blocked", DestroyBlocked},
          {"thousand_memsets_blocked", FillBlockedOften}};
}

void SayOutcome(const std::string& waits, const Outcome& outcome) {
  Say(waits, outcome.waits);
  Say("us", outcome.us);
  Code("call", static_cast<cudaError_t>(outcome.error));
}

void AskWhileHostWaits(const Call& call) {
  Objects objects;
  Block(objects.blocked);
  SayOutcome("waits_for_the_host_function", CallUntilOpen([&] { return call(objects); }, OpenGate));
  Code("end", cudaDeviceSynchronize());
}

// Returns a word that the host and the device see, at its address on the device.
std::pair<unsigned*, CUdeviceptr> SharedWord() {
  unsigned* word = nullptr;
  cudaHostAlloc(reinterpret_cast<void**>(&word), 4096, cudaHostAllocMapped | cudaHostAllocPortable);
  *word = 0;
  void* on_device = nullptr;
  Code("device_pointer", cudaHostGetDevicePointer(&on_device, word, 0));
  int can = -1;
  TheDriver().get_attribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0);
  Say("can_nor", can);
  Say("same_pointer", on_device == word);
  return {word, reinterpret_cast<CUdeviceptr>(on_device)};
}

void AskWhileStreamWaits(const Call& call) {
  constexpr unsigned kGo = 7;
  Objects objects;
  const auto [word, on_device] = SharedWord();
  using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
  const auto wait_value = reinterpret_cast<WaitValue>(DriverFunction("cuStreamWaitValue32"));
  Say("there", wait_value != nullptr);
  if (wait_value == nullptr) return;
  const auto begin = Clock::now();
  Code("wait_value", wait_value(objects.blocked, on_device, kGo, CU_STREAM_WAIT_VALUE_EQ));
  Say("wait_value_us", MicrosecondsSince(begin));
  cudaEventRecord(objects.event, objects.blocked);
  std::this_thread::sleep_for(
      std::chrono::milliseconds(20));  // in which a stream that does not wait gets done
  Code("still_waits", cudaEventQuery(objects.event));
  const auto open = [word = word] { *static_cast<volatile unsigned*>(word) = kGo; };
  SayOutcome("waits_for_the_value", CallUntilOpen([&] { return call(objects); }, open));
  const auto opened = Clock::now();
  Code("end", cudaDeviceSynchronize());
  Say("ends_after_us", MicrosecondsSince(opened));
}

}  // namespace

void AskAboutWaits() {
  for (const auto& [name, call] : BesideAHostFunction()) {
    Ask("while_host_waits_" + name, [call = call] { AskWhileHostWaits(call); });
  }
  for (const auto& [name, call] : BesideAValue()) {
    Ask("while_stream_waits_value_" + name, [call = call] { AskWhileStreamWaits(call); });
  }
}

}  // namespace tidepool::probe
