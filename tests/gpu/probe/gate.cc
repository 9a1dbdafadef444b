// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/probe/gate.h"

#include <future>
#include <thread>

#include "tests/gpu/probe/probe.h"

namespace tidepool::probe {
namespace {

std::atomic<bool> open_gate{false};
std::atomic<bool> entered{false};

void PollSoon() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

void CUDART_CB WaitForGate(void*) {
  entered = true;
  while (!open_gate) PollSoon();
}

}  // namespace

void Block(cudaStream_t stream) {
  cudaLaunchHostFunc(stream, WaitForGate, nullptr);
  while (!entered) PollSoon();
}

void OpenGate() { open_gate = true; }

void CUDART_CB Nothing(void*) {}

void CUDART_CB SetFlag(void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }

Outcome CallUntilOpen(const std::function<int()>& call, const std::function<void()>& open) {
  std::promise<void> returned;
  Outcome outcome = {};
  std::thread opener([&, is_back = returned.get_future()] {
    outcome.waits = is_back.wait_for(Patience()) == std::future_status::timeout;
    open();
  });
  const auto begin = Clock::now();
  outcome.error = call();
  outcome.us = MicrosecondsSince(begin);
  returned.set_value();
  opener.join();
  return outcome;
}

}  // namespace tidepool::probe
