// SPDX-License-Identifier: Apache-2.0
// The probe asks a CUDA runtime and driver how they behave where tidepool relies on it. Each
// question is answered in a process of its own, with members of a JSON object, so that a crash is
// an answer too. There are no kernels: the stand-in answers as well.
#ifndef TIDEPOOL_TESTS_GPU_PROBE_PROBE_H_
#define TIDEPOOL_TESTS_GPU_PROBE_PROBE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tidepool::probe {

struct Question {
  std::string name;
  std::function<void()> ask;
};

// Adds a question. Its function calls Say and Code for the members of the answer.
void Ask(std::string name, std::function<void()> ask);
const std::vector<Question>& Questions();

// Each adds the questions of one file.
void AskAboutTheDevice();
void AskAboutStreams();
void AskAboutCaptures();
void AskAboutWaits();
void AskAboutVirtualMemory();
void AskAboutMemory();

// Adds a member to the answer: a number, or a text of JSON.
void Say(const std::string& key, double value);
void SayJson(const std::string& key, const std::string& json);
// Adds the name of an error. The driver's numbers are those of the runtime.
void Code(const std::string& key, cudaError_t error);
void Code(const std::string& key, CUresult error);
// Returns the members of the answer, separated by commas.
const std::string& Answer();

cudaStream_t NewStream(unsigned flags = cudaStreamNonBlocking);
cudaEvent_t NewEvent();

using Clock = std::chrono::steady_clock;
double MicrosecondsSince(Clock::time_point begin);
// Returns the nanoseconds of a call, after one call that warms up.
double NanosecondsOf(const std::function<void()>& call, int count = 2000);

// A call that takes longer waits: TIDEPOOL_PROBE_PATIENCE_MS, 800 without it.
std::chrono::milliseconds Patience();
// Waits until the condition holds, at most for half of the patience. Returns whether it holds.
bool Eventually(const std::function<bool()>& condition);

}  // namespace tidepool::probe

#endif  // TIDEPOOL_TESTS_GPU_PROBE_PROBE_H_
