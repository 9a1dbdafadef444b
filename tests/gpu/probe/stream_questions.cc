// SPDX-License-Identifier: Apache-2.0
// Streams and events: destroyed handles, queries, and streams that wait beside each other.
#include <atomic>

#include "tests/gpu/probe/driver.h"
#include "tests/gpu/probe/gate.h"
#include "tests/gpu/probe/probe.h"

namespace tidepool::probe {
namespace {

bool MakeUntilReused(cudaStream_t destroyed) {
  bool reused = false;
  for (int i = 0; i < 64; ++i) reused |= NewStream() == destroyed;
  return reused;
}

// Asks about a stream after its destruction, which CUDA's headers call undefined.
void AskDestroyed(bool make_others) {
  cudaStream_t stream = NewStream();
  unsigned long long id = 0;
  cudaStreamGetId(stream, &id);
  Code("destroy", cudaStreamDestroy(stream));
  Say("handle_given_again", make_others && MakeUntilReused(stream));
  int device = -1;
  Code("get_device", cudaStreamGetDevice(stream, &device));
  Say("device", device);
  unsigned long long new_id = 0;
  Code("get_id", cudaStreamGetId(stream, &new_id));
  Say("id_differs", id != new_id);
  unsigned flags = 0;
  Code("get_flags", cudaStreamGetFlags(stream, &flags));
  Code("last", cudaGetLastError());
  cudaStreamCaptureStatus status;
  Code("is_capturing", cudaStreamIsCapturing(stream, &status));
  Code("record", cudaEventRecord(NewEvent(), stream));
  Code("query", cudaStreamQuery(stream));
  Code("synchronize", cudaDeviceSynchronize());
}

void AskTwoHostFunctions() {
  cudaStream_t one = NewStream();
  cudaStream_t two = NewStream();
  cudaLaunchHostFunc(one, Nothing, nullptr);
  cudaDeviceSynchronize();
  static std::atomic<bool> ran{false};
  Block(one);
  cudaLaunchHostFunc(two, SetFlag, &ran);
  Say("run_at_once", Eventually([] { return ran.load(); }));
  OpenGate();
  cudaDeviceSynchronize();
}

constexpr int kStreams = 64;

// Returns the numbers of streams with events that have not happened.
std::string Unfinished(const std::vector<cudaEvent_t>& events) {
  std::string numbers;
  for (std::size_t i = 1; i < events.size(); ++i) {
    if (cudaEventQuery(events[i]) == cudaSuccess) continue;
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(i);
  }
  return numbers;
}

// A GPU has fewer hardware queues than streams (CUDA_DEVICE_MAX_CONNECTIONS), and one that waits
// holds up its queue.
void AskHeldUp() {
  void* memory = nullptr;
  cudaMalloc(&memory, 4096);
  std::vector<cudaStream_t> streams;
  std::vector<cudaEvent_t> events;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(NewStream());
    events.push_back(NewEvent());
  }
  cudaMemsetAsync(memory, 0, 4096, streams[1]);
  cudaDeviceSynchronize();
  Block(streams[0]);
  cudaMemsetAsync(memory, 1, 4096, streams[0]);
  for (std::size_t i = 1; i < kStreams; ++i) {
    cudaMemsetAsync(memory, 1, 4096, streams[i]);
    cudaEventRecord(events[i], streams[i]);
  }
  Eventually([&] { return Unfinished(events).empty(); });
  SayJson("held_up", "[" + Unfinished(events) + "]");
  OpenGate();
  cudaDeviceSynchronize();
}

void AskNotReady() {
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  Block(stream);
  cudaEventRecord(event, stream);
  Code("query", cudaEventQuery(event));
  Code("last", cudaGetLastError());
  Code("stream_query", cudaStreamQuery(stream));
  Code("last_2", cudaGetLastError());
  Say("query_not_ready_ns", NanosecondsOf([&] { cudaEventQuery(event); }));
  OpenGate();
  cudaDeviceSynchronize();
  Say("query_ready_ns", NanosecondsOf([&] { cudaEventQuery(event); }));
}

// A wait stands for the record before it, whichever stream records the event later.
void AskRecorded() {
  cudaStream_t blocked = NewStream();
  cudaStream_t waiting = NewStream();
  cudaStream_t free = NewStream();
  cudaEvent_t event = NewEvent();
  cudaEvent_t waited = NewEvent();
  Block(blocked);
  cudaEventRecord(event, blocked);
  cudaStreamWaitEvent(waiting, event, 0);
  cudaEventRecord(event, free);
  cudaEventRecord(waited, waiting);
  cudaStreamSynchronize(free);
  Code("re_recorded", cudaEventQuery(event));
  Code("waiter", cudaEventQuery(waited));
  OpenGate();
  cudaDeviceSynchronize();
  Code("waiter_after", cudaEventQuery(waited));
}

}  // namespace

void AskAboutStreams() {
  // lib/memory/device/cuda/cuda_streams.cc
  Ask("destroyed_stream", [] { AskDestroyed(false); });
  Ask("destroyed_stream_after_others", [] { AskDestroyed(true); });
  Ask("host_functions_of_two_streams", AskTwoHostFunctions);
  Ask("streams_held_up_by_a_waiting_one", AskHeldUp);
  Ask("not_ready", AskNotReady);
  Ask("event_stands_for_its_record", AskRecorded);
}

}  // namespace tidepool::probe
