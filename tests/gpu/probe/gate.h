// SPDX-License-Identifier: Apache-2.0
// Work that holds a stream until the host opens a gate.
#ifndef TIDEPOOL_TESTS_GPU_PROBE_GATE_H_
#define TIDEPOOL_TESTS_GPU_PROBE_GATE_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>

namespace tidepool::probe {

// Queues a host function that waits until OpenGate, and returns when it runs. A process has one
// gate.
void Block(cudaStream_t stream);
void OpenGate();

// Host functions of streams.
void CUDART_CB Nothing(void* unused);
void CUDART_CB SetFlag(void* flag);  // a std::atomic<bool>

struct Outcome {
  bool waits;  // the call returned only after `open` was called
  double us;
  int error;
};
// Makes a call while a stream is held up. Calls `open` when the call has returned, or when the
// patience ends.
Outcome CallUntilOpen(const std::function<int()>& call, const std::function<void()>& open);

}  // namespace tidepool::probe

#endif  // TIDEPOOL_TESTS_GPU_PROBE_GATE_H_
