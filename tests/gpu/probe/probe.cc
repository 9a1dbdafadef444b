// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/probe/probe.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace tidepool::probe {
namespace {

std::vector<Question>& AllQuestions() {
  static std::vector<Question> questions;
  return questions;
}

std::string& OwnAnswer() {
  static std::string answer;
  return answer;
}

}  // namespace

void Ask(std::string name, std::function<void()> ask) {
  AllQuestions().push_back({std::move(name), std::move(ask)});
}

const std::vector<Question>& Questions() { return AllQuestions(); }

void SayJson(const std::string& key, const std::string& json) {
  std::string& answer = OwnAnswer();
  if (!answer.empty()) answer += ", ";
  answer += "\"" + key + "\": " + json;
}

void Say(const std::string& key, double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.12g", value);
  SayJson(key, text);
}

void Code(const std::string& key, cudaError_t error) {
  SayJson(key, std::string("\"") + cudaGetErrorName(error) + "\"");
}

void Code(const std::string& key, CUresult error) { Code(key, static_cast<cudaError_t>(error)); }

const std::string& Answer() { return OwnAnswer(); }

cudaStream_t NewStream(unsigned flags) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, flags);
  return stream;
}

cudaEvent_t NewEvent() {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  return event;
}

double MicrosecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double NanosecondsOf(const std::function<void()>& call, int count) {
  call();
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) call();
  return MicrosecondsSince(begin) * 1e3 / count;
}

std::chrono::milliseconds Patience() {
  const char* const text = std::getenv("TIDEPOOL_PROBE_PATIENCE_MS");
  return std::chrono::milliseconds(text == nullptr ? 800 : std::atoi(text));
}

bool Eventually(const std::function<bool()>& condition) {
  const auto end = Clock::now() + Patience() / 2;
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace tidepool::probe
